"""The state of each submission: graded, waiting, broken, failed or missing, and with which answers.

Scores come from the gradebook, verdicts from the records, and code from the graded notebooks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
from nbgrader.api import Gradebook, MissingEntry

from autograder.exercises import BY_GRADE_ID, EXERCISES, NOTEBOOKS
from autograder.instructor.course import Course, printable, readable
from autograder.instructor.pipeline import Records, State
from autograder.judge import Finding, Verdict, lesson_on


@dataclass(frozen=True)
class Failure:
    """A submission that could not be graded.

    Attributes:
        why: in a sentence.
        theirs: whether it is the submission that is broken, and not the grading.
        was_graded: whether the same was graded before, of the same points, so that this stands.
    """

    student: str
    assignment: str
    why: str
    theirs: bool
    was_graded: bool = False


def describe_failures(failures: Sequence[Failure]) -> Iterator[tuple[str, str]]:
    """What to say of some failures: pairs of a sentence, and the submissions it is about.

    A failure that is like no other is one sentence that says all that is known of it. What is true
    of several is said once, and they are listed.
    """
    alike: dict[str, list[Failure]] = {}
    for failure in failures:
        alike.setdefault(_in_common(failure), []).append(failure)
    for sentence, those in alike.items():
        if len(those) == 1:
            (one,) = those
            yield printable(f"{one.student}, {one.assignment}: {' '.join(one.why.split())}"), ""
        else:
            same = all(failure.why == those[0].why for failure in those)
            said = " ".join(those[0].why.split()) if same else sentence
            yield printable(f"{said[:1].upper()}{said[1:]}"), printable(_listed(those))


def _listed(failures: Sequence[Failure]) -> str:
    """Each student, with what they handed in."""
    of: dict[str, list[str]] = {}
    for failure in failures:
        of.setdefault(failure.student, []).append(failure.assignment)
    return ", ".join(f"{student} ({', '.join(theirs)})" for student, theirs in of.items())


def _in_common(failure: Failure) -> str:
    """The sentence without the notebook's name and the line, which its feedback page has."""
    why = failure.why.replace(f"{failure.assignment}.ipynb", "<assignment>.ipynb")
    return " ".join(re.sub(r" at line \d+", "", why).split())


@dataclass(frozen=True)
class Mark:
    """What the gradebook has of one graded cell.

    Attributes:
        score: what counts: what was given by hand, or else what was found by running it, and what
            was given beyond.
        points: the most that it is worth; with extra credit, a score may be more.
        found: what running it has found; None where that is for somebody to say.
        by_hand: what somebody has given; None where nobody has.
        extra: what somebody has given beyond.
        needs_a_look: whether it waits for somebody: it can only be graded by hand, or what was
            given by hand was given before it was graded again.
    """

    score: float
    points: float
    found: float | None = None
    by_hand: float | None = None
    extra: float = 0.0
    needs_a_look: bool = False

    @property
    def stands(self) -> bool:
        """Whether something that was given by hand may be for what was there before."""
        return self.needs_a_look and (self.by_hand is not None or self.extra != 0)


@dataclass(frozen=True)
class StateRow:
    """How one submission stands.

    A submission that has no grade of its own has no marks, whatever an earlier one earned.

    Attributes:
        state: what has become of it.
        marks: of each graded cell, by the number of an exercise, or else by the cell's name.
        score: nbgrader's own total of them, before what is taken off for being late.
        points: the most that there is.
        late: what is taken off for being late.
        handed_in: when, in UTC, by what the instructor has said; None where that is not known.
        due: when it was due for this student, with their extension; None where it never is.
        seconds_late: how long after that it was handed in.
    """

    student: str
    assignment: str
    state: State
    marks: dict[str, Mark] = field(default_factory=dict)
    score: float = 0.0
    points: float = 0.0
    late: float = 0.0
    handed_in: datetime | None = None
    due: datetime | None = None
    seconds_late: float = 0.0

    @property
    def is_handed_in(self) -> bool:
        """Whether there is anything."""
        return self.state not in (State.MISSING, State.AWAITED)

    @property
    def is_overdue(self) -> bool:
        """Check whether it was due and was never handed in."""
        return self.state is State.MISSING and self.due is not None

    @property
    def graded(self) -> bool:
        """Whether it has a grade of its own."""
        return self.state is State.GRADED

    @property
    def total(self) -> float:
        """What counts in the end, as nbgrader exports it; sums of decimals are not exact."""
        return round(max(0.0, self.score - self.late), 4)

    @property
    def needs_a_look(self) -> bool:
        """Whether any of it waits for somebody."""
        return any(mark.needs_a_look for mark in self.marks.values())


def read_states(course: Course, failures: Sequence[Failure]) -> list[StateRow]:
    """Every submission that was looked at, by assignment and student."""
    with Gradebook(course.api.coursedir.db_url, course.api.coursedir.course_id) as gradebook:
        return list(_rows(course, gradebook, failures))


def _rows(course: Course, gradebook: Gradebook, failures: Sequence[Failure]) -> Iterator[StateRow]:
    failed = {(f.student, f.assignment): f for f in failures if not f.was_graded}
    for student, assignment in sorted(course.submissions(), key=lambda pair: pair[::-1]):
        failure = failed.get((student, assignment))
        if failure is not None:
            yield StateRow(
                readable(student), assignment, State.BROKEN if failure.theirs else State.FAILED
            )
            continue
        try:
            submission = gradebook.find_submission(assignment, student)
        except MissingEntry:
            submission = None
        if submission is None or _is_unfinished(course, submission):
            yield StateRow(readable(student), assignment, State.WAITING)
            continue
        yield StateRow(
            student,
            assignment,
            State.GRADED,
            dict(_marks(submission)),
            round(submission.score, 4),
            submission.max_score,
            submission.late_submission_penalty,
            _aware(submission.timestamp),
            _aware(submission.duedate if submission.assignment.duedate else None),
            submission.total_seconds_late,
        )


def _is_unfinished(course: Course, submission: Any) -> bool:
    """Whether grading was stopped when nbgrader had entered a submission, and not its scores."""
    student, assignment = submission.student_id, submission.assignment.name
    if (course.autograded / student / assignment / f"{assignment}.ipynb").exists():
        return False
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    return any(grade.auto_score is None and grade.manual_score is None for grade in grades)


def _aware(when: datetime | None) -> datetime | None:
    """A time of the gradebook's, which are all in UTC and do not say so."""
    return None if when is None else when.replace(tzinfo=UTC)


def _marks(submission: Any) -> Iterator[tuple[str, Mark]]:
    """The marks of a submission: those of exercises as the course has them, and then the others."""
    assignment = submission.assignment.name
    exercises = [exercise.grade_id for exercise in NOTEBOOKS.get(assignment, ())]
    places = {name: place for place, name in enumerate(exercises)}
    for notebook in sorted(submission.notebooks, key=lambda n: (n.name != assignment, n.name)):
        where = "" if notebook.name == assignment else f"{notebook.name}/"
        for grade in sorted(notebook.grades, key=lambda g: places.get(g.name, len(places))):
            exercise = BY_GRADE_ID.get(grade.name)
            yield (
                f"{where}{exercise.id if exercise else grade.name}",
                Mark(
                    grade.score,
                    grade.max_score,
                    grade.auto_score,
                    grade.manual_score,
                    grade.extra_credit or 0.0,
                    grade.needs_manual_grade,
                ),
            )


STATES: Final = ("right", "partly", "wrong", "unanswered", "waiting")
"""How an answer stands; it waits for somebody where it is to be graded by hand and was not."""

UNINFORMATIVE_DIAGNOSES: Final = ("", "unanswered", "not-counted-yet")
"""Diagnoses that say nothing of what was written."""


class _Metadata(msgspec.Struct):
    nbgrader: dict[str, object] = {}


class _Cell(msgspec.Struct):
    source: str | list[str] = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Notebook(msgspec.Struct):
    cells: list[_Cell] = []


@dataclass(frozen=True)
class SubmissionState:
    """A graded submission.

    Attributes:
        row: how it stands.
        verdicts: those that are kept, by the ids of their exercises.
        notebook: where the graded notebook is.
    """

    row: StateRow
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


def read_kept_answers(course: Course, rows: Sequence[StateRow]) -> list[SubmissionState]:
    """The graded submissions among some rows, with what is kept of them."""
    found, records = [], Records(course.records)
    for row in rows:
        if row.graded:
            record = records.get(row.student, row.assignment)
            graded = record.notebooks.get(row.assignment) if record is not None else None
            verdicts = graded.verdicts_by_exercise() if graded is not None else {}
            folder = course.autograded / row.student / row.assignment
            found.append(SubmissionState(row, verdicts, folder / f"{row.assignment}.ipynb"))
    return found


def find_problems(verdict: Verdict) -> Iterator[Finding]:
    """The findings that say what is wrong with what was written."""
    yield from (
        f for f in verdict.findings if not f.met and f.diagnosis not in UNINFORMATIVE_DIAGNOSES
    )


def find_lesson(verdict: Verdict, finding: Finding) -> str:
    """What its exercise has to say of what is wrong; empty where it says nothing of that."""
    exercise = EXERCISES.get(verdict.exercise)
    return lesson_on(exercise, finding.answer, finding.diagnosis) if exercise else ""
