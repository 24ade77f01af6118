"""What is wrong with the answers to an exercise, and how often."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autograder.instructor.classroom.kept_answers import Submission, lesson_of, problems
from autograder.instructor.classroom.submission_states import Mark
from autograder.instructor.course import printable

NO_ANSWER: Final = (
    "no-evidence", "kernel-died", "timeout", "check-failed", "too-large", "malformed",
    "other-exercise", "kills-the-judge", "no-time-left", "did-not-finish",
)  # fmt: skip
"""Diagnoses of what brought no answer to the judge: no bank has anything to say of it."""


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with several answers.

    Attributes:
        name: its short name.
        count: in how many answers it is.
        lesson: what the exercise has to say of it, or else what was said of one of the answers.
        is_specific: whether the exercise has something to say of it.
    """

    name: str
    count: int
    lesson: str
    is_specific: bool


def exercises_of(submissions: Sequence[Submission]) -> dict[str, Mark]:
    """The graded cells that anybody has, in order, each with somebody's mark."""
    return {name: mark for s in submissions for name, mark in s.row.marks.items()}


def diagnoses(name: str, submissions: Sequence[Submission]) -> list[Diagnosis]:
    """What is wrong with the answers to an exercise, the most frequent first."""
    counts: Counter[str] = Counter()
    said: dict[str, tuple[str, bool]] = {}
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        found = {p.diagnosis: p for p in reversed([*problems(verdict)])} if verdict else {}
        counts.update(found.keys())
        for diagnosis, finding in found.items():
            lesson = lesson_of(verdict, finding) if verdict else ""
            if lesson or diagnosis not in said:
                said[diagnosis] = (printable(lesson or finding.difference), bool(lesson))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Diagnosis(diagnosis, count, *said[diagnosis]) for diagnosis, count in ranked]


def unexplained(name: str, submissions: Sequence[Submission]) -> list[Submission]:
    """Wrong answers of which no exercise's own diagnosis says anything: candidates for the bank."""
    found = []
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        if verdict is None or verdict.state not in ("wrong", "partly"):
            continue
        wrong = [*problems(verdict)]
        if wrong and not any(f.diagnosis in NO_ANSWER or lesson_of(verdict, f) for f in wrong):
            found.append(submission)
    return found
