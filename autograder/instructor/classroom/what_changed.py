"""Whether what a grade rests on is still what it was when the grade was made."""

import functools
from collections.abc import Collection
from typing import Final

import msgspec

from autograder.instructor.course import Course
from autograder.instructor.pipeline import JUDGED, Basis, Records, fingerprint_submission, of_grades

ALL: Final = frozenset(Basis.__struct_fields__)

WORDS: Final = {
    "submission": "what was handed in has changed",
    "cells": "cells of the notebook or files beside it have changed",
    "plans": "what exercises look at has changed",
    "package": "the package has changed",
    "jax": "JAX has changed",
    "exercises": "exercises have changed",
    "judge": "the judge has changed",
    "points": "points have changed",
}


class Bases:
    """What the grades of a course rest on, once its notebooks are released.

    Args:
        course: the course; nothing of it is released again while this is in use.
        unreleased: the assignments of which a new release could not be made. What the grades of
            these rest on is as it was, until one can.
    """

    def __init__(self, course: Course, unreleased: Collection[str] = ()) -> None:
        self.course, self.unreleased = course, unreleased
        self.records = Records(course.records)
        self.of_assignment = functools.cache(functools.partial(of_grades, course.api.coursedir))

    def now(self, student: str, assignment: str) -> Basis:
        """What a grade would rest on that was made now."""
        submission = self._handed_in(student, assignment)
        return msgspec.structs.replace(self.of_assignment(assignment), submission=submission)

    def then(self, student: str, assignment: str) -> Basis | None:
        """What a grade rests on; None where there is no grade, or it is to be made anew."""
        record = self.records.get(student, assignment)
        graded = self.course.autograded / student / assignment / f"{assignment}.ipynb"
        if record is None or record.again or not graded.exists():
            return None
        return record.basis

    def failed_before(self, student: str, assignment: str) -> str:
        """Why just this could not be graded when it was last tried; empty where it was not."""
        record = self.records.get(student, assignment)
        if record is None or record.tried is None:
            return ""
        try:
            return record.why if record.tried == self.now(student, assignment) else ""
        except OSError:
            return ""

    def changed(self, student: str, assignment: str) -> frozenset[str]:
        """The names of what has changed since the grade was made; all, where there is none."""
        then = self.then(student, assignment)
        if then is None:
            return ALL
        if assignment in self.unreleased:
            return frozenset() if self.is_graded(student, assignment) else ALL
        return frozenset(then.changed(self.now(student, assignment)))

    def is_graded(self, student: str, assignment: str) -> bool:
        """Whether it is what was handed in now that has a grade."""
        then = self.then(student, assignment)
        return then is not None and self.is_of_now(student, assignment, then.submission)

    def was_graded(self, student: str, assignment: str) -> bool:
        """Whether what is handed in now was graded, of the same points, though it is to be anew."""
        record = self.records.get(student, assignment)
        graded = self.course.autograded / student / assignment / f"{assignment}.ipynb"
        if record is None or record.basis is None or not graded.exists():
            return False
        try:
            now = self.now(student, assignment)
        except OSError:
            return False
        return not record.basis.changed(now) & {"submission", "cells", "points"}

    def is_of_now(self, student: str, assignment: str, submission: str) -> bool:
        """Whether what was handed in now is a submission that is known in a few letters."""
        try:
            return submission == self._handed_in(student, assignment)
        except OSError:  # what may not be read now is not what was
            return False

    def asked_otherwise(self, student: str, assignment: str) -> bool:
        """Whether it is known that a grade's evidence is of something else than is asked now."""
        then = self.then(student, assignment)
        return then is not None and then.plans != self.of_assignment(assignment).plans

    def _handed_in(self, student: str, assignment: str) -> str:
        return fingerprint_submission(self.course.submitted / student / assignment)


def only_judging(changed: frozenset[str]) -> bool:
    """Whether it is enough to judge the evidence again."""
    return bool(changed) and changed <= JUDGED


def told(changed: frozenset[str]) -> str:
    """What has changed, in words."""
    *others, last = (words for name, words in WORDS.items() if name in changed)
    return f"{', '.join(others)} and {last}" if others else last
