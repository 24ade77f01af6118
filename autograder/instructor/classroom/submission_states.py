"""How a class stands: what the gradebook, and what went wrong, say of each submission."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from autograder.exercises import BY_GRADE_ID, NOTEBOOKS
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.course import Course, readable
from autograder.instructor.pipeline import State


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
class Row:
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


def standing(course: Course, failures: Sequence[Failure]) -> list[Row]:
    """Every submission that was looked at, by assignment and student."""
    with Gradebook(course.api.coursedir.db_url, course.api.coursedir.course_id) as gradebook:
        return list(_rows(course, gradebook, failures))


def _rows(course: Course, gradebook: Gradebook, failures: Sequence[Failure]) -> Iterator[Row]:
    failed = {(f.student, f.assignment): f for f in failures if not f.was_graded}
    for student, assignment in sorted(course.submissions(), key=lambda pair: pair[::-1]):
        failure = failed.get((student, assignment))
        if failure is not None:
            yield Row(
                readable(student), assignment, State.BROKEN if failure.theirs else State.FAILED
            )
            continue
        try:
            submission = gradebook.find_submission(assignment, student)
        except MissingEntry:
            submission = None
        if submission is None or _is_unfinished(course, submission):
            yield Row(readable(student), assignment, State.WAITING)
            continue
        yield Row(
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
