"""Tell whether a feedback page still shows what the gradebook has."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy import case, select

ANYBODY: Final = "*"

SCORES: Final = (
    Grade.auto_score, Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade,
)  # fmt: skip
TIME_COLUMNS: Final = SubmittedNotebook.late_submission_penalty, SubmittedAssignment.timestamp
DUE: Final = [
    case((SubmittedNotebook.late_submission_penalty != 0, when), else_=None)
    for when in (Assignment.duedate, SubmittedAssignment.extension)
]
"""When it was due, of which a page speaks where something is taken off for being late."""
NAME_COLUMNS: Final = Student.first_name, Student.last_name
COMMENTS: Final = (Comment.auto_comment, Comment.manual_comment)


class ShownGrades(NamedTuple):
    """What a page shows of the gradebook, in a few letters.

    Attributes:
        everything: scores, comments, times and the name; others where any of these is another.
        scores: those alone, found and by hand, and which of them wait for a look.
    """

    everything: str
    scores: str


def shown_grades(
    gradebook: Gradebook, assignment: str, zone: str, student: str = ANYBODY
) -> Mapping[str, ShownGrades]:
    """What the pages of each student show.

    It is asked of a whole class at once, because a question for each student takes a while.

    Args:
        gradebook: where they are.
        assignment: of which assignment.
        zone: the time zone in which pages show times.
        student: of whom.
    """
    rows: dict[str, list[list[Any]]] = {}
    scores: dict[str, list[list[Any]]] = {}
    for kind, columns in (
        (Grade, (*SCORES, *TIME_COLUMNS, *DUE, *NAME_COLUMNS)),
        (Comment, COMMENTS),
    ):
        wanted = _of_cells(kind, assignment, *columns)
        if student != ANYBODY:
            wanted = wanted.where(SubmittedAssignment.student_id == student)
        for whose, *row in gradebook.db.execute(wanted):
            theirs = rows.setdefault(whose, [["Zone", zone]])
            theirs.append([kind.__name__, *row])
            if kind is Grade:
                scores.setdefault(whose, []).append(row[: 1 + len(SCORES)])  # the cell's name first
    return {
        whose: ShownGrades(_digest(theirs), _digest(scores.get(whose, [])))
        for whose, theirs in rows.items()
    }


def auto_scores(
    gradebook: Gradebook, assignment: str
) -> Mapping[str, Mapping[tuple[str, str], float | None]]:
    """The scores that running each student's notebooks gave, by notebook and graded cell."""
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    wanted = _of_cells(Grade, assignment, Notebook.name, Grade.auto_score)
    for student, cell, notebook, score in gradebook.db.execute(wanted):
        found.setdefault(student, {})[notebook, cell] = score
    return found


def _of_cells(kind: Any, assignment: str, *columns: Any) -> Any:
    """A query of all grades, or all comments, of an assignment: student, cell, and some columns."""
    return (
        select(SubmittedAssignment.student_id, BaseCell.name, *columns)
        .select_from(kind)
        .join(BaseCell, kind.cell_id == BaseCell.id)
        .join(SubmittedNotebook, kind.notebook_id == SubmittedNotebook.id)
        .join(Notebook, SubmittedNotebook.notebook_id == Notebook.id)
        .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
        .join(Student, SubmittedAssignment.student_id == Student.id)
        .where(Assignment.name == assignment)
    )


def _digest(rows: list[list[Any]]) -> str:
    lines = sorted(msgspec.json.encode(row) for row in rows)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
