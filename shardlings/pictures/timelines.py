"""Draw where a program's time goes: a bar for each group of devices, in program order, to scale."""

import html
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from shardlings.collective_kinds import CollectiveKind
from shardlings.pictures.svg import INK, svg_element, svg_image, text_width

COMPUTING: Final = "computing"
"""The kind of a stretch in which devices compute."""

KIND_COLOURS: Final = {
    COMPUTING: "#8c8c8c",
    CollectiveKind.ALL_REDUCE: "#e0672a",
    CollectiveKind.ALL_GATHER: "#4a92c6",
    CollectiveKind.REDUCE_SCATTER: "#b98500",
    CollectiveKind.ALL_TO_ALL: "#16997a",
    CollectiveKind.RAGGED_ALL_TO_ALL: "#16997a",
    CollectiveKind.COLLECTIVE_PERMUTE: "#c274a2",
    CollectiveKind.COLLECTIVE_BROADCAST: "#9a8f1f",
}
"""Colours that stand out from a white page and from a dark one, and carry dark labels."""

BAR_HEIGHT: Final = 26
"""In pixels."""

MIN_BAR_WIDTH: Final = 440
"""Labels are drawn where they fit in a bar of so many pixels; on most pages bars are wider."""

NARROW_BAR_WIDTH: Final = 320
"""Numbers below a bar of so many pixels must not overlap."""

NUMBER_SIZE: Final = 10
"""The font size of the numbers below a bar."""

MAX_RANGES: Final = 4
"""The largest number of ranges that a list of numbers has."""

TEXT_WIDTH: Final = 90
"""The characters of a line of text."""

MAX_LISTED: Final = 24
"""The largest number of stretches that are listed in words; a longer program has only totals."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of time in which a group of devices does one thing.

    Attributes:
        kind: `COMPUTING`, HLO's name of a collective, or `""` if these devices wait for others.
        over: the mesh axes of a collective, in words.
        seconds: how long it takes, in all runs.
        time: the same in words.
        runs: how often it runs, in words such as `× 7`; empty for once.
        number: the collective's number in the table below the timeline; 0 if it has none.
    """

    kind: str
    over: str
    seconds: float
    time: str
    runs: str = ""
    number: int = 0

    @property
    def name(self) -> str:
        """Its number and kind, such as `(2) all-gather`."""
        number = f"({self.number}) " if self.number else ""
        return f"{number}{self.kind or 'waiting'}"

    def __str__(self) -> str:
        """The stretch in words, such as `(2) all-gather over x × 7, 3.96 ms in all`."""
        over = f" over {self.over}" if self.over else ""
        what = f"{self.name}{over}"
        return f"{what} {self.runs}, {self.time} in all" if self.runs else f"{what} {self.time}"


@dataclass(frozen=True)
class Timeline:
    """The modelled time of a program.

    Attributes:
        title: the line above the bars.
        bars: the name of each group of devices that do the same, and its stretches in order.
        totals: the time of each kind in words, in the order of the legend.
    """

    title: str
    bars: tuple[tuple[str, tuple[Stretch, ...]], ...]
    totals: tuple[tuple[str, str], ...]


def timeline_as_html(timeline: Timeline) -> str:
    """Return a timeline as HTML: its title, the bars as wide as the page, and a legend."""
    style = "display:flex;flex-wrap:wrap;gap:2px 16px;margin:4px 0 10px"
    legend = "".join(
        f'<span style="white-space:nowrap">{_swatch(kind)} {html.escape(f"{kind} {time}")}</span>'
        for kind, time in timeline.totals
    )
    bars = "".join(
        (f"<div>{html.escape(name)}</div>" if len(timeline.bars) > 1 else "")
        + _bar(stretches, f"{name}, in order: {_in_words(stretches, timeline)}.")
        for name, stretches in timeline.bars
    )
    return (
        f'<div style="font-weight:600">{html.escape(timeline.title)}</div>'
        f'<div style="max-width:720px">{bars}</div><div style="{style}">{legend}</div>'
    )


def timeline_as_text(timeline: Timeline) -> str:
    """Return a timeline as text: what each group of devices does, in order."""
    lines = [
        textwrap.fill(
            f"{name}: {_in_words(stretches, timeline)}",
            TEXT_WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
        )
        for name, stretches in timeline.bars
    ]
    return "\n".join([timeline.title, *lines])


def _in_words(stretches: Sequence[Stretch], timeline: Timeline) -> str:
    if len(stretches) <= MAX_LISTED:
        return ", then ".join(map(str, stretches))
    totals = ", ".join(f"{kind} {time}" for kind, time in timeline.totals)
    return f"{len(stretches)} stretches; the whole program: {totals}"


def list_numbers(numbers: Sequence[int]) -> str:
    """Return ascending numbers, of which three or more in a row are a range: `1, 4–9`.

    Of many ranges, only the first ones and the last are listed.
    """
    parts: list[str] = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        listed = [str(number) for _, number in run]
        parts += [f"{listed[0]}–{listed[-1]}"] if len(listed) > 2 else listed
    if len(parts) > MAX_RANGES:
        parts = [*parts[: MAX_RANGES - 1], "…", parts[-1]]
    return ", ".join(parts)


def _bar(stretches: Sequence[Stretch], description: str) -> str:
    below = "".join(_numbers_below(stretches))
    return svg_image(
        "".join(_rectangles(stretches)) + below,
        description,
        width="100%",
        height=BAR_HEIGHT + (NUMBER_SIZE + 2) * bool(below),
        font_family="sans-serif",
        style="display:block;margin:3px 0",
    )


def _placed(stretches: Sequence[Stretch]) -> Iterator[tuple[Stretch, float, float]]:
    """Yield each stretch that is drawn, its left edge and width, in per cent of the bar's width."""
    total, elapsed = sum(stretch.seconds for stretch in stretches), 0.0
    for stretch in stretches:
        if stretch.kind:
            yield stretch, 100 * elapsed / total, 100 * stretch.seconds / total
        elapsed += stretch.seconds


def _label(stretch: Stretch, width: float) -> str:
    """Return the longest label that fits in a stretch; empty if none does."""
    texts = (f"{stretch.name} {stretch.runs}".strip(), stretch.name, str(stretch.number or ""))
    room = MIN_BAR_WIDTH * width / 100 - 6
    return next((text for text in texts if text_width(text, 11) <= room), "")


def _numbers_below(stretches: Sequence[Stretch]) -> Iterator[str]:
    """Yield the numbers of stretches that are too short for a label.

    Numbers that would overlap are listed together.
    """
    groups: list[tuple[list[int], list[float]]] = []
    for stretch, left, width in _placed(stretches):
        if not stretch.number or _label(stretch, width):
            continue
        numbers, middles = [stretch.number], [left + width / 2]
        while groups and _span(*groups[-1])[1] > _span(numbers, middles)[0]:
            earlier = groups.pop()
            numbers, middles = earlier[0] + numbers, earlier[1] + middles
        groups.append((numbers, middles))
    for numbers, middles in groups:
        yield svg_element(
            "text",
            list_numbers(numbers),
            x=f"{sum(_span(numbers, middles)) / 2:.3f}%",
            y=BAR_HEIGHT + NUMBER_SIZE,
            font_size=NUMBER_SIZE,
            text_anchor="middle",
            fill="currentColor",
        )


def _span(numbers: Sequence[int], middles: Sequence[float]) -> tuple[float, float]:
    """Return where a list of numbers begins and ends, in per cent of the bar's width.

    Args:
        numbers: the numbers.
        middles: the middle of each one's stretch.
    """
    width = 100 * (text_width(list_numbers(numbers), NUMBER_SIZE) + 4) / NARROW_BAR_WIDTH
    left = min(max((middles[0] + middles[-1] - width) / 2, 0), 100 - width)
    return left, left + width


def _rectangles(stretches: Sequence[Stretch]) -> Iterator[str]:
    """Yield each stretch as a rectangle with a label, placed in per cent of the bar's width."""
    for stretch, left, width in _placed(stretches):
        title = svg_element("title", html.escape(str(stretch)))
        yield svg_element(
            "rect",
            title,
            x=f"{left:.3f}%",
            width=f"{width:.3f}%",
            height=BAR_HEIGHT,
            fill=KIND_COLOURS[stretch.kind],
            stroke=INK,
            stroke_width=0.5,
        )
        if label := _label(stretch, width):
            yield svg_element(
                "text",
                html.escape(label),
                x=f"{left + width / 2:.3f}%",
                y=BAR_HEIGHT / 2 + 4,
                font_size=11,
                text_anchor="middle",
                fill=INK,
            )


def _swatch(kind: str) -> str:
    square = svg_element("rect", width=10, height=10, fill=KIND_COLOURS[kind])
    return svg_element(
        "svg", square, width=10, height=10, aria_hidden="true", xmlns="http://www.w3.org/2000/svg"
    )
