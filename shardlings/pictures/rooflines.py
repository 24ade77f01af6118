"""Draw rooflines of communication with matplotlib."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardlings.documents import Document, Figure, Paragraph, Table, TableRow, as_html
from shardlings.pictures.chart_parts import (
    CHART_COLOUR,
    CHART_WIDTH,
    SMALL_TYPE,
    add_chart_legend,
    mark_chart_places,
    start_chart,
)
from shardlings.pictures.figures import figure_as_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

ROOFLINE_HEADINGS: Final = ("", "program", "operations per byte", "of the peak", "if one waits")


@dataclass(frozen=True)
class RooflinePoint:
    """A program on a roofline.

    Attributes:
        line: its full description.
        intensity: operations per byte sent; infinite if it sends nothing.
        together: operations per second if computing and sending overlap.
        apart: operations per second if they do not overlap.
        cells: its row in the table: operations per byte, and the parts of the peak in both cases.
    """

    name: str
    line: str
    intensity: float
    together: float
    apart: float
    cells: tuple[str, str, str]


@dataclass(frozen=True, repr=False)
class Roofline:
    """A roofline with programs on it and below it, which displays itself in a notebook and as text.

    Attributes:
        machine: the name of the machine.
        peak: the operations per second that a chip can compute.
        link: the bytes per second that a chip can send.
        roof: a description of the roof.
        limits: the lines of text above the roof.
        points: the programs in the chart.
        remarks: further sentences, on programs that are not in the chart or on all of them.
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
        """The operations per byte at which sending takes as long as computing."""
        return self.peak / self.link

    def figure(self) -> "MatplotlibFigure":
        """Return the chart as a matplotlib figure, which is not registered with pyplot."""
        return _roofline_figure(self)

    def __str__(self) -> str:
        """Return a description with a line per program."""
        return "\n".join((self.roof, *(point.line for point in self.points), *self.remarks))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        remarks = tuple(map(Paragraph, self.remarks))
        if not self.points:
            return as_html(Document((Paragraph(self.roof), *remarks)))
        rows = tuple(
            TableRow((str(number), point.name, *point.cells))
            for number, point in enumerate(self.points, 1)
        )
        chart = Figure(lambda: figure_as_html(self.figure(), str(self)))
        return as_html(Document((chart, Table(ROOFLINE_HEADINGS, rows, "llrrr"), *remarks)))


def _roofline_figure(roofline: Roofline) -> "MatplotlibFigure":
    from matplotlib.ticker import EngFormatter

    points, foot = roofline.points, roofline.link
    finite = [p.intensity for p in points if math.isfinite(p.intensity)]
    infinite = [p for p in points if not math.isfinite(p.intensity)]
    left = min([roofline.ridge / 100, *(each / 3 for each in finite)])
    edge = max([roofline.ridge * 10, *(each * 3 for each in finite)])
    # a program that sends nothing has infinite intensity, and is drawn to the right of the edge
    step = (edge / left) ** 0.12
    right = edge * step ** (len(infinite) + 1) if infinite else edge

    figure, axes = start_chart(CHART_WIDTH, 3.9)
    axes.set(xscale="log", yscale="log", xlim=(left, right))
    axes.set(ylim=(foot * left, roofline.peak * 10))
    axes.set_title(f"A roofline of communication: {roofline.machine}", fontsize=10)
    axes.set_xlabel("operations for each byte that a device sends")
    axes.set_ylabel("operations a second on each device")
    for axis in (axes.xaxis, axes.yaxis):  # 1 T, because an exponent is hard to read
        axis.set_major_formatter(EngFormatter())
    axes.plot(
        [left, roofline.ridge, right],
        [foot * left, roofline.peak, roofline.peak],
        color="black",
        linewidth=1.8,
    )
    axes.plot([roofline.ridge] * 2, [foot * left, roofline.peak], ":", color="black")
    # the space above the roof and well below it is always empty
    axes.text(
        0.02, 0.98, "\n".join(roofline.limits), transform=axes.transAxes, va="top", **SMALL_TYPE
    )
    is_far = math.log(roofline.ridge / left) > 0.7 * math.log(edge / left)
    words = ("the ridge:", "sending takes", "as long as", "computing")
    axes.annotate(
        "\n".join(words),
        (roofline.ridge, foot * left),
        xytext=(-5 if is_far else 5, 6),
        textcoords="offset points",
        ha="right" if is_far else "left",
        **SMALL_TYPE,
    )
    if infinite:
        axes.axvspan(edge, right, color=(0, 0, 0, 0.08), linewidth=0)
        axes.text((edge * right) ** 0.5, roofline.peak / 2, "sends\nnothing →", ha="center",
                  va="top", **SMALL_TYPE)  # fmt: skip
    _mark_programs(axes, points, edge, step, roofline.ridge)
    add_chart_legend(figure)
    return figure


def _mark_programs(
    axes: Any, points: Sequence[RooflinePoint], edge: float, step: float, ridge: float
) -> None:
    """Mark programs by their numbers, with a line down to where they are if one waits.

    Args:
        axes: matplotlib's axes.
        points: the programs.
        edge: the intensity from which on there are only programs that send nothing.
        step: the factor between the positions of two such programs.
        ridge: the intensity up to which the roof rises.
    """
    position, marked = edge, []
    for number, point in enumerate(points, 1):
        if math.isfinite(point.intensity):
            marked.append((str(number), point.intensity, point.together))
            axes.plot([point.intensity] * 2, [point.together, point.apart], color=CHART_COLOUR)
            axes.plot([point.intensity], [point.apart], "_", color=CHART_COLOUR, markersize=14)
        else:
            position *= step
            marked.append((str(number), position, point.together))
    mark_chart_places(axes, marked, "computes and sends at the same time", left_until=ridge)
    axes.plot(
        [],
        [],
        "_",
        color=CHART_COLOUR,
        markersize=14,
        label="the same program, one after the other",
    )
