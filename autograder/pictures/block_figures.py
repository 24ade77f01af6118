"""Draw pictures of blocks as a matplotlib figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autograder.pictures.block_arranging import scenes_of
from autograder.pictures.block_geometry import Point, inset
from autograder.pictures.block_pictures import Picture
from autograder.pictures.palette import INK, WRONG

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def blocks_as_figure(pictures: Sequence[Picture]) -> "Figure":
    """The pictures as one matplotlib figure, which belongs to no window."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    def dashed(points: Sequence[Point], colour: str) -> Polygon:
        return Polygon(points, fill=False, edgecolor=colour, linewidth=2.5, linestyle="--")

    scenes = scenes_of(pictures)
    below = [
        [words for words in (picture.caption, picture.legend()) if words] for picture in pictures
    ]
    heights = [
        scene.height + 8 + 13 * len(lines) for scene, lines in zip(scenes, below, strict=True)
    ]
    made = Figure(
        figsize=(
            sum(s.width for s in scenes) / 72 + 0.4,
            max(heights) / 72 + 0.5,
        ),
        layout="constrained",
    )
    axes = made.subplots(1, len(scenes), squeeze=False, width_ratios=[s.width for s in scenes])[0]
    for i, (ax, picture, scene) in enumerate(zip(axes, pictures, scenes, strict=True)):
        for points in scene.hairlines:
            ax.plot(*zip(*points, strict=True), color=INK, alpha=0.5, linewidth=0.8)
        for tile in scene.tiles:
            for points, tint in tile.fills():
                ax.add_patch(Polygon(points, facecolor=tint))
            ax.add_patch(Polygon(tile.points, fill=False, edgecolor=INK, linewidth=0.8))
            if tile.wrong:
                ax.add_patch(dashed(inset(tile.points), WRONG))
            ax.text(*tile.centre, tile.label, ha="center", va="center", fontsize=9, color=INK)
        for points in scene.frames:
            ax.add_patch(dashed(points, WRONG))
        for word in scene.words:
            bold = "bold" if any(style == "axis" for style, _ in word.parts) else "normal"
            ax.text(
                *word.at, word.text, ha=word.anchor, va="center", fontsize=8, fontweight=bold
            )  # fmt: skip
        look = {"ha": "left", "va": "top", "fontsize": 8, "alpha": 0.75}
        ax.text(0, scene.height + 8, "\n".join(below[i]), **look)
        title = "  ".join(part for part in (picture.title, picture.code) if part)
        ax.set(xlim=(-2, scene.width), ylim=(heights[i], -2))
        ax.set_title(title, fontsize=10)
        ax.set_aspect("equal", anchor="N")
        ax.axis("off")
    return made
