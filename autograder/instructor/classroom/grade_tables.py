"""The gradebook as tables: one assignment on the terminal, and everything in CSV files.

Whatever the terminal's width, numbers are never shortened and the total is always there. If room is
short, names are shortened first; then whole exercises are left out and listed below the table.
"""

import csv
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from humanize import natural_list
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import (
    Mark,
    StateRow,
    SubmissionState,
    find_problems,
)
from autograder.instructor.course import printable, without_controls

MIN_NAME_WIDTH: Final = 12
"""Terminal columns that a name keeps at least, if it has as many characters."""

GAP_WIDTH: Final = 2

MIN_ROWS_FOR_FOOTER: Final = 20
"""From how many students on the headings stand below the table, too."""

LOOK_SIGN: Final = "?"
"""Follows a score that somebody has to check."""

FULL_SIGN: Final = "✓"
NO_SCORE_SIGN: Final = "–"
STYLES: Final = {
    FULL_SIGN: "green", NO_SCORE_SIGN: "dim", "0": "red", "broken": "yellow", "failed": "bold red",
    "missing": "yellow", "awaited": "dim", "waiting": "yellow",
}  # fmt: skip
"""Colours repeat what the cells say."""

MIN_FOR_AVERAGE: Final = 5
"""Averages are shown from this many graded submissions."""

AVERAGE: Final = "average"


@dataclass(frozen=True)
class Column:
    """A column, its cells all equally wide."""

    heading: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many cells of the terminal it takes, with the gap before it."""
        return GAP_WIDTH + len(self.cells[0])


def show_table(
    console: Console, assignment: str, rows: Sequence[StateRow], best_first: bool = False
) -> None:
    """Write an assignment's table, and which exercises there is no room for.

    Args:
        console: what to write on; its width is what there is.
        assignment: what stands above.
        rows: how its submissions stand, at least one.
        best_first: whether they are sorted by their totals, and by student only within these;
            what has no grade comes last.
    """
    rows = sorted(rows, key=lambda row: row.student.casefold())
    if best_first:
        rows.sort(key=lambda row: -row.total if row.graded else math.inf)
    names = [printable(row.student) for row in rows]
    graded = [row for row in rows if row.graded]
    averaged = [AVERAGE] * (len(graded) >= MIN_FOR_AVERAGE)
    total, *exercises = _columns(rows, bool(averaged))
    names += averaged
    longest = max(cell_len(name) for name in [*names, "student"])
    room = console.width - total.width - min(longest, MIN_NAME_WIDTH)
    shown: list[Column] = []
    for column in exercises:
        room -= column.width
        if room < 0:
            break
        shown.append(column)
    left = console.width - sum(column.width for column in (total, *shown))
    names = shorten_names(names, max(left, MIN_NAME_WIDTH))
    console.print(Text(assignment, "bold"))
    console.print(_table(names, [total, *shown], len(averaged)))
    if dropped := [column.heading.split("\n")[0].strip() for column in exercises[len(shown) :]]:
        console.print(
            f"There was no room for {natural_list(dropped)}; grading/exercises.csv has every "
            f"exercise.",
            highlight=False,
        )


def shorten_name(name: str, width: int) -> str:
    """A name in so many cells of the terminal: what is too much goes out of its middle."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 3  # what tells names apart is more often at their beginning
    head = set_cell_size(name, width - 1 - end).rstrip()
    return f"{head}…{set_cell_size(name[::-1], end).rstrip()[::-1]}"


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Names in so many cells, each, shortened where most of them are still told apart.

    Where they end alike, as addresses do, that end is left out; and where they begin alike besides,
    their beginning too. Others are shortened in their middle.
    """
    middle = [shorten_name(name, width) for name in names]
    long = [name for name in names if cell_len(name) > width]
    domains = Counter(name[name.index("@") :] for name in long if "@" in name).most_common(1)
    alike = domains[0][0] if domains and domains[0][1] > 1 else ""
    if not alike:
        counts = Counter(middle)
        same = [name for name, short in zip(names, middle, strict=True) if counts[short] > 1]
        alike = os.path.commonprefix([name[::-1] for name in same])[::-1]  # noqa: RUF071  no paths

    def without_end(shorten: Callable[[str, int], str]) -> list[str]:
        return [
            shorten(name.removesuffix(alike), width) if name in long and name.endswith(alike) else m
            for name, m in zip(names, middle, strict=True)
        ]

    ways = [without_end(_beginning), middle, without_end(_end)] if alike else [middle]
    return max(ways, key=lambda way: len({*way}))


def _beginning(stem: str, width: int) -> str:
    return f"{set_cell_size(stem, min(cell_len(stem), width - 1)).rstrip()}…"


def _end(stem: str, width: int) -> str:
    end = set_cell_size(stem[::-1], min(cell_len(stem), width - 2)).strip()[::-1]
    return f"…{end}…"


def number(score: float) -> str:
    """A score as it is read at a glance: with two decimals at most."""
    return f"{score:.2f}".rstrip("0").rstrip(".")


def _columns(rows: Sequence[StateRow], averaged: bool) -> list[Column]:
    """The total, and then each exercise that anybody has a score for; with averages, or without."""

    def average(scores: Sequence[float]) -> list[str]:
        return [number(statistics.fmean(scores)) if scores else NO_SCORE_SIGN] * averaged

    points = {name: mark.points for row in rows for name, mark in row.marks.items()}
    most = number(max(row.points for row in rows)) if points else ""
    totals = [_total(row) for row in rows] + average([row.total for row in rows if row.graded])
    columns = [_column("total", most, totals)]
    if any(row.late or row.seconds_late for row in rows):
        late = [_late(row) for row in rows]
        columns.append(_column("late", "", [*late, *([""] * averaged)]))
    for name in points:
        marks = [row.marks.get(name) for row in rows]
        cells = [NO_SCORE_SIGN if mark is None else _cell(mark) for mark in marks]
        cells += average([mark.score for mark in marks if mark is not None])
        columns.append(_column(printable(name), number(points[name]), cells))
    return columns


def _total(row: StateRow) -> str:
    return number(row.total) + LOOK_SIGN * row.needs_a_look if row.graded else row.state


def _late(row: StateRow) -> str:
    """What is taken off, or that nothing is."""
    return number(-row.late) if row.late else "late" if row.seconds_late else ""


def _cell(mark: Mark) -> str:
    score = FULL_SIGN if 0 < mark.points == mark.score else number(mark.score)
    return score + LOOK_SIGN * mark.needs_a_look


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
    return text[len(text.rstrip(LOOK_SIGN).partition(".")[0]) :]


def _table(names: Sequence[str], columns: Sequence[Column], averages: int) -> Table:
    """The table; so many rows at its end are averages, and stand apart."""
    table = Table(
        box=SIMPLE_HEAD, padding=(0, GAP_WIDTH - 1, 0, 0), pad_edge=False, show_edge=False,
        show_footer=len(names) > MIN_ROWS_FOR_FOOTER,
    )  # fmt: skip
    table.add_column("student\npoints", "student", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, column.heading.split("\n")[0], no_wrap=True)
    rows = list(zip(names, *(column.cells for column in columns), strict=True))
    for at, (name, *cells) in enumerate(rows, 1):
        texts = [Text(cell, STYLES.get(cell.strip(), "")) for cell in cells]
        is_last = at == len(rows) - averages
        table.add_row(Text(name), *texts, end_section=bool(averages) and is_last)
    return table


FORMULA_SIGNS: Final = "=+\\-@\t\r\uff1d\uff0b\uff0d\uff20"
"""The signs that a spreadsheet takes for the beginning of a formula, as a regular expression has
them within brackets; the last four are the first four, as wide as a Chinese character."""

FORMULA_START: Final = re.compile(rf"\A(?=\s*[{FORMULA_SIGNS}])|(?<=;)(?=[\s\"]*[{FORMULA_SIGNS}])")
"""The places in a text where a formula would begin, also in a spreadsheet that takes semicolons for
what separates cells; to quote a text does not help there, where a comma is before it."""

NEEDS_A_LOOK: Final = "needs_a_look"

EXCEL_ENCODING: Final = "utf-8-sig"
"""UTF-8 with a byte-order mark, without which Excel reads letters as another encoding's."""

DAY_SECONDS: Final = 24 * 60 * 60

Row = TypeVar("Row")
CsvColumns = dict[str, Callable[[Row], object]]
"""The columns of a CSV: for each heading, how to get its cell from a row."""


def write_csvs(
    folder: Path,
    rows: Sequence[StateRow],
    people: Sequence[Person] = (),
    submissions: Sequence[SubmissionState] = (),
    zone: tzinfo = UTC,
) -> list[tuple[str, Path]]:
    """Write three CSVs: a line for each submission, for each graded cell, and for each student.

    Args:
        folder: where to write them.
        rows: the state of each submission.
        people: the roster.
        submissions: the graded submissions with their verdicts.
        zone: the time zone of the class.

    Returns:
        The title and the path of each.
    """
    graded = {(s.row.student, s.row.assignment): s for s in submissions}
    exercises = [
        ExerciseRow(row, name, mark, graded.get((row.student, row.assignment)))
        for row in rows
        for name, mark in row.marks.items()
    ]
    tables = (
        ("Grades", "grades.csv", *tabulate(make_submission_columns(zone), rows)),
        ("Grades by exercise", "exercises.csv", *tabulate(EXERCISE_COLUMNS, exercises)),
        ("Grades by student", "students.csv", *tabulate_students(rows, people)),
    )
    for _, name, heading, lines in tables:
        write_csv(folder / name, heading, lines, EXCEL_ENCODING)
    return [(title, folder / name) for title, name, _, _ in tables]


def tabulate(
    columns: CsvColumns[Row], rows: Iterable[Row]
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the heading and the lines of a table."""
    return list(columns), [tuple(value(row) for value in columns.values()) for row in rows]


def make_submission_columns(zone: tzinfo) -> CsvColumns[StateRow]:
    """The columns of `grades.csv`; without a grade, the scores are blank."""
    return {
        "student": lambda row: row.student,
        "assignment": lambda row: row.assignment,
        "state": lambda row: row.state,
        "score": lambda row: row.total if row.graded else "",
        "points": lambda row: row.points if row.graded else "",
        "taken_off_for_being_late": lambda row: row.late if row.graded else "",
        NEEDS_A_LOOK: lambda row: _yes(row.graded and row.needs_a_look),
        "due": lambda row: _time(row.due, zone),
        "handed_in": lambda row: _time(row.handed_in, zone),
        "days_late": lambda row: _days_late(row),
    }


@dataclass(frozen=True)
class ExerciseRow:
    """One graded cell of a submission.

    Attributes:
        row: the state of the submission.
        name: the exercise, or the name of another graded cell.
        mark: its score.
        submission: the submission with its verdicts, if these were kept.
    """

    row: StateRow
    name: str
    mark: Mark
    submission: SubmissionState | None

    @property
    def state(self) -> str:
        """How the answer stands: right, partly right, wrong…"""
        return self.submission.state(self.name) if self.submission else ""

    @property
    def diagnoses(self) -> str:
        """Everything that is wrong with the answer, separated by semicolons."""
        verdict = self.submission.verdicts.get(self.name) if self.submission else None
        wrong = [finding.diagnosis for finding in find_problems(verdict)] if verdict else []
        return "; ".join(dict.fromkeys(wrong))


EXERCISE_COLUMNS: CsvColumns[ExerciseRow] = {
    "student": lambda cell: cell.row.student,
    "assignment": lambda cell: cell.row.assignment,
    "exercise": lambda cell: cell.name,
    "score": lambda cell: cell.mark.score,
    "points": lambda cell: cell.mark.points,
    "by_hand": lambda cell: "" if cell.mark.by_hand is None else cell.mark.by_hand,
    "extra_credit": lambda cell: cell.mark.extra,
    NEEDS_A_LOOK: lambda cell: _yes(cell.mark.needs_a_look),
    "answer": lambda cell: cell.state,
    "diagnoses": lambda cell: cell.diagnoses,
}
"""The columns of `exercises.csv`."""


@dataclass(frozen=True)
class StudentRow:
    """A student with the state of each of their submissions, by assignment."""

    person: Person
    submissions: Mapping[str, StateRow]

    @property
    def counted(self) -> list[StateRow]:
        """The submissions that count: those with a grade, and those that are missing."""
        return [row for row in self.submissions.values() if row.graded or row.is_overdue]

    def graded(self, assignment: str) -> StateRow | None:
        """Return the student's submission of an assignment, if it has a grade."""
        row = self.submissions.get(assignment)
        return row if row is not None and row.graded else None


def tabulate_students(
    rows: Sequence[StateRow], people: Sequence[Person]
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the heading and the lines of `students.csv`: a line for each student.

    Students stand in the order of the roster, and those who are not in it below. A score without a
    grade is blank.
    """
    known = {person.id: person for person in people}
    submissions: dict[str, dict[str, StateRow]] = {student: {} for student in known}
    for row in sorted(rows, key=lambda row: row.student.casefold()):
        submissions.setdefault(row.student, {})[row.assignment] = row
    students = [StudentRow(known.get(id) or Person(id), own) for id, own in submissions.items()]
    return tabulate(make_student_columns(rows), students)


def make_student_columns(rows: Sequence[StateRow]) -> CsvColumns[StudentRow]:
    """The columns of `students.csv`.

    For each assignment there is its total, the late penalty if anybody has one, and each exercise.
    """
    columns: CsvColumns[StudentRow] = {
        "student": lambda student: student.person.id,
        "name": lambda student: student.person.name,
        "email": lambda student: student.person.email,
        "section": lambda student: student.person.section,
        "score": lambda s: round(sum(row.total for row in s.counted), 4) if s.counted else "",
        "points": lambda s: sum(row.points for row in s.counted) if s.counted else "",
    }
    for assignment in dict.fromkeys(row.assignment for row in rows):
        alike = [row for row in rows if row.assignment == assignment]
        columns[assignment] = partial(_of_graded, assignment, lambda row: row.total)
        if any(row.late for row in alike):
            late = partial(_of_graded, assignment, lambda row: row.late)
            columns[f"{assignment} taken off"] = late
        for exercise in dict.fromkeys(name for row in alike for name in row.marks):
            columns[f"{assignment} {exercise}"] = partial(_mark, assignment, exercise)
    return columns


def _of_graded(assignment: str, value: Callable[[StateRow], object], student: StudentRow) -> object:
    row = student.graded(assignment)
    return "" if row is None else value(row)


def _mark(assignment: str, exercise: str, student: StudentRow) -> object:
    row = student.submissions.get(assignment)
    return row.marks[exercise].score if row is not None and exercise in row.marks else ""


def _days_late(row: StateRow) -> object:
    return round(row.seconds_late / DAY_SECONDS, 4) if row.due and row.handed_in else ""


def _time(when: datetime | None, zone: tzinfo) -> str:
    return "" if when is None else when.astimezone(zone).isoformat(timespec="seconds")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else ""


def write_csv(
    path: Path, heading: Sequence[str], lines: Iterable[Sequence[object]], encoding: str = "utf-8"
) -> None:
    """Write a CSV none of whose cells is a formula.

    Args:
        path: where to.
        heading: its first line; names of cells of a notebook may be in it.
        lines: the others.
        encoding: as `open` takes it.
    """
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file)
        writer.writerow([*map(_csv_cell, heading)])
        writer.writerows([*map(_csv_cell, line)] for line in lines)


def _csv_cell(value: object) -> object:
    """What is written: numbers are ours, and texts may be names that strangers chose."""
    if not isinstance(value, str):
        return value
    return without_controls(FORMULA_START.sub("'", value))
