"""Grades that rest on something that has changed since, though nothing new was handed in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.judging_again import (
    Graded,
    UnreadableEvidenceError,
    judge_again,
    whole_evidence,
)
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.classroom.what_changed import Bases, only_judging, told
from autograder.instructor.course import Course, cannot_be_taken

POINTS: Final = frozenset({"points"})
"""Where no more than these has changed, the same judge would say the same of the same evidence."""


@dataclass(frozen=True)
class Stale:
    """A grade that is to be made anew.

    Attributes:
        changed: the names of what has changed of what it rests on.
        evidence: what to judge, where that is enough; else it is run again. Where only points
            have changed, the verdicts that were kept are with it, and nothing is judged.
    """

    student: str
    assignment: str
    changed: frozenset[str]
    evidence: tuple[Graded, ...]


def stale_grades(course: Course, bases: Bases, choice: Choice = EVERYTHING) -> Iterator[Stale]:
    """Those of submissions that have stayed the same."""
    for student, assignment in choice.of(course.submissions()):
        if cannot_be_taken(course.submitted / student / assignment, assignment):
            continue
        changed = bases.changed(student, assignment)
        if changed and "submission" not in changed:
            evidence = _evidence(course, student, assignment) if only_judging(changed) else ()
            if changed == POINTS:
                evidence = tuple(each.with_kept_verdicts() for each in evidence)
            yield Stale(student, assignment, changed, evidence)


def _evidence(course: Course, student: str, assignment: str) -> tuple[Graded, ...]:
    try:
        return whole_evidence(course, student, assignment)
    except UnreadableEvidenceError:
        return ()


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
    graded = [each for one in judged if not refused[one.assignment] for each in one.evidence]
    wrong: dict[tuple[str, str], str] = {}
    for again in judge_again(course, bases, graded, all_pages=True):
        pair = again.graded.student, again.graded.assignment
        wrong[pair] = wrong.get(pair) or again.why
    for pair, why in wrong.items():
        if why:
            yield Failure(*pair, why, theirs=False)
