"""Pictures of an array's blocks or a mesh's devices: the data, and where everything is drawn.

A `Picture` says which blocks there are and which devices hold them. A `Scene` places its tiles,
texts and lines in pixels. SVG and matplotlib both draw the same scene, so they look alike.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Final, Literal

from shardlings.pictures.svg import Point, device_colour

SHARED: Final = "#f3f3f3"
"""The fill of a block that several devices hold."""

FONT_SIZES: Final = {"label": 12.0, "muted": 11.0, "axis": 12.0, "name": 11.0}
"""The font size of each style of text."""

LETTER_WIDTHS: Final = {"label": 0.6, "muted": 0.56, "axis": 0.62, "name": 0.62}
"""The width of a letter in each style, as a multiple of the font size."""

# All lengths are in pixels.
GAP: Final = 6.0
"""The pixels between an array and the hairline along its edge."""

CUBE_SIDE: Final = 112.0
"""The longest edge of a 3-D array, unless its labels need more space."""
CUBE_BACK: Final = (0.45, 0.34)
"""How far an edge that goes back leads to the right and up, as parts of its length."""
CUBE_TOP: Final = 8.0
MIN_CUBE_ROW: Final = 16.0
"""The height that a label needs on a face."""

LARGE: Final = (176.0, 132.0)
SMALL: Final = (76.0, 54.0)
"""The longest side of an array or, in three and more dimensions, of one of its planes: with few
pictures or planes, and with many."""

MAX_FEW_PICTURES: Final = 3
MAX_FEW_PLANES: Final = 4

DEVICE_BOX: Final = (36.0, 32.0)
DEVICE_GAP: Final = 6.0
LINKED_GAP: Final = 20.0
"""The gap between devices that are framed by process, with links between neighbours."""

HEADING_HEIGHT: Final = 24.0
"""The space above an array for the text along its upper edge."""

MAX_ROW_WIDTH: Final = 350.0
"""The width of a row of planes, which a narrow page shows without shrinking it."""

Place = tuple[int, ...]
"""A block's indices in the grid of blocks."""

Style = str
"""A key of `FONT_SIZES`."""

Size = tuple[float, float]


@dataclass(frozen=True)
class Edge:
    """The text along one dimension of a picture.

    Attributes:
        note: small text, such as `dim 0`, or the type of a mesh axis.
        axis: bold text: the mesh axis that this dimension is sharded over; empty if there is none.
        size: the size of that mesh axis, if it is to be written.
    """

    note: str = ""
    axis: str = ""
    size: int | None = None

    @property
    def bold(self) -> str:
        """The bold text: `x`, or `x: 4` with the size."""
        return self.axis if self.size is None else f"{self.axis}: {self.size}"

    @property
    def parts(self) -> tuple[tuple[Style, str], ...]:
        """Pairs of a style and a text, in reading order."""
        note, axis = ("muted", self.note), ("axis", self.bold)
        ordered = (note, axis) if self.size is None else (axis, note)
        return tuple((style, text) for style, text in ordered if text)


@dataclass(frozen=True)
class Picture:
    """An array partitioned into blocks, each labelled with the ids of the devices that hold it.

    Attributes:
        title: the text above the picture.
        caption: the text below it.
        shape: the array's shape, in elements.
        intervals: for each dimension, the intervals into which it is partitioned.
        labels: for each place in the grid of blocks, the ids of the devices that hold the block.
        description: the text alternative, for readers who cannot see the picture.
        edges: the text along each dimension; empty if there is none.
        code: code beside the title, such as a partition spec.
        wrong: the places of the blocks to outline.
        pale: the places of the blocks to draw without colour.
        note: what the outlined blocks, or those without colour, have in common.
        is_mesh: whether each place is a device of a mesh, and not a block of an array.
        processes: the process that owns the device at each place of a mesh; empty if there is one.
    """

    title: str
    caption: str
    shape: tuple[int, ...]
    intervals: tuple[tuple[tuple[int, int], ...], ...]
    labels: Mapping[Place, tuple[int, ...]]
    description: str
    edges: tuple[Edge, ...] = ()
    code: str = ""
    wrong: frozenset[Place] = frozenset()
    pale: frozenset[Place] = frozenset()
    note: str = ""
    is_mesh: bool = False
    processes: Mapping[Place, int] = field(default_factory=dict)

    def edge(self, dimension: int) -> Edge:
        """Return the text along a dimension; a negative number counts from the last one."""
        return self.edges[dimension] if self.edges else Edge()

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks along each dimension."""
        return tuple(map(len, self.intervals))

    @property
    def gap(self) -> float:
        """The gap between two blocks, in pixels."""
        return (LINKED_GAP if self.processes else DEVICE_GAP) if self.is_mesh else 0.0

    @property
    def padding(self) -> float:
        """The space around each plane for frames, in pixels."""
        return LINKED_GAP / 2 if self.processes else 0.0

    @property
    def planes(self) -> Iterator[tuple[Place, str]]:
        """The planes of the last two dimensions: each one's place in the grid, and its name."""
        outer = self.intervals[:-2]
        for place in product(*(range(len(parts)) for parts in outer)):
            yield place, ", ".join(self._index_name(d, i) for d, i in enumerate(place))

    def legend(self, wrong: str = "dashed", pale: str = "without colour") -> str:
        """Return what an outline or a missing colour means, or nothing if there is neither.

        Args:
            wrong: how the outlined blocks look.
            pale: how the blocks without colour look.
        """
        return f"{wrong if self.wrong else pale}: {self.note}" if self.note else ""

    @property
    def is_all_wrong(self) -> bool:
        """Whether every block is wrong, so that one outline goes around the whole array."""
        return len(self.wrong) == len(self.labels) > 0

    def _index_name(self, dimension: int, index: int) -> str:
        """Return `x = 1` for a mesh axis, and a slice such as `0:8` for a dimension."""
        edge = self.edge(dimension)
        if edge.size is not None:
            same = self.counts[dimension] < edge.size
            return f"all {edge.axis}" if same else f"{edge.axis} = {index}"
        return "{}:{}".format(*self.intervals[dimension][index])

    def rows(self, plane: Place) -> list[list[Place]]:
        """Return the places of one plane, row by row. A vector or a scalar is one row."""
        inner = self.counts[-2:]
        columns = [(*plane, *last) for last in product(*map(range, inner[-1:]))]
        if len(inner) < 2:
            return [columns]
        return [[(*plane, row, column) for column in range(inner[1])] for row in range(inner[0])]


def block_label(ids: tuple[int, ...]) -> str:
    """Return the label of a block: `3`, `0,4`, and `0–7` for four or more consecutive devices."""
    if len(ids) > 3 and ids == tuple(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}–{ids[-1]}"
    return ",".join(map(str, ids))


@dataclass(frozen=True)
class Tile:
    """A block in a scene.

    Attributes:
        points: its corners, clockwise from the top left.
        ids: the devices that hold it.
        is_wrong: whether it is outlined.
        is_pale: whether it is drawn without colour.
        is_device: whether it is a device of a mesh, and not a block of an array.
        fits_label: whether it is large enough for its label.
    """

    points: tuple[Point, Point, Point, Point]
    ids: tuple[int, ...]
    is_wrong: bool = False
    is_pale: bool = False
    is_device: bool = False
    fits_label: bool = True

    @property
    def label(self) -> str:
        """The text on it."""
        return block_label(self.ids) if self.fits_label else ""

    @property
    def is_coloured(self) -> bool:
        """Whether the label is on a colour, and therefore in ink."""
        return bool(self.ids) and not self.is_pale

    @property
    def centre(self) -> Point:
        """The centre of the label, above the chips if there are any."""
        return self.at(0.5, 0.4 if self.is_coloured and len(self.ids) > 1 else 0.5)

    def fills(self) -> Iterator[tuple[list[Point], str]]:
        """Yield the polygons to fill, and their colours.

        A block that several devices hold has a chip at its lower edge for each of them. Stripes
        across the whole tile would look like blocks of their own.
        """
        if not self.is_coloured:
            return
        if len(self.ids) == 1:
            yield list(self.points), device_colour(self.ids[0])
            return
        yield list(self.points), SHARED
        count = len(self.ids)
        for i, device in enumerate(self.ids):
            corners = ((i, 0.78), (i + 1, 0.78), (i + 1, 1), (i, 1))
            yield [self.at(a / count, b) for a, b in corners], device_colour(device)

    def at(self, across: float, down: float) -> Point:
        """Return a point of the tile, given as fractions of its edges."""
        top_left, top_right, bottom_right, bottom_left = self.points
        top = _between(top_left, top_right, across)
        return _between(top, _between(bottom_left, bottom_right, across), down)


@dataclass(frozen=True)
class SceneText:
    """A text in a scene.

    Attributes:
        parts: pairs of a style and a text, which are written in one line.
        place: the point where it is.
        anchor: which part of the text is at that point.
    """

    parts: tuple[tuple[Style, str], ...]
    place: Point
    anchor: Literal["left", "center", "right"] = "center"

    @property
    def text(self) -> str:
        """The text without its styles."""
        return " ".join(text for _, text in self.parts)


@dataclass
class Scene:
    """A picture in pixels, ready to be drawn.

    Attributes:
        width: of the whole scene.
        height: of the whole scene.
        tiles: the blocks.
        texts: the texts beside the blocks.
        hairlines: thin lines, each with the points that it passes through.
        outlines: the corners of arrays of which every block is wrong.
        frames: the corners of frames around the devices of one process.
        links: lines between neighbouring devices of different processes.
    """

    width: float = 0
    height: float = 0
    tiles: list[Tile] = field(default_factory=list)
    texts: list[SceneText] = field(default_factory=list)
    hairlines: list[Sequence[Point]] = field(default_factory=list)
    outlines: list[Sequence[Point]] = field(default_factory=list)
    frames: list[Sequence[Point]] = field(default_factory=list)
    links: list[Sequence[Point]] = field(default_factory=list)

    def grow_to(self, right: float, bottom: float) -> None:
        """Make the scene large enough for a point."""
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def add_text(
        self,
        parts: tuple[tuple[Style, str], ...],
        place: Point,
        anchor: Literal["left", "center", "right"] = "center",
    ) -> None:
        """Add a text, unless it is empty."""
        if parts:
            self.texts.append(SceneText(parts, place, anchor))
            share = {"left": 1.0, "center": 0.5, "right": 0.0}[anchor]
            self.grow_to(place[0] + share * _width(parts), place[1] + 8)

    def label_horizontal_edge(
        self, edge: Edge, left: float, right: float, y: float, above: bool
    ) -> None:
        """Write the text along a horizontal edge, with a hairline as long as the edge."""
        away = -1 if above else 1
        middle = max((left + right) / 2, left + _width(edge.parts) / 2)
        self.add_text(edge.parts, (middle, y + away * (GAP + 9)))
        if edge.axis:
            line, tick = y + away * GAP, y + away * (GAP - 3)
            self.hairlines.append([(left, tick), (left, line), (right, line), (right, tick)])

    def label_vertical_edge(self, edge: Edge, top: float, bottom: float, x: float) -> None:
        """Write the text to the left of a vertical edge, with a hairline as long as the edge."""
        line, middle, texts = x - GAP, (top + bottom) / 2, _lines(edge)
        for i, part in enumerate(texts):
            y = middle + 14 * (i - (len(texts) - 1) / 2)
            self.add_text((part,), (line - 5, y), "right")
        if edge.axis:
            ticks = ((x - GAP + 3, top), (line, top), (line, bottom), (x - GAP + 3, bottom))
            self.hairlines.append(ticks)


def inset(points: Sequence[Point]) -> list[Point]:
    """Move the corners of an outline inwards, so that the outlines of two neighbours stay apart."""
    (x, y), gap = (sum(each) / len(points) for each in zip(*points, strict=True)), 2.5
    return [(px + (gap if px < x else -gap), py + (gap if py < y else -gap)) for px, py in points]


def margin_of(edge: Edge) -> float:
    """Return the width of the space to the left of an edge for the text along it."""
    widest = max((_width((part,)) for part in _lines(edge)), default=0.0)
    return widest + GAP + 5 if widest else 0.0


def _width(parts: Sequence[tuple[Style, str]]) -> float:
    """Estimate the width of a line of text; the estimate is an upper bound."""
    return sum(FONT_SIZES[style] * LETTER_WIDTHS[style] * len(text) + 4 for style, text in parts)


def _lines(edge: Edge) -> list[tuple[Style, str]]:
    """Return the texts along an edge, line by line; a long list of names gets a line for each."""
    short = 14
    return [
        (style, line)
        for style, text in edge.parts
        for line in (text.replace(", ", ",\n").split("\n") if len(text) > short else [text])
    ]


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


def scenes_of(pictures: Sequence[Picture]) -> list[Scene]:
    """Place everything in each picture, in pixels from its top left.

    All pictures have one scale, unless labels need more space, and all arrays begin at one height.
    """
    top = HEADING_HEIGHT if any(picture.shape for picture in pictures) else 4.0
    return [
        _scene(picture, size, top)
        for picture, size in zip(pictures, _plane_sizes(pictures), strict=True)
    ]


def _plane_count(picture: Picture) -> int:
    return math.prod(picture.counts[:-2])


def _plane_sizes(pictures: Sequence[Picture]) -> list[Size]:
    """Return the width and height of one plane of each picture."""
    flat = [p for p in pictures if len(p.shape) <= 2 and not p.is_mesh]
    deep = [p for p in pictures if len(p.shape) > 2 and not p.is_mesh]
    sides = (
        LARGE[len(pictures) > MAX_FEW_PICTURES],
        SMALL[max(map(_plane_count, deep), default=0) > MAX_FEW_PLANES],
    )
    scales = [
        side / max([1, *(size for p in arrays for size in p.shape[-2:])])
        for side, arrays in zip(sides, (flat, deep), strict=True)
    ]
    wanted = [_plane_size(picture, scales[len(picture.shape) > 2]) for picture in pictures]

    def is_like(other: Picture, picture: Picture) -> bool:
        is_flat = len(picture.shape) <= 2
        return other is picture or (is_flat and other.shape == picture.shape and not other.is_mesh)

    # Labels may need more space than the scale gives. Arrays of one shape still get one size,
    # except planes: many of the largest would not fit beside each other.
    return [
        size
        if picture.is_mesh
        else (
            max(w for p, (w, _) in zip(pictures, wanted, strict=True) if is_like(p, picture)),
            max(h for p, (_, h) in zip(pictures, wanted, strict=True) if is_like(p, picture)),
        )
        for picture, size in zip(pictures, wanted, strict=True)
    ]


def _plane_size(picture: Picture, scale: float) -> Size:
    """Return the width and height of a plane in which each block has space for its label."""
    rows, columns = (1, 1, *picture.counts)[-2:]
    if picture.is_mesh:
        (width, height), gap = DEVICE_BOX, picture.gap
        return columns * (width + gap) - gap, rows * (height + gap) - gap
    longest = max((len(block_label(ids)) for ids in picture.labels.values()), default=1)
    width = columns * max(26.0, 7.2 * longest + 12)
    if not picture.shape:
        return width, 30.0
    if len(picture.shape) == 1:
        return max(width, picture.shape[0] * scale), 34.0
    min_row, min_height = (19.0, 0.0) if len(picture.shape) > 2 else (24.0, 48.0)
    return (
        max(width, picture.shape[-1] * scale),
        max(rows * min_row, picture.shape[-2] * scale, min_height),
    )


def _scene(picture: Picture, size: Size, top: float) -> Scene:
    scene, rank = Scene(), len(picture.shape)
    if rank > 2:
        _add_planes(scene, picture, size)
    else:
        (width, height), pad = size, picture.padding
        left = pad + (margin_of(picture.edge(0)) if rank == 2 else 0.0)
        top += pad
        _add_plane(scene, picture, (), (left, top), size)
        if rank == 2:
            scene.label_vertical_edge(picture.edge(0), top, top + height, left - pad)
        if rank:
            scene.label_horizontal_edge(picture.edge(-1), left, left + width, top - pad, above=True)
    scene.width, scene.height = scene.width + 2, scene.height + 2
    return scene


def _add_planes(scene: Scene, picture: Picture, size: Size) -> None:
    """Add the planes of the last two dimensions, for rank 4 in a row per block of dimension 0."""
    left, heading = 0.0, HEADING_HEIGHT
    planes, pad = list(picture.planes), picture.padding
    step = max(size[0], *(_width((("name", name),)) for _, name in planes)) + 14 + 2 * pad
    has_cube = len(picture.shape) == 3 and picture.edge(0).size is None  # an array, not a mesh
    if has_cube:
        free_left = add_cube(scene, picture) + 28
        if free_left + len(planes) * step - 14 <= MAX_ROW_WIDTH:
            left = free_left
        else:  # below the cube
            heading += scene.height + 4
    top = heading + 16
    across, down = picture.edge(-3), picture.edge(-4) if len(picture.shape) > 3 else Edge()
    groups = picture.counts[:-3]
    if picture.counts[-3] == 1 and groups:  # the planes of dimension 0 can be in one row
        across, down, groups = down, across, ()
    inner = Edge() if has_cube else picture.edge(-2)  # the cube has this text already
    start = left + margin_of(down) + margin_of(inner) + pad
    top += pad
    in_group = len(planes) // math.prod(groups)
    in_row = max(1, int((MAX_ROW_WIDTH + 14 - start) // step))
    in_row = math.ceil(in_group / math.ceil(in_group / in_row))  # 4 and 4 rather than 6 and 2
    rows_in_group = math.ceil(in_group / in_row)
    bottom = top
    for i, (place, name) in enumerate(planes):
        row, column = divmod(i % in_group, in_row)
        x = start + column * step
        y = top + (i // in_group * rows_in_group + row) * (size[1] + 28 + 2 * pad)
        scene.add_text((("name", name),), (x, y - 9 - pad), "left")
        _add_plane(scene, picture, place, (x, y), size)
        bottom = y + size[1]
    right = start + (min(in_row, in_group) - 1) * step + size[0]
    scene.label_horizontal_edge(across, start, right, heading, above=True)
    if not has_cube:
        scene.label_vertical_edge(inner, top, top + size[1], start - pad)
        scene.label_horizontal_edge(
            picture.edge(-1), start, start + size[0], bottom + pad, above=False
        )
    scene.label_vertical_edge(down, top, bottom, left + margin_of(down))


def _add_plane(scene: Scene, picture: Picture, plane: Place, corner: Point, size: Size) -> None:
    """Add the tiles of one plane, whose top left corner is at a point."""
    rows = picture.rows(plane)
    (left, top), gap = corner, picture.gap
    across, down = (size[0] + gap) / len(rows[0]), (size[1] + gap) / len(rows)
    for (i, row), j in product(enumerate(rows), range(len(rows[0]))):
        x, y = left + j * across, top + i * down
        right, bottom = x + across - gap, y + down - gap
        scene.tiles.append(
            Tile(
                ((x, y), (right, y), (right, bottom), (x, bottom)),
                picture.labels[row[j]],
                is_wrong=row[j] in picture.wrong and not picture.is_all_wrong,
                is_pale=row[j] in picture.pale,
                is_device=picture.is_mesh,
            )
        )
    if picture.processes:
        _add_processes(scene, picture, rows, scene.tiles[-len(rows) * len(rows[0]) :])
    right, bottom = left + size[0], top + size[1]
    if picture.is_all_wrong:
        scene.outlines.append(inset([(left, top), (right, top), (right, bottom), (left, bottom)]))
    scene.grow_to(right + picture.padding, bottom + picture.padding)


def _add_processes(
    scene: Scene, picture: Picture, rows: Sequence[Sequence[Place]], tiles: Sequence[Tile]
) -> None:
    """Link neighbouring devices, and frame those of one process if they are a rectangle."""
    boxes = dict(zip((place for row in rows for place in row), tiles, strict=True))
    neighbours = [pair for row in rows for pair in pairwise(row)]
    below = [pair for column in zip(*rows, strict=True) for pair in pairwise(column)]
    for (a, b), (start, end) in [
        *((pair, ((1, 0.5), (0, 0.5))) for pair in neighbours),
        *((pair, ((0.5, 1), (0.5, 0))) for pair in below),
    ]:
        crosses = picture.processes[a] != picture.processes[b]
        lines = scene.links if crosses else scene.hairlines
        lines.append([boxes[a].at(*start), boxes[b].at(*end)])
    margin = LINKED_GAP / 2 - 3
    for process in {picture.processes[place] for place in boxes}:
        own = {place for place in boxes if picture.processes[place] == process}
        first, last = min(own), max(own)
        if own != {*product(*(range(a, b + 1) for a, b in zip(first, last, strict=True)))}:
            continue
        (left, top), (right, bottom) = boxes[first].at(0, 0), boxes[last].at(1, 1)
        left, top, right, bottom = left - margin, top - margin, right + margin, bottom + margin
        scene.frames.append([(left, top), (right, top), (right, bottom), (left, bottom)])


def add_cube(scene: Scene, picture: Picture) -> float:
    """Add a 3-D array: dimension 0 goes back, 1 down, and 2 to the right.

    Returns:
        Where it ends on the right.
    """
    counts = picture.counts
    deep, high, wide = _cube_edges(picture)
    aside, up = deep * CUBE_BACK[0], deep * CUBE_BACK[1]
    left = max(margin_of(picture.edge(1)), margin_of(picture.edge(0)) - aside / 2 + GAP)
    front = CUBE_TOP + up

    def at(back: float, down: float, right: float) -> Point:
        """Return a point of the cube, given as fractions of its three edges."""
        return (
            left + right * wide + back * aside,
            front + down * high - back * up,
        )

    def add_face(i: int, j: int, corner: list[float], fits_label: bool = True) -> None:
        """Add the face that dimensions `i` and `j` span at a corner."""
        for a, b in product(range(counts[i]), range(counts[j])):
            index = [int(corner[d]) * (counts[d] - 1) for d in range(3)]
            index[i], index[j] = a, b
            points = []
            for p, q in ((0, 0), (0, 1), (1, 1), (1, 0)):
                place = list(corner)
                place[i], place[j] = (a + p) / counts[i], (b + q) / counts[j]
                points.append(at(*place))
            ids = picture.labels[*index]
            scene.tiles.append(
                Tile(
                    (points[0], points[1], points[2], points[3]),
                    ids,
                    is_pale=tuple(index) in picture.pale,
                    fits_label=fits_label,
                )
            )

    add_face(1, 2, [0, 0, 0])
    add_face(0, 2, [0, 0, 0], up / counts[0] >= MIN_CUBE_ROW - 0.1)
    add_face(0, 1, [0, 0, 1], aside / counts[0] >= _column_of_cube(picture) - 0.1)
    bottom, right = front + high, left + wide
    scene.label_vertical_edge(picture.edge(1), front, bottom, left)
    scene.label_horizontal_edge(picture.edge(2), left, right, bottom, above=False)
    _label_edge_going_back(scene, picture.edge(0), (left, front), (aside, up))
    scene.grow_to(right + aside, bottom)
    return right + aside


def _cube_edges(picture: Picture) -> tuple[float, float, float]:
    """Return the lengths of a 3-D array's edges, to scale unless a visible block needs more space.

    A block is visible at the front, or else on top, or else at the side; it has its label there.
    """
    column = _column_of_cube(picture)
    behind = picture.counts[0] > 1
    on_top = MIN_CUBE_ROW / CUBE_BACK[1] * behind
    at_side = column / CUBE_BACK[0] * (behind and picture.counts[1] > 1)
    least = (max(on_top, at_side), MIN_CUBE_ROW, column)
    deep, high, wide = (
        max(CUBE_SIDE * size / max(picture.shape), count * each)
        for size, count, each in zip(picture.shape, picture.counts, least, strict=True)
    )
    return deep, high, wide


def _column_of_cube(picture: Picture) -> float:
    """Return the width that a label needs on a face, which may be slanted."""
    return 7.2 * max(len(block_label(ids)) for ids in picture.labels.values()) + 12


def _label_edge_going_back(scene: Scene, edge: Edge, corner: Point, back: Point) -> None:
    """Write the text along the edge that leads from a corner to the right and up by `back`."""
    aside, above = -3.6, -4.8  # at right angles to the edge
    start = (corner[0] + aside, corner[1] + above)
    end = (start[0] + back[0], start[1] - back[1])
    if edge.axis:
        scene.hairlines.append([start, (end[0], max(end[1], 1.0))])
    middle = ((start[0] + end[0]) / 2 - 5, (start[1] + end[1]) / 2)
    for i, part in enumerate(edge.parts):
        y = middle[1] + 13 * (i - (len(edge.parts) - 1) / 2) - 3
        scene.add_text((part,), (middle[0] - 9 * i, max(y, 7.0)), "right")
