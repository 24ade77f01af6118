"""The gradebook's entries for graded cells, with nbgrader's names for their parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Grade,
    Gradebook,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy import func, select


@dataclass(frozen=True)
class Mark:
    """The gradebook's entry for one graded cell.

    Attributes:
        score: the score that counts: the manual score if there is one, else the automatic score;
            plus extra credit.
        points: the maximum score, without extra credit.
        auto_score: the automatic score; None for a cell that is graded manually.
        manual_score: the manual score; None if nobody has given one.
        needs_a_look: whether somebody has to check it: it can only be graded manually, or its
            manual score is older than its automatic one.
    """

    score: float
    points: float
    auto_score: float | None = None
    manual_score: float | None = None
    extra_credit: float = 0.0
    needs_a_look: bool = False

    @classmethod
    def of(cls, grade: Any) -> "Mark":
        """Return the mark of one of the gradebook's grades, or of a row with the same columns."""
        return cls(
            grade.score or 0.0,
            grade.max_score,
            grade.auto_score,
            grade.manual_score,
            grade.extra_credit or 0.0,
            grade.needs_manual_grade,
        )

    @property
    def has_no_score(self) -> bool:
        """True if there is neither an automatic nor a manual score."""
        return self.auto_score is None and self.manual_score is None

    @property
    def has_older_manual_score(self) -> bool:
        """True if a manual score or extra credit may be for an earlier submission."""
        return self.needs_a_look and (self.manual_score is not None or self.extra_credit != 0)


def read_penalties(gradebook: Gradebook) -> Mapping[str, float]:
    """Return each submission's late penalty, in points, by the submission's id.

    One query reads all: for nbgrader's own attribute SQLite looks through the notebooks of the
    whole class, for each submission.
    """
    query = select(
        SubmittedNotebook.assignment_id,
        func.coalesce(func.sum(SubmittedNotebook.late_submission_penalty), 0.0).label("penalty"),
    ).group_by(SubmittedNotebook.assignment_id)
    return {row.assignment_id: row.penalty for row in gradebook.db.execute(query)}


def read_marks(
    gradebook: Gradebook, assignment: str
) -> Mapping[str, Mapping[tuple[str, str], Mark]]:
    """Return each student's marks, by notebook and graded cell.

    They are read as rows, because nbgrader's objects take three times as long for a class.
    """
    cells = (
        select(BaseCell.id, Notebook.name, BaseCell.name)
        .join(Notebook, BaseCell.notebook_id == Notebook.id)
        .join(Assignment, Notebook.assignment_id == Assignment.id)
        .where(Assignment.name == assignment)
    )
    names = {cell: (notebook, name) for cell, notebook, name in gradebook.db.execute(cells)}
    grades = (
        select(
            SubmittedAssignment.student_id,
            Grade.cell_id,
            Grade.score.label("score"),
            Grade.max_score.label("max_score"),
            Grade.auto_score,
            Grade.manual_score,
            Grade.extra_credit,
            Grade.needs_manual_grade,
        )
        .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
        .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
        .where(Assignment.name == assignment)
    )
    marks: dict[str, dict[tuple[str, str], Mark]] = {}
    for row in gradebook.db.execute(grades):
        marks.setdefault(row.student_id, {})[names[row.cell_id]] = Mark.of(row)
    return marks
