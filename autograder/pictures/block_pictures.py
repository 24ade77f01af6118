"""A picture of an array's blocks, or of a mesh's devices, as plain data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

Place = tuple[int, ...]
"""Where a block stands in the grid of blocks."""


@dataclass(frozen=True)
class Edge:
    """What is written along one dimension.

    Attributes:
        note: in small: `dim 0`, or an axis's mode.
        axis: in bold: the mesh axis that lies along it or cuts it; empty where none does.
        size: how long that axis is, where that is to be said.
    """

    note: str = ""
    axis: str = ""
    size: int | None = None

    @property
    def strong(self) -> str:
        """`x`, or `x: 4`."""
        return self.axis if self.size is None else f"{self.axis}: {self.size}"

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a style and a word, in the order in which they are read."""
        note, axis = ("muted", self.note), ("axis", self.strong)
        ordered = (note, axis) if self.size is None else (axis, note)
        return tuple((style, word) for style, word in ordered if word)


@dataclass(frozen=True)
class Picture:
    """One picture: an array cut into blocks, each labelled with the devices that hold it.

    Attributes:
        title: stands above the picture.
        caption: stands below it.
        shape: the array's shape, in elements.
        cuts: for each dimension, the intervals it is cut into.
        labels: for each place in the grid of blocks, the ids to write on it.
        description: the same in words, for those who cannot see it.
        edges: what to write along each dimension; nothing, where there are none.
        code: stands beside the title, as code.
        wrong: the places to outline.
        pale: the places to draw without colour, since they are of no interest here.
        note: what is outlined, or what has no colour, in words.
        devices: whether each place is a device, and not a part of an array.
    """

    title: str
    caption: str
    shape: tuple[int, ...]
    cuts: tuple[tuple[tuple[int, int], ...], ...]
    labels: Mapping[Place, tuple[int, ...]]
    description: str
    edges: tuple[Edge, ...] = ()
    code: str = ""
    wrong: frozenset[Place] = frozenset()
    pale: frozenset[Place] = frozenset()
    note: str = ""
    devices: bool = False

    def edge(self, dimension: int) -> Edge:
        """What to write along a dimension, counted from either end."""
        return self.edges[dimension] if self.edges else Edge()

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks each dimension is cut into."""
        return tuple(map(len, self.cuts))

    @property
    def planes(self) -> Iterator[tuple[Place, str]]:
        """Each plane of the last two dimensions: its place in the grid, and its name."""
        outer = self.cuts[:-2]
        for place in product(*(range(len(cuts)) for cuts in outer)):
            yield place, ", ".join(self._part(d, i) for d, i in enumerate(place))

    def legend(self, wrong: str = "dashed", pale: str = "without colour") -> str:
        """What an outline means, or a missing colour, by what stands for them in a drawing."""
        return f"{wrong if self.wrong else pale}: {self.note}" if self.note else ""

    @property
    def whole(self) -> bool:
        """Whether all of it is to be outlined, and no block by itself."""
        return len(self.wrong) == len(self.labels) > 0

    def _part(self, dimension: int, index: int) -> str:
        """`x = 1`, or which elements of a dimension a block has, as a slice."""
        edge = self.edge(dimension)
        if edge.size is not None:
            same = self.counts[dimension] < edge.size
            return f"all {edge.axis}" if same else f"{edge.axis} = {index}"
        return "{}:{}".format(*self.cuts[dimension][index])

    def rows(self, plane: Place) -> list[list[Place]]:
        """The places of one plane, row by row; of a vector or a scalar, one row."""
        inner = self.counts[-2:]
        columns = [(*plane, *last) for last in product(*map(range, inner[-1:]))]
        if len(inner) < 2:
            return [columns]
        return [[(*plane, row, column) for column in range(inner[1])] for row in range(inner[0])]


def label_of(ids: tuple[int, ...]) -> str:
    """`3`, `0,4`, and `0–7` for a long run."""
    if len(ids) > 3 and ids == tuple(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}–{ids[-1]}"
    return ",".join(map(str, ids))
