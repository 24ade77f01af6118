"""Turn matplotlib figures into SVG that follows a page's theme.

Black becomes the colour of the page's text (`currentColor`), and backgrounds are left out, so one
image can be read on light and on dark pages. The SVG has only plain elements and attributes: no
definitions, no classes and no references, because a feedback page keeps none.
"""

import html
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from shardlings.pictures.svg import svg_element, svg_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SVG_CHARACTERS: Final = 2**18
"""Feedback pages show no HTML that is longer."""

PIXELS_PER_POINT: Final = 4 / 3

SVG: Final = "{http://www.w3.org/2000/svg}"
HREF: Final = "{http://www.w3.org/1999/xlink}href"

NUMBER: Final = re.compile(r"-?\d+\.\d+")
FONT: Final = re.compile(r"(?:(?P<weight>bold|\d00) )?(?P<size>[\d.]+)px")

BLACK: Final = ("#000000", "black")

SVG_DEFAULTS: Final = {"stroke-linecap": "butt", "stroke-dashoffset": "0"}

Elements = Mapping[str, ElementTree.Element]
"""A drawing's definitions, by their ids."""


def find_figure_class() -> type["Figure"]:
    """Return matplotlib's `Figure`.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "A figure needs matplotlib: pip install matplotlib", name="matplotlib"
        ) from error
    return Figure


def figure_as_html(figure: "Figure", description: str = "") -> str:
    """Return a matplotlib figure as an SVG image in a page's colours, no wider than the page.

    Args:
        figure: the figure; what it shows in black has the colour of the page's text.
        description: the text alternative; by default the figure's label, or its titles and labels.
    """
    from matplotlib import rc_context

    written = io.StringIO()
    with (
        rc_context({"svg.fonttype": "none", "svg.hashsalt": "shardlings"}),
        _without_legend_background(figure),
    ):
        figure.savefig(
            written, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
        )
    root = ElementTree.fromstring(written.getvalue())
    defined = {element.attrib["id"]: element for element in root.iter() if "id" in element.attrib}
    width, _ = (float(number) for number in root.attrib["viewBox"].split()[2:])
    return svg_image(
        "".join(_plain_elements(root, defined)),
        description or describe_figure(figure),
        width=width * PIXELS_PER_POINT,
        viewBox=root.attrib["viewBox"],
        font_family="system-ui, sans-serif",
        fill="currentColor",
        stroke_linejoin="round",
        style="display:block;max-width:100%",
    )


def shown_figure_as_html(figure: "Figure") -> str | None:
    """Return a figure that a learner shows as HTML; None if it is too large, and stays a PNG."""
    page = figure_as_html(figure)
    return page if len(page) <= MAX_SVG_CHARACTERS else None


def describe_figure(figure: "Figure") -> str:
    """Return a figure's label, or else a description from its titles and labels."""
    if figure.get_label():
        return str(figure.get_label())
    words = [figure.get_suptitle()]
    for axes in figure.axes:
        legend = axes.get_legend()
        words += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        words += [text.get_text() for text in legend.get_texts()] if legend else []
    return "A figure: " + ", ".join(dict.fromkeys(filter(None, words)))


@contextmanager
def _without_legend_background(figure: "Figure") -> Iterator[None]:
    """Make the legends' white boxes transparent; `savefig` does the same for the other ones."""
    from matplotlib.legend import Legend

    frames = [legend.get_frame() for legend in figure.findobj(Legend)]
    colours = [frame.get_facecolor() for frame in frames]
    for frame in frames:
        frame.set_facecolor("none")
    yield
    for frame, colour in zip(frames, colours, strict=True):
        frame.set_facecolor(colour)


def _plain_elements(parent: ElementTree.Element, defined: Elements) -> Iterator[str]:
    """Yield the elements within one, without groups, definitions and references."""
    for element in parent:
        tag = element.tag.removeprefix(SVG)
        if tag == "g" and "transform" in element.attrib:
            inner = "".join(_plain_elements(element, defined))
            drawn = svg_element("g", inner, transform=_rounded(element.attrib["transform"]))
        elif tag == "g":
            drawn = "".join(_plain_elements(element, defined))
        elif tag == "use":
            drawn = _used_path(element, defined)
        elif tag == "path":
            drawn = _path(element.attrib["d"], _attributes_of(element))
        elif tag in ("text", "tspan"):
            words = html.escape((element.text or "").strip("\n"))
            inner = "".join(_plain_elements(element, defined))
            drawn = svg_element(
                tag, inner or words, **_attributes_of(element, "x", "y", "transform")
            )
        elif tag == "image":
            kept = _attributes_of(element, "x", "y", "width", "height", "transform")
            href = "".join(element.attrib[HREF].split())
            drawn = svg_element("image", href=href, **kept)
        else:
            continue
        yield _clipped(drawn, element, defined) if drawn else ""


def _used_path(element: ElementTree.Element, defined: Elements) -> str:
    """Return the path to which an element refers, where the element is."""
    path = defined[element.attrib[HREF].removeprefix("#")]
    x, y = element.attrib.get("x", "0"), element.attrib.get("y", "0")
    return _path(
        path.attrib["d"],
        {
            **_attributes_of(path),
            **_attributes_of(element),
            "transform": _rounded(f"translate({float(x):.2f} {float(y):.2f})"),
        },
    )


def _path(steps: str, attributes: dict[str, str]) -> str:
    is_invisible = attributes.get("fill") == "none" and "stroke" not in attributes
    return "" if is_invisible else svg_element("path", d=_rounded(steps), **attributes)


def _clipped(drawn: str, element: ElementTree.Element, defined: Elements) -> str:
    """Clip what is drawn to a rectangle, by an `<svg>` of its own."""
    clip = defined.get(element.attrib.get("clip-path", "")[5:-1])
    rectangle = None if clip is None else clip.find(f"{SVG}rect")
    if rectangle is None:
        return drawn
    box = {name: _rounded(rectangle.attrib[name]) for name in ("x", "y", "width", "height")}
    return svg_element("svg", drawn, **box, viewBox=" ".join(box.values()))


def _attributes_of(element: ElementTree.Element, *kept: str) -> dict[str, str]:
    """Return an element's style, and some of its attributes, as attributes of plain SVG."""
    style = dict(
        declaration.strip().split(": ", 1)
        for declaration in element.attrib.get("style", "").split(";")
        if ": " in declaration
    )
    attributes = {name: _rounded(element.attrib[name]) for name in kept if name in element.attrib}
    opacity = style.pop("opacity", None)
    if opacity is not None:
        style = {"fill-opacity": opacity, "stroke-opacity": opacity} | style
    if font := FONT.search(style.pop("font", "")):
        style["font-size"] = font["size"]
        if font["weight"]:
            style["font-weight"] = font["weight"]
    if "monospace" not in style.get("font-family", "monospace").split(",")[0].lower():
        del style["font-family"]
    for name, value in style.items():
        if value in BLACK and name in ("fill", "stroke"):
            attributes[name] = "currentColor"
        elif value.startswith("url("):
            attributes[name] = "none"  # a hatch
        elif SVG_DEFAULTS.get(name) != value:
            attributes[name] = value.removesuffix("px")
    return {name.replace("-", "_"): value for name, value in attributes.items()}


def _rounded(text: str) -> str:
    """Round the numbers in a text to two decimals, and join its lines."""
    rounded = NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), text)
    return " ".join(rounded.split())
