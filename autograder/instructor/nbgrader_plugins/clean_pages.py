"""What strangers wrote, made fit to be shown: in feedback pages, and in Formgrader.

A script in a notebook would run in the session of whoever looks at it, and the instructor's can
change grades. nbconvert has filters to clean what it shows, but nbgrader's templates use one in
part only, and it takes no pictures. These take their place.
"""

import html
import re
from collections.abc import Mapping
from typing import Any, Final

import bleach
import jinja2
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.instructor.nbgrader_plugins.plain_styles import PlainStyles

LONG_HTML: Final = 2**18
"""The most characters of HTML that are parsed; a verdict with its pictures takes 2**16."""

LONG_MARKDOWN: Final = 2**13
"""The most characters of markdown that are rendered: nbconvert takes their square in time."""

FORMATTING: Final = re.compile(
    r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE
)
"""What a parser of HTML opens again in each block that comes after it, until it is closed."""

MOST_REOPENED: Final = 300_000
"""How often it may have to, at most; a verdict with its pictures stays far below."""

DRAWN: Final = ("svg", "g", "polygon", "path", "line", "rect", "circle", "text")

TAGS: Final = (
    *bleach.ALLOWED_TAGS, *DRAWN, "br", "code", "dd", "del", "div", "dl", "dt", "h1", "h2", "h3",
    "h4", "h5", "h6", "hr", "img", "kbd", "p", "pre", "span", "sub", "sup",
    "table", "tbody", "td", "th", "thead", "tr",
)  # fmt: skip


PICTURE: Final = re.compile(r"data:image/(png|jpeg|gif);base64,")
HIGHLIGHTED: Final = re.compile(r"highlight|hl-\w+|[a-z]{1,2}\d?")
ABSOLUTE: Final = re.compile(r"https?://[^/]|#")
"""How a link begins that cannot lead to what was handed in: Formgrader serves that, too."""


def _anywhere(_: str, name: str, value: str) -> bool:
    """Whether an attribute of any element can stay: Bootstrap has classes that cover a page."""
    if name == "class":
        return all(map(HIGHLIGHTED.fullmatch, value.split()))
    return name in ("aria-label", "role", "style", "title")


def _of_link(tag: str, name: str, value: str) -> bool:
    return _anywhere(tag, name, value) or (name == "href" and ABSOLUTE.match(value) is not None)


def _of_picture(_: str, name: str, value: str) -> bool:
    """Whether a picture's attribute can stay: it brings itself, or would be asked for elsewhere."""
    return name in ("alt", "width") or (name == "src" and PICTURE.match(value) is not None)


ATTRIBUTES: Final = {
    "*": _anywhere,
    "a": _of_link,
    "img": _of_picture,
    **{
        tag: [
            "cx", "cy", "d", "fill", "font-family", "font-size", "height", "points", "r", "stroke",
            "stroke-width", "text-anchor", "transform", "viewBox", "width", "x", "x1", "x2",
            "xmlns", "y", "y1", "y2",
        ]
        for tag in DRAWN
    },
}  # fmt: skip


def clean(element: object) -> str:
    """HTML without what could run, load or lay itself over the rest of the page."""
    text = element.decode() if isinstance(element, bytes) else str(element)
    if len(text) > LONG_HTML:
        return f"<em>{len(text):,} characters of HTML are too many to be shown.</em>"
    if len(FORMATTING.findall(text)) * text.count("<") > MOST_REOPENED:
        return f"<pre>{html.escape(text)}</pre>"
    cleaned = bleach.clean(
        text,
        tags=TAGS,
        attributes=ATTRIBUTES,
        protocols=[*bleach.ALLOWED_PROTOCOLS, "data"],
        css_sanitizer=PlainStyles(),
        strip=True,
    )
    return str(cleaned)


@jinja2.pass_context
def markdown(context: Mapping[str, Any], source: str) -> str:
    """A cell's markdown as clean HTML; as it stands, where it is very long or cannot be read."""
    attachments = context.get("cell", {}).get("attachments", {})
    renderer = IPythonRenderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    try:
        if len(source) <= LONG_MARKDOWN:
            return clean(MarkdownWithMath(renderer=renderer).render(source))
    except Exception:  # it names a picture that it has not brought, perhaps
        pass
    return f"<pre>{html.escape(source)}</pre>"


FILTERS: Final = {"clean_html": clean, "markdown2html": markdown}
"""nbconvert's names for them."""
