"""What is kept of graded submissions: their verdicts, and the code of their answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.course import Course
from autograder.instructor.pipeline import Records
from autograder.judge import Finding, Verdict, lesson_on

STATES: Final = ("right", "partly", "wrong", "unanswered", "waiting")
"""How an answer stands; it waits for somebody where it is to be graded by hand and was not."""

SAYS_NOTHING: Final = ("", "unanswered", "not-counted-yet")
"""Diagnoses that say nothing of what was written."""


class _Metadata(msgspec.Struct):
    nbgrader: dict[str, object] = {}


class _Cell(msgspec.Struct):
    source: str | list[str] = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Notebook(msgspec.Struct):
    cells: list[_Cell] = []


@dataclass(frozen=True)
class Submission:
    """A graded submission.

    Attributes:
        row: how it stands.
        verdicts: those that are kept, by the ids of their exercises.
        notebook: where the graded notebook is.
    """

    row: Row
    verdicts: Mapping[str, Verdict]
    notebook: Path

    @cached_property
    def _sources(self) -> dict[object, str]:
        try:
            read = msgspec.json.decode(self.notebook.read_bytes(), type=_Notebook)
        except (OSError, msgspec.MsgspecError):
            return {}
        return {cell.metadata.nbgrader.get("grade_id"): "".join(cell.source) for cell in read.cells}

    def code(self, exercise: str) -> str:
        """What stands in the cell of an exercise; empty where it has none."""
        known = EXERCISES.get(exercise)
        name = known.grade_id.removesuffix("-check") if known else exercise
        return self._sources.get(name, "")

    def state(self, name: str) -> str:
        """How an answer stands: one of `STATES`."""
        mark, verdict = self.row.marks[name], self.verdicts.get(name)
        if mark.by_hand is None and verdict is not None and verdict.state in STATES:
            return verdict.state
        if mark.needs_a_look and mark.by_hand is None:
            return "waiting"
        return "right" if mark.score >= mark.points else "partly" if mark.score else "wrong"


def kept_answers(course: Course, rows: Sequence[Row]) -> list[Submission]:
    """The graded submissions among some rows, with what is kept of them."""
    found, records = [], Records(course.records)
    for row in rows:
        if row.graded:
            record = records.get(row.student, row.assignment)
            graded = record.notebooks.get(row.assignment) if record is not None else None
            verdicts = graded.verdicts_by_exercise() if graded is not None else {}
            folder = course.autograded / row.student / row.assignment
            found.append(Submission(row, verdicts, folder / f"{row.assignment}.ipynb"))
    return found


def problems(verdict: Verdict) -> Iterator[Finding]:
    """The findings that say what is wrong with what was written."""
    yield from (f for f in verdict.findings if not f.met and f.diagnosis not in SAYS_NOTHING)


def lesson_of(verdict: Verdict, finding: Finding) -> str:
    """What its exercise has to say of what is wrong; empty where it says nothing of that."""
    exercise = EXERCISES.get(verdict.exercise)
    return lesson_on(exercise, finding.answer, finding.diagnosis) if exercise else ""
