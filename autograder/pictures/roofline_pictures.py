"""Draw a roofline of communication: how fast programs can be, given what they send."""

import base64
import html
import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072b2", "#d55e00", "#00805e", "#b5509a", "#8a5d00")
"""Okabe and Ito's, darkened until they can be seen on white; the shape of a mark says the same."""

MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")

LINE: Final = "#1a1a1a"
FAINT: Final = "#5f5f5f"

SIZE: Final = 8.0
"""The size of a mark, in points."""

LARGER: Final = 4.5
"""How much larger a mark is for each one that is drawn on top of it, so that all can be seen."""

NEAR: Final = 1.1
"""Programs whose operations for each byte differ by less than this factor are at one place."""

LONGEST_LINE: Final = 80
"""The most characters in a line of the legend."""


@dataclass(frozen=True)
class RooflinePoint:
    """A program in the picture.

    Attributes:
        words: what the legend says of it, its name first.
        line: all that there is to say of it.
        intensity: operations for each byte that is sent; infinite where nothing is.
        together: operations a second if computing and sending happen at once.
        apart: the same if one waits for the other.
    """

    words: str
    line: str
    intensity: float
    together: float
    apart: float


@dataclass(frozen=True, repr=False)
class Roofline:
    """A roofline with programs on it and below it, which shows itself in a notebook and as text.

    Attributes:
        machine: what it is the roofline of.
        peak: the most operations a second that a chip computes.
        link: the most bytes a second that it sends.
        roof: the roof, in words.
        limits: the words that stand above the roof, a line for each.
        points: the programs that are drawn.
        remarks: what else is said, of programs that are not drawn and of all of them.
    """

    machine: str
    peak: float
    link: float
    roof: str
    limits: tuple[str, ...]
    points: tuple[RooflinePoint, ...]
    remarks: tuple[str, ...] = ()

    @property
    def ridge(self) -> float:
        """The operations for each byte with which sending takes as long as computing."""
        return self.peak / self.link

    def figure(self) -> "Figure":
        """The picture as a matplotlib figure, which belongs to no window."""
        return _figure(self)

    def __str__(self) -> str:
        """The same in words, with a line for each program."""
        return "\n".join((self.roof, *(point.line for point in self.points), *self.remarks))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The picture, described by all that is said; or what is said, with nothing to draw."""
        below = (self.roof, *self.remarks) if not self.points else self.remarks
        said = "".join(f'<div style="margin:4px 0">{html.escape(line)}</div>' for line in below)
        return f"<div>{_image(self) if self.points else ''}{said}</div>"


def _image(roofline: Roofline) -> str:
    written = io.BytesIO()
    # on white in every theme, so that its dark lines are seen on a dark page too
    roofline.figure().savefig(written, format="png", dpi=160)
    picture = base64.b64encode(written.getvalue()).decode()
    described = html.escape(str(roofline), quote=True)
    return (
        f'<img width="620" style="max-width:100%" alt="{described}" '
        f'src="data:image/png;base64,{picture}">'
    )


def _figure(roofline: Roofline) -> "Figure":
    from matplotlib.figure import Figure

    points = roofline.points
    finite = [p.intensity for p in points if math.isfinite(p.intensity)]
    silent = [p for p in points if not math.isfinite(p.intensity)]
    left = min([roofline.ridge / 100, *(each / 3 for each in finite)])
    edge = max([roofline.ridge * 10, *(each * 3 for each in finite)])
    # to the right of the edge there is room for what sends nothing, which has no place before it
    step = (edge / left) ** 0.07
    right = edge * step ** (len(silent) + 1) if silent else edge

    rows = sum(len(_wrapped(p.words).splitlines()) for p in points) + 2
    figure = Figure(figsize=(6.2, 3.7 + 0.19 * rows), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlim=(left, right))
    axes.set(ylim=(roofline.link * left, roofline.peak * 10))
    axes.set_title(f"A roofline of communication: {roofline.machine}", fontsize=10)
    axes.set_xlabel("operations for each byte that a device sends", fontsize=9)
    axes.set_ylabel("operations a second on each device", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.plot(
        [left, roofline.ridge, right],
        [roofline.link * left, roofline.peak, roofline.peak],
        color=LINE,
        linewidth=1.8,
    )
    axes.plot([roofline.ridge] * 2, [roofline.link * left, roofline.peak], ":", color=LINE)
    beside: dict[str, Any] = {"fontsize": 8, "color": FAINT}
    # nothing is ever above the roof, nor far below it
    axes.text(
        0.02, 0.97, "\n".join(roofline.limits), transform=axes.transAxes, va="top", **beside
    )  # fmt: skip
    far = math.log(roofline.ridge / left) > 0.7 * math.log(edge / left)
    words = ("the ridge:", "sending takes", "as long as", "computing")
    axes.text(
        roofline.ridge,
        roofline.link * left * 1.3,
        "\n".join(f" {line} " for line in words),
        ha="right" if far else "left",
        va="bottom",
        **beside,
    )
    if silent:
        axes.axvspan(edge, right, color="#efefef")
        axes.text((edge * right) ** 0.5, roofline.peak / 2, "sends\nnothing →", ha="center",
                  va="top", **beside)  # fmt: skip
    _mark(axes, points, edge, step)
    figure.legend(
        loc="outside lower center", fontsize=8, frameon=False, alignment="left", handlelength=1.2
    )
    return figure


def _mark(axes: Any, points: Sequence[RooflinePoint], edge: float, step: float) -> None:
    """Draw the programs, and what the legend says of them."""
    place = edge
    for number, point in enumerate(points):
        colour = COLOURS[number % len(COLOURS)]
        look: dict[str, Any] = {
            "linestyle": "none",
            "marker": MARKS[number % len(MARKS)],
            "color": colour,
        }
        axes.plot([], [], label=_wrapped(point.words), markersize=SIZE, **look)
        if math.isfinite(point.intensity):
            later = [p.intensity / point.intensity for p in points[number + 1 :]]
            look["markersize"] = SIZE + LARGER * sum(1 / NEAR < r < NEAR for r in later)
            axes.plot([point.intensity], [point.together], zorder=5, **look)
            axes.plot([point.intensity] * 2, [point.together, point.apart], "-", color=colour)
            hollow = {"markerfacecolor": "white", "markeredgewidth": 1.4}
            axes.plot([point.intensity], [point.apart], zorder=4, **look, **hollow)
        else:
            place *= step
            axes.plot([place], [point.together], zorder=5, markersize=SIZE, **look)
    if any(math.isfinite(point.intensity) for point in points):
        how = {"marker": "o", "color": FAINT, "markersize": 6, "linestyle": "none"}
        axes.plot([], [], label="filled, on the roof: computing and sending at once", **how)
        axes.plot([], [], label="hollow: one waits for the other", markerfacecolor="white", **how)


def _wrapped(words: str) -> str:
    """A text in lines that the legend has room for, and with no mathematics in it."""
    return "\n".join(textwrap.wrap(words.replace("$", r"\$"), LONGEST_LINE)) or " "
