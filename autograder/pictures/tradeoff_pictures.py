"""Draw memory against cost: the best that is known, and your own attempts."""

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
    picture = _picture(attempts[-1:], attempts[:-1], cap, frontier, unit)
    return (
        f'<div><div style="font-weight:600">{html.escape(title)}</div>'
        f"{_embedded(picture, _in_words(title, attempts, cap, frontier, unit))}</div>"
    )


def class_tradeoff_as_html(
    places: Sequence[tuple[str, Pair]],
    others: Sequence[Pair],
    cap: int,
    frontier: Sequence[Pair],
    unit: str = "bytes moved",
) -> str:
    """What a class chose as a picture: who is in the running with a name, who is not without.

    Args:
        places: pairs of a short name, such as a place in a table, and what was chosen.
        others: what is beyond a budget.
        cap: the most that may be held.
        frontier: the best that is known.
        unit: what costs are counted in.
    """
    names, chosen = [name for name, _ in places], [pair for _, pair in places]
    picture = _picture(chosen, others, cap, frontier, unit, names or [""])
    said = f"The class: at most {cap:,} bytes may be held. "
    said += f"The best that is known: {_listed(frontier, unit)}. "
    said += f"In the running: {_listed(chosen, unit) or 'nobody'}. "
    said += f"Beyond a budget: {_listed(others, unit) or 'nobody'}."
    return _embedded(picture, said, 640)


def _picture(
    chosen: Sequence[Pair],
    others: Sequence[Pair],
    cap: int,
    frontier: Sequence[Pair],
    unit: str,
    names: Sequence[str] = (),
) -> bytes:
    """What was chosen beside the best that is known, as a PNG; names stand beside it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2) if names else (4.6, 3.0), layout="constrained")
    axes = figure.subplots()
    size, of_size = (MIB, "MiB") if cap >= MIB else (1, "bytes")
    parts, _, heading = READ.get(unit, (1, "", unit))

    def scaled(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
        return [held / size for held, _ in pairs], [cost / parts for _, cost in pairs]

    known = scaled(sorted(frontier))
    axes.step(*known, where="post", color="#0072b2", label="the best that is known")
    axes.plot(*known, "o", color="#0072b2", markersize=4)
    axes.axvline(cap / size, color="#1a1a1a", linestyle="--", label="the most that may be held")
    label = ("beyond a budget" if others else None) if names else None
    axes.plot(*scaled(others), "x", color="#7a7a7a", label=label)
    label = "the class" if names else "yours"
    axes.plot(*scaled(chosen), "*", color="#d0560a", markersize=13, linestyle="none", label=label)
    for name, held, cost in zip(names, *scaled(chosen), strict=False):
        axes.annotate(name, (held, cost), xytext=(8, -3), textcoords="offset points", fontsize=8)
    most = max(cost / parts for _, cost in [*chosen, *others, *frontier])
    axes.set(xlabel=f"{of_size} held on each device", ylabel=heading)
    axes.set_ylim(-0.06 * most, 1.1 * most)
    axes.legend(fontsize=8)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=160)
    return written.getvalue()


def _embedded(picture: bytes, described: str, width: int = 460) -> str:
    encoded = base64.b64encode(picture).decode()
    said = html.escape(described, quote=True)
    return f'<img width="{width}" alt="{said}" src="data:image/png;base64,{encoded}">'


def _in_words(
    title: str, attempts: Sequence[Pair], cap: int, frontier: Sequence[Pair], unit: str
) -> str:
    """What the picture shows."""
    return (
        f"{title}: at most {cap:,} bytes may be held. "
        f"The best that is known: {_listed(frontier, unit)}. "
        f"Yours: {_listed(attempts, unit)}."
    )


def _listed(pairs: Sequence[Pair], unit: str) -> str:
    parts, name, _ = READ.get(unit, (1, unit.removeprefix("bytes "), unit))
    return "; ".join(
        f"{held:,} held, {cost / parts:,.{1 if parts > 1 else 0}f} {name}" for held, cost in pairs
    )
