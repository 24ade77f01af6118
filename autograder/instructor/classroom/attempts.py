"""The scores of students' earlier submissions, kept in `grading/attempts.json`.

nbgrader and `grading/submitted/` keep only a student's last submission.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from autograder.instructor.classroom.stale_grades import Bases
from autograder.instructor.classroom.submission_states import StateRow
from autograder.instructor.commands import write_atomically
from autograder.instructor.course import Course

ATTEMPTS_FILE: Final = "attempts.json"


class Attempt(msgspec.Struct, frozen=True):
    """A graded submission, which may have been replaced since.

    Attributes:
        submission: its fingerprint.
        score: its score after the late penalty.
        handed_in: when it was submitted; None if unknown.
    """

    submission: str
    score: float
    handed_in: datetime | None


Attempts = dict[str, dict[str, list[Attempt]]]
"""The attempts of each student at each assignment, in the order in which they were graded."""


def keep_attempts(course: Course, bases: Bases, rows: Sequence[StateRow]) -> Attempts:
    """Add what was graded since the last time to `grading/attempts.json`.

    Args:
        course: the course.
        bases: the bases of its grades.
        rows: the state of its submissions. One without a recorded basis is not added.

    Returns:
        All attempts.
    """
    attempts = _read_attempts(course)
    before = msgspec.json.encode(attempts)
    for row in rows:
        basis = bases.recorded(row.student, row.assignment) if row.is_graded else None
        if basis is None:
            continue
        of_row = attempts.setdefault(row.student, {}).setdefault(row.assignment, [])
        time = row.handed_in
        if of_row and of_row[-1].submission == basis.submission:  # its score may have changed
            last = of_row.pop()
            if not bases.is_current(row.student, row.assignment, last.submission):
                time = last.handed_in  # the row's time is that of a newer submission
        of_row.append(Attempt(basis.submission, row.total, time))
    after = msgspec.json.encode(attempts)
    if after != before:
        write_atomically(course.grading / ATTEMPTS_FILE, msgspec.json.format(after))
    return attempts


def find_changed_scores(
    course: Course, bases: Bases, rows: Sequence[StateRow]
) -> Iterator[tuple[StateRow, float]]:
    """Find submissions whose score has changed though the submission has not.

    Args:
        course: the course.
        bases: the bases of its grades.
        rows: the state of its submissions, before `keep_attempts` is called with them.

    Yields:
        The row, and the earlier score.
    """
    attempts = _read_attempts(course)
    for row in rows:
        basis = bases.recorded(row.student, row.assignment) if row.is_graded else None
        for last in attempts.get(row.student, {}).get(row.assignment, [])[-1:]:
            is_same = basis is not None and basis.submission == last.submission
            if is_same and last.score != row.total:
                yield row, last.score


def move_damaged_attempts(course: Course) -> str:
    """Rename the file of attempts if it cannot be read; return a sentence that says so, or ""."""
    path = course.grading / ATTEMPTS_FILE
    try:
        _read_attempts(course)
    except msgspec.MsgspecError:
        aside = path.replace(path.with_name(f"{path.name}.damaged"))
        return (
            f"grading/{path.name} is damaged, and is now grading/{aside.name}. Without it, scores "
            f"of earlier attempts are not reported: put back a copy if you have one."
        )
    return ""


def _read_attempts(course: Course) -> Attempts:
    try:
        return msgspec.json.decode((course.grading / ATTEMPTS_FILE).read_bytes(), type=Attempts)
    except FileNotFoundError:
        return {}
