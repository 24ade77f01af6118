"""What is drawn of a class: SVG in the page's own ink, so that it is read in light and in dark."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

INK: Final = "#010203"
"""Stands for the colour that the page writes with, until the picture is done."""

FILLS: Final = {
    "right": ("#009e73", ""), "partly": ("#e69f00", "//"), "wrong": ("#d55e00", "xx"),
    "unanswered": ("none", ""), "waiting": ("none", ".."),
}  # fmt: skip
"""Okabe and Ito's colours, and a pattern, for nothing is told by colour alone."""

MOST_BARS: Final = 12


def histogram(totals: Sequence[float], points: float) -> Markup:
    """How many have which total, as a picture with the same in words; empty where nobody has any.

    Args:
        totals: what counts of each graded submission.
        points: the most that there is.
    """
    if not totals:
        return Markup()
    from matplotlib.ticker import MaxNLocator

    most = max(points, *totals) or 1.0
    bars = min(MOST_BARS, max(1, round(most)))
    edges = [most * i / bars for i in range(bars + 1)]
    counts = [0] * bars
    for total in totals:
        counts[min(bars - 1, int(total / most * bars + 1e-9))] += 1
    figure, axes = _figure(6.4, 2.4)
    axes.bar(
        edges[:-1], counts, most / bars, align="edge", color="#56b4e9", edgecolor=INK, linewidth=0.8
    )
    axes.set(xlabel="points", ylabel="submissions", xlim=(0, most))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    said = "; ".join(
        f"{low:.4g} to {high:.4g} points: {count}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    )
    return _svg(figure, f"Submissions by their total. {said}.")


def shares(exercises: Mapping[str, Mapping[str, int]]) -> Markup:
    """How the answers to each exercise stand, as bars of one length; empty where there are none.

    Args:
        exercises: for each, how many answers are in each state.
    """
    if not exercises:
        return Markup()
    figure, axes = _figure(6.4, 0.7 + 0.3 * len(exercises))
    places = range(len(exercises))
    left = [0.0] * len(exercises)
    sums = [sum(counts.values()) or 1 for counts in exercises.values()]
    for state, (fill, hatch) in FILLS.items():
        found = [counts.get(state, 0) for counts in exercises.values()]
        if not any(found):
            continue
        widths = [100 * count / whole for count, whole in zip(found, sums, strict=True)]
        axes.barh(
            places, widths, left=left, height=0.8, label=state, facecolor=fill, hatch=hatch,
            edgecolor=INK, linewidth=0.8,
        )  # fmt: skip
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, exercises, parse_math=False)
    axes.set(xlim=(0, 100), xlabel="% of answers")
    axes.invert_yaxis()
    axes.legend(
        ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, labelcolor=INK,
        borderaxespad=0.2, fontsize=9, handlelength=1.4, columnspacing=1.0,
    )  # fmt: skip
    said = "; ".join(
        f"{name}: {', '.join(f'{count} {state}' for state, count in counts.items() if count)}"
        for name, counts in exercises.items()
    )
    return _svg(figure, f"How the answers to each exercise stand. {said}.")


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure and its axes, all of whose lines and words are the page's ink."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(colors=INK)
    for part in (axes.xaxis.label, axes.yaxis.label):
        part.set_color(INK)
    for side, spine in axes.spines.items():
        spine.set_color(INK)
        spine.set_visible(side in ("left", "bottom"))
    return figure, axes


def _svg(figure: Any, described: str) -> Markup:
    """A figure as part of a page: with the page's ink, its width, and no name of its own."""
    from matplotlib import rc_context

    written = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "shardlings", "hatch.linewidth": 0.6}):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    drawn = written.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace(INK, "currentColor")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<(g|text) id="[^"]*"', r"<\1", drawn)  # the same in each figure
    drawn = re.sub(r"font: (\d+)px [^;\"]*", r"font: \1px system-ui, sans-serif", drawn)
    size = re.search(r'viewBox="0 0 ([\d.]+)', drawn)
    wide = float(size[1]) * 4 / 3 if size else 600
    drawn = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", drawn, count=1)
    drawn = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf'\1 width="{wide:.0f}"', drawn, count=1)
    head = Markup('<svg role="img" aria-label="{}" ').format(described)
    return head + Markup(drawn.removeprefix("<svg "))
