"""A picture of an array's blocks, each labelled with the devices that hold it, and as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from autograder.pictures.palette import INK, tint

if TYPE_CHECKING:
    from rich.console import RenderableType


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


def blocks_as_text(picture: Picture) -> str:
    """The labels alone: a word a block, a line a row, an empty line between planes."""
    planes = []
    for place, _ in picture.planes:
        words = [[",".join(map(str, label)) for label in row] for row in picture.rows(place)]
        widths = [max(map(len, column)) for column in zip(*words, strict=True)]
        planes.append(
            "\n".join(
                " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).strip()
                for row in words
            )
        )
    return "\n\n".join(planes)


def blocks_for_terminal(pictures: Sequence[Picture]) -> "RenderableType":
    """The pictures for a terminal, as rich tables side by side."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def one(picture: Picture) -> Group:
        parts: list[RenderableType] = [Text(picture.title, style="bold")] if picture.title else []
        planes = Table.grid(padding=(0, 2))
        rows: dict[tuple[int, ...], list[RenderableType]] = {}
        for place, name in picture.planes:
            table = Table(show_header=False, show_lines=True, padding=(0, 1))
            for row in picture.rows(place):
                table.add_row(
                    *(Text(label_of(ids), style=f"{INK} on {tint(ids[0])}") for ids in row)
                )
            rows.setdefault(place[:-1], []).append(Group(name, table) if name else table)
        for tables in rows.values():
            planes.add_row(*tables)
        parts.append(planes)
        return Group(*parts, Text(picture.caption, style="dim"))

    return Columns([one(picture) for picture in pictures], padding=(0, 3))


def label_of(ids: tuple[int, ...]) -> str:
    """`3`, `0,4`, and `0–7` for a long run."""
    if len(ids) > 3 and ids == tuple(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}–{ids[-1]}"
    return ",".join(map(str, ids))
