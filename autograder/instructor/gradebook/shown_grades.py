"""Fingerprints of the grades that a feedback page shows, to notice when a page is outdated."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
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

ALL_STUDENTS: Final = "*"

SCORE_COLUMNS: Final = (
    Grade.auto_score, Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade,
)  # fmt: skip
TIME_COLUMNS: Final = SubmittedNotebook.late_submission_penalty, SubmittedAssignment.timestamp
DUE_COLUMNS: Final = [
    case((SubmittedNotebook.late_submission_penalty != 0, when), else_=None)
    for when in (Assignment.duedate, SubmittedAssignment.extension)
]
"""Due dates, which a page shows only beside a late penalty."""
NAME_COLUMNS: Final = Student.first_name, Student.last_name
COMMENT_COLUMNS: Final = (Comment.auto_comment, Comment.manual_comment)


class ShownGrades(NamedTuple):
    """Fingerprints of the grades that a feedback page shows.

    Attributes:
        everything: a fingerprint of scores, comments, times and the student's name.
        scores: a fingerprint of the scores alone, automatic and manual, and of which cells still
            need a manual grade.
    """

    everything: str
    scores: str


def fingerprint_shown_grades(
    gradebook: Gradebook,
    assignment: str,
    zone: str,
    student: str = ALL_STUDENTS,
    notes: Callable[[str, str], Sequence[str]] = lambda student, assignment: (),
) -> Mapping[str, ShownGrades]:
    """Compute fingerprints of the grades on each student's page.

    One query for the whole class is much faster than one for each student.

    Args:
        gradebook: the gradebook.
        assignment: the assignment's name.
        zone: the time zone in which pages show times.
        student: one student's id, or `*` for all.
        notes: returns the sentences that a page shows beside the grades, given the student and
            the assignment.

    Returns:
        The fingerprints by student.
    """
    rows: dict[str, list[list[Any]]] = {}
    scores: dict[str, list[list[Any]]] = {}
    for kind, columns in (
        (Grade, (*SCORE_COLUMNS, *TIME_COLUMNS, *DUE_COLUMNS, *NAME_COLUMNS)),
        (Comment, COMMENT_COLUMNS),
    ):
        query = _select_by_cell(kind, assignment, *columns)
        if student != ALL_STUDENTS:
            query = query.where(SubmittedAssignment.student_id == student)
        for student_id, *row in gradebook.db.execute(query):
            if student_id not in rows:
                said = notes(student_id, assignment)
                rows[student_id] = [["Zone", zone], *([["Notes", *said]] if said else [])]
            rows[student_id].append([kind.__name__, *row])
            if kind is Grade:  # a row begins with the cell's name
                scores.setdefault(student_id, []).append(row[: 1 + len(SCORE_COLUMNS)])
    return {
        student_id: ShownGrades(_digest(student_rows), _digest(scores.get(student_id, [])))
        for student_id, student_rows in rows.items()
    }


def read_auto_scores(
    gradebook: Gradebook, assignment: str
) -> Mapping[str, Mapping[tuple[str, str], float | None]]:
    """Return each student's automatic scores, by notebook and graded cell."""
    scores: dict[str, dict[tuple[str, str], float | None]] = {}
    query = _select_by_cell(Grade, assignment, Notebook.name, Grade.auto_score)
    for student, cell, notebook, score in gradebook.db.execute(query):
        scores.setdefault(student, {})[notebook, cell] = score
    return scores


def _select_by_cell(kind: Any, assignment: str, *columns: Any) -> Any:
    """Select student, cell and some columns of all grades, or all comments, of an assignment."""
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
