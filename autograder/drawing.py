"""Pictures of labelled blocks: as text, as rich tables, as SVG, as a matplotlib figure.

This module knows rectangles, labels and colours, and nothing of JAX: what to draw arrives as a
`Panel`. The same tiles serve SVG and matplotlib, so the two cannot drift apart.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

TINTS: Final = (
    # Okabe and Ito's palette, which colour-blind readers tell apart (https://jfly.uni-koeln.de/color/),
    # mixed with white so that dark labels can be read on every one.
    "#f0c566", "#9ad2f2", "#66c5ab", "#f6ef8e", "#66aad1", "#e69e66", "#e0afca", "#c2c2c2",
)  # fmt: skip

INK: Final = "#1a1a1a"
WIDEST: Final = 520
SHARED: Final = "#f3f3f3"
Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One picture: an array cut into blocks, each labelled with the devices that hold it.

    Attributes:
        title: stands above the picture.
        caption: stands below it.
        shape: the array's shape, in elements.
        cuts: for each dimension, the intervals it is cut into.
        labels: for each place in the grid of blocks, the ids to write on it.
        description: the same in words, for those who cannot see it.
        names: what to call the dimensions of a picture of rank 2.
    """

    title: str
    caption: str
    shape: tuple[int, ...]
    cuts: tuple[tuple[tuple[int, int], ...], ...]
    labels: Mapping[tuple[int, ...], tuple[int, ...]]
    description: str
    names: tuple[str, str] = ("dimension 0", "dimension 1")

    @property
    def planes(self) -> Iterator[tuple[tuple[int, ...], str]]:
        """Each plane of the last two dimensions: its place in the grid, and its name."""
        outer = self.cuts[:-2]
        for place in product(*(range(len(cuts)) for cuts in outer)):
            parts = [
                f"{start}:{stop}"
                for (start, stop) in (cuts[i] for i, cuts in zip(place, outer, strict=True))
            ]
            yield place, f"[{', '.join([*parts, ':', ':'])}]" if outer else ""

    def rows(self, place: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        """The labels of one plane, row by row; of a vector or a scalar, one row."""
        rows = range(len(self.cuts[-2])) if len(self.cuts) > 1 else [None]
        columns = range(len(self.cuts[-1])) if self.cuts else [None]
        return [
            [
                self.labels[*place, *(index for index in (row, column) if index is not None)]
                for column in columns
            ]
            for row in rows
        ]


def plain(panel: Panel) -> str:
    """The labels alone: a word a block, a line a row, an empty line between planes."""
    planes = []
    for place, _ in panel.planes:
        words = [[",".join(map(str, label)) for label in row] for row in panel.rows(place)]
        widths = [max(map(len, column)) for column in zip(*words, strict=True)]
        planes.append(
            "\n".join(
                " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).strip()
                for row in words
            )
        )
    return "\n\n".join(planes)


def renderable(panels: Sequence[Panel]) -> "RenderableType":
    """The pictures for a terminal, as rich tables side by side."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def one(panel: Panel) -> Group:
        parts: list[RenderableType] = [Text(panel.title, style="bold")] if panel.title else []
        planes = Table.grid(padding=(0, 2))
        rows: dict[tuple[int, ...], list[RenderableType]] = {}
        for place, name in panel.planes:
            table = Table(show_header=False, show_lines=True, padding=(0, 1))
            for row in panel.rows(place):
                table.add_row(*(Text(_label(ids), style=f"{INK} on {tint(ids[0])}") for ids in row))
            rows.setdefault(place[:-1], []).append(Group(name, table) if name else table)
        for tables in rows.values():
            planes.add_row(*tables)
        parts.append(planes)
        return Group(*parts, Text(panel.caption, style="dim"))

    return Columns([one(panel) for panel in panels], padding=(0, 3))


def svg(panels: Sequence[Panel]) -> str:
    """The pictures for a notebook: HTML with one SVG each, side by side, with text alternatives."""
    pictures = "".join(_svg(panel) for panel in panels)
    style = "display:flex;flex-wrap:wrap;gap:24px;align-items:flex-end"
    return f'<div style="{style}">{pictures}</div>'


def figure(panels: Sequence[Panel]) -> "Figure":
    """The pictures as one matplotlib figure, which belongs to no window."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    scenes = [_scene(panel) for panel in panels]
    made = Figure(
        figsize=(sum(s.width for s in scenes) / 72, max(s.height for s in scenes) / 72),
        layout="constrained",
    )
    axes = made.subplots(1, len(scenes), squeeze=False, width_ratios=[s.width for s in scenes])[0]
    for ax, panel, scene in zip(axes, panels, scenes, strict=True):
        for tile in scene.tiles:
            for points, tint in tile.fills():
                ax.add_patch(Polygon(points, facecolor=tint))
            ax.add_patch(Polygon(tile.points, fill=False, edgecolor=INK))
            ax.text(*tile.centre, tile.label, ha="center", va="center", fontsize=9, color=INK)
        for word in scene.words:
            ax.text(*word.at, word.text, ha=word.anchor, va="center", fontsize=8)
        ax.set(xlim=(-2, scene.width), ylim=(scene.height, -2), title=panel.title)
        ax.set_aspect("equal")
        ax.axis("off")
    return made


@dataclass(frozen=True)
class _Tile:
    """A block to draw: four corners, clockwise from the top left, and what is written on it."""

    points: tuple[Point, Point, Point, Point]
    ids: tuple[int, ...]

    @property
    def label(self) -> str:
        return _label(self.ids)

    @property
    def centre(self) -> Point:
        return sum(x for x, _ in self.points) / 4, sum(y for _, y in self.points) / 4

    def fills(self) -> Iterator[tuple[list[Point], str]]:
        """What to colour: the tile itself, or, where several devices hold it, a chip for each.

        Chips, not stripes: stripes across the tile would look like blocks of their own.
        """
        if len(self.ids) == 1:
            yield list(self.points), tint(self.ids[0])
            return
        yield list(self.points), SHARED
        count = len(self.ids)
        for i, device in enumerate(self.ids):
            corners = ((i, 0.78), (i + 1, 0.78), (i + 1, 1), (i, 1))
            yield [self._at(a / count, b) for a, b in corners], tint(device)

    def _at(self, across: float, down: float) -> Point:
        top_left, top_right, bottom_right, bottom_left = self.points
        top = _between(top_left, top_right, across)
        return _between(top, _between(bottom_left, bottom_right, across), down)


@dataclass(frozen=True)
class _Word:
    text: str
    at: Point
    anchor: str = "center"


@dataclass
class _Scene:
    width: float = 0
    height: float = 0
    tiles: list[_Tile] = field(default_factory=list)
    words: list[_Word] = field(default_factory=list)


def _scene(panel: Panel) -> _Scene:
    """Where everything stands, in pixels from the top left."""
    scene = _Scene()
    left, y = 0.0, 14.0
    bottom = y
    if len(panel.shape) == 3:
        left, height = _draw_cube(scene, panel, y)
        scene.width, bottom = left, y + height
    x, line, first = left, 0.0, None
    for place, name in panel.planes:
        new_row = len(place) == 2 and place[0] != first  # rank 4: one for each outer block
        if new_row or x > WIDEST:  # no picture is wider than a notebook
            first, x, y, line = place[0], left, y + line, 0.0
        width, height = _draw_plane(scene, panel, place, name, x, y)
        x, line = x + width + 18, max(line, height + 16)
        scene.width, bottom = max(scene.width, x), max(bottom, y + line)
    y = bottom + 6
    scene.words.append(_Word(panel.caption, (0, y), "left"))
    scene.width = max(scene.width, 7 * len(panel.caption), 8 * len(panel.title))
    scene.height = y + 10
    return scene


def _draw_plane(
    scene: _Scene, panel: Panel, place: tuple[int, ...], name: str, x: float, y: float
) -> tuple[float, float]:
    rows = panel.rows(place)
    longest = max(len(_label(ids)) for row in rows for ids in row)
    small = len(panel.shape) > 2
    side = 96 if small else 192
    height, width = (1, 1, *panel.shape)[-2:]
    scale = side / max(height, width, 1)
    cell_width = max(width * scale / len(rows[0]), 7 * longest + 10)
    cell_height = max(height * scale / len(rows), 26)
    if name:
        scene.words.append(_Word(name, (x, y), "left"))
        y += 12
    elif len(panel.shape) == 2:
        scene.words.append(_Word(f"{panel.names[1]} →", (x, y - 2), "left"))
        beside = x + cell_width * len(rows[0]) + 4
        scene.words.append(_Word(f"{panel.names[0]} ↓", (beside, y + 14), "left"))
        y += 8
    for (i, row), j in product(enumerate(rows), range(len(rows[0]))):
        left, top = x + j * cell_width, y + i * cell_height
        right, bottom = left + cell_width, top + cell_height
        scene.tiles.append(
            _Tile(((left, top), (right, top), (right, bottom), (left, bottom)), row[j])
        )
    return cell_width * len(rows[0]) + (76 if len(panel.shape) == 2 else 0), cell_height * len(
        rows
    ) + (12 if name else 0)


def _draw_cube(scene: _Scene, panel: Panel, top: float) -> tuple[float, float]:
    """The three faces of a cube that can be seen: dimension 0 goes back, 1 down, 2 to the right."""
    left, side, back_x, back_y = 26.0, 120.0, 54.0, -42.0
    counts = [len(cuts) for cuts in panel.cuts]
    top += 12

    def at(depth: float, down: float, right: float) -> Point:
        """A point of the cube, from fractions of its three edges."""
        return left + right * side + depth * back_x, top - back_y + down * side + depth * back_y

    def face(i: int, j: int, corner: list[float]) -> None:
        """The face that dimensions `i` and `j` span at `corner`."""
        for a, b in product(range(counts[i]), range(counts[j])):
            index = [int(corner[d]) * (counts[d] - 1) for d in range(3)]
            index[i], index[j] = a, b
            points = []
            for p, q in ((0, 0), (0, 1), (1, 1), (1, 0)):
                place = list(corner)
                place[i], place[j] = (a + p) / counts[i], (b + q) / counts[j]
                points.append(at(*place))
            scene.tiles.append(
                _Tile((points[0], points[1], points[2], points[3]), panel.labels[*index])
            )

    face(1, 2, [0, 0, 0])
    face(0, 2, [0, 0, 0])
    face(0, 1, [0, 0, 1])
    scene.words.append(_Word("1 ↓", (0, top - back_y + side / 2), "left"))
    scene.words.append(_Word("2 →", (left, top - back_y + side + 10), "left"))
    scene.words.append(_Word("0 ↗", (left + back_x / 2 - 24, top - back_y / 2), "left"))
    return left + side + back_x + 18, side - back_y + 30


def _svg(panel: Panel) -> str:
    scene = _scene(panel)
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
    title = f'<div style="font-weight:600">{html.escape(panel.title)}</div>' if panel.title else ""
    described = html.escape(panel.description, quote=True)
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


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


def tint(device: int) -> str:
    """The colour of a device."""
    return TINTS[device % len(TINTS)]


def _label(ids: tuple[int, ...]) -> str:
    """`3`, `0,4`, and `0–7` for a long run."""
    if len(ids) > 3 and ids == tuple(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}–{ids[-1]}"
    return ",".join(map(str, ids))
