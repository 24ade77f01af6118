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

ROW_GAP: Final = 10.0
"""Pixels between the rows of a chart that continues below itself."""

TICK_STEPS: Final = (1, 2, 5)
MAX_TICKS: Final = 12

TICK: Final = (0.8, 4.0)
"""The width and the height of a mark on the axis, in pixels."""

SWATCH: Final = 12.0
"""The side of a colour in the legend, in pixels."""


@dataclass(frozen=True)
class JobBar:
    """A job on a Gantt chart.

    Attributes:
        name: its name in words.
        label: what is drawn on it, where there is room.
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
        """Whether the bar is longer than its drawing."""
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
        may_wrap: whether a long chart continues in rows below, which break at whole times, so that
            labels have room on its bars.
    """

    title: str
    lanes: tuple[tuple[str, tuple[JobBar, ...]], ...]
    remarks: tuple[str, ...] = ()
    is_timed: bool = True
    axis: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    may_wrap: bool = False

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
    ) -> Self:
        """Make a chart from the bars of each lane, by the lane's name, and colours' meanings."""
        fixed = tuple((name, tuple(bars)) for name, bars in lanes.items())
        meanings = tuple((legend or {}).items())
        return cls(title, fixed, tuple(remarks), is_timed, axis, meanings, may_wrap)

    @property
    def bars(self) -> dict[str, tuple[JobBar, ...]]:
        """The bars of each lane, by the lane's name."""
        return dict(self.lanes)

    @property
    def end(self) -> float:
        """When the last job ends, as far as it is drawn."""
        return max((bar.drawn_end for _, bars in self.lanes for bar in bars), default=0.0)


@dataclass(frozen=True)
class _Scale:
    """The scale that charts below each other have in common.

    Attributes:
        longest: when the last job of all charts ends.
        length: the time that a row shows; all of it, unless charts are wrapped.
    """

    longest: float
    length: float

    @property
    def pixels(self) -> float:
        """The width of a unit of time."""
        return CHART_WIDTH / self.length

    def rows_of(self, chart: GanttChart) -> int:
        """Return how many rows a chart has."""
        return max(1, math.ceil(chart.end / self.length - 1e-9))

    def pieces_of(self, bar: JobBar) -> list[tuple[int, float, float]]:
        """Return a bar's pieces: the row, and where it starts and ends there."""
        first = math.floor(bar.start / self.length + 1e-9)
        last = max(first, math.ceil(bar.drawn_end / self.length - 1e-9) - 1)
        return [
            (
                row,
                max(bar.start - row * self.length, 0.0),
                min(bar.drawn_end - row * self.length, self.length),
            )
            for row in range(first, last + 1)
        ]

    def labelled_row_of(self, bar: JobBar) -> int | None:
        """Return the row in which a bar has its label; None if it has no room for one."""
        row, start, end = max(self.pieces_of(bar), key=lambda piece: piece[2] - piece[1])
        room = self.pixels * (end - start)
        return row if text_width(bar.drawn_label, LABEL_SIZE) + LABEL_MARGIN <= room else None


def gantt_as_html(charts: Sequence[GanttChart]) -> str:
    """Return charts below each other as HTML, on one scale."""
    scale = _choose_scale(charts)
    return "".join(_chart_as_html(chart, scale) for chart in charts)


def _choose_scale(charts: Sequence[GanttChart]) -> _Scale:
    """Choose the scale with which the most bars have labels, and of these the one with the fewest
    rows.
    """
    longest = max((chart.end for chart in charts), default=0.0)
    if not longest or not all(chart.may_wrap for chart in charts if chart.lanes):
        return _Scale(longest, longest)
    rows = range(2, MAX_ROWS + 1)
    scales = [
        _Scale(longest, longest),
        *(_Scale(longest, float(math.ceil(longest / count))) for count in rows),
    ]
    bars = [bar for chart in charts for _, bars in chart.lanes for bar in bars]
    return max(scales, key=lambda s: sum(s.labelled_row_of(bar) is not None for bar in bars))


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
    tops = [row * (row_height + ROW_GAP) for row in range(scale.rows_of(chart))]
    for top_of_row in tops:
        for number, (name, _) in enumerate(chart.lanes):
            middle = top_of_row + (number + 0.5) * LANE_HEIGHT + 1
            drawing.text(name, (0, middle), LABEL_SIZE)
    for number, (_, bars) in enumerate(chart.lanes):
        for bar in bars:
            labelled = scale.labelled_row_of(bar)
            for row, start, end in scale.pieces_of(bar):
                top, width = tops[row] + number * LANE_HEIGHT + 1, scale.pixels * (end - start)
                at = left + scale.pixels * start
                add_box = drawing.cut_off_box if bar.is_cut_off else drawing.box
                gap = 0 if bar.joins_next else 1
                add_box(at, top, max(width - gap, 0.5), LANE_HEIGHT - 3, bar.colour)
                if row == labelled:
                    centre = at + width / 2, top + LANE_HEIGHT / 2 - 1
                    drawing.label(bar.drawn_label, centre, LABEL_SIZE)
    for row, top_of_row in enumerate(tops if chart.axis else ()):
        _draw_axis(drawing, chart, row, top_of_row + lanes_height, left, scale)
    words = "; ".join(f"{name}: {_in_words(chart, bars)}" for name, bars in chart.lanes)
    width, height = math.ceil(left + CHART_WIDTH + 1), math.ceil(tops[-1] + row_height)
    height = _draw_legend(drawing, chart.legend, height, width)
    return svg_image(
        drawing.layers(),
        f"{chart.title}. {words}.",
        width=width,
        viewBox=f"0 0 {width} {height}",
        font_family="sans-serif",
        style="display:block;max-width:100%;height:auto",
    )


def _draw_axis(
    drawing: Drawing, chart: GanttChart, row: int, top: float, left: float, scale: _Scale
) -> None:
    """Draw the axis below the lanes of a row: its name beside it, and numbers below marks."""
    wide, high = TICK
    middle = top + LANE_HEIGHT / 2
    drawing.text(chart.axis, (0, middle), LABEL_SIZE)
    is_last = row == scale.rows_of(chart) - 1
    starts = row * scale.length
    ends = chart.end if is_last else starts + scale.length
    right = left + scale.pixels * (ends - starts)
    for time in _list_ticks(chart.end, scale):
        if time < starts or (time >= ends and not is_last):  # the next row begins with its end
            continue
        at = left + scale.pixels * (time - starts)
        drawing.hairline_box(at - wide / 2, top, wide, high)
        half = text_width(f"{time:g}", LABEL_SIZE) / 2
        # numbers keep off the axis's name, and the last one stays within the chart
        centre = min(max(at, left - GAP + half), right - half)
        drawing.text(f"{time:g}", (centre, middle + 1), LABEL_SIZE, centred=True)


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
