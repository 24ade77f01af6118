"""Draw trades with matplotlib: the attempts of a learner or of a class, beside the best known."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from autograder.judge.verdict import Trade
from shardlings.pictures import (
    CHART_COLOUR,
    CHART_WIDTH,
    FAINT_COLOUR,
    SMALL_TYPE,
    add_chart_legend,
    figure_as_html,
    mark_chart_places,
    start_chart,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

BEST: Final = "#00805e"
OVER_BUDGET: Final[dict[str, Any]] = {"facecolor": (0.71, 0.29, 0, 0.2), "edgecolor": "none"}
BUDGET: Final[dict[str, Any]] = {"color": CHART_COLOUR, "linewidth": 1, "linestyle": "--"}
"""The edge of the area beyond a budget, whose own contrast is low."""

MAX_HEIGHT: Final = 2.5
"""An attempt that costs more times what the others do is marked at the top edge of a chart."""

MAX_LISTED_ABOVE: Final = 3
"""The number of attempts above a chart whose costs its title lists."""

COMPUTES_ALIKE: Final = 1.05
"""If no attempt computes longer than another by this factor, only the other time is drawn."""

MIB: Final = 2**20

COST_SCALES: Final = {"microseconds": (1000, "ms", "milliseconds, as modelled")}
"""Units that are converted for the chart: the divisor, the unit shown, and the axis label."""


def attempts_as_html(title: str, attempts: Sequence[Trade]) -> str:
    """Return a chart of a learner's attempts, numbered in order, as HTML.

    Where sending has a budget, computing and communicating are the axes, and lines connect equal
    sums of the two; if all compute equally long, the whole times are drawn in order. Elsewhere the
    axes are what is held and what it costs.

    Args:
        title: the text above it.
        attempts: the attempts, the latest last.
    """
    limits = attempts[-1]
    numbered = [(str(number), attempt) for number, attempt in enumerate(attempts, 1)]
    charts = _TradeCharts(numbered, limits, "yours, in order", latest="your latest")
    chart = charts.as_html(
        f"{title}: {_describe_limits(limits)} Yours: {_listed(attempts, limits)}."
    )
    return f'<div><div style="font-weight:600">{html.escape(title)}</div>{chart}</div>'


def class_tradeoff_as_html(places: Sequence[tuple[str, Trade]], others: Sequence[Trade]) -> str:
    """Return a chart of a class's choices as HTML.

    Args:
        places: pairs of a short name, such as a rank, and what was chosen.
        others: choices beyond a budget, which have no names.
    """
    chosen = [trade for _, trade in places]
    limits = (*chosen, *others)[0]
    return _TradeCharts(places, limits, "the class", others).as_html(
        f"The class: {_describe_limits(limits)} "
        f"In the running: {_listed(chosen, limits) or 'nobody'}. "
        f"Beyond a budget: {_listed(others, limits) or 'nobody'}.",
    )


@dataclass(frozen=True)
class _TradeCharts:
    """Charts of what a learner or a class has chosen.

    Attributes:
        places: pairs of a short name, such as a rank, and what was chosen.
        limits: one of the choices, which has the budgets and the best that is known.
        whose: the label of the choices.
        others: choices beyond a budget, which have no names.
        latest: the label of the last choice; empty for none.
    """

    places: Sequence[tuple[str, Trade]]
    limits: Trade
    whose: str
    others: Sequence[Trade] = ()
    latest: str = ""

    @property
    def drawn(self) -> list[Trade]:
        """All choices."""
        return [*(chosen for _, chosen in self.places), *self.others]

    def as_html(self, description: str) -> str:
        """Return one chart or two, which are side by side where the page is wide enough."""
        draw = self._draw_costs
        if self.limits.max_sent:
            computing = [each.computing for each in self.drawn]
            alike = max(computing) <= COMPUTES_ALIKE * min(computing)
            draw = self._draw_times if alike else self._draw_design
        figure = draw()
        add_chart_legend(figure)
        chart = figure_as_html(figure, description)
        if not self.limits.max_sent:
            return chart
        held_chart = figure_as_html(self._draw_held(), "The MiB that each holds.")
        return (
            f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:0 24px">'
            f"<div>{chart}</div><div>{held_chart}</div></div>"
        )

    def _draw_costs(self) -> "MatplotlibFigure":
        """Draw costs against the bytes held, with the best that is known as a stepped line."""
        figure, axes = start_chart(CHART_WIDTH, 3.5)
        byte_scale, byte_unit = (MIB, "MiB") if self.limits.cap >= MIB else (1, "bytes")
        cost_scale, cost_unit, cost_label = COST_SCALES.get(
            self.limits.unit, (1, "bytes", self.limits.unit)
        )
        best = sorted(self.limits.frontier)
        known_costs = max(self.limits.goal, *(costs for _, costs in best)) or 1
        most_costs = max(known_costs, *(each.costs for each in self.drawn))
        right = (
            1.3 * max(self.limits.cap, best[0][0], *(each.held for each in self.drawn)) / byte_scale
        )
        top = 1.12 * min(most_costs, MAX_HEIGHT * known_costs) / cost_scale
        axes.set(xlim=(0, right), ylim=(0, top))
        axes.set(xlabel=f"{byte_unit} held on each device", ylabel=cost_label)
        # six digits and a comma are too wide for five ticks
        axes.locator_params("x", nbins=3 if right >= 10**5 else 5)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.10g}")  # 1,000,000, and not 1e+06

        cap, goal = self.limits.cap / byte_scale, self.limits.goal / cost_scale
        also = f" or {goal:,g} {cost_unit}" if goal else ""
        axes.axvspan(cap, right, **OVER_BUDGET)
        shaded = f"shaded: over {cap:,g} {byte_unit}{also}"
        axes.plot([cap, cap], [0, goal or top], **BUDGET, label=shaded)
        if goal:
            axes.fill_between([0, cap], goal, top, **OVER_BUDGET)
            axes.plot([0, cap], [goal, goal], **BUDGET)
        known = [(h / byte_scale, c / cost_scale) for h, c in best if h <= right * byte_scale]
        # who may hold more has at least the same choices; better ones may be unknown beyond it
        end = (right if best[-1][0] > self.limits.cap else cap, known[-1][1])
        axes.step(*zip(*known, end, strict=True), where="post", color=BEST, linewidth=1.8)
        axes.plot(*zip(*known, strict=True), "s", color=BEST, markersize=4, clip_on=False)
        axes.plot(
            [], [], "-s", color=BEST, markersize=4, linewidth=1.8, label="the best that is known"
        )

        def place(attempt: Trade) -> tuple[float, float]:
            return attempt.held / byte_scale, min(top, attempt.costs / cost_scale)

        above = {name: c for name, each in self.places if (c := each.costs / cost_scale) > top}
        if above:
            shown = [f"{name}: {costs:,.0f}" for name, costs in above.items()][:MAX_LISTED_ABOVE]
            more = ", …" * (len(above) > len(shown))
            title = f"above the chart (↑): {', '.join(shown)}{more} {cost_unit}"
            axes.set_title(title, pad=16, **SMALL_TYPE)  # above the names of these attempts
        marked = [
            (f"{name} ↑" if name in above else name, *place(each)) for name, each in self.places
        ]
        mark_chart_places(axes, marked, self.whose, self.latest)
        _mark_others(axes, map(place, self.others), "over a budget, without a rank")
        return figure

    def _draw_design(self) -> "MatplotlibFigure":
        """Draw communicating against computing."""
        from matplotlib.ticker import MaxNLocator

        figure, axes = start_chart(CHART_WIDTH, 3.8)
        scale, unit, _ = COST_SCALES[self.limits.unit]

        def place(attempt: Trade) -> tuple[float, float]:
            return attempt.computing / scale, (attempt.costs - attempt.computing) / scale

        budget, best = self.limits.max_communicating / scale, self.limits.best / scale
        right = 1.2 * max(best, *(place(each)[0] for each in self.drawn))
        top = 1.15 * max(budget, best, *(place(each)[1] for each in self.drawn))
        axes.set(xlim=(0, right), ylim=(0, top))
        axes.set(xlabel=f"{unit} of computing", ylabel=f"{unit} of communicating")
        axes.set_title(f"shaded: over {self.limits.max_sent / MIB:,.0f} MiB sent", **SMALL_TYPE)
        axes.axhspan(budget, top, **OVER_BUDGET)
        axes.axhline(budget, **BUDGET)
        totals = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(0, right + top)[1:-1]
        for total in (each for each in totals if each > right):  # each ends at its name
            ends = (
                (max(0, total - top), min(total, top)),
                (min(total, right), max(0, total - right)),
            )
            axes.plot(*zip(*ends, strict=True), color=FAINT_COLOUR, linewidth=0.6)
            axes.annotate(f"{total:g} {unit}", (right, total - right), xytext=(3, 0),
                          textcoords="offset points", va="center", **SMALL_TYPE)  # fmt: skip
        axes.plot([], [], color=FAINT_COLOUR, linewidth=0.6, label="the same time in all")
        axes.plot([0, best], [best, 0], color=BEST, linewidth=1.8, label=self._label_best())
        # one that holds too much can lie anywhere in this chart, even on the line of the best
        over_budget = self._find_over_budget()
        marked = [(name, *place(each)) for name, each in self.places]
        mark_chart_places(axes, marked, self.whose, self.latest, crossed=over_budget)
        _mark_others(axes, map(place, self.others), "over a budget, without a rank")
        return figure

    def _draw_times(self) -> "MatplotlibFigure":
        """Draw whole times in order, for attempts that compute equally long."""
        figure, axes = start_chart(CHART_WIDTH, 3.8)
        scale, unit, _ = COST_SCALES[self.limits.unit]
        computing, best = self.drawn[0].computing / scale, self.limits.best / scale
        budget = computing + self.limits.max_communicating / scale
        top = 1.15 * max(budget, best, *(each.costs / scale for each in self.drawn))
        right = len(self.drawn) + 0.6
        axes.set(xlim=(0.4, right), ylim=(0, top))
        axes.set(xlabel=self.whose, ylabel=f"{unit} in all")
        axes.set_title(f"shaded: over {self.limits.max_sent / MIB:,.0f} MiB sent", **SMALL_TYPE)
        axes.set_xticks(range(1, len(self.drawn) + 1, math.ceil(len(self.drawn) / 8)))
        axes.axhspan(0, computing, color=(0, 0, 0, 0.08), linewidth=0)
        axes.annotate(f"{computing:.2f} {unit} of computing", (0.4, computing), xytext=(4, -4),
                      textcoords="offset points", va="top", **SMALL_TYPE)  # fmt: skip
        axes.axhspan(budget, top, **OVER_BUDGET)
        axes.axhline(budget, **BUDGET)
        axes.axhline(best, color=BEST, linewidth=1.8, label=self._label_best())
        times = list(enumerate((each.costs / scale for each in self.drawn), 1))
        marked = [
            (name, *position) for (name, _), position in zip(self.places, times, strict=False)
        ]
        mark_chart_places(axes, marked, self.whose, self.latest, crossed=self._find_over_budget())
        _mark_others(axes, times[len(self.places) :], "over a budget, without a rank")
        return figure

    def _draw_held(self) -> "MatplotlibFigure":
        """Draw what each attempt holds."""
        figure, axes = start_chart(1.6, 2.9)
        cap, highest = (
            self.limits.cap / MIB,
            1.3 * max(self.limits.cap, *(each.held for each in self.drawn)) / MIB,
        )
        axes.set(xlim=(0.4, len(self.drawn) + 0.6), ylim=(0, highest))
        axes.set(xlabel=self.whose, ylabel="MiB held")
        axes.set_title(f"over {cap:,.0f} MiB", **SMALL_TYPE)
        axes.set_xticks(range(1, len(self.drawn) + 1, math.ceil(len(self.drawn) / 4)))
        axes.axhspan(cap, highest, **OVER_BUDGET)
        axes.axhline(cap, **BUDGET)
        held = list(enumerate((each.held / MIB for each in self.drawn), 1))
        marked = [("", *each) for each in held[: len(self.places)]]
        over_budget = {
            number for number, (_, each) in enumerate(self.places) if each.held > self.limits.cap
        }
        mark_chart_places(axes, marked, self.whose, self.latest, crossed=over_budget)
        _mark_others(axes, held[len(self.places) :])
        return figure

    def _label_best(self) -> str:
        scale, unit, _ = COST_SCALES[self.limits.unit]
        return f"{self.limits.best / scale:.2f} {unit} in all, the best known within both budgets"

    def _find_over_budget(self) -> set[int]:
        """Return the positions of attempts that hold or send too much."""
        return {
            number
            for number, (_, each) in enumerate(self.places)
            if each.held > self.limits.cap
            or each.costs - each.computing > self.limits.max_communicating
        }


def _mark_others(axes: Any, places: Iterable[tuple[float, float]], label: str = "") -> None:
    """Mark choices beyond a budget, which have no names."""
    for x, y in places:
        axes.plot([x], [y], "x", color=FAINT_COLOUR, label=label, clip_on=False)
        label = ""


def _describe_limits(limits: Trade) -> str:
    sends = f", and {limits.max_sent:,} sent" if limits.max_sent else ""
    known = _listed([limits.at(*best) for best in limits.frontier], limits)
    return f"at most {limits.cap:,} bytes may be held{sends}. The best that is known: {known}."


def _listed(attempts: Sequence[Trade], limits: Trade) -> str:
    scale, name, _ = COST_SCALES.get(limits.unit, (1, limits.unit.removeprefix("bytes "), ""))
    decimals = 2 if scale > 1 else 0
    return "; ".join(
        f"{each.held:,} held, {each.costs / scale:,.{decimals}f} {name}"
        + f" ({each.computing / scale:,.{decimals}f} of them computing)" * bool(each.computing)
        for each in attempts
    )
