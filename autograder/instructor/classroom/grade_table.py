"""The gradebook of one assignment as a table that fits the terminal: students × exercises.

Whatever the width, each number is whole and the total is seen. Where there is too little room,
names are shortened first; then whole exercises are left out, and named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.course import printable

SHORTEST_NAME: Final = 12
"""How many cells of the terminal are left to a name, if it has so many."""

GAP: Final = 2
"""How many cells are between two columns."""

SCREENFUL: Final = 20
"""From how many students on the headings stand below the table, too."""

FULL: Final = "✓"
NONE: Final = "–"
STYLES: Final = {FULL: "green", NONE: "dim", "broken": "yellow", "failed": "bold red"}
"""Colours repeat what the cells say."""


@dataclass(frozen=True)
class Column:
    """A column, its cells all equally wide."""

    heading: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many cells of the terminal it takes, with the gap before it."""
        return GAP + len(self.cells[0])


def show(console: Console, assignment: str, rows: Sequence[Row]) -> None:
    """Write an assignment's table, sorted by student, and which exercises there is no room for.

    Args:
        console: what to write on; its width is what there is.
        assignment: what stands above.
        rows: how its submissions stand, at least one.
    """
    rows = sorted(rows, key=lambda row: row.student.casefold())
    names = [printable(row.student) for row in rows]
    total, *exercises = _columns(rows)
    longest = max(cell_len(name) for name in [*names, "student"])
    room = console.width - total.width - min(longest, SHORTEST_NAME)
    shown: list[Column] = []
    for column in exercises:
        room -= column.width
        if room < 0:
            break
        shown.append(column)
    left = console.width - sum(column.width for column in (total, *shown))
    names = [shortened(name, max(left, SHORTEST_NAME)) for name in names]
    console.print(Text(assignment, "bold"))
    console.print(_table(names, [total, *shown]))
    if dropped := [column.heading.split()[0] for column in exercises[len(shown) :]]:
        console.print(
            f"There was no room for {_listed(dropped)}; grading/exercises.csv has every exercise.",
            highlight=False,
        )


def shortened(name: str, width: int) -> str:
    """A name in so many cells of the terminal: what is too much goes out of its middle."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 3  # what tells names apart is more often at their beginning
    head = set_cell_size(name, width - 1 - end).rstrip()
    return f"{head}…{set_cell_size(name[::-1], end).rstrip()[::-1]}"


def number(score: float) -> str:
    """A score as it is read at a glance: with two decimals at most."""
    return f"{score:.2f}".rstrip("0").rstrip(".")


def _columns(rows: Sequence[Row]) -> list[Column]:
    """The total, and then each exercise that anybody has a score for."""
    points = {exercise: most for row in rows for exercise, (_, most) in row.scores.items()}
    most = number(sum(points.values())) if points else ""
    totals = [number(row.total[0]) if row.graded else row.state for row in rows]
    columns = [_column("total", most, totals)]
    for exercise in points:
        cells = [_cell(*row.scores[exercise]) if exercise in row.scores else NONE for row in rows]
        columns.append(_column(exercise, number(points[exercise]), cells))
    return columns


def _cell(score: float, points: float) -> str:
    return FULL if 0 < points == score else number(score)


def _column(heading: str, points: str, cells: Sequence[str]) -> Column:
    """A column whose numbers stand below one another by their decimal points."""
    texts = [points, *cells]
    decimals = max(len(_decimals(text)) for text in texts)
    texts = [
        text if text.isalpha() else text + " " * (decimals - len(_decimals(text))) for text in texts
    ]
    width = max(len(text) for text in [heading, *texts])
    points, *cells = (text.rjust(width) for text in texts)
    return Column(f"{heading.rjust(width)}\n{points}", tuple(cells))


def _decimals(text: str) -> str:
    """What follows a number's whole part: its point, and what comes after."""
    return text[len(text.partition(".")[0]) :]


def _table(names: Sequence[str], columns: Sequence[Column]) -> Table:
    table = Table(
        box=SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False,
        show_footer=len(names) > SCREENFUL,
    )  # fmt: skip
    table.add_column("student\npoints", "student", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, column.heading.split("\n")[0], no_wrap=True)
    for name, *cells in zip(names, *(column.cells for column in columns), strict=True):
        table.add_row(Text(name), *(Text(c, STYLES.get(c.strip(), "")) for c in cells))
    return table


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
