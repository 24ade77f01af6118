"""Clean what strangers wrote before it is shown, in feedback pages and in Formgrader.

A script in a notebook would run in the session of the person who looks at it, and the instructor's
session can change grades. nbconvert has a filter for HTML, but nbgrader's templates apply it only
in part, and it removes pictures. These filters replace it. Of styles, only plain values are kept,
so nothing can be laid over the rest of a page.

A page's size is limited, too: nbconvert parses the pages that it makes, and holds their tags in
memory, a few kilobytes each, in the process that has the grades. What exceeds the limit is shown as
text.
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

from autograder.instructor.commands import show_invisible_characters
from autograder.instructor.course import BASE64, MAX_PICTURE_CHARACTERS, PICTURE_TYPES

WORD: Final = r"[a-z]+(-[a-z]+)*"
COLOUR: Final = rf"#[0-9a-f]{{3,8}}|{WORD}|rgba?\([\d., %]{{5,40}}\)"
SMALL: Final = r"0|[0-3]?\d(\.\d+)?(px|pt)|[0-2](\.\d+)?r?em"
AROUND: Final = rf"({SMALL})( ({SMALL})){{0,3}}"
IN_CONTAINER: Final = r"min\(\d{1,2}em, 100cqw - \d{2}px\)"
"""A width that is never more than that of the container."""

VALUES: Final = {
    name: re.compile(pattern, re.IGNORECASE)
    for pattern, names in {
        WORD: ("align-items", "border-collapse", "flex-wrap", "overflow-wrap", "text-align",
               "text-decoration", "vertical-align", "white-space"),
        COLOUR: ("background-color", "color"),
        AROUND: ("gap", "margin", "padding"),
        rf"({SMALL}) {WORD} ({COLOUR})": ("border-left",),
        r"100%": ("min-width",),
        r"block|flex|inline|inline-block|none": ("display",),
        rf"{SMALL}|{WORD}|[1-9]\d%": ("font-size",),
        rf"{WORD}|[1-9]00": ("font-weight",),
        SMALL: ("height", "min-height"),
        r"0?\.\d+|0|1": ("opacity",),
        rf"{SMALL}|\d{{1,3}}px|\d{{1,2}}(\.\d+)?%|100%": ("max-width",),
        rf"{SMALL}|\d{{1,3}}px|\d{{1,2}}(\.\d+)?%|100%|{IN_CONTAINER}": ("width",),
        r"inline-size": ("container-type",),
    }.items()
    for name in names
}  # fmt: skip
"""CSS properties that are kept, and their values: nothing negative, small margins."""

MAX_STYLE_CHARACTERS: Final = 300
"""Parsing a style takes time; a verdict has styles of 100 characters."""

GROWING: Final = {"height": "min-height"}
"""Properties that are replaced: content higher than its block would cover the next one."""


def _plain_style(style: str) -> str:
    """Return the declarations of a style whose properties and values are known."""
    if len(style) > MAX_STYLE_CHARACTERS:
        return ""
    declared = (each.partition(":") for each in style.split(";"))
    plain = ((name.strip().lower(), value.strip()) for name, _, value in declared)
    return ";".join(
        f"{GROWING.get(name, name)}:{value}" for name, value in plain if _is_plain(name, value)
    )


def _is_plain(name: str, value: str) -> Any:
    return name in VALUES and VALUES[name].fullmatch(value)


MAX_TAGS: Final = 50_000
"""The most tags on a page; a graded notebook of this course has less than 10,000."""

TAGS_AROUND: Final = 5
"""The tags around each cell or output."""

TAGS_PER_STYLE: Final = 10
"""A style counts as this many tags, because it is parsed separately."""

ENTITIES_PER_TAG: Final = 4
"""This many entities count as a tag: each is parsed, but not kept in memory."""

LONG_CODE: Final = 2**15
"""The most characters of a cell that are highlighted; this course's cells have up to 3,000."""

LONG_LINE: Final = 1000
"""The most characters of a line that is highlighted: pygments takes quadratic time."""

MAX_HIGHLIGHTED_CHARACTERS: Final = 2**16
"""The most characters of code that are highlighted on a page."""

TAG_COUNT_KEY, CODE_COUNT_KEY = "shardlings_tags", "shardlings_code"
"""The keys of a page's resources that count its tags, and the characters of highlighted code."""


MAX_CACHED_TEXTS: Final = 300
"""The size of a cache: many texts, such as exercises' prompts, are on each page of a class."""


def cache_up_to(longest: int) -> Callable[[Callable[[str], str]], Callable[[str], str]]:
    """Return a decorator that caches a function's results for texts up to a length."""

    def decorate(function: Callable[[str], str]) -> Callable[[str], str]:
        cached = functools.lru_cache(MAX_CACHED_TEXTS)(function)

        @functools.wraps(function)
        def cached_if_short(text: str) -> str:
            return cached(text) if len(text) <= longest else function(text)

        return cached_if_short

    return decorate


def has_room(context: Mapping[str, Any], more: int) -> bool:
    """Check whether a page has room for more tags, and reserve them if it does.

    Args:
        context: has nbconvert's resources, which count the page's tags.
        more: the number of tags.
    """
    resources = context.get("resources", {})
    taken = resources.get(TAG_COUNT_KEY, 0) + TAGS_AROUND
    fits: bool = taken + more <= MAX_TAGS
    resources[TAG_COUNT_KEY] = taken + more * fits
    return fits


def count_tags(text: str) -> int:
    """Return the number of tags in HTML, with styles and entities counted as tags."""
    styles = text.lower().count("style")
    return text.count("<") + text.count("&") // ENTITIES_PER_TAG + TAGS_PER_STYLE * styles


@jinja2.pass_context
def highlight_code(context: Mapping[str, Any], source: str, metadata: Any = None) -> str:
    """Return a cell's code as HTML, highlighted if that takes little time."""
    source = show_invisible_characters(source)
    resources = context.get("resources", {})
    highlighted = resources.get(CODE_COUNT_KEY, 0) + len(source)
    if (
        len(source) > LONG_CODE
        or max(map(len, source.splitlines()), default=0) > LONG_LINE
        or highlighted > MAX_HIGHLIGHTED_CHARACTERS
        or not has_room(context, 0)
    ):
        return _without_colours(source)
    resources[CODE_COUNT_KEY] = highlighted
    made = _in_colours(source)
    return made if has_room(context, count_tags(made)) else _without_colours(source)


def _without_colours(source: str) -> str:
    return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'


@cache_up_to(2**12)
def _in_colours(source: str) -> str:
    return str(Highlight2HTML(pygments_lexer="ipython3")(source))


@jinja2.pass_context
def render_printed_text(context: Mapping[str, Any], text: str) -> str:
    """Return printed text as HTML, in the colours that its escape sequences ask for."""
    made = (
        ansi2html(text) if has_room(context, text.count("\x1b")) else html.escape(strip_ansi(text))
    )
    return show_invisible_characters(str(made))


LONG_HTML: Final = 2**19
"""The most characters of HTML that are parsed; a collective in motion has a little over 2**18."""

LONG_MARKDOWN: Final = 2**13
"""The most characters of markdown that are rendered: nbconvert takes quadratic time."""

MARKDOWN_CHARACTERS_PER_TAG: Final = 8
"""This many characters of markdown count as a tag."""

FORMATTING: Final = re.compile(
    r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE
)
"""Matches formatting tags: a parser reopens an unclosed one in each block after it."""

MAX_REOPENED: Final = 300_000
"""The most formatting tags that a parser may have to reopen; verdicts stay far below."""

MAX_NESTED_TAGS: Final = 20_000
"""The most tags that are parsed at once: parsing one may look at all that it is nested in."""

DRAWN: Final = (
    "svg", "g", "polygon", "path", "line", "rect", "circle", "text", "tspan", "image",
)  # fmt: skip

TAGS: Final = {
    *DRAWN, "a", "abbr", "acronym", "b", "blockquote", "br", "code", "dd", "del", "details", "div",
    "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p",
    "pre", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr",
    "ul",
}  # fmt: skip


EMBEDDED: Final = re.compile(r"data:image/(png|jpeg|gif);base64,")
PICTURE: Final = re.compile(rf"{EMBEDDED.pattern}|attachment:")
REFERENCE: Final = re.compile(r'src="attachment:([^"]*)"')
"""Matches a reference to a cell's attachment in clean HTML."""
HIGHLIGHTED: Final = re.compile(r"highlight|hl-\w+|[a-z]{1,2}\d?")
ABSOLUTE: Final = re.compile(r"https?://[^/]|#")
"""Matches links that cannot lead to submitted files, which Formgrader serves, too."""


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
ATTRIBUTES["image"] |= {"href"}


def _kept(tag: str, name: str, value: str) -> str | None:
    """Return the safe part of an attribute's value; None if there is none.

    Classes are restricted because Bootstrap has some that cover a page; sources of pictures,
    because a browser would load them from elsewhere.
    """
    match name:
        case "class":
            return value if all(map(HIGHLIGHTED.fullmatch, value.split())) else None
        case "style":
            return _plain_style(value)
        case "href" if tag == "image":
            return value if EMBEDDED.match(value) else None
        case "href":
            return value if ABSOLUTE.match(value) else None
        case "src":
            return value if PICTURE.match(value) else None
    return value


def clean(element: object) -> str:
    """Return HTML without anything that could run, load, or cover the rest of the page."""
    text = show_invisible_characters(_text(element))
    if len(text) > LONG_HTML:
        return f"<em>{len(text):,} characters of HTML are too many to be shown.</em>"
    opened = text.count("<")
    if opened > MAX_NESTED_TAGS or len(FORMATTING.findall(text)) * opened > MAX_REOPENED:
        return f"<pre>{html.escape(text)}</pre>"
    return _cleaned(text)


@cache_up_to(2**16)
def _cleaned(text: str) -> str:
    """Clean HTML that is neither too long nor too deeply nested to be parsed."""
    cleaned = nh3.clean(
        text,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_kept,
        url_schemes={"http", "https", "data", "attachment"},
        link_rel=None,
    )
    return show_invisible_characters(cleaned)  # some were written as entities


class AttachmentKeepingRenderer(IPythonRenderer):
    """Leave references to attachments as they are; they are resolved after the cleaning."""

    def _embed_image_or_attachment(self, src: str) -> str:
        return src


@cache_up_to(LONG_MARKDOWN)
def _rendered(source: str) -> str:
    renderer = AttachmentKeepingRenderer(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


@jinja2.pass_context
def render_markdown(context: Mapping[str, Any], source: str) -> str:
    """Return markdown as clean HTML, or verbatim if it is too long or cannot be rendered."""
    try:
        at_most = len(source) // MARKDOWN_CHARACTERS_PER_TAG
        if len(source) <= LONG_MARKDOWN and has_room(context, at_most):
            rendered = _rendered(source)
            if has_room(context, count_tags(rendered)):
                pictures = context.get("cell", {}).get("attachments", {})
                return _with_pictures(clean(rendered), pictures)
    except Exception:  # for example, it refers to an attachment that is missing
        pass
    return f"<pre>{html.escape(show_invisible_characters(source))}</pre>"


def _with_pictures(cleaned: str, attachments: Mapping[str, Mapping[str, str]]) -> str:
    """Return clean HTML with its attachments embedded, if they are pictures of a known type.

    Raises:
        LookupError: an attachment is missing.
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
    """Return clean HTML if the page has room for it, and otherwise its source."""
    text = _text(element)
    if has_room(context, count_tags(text)):
        return clean(text)
    return f"<pre>{html.escape(show_invisible_characters(text))}</pre>"


def _text(element: object) -> str:
    return element.decode() if isinstance(element, bytes) else str(element)


FILTERS: Final = {
    "clean_html": clean_within,
    "markdown2html": render_markdown,
    "highlight_code": highlight_code,
    "ansi2html": render_printed_text,
}
"""nbconvert's names of the filters."""
