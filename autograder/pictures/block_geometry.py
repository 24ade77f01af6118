"""The parts of a picture of blocks: tiles, words and hairlines, in pixels.

The same scene serves SVG and matplotlib, so the two cannot drift apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from autograder.pictures.block_pictures import Edge, label_of
from autograder.pictures.palette import SHARED, tint

LETTERS: Final = {"label": 12.0, "muted": 11.0, "axis": 12.0, "name": 11.0}
"""How high the letters of each kind of word are."""

GAP: Final = 6.0
"""Between an array and the hairline along its edge."""

Point = tuple[float, float]
Corners = tuple[Point, Point, Point, Point]


@dataclass(frozen=True)
class Tile:
    """A block to draw: four corners, clockwise from the top left, and what is written on it.

    Attributes:
        points: the corners.
        ids: the devices that hold it.
        wrong: whether it is outlined.
        pale: whether it is drawn without colour.
        device: whether it is a device, and no part of an array.
        speaks: whether it has room for its label.
    """

    points: Corners
    ids: tuple[int, ...]
    wrong: bool = False
    pale: bool = False
    device: bool = False
    speaks: bool = True

    @property
    def label(self) -> str:
        """What is written on it."""
        return label_of(self.ids) if self.speaks else ""

    @property
    def coloured(self) -> bool:
        """Whether there is a colour behind the label, which is written in ink then."""
        return bool(self.ids) and not self.pale

    @property
    def centre(self) -> Point:
        """Where the label is: in the middle of what the chips leave."""
        return self.at(0.5, 0.4 if self.coloured and len(self.ids) > 1 else 0.5)

    def fills(self) -> Iterator[tuple[list[Point], str]]:
        """What to colour: the tile itself, or, where several devices hold it, a chip for each.

        Chips, not stripes: stripes across the tile would look like blocks of their own.
        """
        if not self.coloured:
            return
        if len(self.ids) == 1:
            yield list(self.points), tint(self.ids[0])
            return
        yield list(self.points), SHARED
        count = len(self.ids)
        for i, device in enumerate(self.ids):
            corners = ((i, 0.78), (i + 1, 0.78), (i + 1, 1), (i, 1))
            yield [self.at(a / count, b) for a, b in corners], tint(device)

    def at(self, across: float, down: float) -> Point:
        """A point of the tile, from fractions of its edges."""
        top_left, top_right, bottom_right, bottom_left = self.points
        top = _between(top_left, top_right, across)
        return _between(top, _between(bottom_left, bottom_right, across), down)


@dataclass(frozen=True)
class Word:
    """Something written: what in which style, where, and which of its ends is there."""

    parts: tuple[tuple[str, str], ...]
    at: Point
    anchor: str = "center"

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(word for _, word in self.parts)


@dataclass
class Scene:
    """A drawing of so many pixels, and all that is in it.

    Attributes:
        width: of all of it.
        height: of all of it.
        tiles: the blocks.
        words: what is written beside them.
        hairlines: thin lines, by the points that they pass.
        frames: what is outlined as a whole, by its corners.
    """

    width: float = 0
    height: float = 0
    tiles: list[Tile] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    hairlines: list[Sequence[Point]] = field(default_factory=list)
    frames: list[Sequence[Point]] = field(default_factory=list)

    def holds(self, right: float, bottom: float) -> None:
        """Be large enough for a point."""
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def write(self, parts: tuple[tuple[str, str], ...], at: Point, anchor: str = "center") -> None:
        """Write something, if it is anything."""
        if parts:
            self.words.append(Word(parts, at, anchor))
            share = {"left": 1.0, "center": 0.5, "right": 0.0}[anchor]
            self.holds(at[0] + share * width_of(parts), at[1] + 8)

    def name_across(self, edge: Edge, left: float, right: float, y: float, above: bool) -> None:
        """Write what lies along an edge from left to right; a hairline shows how far it goes."""
        away = -1 if above else 1
        middle = max((left + right) / 2, left + width_of(edge.parts) / 2)
        self.write(edge.parts, (middle, y + away * (GAP + 9)))
        if edge.axis:
            line, tick = y + away * GAP, y + away * (GAP - 3)
            self.hairlines.append([(left, tick), (left, line), (right, line), (right, tick)])

    def name_down(self, edge: Edge, top: float, bottom: float, x: float) -> None:
        """Write what lies along an edge from top to bottom, to the left of it."""
        line, middle, lines = x - GAP, (top + bottom) / 2, _lines(edge)
        for i, part in enumerate(lines):
            y = middle + 14 * (i - (len(lines) - 1) / 2)
            self.write((part,), (line - 5, y), "right")
        if edge.axis:
            ticks = ((x - GAP + 3, top), (line, top), (line, bottom), (x - GAP + 3, bottom))
            self.hairlines.append(ticks)


def inset(points: Sequence[Point]) -> list[Point]:
    """The corners of what is to be outlined, moved inwards: so two neighbours' outlines are two."""
    (x, y), by = (sum(each) / len(points) for each in zip(*points, strict=True)), 2.5
    return [(px + (by if px < x else -by), py + (by if py < y else -by)) for px, py in points]


def width_of(parts: Sequence[tuple[str, str]]) -> float:
    """How wide words are, at most, in a row."""
    wide = {"axis": 0.62, "name": 0.62, "label": 0.6, "muted": 0.56}
    return sum(LETTERS[style] * wide[style] * len(word) + 4 for style, word in parts)


def margin_of(edge: Edge) -> float:
    """How much room there must be to the left of an edge for what is written there."""
    widest = max((width_of((part,)) for part in _lines(edge)), default=0.0)
    return widest + GAP + 5 if widest else 0.0


def _lines(edge: Edge) -> list[tuple[str, str]]:
    """What lies along an edge, in lines: names that are long stand below each other."""
    short = 14
    return [
        (style, line)
        for style, word in edge.parts
        for line in (word.replace(", ", ",\n").split("\n") if len(word) > short else [word])
    ]


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t
