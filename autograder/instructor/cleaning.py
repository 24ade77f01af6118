"""What strangers wrote, made fit to be shown: in feedback pages, and in Formgrader.

A script in a notebook would run in the session of whoever looks at it, and the instructor's can
change grades. nbconvert has filters to clean what it shows, but nbgrader's templates use one in
part only, and it takes no pictures. These take their place.
"""

import html
from typing import Final

import bleach
import jinja2
from bleach.css_sanitizer import CSSSanitizer
from nbconvert.filters import markdown2html

LONG_HTML: Final = 2**18
"""The most characters of HTML that are parsed; a verdict with its pictures takes 2**16."""

LONG_MARKDOWN: Final = 2**13
"""The most characters of markdown that are rendered: nbconvert takes their square in time."""

DRAWN: Final = ("svg", "g", "polygon", "path", "line", "rect", "circle", "text")

TAGS: Final = (
    *bleach.ALLOWED_TAGS, *DRAWN, "br", "code", "dd", "del", "div", "dl", "dt", "h1", "h2", "h3",
    "h4", "h5", "h6", "hr", "img", "p", "pre", "span", "table", "tbody", "td", "th", "thead", "tr",
)  # fmt: skip


def _is_picture(name: str, value: str) -> bool:
    """Whether an attribute brings the picture with it: another would be asked for elsewhere."""
    return name == "src" and value.startswith("data:image/png;base64,")


ATTRIBUTES: Final = {
    "*": ["aria-label", "class", "role", "style", "title"],
    "a": lambda _, name, value: name == "href" and not value.lstrip().startswith("data:"),
    "img": lambda _, name, value: name in ("alt", "width") or _is_picture(name, value),
    **{
        tag: [
            "cx", "cy", "d", "fill", "font-family", "font-size", "height", "points", "r", "stroke",
            "stroke-width", "text-anchor", "transform", "viewBox", "width", "x", "x1", "x2",
            "xmlns", "y", "y1", "y2",
        ]
        for tag in DRAWN
    },
}  # fmt: skip

STYLES: Final = CSSSanitizer(
    allowed_css_properties=(
        "align-items", "background-color", "border-collapse", "border-left", "color", "display",
        "flex-wrap", "font-size", "font-weight", "gap", "height", "margin", "opacity", "padding",
        "text-align", "vertical-align", "white-space", "width",
    )
)  # fmt: skip


def clean(element: object) -> str:
    """HTML without what could run, load or lay itself over the rest of the page."""
    text = element.decode() if isinstance(element, bytes) else str(element)
    if len(text) > LONG_HTML:
        return f"<em>{len(text):,} characters of HTML are too many to be shown.</em>"
    cleaned = bleach.clean(
        text,
        tags=TAGS,
        attributes=ATTRIBUTES,
        protocols=[*bleach.ALLOWED_PROTOCOLS, "data"],
        css_sanitizer=STYLES,
        strip=True,
    )
    return str(cleaned)


@jinja2.pass_context
def markdown(_: object, source: str) -> str:
    """Markdown as clean HTML; a very long text as it stands."""
    if len(source) > LONG_MARKDOWN:
        return f"<pre>{html.escape(source)}</pre>"
    return clean(markdown2html(source))


FILTERS: Final = {"clean_html": clean, "markdown2html": markdown}
"""nbconvert's names for them."""
