"""What was handed in before what counts now: `grading/attempts.json`.

nbgrader keeps one submission of each student, and so does `grading/submitted/`: the last. Of those
before it, what is kept is what they had earned.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.classroom.what_changed import Bases
from autograder.instructor.course import Course

KEPT: Final = "attempts.json"


class Attempt(msgspec.Struct, frozen=True):
    """Something that was handed in and graded.

    Attributes:
        submission: what it was, in a few letters.
        score: what it has earned in the end.
        handed_in: when, as far as that is known.
    """

    submission: str
    score: float
    handed_in: datetime | None


Attempts = dict[str, dict[str, list[Attempt]]]
"""By student and assignment, in the order in which they were graded."""


def keep_attempts(course: Course, rows: Sequence[Row]) -> Attempts:
    """Keep what was graded since the last time, and tell of all that is kept.

    Args:
        course: where.
        rows: how its submissions stand; of what was graded elsewhere than here nothing is kept.
    """
    path, bases = course.grading / KEPT, Bases(course)
    attempts = _read(course)
    before = msgspec.json.encode(attempts)
    for row in rows:
        basis = bases.then(row.student, row.assignment) if row.graded else None
        if basis is None:
            continue
        theirs = attempts.setdefault(row.student, {}).setdefault(row.assignment, [])
        time = row.handed_in
        if theirs and theirs[-1].submission == basis.submission:  # its score may be another now
            last = theirs.pop()
            if not bases.is_of_now(row.student, row.assignment, last.submission):
                time = last.handed_in  # the time that is known now is of what came after it
        theirs.append(Attempt(basis.submission, row.total, time))
    now = msgspec.json.encode(attempts)
    if now != before:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(now))
        fresh.replace(path)
    return attempts


def scored_otherwise(course: Course, rows: Sequence[Row]) -> Iterator[tuple[Row, float]]:
    """Those of which the same submission has another score than what is kept, and that score.

    Args:
        course: where.
        rows: how its submissions stand, before they are kept.
    """
    attempts, bases = _read(course), Bases(course)
    for row in rows:
        basis = bases.then(row.student, row.assignment) if row.graded else None
        for last in attempts.get(row.student, {}).get(row.assignment, [])[-1:]:
            same = basis is not None and basis.submission == last.submission
            if same and last.score != row.total:
                yield row, last.score


def _read(course: Course) -> Attempts:
    try:
        return msgspec.json.decode((course.grading / KEPT).read_bytes(), type=Attempts)
    except (OSError, msgspec.MsgspecError):  # there is none, or it is no longer one
        return {}


def has_the_time_of_before(attempts: Sequence[Attempt]) -> bool:
    """Whether the time that is known of the last attempt is that of the one before it."""
    times = [attempt.handed_in for attempt in attempts[-2:]]
    return len(times) == 2 and times[0] is not None and times[0] == times[1]
