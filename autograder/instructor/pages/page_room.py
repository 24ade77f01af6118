"""How much a page has room for: nbconvert parses each one it has made, and holds its tags at once.

A tag takes a few kilobytes there, and a class's pages are made by the process that has its grades.
So what would pass a page's share stands there as text, in one element.
"""

import functools
import html
from collections.abc import Callable, Mapping
from typing import Any, Final

import jinja2
from nbconvert.filters import Highlight2HTML, ansi2html, strip_ansi

MOST_TAGS: Final = 50_000
"""How many tags a page has room for; a graded notebook of this course has less than 10,000."""

FOR_ITSELF: Final = 5
"""How many tags stand around each thing that is shown."""

FOR_A_STYLE: Final = 10
"""As how many tags a style counts, which is read by itself."""

ENTITIES: Final = 4
"""How many entities count as a tag: each is read by itself, but nothing is held of it."""

LONG_CODE: Final = 2**15
"""The most characters of a cell's code that are coloured; those of this course have 3,000."""

TAKEN: Final = "shardlings_tags"
"""Under which name a page's resources have the number of tags that are taken."""


MOST_REMEMBERED: Final = 300
"""How many texts it is remembered of what was made of them: what an exercise asks stands on each
page of a class."""


def remembering(longest: int) -> Callable[[Callable[[str], str]], Callable[[str], str]]:
    """Have a function remember what it has made of texts of so many characters, and of shorter."""

    def of(function: Callable[[str], str]) -> Callable[[str], str]:
        kept = functools.lru_cache(MOST_REMEMBERED)(function)

        @functools.wraps(function)
        def remembered(text: str) -> str:
            return kept(text) if len(text) <= longest else function(text)

        return remembered

    return of


def has_room(context: Mapping[str, Any], more: int) -> bool:
    """Whether a page has room for so many tags more; they are taken then."""
    resources = context.get("resources", {})
    taken = resources.get(TAKEN, 0) + FOR_ITSELF
    fits: bool = taken + more <= MOST_TAGS
    resources[TAKEN] = taken + more * fits
    return fits


def tags(text: str) -> int:
    """How many tags HTML may have, and what counts as such."""
    styles = text.lower().count("style")
    return text.count("<") + text.count("&") // ENTITIES + FOR_A_STYLE * styles


@jinja2.pass_context
def coloured(context: Mapping[str, Any], source: str, metadata: Any = None) -> str:
    """A cell's code, in colours where it is not very long."""
    if len(source) > LONG_CODE:
        return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
    made = _in_colours(source)
    return made if has_room(context, tags(made)) else f"<pre>{html.escape(source)}</pre>"


@remembering(2**12)
def _in_colours(source: str) -> str:
    return str(Highlight2HTML(pygments_lexer="ipython3")(source))


@jinja2.pass_context
def printed(context: Mapping[str, Any], text: str) -> str:
    """What a cell printed, in the colours that it asked for."""
    made = (
        ansi2html(text) if has_room(context, text.count("\x1b")) else html.escape(strip_ansi(text))
    )
    return str(made)
