"""Clean what strangers wrote before it is shown, in feedback pages and in Formgrader.

A script in a notebook would run in the session of the person who looks at it, and the instructor's
session can change grades. nbconvert has a filter for HTML, but nbgrader's templates apply it only
in part, and it removes pictures. These filters replace it. Of styles, only plain values are kept,
so nothing can be laid over the rest of a page.

A page also has a size: nbconvert parses each one it has made and holds its tags in memory, a few
kilobytes each, in the process that has the grades. What exceeds a page's share is shown as text.
"""

import functools
import html
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import jinja2
import nh3
from nbconvert.filters import Highlight2HTML, ansi2html, strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.instructor.course import BASE64, MAX_PICTURE_CHARACTERS, PICTURE_TYPES

WORD: Final = r"[a-z]+(-[a-z]+)*"
COLOUR: Final = rf"#[0-9a-f]{{3,8}}|{WORD}|rgba?\([\d., %]{{5,40}}\)"
SMALL: Final = r"0|[0-3]?\d(\.\d+)?(px|pt)|[0-2](\.\d+)?r?em"
AROUND: Final = rf"({SMALL})( ({SMALL})){{0,3}}"

VALUES: Final = {
    name: re.compile(pattern, re.IGNORECASE)
    for pattern, names in {
        WORD: ("align-items", "border-collapse", "flex-wrap", "overflow-wrap", "text-align",
               "vertical-align", "white-space"),
        COLOUR: ("background-color", "color"),
        AROUND: ("gap", "margin", "padding"),
        rf"({SMALL}) {WORD} ({COLOUR})": ("border-left",),
        r"block|flex|inline|inline-block|none": ("display",),
        rf"{SMALL}|{WORD}|[1-9]\d%": ("font-size",),
        rf"{WORD}|[1-9]00": ("font-weight",),
        SMALL: ("height", "min-height"),
        r"0?\.\d+|0|1": ("opacity",),
        rf"{SMALL}|\d{{1,3}}px|\d{{1,2}}(\.\d+)?%|100%": ("max-width", "width"),
    }.items()
    for name in names
}  # fmt: skip
"""What may be styled, and what with: no functions, nothing negative, and nothing large around."""

LONG_STYLE: Final = 300
"""The most characters of a style: to take one apart takes a while, and a verdict's have 60."""

GROWING: Final = {"height": "min-height"}
"""What becomes another property: what is higher than its own block would lie over the next one."""


def _plain_style(style: str) -> str:
    """The declarations of a style that are known, of values that are known."""
    if len(style) > LONG_STYLE:
        return ""
    declared = (each.partition(":") for each in style.split(";"))
    plain = ((name.strip().lower(), value.strip()) for name, _, value in declared)
    return ";".join(
        f"{GROWING.get(name, name)}:{value}" for name, value in plain if _is_plain(name, value)
    )


def _is_plain(name: str, value: str) -> Any:
    return name in VALUES and VALUES[name].fullmatch(value)


MAX_TAGS: Final = 50_000
"""A graded notebook of this course has less than 10,000."""

FOR_ITSELF: Final = 5
"""How many tags stand around each thing that is shown."""

FOR_A_STYLE: Final = 10
"""As how many tags a style counts, which is read by itself."""

ENTITIES: Final = 4
"""How many entities count as a tag: each is read by itself, but nothing is held of it."""

LONG_CODE: Final = 2**15
"""The most characters of a cell's code that are coloured; those of this course have 3,000."""

TAG_COUNT_KEY: Final = "shardlings_tags"
"""The key of a page's resources that counts its tags."""


MAX_REMEMBERED_TEXTS: Final = 300
"""A cache: what an exercise asks stands on each page of a class."""


def remembering(longest: int) -> Callable[[Callable[[str], str]], Callable[[str], str]]:
    """Have a function remember what it has made of texts of so many characters, and of shorter."""

    def of(function: Callable[[str], str]) -> Callable[[str], str]:
        kept = functools.lru_cache(MAX_REMEMBERED_TEXTS)(function)

        @functools.wraps(function)
        def remembered(text: str) -> str:
            return kept(text) if len(text) <= longest else function(text)

        return remembered

    return of


def has_room(context: Mapping[str, Any], more: int) -> bool:
    """Whether a page has room for so many tags more; they are taken then."""
    resources = context.get("resources", {})
    taken = resources.get(TAG_COUNT_KEY, 0) + FOR_ITSELF
    fits: bool = taken + more <= MAX_TAGS
    resources[TAG_COUNT_KEY] = taken + more * fits
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


LONG_HTML: Final = 2**18
"""The most characters of HTML that are parsed; a verdict with its pictures takes 2**16."""

LONG_MARKDOWN: Final = 2**13
"""The most characters of markdown that are rendered: nbconvert takes their square in time."""

LETTERS: Final = 8
"""How many characters of markdown count as a tag, whatever becomes of them."""

FORMATTING: Final = re.compile(
    r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE
)
"""What a parser of HTML opens again in each block that comes after it, until it is closed."""

MAX_REOPENED: Final = 300_000
"""How often it may have to, at most; a verdict with its pictures stays far below."""

MAX_NESTED_TAGS: Final = 20_000
"""The most tags that are parsed at once: each may look at all that it is in."""

DRAWN: Final = ("svg", "g", "polygon", "path", "line", "rect", "circle", "text", "tspan")

TAGS: Final = {
    *DRAWN, "a", "abbr", "acronym", "b", "blockquote", "br", "code", "dd", "del", "details", "div",
    "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p",
    "pre", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr",
    "ul",
}  # fmt: skip


PICTURE: Final = re.compile(r"data:image/(png|jpeg|gif);base64,|attachment:")
REFERENCE: Final = re.compile(r'src="attachment:([^"]*)"')
"""A picture that lies beside a cell's text, as it stands in clean HTML."""
HIGHLIGHTED: Final = re.compile(r"highlight|hl-\w+|[a-z]{1,2}\d?")
ABSOLUTE: Final = re.compile(r"https?://[^/]|#")
"""How a link begins that cannot lead to what was handed in: Formgrader serves that, too."""


ATTRIBUTES: Final = {
    "*": {"aria-label", "class", "role", "style", "title"},
    "a": {"href"},
    "details": {"open"},  # it stands open, too: nobody unfolds what is printed
    "img": {"alt", "src", "width"},
    **{
        tag: {
            "cx", "cy", "d", "fill", "fill-opacity", "font-family", "font-size", "font-weight",
            "height", "points", "r", "rx", "stroke", "stroke-dasharray", "stroke-opacity",
            "stroke-width", "text-anchor", "transform", "viewBox", "width", "x", "x1", "x2",
            "xmlns", "y", "y1", "y2",
        }
        for tag in DRAWN
    },
}  # fmt: skip


def _kept(_: str, name: str, value: str) -> str | None:
    """What of an attribute can stay; None where nothing can.

    Bootstrap has classes that cover a page, and a picture that does not bring itself would be asked
    for elsewhere.
    """
    match name:
        case "class":
            return value if all(map(HIGHLIGHTED.fullmatch, value.split())) else None
        case "style":
            return _plain_style(value)
        case "href":
            return value if ABSOLUTE.match(value) else None
        case "src":
            return value if PICTURE.match(value) else None
    return value


def clean(element: object) -> str:
    """HTML without what could run, load or lay itself over the rest of the page."""
    text = _text(element)
    if len(text) > LONG_HTML:
        return f"<em>{len(text):,} characters of HTML are too many to be shown.</em>"
    opened = text.count("<")
    if opened > MAX_NESTED_TAGS or len(FORMATTING.findall(text)) * opened > MAX_REOPENED:
        return f"<pre>{html.escape(text)}</pre>"
    return _cleaned(text)


@remembering(2**16)
def _cleaned(text: str) -> str:
    """Clean HTML, of some that is neither too long nor too deep to be parsed."""
    return nh3.clean(
        text,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_kept,
        url_schemes={"http", "https", "data", "attachment"},
        link_rel=None,
    )


class Referring(IPythonRenderer):
    """Leaves pictures that lie beside the text where they are, for whoever has cleaned it."""

    def _embed_image_or_attachment(self, src: str) -> str:
        return src


@remembering(LONG_MARKDOWN)
def _rendered(source: str) -> str:
    renderer = Referring(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


@jinja2.pass_context
def markdown(context: Mapping[str, Any], source: str) -> str:
    """A cell's markdown as clean HTML; as it stands, where it is very long or cannot be read."""
    try:
        if len(source) <= LONG_MARKDOWN and has_room(context, len(source) // LETTERS):
            rendered = _rendered(source)
            if has_room(context, tags(rendered)):
                pictures = context.get("cell", {}).get("attachments", {})
                return _with_pictures(clean(rendered), pictures)
    except Exception:  # it names a picture that it has not brought, perhaps
        pass
    return f"<pre>{html.escape(source)}</pre>"


def _with_pictures(cleaned: str, attachments: Mapping[str, Mapping[str, str]]) -> str:
    """Clean HTML with the pictures that it refers to, of a known kind and spelling.

    Raises:
        LookupError: one of them is missing.
    """
    room = MAX_PICTURE_CHARACTERS

    def picture(reference: re.Match[str]) -> str:
        nonlocal room
        name = html.unescape(reference[1])
        forms = attachments.get(name) or attachments[unquote(name)]
        kind, text = next(iter(forms.items()))
        room -= len(text)
        is_plain = kind in PICTURE_TYPES and BASE64.fullmatch(text)
        return f'src="data:{kind};base64,{text}"' if is_plain and room >= 0 else ""

    return REFERENCE.sub(picture, cleaned)


@jinja2.pass_context
def clean_within(context: Mapping[str, Any], element: object) -> str:
    """Clean HTML where a page has room for it, and else as it stands."""
    text = _text(element)
    return clean(text) if has_room(context, tags(text)) else f"<pre>{html.escape(text)}</pre>"


def _text(element: object) -> str:
    return element.decode() if isinstance(element, bytes) else str(element)


FILTERS: Final = {
    "clean_html": clean_within,
    "markdown2html": markdown,
    "highlight_code": coloured,
    "ansi2html": printed,
}
"""nbconvert's names for them."""
