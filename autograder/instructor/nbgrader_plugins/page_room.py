"""How much a page has room for: nbconvert parses each one it has made, and holds its tags at once.

A tag takes a few kilobytes there, and a class's pages are made by the process that has its grades.
So what would pass a page's share stands there as text, in one element.
"""

import html
from collections.abc import Mapping
from typing import Any, Final

import jinja2
from nbconvert.filters import Highlight2HTML, ansi2html, strip_ansi

MOST_TAGS: Final = 50_000
"""How many tags a page has room for; a graded notebook of this course has less than 10,000."""

FOR_ITSELF: Final = 5
"""How many tags stand around each thing that is shown."""

FOR_A_STYLE: Final = 10
"""As how many tags a style counts, which is read by itself."""

LONG_CODE: Final = 2**15
"""The most characters of a cell's code that are coloured; those of this course have 3,000."""

TAKEN: Final = "shardlings_tags"
"""Under which name a page's resources have the number of tags that are taken."""


def has_room(context: Mapping[str, Any], more: int) -> bool:
    """Whether a page has room for so many tags more; they are taken then."""
    resources = context.get("resources", {})
    taken = resources.get(TAKEN, 0) + FOR_ITSELF
    fits: bool = taken + more <= MOST_TAGS
    resources[TAKEN] = taken + more * fits
    return fits


def tags(text: str) -> int:
    """How many tags HTML may have, and what counts as such."""
    return text.count("<") + FOR_A_STYLE * text.lower().count("style")


@jinja2.pass_context
def coloured(context: Mapping[str, Any], source: str, metadata: Any = None) -> str:
    """A cell's code, in colours where it is not very long."""
    if len(source) > LONG_CODE:
        return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
    made = str(Highlight2HTML(pygments_lexer="ipython3")(source, metadata=metadata))
    return made if has_room(context, tags(made)) else f"<pre>{html.escape(source)}</pre>"


@jinja2.pass_context
def printed(context: Mapping[str, Any], text: str) -> str:
    """What a cell printed, in the colours that it asked for."""
    made = (
        ansi2html(text) if has_room(context, text.count("\x1b")) else html.escape(strip_ansi(text))
    )
    return str(made)
