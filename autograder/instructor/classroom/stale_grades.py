"""Grades that rest on something that has changed since, though nothing new was handed in."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.judging_again import (
    Graded,
    evidence_of,
    judge_again,
)
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.classroom.what_changed import Bases, only_judging, told
from autograder.instructor.course import Course, cannot_be_taken
from autograder.instructor.pipeline import UnreadableRecordError

POINTS: Final = frozenset({"points"})
"""Where no more than these has changed, the same judge would say the same of the same evidence."""


@dataclass(frozen=True)
class Stale:
    """A grade that is to be made anew.

    Attributes:
        changed: the names of what has changed of what it rests on.
        evidence: what to judge, where that is enough; None where it is run again. Where only
            points have changed, it has no cases, and nothing is judged.
    """

    student: str
    assignment: str
    changed: frozenset[str]
    evidence: Graded | None


def stale_grades(course: Course, bases: Bases, choice: Choice = EVERYTHING) -> Iterator[Stale]:
    """Those of submissions that have stayed the same."""
    for student, assignment in choice.of(course.submissions()):
        if cannot_be_taken(course.submitted / student / assignment, assignment):
            continue
        changed = bases.changed(student, assignment)
        if changed and "submission" not in changed:
            evidence = None
            if only_judging(changed):
                with suppress(UnreadableRecordError):
                    evidence = evidence_of(course, student, assignment, changed != POINTS)
            yield Stale(student, assignment, changed, evidence)


def say_why(console: Console, stale: Sequence[Stale]) -> None:
    """Say what becomes of grades that somebody may have seen already, and why."""
    alike: dict[tuple[str, bool, frozenset[str]], int] = {}
    for one in stale:
        key = one.assignment, bool(one.evidence), one.changed
        alike[key] = alike.get(key, 0) + 1
    for (assignment, is_judged, changed), count in alike.items():
        again = "judged again from the evidence that was kept" if is_judged else "run again"
        if changed == POINTS:
            again = "given the new points, by the verdicts that were kept"
        console.print(
            f"Since {assignment} was graded, {told(changed)}. {count} of its submissions "
            f"{'is' if count == 1 else 'are'} {again}.",
            highlight=False,
        )


def judge_stale(
    course: Course, bases: Bases, stale: Sequence[Stale], refusal: Callable[[str], str]
) -> Iterator[Failure]:
    """Judge those again for which it is enough; whatever could not be.

    Args:
        course: where.
        bases: what its grades rest on.
        stale: the grades.
        refusal: why nothing of an assignment is to be graded here; empty where all is well.
    """
    judged = [one for one in stale if one.evidence]
    refused = {one.assignment: refusal(one.assignment) for one in judged}
    for one in judged:
        if refused[one.assignment]:
            yield Failure(one.student, one.assignment, refused[one.assignment], theirs=False)
    graded = [one.evidence for one in judged if one.evidence and not refused[one.assignment]]
    for again in judge_again(course, bases, graded, all_pages=True):
        if again.why:
            yield Failure(again.graded.student, again.graded.assignment, again.why, theirs=False)
