"""Draw charts with matplotlib: rooflines of communication, and memory against cost."""

import html
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardlings.documents import Document, Figure, Paragraph, Table, TableRow, as_html
from shardlings.pictures.figures import figure_as_html, find_figure_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

BEST: Final = "#00805e"
YOURS: Final = "#b54a00"
FAINT: Final = (0, 0, 0, 0.68)
"""The colour of the page's text, paler; its contrast is above 4.5 in both themes."""

SMALL: Final[dict[str, Any]] = {"fontsize": 8, "color": FAINT}
OVER_BUDGET: Final[dict[str, Any]] = {"facecolor": (0.71, 0.29, 0, 0.2), "edgecolor": "none"}
BUDGET: Final[dict[str, Any]] = {"color": YOURS, "linewidth": 1, "linestyle": "--"}
"""The edge of the area beyond a budget, whose own contrast is low."""

MAX_HEIGHT: Final = 2.5
"""An attempt that costs more times what the others do is marked at the top edge of a chart."""

WIDTH: Final = 4.1
"""The width of a chart in inches: if a page is narrow, its text must not shrink much."""

COMPUTES_ALIKE: Final = 1.05
"""If no attempt computes longer than another by this factor, only the other time is drawn."""

LABEL_SIZE: Final = (24, 11)
"""The width and height, in points, that the name of a marker needs."""

MIB: Final = 2**20

COST_SCALES: Final = {"microseconds": (1000, "ms", "milliseconds, as modelled")}
"""Units that are converted for the chart: the divisor, the unit shown, and the axis label."""

Named = tuple[str, float, float]
"""A name, and its place in a chart."""


ROOFLINE_HEADINGS: Final = ("", "program", "operations per byte", "of the peak", "if one waits")


@dataclass(frozen=True)
class RooflinePoint:
    """A program on a roofline.

    Attributes:
        name: its name.
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

    figure, axes = _new_figure(WIDTH, 3.9)
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
    axes.text(0.02, 0.98, "\n".join(roofline.limits), transform=axes.transAxes, va="top", **SMALL)
    is_far = math.log(roofline.ridge / left) > 0.7 * math.log(edge / left)
    words = ("the ridge:", "sending takes", "as long as", "computing")
    axes.annotate(
        "\n".join(words),
        (roofline.ridge, foot * left),
        xytext=(-5 if is_far else 5, 6),
        textcoords="offset points",
        ha="right" if is_far else "left",
        **SMALL,
    )
    if infinite:
        axes.axvspan(edge, right, color=(0, 0, 0, 0.08), linewidth=0)
        axes.text((edge * right) ** 0.5, roofline.peak / 2, "sends\nnothing →", ha="center",
                  va="top", **SMALL)  # fmt: skip
    _mark_programs(axes, points, edge, step, roofline.ridge)
    _add_legend(figure)
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
            axes.plot([point.intensity] * 2, [point.together, point.apart], color=YOURS)
            axes.plot([point.intensity], [point.apart], "_", color=YOURS, markersize=14)
        else:
            position *= step
            marked.append((str(number), position, point.together))
    _mark_places(axes, marked, "computes and sends at the same time", left_until=ridge)
    axes.plot(
        [], [], "_", color=YOURS, markersize=14, label="the same program, one after the other"
    )


@dataclass(frozen=True)
class TradePoint:
    """What an answer holds and costs.

    Attributes:
        held: the bytes on each device.
        costs: the costs, in the chart's unit.
        computing: the part of the costs that is for computing.
    """

    held: int
    costs: int
    computing: int = 0


@dataclass(frozen=True)
class Limits:
    """The budgets of a trade-off, and the best that is known.

    Attributes:
        held: the most bytes that each device may hold.
        frontier: the best pairs of bytes held and costs that are known.
        unit: the unit of all costs.
        goal: the costs that earn all points; 0 if only the best that is known does.
        sent: the most bytes that each device may send; 0 for any number.
        communicating: the costs of sending so many bytes.
    """

    held: int
    frontier: Sequence[tuple[int, int]]
    unit: str = "bytes moved"
    goal: int = 0
    sent: int = 0
    communicating: int = 0

    @property
    def best(self) -> int:
        """The lowest costs that are known within the budget."""
        return min(costs for held, costs in self.frontier if held <= self.held)


def attempts_as_html(title: str, attempts: Sequence[TradePoint], limits: Limits) -> str:
    """Return a chart of a learner's attempts, numbered in order, as HTML.

    Where sending has a budget, computing and communicating are the axes, and lines connect equal
    sums of the two; if all compute equally long, the whole times are drawn in order. Elsewhere the
    axes are what is held and what it costs.

    Args:
        title: the text above it.
        attempts: the attempts, the latest last.
        limits: the budgets, and the best that is known.
    """
    numbered = [(str(number), attempt) for number, attempt in enumerate(attempts, 1)]
    chart = _charts_as_html(
        numbered,
        limits,
        whose="yours, in order",
        latest="your latest",
        description=f"{title}: {_describe_limits(limits)} Yours: {_listed(attempts, limits)}.",
    )
    return f'<div><div style="font-weight:600">{html.escape(title)}</div>{chart}</div>'


def class_tradeoff_as_html(
    places: Sequence[tuple[str, TradePoint]], others: Sequence[TradePoint], limits: Limits
) -> str:
    """Return a chart of a class's choices as HTML.

    Args:
        places: pairs of a short name, such as a rank, and what was chosen.
        others: choices beyond a budget, which have no names.
        limits: the budgets, and the best that is known.
    """
    return _charts_as_html(
        places,
        limits,
        others,
        whose="the class",
        description=f"The class: {_describe_limits(limits)} "
        f"In the running: {_listed([chosen for _, chosen in places], limits) or 'nobody'}. "
        f"Beyond a budget: {_listed(others, limits) or 'nobody'}.",
    )


def _charts_as_html(
    places: Sequence[tuple[str, TradePoint]],
    limits: Limits,
    others: Sequence[TradePoint] = (),
    *,
    whose: str,
    latest: str = "",
    description: str,
) -> str:
    """Return one chart or two, which are side by side where the page is wide enough."""
    draw = _tradeoff_figure
    if limits.sent:
        computing = [each.computing for each in (*(chosen for _, chosen in places), *others)]
        alike = max(computing) <= COMPUTES_ALIKE * min(computing)
        draw = _times_figure if alike else _design_figure
    figure = draw(places, limits, others, whose, latest)
    _add_legend(figure)
    chart = figure_as_html(figure, description)
    if not limits.sent:
        return chart
    held = _held_figure(places, limits, others, whose, latest)
    beside = figure_as_html(held, "The MiB that each holds.")
    return (
        f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:0 24px">'
        f"<div>{chart}</div><div>{beside}</div></div>"
    )


def _add_legend(figure: "MatplotlibFigure") -> None:
    figure.legend(loc="outside lower left", fontsize=8, frameon=False, handlelength=1.4)


def _tradeoff_figure(
    places: Sequence[tuple[str, TradePoint]],
    limits: Limits,
    others: Sequence[TradePoint],
    whose: str,
    latest: str,
) -> "MatplotlibFigure":
    """Draw costs against the bytes held, with the best that is known as a stepped line."""
    figure, axes = _new_figure(WIDTH, 3.5)
    byte_scale, byte_unit = (MIB, "MiB") if limits.held >= MIB else (1, "bytes")
    cost_scale, cost_unit, cost_label = COST_SCALES.get(limits.unit, (1, "bytes", limits.unit))
    drawn = [*(chosen for _, chosen in places), *others]
    best = sorted(limits.frontier)
    known_costs = max(limits.goal, *(costs for _, costs in best)) or 1
    most_costs = max(known_costs, *(each.costs for each in drawn))
    right = 1.3 * max(limits.held, best[0][0], *(each.held for each in drawn)) / byte_scale
    top = 1.12 * min(most_costs, MAX_HEIGHT * known_costs) / cost_scale
    axes.set(xlim=(0, right), ylim=(0, top))
    axes.set(xlabel=f"{byte_unit} held on each device", ylabel=cost_label)
    axes.locator_params("x", nbins=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")

    cap, goal = limits.held / byte_scale, limits.goal / cost_scale
    also = f" or {goal:,g} {cost_unit}" if goal else ""
    axes.axvspan(cap, right, **OVER_BUDGET)
    shaded = f"shaded: over {cap:,g} {byte_unit}{also}"
    axes.plot([cap, cap], [0, goal or top], **BUDGET, label=shaded)
    if goal:
        axes.fill_between([0, cap], goal, top, **OVER_BUDGET)
        axes.plot([0, cap], [goal, goal], **BUDGET)
    known = [(h / byte_scale, c / cost_scale) for h, c in best if h <= right * byte_scale]
    # who may hold more has at least the same choices; better ones may be unknown beyond the budget
    end = (right if best[-1][0] > limits.held else cap, known[-1][1])
    axes.step(*zip(*known, end, strict=True), where="post", color=BEST,
              linewidth=1.8, label="the best that is known")  # fmt: skip
    axes.plot(*zip(*known, strict=True), "s", color=BEST, markersize=4, clip_on=False)

    def place(attempt: TradePoint) -> tuple[float, float]:
        return attempt.held / byte_scale, min(top, attempt.costs / cost_scale)

    def named(name: str, attempt: TradePoint) -> str:
        costs = attempt.costs / cost_scale
        return f"{name}: {costs:,.0f} {cost_unit} ↑" if costs > top else name

    _mark_places(axes, [(named(name, each), *place(each)) for name, each in places], whose, latest)
    _mark_others(axes, map(place, others), "over a budget, without a rank")
    return figure


def _design_figure(
    places: Sequence[tuple[str, TradePoint]],
    limits: Limits,
    others: Sequence[TradePoint],
    whose: str,
    latest: str,
) -> "MatplotlibFigure":
    """Draw communicating against computing."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = _new_figure(WIDTH, 3.8)
    scale, unit, _ = COST_SCALES[limits.unit]

    def place(attempt: TradePoint) -> tuple[float, float]:
        return attempt.computing / scale, (attempt.costs - attempt.computing) / scale

    drawn = [*(chosen for _, chosen in places), *others]
    budget, best = limits.communicating / scale, limits.best / scale
    right = 1.2 * max(best, *(place(each)[0] for each in drawn))
    top = 1.15 * max(budget, best, *(place(each)[1] for each in drawn))
    axes.set(xlim=(0, right), ylim=(0, top))
    axes.set(xlabel=f"{unit} of computing", ylabel=f"{unit} of communicating")
    axes.set_title(f"shaded: over {limits.sent / MIB:,.0f} MiB sent", **SMALL)
    axes.axhspan(budget, top, **OVER_BUDGET)
    axes.axhline(budget, **BUDGET)
    totals = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(0, right + top)[1:-1]
    for total in (each for each in totals if each > right):  # each ends at its name
        ends = (max(0, total - top), min(total, top)), (min(total, right), max(0, total - right))
        axes.plot(*zip(*ends, strict=True), color=FAINT, linewidth=0.6)
        axes.annotate(f"{total:g} {unit}", (right, total - right), xytext=(3, 0),
                      textcoords="offset points", va="center", **SMALL)  # fmt: skip
    axes.plot([], [], color=FAINT, linewidth=0.6, label="the same time in all")
    axes.plot([0, best], [best, 0], color=BEST, linewidth=1.8,
              label=f"{best:.2f} {unit} in all, the best known within both budgets")  # fmt: skip
    # one that holds too much can lie anywhere in this chart, even on the line of the best
    over = _over_budget(places, limits)
    marked = [(name, *place(each)) for name, each in places]
    _mark_places(axes, marked, whose, latest, crossed=over)
    _mark_others(axes, map(place, others), "over a budget, without a rank")
    return figure


def _times_figure(
    places: Sequence[tuple[str, TradePoint]],
    limits: Limits,
    others: Sequence[TradePoint],
    whose: str,
    latest: str,
) -> "MatplotlibFigure":
    """Draw whole times in order, for attempts that compute equally long."""
    figure, axes = _new_figure(WIDTH, 3.8)
    scale, unit, _ = COST_SCALES[limits.unit]
    drawn = [*(chosen for _, chosen in places), *others]
    computing, best = drawn[0].computing / scale, limits.best / scale
    budget = computing + limits.communicating / scale
    top = 1.15 * max(budget, best, *(each.costs / scale for each in drawn))
    right = len(drawn) + 0.6
    axes.set(xlim=(0.4, right), ylim=(0, top))
    axes.set(xlabel=whose, ylabel=f"{unit} in all")
    axes.set_title(f"shaded: over {limits.sent / MIB:,.0f} MiB sent", **SMALL)
    axes.set_xticks(range(1, len(drawn) + 1, math.ceil(len(drawn) / 8)))
    axes.axhspan(0, computing, color=(0, 0, 0, 0.08), linewidth=0)
    axes.annotate(f"{computing:.2f} {unit} of computing", (0.4, computing), xytext=(4, -4),
                  textcoords="offset points", va="top", **SMALL)  # fmt: skip
    axes.axhspan(budget, top, **OVER_BUDGET)
    axes.axhline(budget, **BUDGET)
    axes.axhline(best, color=BEST, linewidth=1.8,
                 label=f"{best:.2f} {unit} in all, the best known within both budgets")  # fmt: skip
    times = list(enumerate((each.costs / scale for each in drawn), 1))
    marked = [(name, *at) for (name, _), at in zip(places, times, strict=False)]
    _mark_places(axes, marked, whose, latest, crossed=_over_budget(places, limits))
    _mark_others(axes, times[len(places) :], "over a budget, without a rank")
    return figure


def _held_figure(
    places: Sequence[tuple[str, TradePoint]],
    limits: Limits,
    others: Sequence[TradePoint],
    whose: str,
    latest: str,
) -> "MatplotlibFigure":
    """Draw what each attempt holds."""
    figure, axes = _new_figure(1.6, 2.9)
    drawn = [*(chosen for _, chosen in places), *others]
    cap, highest = limits.held / MIB, 1.3 * max(limits.held, *(each.held for each in drawn)) / MIB
    axes.set(xlim=(0.4, len(drawn) + 0.6), ylim=(0, highest))
    axes.set(xlabel=whose, ylabel="MiB held")
    axes.set_title(f"over {cap:,.0f} MiB", **SMALL)
    axes.set_xticks(range(1, len(drawn) + 1, math.ceil(len(drawn) / 4)))
    axes.axhspan(cap, highest, **OVER_BUDGET)
    axes.axhline(cap, **BUDGET)
    held = list(enumerate((each.held / MIB for each in drawn), 1))
    marked = [("", *each) for each in held[: len(places)]]
    over = {number for number, (_, each) in enumerate(places) if each.held > limits.held}
    _mark_places(axes, marked, whose, latest, crossed=over)
    _mark_others(axes, held[len(places) :])
    return figure


def _over_budget(places: Sequence[tuple[str, TradePoint]], limits: Limits) -> set[int]:
    """Return the positions of attempts that hold or send too much."""
    return {
        number
        for number, (_, each) in enumerate(places)
        if each.held > limits.held or each.costs - each.computing > limits.communicating
    }


def _mark_others(axes: Any, places: Iterable[tuple[float, float]], label: str = "") -> None:
    """Mark choices beyond a budget, which have no names."""
    for x, y in places:
        axes.plot([x], [y], "x", color=FAINT, label=label, clip_on=False)
        label = ""


def _mark_places(
    axes: Any,
    places: Sequence[Named],
    label: str,
    latest: str = "",
    left_until: float | None = None,
    crossed: Collection[int] = (),
) -> None:
    """Mark places, with their names beside them; names that would overlap are listed together.

    Args:
        axes: matplotlib's axes, whose limits are set.
        places: the places and their names; without a name, there is only a marker.
        label: the text in the legend.
        latest: the same for the last place, if it is filled and the others hollow; empty if all
            are filled.
        left_until: names of places up to here are to the left of the markers, others above them;
            None: all are to the right.
        crossed: the positions in `places` of those over a budget, which are marked by crosses.
    """
    groups: list[tuple[Any, list[str]]] = []
    labelled = set()
    for number, (name, x, y) in enumerate(places):
        is_latest = bool(latest) and number == len(places) - 1
        marker, over = ("X", ": over a budget") if number in crossed else ("o", "")
        size = 8 if is_latest else 6  # the latest covers an earlier one in the same place
        text = (latest if is_latest else label) + over
        axes.plot([x], [y], marker, color=YOURS, markersize=size, clip_on=False,
                  fillstyle="none" if latest and not is_latest else "full",
                  label="" if text in labelled else text)  # fmt: skip
        labelled.add(text)
        at = axes.transData.transform((x, y))
        near = (names for place, names in groups if max(abs(at - place) / LABEL_SIZE) < 1)
        if (names := next(near, None)) is not None:
            names.append(name)
        else:
            groups.append((at, [name]))
    for at, names in groups:
        names = list(filter(None, names))
        x, y = axes.transData.inverted().transform(at)
        if left_until is None:
            align, offset = "left", (5, 3)
        else:
            align, offset = ("right", (-5, 3)) if x < left_until else ("center", (0, 6))
        joined = ", ".join(names) if len(names) < 4 else f"{names[0]}, …, {names[-1]}"
        axes.annotate(
            joined,
            (x, y),
            xytext=offset,
            textcoords="offset points",
            ha=align,
            fontsize=9,
            fontweight="bold",
        )


def _new_figure(width: float, height: float) -> tuple["MatplotlibFigure", Any]:
    """Return a figure of a size in inches, and its axes."""
    figure = find_figure_class()(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    return figure, axes


def _describe_limits(limits: Limits) -> str:
    sends = f", and {limits.sent:,} sent" if limits.sent else ""
    known = _listed([TradePoint(*best) for best in limits.frontier], limits)
    return f"at most {limits.held:,} bytes may be held{sends}. The best that is known: {known}."


def _listed(attempts: Sequence[TradePoint], limits: Limits) -> str:
    scale, name, _ = COST_SCALES.get(limits.unit, (1, limits.unit.removeprefix("bytes "), ""))
    decimals = 2 if scale > 1 else 0
    return "; ".join(
        f"{each.held:,} held, {each.costs / scale:,.{decimals}f} {name}"
        + f" ({each.computing / scale:,.{decimals}f} of them computing)" * bool(each.computing)
        for each in attempts
    )
