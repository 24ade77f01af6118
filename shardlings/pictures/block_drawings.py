"""Draw blocks as HTML, as a matplotlib figure, as text and for a terminal.

The numbers that devices hold are written as tables instead, with a column for each device.
"""

import html
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shardlings.pictures.block_pictures import (
    FONT_SIZES,
    Edge,
    Picture,
    Place,
    Scene,
    SceneText,
    Tile,
    block_label,
    inset,
    scenes_of,
)
from shardlings.pictures.figures import find_figure_class
from shardlings.pictures.svg import (
    INK,
    Point,
    device_colour,
    svg_element,
    svg_image,
    svg_number,
    svg_points,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

WRONG: Final = "#8c1d00"
"""The colour of the outline of a wrong block."""

LINK: Final = "#b54a00"
"""The colour of a link between two processes."""

MUTED_OPACITY: Final = "0.72"
"""The opacity of less important text, whose contrast is above 4.5 to 1 in both themes."""

NO_BREAK_SPACE: Final = "\u00a0"

MONOSPACE: Final = "ui-monospace, Menlo, Consolas, monospace"

ARROWS: Final = ("↓", "→")

MAX_WRITTEN_NUMBERS: Final = 16
"""Larger blocks are described by their dtype and shape."""

DeviceBlocks = tuple[str, Mapping[int, np.ndarray[Any, Any]]]
"""An array's title, and the block that each device holds, by the device's id."""


# HTML


def blocks_as_html(pictures: Sequence[Picture]) -> str:
    """Return pictures as HTML, side by side, each an SVG with a text alternative.

    They are aligned at the top and have one scale. They wrap where there are many, and a picture
    that is wider than the page is shrunk. If the pictures of several processes have the same
    caption, it is below all of them.
    """
    has_titles = any(picture.title or picture.code for picture in pictures)
    captions = [(picture.caption, picture.legend()) for picture in pictures]
    has_one_caption = len(pictures) > 1 and bool(captions[0][1]) and len({*captions}) == 1
    images = "".join(
        _picture_as_html(picture, scene, has_titles, () if has_one_caption else caption)
        for picture, scene, caption in zip(pictures, scenes_of(pictures), captions, strict=True)
    )
    style = "display:flex;flex-wrap:wrap;gap:20px 32px;align-items:flex-start;margin:4px 0 8px"
    row = f'<div style="{style}">{images}</div>'
    return f"<div>{row}{_caption_as_html(captions[0])}</div>" if has_one_caption else row


def _caption_as_html(lines: Sequence[str], max_width: str = "100%") -> str:
    small = f"font-size:12px;opacity:.75;margin:2px 0;max-width:{max_width}"
    return "".join(f'<div style="{small}">{html.escape(line)}</div>' for line in lines if line)


def _picture_as_html(
    picture: Picture, scene: Scene, has_titles: bool, caption: Sequence[str]
) -> str:
    title = html.escape(picture.title)
    if picture.code:
        title += f"{' &nbsp;' * bool(title)}<code>{html.escape(picture.code)}</code>"
    # without a title of its own, a picture begins at the same height as those beside it
    heading = (
        f'<div style="font-weight:600;margin:0 0 4px">{title or NO_BREAK_SPACE}</div>'
        if has_titles
        else ""
    )
    below = _caption_as_html(caption, f"{max(round(scene.width), 280)}px")
    return f'<div style="max-width:100%">{heading}{_scene_as_svg(picture, scene)}{below}</div>'


def _scene_as_svg(picture: Picture, scene: Scene) -> str:
    content = [
        svg_element("title", html.escape(picture.description)),
        *(_line_as_svg(points) for points in scene.hairlines),
        *(_line_as_svg(points, stroke=LINK, stroke_width=4) for points in scene.links),
        *(_line_as_svg([*points, points[0]], stroke_width=1.5) for points in scene.frames),
        *(_tile_as_svg(tile) for tile in scene.tiles),
        *(_outline_as_svg(points) for points in scene.outlines),
        *(_text_as_svg(text) for text in scene.texts),
    ]
    width, height = f"{scene.width + 4:.0f}", f"{scene.height:.0f}"
    return svg_image(
        "".join(content),
        picture.description,
        width=width,  # without a height, it keeps its proportions when it is shrunk
        viewBox=f"-2 0 {width} {height}",
        font_family="system-ui, sans-serif",
        font_size=FONT_SIZES["label"],
        style="display:block;max-width:100%",
    )


def _tile_as_svg(tile: Tile) -> str:
    line, paint = {"stroke": INK}, {"fill": INK}
    if not tile.is_coloured:
        line = {"stroke": "currentColor", "stroke_opacity": ".45"}
        paint = {"fill": "currentColor", "fill_opacity": MUTED_OPACITY}
    if tile.is_device:
        (x, y), (right, bottom) = tile.points[0], tile.points[2]
        width, height = right - x, bottom - y
        fill = next((colour for _, colour in tile.fills()), "none")
        box = svg_element("rect", x=x, y=y, width=width, height=height, rx=7, fill=fill, **line)
        parts = [box]
    else:
        parts = [
            svg_element("polygon", points=svg_points(corners), fill=colour)
            for corners, colour in tile.fills()
        ]
        outline = svg_points(tile.points)
        parts.append(svg_element("polygon", points=outline, fill="none", **line))
    if tile.is_wrong:
        parts.append(_outline_as_svg(inset(tile.points)))
    if tile.label:
        x, y = tile.centre
        label = html.escape(tile.label)
        parts.append(svg_element("text", label, x=x, y=y + 4, text_anchor="middle", **paint))
    return "".join(parts)


def _outline_as_svg(points: Sequence[Point]) -> str:
    return svg_element(
        "polygon",
        points=svg_points(points),
        fill="none",
        stroke=WRONG,
        stroke_width=3,
        stroke_dasharray="7 4",
    )


def _line_as_svg(
    points: Sequence[Point], stroke: str = "currentColor", stroke_width: float = 1
) -> str:
    path = "M" + " L".join(f"{svg_number(x)},{svg_number(y)}" for x, y in points)
    look: dict[str, Any] = {"stroke": stroke, "stroke_width": stroke_width}
    if stroke_width == 1:
        look = {"stroke": stroke, "stroke_opacity": ".5"}
    return svg_element("path", d=path, fill="none", **look)


def _text_as_svg(text: SceneText) -> str:
    x, y = text.place
    anchor = {"left": "start", "center": "middle", "right": "end"}[text.anchor]
    parts = " ".join(
        svg_element(
            "tspan",
            html.escape(part),
            font_size=FONT_SIZES[style],
            fill="currentColor",
            **_style_attributes(style),
        )
        for style, part in text.parts
    )
    return svg_element("text", parts, x=x, y=y + 4, text_anchor=anchor)


def _style_attributes(style: str) -> dict[str, str]:
    if style == "axis":
        return {"font_weight": "600", "font_family": MONOSPACE}
    muted = {"fill_opacity": MUTED_OPACITY}
    return muted | ({"font_family": MONOSPACE} if style == "name" else {})


# Matplotlib


def blocks_as_figure(pictures: Sequence[Picture]) -> "Figure":
    """Return pictures as one matplotlib figure, which is not registered with pyplot."""
    figure_class = find_figure_class()
    from matplotlib.patches import Polygon

    def outline(points: Sequence[Point]) -> Polygon:
        return Polygon(points, fill=False, edgecolor=WRONG, linewidth=2.5, linestyle="--")

    scenes = scenes_of(pictures)
    below = [[line for line in (picture.caption, picture.legend()) if line] for picture in pictures]
    heights = [
        scene.height + 8 + 13 * len(lines) for scene, lines in zip(scenes, below, strict=True)
    ]
    figure = figure_class(
        figsize=(
            sum(s.width for s in scenes) / 72 + 0.4,
            max(heights) / 72 + 0.5,
        ),
        layout="constrained",
    )
    axes = figure.subplots(1, len(scenes), squeeze=False, width_ratios=[s.width for s in scenes])[0]
    for i, (ax, picture, scene) in enumerate(zip(axes, pictures, scenes, strict=True)):
        for points in scene.hairlines:
            ax.plot(*zip(*points, strict=True), color="black", alpha=0.5, linewidth=0.8)
        for points in scene.links:
            ax.plot(*zip(*points, strict=True), color=LINK, linewidth=3)
        for points in scene.frames:
            ax.add_patch(Polygon(points, fill=False, edgecolor="black", linewidth=1.2))
        for tile in scene.tiles:
            for points, colour in tile.fills():
                ax.add_patch(Polygon(points, facecolor=colour))
            ax.add_patch(Polygon(tile.points, fill=False, edgecolor=INK, linewidth=0.8))
            if tile.is_wrong:
                ax.add_patch(outline(inset(tile.points)))
            ax.text(*tile.centre, tile.label, ha="center", va="center", fontsize=9, color=INK)
        for points in scene.outlines:
            ax.add_patch(outline(points))
        for text in scene.texts:
            bold = "bold" if any(style == "axis" for style, _ in text.parts) else "normal"
            ax.text(
                *text.place, text.text, ha=text.anchor, va="center", fontsize=8, fontweight=bold
            )  # fmt: skip
        look = {"ha": "left", "va": "top", "fontsize": 8, "alpha": 0.75}
        ax.text(0, scene.height + 8, "\n".join(below[i]), **look)
        ax.set(xlim=(-2, scene.width), ylim=(heights[i], -2))
        ax.set_title(_title(picture), fontsize=10)
        ax.set_aspect("equal", anchor="N")
        ax.axis("off")
    return figure


# Text and terminals


def blocks_as_text(picture: Picture) -> str:
    """Return the blocks' device ids alone, in the format that `Layout.parse` reads.

    Each block is a word and each row a line, with an empty line between planes.
    """
    return "\n\n".join(
        "\n".join(_plane_lines(picture, place, lambda ids: ",".join(map(str, ids))))
        for place, _ in picture.planes
    )


def pictures_as_text(pictures: Sequence[Picture]) -> str:
    """Return pictures as text, side by side, with titles and axis names.

    A wrong block has a star, and a pale one is a dot.
    """
    with_edges = any(_has_axes(picture) for picture in pictures)
    columns = [_picture_lines(picture, with_edges) for picture in pictures]
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "    ".join(line.ljust(width) for line, width in zip(lines, widths, strict=True)).rstrip()
        for lines in zip_longest(*columns, fillvalue="")
    )


def blocks_for_terminal(pictures: Sequence[Picture]) -> "RenderableType":
    """Return pictures for a terminal, as rich tables side by side."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def block(picture: Picture, place: Place) -> Text:
        ids, wrong = picture.labels[place], place in picture.wrong and not picture.is_all_wrong
        label = f"{block_label(ids)}{'*' * wrong}"
        if place in picture.pale or not ids:
            return Text(label, style="dim")
        return Text(label, style=f"{'bold ' * wrong}{INK} on {device_colour(ids[0])}")

    def group(picture: Picture) -> Group:
        parts: list[RenderableType] = []
        if picture.title or picture.code:
            parts.append(Text.assemble((_title(picture), "bold")))
        if _has_axes(picture):
            parts.append(Text(_edges_as_text(picture)))
        planes = Table.grid(padding=(0, 2))
        rows: dict[Place, list[RenderableType]] = {}
        for plane, name in picture.planes:
            table = Table(show_header=False, show_lines=True, padding=(0, 1))
            for row in picture.rows(plane):
                table.add_row(*(block(picture, place) for place in row))
            rows.setdefault(plane[:-1], []).append(Group(name, table) if name else table)
        for tables in rows.values():
            planes.add_row(*tables)
        parts.append(planes)
        below = [picture.caption, *_legend(picture, "faint")]
        return Group(*parts, *(Text(line, style="dim") for line in below))

    return Columns([group(picture) for picture in pictures], padding=(0, 3))


def _picture_lines(picture: Picture, with_edges: bool) -> list[str]:
    edges = _edges_as_text(picture) if with_edges else ""
    lines = [line for line in (_title(picture), edges) if line]
    for plane, name in picture.planes:
        lines += [name] if name else []
        lines += _plane_lines(picture, plane, block_label, marked=True)
    return [*lines, *([picture.caption] * bool(picture.processes)), *_legend(picture, "·")]


def _plane_lines(
    picture: Picture,
    plane: Place,
    label: Callable[[tuple[int, ...]], str],
    marked: bool = False,
) -> list[str]:
    """Return the rows of one plane with aligned columns.

    Args:
        picture: the picture.
        plane: the plane's place in the grid of blocks.
        label: returns the label of a block from the ids of its devices.
        marked: whether to mark wrong blocks with a star, and pale ones with a dot.
    """

    def word(place: Place) -> str:
        if marked and place in picture.pale:
            return "·"
        return (label(picture.labels[place]) or "·") + "*" * (
            marked and place in picture.wrong and not picture.is_all_wrong
        )

    words = [[word(place) for place in row] for row in picture.rows(plane)]
    widths = [max(map(len, column)) for column in zip(*words, strict=True)]
    return [
        " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).strip()
        for row in words
    ]


def _legend(picture: Picture, pale: str) -> list[str]:
    # where every block is wrong, none has a star
    legend = picture.note if picture.is_all_wrong else picture.legend("*", pale)
    return [legend] if legend else []


def _has_axes(picture: Picture) -> bool:
    return any(edge.axis for edge in picture.edges)


def _title(picture: Picture) -> str:
    return "  ".join(part for part in (picture.title, picture.code) if part)


def _edges_as_text(picture: Picture) -> str:
    """Return the texts along the dimensions: `↓ dim 0: x   → dim 1: y`."""
    rank = len(picture.edges)
    arrows = ("",) * (rank - 2) + ARROWS[2 - min(rank, 2) :]
    return "   ".join(
        f"{arrow} {_edge_as_text(edge)}".strip()
        for arrow, edge in zip(arrows, picture.edges, strict=True)
    )


def _edge_as_text(edge: Edge) -> str:
    """Return `dim 0: x`, or `x: 4 Auto` for a mesh."""
    return (": " if edge.size is None else " ").join(text for _, text in edge.parts)


# Tables of numbers


def values_as_html(arrays: Sequence[DeviceBlocks]) -> str:
    """Return a table of the numbers on each device: a row per array, a column per device."""
    devices = _devices(arrays)
    head = "".join(
        f'<th style="background-color:{device_colour(d)};color:{INK};text-align:center">{d}</th>'
        for d in devices
    )
    body = "".join(
        f'<tr><th style="text-align:left">{html.escape(title)}</th>'
        + "".join(
            f'<td style="text-align:center;white-space:pre">{html.escape(_numbers(blocks, d))}</td>'
            for d in devices
        )
        + "</tr>"
        for title, blocks in arrays
    )
    return (
        f"<table><caption>what each device holds</caption><thead><tr><th>device</th>{head}</tr>"
        f"</thead><tbody>{body}</tbody></table>"
    )


def values_as_text(arrays: Sequence[DeviceBlocks]) -> str:
    """Return the numbers on each device as text: a line per array and device."""
    return "\n".join(
        f"{title}: device {device} holds {_numbers(blocks, device)}".replace("\n", " / ")
        for title, blocks in arrays
        for device in sorted(blocks)
    )


def values_for_terminal(arrays: Sequence[DeviceBlocks]) -> "RenderableType":
    """Return the numbers on each device for a terminal, as a rich table."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="what each device holds", show_lines=True)
    table.add_column("device")
    for device in _devices(arrays):
        table.add_column(
            Text(str(device), style=f"{INK} on {device_colour(device)}"), justify="center"
        )
    for title, blocks in arrays:
        table.add_row(Text(title), *(Text(_numbers(blocks, d)) for d in _devices(arrays)))
    return table


def _devices(arrays: Sequence[DeviceBlocks]) -> list[int]:
    return sorted({device for _, blocks in arrays for device in blocks})


def _numbers(blocks: Mapping[int, np.ndarray[Any, Any]], device: int) -> str:
    """Return the numbers of a device's block, a line per row."""
    if device not in blocks:
        return ""
    block = np.asarray(blocks[device])
    if block.size > MAX_WRITTEN_NUMBERS:
        return f"{block.dtype.name}{list(block.shape)}"
    rows = block.reshape(-1, block.shape[-1]) if block.ndim else block.reshape(1, 1)
    return "\n".join(" ".join(f"{number:.4g}" for number in row) for row in rows)
