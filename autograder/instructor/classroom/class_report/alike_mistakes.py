"""Answers that are wrong in the same rare way. How that came about, they do not say."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autograder.instructor.classroom.class_report.class_diagnoses import NO_ANSWER, exercises_of
from autograder.instructor.classroom.kept_answers import Submission, problems
from autograder.judge import Verdict

RARE: Final = 0.05
"""A mistake is rare that at most this share of the class makes, and two of them at least may."""

FEW: Final = 20
"""In a smaller class two alike are no wonder: there, they have to be alike in two exercises."""

Mistake = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Alike:
    """Some submissions, and the exercises that they have wrong in the same rare way.

    Attributes:
        students: whose they are, in order.
        exercises: which.
        same_code: those of the exercises in which the code is the same, but for blanks.
    """

    students: tuple[str, ...]
    exercises: tuple[str, ...]
    same_code: tuple[str, ...]


def alike_in_mistakes(submissions: Sequence[Submission]) -> list[Alike]:
    """Those who made the same rare mistakes, whoever shares the most exercises first."""
    most = max(2, int(RARE * len(submissions)))
    shared: dict[tuple[str, ...], list[str]] = defaultdict(list)
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in exercises_of(submissions):
        groups: dict[Mistake, list[Submission]] = defaultdict(list)
        for submission in submissions:
            mistake = _mistake(submission.verdicts.get(name))
            if mistake:
                groups[mistake].append(submission)
        for group in groups.values():
            if 2 <= len(group) <= most:
                students = tuple(s.row.student for s in group)
                shared[students].append(name)
                codes = {"".join(s.code(name).split()) for s in group}
                same[students] += [name] * (len(codes) == 1 and "" not in codes)
    fewest = 2 if len(submissions) < FEW else 1
    found = [
        Alike(who, tuple(names), tuple(same[who]))
        for who, names in shared.items()
        if len(names) >= fewest
    ]
    return sorted(found, key=lambda a: (-len(a.exercises), -len(a.same_code), a.students))


def _mistake(verdict: Verdict | None) -> Mistake:
    """All that was found wrong with an answer, to the letter; empty where nothing was."""
    if verdict is None or verdict.state not in ("wrong", "partly"):
        return ()
    wrong = [*problems(verdict)]
    if any(finding.diagnosis in NO_ANSWER for finding in wrong):
        return ()
    return tuple((f.answer, f.cell, f.about, f.diagnosis, f.came, f.difference) for f in wrong)
