"""Write pictures of blocks as text: labels, words, and colours for a terminal."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from autograder.pictures.block_pictures import Edge, Picture, Place, label_of
from autograder.pictures.palette import INK, tint

if TYPE_CHECKING:
    from rich.console import RenderableType

ARROWS: Final = ("↓", "→")

Label = Callable[[tuple[int, ...]], str]


def blocks_as_text(picture: Picture) -> str:
    """The labels alone: a word a block, a line a row, an empty line between planes."""
    return "\n\n".join(
        "\n".join(_lines(picture, place, lambda ids: ",".join(map(str, ids))))
        for place, _ in picture.planes
    )


def pictures_as_text(pictures: Sequence[Picture]) -> str:
    """The pictures side by side, with titles, the axes' names, and a star at what is outlined."""
    named = any(_is_named(picture) for picture in pictures)
    columns = [_in_words(picture, named) for picture in pictures]
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "    ".join(line.ljust(width) for line, width in zip(lines, widths, strict=True)).rstrip()
        for lines in zip_longest(*columns, fillvalue="")
    )


def blocks_for_terminal(pictures: Sequence[Picture]) -> "RenderableType":
    """The pictures for a terminal, as rich tables side by side."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def block(picture: Picture, place: Place) -> Text:
        ids, wrong = picture.labels[place], place in picture.wrong and not picture.whole
        label = f"{label_of(ids)}{'*' * wrong}"
        if place in picture.pale or not ids:
            return Text(label, style="dim")
        return Text(label, style=f"{'bold ' * wrong}{INK} on {tint(ids[0])}")

    def one(picture: Picture) -> Group:
        parts: list[RenderableType] = []
        if picture.title or picture.code:
            parts.append(Text.assemble((_title(picture), "bold")))
        if _is_named(picture):
            parts.append(Text(_along(picture)))
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
        return Group(*parts, *(Text(words, style="dim") for words in below))

    return Columns([one(picture) for picture in pictures], padding=(0, 3))


def _in_words(picture: Picture, named: bool) -> list[str]:
    """A picture in lines; with what lies along its edges, if that is told of any beside it."""
    parts = [part for part in (_title(picture), _along(picture) if named else "") if part]
    for plane, name in picture.planes:
        parts += [name] if name else []
        parts += _lines(picture, plane, label_of, marked=True)
    return [*parts, *_legend(picture, "·")]


def _lines(picture: Picture, plane: Place, write: Label, marked: bool = False) -> list[str]:
    """The rows of one plane, with columns that are aligned; and marks, where they are wanted."""

    def word(place: Place) -> str:
        if marked and place in picture.pale:
            return "·"
        return (write(picture.labels[place]) or "·") + "*" * (
            marked and place in picture.wrong and not picture.whole
        )

    words = [[word(place) for place in row] for row in picture.rows(plane)]
    widths = [max(map(len, column)) for column in zip(*words, strict=True)]
    return [
        " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).strip()
        for row in words
    ]


def _legend(picture: Picture, pale: str) -> list[str]:
    """What a star means, and what stands for what is pale; nothing is starred where all is."""
    legend = picture.note if picture.whole else picture.legend("*", pale)
    return [legend] if legend else []


def _is_named(picture: Picture) -> bool:
    return any(edge.axis for edge in picture.edges)


def _title(picture: Picture) -> str:
    return "  ".join(part for part in (picture.title, picture.code) if part)


def _along(picture: Picture) -> str:
    """What lies along which dimension: `↓ dim 0: x   → dim 1: y`."""
    rank = len(picture.edges)
    arrows = ("",) * (rank - 2) + ARROWS[2 - min(rank, 2) :]
    return "   ".join(
        f"{arrow} {_said(edge)}".strip() for arrow, edge in zip(arrows, picture.edges, strict=True)
    )


def _said(edge: Edge) -> str:
    """`dim 0: x`, or `x: 4 Auto`."""
    return (": " if edge.size is None else " ").join(word for _, word in edge.parts)
