"""A picture of bytes held against their price: the best that is known, and one's own attempts."""

import base64
import html
import io
from collections.abc import Sequence
from typing import Final

Pair = tuple[int, int]
"""Bytes held on each device, and what that costs."""

MIB: Final = 2**20

READ: Final = {"microseconds": (1000, "ms", "milliseconds, as modelled")}
"""How costs are read that are not counted as they are: divided by what, and called what."""


def tradeoff_as_html(
    title: str,
    attempts: Sequence[Pair],
    cap: int,
    frontier: Sequence[Pair],
    unit: str = "bytes moved",
) -> str:
    """The attempts as HTML with a picture, the last one marked; with the same in words.

    Args:
        title: stands above it.
        attempts: what was tried, the latest last.
        cap: the most that may be held.
        frontier: the best that is known.
        unit: what costs are counted in.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    size, of_size = (MIB, "MiB") if cap >= MIB else (1, "bytes")
    parts, _, heading = READ.get(unit, (1, "", unit))
    drawn = [(held / size, cost / parts) for held, cost in attempts]
    known = [(held / size, cost / parts) for held, cost in frontier]
    held, costs = zip(*sorted(known), strict=True)
    axes.step(held, costs, where="post", color="#0072b2", label="the best that is known")
    axes.plot(held, costs, "o", color="#0072b2", markersize=4)
    axes.axvline(cap / size, color="#1a1a1a", linestyle="--", label="the cap")
    *earlier, last = drawn
    axes.plot([held for held, _ in earlier], [cost for _, cost in earlier], "x", color="#7a7a7a")
    axes.plot([last[0]], [last[1]], "*", color="#d0560a", markersize=13, label="yours")
    most = max(cost for _, cost in [*drawn, *known])
    axes.set(xlabel=f"{of_size} held on each device", ylabel=heading)
    axes.set_ylim(-0.06 * most, 1.1 * most)
    axes.legend(fontsize=8)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=160)
    described = html.escape(_in_words(title, attempts, cap, frontier, unit), quote=True)
    picture = base64.b64encode(written.getvalue()).decode()
    return (
        f'<div><div style="font-weight:600">{html.escape(title)}</div>'
        f'<img width="460" alt="{described}" src="data:image/png;base64,{picture}"></div>'
    )


def _in_words(
    title: str, attempts: Sequence[Pair], cap: int, frontier: Sequence[Pair], unit: str
) -> str:
    """What the picture shows."""
    return (
        f"{title}: cap {cap:,} bytes. The best that is known: {_listed(frontier, unit)}. "
        f"Yours: {_listed(attempts, unit)}."
    )


def _listed(pairs: Sequence[Pair], unit: str) -> str:
    parts, name, _ = READ.get(unit, (1, unit.removeprefix("bytes "), unit))
    return "; ".join(
        f"{held:,} held, {cost / parts:,.{1 if parts > 1 else 0}f} {name}" for held, cost in pairs
    )
