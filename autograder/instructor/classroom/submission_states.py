"""How a class stands: what the gradebook, and what went wrong, say of each submission."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbgrader.api import Gradebook, MissingEntry

from autograder.exercises import NOTEBOOKS
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.course import Course, readable


@dataclass(frozen=True)
class Row:
    """How one submission stands: `graded`, `broken` or `failed`, and score and points by exercise.

    A submission that has no grade of its own has no scores, whatever an earlier one earned.
    """

    student: str
    assignment: str
    state: str
    scores: dict[str, tuple[float, float]]

    @property
    def graded(self) -> bool:
        """Whether it has a grade of its own."""
        return self.state == "graded"

    @property
    def total(self) -> tuple[float, float]:
        """All that was scored, of all that could be; sums of decimals are not exact."""
        pairs = self.scores.values()
        return round(sum(s for s, _ in pairs), 4), round(sum(p for _, p in pairs), 4)


def standing(course: Course, failures: Sequence[Failure]) -> list[Row]:
    """Every submission that was looked at, by assignment and student."""
    with Gradebook(course.api.coursedir.db_url, course.api.coursedir.course_id) as gradebook:
        return list(_rows(course, gradebook, failures))


def _rows(course: Course, gradebook: Gradebook, failures: Sequence[Failure]) -> Iterator[Row]:
    failed = {(f.student, f.assignment): f for f in failures}
    for student, assignment in sorted(course.submissions(), key=lambda pair: pair[::-1]):
        failure = failed.get((student, assignment))
        if failure is not None:
            yield Row(readable(student), assignment, "broken" if failure.theirs else "failed", {})
            continue
        try:
            submission = gradebook.find_submission_notebook(assignment, assignment, student)
        except MissingEntry:
            continue
        grades = {g.name: (g.score or 0.0, g.max_score) for g in submission.grades}
        exercises = NOTEBOOKS.get(assignment, ())
        scores = {e.id: grades[e.grade_id] for e in exercises if e.grade_id in grades}
        yield Row(student, assignment, "graded", scores)
