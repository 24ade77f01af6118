"""A picture of bytes held against bytes moved: the best that is known, and one's own attempts."""

import base64
import html
import io
from collections.abc import Sequence

Pair = tuple[int, int]
"""Bytes held, and bytes moved, on each device."""


def tradeoff_as_html(
    title: str, attempts: Sequence[Pair], cap: int, frontier: Sequence[Pair]
) -> str:
    """The attempts as HTML with a picture, the last one marked; with the same in words.

    Args:
        title: stands above it.
        attempts: what was tried, the latest last.
        cap: the most that may be held.
        frontier: the best that is known.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    held, moved = zip(*sorted(frontier), strict=True)
    axes.step(held, moved, where="post", color="#0072b2", label="the best that is known")
    axes.plot(held, moved, "o", color="#0072b2", markersize=4)
    axes.axvline(cap, color="#1a1a1a", linestyle="--", label="the cap")
    *earlier, last = attempts
    axes.plot([held for held, _ in earlier], [moved for _, moved in earlier], "x", color="#7a7a7a")
    axes.plot([last[0]], [last[1]], "*", color="#d0560a", markersize=13, label="yours")
    axes.set(xlabel="bytes held on each device", ylabel="bytes moved", ylim=(-1500, None))
    axes.legend(fontsize=8)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=160)
    described = html.escape(_in_words(title, attempts, cap, frontier), quote=True)
    picture = base64.b64encode(written.getvalue()).decode()
    return (
        f'<div><div style="font-weight:600">{html.escape(title)}</div>'
        f'<img width="460" alt="{described}" src="data:image/png;base64,{picture}"></div>'
    )


def _in_words(title: str, attempts: Sequence[Pair], cap: int, frontier: Sequence[Pair]) -> str:
    """What the picture shows."""
    return (
        f"{title}: cap {cap:,} bytes. The best that is known: {_listed(frontier)}. "
        f"Yours: {_listed(attempts)}."
    )


def _listed(pairs: Sequence[Pair]) -> str:
    return "; ".join(f"{held:,} held, {moved:,} moved" for held, moved in pairs)
