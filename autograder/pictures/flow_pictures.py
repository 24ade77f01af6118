"""Pictures of what flows: devices as the mesh lays them out with arrows between, and bars.

This knows circles, arrows and numbers, and nothing of JAX.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autograder.pictures.block_geometry import Point
from autograder.pictures.palette import INK, tint

STEP: Final = 62.0
RADIUS: Final = 15.0
ARROW: Final = "#0072b2"


@dataclass(frozen=True)
class Flow:
    """One picture: who sends to whom.

    Attributes:
        title: stands above it.
        caption: stands below it.
        ids: the devices, in the order in which they are laid out.
        columns: how many stand in a row.
        links: pairs of a sender and a receiver, by id.
    """

    title: str
    caption: str
    ids: tuple[int, ...]
    columns: int
    links: tuple[tuple[int, int], ...]


def flows_as_html(pictures: Sequence[Flow]) -> str:
    """The pictures as HTML with one SVG each, side by side, with text alternatives."""
    style = "display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start"
    return f'<div style="{style}">{"".join(_flow(p) for p in pictures)}</div>'


def bars_as_html(amounts: Sequence[tuple[str, int]], unit: str) -> str:
    """A horizontal bar for each named amount, longest first, with its number beside it."""
    most = max((amount for _, amount in amounts), default=0) or 1
    rows = "".join(
        f'<div style="margin:2px 0"><code>{html.escape(name)}</code><div style="display:flex;'
        f'align-items:center;gap:8px"><div style="background-color:{ARROW};height:10px;'
        f'width:{max(2, round(320 * amount / most))}px"></div>{amount:,} {html.escape(unit)}</div>'
        f"</div>"
        for name, amount in amounts
    )
    return f"<div>{rows}</div>"


def _flow(flow: Flow) -> str:
    place = {
        device: (34 + STEP * (i % flow.columns), 34 + STEP * (i // flow.columns))
        for i, device in enumerate(flow.ids)
    }
    width = 68 + STEP * (min(flow.columns, len(flow.ids)) - 1)
    height = 68 + STEP * (math.ceil(len(flow.ids) / flow.columns) - 1)
    arrows = "".join(
        _arrow(place[one], place[other])
        for one, other in flow.links
        if one in place and other in place
    )
    circles = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{RADIUS:.0f}" fill="{tint(device)}" '
        f'stroke="{INK}"/><text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="{INK}">'
        f"{device}</text>"
        for device, (x, y) in place.items()
    )
    said = "; ".join(f"{one} to {other}" for one, other in flow.links)
    described = html.escape(f"{flow.title}, {flow.caption}: {said}", quote=True)
    return (
        f'<div><div style="font-weight:600">{html.escape(flow.title)}</div>'
        f'<svg role="img" aria-label="{described}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="sans-serif" font-size="13"><title>{described}</title>{arrows}{circles}</svg>'
        f"<div>{html.escape(flow.caption)}</div></div>"
    )


def _arrow(start: Point, end: Point) -> str:
    """A bent arrow, so that there and back are two, and far neighbours go round those between."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = math.hypot(across, down) or 1.0
    bend = 0.26 * length if length > STEP * 1.1 else 8.0
    middle = (
        (start[0] + end[0]) / 2 - down / length * bend,
        (start[1] + end[1]) / 2 + across / length * bend,
    )
    first, last = _towards(start, middle, RADIUS), _towards(end, middle, RADIUS + 6)
    tip = _towards(end, middle, RADIUS + 1)
    side = ((tip[1] - last[1]) * 0.7, (last[0] - tip[0]) * 0.7)
    head = [tip, (last[0] + side[0], last[1] + side[1]), (last[0] - side[0], last[1] - side[1])]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in head)
    return (
        f'<path d="M{first[0]:.1f},{first[1]:.1f} Q{middle[0]:.1f},{middle[1]:.1f} '
        f'{last[0]:.1f},{last[1]:.1f}" fill="none" stroke="{ARROW}" stroke-width="1.6"/>'
        f'<polygon points="{points}" fill="{ARROW}"/>'
    )


def _towards(start: Point, goal: Point, distance: float) -> Point:
    across, down = goal[0] - start[0], goal[1] - start[1]
    length = math.hypot(across, down) or 1.0
    return start[0] + across / length * distance, start[1] + down / length * distance
