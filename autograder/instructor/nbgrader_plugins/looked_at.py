"""Scores given by hand: nobody has to look again at what is the same.

Whenever a submission is graded anew, nbgrader wants another look at each of its cells that has a
score by hand. That is right where somebody has handed in again; but whoever has read four hundred
essays, and then adds an exercise, has read them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import nbformat
from nbgrader.api import Gradebook, MissingEntry

from autograder.instructor.course import ANEW, BY_NBGRADER


class Cell(NamedTuple):
    """What there is to look at in a cell."""

    points: float | None
    kind: str
    source: str
    attachments: Any
    outputs: Any


@dataclass(frozen=True)
class LookedAt:
    """What somebody has looked at of a graded notebook.

    Attributes:
        scores: what grading gave each cell whose score is by hand, by the cell's name.
        cells: what is seen of each cell that has a name; nothing where it cannot be told.
    """

    scores: Mapping[str, float | None]
    cells: Mapping[str, Cell]

    @classmethod
    def of(cls, about: Mapping[str, str], notebook: Path, is_same: bool) -> "LookedAt":
        """What has been looked at before a submission is graded anew.

        Args:
            about: nbgrader's names for the student, the assignment and the notebook, and the
                gradebook's address.
            notebook: the graded notebook; it need not be there.
            is_same: whether it was made of what is handed in now.
        """
        with Gradebook(about["db_url"]) as book:
            scores = {
                grade.name: grade.auto_score
                for grade in _grades(book, about)
                if grade.manual_score is not None and not grade.needs_manual_grade
            }
        return cls(scores, _cells(notebook) if scores and is_same else {})

    def keep(self, about: Mapping[str, str], notebook: Path) -> None:
        """After that, have nobody look again at a cell that shows the same, and asks the same.

        Args:
            about: as before.
            notebook: the notebook as it is graded now.
        """
        if not self.cells:
            return
        now = _cells(notebook)
        if any(
            now[name].source != self.cells[name].source for name in now.keys() & self.cells.keys()
        ):
            return  # what is asked may stand in any of them
        with Gradebook(about["db_url"]) as book:
            for grade in _grades(book, about):
                name = grade.name
                was_looked_at = name in self.scores and name in self.cells
                if (
                    was_looked_at
                    and self.scores[name] == grade.auto_score
                    and self.cells[name] == now.get(name)
                ):
                    grade.needs_manual_grade = False
            book.db.commit()


class _HandedIn(msgspec.Struct, frozen=True):
    """Of what a grade rests on, what was handed in: as `Basis` has it."""

    submission: str
    form: Literal[2]


def is_same(remembered: str, submission: str) -> bool:
    """Whether a grade was made of a submission.

    Args:
        remembered: what the grade rests on, as it was written down.
        submission: the one that is asked about, in a few letters; nothing where it is not known.
    """
    try:
        then = msgspec.json.decode(
            remembered.removeprefix(ANEW).removeprefix(BY_NBGRADER), type=_HandedIn
        )
    except msgspec.MsgspecError:
        return False
    return then.submission == submission != ""


def noted(submission: str) -> str:
    """What is written down of a grade that has no page yet: what was handed in, and no more."""
    return BY_NBGRADER + msgspec.json.encode(_HandedIn(submission, 2)).decode()


def ask_again(coursedir: Any, assignment: str, student: str) -> None:
    """Have somebody look at what was given by hand for something else than is handed in now.

    nbgrader asks by itself where a notebook was handed in and a cell has a score by hand. It keeps
    to itself what stands of a notebook that was left out this time, extra credit, and comments.
    """
    with Gradebook(coursedir.db_url, coursedir.course_id) as book:
        for notebook in book.find_submission(assignment, student).notebooks:
            told = {each.name for each in notebook.comments if each.manual_comment}
            for grade in notebook.grades:
                by_hand = grade.manual_score is not None or grade.extra_credit
                grade.needs_manual_grade |= bool(by_hand) or grade.name in told
        book.db.commit()


def has_same_files(before: Path, now: Path, names: Iterable[str]) -> bool:
    """Whether files of the course's own are the same beside a graded notebook as they were."""
    return all(_contents(before / name) == _contents(now / name) for name in names)


def _contents(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _grades(book: Gradebook, about: Mapping[str, str]) -> list[Any]:
    who = about["assignment"], about["student"]
    try:
        return list(book.find_submission_notebook(about["notebook"], *who).grades)
    except MissingEntry:
        return []


def _cells(notebook: Path) -> dict[str, Cell]:
    """The cells of a notebook that the assignment knows, by their names."""
    try:
        cells = nbformat.read(str(notebook), 4).cells
        named = [(cell.metadata.get("nbgrader") or {}, cell) for cell in cells]
        return {
            about["grade_id"]: Cell(
                about.get("points"),
                cell.cell_type,
                cell.source,
                cell.get("attachments"),
                cell.get("outputs"),
            )
            for about, cell in named
            if about.get("grade_id")
        }
    except Exception:  # there is none, or what is there is none, in one of many ways
        return {}
