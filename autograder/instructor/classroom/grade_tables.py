"""The gradebook as tables: one assignment on the terminal, and everything in CSV files.

Whatever the terminal's width, numbers are never shortened and the total is always there. If room is
short, names are shortened first; then whole exercises are left out and listed below the table.
"""

import csv
import io
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

from autograder.instructor.classroom.counting import compute_percentage
from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import (
    StateRow,
    SubmissionState,
    find_problems,
)
from autograder.instructor.commands import printable, show_control_characters, write_atomically
from autograder.instructor.course import DAY_SECONDS, ClassRules
from autograder.instructor.gradebook import Mark
from autograder.instructor.pages import format_points
from autograder.instructor.pipeline import State

MIN_NAME_WIDTH: Final = 12
"""Names are not shortened to fewer terminal columns than this."""

GAP_WIDTH: Final = 2

MAX_ROWS: Final = 100
"""Tables of more rows than this show only those that somebody may have to do something about."""

MIN_ROWS_FOR_FOOTER: Final = 20
"""Tables with more rows than this have their headings at the bottom, too."""

LOOK_SIGN: Final = "?"
"""Follows a score that somebody has to check."""

STALE_SIGN: Final = "*"
"""Follows a total that is out of date."""

LEFT_OUT_SIGN: Final = "†"
"""Follows a total that does not count in the student's total."""

FULL_SIGN: Final = "✓"
NO_SCORE_SIGN: Final = "–"
STYLES: Final = {
    FULL_SIGN: "green", NO_SCORE_SIGN: "dim", "0": "red", "broken": "yellow", "failed": "bold red",
    "missing": "yellow", "awaited": "dim", "exempt": "dim", "waiting": "yellow",
}  # fmt: skip
"""The colours of cells; each only repeats what the cell says."""

MIN_FOR_AVERAGE: Final = 5
"""Averages are shown from this many graded submissions."""

AVERAGE: Final = "average"


@dataclass(frozen=True)
class Column:
    """A column of the table on the terminal, whose cells are padded to the same width."""

    heading: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width in terminal columns, with the gap before it."""
        return GAP_WIDTH + len(self.heading.partition("\n")[0])


def show_table(console: Console, assignment: str, rows: Sequence[StateRow]) -> None:
    """Print an assignment's table, and the names of exercises that do not fit.

    A large class's table shows the grades that are out of date or need a look, and who has none.

    Args:
        console: where the table is printed, as wide as the console is.
        assignment: the assignment's id, printed above the table.
        rows: the rows, at least one.
    """
    graded = [row for row in rows if row.is_graded]
    averaged = [AVERAGE] * (len(graded) >= MIN_FOR_AVERAGE)
    listed = rows if len(rows) <= MAX_ROWS else [row for row in rows if not _is_settled(row)]
    listed = sorted(listed, key=lambda row: row.student.casefold())
    names = [printable(row.student) for row in listed]
    total, *exercises = _columns(listed, rows, bool(averaged))
    names += averaged
    longest = max(cell_len(name) for name in [*names, "student"])
    free_width = console.width - total.width - min(longest, MIN_NAME_WIDTH)
    shown: list[Column] = []
    for column in exercises:
        free_width -= column.width
        if free_width < 0:
            break
        shown.append(column)
    left = console.width - sum(column.width for column in (total, *shown))
    names = shorten_names(names, max(left, MIN_NAME_WIDTH))
    console.print(Text(assignment, "bold"))
    console.print(_table(names, [total, *shown], len(averaged)))
    if unlisted := len(rows) - len(listed):
        console.print(
            f"{unlisted} of {len(rows)} students are not shown, because nothing of theirs "
            f"needs a look; grading/grades.csv has everybody.",
            highlight=False,
        )
    if dropped := [column.heading.split("\n")[0].strip() for column in exercises[len(shown) :]]:
        console.print(
            f"There was no room for {natural_list(dropped)}; grading/exercises.csv has every "
            f"exercise.",
            highlight=False,
        )


def _is_settled(row: StateRow) -> bool:
    """Check whether nobody has to do anything about a submission."""
    if row.is_graded:
        return not row.needs_a_look and not row.out_of_date
    return row.state in (State.AWAITED, State.EXEMPT)


def shorten_name(name: str, width: int) -> str:
    """Shorten a name to a width in terminal columns, by leaving out its middle."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 3  # the beginning gets more: names differ there more often
    head = set_cell_size(name, width - 1 - end).rstrip()
    return f"{head}…{set_cell_size(name[::-1], end).rstrip()[::-1]}"


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to a width in terminal columns, so that as many as possible still differ.

    A common ending, such as that of email addresses, is left out; and if names begin alike, too,
    their beginning. Other names lose their middle.
    """
    middle = [shorten_name(name, width) for name in names]
    long = [name for name in names if cell_len(name) > width]
    domains = Counter(name[name.index("@") :] for name in long if "@" in name).most_common(1)
    ending = domains[0][0] if domains and domains[0][1] > 1 else ""
    if not ending:
        counts = Counter(middle)
        same = [name for name, short in zip(names, middle, strict=True) if counts[short] > 1]
        ending = os.path.commonprefix([name[::-1] for name in same])[::-1]  # noqa: RUF071  no paths

    def without_ending(shorten: Callable[[str, int], str]) -> list[str]:
        return [
            shorten(name.removesuffix(ending), width)
            if name in long and name.endswith(ending)
            else short
            for name, short in zip(names, middle, strict=True)
        ]

    if not ending:
        return middle
    ways = [without_ending(_keep_beginning), middle, without_ending(_keep_end)]
    return max(ways, key=lambda way: len({*way}))


def _keep_beginning(stem: str, width: int) -> str:
    return f"{set_cell_size(stem, min(cell_len(stem), width - 1)).rstrip()}…"


def _keep_end(stem: str, width: int) -> str:
    end = set_cell_size(stem[::-1], min(cell_len(stem), width - 2)).strip()[::-1]
    return f"…{end}…"


def _columns(listed: Sequence[StateRow], rows: Sequence[StateRow], averaged: bool) -> list[Column]:
    """Return the columns: the total, the late penalty, and each exercise that is graded.

    Args:
        listed: the rows that get a cell.
        rows: all rows, of which the averages are.
        averaged: whether a cell with the average follows.
    """

    def average(scores: Sequence[float]) -> list[str]:
        return [format_points(statistics.fmean(scores)) if scores else NO_SCORE_SIGN] * averaged

    points = {name: mark.points for row in rows for name, mark in row.marks.items()}
    max_points = format_points(max(row.points for row in rows)) if points else ""
    totals = [_total_cell(row) for row in listed] + average([r.total for r in rows if r.is_graded])
    columns = [_column("total", max_points, totals)]
    if any(row.late_penalty or row.seconds_late for row in listed):
        late = [_late_cell(row) for row in listed]
        columns.append(_column("late", "", [*late, *([""] * averaged)]))
    for name in points:
        marks = [row.marks.get(name) for row in listed]
        cells = [NO_SCORE_SIGN if mark is None else _mark_cell(mark) for mark in marks]
        cells += average([row.marks[name].score for row in rows if name in row.marks])
        columns.append(_column(printable(name), format_points(points[name]), cells))
    return columns


def _total_cell(row: StateRow) -> str:
    signs = LOOK_SIGN * row.needs_a_look + STALE_SIGN * bool(row.out_of_date)
    signs += LEFT_OUT_SIGN * bool(row.left_out)
    return format_points(row.total) + signs if row.is_graded else row.state


def _late_cell(row: StateRow) -> str:
    return (
        format_points(-row.late_penalty) if row.late_penalty else "late" if row.seconds_late else ""
    )


def _mark_cell(mark: Mark) -> str:
    score = FULL_SIGN if 0 < mark.points == mark.score else format_points(mark.score)
    return score + LOOK_SIGN * mark.needs_a_look


def _column(heading: str, points: str, cells: Sequence[str]) -> Column:
    """Make a column whose numbers are aligned at their decimal points."""
    texts = [points, *cells]
    decimals = max(len(_decimals(text)) for text in texts)
    texts = [
        text if text.isalpha() else text + " " * (decimals - len(_decimals(text))) for text in texts
    ]
    width = max(len(text) for text in [heading, *texts])
    points, *cells = (text.rjust(width) for text in texts)
    return Column(f"{heading.rjust(width)}\n{points}", tuple(cells))


def _decimals(text: str) -> str:
    """Return a number's decimal point and what follows it."""
    return text[len(text.rstrip(LOOK_SIGN + STALE_SIGN + LEFT_OUT_SIGN).partition(".")[0]) :]


def _table(names: Sequence[str], columns: Sequence[Column], averages: int) -> Table:
    """Make the table; its last rows, as many as there are averages, are set apart."""
    table = Table(
        box=SIMPLE_HEAD, padding=(0, GAP_WIDTH - 1, 0, 0), pad_edge=False, show_edge=False,
        show_footer=len(names) > MIN_ROWS_FOR_FOOTER,
    )  # fmt: skip
    table.add_column("student\npoints", "student", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, column.heading.split("\n")[0], no_wrap=True)
    rows = list(zip(names, *(column.cells for column in columns), strict=True))
    for row_number, (name, *cells) in enumerate(rows, 1):
        texts = [Text(cell, STYLES.get(cell.strip(), "")) for cell in cells]
        is_last = row_number == len(rows) - averages
        table.add_row(Text(name), *texts, end_section=bool(averages) and is_last)
    return table


FORMULA_SIGNS: Final = "=+\\-@\t\r\uff1d\uff0b\uff0d\uff20"
"""The characters with which a formula begins in a spreadsheet, to stand between the brackets of a
regular expression. The last four are the full-width forms of the first four."""

FORMULA_START: Final = re.compile(rf"\A(?=\s*[{FORMULA_SIGNS}])|(?<=;)(?=[\s\"]*[{FORMULA_SIGNS}])")
"""The places in a text where a formula would begin, also in a spreadsheet whose cells are separated
by semicolons. Quotes do not help there, because the CSV separates cells by commas."""

NEEDS_A_LOOK: Final = "needs_a_look"

OUT_OF_DATE: Final = "out_of_date"

EXCEL_ENCODING: Final = "utf-8-sig"
"""UTF-8 with a byte-order mark, without which Excel assumes another encoding."""


NO_RULES: Final = ClassRules()

Row = TypeVar("Row")
CsvColumns = dict[str, Callable[[Row], object]]
"""The columns of a CSV: for each heading, how to get its cell from a row."""


def write_csvs(
    folder: Path,
    rows: Sequence[StateRow],
    people: Sequence[Person] = (),
    submissions: Sequence[SubmissionState] = (),
    rules: ClassRules = NO_RULES,
) -> list[tuple[str, Path]]:
    """Write three CSVs: a line for each submission, for each graded cell, and for each student.

    Args:
        folder: the folder to write them to.
        rows: the state of each submission.
        people: the roster.
        submissions: the graded submissions with their verdicts.
        rules: the class's rules, with its time zone and what counts.

    Returns:
        The title and the path of each CSV.
    """
    graded = {(s.row.student, s.row.assignment): s for s in submissions}
    exercises = [
        ExerciseRow(row, name, mark, graded.get((row.student, row.assignment)))
        for row in rows
        for name, mark in row.marks.items()
    ]
    tables = (
        ("Grades", "grades.csv", *tabulate(make_submission_columns(rules.zone or UTC), rows)),
        ("Grades by exercise", "exercises.csv", *tabulate(EXERCISE_COLUMNS, exercises)),
        ("Grades by student", "students.csv", *tabulate_students(rows, people, rules)),
    )
    for _, name, heading, lines in tables:
        write_csv(folder / name, heading, lines)
    return [(title, folder / name) for title, name, _, _ in tables]


def tabulate(
    columns: CsvColumns[Row], rows: Iterable[Row]
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the heading and the lines of a table."""
    return list(columns), [tuple(value(row) for value in columns.values()) for row in rows]


def make_submission_columns(zone: tzinfo) -> CsvColumns[StateRow]:
    """Make the columns of `grades.csv`; without a grade, the scores are blank."""
    return {
        "student": lambda row: row.student,
        "assignment": lambda row: row.assignment,
        "state": lambda row: row.state,
        "score": lambda row: row.total if row.is_graded else "",
        "points": lambda row: row.points if row.is_graded else "",
        "taken_off_for_being_late": lambda row: row.late_penalty if row.is_graded else "",
        NEEDS_A_LOOK: lambda row: _yes(row.is_graded and row.needs_a_look),
        OUT_OF_DATE: lambda row: row.out_of_date,
        "due": lambda row: _time(row.due, zone),
        "handed_in": lambda row: _time(row.handed_in, zone),
        "days_late": lambda row: _days_late(row),
        "time_from": lambda row: row.time_from,
        "does_not_count": lambda row: row.left_out,
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
        """The answer's state: right, partly right, wrong…"""
        return self.submission.state(self.name) if self.submission else ""

    @property
    def diagnoses(self) -> str:
        """The diagnoses of the answer, separated by semicolons."""
        verdict = self.submission.verdicts.get(self.name) if self.submission else None
        wrong = [finding.diagnosis for finding in find_problems(verdict)] if verdict else []
        return "; ".join(dict.fromkeys(wrong))


EXERCISE_COLUMNS: CsvColumns[ExerciseRow] = {
    "student": lambda cell: cell.row.student,
    "assignment": lambda cell: cell.row.assignment,
    "exercise": lambda cell: cell.name,
    "score": lambda cell: cell.mark.score,
    "points": lambda cell: cell.mark.points,
    "by_hand": lambda cell: "" if cell.mark.manual_score is None else cell.mark.manual_score,
    "extra_credit": lambda cell: cell.mark.extra_credit,
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
        """The submissions that count in the total."""
        return [row for row in self.submissions.values() if row.is_counted]

    @property
    def may_count(self) -> list[StateRow]:
        """The graded submissions whose scores decide the total, be it which of them are best."""
        return [row for row in self.submissions.values() if row.may_be_counted and row.is_graded]

    @property
    def left_out(self) -> str:
        """The assignments that do not count in the total, each with the reason."""
        left_out = [row for row in self.submissions.values() if row.left_out]
        return "; ".join(f"{row.assignment} ({row.left_out})" for row in left_out)

    def graded(self, assignment: str) -> StateRow | None:
        """Return the student's submission of an assignment, if it has a grade."""
        row = self.submissions.get(assignment)
        return row if row is not None and row.is_graded else None


def tabulate_students(
    rows: Sequence[StateRow], people: Sequence[Person], rules: ClassRules = NO_RULES
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the heading and the lines of `students.csv`: a line for each student.

    Students are in the order of the roster, and those who are not in it below. A score without a
    grade is blank.
    """
    people_by_id = {person.id: person for person in people}
    submissions: dict[str, dict[str, StateRow]] = {student: {} for student in people_by_id}
    for row in sorted(rows, key=lambda row: row.student.casefold()):
        submissions.setdefault(row.student, {})[row.assignment] = row
    students = [
        StudentRow(people_by_id.get(id) or Person(id), rows_of_student)
        for id, rows_of_student in submissions.items()
    ]
    return tabulate(make_student_columns(rows, rules), students)


def make_student_columns(rows: Sequence[StateRow], rules: ClassRules) -> CsvColumns[StudentRow]:
    """Make the columns of `students.csv`.

    For each assignment there is its total, the late penalty if anybody has one, and each exercise.
    """
    columns: CsvColumns[StudentRow] = {
        "student": lambda student: student.person.id,
        "name": lambda student: student.person.name,
        "email": lambda student: student.person.email,
        "section": lambda student: student.person.section,
        OUT_OF_DATE: lambda s: _yes(any(row.out_of_date for row in s.may_count)),
        NEEDS_A_LOOK: lambda s: _yes(any(row.needs_a_look for row in s.may_count)),
        "score": lambda s: round(sum(row.total for row in s.counted), 4) if s.counted else "",
        "points": lambda s: sum(row.points for row in s.counted) if s.counted else "",
        "percent": partial(_percentage, rules),
        "does_not_count": lambda student: student.left_out,
    }
    for assignment in dict.fromkeys(row.assignment for row in rows):
        of_assignment = [row for row in rows if row.assignment == assignment]
        columns[assignment] = partial(_if_graded, assignment, lambda row: row.total)
        if any(row.late_penalty for row in of_assignment):
            late = partial(_if_graded, assignment, lambda row: row.late_penalty)
            columns[f"{assignment} taken off"] = late
        for exercise in dict.fromkeys(name for row in of_assignment for name in row.marks):
            columns[f"{assignment} {exercise}"] = partial(_score, assignment, exercise)
    return columns


def _percentage(rules: ClassRules, student: StudentRow) -> object:
    percentage = compute_percentage(rules, student.counted)
    return "" if percentage is None else percentage


def _if_graded(assignment: str, value: Callable[[StateRow], object], student: StudentRow) -> object:
    row = student.graded(assignment)
    return "" if row is None else value(row)


def _score(assignment: str, exercise: str, student: StudentRow) -> object:
    row = student.submissions.get(assignment)
    return row.marks[exercise].score if row is not None and exercise in row.marks else ""


def _days_late(row: StateRow) -> object:
    return round(row.seconds_late / DAY_SECONDS, 4) if row.due and row.handed_in else ""


def _time(when: datetime | None, zone: tzinfo) -> str:
    return "" if when is None else when.astimezone(zone).isoformat(timespec="seconds")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else ""


def write_csv(path: Path, heading: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    """Write a CSV for Excel, in which no cell is a formula.

    Args:
        path: the file to write.
        heading: the first line, which may have names of a notebook's cells.
        lines: the other lines.
    """
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow([*map(_csv_cell, heading)])
    writer.writerows([*map(_csv_cell, line)] for line in lines)
    write_atomically(path, table.getvalue().encode(EXCEL_ENCODING))


def _csv_cell(value: object) -> object:
    """Return a cell that is safe in a spreadsheet: its text may be a name that a student chose."""
    if not isinstance(value, str):
        return value
    return show_control_characters(FORMULA_START.sub("'", value))
