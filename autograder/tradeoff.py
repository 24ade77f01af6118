"""A picture of bytes held against bytes moved: the best that is known, and one's own attempts."""

import base64
import html
import io
from collections.abc import Sequence

from autograder.verdict import Trade


def plot(title: str, trades: Sequence[Trade]) -> str:
    """The attempts as HTML with an SVG, the last one marked; with the same in words.

    Args:
        title: stands above it.
        trades: the attempts, the latest last; the frontier and the cap are those of the last.
    """
    from matplotlib.figure import Figure

    last = trades[-1]
    figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    held, moved = zip(*sorted(last.frontier), strict=True)
    axes.step(held, moved, where="post", color="#0072b2", label="the best that is known")
    axes.plot(held, moved, "o", color="#0072b2", markersize=4)
    axes.axvline(last.cap, color="#1a1a1a", linestyle="--", label="the cap")
    earlier = trades[:-1]
    axes.plot([t.held for t in earlier], [t.moved for t in earlier], "x", color="#7a7a7a")
    axes.plot([last.held], [last.moved], "*", color="#d0560a", markersize=13, label="yours")
    axes.set(xlabel="bytes held on each device", ylabel="bytes moved", ylim=(-1500, None))
    axes.legend(fontsize=8)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=160)
    described = html.escape(described_in_words(title, trades), quote=True)
    picture = base64.b64encode(written.getvalue()).decode()
    return (
        f'<div><div style="font-weight:600">{html.escape(title)}</div>'
        f'<img width="460" alt="{described}" src="data:image/png;base64,{picture}"></div>'
    )


def described_in_words(title: str, trades: Sequence[Trade]) -> str:
    """What the picture shows."""
    last = trades[-1]
    known = "; ".join(f"{held:,} held, {moved:,} moved" for held, moved in last.frontier)
    attempts = "; ".join(f"{t.held:,} held, {t.moved:,} moved" for t in trades)
    return f"{title}: cap {last.cap:,} bytes. The best that is known: {known}. Yours: {attempts}."
