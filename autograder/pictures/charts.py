"""Draw charts with matplotlib: rooflines of communication, and memory against cost."""

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
"""Okabe and Ito's palette, darkened to be visible on white. Programs have distinct markers too."""

MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")

LINE_COLOUR: Final = "#1a1a1a"
FAINT_COLOUR: Final = "#5f5f5f"

MARKER_SIZE: Final = 8.0
"""In points."""

MARKER_GROWTH: Final = 4.5
"""How much larger a marker is, in points, for each one on top of it, so that all are visible."""

SAME_PLACE: Final = 1.1
"""Two programs whose intensities differ by less than this factor have overlapping markers."""

MAX_LEGEND_CHARACTERS: Final = 80
"""In a line of the legend."""

MIB: Final = 2**20

COST_SCALES: Final = {"microseconds": (1000, "ms", "milliseconds, as modelled")}
"""Units that are converted for the chart: the divisor, the unit shown, and the axis label."""

Tradeoff = tuple[int, int]
"""The bytes held on each device, and the cost."""


@dataclass(frozen=True)
class RooflinePoint:
    """A program on a roofline.

    Attributes:
        words: its text in the legend, which begins with its name.
        line: its full description.
        intensity: operations per byte sent; infinite if it sends nothing.
        together: operations per second if computing and sending overlap.
        apart: operations per second if they do not overlap.
    """

    words: str
    line: str
    intensity: float
    together: float
    apart: float


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

    def figure(self) -> "Figure":
        """Return the chart as a matplotlib figure, which is not registered with pyplot."""
        return _roofline_figure(self)

    def __str__(self) -> str:
        """Return a description with a line per program."""
        return "\n".join((self.roof, *(point.line for point in self.points), *self.remarks))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.points:
            return f"<div>{_paragraphs((self.roof, *self.remarks))}</div>"
        chart = _image(self.figure(), str(self), 'width="620" style="max-width:100%"')
        return f"<div>{chart}{_paragraphs(self.remarks)}</div>"


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f'<div style="margin:4px 0">{html.escape(line)}</div>' for line in lines)


def _image(figure: "Figure", description: str, attributes: str) -> str:
    """Return a figure as an `<img>` that contains its data.

    Args:
        figure: the figure.
        description: the text alternative.
        attributes: of the `<img>`, as HTML.
    """
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=160)
    data = base64.b64encode(png.getvalue()).decode()
    alt = html.escape(description, quote=True)
    return f'<img {attributes} alt="{alt}" src="data:image/png;base64,{data}">'


def _roofline_figure(roofline: Roofline) -> "Figure":
    from matplotlib.figure import Figure

    points = roofline.points
    finite = [p.intensity for p in points if math.isfinite(p.intensity)]
    infinite = [p for p in points if not math.isfinite(p.intensity)]
    left = min([roofline.ridge / 100, *(each / 3 for each in finite)])
    edge = max([roofline.ridge * 10, *(each * 3 for each in finite)])
    # a program that sends nothing has infinite intensity, and is drawn to the right of the edge
    step = (edge / left) ** 0.07
    right = edge * step ** (len(infinite) + 1) if infinite else edge

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
        color=LINE_COLOUR,
        linewidth=1.8,
    )
    axes.plot([roofline.ridge] * 2, [roofline.link * left, roofline.peak], ":", color=LINE_COLOUR)
    small: dict[str, Any] = {"fontsize": 8, "color": FAINT_COLOUR}
    # the space above the roof and well below it is always empty
    axes.text(
        0.02, 0.97, "\n".join(roofline.limits), transform=axes.transAxes, va="top", **small
    )  # fmt: skip
    is_far = math.log(roofline.ridge / left) > 0.7 * math.log(edge / left)
    words = ("the ridge:", "sending takes", "as long as", "computing")
    axes.text(
        roofline.ridge,
        roofline.link * left * 1.3,
        "\n".join(f" {line} " for line in words),
        ha="right" if is_far else "left",
        va="bottom",
        **small,
    )
    if infinite:
        axes.axvspan(edge, right, color="#efefef")
        axes.text((edge * right) ** 0.5, roofline.peak / 2, "sends\nnothing →", ha="center",
                  va="top", **small)  # fmt: skip
    _mark_programs(axes, points, edge, step)
    figure.legend(
        loc="outside lower center", fontsize=8, frameon=False, alignment="left", handlelength=1.2
    )
    return figure


def _mark_programs(axes: Any, points: Sequence[RooflinePoint], edge: float, step: float) -> None:
    """Draw the programs, and add them to the legend.

    Args:
        axes: matplotlib's axes.
        points: the programs.
        edge: the intensity from which on there are only programs that send nothing.
        step: the factor between the positions of two such programs.
    """
    position = edge
    for number, point in enumerate(points):
        colour = COLOURS[number % len(COLOURS)]
        look: dict[str, Any] = {
            "linestyle": "none",
            "marker": MARKERS[number % len(MARKERS)],
            "color": colour,
        }
        axes.plot([], [], label=_wrapped(point.words), markersize=MARKER_SIZE, **look)
        if math.isfinite(point.intensity):
            ratios = [p.intensity / point.intensity for p in points[number + 1 :]]
            on_top = sum(1 / SAME_PLACE < ratio < SAME_PLACE for ratio in ratios)
            look["markersize"] = MARKER_SIZE + MARKER_GROWTH * on_top
            axes.plot([point.intensity], [point.together], zorder=5, **look)
            axes.plot([point.intensity] * 2, [point.together, point.apart], "-", color=colour)
            hollow = {"markerfacecolor": "white", "markeredgewidth": 1.4}
            axes.plot([point.intensity], [point.apart], zorder=4, **look, **hollow)
        else:
            position *= step
            axes.plot([position], [point.together], zorder=5, markersize=MARKER_SIZE, **look)
    if any(math.isfinite(point.intensity) for point in points):
        look = {"marker": "o", "color": FAINT_COLOUR, "markersize": 6, "linestyle": "none"}
        axes.plot([], [], label="filled, on the roof: computing and sending at once", **look)
        axes.plot([], [], label="hollow: one waits for the other", markerfacecolor="white", **look)


def _wrapped(words: str) -> str:
    """Wrap a text to the width of the legend, and escape `$`, which begins a formula."""
    return "\n".join(textwrap.wrap(words.replace("$", r"\$"), MAX_LEGEND_CHARACTERS)) or " "


def tradeoff_as_html(
    title: str,
    attempts: Sequence[Tradeoff],
    cap: int,
    frontier: Sequence[Tradeoff],
    unit: str = "bytes moved",
) -> str:
    """Return a chart of a learner's attempts as HTML, with the last one marked.

    Args:
        title: the text above it.
        attempts: the attempts, the latest last.
        cap: the most bytes that each device may hold.
        frontier: the best known trade-offs.
        unit: the unit of the costs.
    """
    figure = _tradeoff_figure(attempts[-1:], attempts[:-1], cap, frontier, unit)
    description = (
        f"{title}: at most {cap:,} bytes may be held. "
        f"The best that is known: {_listed(frontier, unit)}. "
        f"Yours: {_listed(attempts, unit)}."
    )
    image = _image(figure, description, 'width="460"')
    return f'<div><div style="font-weight:600">{html.escape(title)}</div>{image}</div>'


def class_tradeoff_as_html(
    places: Sequence[tuple[str, Tradeoff]],
    others: Sequence[Tradeoff],
    cap: int,
    frontier: Sequence[Tradeoff],
    unit: str = "bytes moved",
) -> str:
    """Return a chart of a class's choices as HTML.

    Args:
        places: pairs of a short name, such as a rank, and what was chosen.
        others: choices beyond a budget, which have no names.
        cap: the most bytes that each device may hold.
        frontier: the best known trade-offs.
        unit: the unit of the costs.
    """
    names, chosen = [name for name, _ in places], [tradeoff for _, tradeoff in places]
    figure = _tradeoff_figure(chosen, others, cap, frontier, unit, names or [""])
    description = (
        f"The class: at most {cap:,} bytes may be held. "
        f"The best that is known: {_listed(frontier, unit)}. "
        f"In the running: {_listed(chosen, unit) or 'nobody'}. "
        f"Beyond a budget: {_listed(others, unit) or 'nobody'}."
    )
    return _image(figure, description, 'width="640"')


def _tradeoff_figure(
    chosen: Sequence[Tradeoff],
    others: Sequence[Tradeoff],
    cap: int,
    frontier: Sequence[Tradeoff],
    unit: str,
    names: Sequence[str] = (),
) -> "Figure":
    """Draw the frontier and what was chosen. With names it is a class's chart, and larger."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2) if names else (4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    byte_scale, byte_unit = (MIB, "MiB") if cap >= MIB else (1, "bytes")
    cost_scale, _, cost_label = COST_SCALES.get(unit, (1, "", unit))

    def scaled(tradeoffs: Sequence[Tradeoff]) -> tuple[list[float], list[float]]:
        return (
            [held / byte_scale for held, _ in tradeoffs],
            [cost / cost_scale for _, cost in tradeoffs],
        )

    best = scaled(sorted(frontier))
    axes.step(*best, where="post", color="#0072b2", label="the best that is known")
    axes.plot(*best, "o", color="#0072b2", markersize=4)
    axes.axvline(cap / byte_scale, color="#1a1a1a", linestyle="--",
                 label="the most that may be held")  # fmt: skip
    label = ("beyond a budget" if others else None) if names else None
    axes.plot(*scaled(others), "x", color="#7a7a7a", label=label)
    label = "the class" if names else "yours"
    axes.plot(*scaled(chosen), "*", color="#d0560a", markersize=13, linestyle="none", label=label)
    for name, held, cost in zip(names, *scaled(chosen), strict=False):
        axes.annotate(name, (held, cost), xytext=(8, -3), textcoords="offset points", fontsize=8)
    highest = max(cost / cost_scale for _, cost in [*chosen, *others, *frontier])
    axes.set(xlabel=f"{byte_unit} held on each device", ylabel=cost_label)
    axes.set_ylim(-0.06 * highest, 1.1 * highest)
    axes.legend(fontsize=8)
    return figure


def _listed(tradeoffs: Sequence[Tradeoff], unit: str) -> str:
    scale, name, _ = COST_SCALES.get(unit, (1, unit.removeprefix("bytes "), unit))
    return "; ".join(
        f"{held:,} held, {cost / scale:,.{1 if scale > 1 else 0}f} {name}"
        for held, cost in tradeoffs
    )
