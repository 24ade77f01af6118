"""Put an SVG together: boxes, edges, arrows and words, with few attributes.

A feedback page keeps only plain attributes (no dashes, no rounded `rect`, no `tspan`), so that what
is drawn there is what is drawn in the notebook. What stands on the page itself is in the theme's
own colour, `currentColor`. Boxes of one colour are one path: a strip of many steps stays small.
"""

import html
import math
from typing import Final

from autograder.pictures.block_geometry import Point
from autograder.pictures.palette import INK

FAINT: Final = "opacity:.25"
SIZE: Final = 12.0
"""Of letters, in pixels, unless asked for another."""

LETTER: Final = 0.62
"""How wide a letter is, to its size: an estimate that errs on the wide side."""

WIDE: Final = {"+": 0.6, ",": 0.3, " ": 0.3, "(": 0.36, ")": 0.36, "–": 0.56, "Σ": 0.66, "m": 0.88}


def width_of(words: str, size: float = SIZE) -> float:
    """About how many pixels words take; numbers set low are small."""
    return size * sum(WIDE.get(c, 0.38 if "₀" <= c <= "₉" else LETTER) for c in words)


class Drawing:
    """A picture in the making: boxes at the bottom, then edges and arrows, then words."""

    def __init__(self) -> None:
        self._boxes: dict[str, list[str]] = {}
        self._faint: list[str] = []
        self._lines: list[str] = []
        self._words: list[str] = []

    def box(self, left: float, top: float, width: float, height: float, fill: str) -> None:
        """A filled box; those of a colour that was used first are the lowest."""
        self._boxes.setdefault(fill, []).append(_rectangle(left, top, width, height))

    def faint_edge(self, left: float, top: float, width: float, height: float) -> None:
        """A hairline round something."""
        self._faint.append(_rectangle(left, top, width, height))

    def edge(
        self, left: float, top: float, width: float, height: float, stroke: float, radius: float = 0
    ) -> None:
        """A line round something, in the theme's colour, its corners round if wished."""
        r, right, bottom = radius, left + width, top + height
        corner = f"a{r:g},{r:g} 0 0 1"
        path = (
            f"M{_n(left + r)},{_n(top)}H{_n(right - r)}{corner} {r:g},{r:g}V{_n(bottom - r)}"
            f"{corner} -{r:g},{r:g}H{_n(left + r)}{corner} -{r:g},-{r:g}V{_n(top + r)}"
            f"{corner} {r:g},-{r:g}"
            if r
            else _rectangle(left, top, width, height)
        )
        self._line(path, stroke)

    def mark(self, left: float, top: float, width: float, height: float) -> None:
        """Two lines along the edge of a box: the theme's colour is seen on the page, ink on it."""
        self._line(_rectangle(left - 1, top - 1, width + 2, height + 2), 2)
        path = _rectangle(left + 0.5, top + 0.5, width - 1, height - 1)
        self._lines.append(f'<path d="{path}" fill="none" stroke="{INK}"/>')

    def arrow(self, start: Point, end: Point) -> None:
        """An arrow to the right that leaves and arrives level, so that crossings are steep."""
        (x0, y0), (x1, y1) = start, end
        reach = (x1 - x0) / 2
        neck = x1 - 7
        self._line(
            f"M{_n(x0)},{_n(y0)}C{_n(x0 + reach)},{_n(y0)} {_n(neck - reach)},{_n(y1)} "
            f"{_n(neck)},{_n(y1)}",
            1.5,
        )
        corners = f"{_n(x1)},{_n(y1)} {_n(x1 - 8)},{_n(y1 - 4)} {_n(x1 - 8)},{_n(y1 + 4)}"
        self._lines.append(f'<polygon points="{corners}" fill="currentColor"/>')

    def write(self, words: str, at: Point, size: float = SIZE) -> None:
        """Words in ink, on a box, whose middle is at a point."""
        self._words.append(_text(words, at, size, f' fill="{INK}"'))

    def name(
        self, words: str, at: Point, size: float = SIZE, *, bold: bool = False, middle: bool = False
    ) -> None:
        """Words on the page, in the theme's colour, from a point on, or around it."""
        look = ' fill="currentColor"' + ("" if middle else ' text-anchor="start"')
        look += ' style="font-weight:600"' if bold else ""
        self._words.append(_text(words, at, size, look))

    def svg(self, width: float, height: float, described: str) -> str:
        """All of it, so many pixels large, with the same in words."""
        said = html.escape(described, quote=True)
        boxes = "".join(
            f'<path d="{"".join(d)}" fill="{fill}"/>' for fill, d in self._boxes.items()
        )
        faint = (
            f'<path d="{"".join(self._faint)}" fill="none" stroke="currentColor" style="{FAINT}"/>'
            if self._faint
            else ""
        )
        return (
            f'<svg role="img" aria-label="{said}" xmlns="http://www.w3.org/2000/svg" '
            f'width="{math.ceil(width)}" height="{math.ceil(height)}" '
            f'viewBox="0 0 {math.ceil(width)} {math.ceil(height)}" font-family="sans-serif">'
            f"{boxes}{faint}{''.join(self._lines)}"
            f'<g text-anchor="middle">{"".join(self._words)}</g></svg>'
        )

    def _line(self, path: str, stroke: float) -> None:
        self._lines.append(
            f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="{stroke:g}"/>'
        )


def _rectangle(left: float, top: float, width: float, height: float) -> str:
    return f"M{_n(left)},{_n(top)}h{_n(width)}v{_n(height)}h{_n(-width)}z"


def _text(words: str, at: Point, size: float, look: str) -> str:
    return (
        f'<text x="{_n(at[0])}" y="{_n(at[1] + 0.36 * size)}" font-size="{size:g}"{look}>'
        f"{html.escape(words)}</text>"
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
