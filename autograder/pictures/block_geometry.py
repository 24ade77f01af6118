"""Where the blocks of a picture stand: tiles and words, in pixels, for whatever draws them.

The same tiles serve SVG and matplotlib, so the two cannot drift apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from autograder.pictures.block_pictures import Picture, label_of
from autograder.pictures.palette import tint

WIDEST: Final = 520

SHARED: Final = "#f3f3f3"

Point = tuple[float, float]


@dataclass(frozen=True)
class Tile:
    """A block to draw: four corners, clockwise from the top left, and what is written on it."""

    points: tuple[Point, Point, Point, Point]
    ids: tuple[int, ...]

    @property
    def label(self) -> str:
        return label_of(self.ids)

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
class Word:
    """Something written: where, and which of its ends is there."""

    text: str
    at: Point
    anchor: str = "center"


@dataclass
class Scene:
    """A drawing of so many pixels, and all that is in it."""

    width: float = 0
    height: float = 0
    tiles: list[Tile] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)


def scene_of(picture: Picture) -> Scene:
    """Where everything stands, in pixels from the top left."""
    scene = Scene()
    left, y = 0.0, 14.0
    bottom = y
    if len(picture.shape) == 3:
        left, height = _draw_cube(scene, picture, y)
        scene.width, bottom = left, y + height
    x, line, first = left, 0.0, None
    for place, name in picture.planes:
        new_row = len(place) == 2 and place[0] != first  # rank 4: one for each outer block
        if new_row or x > WIDEST:  # no picture is wider than a notebook
            first, x, y, line = place[0], left, y + line, 0.0
        width, height = _draw_plane(scene, picture, place, name, x, y)
        x, line = x + width + 18, max(line, height + 16)
        scene.width, bottom = max(scene.width, x), max(bottom, y + line)
    y = bottom + 6
    scene.words.append(Word(picture.caption, (0, y), "left"))
    scene.width = max(scene.width, 7 * len(picture.caption), 8 * len(picture.title))
    scene.height = y + 10
    return scene


def _draw_plane(
    scene: Scene, picture: Picture, place: tuple[int, ...], name: str, x: float, y: float
) -> tuple[float, float]:
    rows = picture.rows(place)
    longest = max(len(label_of(ids)) for row in rows for ids in row)
    small = len(picture.shape) > 2
    side = 96 if small else 192
    height, width = (1, 1, *picture.shape)[-2:]
    scale = side / max(height, width, 1)
    cell_width = max(width * scale / len(rows[0]), 7 * longest + 10)
    cell_height = max(height * scale / len(rows), 26)
    if name:
        scene.words.append(Word(name, (x, y), "left"))
        y += 12
    elif len(picture.shape) == 2:
        scene.words.append(Word(f"{picture.names[1]} →", (x, y - 2), "left"))
        beside = x + cell_width * len(rows[0]) + 4
        scene.words.append(Word(f"{picture.names[0]} ↓", (beside, y + 14), "left"))
        y += 8
    for (i, row), j in product(enumerate(rows), range(len(rows[0]))):
        left, top = x + j * cell_width, y + i * cell_height
        right, bottom = left + cell_width, top + cell_height
        scene.tiles.append(
            Tile(((left, top), (right, top), (right, bottom), (left, bottom)), row[j])
        )
    return cell_width * len(rows[0]) + (76 if len(picture.shape) == 2 else 0), cell_height * len(
        rows
    ) + (12 if name else 0)


def _draw_cube(scene: Scene, picture: Picture, top: float) -> tuple[float, float]:
    """The three faces of a cube that can be seen: dimension 0 goes back, 1 down, 2 to the right."""
    left, side, back_x, back_y = 26.0, 120.0, 54.0, -42.0
    counts = [len(cuts) for cuts in picture.cuts]
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
                Tile((points[0], points[1], points[2], points[3]), picture.labels[*index])
            )

    face(1, 2, [0, 0, 0])
    face(0, 2, [0, 0, 0])
    face(0, 1, [0, 0, 1])
    scene.words.append(Word("1 ↓", (0, top - back_y + side / 2), "left"))
    scene.words.append(Word("2 →", (left, top - back_y + side + 10), "left"))
    scene.words.append(Word("0 ↗", (left + back_x / 2 - 24, top - back_y / 2), "left"))
    return left + side + back_x + 18, side - back_y + 30


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t
