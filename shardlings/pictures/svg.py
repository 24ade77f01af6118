"""Write SVG: elements and images, the colours of devices, and a drawing that is built up in layers.

Everything here works in notebooks of either theme. Blocks have light tints and dark labels; lines
and words beside them have the colour of the page's text (`currentColor`).
"""

import html
import math
from collections.abc import Iterable
from typing import Final

Point = tuple[float, float]
"""Pixels from the left and from the top."""

# Okabe and Ito's palette, which colour-blind readers can distinguish
# (https://jfly.uni-koeln.de/color/), mixed with white so that dark labels are readable on all.
AMBER, BLUE, GREEN, YELLOW, DARK_BLUE, ORANGE, PINK, GREY = (
    "#f0c566", "#9ad2f2", "#66c5ab", "#f6ef8e", "#66aad1", "#e69e66", "#e0afca", "#c2c2c2",
)  # fmt: skip

TINTS: Final = (AMBER, BLUE, GREEN, YELLOW, DARK_BLUE, ORANGE, PINK, GREY)

INK: Final = "#1a1a1a"
"""The colour of labels on tints."""

FONT_SIZE: Final = 12.0

LETTER_WIDTH: Final = 0.62
"""The width of a letter, as a multiple of the font size; an estimate on the wide side."""

LETTER_WIDTHS: Final = {
    "+": 0.6, ",": 0.3, " ": 0.3, "(": 0.36, ")": 0.36, "–": 0.56, "Σ": 0.66, "m": 0.88,
}  # fmt: skip


def device_colour(device: int) -> str:
    """Return the colour of a device."""
    return TINTS[device % len(TINTS)]


def text_width(text: str, font_size: float = FONT_SIZE) -> float:
    """Estimate the width of a text in pixels. Subscript digits are narrower than letters."""
    widths = (LETTER_WIDTHS.get(c, 0.38 if "₀" <= c <= "₉" else LETTER_WIDTH) for c in text)
    return font_size * sum(widths)


def svg_element(tag: str, content: str = "", **attributes: str | float) -> str:
    """Return an SVG element as markup.

    Args:
        tag: the element's name, such as `"path"`.
        content: the markup inside the element.
        **attributes: an underscore stands for a hyphen, as in `stroke_width=2`. Numbers are rounded
            to one decimal.
    """
    written = _attributes(**attributes)
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def svg_image(content: str, description: str, **attributes: str | float) -> str:
    """Return an `<svg>` with a text alternative.

    Args:
        content: the markup inside the image.
        description: the text alternative, for readers who cannot see the image.
        **attributes: such as `width` and `viewBox`; see `svg_element`.
    """
    return svg_element(
        "svg",
        content,
        role="img",
        aria_label=description,
        xmlns="http://www.w3.org/2000/svg",
        **attributes,
    )


def svg_number(number: float) -> str:
    """Return a number rounded to one decimal: `3.1`, and `3` rather than `3.0`."""
    return f"{number:.1f}".removesuffix(".0")


def svg_points(points: Iterable[Point]) -> str:
    """Return the value of a polygon's `points`: `0,0 10,0 10,10`."""
    return " ".join(f"{svg_number(x)},{svg_number(y)}" for x, y in points)


def _attributes(**attributes: str | float) -> str:
    return "".join(
        f' {name.replace("_", "-")}="{_attribute(value)}"' for name, value in attributes.items()
    )


def _attribute(value: str | float) -> str:
    return html.escape(value, quote=True) if isinstance(value, str) else svg_number(value)


class Drawing:
    """An SVG image built up in layers: boxes at the bottom, then lines and arrows, then text.

    Feedback pages keep only plain attributes of what a submission's notebook shows (no dashes, no
    rounded `rect`, no `tspan`), so a drawing uses no others. All boxes of one colour are one path,
    which keeps an image of many steps small.
    """

    def __init__(self) -> None:
        self._boxes: dict[str, list[str]] = {}
        self._hairlines: list[str] = []
        self._lines: list[str] = []
        self._texts: dict[str, list[str]] = {}  # by their look, which they share

    def box(self, left: float, top: float, width: float, height: float, fill: str) -> None:
        """Add a filled box. Boxes of a colour that was used earlier are below."""
        self._boxes.setdefault(fill, []).append(_rectangle(left, top, width, height))

    def cut_off_box(self, left: float, top: float, width: float, height: float, fill: str) -> None:
        """Add a filled box whose right end is an arrow head: it goes on where the drawing ends."""
        n, head = svg_number, min(height / 2, width)
        self._boxes.setdefault(fill, []).append(
            f"M{n(left)},{n(top)}h{n(width - head)}l{n(head)},{n(height / 2)}"
            f"l{n(-head)},{n(height / 2)}h{n(head - width)}z"
        )

    def hairline_box(self, left: float, top: float, width: float, height: float) -> None:
        """Add a faint outline in the colour of the page's text."""
        self._hairlines.append(_rectangle(left, top, width, height))

    def rounded_box(
        self, left: float, top: float, width: float, height: float, stroke: float, radius: float
    ) -> None:
        """Add an outline with rounded corners in the colour of the page's text."""
        r, right, bottom, n = radius, left + width, top + height, svg_number
        corner = f"a{r:g},{r:g} 0 0 1"
        self._line(
            f"M{n(left + r)},{n(top)}H{n(right - r)}{corner} {r:g},{r:g}V{n(bottom - r)}"
            f"{corner} -{r:g},{r:g}H{n(left + r)}{corner} -{r:g},-{r:g}V{n(top + r)}"
            f"{corner} {r:g},-{r:g}",
            stroke,
        )

    def highlight_box(self, left: float, top: float, width: float, height: float) -> None:
        """Outline a filled box twice: in the text's colour to stand out from the page, and in ink
        to stand out from the fill.
        """
        self._line(_rectangle(left - 1, top - 1, width + 2, height + 2), 2)
        path = _rectangle(left + 0.5, top + 0.5, width - 1, height - 1)
        self._lines.append(svg_element("path", d=path, fill="none", stroke=INK))

    def arrow(self, start: Point, end: Point) -> None:
        """Add a curved arrow from left to right, horizontal at both ends so that crossing arrows
        cross at a steep angle.
        """
        (x0, y0), (x1, y1), n = start, end, svg_number
        reach = (x1 - x0) / 2
        neck = x1 - 7
        self._line(
            f"M{n(x0)},{n(y0)}C{n(x0 + reach)},{n(y0)} {n(neck - reach)},{n(y1)} {n(neck)},{n(y1)}",
            1.5,
        )
        head = svg_points([(x1, y1), (x1 - 8, y1 - 4), (x1 - 8, y1 + 4)])
        self._lines.append(svg_element("polygon", points=head, fill="currentColor"))

    def label(self, text: str, centre: Point, font_size: float = FONT_SIZE) -> None:
        """Add text in ink, centred on a box."""
        self._text(text, centre, font_size, fill=INK)

    def text(
        self,
        text: str,
        place: Point,
        font_size: float = FONT_SIZE,
        *,
        bold: bool = False,
        centred: bool = False,
    ) -> None:
        """Add text in the colour of the page's text, beginning at a point or centred on it."""
        look = {"fill": "currentColor"}
        if not centred:
            look["text_anchor"] = "start"
        if bold:
            look["style"] = "font-weight:600"
        self._text(text, place, font_size, **look)

    def layers(self) -> str:
        """Return the markup of the drawing, without an `<svg>` around it."""
        layers = [svg_element("path", d="".join(d), fill=fill) for fill, d in self._boxes.items()]
        if self._hairlines:
            path = "".join(self._hairlines)
            layers.append(
                svg_element("path", d=path, fill="none", stroke="currentColor", style="opacity:.25")
            )
        layers += self._lines
        layers += [f"<g{look}>{''.join(texts)}</g>" for look, texts in self._texts.items()]
        return "".join(layers)

    def svg(self, width: float, height: float, description: str) -> str:
        """Return the drawing as SVG.

        Args:
            width: in pixels.
            height: in pixels.
            description: the text alternative.
        """
        width, height = math.ceil(width), math.ceil(height)
        return svg_image(
            self.layers(),
            description,
            width=width,
            height=height,
            viewBox=f"0 0 {width} {height}",
            font_family="sans-serif",
        )

    def _line(self, path: str, stroke: float) -> None:
        self._lines.append(
            svg_element("path", d=path, fill="none", stroke="currentColor", stroke_width=stroke)
        )

    def _text(self, text: str, place: Point, font_size: float, **look: str) -> None:
        x, y = place[0], place[1] + 0.36 * font_size  # the baseline
        look_of_group = _attributes(**({"text_anchor": "middle"} | look), font_size=font_size)
        texts = self._texts.setdefault(look_of_group, [])
        texts.append(svg_element("text", html.escape(text), x=x, y=y))


def _rectangle(left: float, top: float, width: float, height: float) -> str:
    n = svg_number
    return f"M{n(left)},{n(top)}h{n(width)}v{n(height)}h{n(-width)}z"
