"""The state of each submission (graded, waiting, broken, failed or missing) and its answers.

Scores come from the gradebook, verdicts from the records, and code from the graded notebooks.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
from nbgrader.api import Assignment, Gradebook, SubmittedAssignment
from sqlalchemy import select

from autograder.exercises import BY_GRADE_ID, EXERCISES, NOTEBOOKS
from autograder.instructor.commands import begin_sentence, escape_surrogates, printable
from autograder.instructor.course import Course
from autograder.instructor.gradebook import Mark, as_utc, read_marks, read_penalties
from autograder.instructor.pipeline import Records, State
from autograder.judge import NOT_COUNTED, UNANSWERED, Finding, Verdict, lesson_on, name_cell


@dataclass(frozen=True)
class Failure:
    """A submission that could not be graded.

    Attributes:
        why: the reason, in a sentence.
        is_broken: whether the submission cannot be graded; if not, the grader failed.
        was_graded: whether the same submission already has a grade. That grade is kept, marked as
            stale if it is.
    """

    student: str
    assignment: str
    why: str
    is_broken: bool
    was_graded: bool = False


def describe_failures(failures: Sequence[Failure]) -> Iterator[tuple[str, str]]:
    """Describe failures in sentences; failures with the same reason share one.

    Yields:
        Pairs of a sentence and the submissions that it is about. The second is empty where the
        sentence is about one submission, which it names itself.
    """
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(_general_reason(failure), []).append(failure)
    for reason, group in by_reason.items():
        if len(group) == 1:
            (only,) = group
            yield (
                printable(f"{only.student}, {only.assignment}: {' '.join(only.why.split())}"),
                "",
            )
        else:
            is_same = all(failure.why == group[0].why for failure in group)
            sentence = " ".join(group[0].why.split()) if is_same else reason
            yield (
                printable(begin_sentence(sentence)),
                printable(_list_names(group)),
            )


def _list_names(failures: Sequence[Failure]) -> str:
    """Return the students in one line, each with their assignments."""
    by_student: dict[str, list[str]] = {}
    for failure in failures:
        by_student.setdefault(failure.student, []).append(failure.assignment)
    return ", ".join(f"{student} ({', '.join(names)})" for student, names in by_student.items())


def _general_reason(failure: Failure) -> str:
    """Return the reason without the notebook's name and line number, to group reasons by.

    The feedback page has the full one.
    """
    why = failure.why.replace(f"{failure.assignment}.ipynb", "<assignment>.ipynb")
    return " ".join(re.sub(r" at line \d+", "", why).split())


_Marks = Mapping[tuple[str, str], Mark]
"""A submission's marks, by notebook and graded cell."""

NOT_BEST: Final = "not among the best"
"""The beginning of the reason why a score that is not one of the best N does not count."""


@dataclass(frozen=True)
class StateRow:
    """The state and the scores of one submission: a row of the table.

    A submission without a grade has no marks, even if an earlier one was graded.

    Attributes:
        state: whether it is graded, waiting, broken, failed, missing, awaited or exempt.
        marks: the mark of each graded cell, by exercise id, or else by the cell's name.
        score: nbgrader's total, before the late penalty.
        points: the maximum total.
        late_penalty: the late penalty, in points.
        handed_in: when it was submitted, in UTC, as the instructor recorded it; None if unknown.
        time_from: where that time comes from; empty if it is unknown.
        due: when it was due for this student, with their extension; None if there is no due date.
        seconds_late: how long after the due date it was submitted, by `ClassRules.seconds_late`;
            `add_times` enters it.
        out_of_date: why its grade is stale, as a clause; empty if it is not.
        left_out: why it does not count in the student's total; empty if it counts.
    """

    student: str
    assignment: str
    state: State
    marks: dict[str, Mark] = field(default_factory=dict)
    score: float = 0.0
    points: float = 0.0
    late_penalty: float = 0.0
    handed_in: datetime | None = None
    due: datetime | None = None
    seconds_late: float = 0.0
    out_of_date: str = ""
    left_out: str = ""
    time_from: str = ""

    @property
    def is_handed_in(self) -> bool:
        """True if the student has submitted anything."""
        return self.state not in (State.MISSING, State.AWAITED, State.EXEMPT)

    @property
    def is_overdue(self) -> bool:
        """True if it was due and was never submitted."""
        return self.state is State.MISSING and self.due is not None

    @property
    def is_graded(self) -> bool:
        """True if it has a grade."""
        return self.state is State.GRADED

    @property
    def total(self) -> float:
        """The score after the late penalty, as nbgrader exports it."""
        return round(max(0.0, self.score - self.late_penalty), 4)  # sums of decimals are not exact

    @property
    def is_counted(self) -> bool:
        """True if it counts in the student's total: it is graded, or was due and is missing."""
        return not self.left_out and (self.is_graded or self.is_overdue)

    @property
    def may_be_counted(self) -> bool:
        """True if it counts, or would if its score were one of the best."""
        return not self.left_out or self.left_out.startswith(NOT_BEST)

    @property
    def share(self) -> float:
        """The total as a share of the points; 0 if there are none."""
        return self.total / self.points if self.points else 0.0

    @property
    def needs_a_look(self) -> bool:
        """True if somebody has to check any of its marks."""
        return any(mark.needs_a_look for mark in self.marks.values())


def read_states(course: Course, failures: Sequence[Failure]) -> list[StateRow]:
    """Read the state of each submission, sorted by assignment and student.

    Args:
        course: the course.
        failures: the submissions that could not be graded.
    """
    with course.open_gradebook() as gradebook:
        return list(_rows(course, gradebook, failures))


def _rows(course: Course, gradebook: Gradebook, failures: Sequence[Failure]) -> Iterator[StateRow]:
    failed = {(f.student, f.assignment): f for f in failures if not f.was_graded}
    records = Records(course.records)
    penalties = read_penalties(gradebook)
    entered: Mapping[str, Any] = {}
    marks: Mapping[str, _Marks] = {}
    points = 0.0
    assignment_read = ""
    for student, assignment in sorted(course.submissions(), key=lambda pair: pair[::-1]):
        if assignment != assignment_read:
            entered, points = _read_submissions(gradebook, assignment)
            marks, assignment_read = read_marks(gradebook, assignment), assignment
        failure = failed.get((student, assignment))
        if failure is not None:
            yield StateRow(
                escape_surrogates(student),
                assignment,
                State.BROKEN if failure.is_broken else State.FAILED,
            )
            continue
        submission, own_marks = entered.get(student), marks.get(student, {})
        was_broken = records.was_broken(student, assignment)
        if (
            submission is None
            or was_broken
            or _is_unfinished(course, student, assignment, own_marks)
        ):
            yield StateRow(escape_surrogates(student), assignment, State.WAITING)
            continue
        yield StateRow(
            student,
            assignment,
            State.GRADED,
            dict(_sort_marks(assignment, own_marks)),
            round(sum(mark.score for mark in own_marks.values()), 4),
            points,
            round(penalties.get(submission.id, 0.0), 4),
            submission.timestamp and as_utc(submission.timestamp),
            _find_due_time(submission),
        )


def _read_submissions(gradebook: Gradebook, assignment: str) -> tuple[Mapping[str, Any], float]:
    """Return the ids and times of an assignment's submissions, by student, and its points."""
    query = (
        select(
            SubmittedAssignment.student_id,
            SubmittedAssignment.id,
            SubmittedAssignment.timestamp,
            SubmittedAssignment.extension,
            Assignment.duedate,
        )
        .join(SubmittedAssignment.assignment)
        .where(Assignment.name == assignment)
    )
    points = gradebook.db.scalar(select(Assignment.max_score).where(Assignment.name == assignment))
    return {row.student_id: row for row in gradebook.db.execute(query)}, points or 0.0


def _find_due_time(submission: Any) -> datetime | None:
    """Return when a submission was due, with its extension; None if its assignment is not due."""
    if not submission.duedate:
        return None
    return as_utc(submission.duedate + (submission.extension or timedelta()))


def _is_unfinished(course: Course, student: str, assignment: str, marks: _Marks) -> bool:
    """Check whether grading stopped after nbgrader entered a submission and before its scores."""
    if course.has_graded_notebook(student, assignment):
        return False
    return any(mark.has_no_score for mark in marks.values())


def _sort_marks(assignment: str, marks: _Marks) -> Iterator[tuple[str, Mark]]:
    """Yield a submission's marks by name: exercises in the course's order, then other cells.

    The assignment's first notebook comes first.
    """
    exercises = [exercise.grade_id for exercise in NOTEBOOKS.get(assignment, ())]
    places = {name: place for place, name in enumerate(exercises)}

    def find_place(key: tuple[str, str]) -> tuple[bool, str, int]:
        notebook, cell = key
        return notebook != assignment, notebook, places.get(cell, len(places))

    for notebook, cell in sorted(marks, key=find_place):
        where = "" if notebook == assignment else f"{notebook}/"
        exercise = BY_GRADE_ID.get(cell)
        yield f"{where}{exercise.id if exercise else cell}", marks[notebook, cell]


STATES: Final = ("right", "partly", "wrong", "unanswered", "waiting")
"""The states of an answer; `waiting` is for manual grading."""

UNINFORMATIVE_DIAGNOSES: Final = ("", UNANSWERED, NOT_COUNTED)
"""Diagnoses that say nothing about the answer itself."""


class _Metadata(msgspec.Struct):
    nbgrader: dict[str, object] = {}


class _Cell(msgspec.Struct):
    source: str | list[str] = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Notebook(msgspec.Struct):
    cells: list[_Cell] = []


@dataclass(frozen=True)
class SubmissionState:
    """A graded submission with its verdicts and its code.

    Attributes:
        row: its state and scores.
        verdicts: the verdicts in its record, by exercise id.
        unanswered: the names of its answer cells that are unchanged since the release. Those of
            another notebook than the assignment's first begin with its name: `part_b/answer`.
        notebook: the path of the graded notebook.
        others: the paths of the assignment's other graded notebooks, by name.
        absent: the names of those that were not handed in.
    """

    row: StateRow
    verdicts: Mapping[str, Verdict]
    unanswered: Collection[str]
    notebook: Path
    others: Mapping[str, Path] = field(default_factory=dict)
    absent: Collection[str] = ()

    @cached_property
    def _cells(self) -> dict[object, _Cell]:
        return _read_cells(self.notebook)

    def code(self, exercise: str) -> str:
        """Return the code in an exercise's cell; empty if there is no such cell."""
        known = EXERCISES.get(exercise)
        name = name_cell(exercise) if known else exercise
        cell = self._cells.get(name)
        return "".join(cell.source) if cell is not None else ""

    def state(self, name: str) -> str:
        """Return the state of an answer, one of `STATES`."""
        mark, verdict = self.row.marks[name], self.verdicts.get(name)
        if mark.manual_score is None and verdict is not None and verdict.state in STATES:
            return verdict.state
        if mark.needs_a_look and mark.manual_score is None:
            return "waiting"
        if not mark.score and mark.manual_score is None and self._is_unanswered(name):
            return "unanswered"
        return "right" if mark.score >= mark.points else "partly" if mark.score else "wrong"

    def _is_unanswered(self, name: str) -> bool:
        """Check whether the answer cells that a graded cell is about are unchanged.

        These are the nearest ones above it, up to another graded cell; several tests may follow.
        Nothing is answered in a notebook that was not handed in.
        """
        other, _, own_name = name.rpartition("/")
        if other in self.absent:
            return True
        before = f"{other}/" if other else ""
        cells = _read_cells(self.others[other]) if other in self.others else self._cells
        answers: list[str] = []
        is_below_test = False
        for each, cell in cells.items():
            if cell.metadata.nbgrader.get("solution"):
                answer = f"{before}{each}"
                answers = [answer] if is_below_test else [*answers, answer]
                is_below_test = False
            if each == own_name:
                return bool(answers) and all(answer in self.unanswered for answer in answers)
            is_below_test |= bool(cell.metadata.nbgrader.get("grade"))
        return False


def _read_cells(path: Path) -> dict[object, _Cell]:
    """Return the cells of a graded notebook by their names; none if it cannot be read."""
    try:
        read = msgspec.json.decode(path.read_bytes(), type=_Notebook)
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}
    return {cell.metadata.nbgrader.get("grade_id"): cell for cell in read.cells}


def read_kept_answers(course: Course, rows: Sequence[StateRow]) -> list[SubmissionState]:
    """Return the graded submissions among the rows, with the verdicts of their records."""
    kept, records = [], Records(course.records)
    for row in rows:
        if row.is_graded:
            record = records.get(row.student, row.assignment)
            notebooks = record.notebooks if record is not None else {}
            graded = notebooks.get(row.assignment)
            verdicts = graded.verdicts_by_exercise() if graded is not None else {}
            unanswered = {
                cell if name == row.assignment else f"{name}/{cell}"
                for name, each in notebooks.items()
                for cell in each.unanswered
            }
            folder = course.autograded / row.student / row.assignment
            others = {name.partition("/")[0] for name in row.marks if "/" in name}
            kept.append(
                SubmissionState(
                    row,
                    verdicts,
                    unanswered,
                    folder / f"{row.assignment}.ipynb",
                    {name: folder / f"{name}.ipynb" for name in others},
                    others - {*notebooks} if record is not None else (),
                )
            )
    return kept


def find_problems(verdict: Verdict) -> Iterator[Finding]:
    """Yield the findings that say what is wrong with the answer."""
    yield from (
        f for f in verdict.findings if not f.met and f.diagnosis not in UNINFORMATIVE_DIAGNOSES
    )


def find_lesson(verdict: Verdict, finding: Finding) -> str:
    """Return the exercise's lesson on a finding's diagnosis; empty if it has none."""
    exercise = EXERCISES.get(verdict.exercise)
    return lesson_on(exercise, finding.answer, finding.diagnosis) if exercise else ""
