"""Students and exercises: how each answer stands, and the way to what its feedback page says."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.grade_table import number
from autograder.instructor.classroom.kept_answers import Submission
from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.course import Course, printable

TENTHS: Final = 10


@dataclass(frozen=True)
class Cell:
    """What the heat map says of an answer: how it stands, in a sign, in tenths, and in words.

    Where there is a feedback page, it leads to what that says of the answer.
    """

    text: str
    tenths: int | None
    words: str
    page: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the heat map: a student, and their feedback page where there is one."""

    student: str
    name: str
    page: str
    total: str
    cells: tuple[Cell, ...]


def lines_of(
    course: Course,
    rows: Sequence[Row],
    submissions: Sequence[Submission],
    exercises: Sequence[str],
    known: Mapping[str, str],
    here: Path,
) -> Iterator[Line]:
    """The lines of the heat map, the best first; those without a grade last.

    Args:
        course: where feedback pages are.
        rows: how the submissions of an assignment stand.
        submissions: the graded ones.
        exercises: the columns.
        known: names of students, by the names of their folders.
        here: the folder of the page that leads to theirs.
    """
    graded = {s.row.student: s for s in submissions}
    for row in sorted(rows, key=lambda r: (not r.graded, -r.total, r.student.casefold())):
        submission, page = graded.get(row.student), _page_of(course, row, here)
        yield Line(
            printable(row.student),
            printable(known.get(row.student, "")),
            page,
            number(row.total) if row.graded else row.state,
            tuple(_cell(name, submission, page) for name in exercises),
        )


def _cell(name: str, submission: Submission | None, page: str) -> Cell:
    if submission is None or name not in submission.row.marks:
        return Cell("–", None, "no grade")
    known = EXERCISES.get(name)
    there = f"{page}#result-{quote(known.grade_id if known else name)}" if page else ""
    mark, state = submission.row.marks[name], submission.state(name)
    words = f"{state}, {number(mark.score)} of {number(mark.points)}"
    if state in ("unanswered", "waiting"):
        return Cell("○" if state == "unanswered" else "?", None, words, there)
    share = mark.score / mark.points if mark.points else 0.0
    text = "✓" if 0 < mark.points == mark.score else number(mark.score)
    return Cell(text, round(min(max(share, 0.0), 1.0) * TENTHS), words, there)


def _page_of(course: Course, row: Row, here: Path) -> str:
    """The way from here to a feedback page; empty where there is none."""
    page = course.feedback / row.student / row.assignment / f"{row.assignment}.html"
    try:
        if not page.is_file():
            return ""
    except (OSError, ValueError):
        return ""
    way = os.path.relpath(page, here)
    return "/".join(quote(os.fsencode(part), safe="") for part in Path(way).parts)
