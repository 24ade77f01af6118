"""Draw Gantt charts: when each stage, device or link runs its jobs. All charts have one scale."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from shardlings.pictures.svg import Drawing, svg_image, text_width

CHART_WIDTH: Final = 360
"""In pixels, without the names of the lanes; wider charts have tiny labels on a narrow page."""

LANE_HEIGHT: Final = 22
LABEL_SIZE: Final = 12.0

GAP: Final = 8.0
"""Pixels between a lane's name and its jobs."""

LABEL_MARGIN: Final = 3.0
"""Pixels that a label leaves free on its bar: labels of neighbours would read as one number."""


MAX_ROWS: Final = 4
"""With more rows, a chart of eight lanes would be taller than a screen."""

MAX_UNUSED: Final = 0.25
"""The share of a row that may stay free, so that it ends where no job runs."""

MAX_SCALES: Final = 100
"""The number of row lengths that are tried."""

ROW_GAP: Final = 10.0
"""Pixels between the rows of a chart that continues below itself."""

TICK_STEPS: Final = (1, 2, 5)
MAX_TICKS: Final = 12

TICK: Final = (0.8, 4.0)
"""The width and the height of a mark on the axis, in pixels."""

MAX_OVERHANG: Final = 1.0
"""Pixels by which a number on the axis may be over the right edge of the lanes."""

SWATCH: Final = 12.0
"""The side of a colour in the legend, in pixels."""


@dataclass(frozen=True)
class JobBar:
    """A job on a Gantt chart.

    Attributes:
        name: its name in words.
        label: what is drawn on it, where there is room; beside the only bar of a lane otherwise.
        colour: a light colour, which carries a dark label.
        start: when it starts.
        end: when it ends.
        drawn_until: when its drawing stops, if all of it would make the chart too long. The bar
            then ends in an arrow head, and its label in `→`.
        joins_next: whether the next bar of the lane is a part of the same job, so that no gap
            separates the two.
    """

    name: str
    label: str
    colour: str
    start: float
    end: float
    drawn_until: float | None = None
    joins_next: bool = False

    @property
    def is_cut_off(self) -> bool:
        """Check whether the bar is longer than its drawing."""
        return self.drawn_until is not None and self.drawn_until < self.end

    @property
    def drawn_end(self) -> float:
        """When the drawing of the bar ends."""
        return self.end if self.drawn_until is None else min(self.end, self.drawn_until)

    @property
    def drawn_label(self) -> str:
        """The label, which says whether the bar goes on."""
        return f"{self.label} →" if self.is_cut_off else self.label


@dataclass(frozen=True)
class GanttChart:
    """When each lane runs its jobs.

    Attributes:
        title: the line above the chart.
        lanes: the name of each lane with its bars, in order.
        remarks: lines below the title.
        is_timed: whether bars start and end at times, which text then names.
        axis: what the axis below the lanes says, such as `time, ms`; empty for no axis.
        legend: pairs of a colour and what it means.
        may_wrap: whether a long chart continues in rows below, so that labels have room on its
            bars. No bar is cut between rows.
        has_steps: whether the axis counts steps of one unit, each with its number below its middle,
            and not times.
    """

    title: str
    lanes: tuple[tuple[str, tuple[JobBar, ...]], ...]
    remarks: tuple[str, ...] = ()
    is_timed: bool = True
    axis: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    may_wrap: bool = False
    has_steps: bool = False

    @classmethod
    def of(
        cls,
        title: str,
        lanes: Mapping[str, Sequence[JobBar]],
        remarks: Sequence[str] = (),
        is_timed: bool = True,
        axis: str = "",
        legend: Mapping[str, str] | None = None,
        may_wrap: bool = False,
        has_steps: bool = False,
    ) -> Self:
        """Make a chart from the bars of each lane, by the lane's name, and colours' meanings."""
        fixed = tuple((name, tuple(bars)) for name, bars in lanes.items())
        meanings = tuple((legend or {}).items())
        return cls(title, fixed, tuple(remarks), is_timed, axis, meanings, may_wrap, has_steps)

    @property
    def bars(self) -> dict[str, tuple[JobBar, ...]]:
        """The bars of each lane, by the lane's name."""
        return dict(self.lanes)

    @property
    def end(self) -> float:
        """When the last job ends, as far as it is drawn."""
        return max((bar.drawn_end for _, bars in self.lanes for bar in bars), default=0.0)


@dataclass(frozen=True)
class _Row:
    """A row of a chart: the part of the axis that it shows, and the bars of each lane in it."""

    start: float
    end: float
    lanes: tuple[tuple[JobBar, ...], ...]


@dataclass(frozen=True)
class _Scale:
    """The scale that charts below each other have in common.

    Attributes:
        longest: when the last job of all charts ends.
        length: the time that a row of the full width shows; all of it, unless charts are wrapped.
    """

    longest: float
    length: float

    @property
    def pixels(self) -> float:
        """The width of a unit of time."""
        return CHART_WIDTH / self.length

    def rows_of(self, chart: GanttChart) -> list[_Row]:
        """Return a chart's rows, which are about equally long."""
        rows = _break_into_rows(chart, self.length)
        shortest = math.ceil(chart.end / len(rows))
        for length in range(shortest, math.ceil(self.length) if len(rows) > 1 else shortest):
            if _can_break(chart, length):
                shorter = _break_into_rows(chart, length)
                if len(shorter) == len(rows):
                    return shorter
        return rows

    def has_room_for_label(self, bar: JobBar) -> bool:
        """Check whether a bar has room for its label."""
        room = self.pixels * (bar.drawn_end - bar.start)
        return text_width(bar.drawn_label, LABEL_SIZE) + LABEL_MARGIN <= room


def _can_break(chart: GanttChart, length: float) -> bool:
    """Check whether every bar fits in the shortest row that a length allows."""
    shortest = length - math.floor(length * MAX_UNUSED)
    return all(bar.drawn_end - bar.start <= shortest for _, bars in chart.lanes for bar in bars)


def _break_into_rows(chart: GanttChart, length: float) -> list[_Row]:
    """Break a chart into rows of at most a length, so that every bar is whole.

    A row ends near its full length where the fewest jobs run. Those that do run are in the next
    row, which begins with the earliest of them.
    """
    rows: list[_Row] = []
    start, rest = 0.0, [bars for _, bars in chart.lanes]
    while chart.end - start > length + 1e-9:
        ends = [start + length - unused for unused in range(math.floor(length * MAX_UNUSED) + 1)]
        end = min(ends, key=lambda time: _count_running(rest, time))
        row = tuple(tuple(bar for bar in bars if _ends_by(bar, end)) for bars in rest)
        rest = [tuple(bar for bar in bars if not _ends_by(bar, end)) for bars in rest]
        rows.append(_Row(start, end, row))
        start = min(bar.start for bars in rest for bar in bars)
    return [*rows, _Row(start, chart.end, tuple(rest))]


def _ends_by(bar: JobBar, time: float) -> bool:
    return bar.drawn_end <= time + 1e-9


def _count_running(lanes: Sequence[Sequence[JobBar]], time: float) -> int:
    """Return how many jobs have started before a time and end after it."""
    return sum(
        bar.start < time - 1e-9 and not _ends_by(bar, time) for bars in lanes for bar in bars
    )


def gantt_as_html(charts: Sequence[GanttChart]) -> str:
    """Return charts below each other as HTML, on one scale."""
    scale = _choose_scale(charts)
    return "".join(_chart_as_html(chart, scale) for chart in charts)


def _choose_scale(charts: Sequence[GanttChart]) -> _Scale:
    """Choose the scale with which the most bars have labels. Of several, choose one with the fewest
    rows, and of these the one that draws bars the widest.
    """
    charts = [chart for chart in charts if chart.end]
    longest = max((chart.end for chart in charts), default=0.0)
    unwrapped = _Scale(longest, longest)
    if not all(chart.may_wrap for chart in charts):
        return unwrapped
    bars = [bar for chart in charts for _, bars in chart.lanes for bar in bars]

    def count_labels(scale: _Scale) -> int:
        return sum(scale.has_room_for_label(bar) for bar in bars)

    def count_rows(scale: _Scale) -> int:
        rows = [len(_break_into_rows(chart, scale.length)) for chart in charts]
        return sum(rows) if max(rows) <= MAX_ROWS else 0

    shortest = math.ceil(longest / MAX_ROWS)
    step = math.ceil((longest - shortest + 1) / MAX_SCALES)
    by_labels: dict[int, list[_Scale]] = {}
    for length in range(shortest, math.ceil(longest), step):
        if all(_can_break(chart, length) for chart in charts):
            scale = _Scale(longest, float(length))
            by_labels.setdefault(count_labels(scale), []).append(scale)
    for labels in sorted(by_labels, reverse=True):
        if labels <= count_labels(unwrapped):
            break
        scales = [scale for scale in by_labels[labels] if count_rows(scale)]
        if scales:
            return min(scales, key=count_rows)
    return unwrapped


def gantt_as_text(charts: Sequence[GanttChart]) -> str:
    """Return charts as text: a line for each lane, with its jobs and when they start and end."""
    lines = []
    for chart in charts:
        lines += [chart.title, *(f"  {remark}" for remark in chart.remarks)]
        lines += [f"  {name}: {_in_words(chart, bars)}" for name, bars in chart.lanes]
    return "\n".join(lines)


def _in_words(chart: GanttChart, bars: Sequence[JobBar]) -> str:
    return ", ".join(_bar_in_words(chart, bar) for bar in bars) or "nothing"


def _bar_in_words(chart: GanttChart, bar: JobBar) -> str:
    time = f" {bar.start:.4g}–{bar.end:.4g}" * chart.is_timed
    cut_off = f" (drawn until {bar.drawn_end:.4g})" * bar.is_cut_off
    return f"{bar.name}{time}{cut_off}"


def _chart_as_html(chart: GanttChart, scale: _Scale) -> str:
    remarks = "".join(f"<div>{html.escape(remark)}</div>" for remark in chart.remarks)
    title = f'<div style="font-weight:600">{html.escape(chart.title)}</div>'
    return f'<div style="margin-bottom:12px">{title}{remarks}{_draw(chart, scale)}</div>'


def _draw(chart: GanttChart, scale: _Scale) -> str:
    if not chart.end:
        return ""
    drawing = Drawing()
    names = [*(name for name, _ in chart.lanes), chart.axis]
    left = GAP + max(text_width(name, LABEL_SIZE) for name in names)
    lanes_height = LANE_HEIGHT * len(chart.lanes) + 2
    row_height = lanes_height + LANE_HEIGHT * bool(chart.axis)
    rows = scale.rows_of(chart)
    tops = [row * (row_height + ROW_GAP) for row in range(len(rows))]
    for row, top_of_row in zip(rows, tops, strict=True):
        for number, ((name, _), bars) in enumerate(zip(chart.lanes, row.lanes, strict=True)):
            top = top_of_row + number * LANE_HEIGHT + 1
            middle = top + LANE_HEIGHT / 2
            drawing.text(name, (0, middle), LABEL_SIZE)
            for bar in bars:
                start = left + scale.pixels * (bar.start - row.start)
                width = scale.pixels * (bar.drawn_end - bar.start)
                add_box = drawing.cut_off_box if bar.is_cut_off else drawing.box
                gap = 0 if bar.joins_next else 1
                add_box(start, top, max(width - gap, 0.5), LANE_HEIGHT - 3, bar.colour)
                if scale.has_room_for_label(bar):
                    drawing.label(bar.drawn_label, (start + width / 2, middle - 1), LABEL_SIZE)
                elif len(bars) == 1 and bar.label:  # nothing else is beside the bar
                    edge = _find_place_beside(bar.label, start, start + width, left + CHART_WIDTH)
                    if edge >= left:
                        drawing.text(bar.label, (edge, middle - 1), LABEL_SIZE)
        if chart.axis:
            is_last = row is rows[-1]
            _draw_axis(drawing, chart, row, top_of_row + lanes_height, left, scale, is_last)
    words = "; ".join(f"{name}: {_in_words(chart, bars)}" for name, bars in chart.lanes)
    width, height = math.ceil(left + CHART_WIDTH + MAX_OVERHANG), math.ceil(tops[-1] + row_height)
    height = _draw_legend(drawing, chart.legend, height, width)
    return svg_image(
        drawing.layers(),
        f"{chart.title}. {words}.",
        width=width,
        viewBox=f"0 0 {width} {height}",
        font_family="sans-serif",
        style="display:block;max-width:100%;height:auto",
    )


def _find_place_beside(label: str, left: float, right: float, edge: float) -> float:
    """Return where a label starts that is to the right of a bar, or else to its left.

    Args:
        label: the label.
        left: where the bar starts, in pixels.
        right: where it ends.
        edge: the right edge of the chart.
    """
    width = text_width(label, LABEL_SIZE)
    start = right + LABEL_MARGIN
    return start if start + width <= edge else left - LABEL_MARGIN - width


def _draw_axis(
    drawing: Drawing,
    chart: GanttChart,
    row: _Row,
    top: float,
    left: float,
    scale: _Scale,
    is_last: bool,
) -> None:
    """Draw the axis below the lanes of a row: its name beside it, and numbers below marks.

    Steps have no marks, because their numbers are below their middles.
    """
    wide, high = TICK
    middle = top + LANE_HEIGHT / 2
    drawing.text(chart.axis, (0, middle), LABEL_SIZE)
    for time in _list_ticks(chart.end, scale):
        if time < row.start or time > row.end or (time == row.end and not is_last):
            continue  # the next row begins with its end
        number, mark = f"{time:g}", left + scale.pixels * (time - row.start)
        tick = mark + scale.pixels / 2 if chart.has_steps else mark
        half = text_width(number, LABEL_SIZE) / 2
        if tick + half > left + CHART_WIDTH + MAX_OVERHANG:
            continue  # the number has no room
        if not chart.has_steps:
            drawing.hairline_box(tick - wide / 2, top, wide, high)
        # numbers keep off the axis's name
        centre = max(tick, left - GAP + half)
        drawing.text(number, (centre, middle + 1), LABEL_SIZE, centred=True)


def _list_ticks(end: float, scale: _Scale) -> list[float]:
    """Return round numbers from 0 to the end of a chart, at the distance that fits all charts."""
    power = 10.0 ** math.floor(math.log10(scale.length / MAX_TICKS))
    steps = (step * tens * power for tens in (1, 10) for step in TICK_STEPS)
    step = next(each for each in steps if _fits(each, scale))
    return [round(step * i, 9) for i in range(math.floor(end / step + 1e-9) + 1)]


def _fits(step: float, scale: _Scale) -> bool:
    """Check whether numbers at this distance have room beside each other in a row."""
    numbers = (f"{step * i:.9g}" for i in range(math.floor(scale.longest / step) + 1))
    count = math.floor(scale.length / step)
    if count > MAX_TICKS:
        return False
    widest = max(text_width(number, LABEL_SIZE) for number in numbers)
    return scale.length / step * (widest + GAP) <= CHART_WIDTH


def _draw_legend(
    drawing: Drawing, legend: Sequence[tuple[str, str]], top: float, width: float
) -> int:
    """Draw the legend in as many rows as it needs, and return where it ends."""
    left, row = 0.0, top
    for colour, meaning in legend:
        wide = SWATCH + GAP + text_width(meaning, LABEL_SIZE)
        if left and left + wide > width:
            left, row = 0.0, row + LANE_HEIGHT
        drawing.box(left, row + (LANE_HEIGHT - SWATCH) / 2, SWATCH, SWATCH, colour)
        drawing.text(meaning, (left + SWATCH + GAP / 2, row + LANE_HEIGHT / 2), LABEL_SIZE)
        left += wide + GAP
    return math.ceil(row + LANE_HEIGHT if legend else top)
