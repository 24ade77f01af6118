"""Draw pictures of blocks as SVG for a notebook."""

import html
from collections.abc import Sequence
from typing import Final

from autograder.pictures.block_arranging import scenes_of
from autograder.pictures.block_geometry import LETTERS, Point, Scene, Tile, Word, inset
from autograder.pictures.block_pictures import Picture
from autograder.pictures.palette import INK, WRONG

MUTED: Final = 0.72
"""How much of the page's ink a word of less weight has: it stays above 4.5 to 1 in both themes."""

BLANK: Final = "\u00a0"

MONO: Final = "ui-monospace, Menlo, Consolas, monospace"


def blocks_as_html(pictures: Sequence[Picture]) -> str:
    """The pictures for a notebook: HTML with one SVG each, side by side, with text alternatives.

    They are aligned at the top and at one scale. Many wrap; one that is wider than the page
    becomes smaller.
    """
    titled = any(picture.title or picture.code for picture in pictures)
    drawn = "".join(
        _drawn(picture, scene, titled)
        for picture, scene in zip(pictures, scenes_of(pictures), strict=True)
    )
    style = "display:flex;flex-wrap:wrap;gap:20px 32px;align-items:flex-start;margin:4px 0 8px"
    return f'<div style="{style}">{drawn}</div>'


def _drawn(picture: Picture, scene: Scene, titled: bool) -> str:
    """A picture with its title and what stands below it."""
    title = html.escape(picture.title)
    if picture.code:
        title += f"{' &nbsp;' * bool(title)}<code>{html.escape(picture.code)}</code>"
    # one without a title stands as low as those beside it
    above = f'<div style="font-weight:600;margin:0 0 4px">{title or BLANK}</div>' if titled else ""
    widest = max(round(scene.width), 280)
    small = f"font-size:12px;opacity:.75;margin:2px 0;max-width:{widest}px"
    below = "".join(
        f'<div style="{small}">{html.escape(words)}</div>'
        for words in (picture.caption, picture.legend())
        if words
    )
    return f'<div style="max-width:100%">{above}{_svg(picture, scene)}{below}</div>'


def _svg(picture: Picture, scene: Scene) -> str:
    described = html.escape(picture.description, quote=True)
    parts = [
        *(_line(points) for points in scene.hairlines),
        *(_tile(tile) for tile in scene.tiles),
        *(_dashed(points) for points in scene.frames),
        *(_word(word) for word in scene.words),
    ]
    # without a height it keeps its proportions where it is made narrower
    return (
        f'<svg role="img" aria-label="{described}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{scene.width + 4:.0f}" viewBox="-2 0 {scene.width + 4:.0f} {scene.height:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="{LETTERS["label"]:g}" '
        f'style="display:block;max-width:100%">'
        f"<title>{described}</title>{''.join(parts)}</svg>"
    )


def _tile(tile: Tile) -> str:
    ink = f'stroke="{INK}"' if tile.coloured else 'stroke="currentColor" stroke-opacity=".45"'
    if tile.device:
        (x, y), (right, bottom) = tile.points[0], tile.points[2]
        fill = next((tint for _, tint in tile.fills()), "none")
        box = f'x="{x:.1f}" y="{y:.1f}" width="{right - x:.1f}" height="{bottom - y:.1f}"'
        parts = [f'<rect {box} rx="7" fill="{fill}" {ink}/>']
    else:
        parts = [f'<polygon points="{_points(p)}" fill="{tint}"/>' for p, tint in tile.fills()]
        parts.append(f'<polygon points="{_points(tile.points)}" fill="none" {ink}/>')
    if tile.wrong:
        parts.append(_dashed(inset(tile.points)))
    if tile.label:
        x, y = tile.centre
        paint = f'fill="{INK}"' if tile.coloured else f'fill="currentColor" fill-opacity="{MUTED}"'
        parts.append(
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" {paint}>'
            f"{html.escape(tile.label)}</text>"
        )
    return "".join(parts)


def _dashed(points: Sequence[Point]) -> str:
    return (
        f'<polygon points="{_points(points)}" fill="none" stroke="{WRONG}" stroke-width="3" '
        f'stroke-dasharray="7 4"/>'
    )


def _line(points: Sequence[Point]) -> str:
    return (
        f'<path d="M{" L".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".5"/>'
    )


def _word(word: Word) -> str:
    x, y = word.at
    anchor = {"left": "start", "center": "middle", "right": "end"}[word.anchor]
    parts = " ".join(
        f'<tspan font-size="{LETTERS[style]:g}" fill="currentColor" {_look(style)}>'
        f"{html.escape(written)}</tspan>"
        for style, written in word.parts
    )
    return f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{parts}</text>'


def _look(style: str) -> str:
    if style == "axis":
        return f'font-weight="600" font-family="{MONO}"'
    family = f' font-family="{MONO}"' if style == "name" else ""
    return f'fill-opacity="{MUTED}"{family}'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
