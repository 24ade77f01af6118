"""Pictures of blocks, drawn: as SVG for a notebook, and as a matplotlib figure."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autograder.pictures.block_geometry import Point, scene_of
from autograder.pictures.block_pictures import Picture
from autograder.pictures.palette import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def blocks_as_html(pictures: Sequence[Picture]) -> str:
    """The pictures for a notebook: HTML with one SVG each, side by side, with text alternatives."""
    drawn = "".join(_svg(picture) for picture in pictures)
    style = "display:flex;flex-wrap:wrap;gap:24px;align-items:flex-end"
    return f'<div style="{style}">{drawn}</div>'


def blocks_as_figure(pictures: Sequence[Picture]) -> "Figure":
    """The pictures as one matplotlib figure, which belongs to no window."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    scenes = [scene_of(picture) for picture in pictures]
    made = Figure(
        figsize=(sum(s.width for s in scenes) / 72, max(s.height for s in scenes) / 72),
        layout="constrained",
    )
    axes = made.subplots(1, len(scenes), squeeze=False, width_ratios=[s.width for s in scenes])[0]
    for ax, picture, scene in zip(axes, pictures, scenes, strict=True):
        for tile in scene.tiles:
            for points, tint in tile.fills():
                ax.add_patch(Polygon(points, facecolor=tint))
            ax.add_patch(Polygon(tile.points, fill=False, edgecolor=INK))
            ax.text(*tile.centre, tile.label, ha="center", va="center", fontsize=9, color=INK)
        for word in scene.words:
            ax.text(*word.at, word.text, ha=word.anchor, va="center", fontsize=8)
        ax.set(xlim=(-2, scene.width), ylim=(scene.height, -2), title=picture.title)
        ax.set_aspect("equal")
        ax.axis("off")
    return made


def _svg(picture: Picture) -> str:
    scene = scene_of(picture)
    parts = []
    for tile in scene.tiles:
        for points, tint in tile.fills():
            parts.append(f'<polygon points="{_points(points)}" fill="{tint}"/>')
        parts.append(f'<polygon points="{_points(tile.points)}" fill="none" stroke="{INK}"/>')
        x, y = tile.centre
        parts.append(
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="{INK}">'
            f"{html.escape(tile.label)}</text>"
        )
    anchors = {"left": "start", "center": "middle", "right": "end"}
    for word in scene.words:
        x, y = word.at
        parts.append(
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchors[word.anchor]}" '
            f'fill="currentColor" font-size="11">{html.escape(word.text)}</text>'
        )
    title = (
        f'<div style="font-weight:600">{html.escape(picture.title)}</div>' if picture.title else ""
    )
    described = html.escape(picture.description, quote=True)
    return (
        f"<div>{title}"
        f'<svg role="img" aria-label="{described}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{scene.width + 4:.0f}" height="{scene.height:.0f}" '
        f'viewBox="-2 0 {scene.width + 4:.0f} {scene.height:.0f}" '
        f'font-family="sans-serif" font-size="13">'
        f"<title>{described}</title>{''.join(parts)}</svg></div>"
    )


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
