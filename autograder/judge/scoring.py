"""Compute a score: from findings to a share of an exercise's points.

The deed that an exercise is about carries its points. A program that computes the right values and
is laid out, or communicates, as it comes has not done it; and a table of predictions is worth what
it is right about beyond what one answer for every cell would be.
"""

from collections.abc import Sequence
from typing import Final

from autograder.evidence import plain
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.requirements_on_results import Predicts, is_predicted
from autograder.judge.requirements_on_values import Computes
from autograder.judge.verdict import Finding

BESIDES: Final = 1 / 4
"""What all that an answer is not about counts, where it does more than one thing."""

Judged = tuple[Requirement, Finding]


def earned(exercise: Exercise, findings: Sequence[Finding]) -> float:
    """The share of an exercise's points that findings earn, from 0 to 1.

    Each answer counts the same, unless the exercise says otherwise.
    """
    if all(_credit(finding) == 1 for finding in findings):
        return 1.0
    judged = list(zip(exercise.requirements, findings, strict=True))
    total = 0.0
    for answer in exercise.answers:
        mine = [(r, f) for r, f in judged if r.answer == answer]
        total += exercise.weights.get(answer, 1) * _of_answer(exercise, mine)
    return total / sum(exercise.weights.get(answer, 1) for answer in exercise.answers)


def notes(exercise: Exercise, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What is to be said of how tables count, once for all those that are right in part."""
    judged = list(zip(exercise.requirements, findings, strict=True))
    said = []
    for answer in exercise.answers:
        cells = [f for r, f in judged if r.answer == answer and isinstance(r, Predicts)]
        right = sum(cell.met for cell in cells)
        if 0 < right < len(cells):
            are = "is" if right == 1 else "are"
            said.append(f"{answer}: {right} of {len(cells)} cells {are} right.")
    if not said:
        return ()
    rule = "(The same answer in every cell would earn nothing.)"
    return (" ".join([*said, rule]),)


def _of_answer(exercise: Exercise, judged: Sequence[Judged]) -> float:
    """The share of one answer that is earned."""
    cells = [(r, f) for r, f in judged if isinstance(r, Predicts)]
    if cells:
        return _of_table(cells)
    about = [f for r, f in judged if _is_about(exercise, r)]
    besides = [f for r, f in judged if not _is_about(exercise, r)]
    if not about or not besides:
        return _mean(about or besides)
    done = float(all(_credit(f) == 1 for f in about)) if exercise.together else _mean(about)
    return (1 - BESIDES) * done + BESIDES * _mean(besides)


def _is_about(exercise: Exercise, requirement: Requirement) -> bool:
    """Whether an exercise is about a requirement; where it does not say, all but values are."""
    if exercise.about:
        return isinstance(requirement, exercise.about)
    return not isinstance(requirement, Computes)


def _of_table(cells: Sequence[tuple[Predicts, Finding]]) -> float:
    """The share of a table that is earned.

    The cells with the same right answer are taken together, and each such group counts the same;
    so one answer for every cell gets one group right, and that much counts nothing.
    """
    groups: list[list[tuple[Predicts, Finding]]] = []
    for cell in cells:
        alike = (g for g in groups if is_predicted(cell[0], plain(g[0][0].right)))
        group = next(alike, None)
        if group is None:
            groups.append([cell])
        else:
            group.append(cell)
    if len(groups) == 1:
        return float(all(finding.met for _, finding in cells))
    right = sum(_mean([finding for _, finding in group]) for group in groups)
    return max(0.0, (right - 1) / (len(groups) - 1))


def _mean(findings: Sequence[Finding]) -> float:
    return sum(map(_credit, findings)) / len(findings)


def _credit(finding: Finding) -> float:
    return float(finding.met) if finding.credit is None else finding.credit
