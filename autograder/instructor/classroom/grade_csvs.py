"""The gradebook for spreadsheets: exact, and whole."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final

from autograder.instructor.classroom.kept_answers import Submission, problems
from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import Mark, Row
from autograder.instructor.course import without_controls

FORMULAS: Final = "=+\\-@\t\r\uff1d\uff0b\uff0d\uff20"
"""The signs that a spreadsheet takes for the beginning of a formula, as a regular expression has
them within brackets; the last four are the first four, as wide as a Chinese character."""

BEGINS: Final = re.compile(rf"\A(?=\s*[{FORMULAS}])|(?<=;)(?=[\s\"]*[{FORMULAS}])")
"""The places in a text where a formula would begin, also in a spreadsheet that takes semicolons for
what separates cells; to quote a text does not help there, where a comma is before it."""

NEEDS_A_LOOK: Final = "needs_a_look"

FOR_EXCEL: Final = "utf-8-sig"
"""UTF-8 with a byte-order mark, without which Excel reads letters as another encoding's."""

DAY: Final = 24 * 60 * 60
"""Its seconds."""


def write_csvs(
    folder: Path,
    rows: Sequence[Row],
    people: Sequence[Person] = (),
    submissions: Sequence[Submission] = (),
    zone: tzinfo = UTC,
) -> list[tuple[str, Path]]:
    """Write three CSVs: a line for each submission, for each graded cell, and for each student.

    Args:
        folder: where to.
        rows: how submissions stand.
        people: the roster.
        submissions: the graded ones, with what is kept of them.
        zone: the time zone that the class's times are written in.

    Returns:
        What each is, and where.
    """
    kept = {(s.row.student, s.row.assignment): s for s in submissions}
    grades, exercises = folder / "grades.csv", folder / "exercises.csv"
    write_csv(
        grades,
        (
            "student",
            "assignment",
            "state",
            "score",
            "points",
            "taken_off_for_being_late",
            NEEDS_A_LOOK,
            "due",
            "handed_in",
            "days_late",
        ),
        (
            (row.student, row.assignment, row.state, *_totals(row), *_times(row, zone))
            for row in rows
        ),
        FOR_EXCEL,
    )
    write_csv(
        exercises,
        (
            "student", "assignment", "exercise", "score", "points", "by_hand", "extra_credit",
            NEEDS_A_LOOK, "answer", "diagnoses",
        ),
        (
            (row.student, row.assignment, name, *_parts(mark), *_said(row, name, kept))
            for row in rows
            for name, mark in row.marks.items()
        ),
        FOR_EXCEL,
    )  # fmt: skip
    students = folder / "students.csv"
    write_csv(students, *by_student(rows, people), FOR_EXCEL)
    return [("Grades", grades), ("Grades by exercise", exercises), ("Grades by student", students)]


def by_student(
    rows: Sequence[Row], people: Sequence[Person]
) -> tuple[list[str], list[tuple[object, ...]]]:
    """A table with a row for each student, in the order of the roster: its heading, and its lines.

    What has no grade is blank. The points are those of the assignments that count in the score:
    what is graded, and what is due and was never handed in. Where anybody is late, the penalty
    stands between a total and the scores that it is made of.
    """
    columns: dict[str, dict[str, None]] = {}
    for row in rows:
        columns.setdefault(row.assignment, {}).update(dict.fromkeys(row.marks))
    known = {person.id: person for person in people}
    mine: dict[str, dict[str, Row]] = {student: {} for student in known}
    for row in sorted(rows, key=lambda row: row.student.casefold()):
        mine.setdefault(row.student, {})[row.assignment] = row
    heading = ["student", "name", "email", "section", "score", "points"]
    late = {row.assignment: [f"{row.assignment} taken off"] for row in rows if row.late}
    for assignment, names in columns.items():
        heading += [assignment, *late.get(assignment, ())]
        heading += [f"{assignment} {name}" for name in names]
    lines = []
    for student, theirs in mine.items():
        person = known.get(student) or Person(student)
        counted = [row for row in theirs.values() if row.graded or row.is_overdue]
        line: list[object] = [student, person.name, person.email, person.section]
        totals = [round(sum(r.total for r in counted), 4), sum(r.points for r in counted)]
        line += totals if counted else ["", ""]
        for assignment, names in columns.items():
            of = theirs.get(assignment)
            marks = of.marks if of is not None else {}
            graded_one = of if of is not None and of.graded else None
            line.append(graded_one.total if graded_one else "")
            line += [graded_one.late if graded_one else "" for _ in late.get(assignment, ())]
            line += [marks[name].score if name in marks else "" for name in names]
        lines.append(tuple(line))
    return heading, lines


def _said(row: Row, name: str, kept: Mapping[tuple[str, str], Submission]) -> tuple[object, object]:
    """How an answer stands, and what is wrong with it."""
    submission = kept.get((row.student, row.assignment))
    if submission is None:
        return "", ""
    verdict = submission.verdicts.get(name)
    wrong = [finding.diagnosis for finding in problems(verdict)] if verdict else []
    return submission.state(name), "; ".join(dict.fromkeys(wrong))


def _totals(row: Row) -> tuple[object, ...]:
    if not row.graded:
        return ("",) * 4
    return row.total, row.points, row.late, _yes(row.needs_a_look)


def _times(row: Row, zone: tzinfo) -> tuple[object, ...]:
    """When it was due and handed in, and how many days late that was; blank where unknown."""
    days = round(row.seconds_late / DAY, 4) if row.due and row.handed_in else ""
    return _time(row.due, zone), _time(row.handed_in, zone), days


def _time(when: datetime | None, zone: tzinfo) -> str:
    return "" if when is None else when.astimezone(zone).isoformat(timespec="seconds")


def _parts(mark: Mark) -> tuple[object, ...]:
    by_hand = "" if mark.by_hand is None else mark.by_hand
    return mark.score, mark.points, by_hand, mark.extra, _yes(mark.needs_a_look)


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
    return without_controls(BEGINS.sub("'", value))
