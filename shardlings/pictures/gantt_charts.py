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
    """

    name: str
    label: str
    colour: str
    start: float
    end: float


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
    """

    title: str
    lanes: tuple[tuple[str, tuple[JobBar, ...]], ...]
    remarks: tuple[str, ...] = ()
    is_timed: bool = True
    axis: str = ""
    legend: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        lanes: Mapping[str, Sequence[JobBar]],
        remarks: Sequence[str] = (),
        is_timed: bool = True,
        axis: str = "",
        legend: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a chart from the bars of each lane, by the lane's name, and colours' meanings."""
        fixed = tuple((name, tuple(bars)) for name, bars in lanes.items())
        return cls(title, fixed, tuple(remarks), is_timed, axis, tuple((legend or {}).items()))

    @property
    def bars(self) -> dict[str, tuple[JobBar, ...]]:
        """The bars of each lane, by the lane's name."""
        return dict(self.lanes)

    @property
    def end(self) -> float:
        """When the last job ends."""
        return max((bar.end for _, bars in self.lanes for bar in bars), default=0.0)


def gantt_as_html(charts: Sequence[GanttChart]) -> str:
    """Return charts below each other as HTML, on one scale."""
    end = max((chart.end for chart in charts), default=0.0)
    return "".join(_chart_as_html(chart, end) for chart in charts)


def gantt_as_text(charts: Sequence[GanttChart]) -> str:
    """Return charts as text: a line for each lane, with its jobs and when they start and end."""
    lines = []
    for chart in charts:
        lines += [chart.title, *(f"  {remark}" for remark in chart.remarks)]
        lines += [f"  {name}: {_in_words(chart, bars)}" for name, bars in chart.lanes]
    return "\n".join(lines)


def _in_words(chart: GanttChart, bars: Sequence[JobBar]) -> str:
    times = (f" {bar.start:.4g}–{bar.end:.4g}" * chart.is_timed for bar in bars)
    named = [f"{bar.name}{time}" for bar, time in zip(bars, times, strict=True)]
    return ", ".join(named) or "nothing"


def _chart_as_html(chart: GanttChart, end: float) -> str:
    remarks = "".join(f"<div>{html.escape(remark)}</div>" for remark in chart.remarks)
    title = f'<div style="font-weight:600">{html.escape(chart.title)}</div>'
    return f'<div style="margin-bottom:12px">{title}{remarks}{_draw(chart, end)}</div>'


def _draw(chart: GanttChart, end: float) -> str:
    if not chart.end:
        return ""
    drawing, scale = Drawing(), CHART_WIDTH / end
    names = [*(name for name, _ in chart.lanes), chart.axis]
    left = GAP + max(text_width(name, LABEL_SIZE) for name in names)
    for number, (name, bars) in enumerate(chart.lanes):
        top = number * LANE_HEIGHT + 1.0
        drawing.text(name, (0, top + LANE_HEIGHT / 2), LABEL_SIZE)
        for bar in bars:
            start, width = left + scale * bar.start, scale * (bar.end - bar.start)
            drawing.box(start, top, max(width - 1, 0.5), LANE_HEIGHT - 3, bar.colour)
            if text_width(bar.label, LABEL_SIZE) + LABEL_MARGIN <= width:
                centre = start + width / 2, top + LANE_HEIGHT / 2 - 1
                drawing.label(bar.label, centre, LABEL_SIZE)
    words = "; ".join(f"{name}: {_in_words(chart, bars)}" for name, bars in chart.lanes)
    width, height = math.ceil(left + CHART_WIDTH + 1), LANE_HEIGHT * len(chart.lanes) + 2
    if chart.axis:
        _draw_axis(drawing, chart, height, left, scale)
        height += LANE_HEIGHT
    height = _draw_legend(drawing, chart.legend, height, width)
    return svg_image(
        drawing.layers(),
        f"{chart.title}. {words}.",
        width=width,
        viewBox=f"0 0 {width} {height}",
        font_family="sans-serif",
        style="display:block;max-width:100%;height:auto",
    )


def _draw_axis(drawing: Drawing, chart: GanttChart, top: float, left: float, scale: float) -> None:
    """Draw the axis below the lanes: its name beside it, and numbers below marks."""
    wide, high = TICK
    middle = top + LANE_HEIGHT / 2
    drawing.text(chart.axis, (0, middle), LABEL_SIZE)
    for time in _list_ticks(chart.end, CHART_WIDTH / scale):
        at = left + scale * time
        drawing.hairline_box(at - wide / 2, top, wide, high)
        half = text_width(f"{time:g}", LABEL_SIZE) / 2
        centre = min(at, left + scale * chart.end - half)  # the last number stays within the chart
        drawing.text(f"{time:g}", (centre, middle + 1), LABEL_SIZE, centred=True)


def _list_ticks(end: float, longest: float) -> list[float]:
    """Return round numbers from 0 to the end of a chart, at the distance that fits the longest."""
    power = 10.0 ** math.floor(math.log10(longest / MAX_TICKS))
    steps = (step * tens * power for tens in (1, 10) for step in TICK_STEPS)
    step = next(each for each in steps if _fits(each, longest))
    return [round(step * i, 9) for i in range(math.floor(end / step + 1e-9) + 1)]


def _fits(step: float, longest: float) -> bool:
    """Check whether numbers at this distance have room beside each other."""
    count = math.floor(longest / step)
    widest = max(text_width(f"{step * i:.9g}", LABEL_SIZE) for i in range(count + 1))
    return count <= MAX_TICKS and longest / step * (widest + GAP) <= CHART_WIDTH


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
