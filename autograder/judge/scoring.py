"""Compute a score: the share of an exercise's points that its findings earn.

Most points are for the requirements that an exercise is about. A program that computes the right
values, but is laid out or communicates as the compiler chose, earns a quarter. A table earns what
it gets right beyond what one answer for every cell would get right.
"""

from collections.abc import Sequence
from typing import Final

from autograder.evidence import plain
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.requirements_on_results import Predicts, is_predicted
from autograder.judge.requirements_on_values import Computes
from autograder.judge.verdict import Finding

SHARE_OF_THE_REST: Final = 1 / 4
"""The share of an answer's points for the requirements that the exercise is not about."""

Judged = tuple[Requirement, Finding]


def compute_share(exercise: Exercise, findings: Sequence[Finding]) -> float:
    """Return the share of an exercise's points that findings earn, from 0 to 1.

    Answers count equally, unless the exercise's `weights` says otherwise.
    """
    if all(_credit(finding) == 1 for finding in findings):
        return 1.0
    judged = list(zip(exercise.requirements, findings, strict=True))
    total = 0.0
    for answer in exercise.answers:
        of_answer = [(r, f) for r, f in judged if r.answer == answer]
        total += exercise.weights.get(answer, 1) * _share_of_answer(exercise, of_answer)
    return total / sum(exercise.weights.get(answer, 1) for answer in exercise.answers)


def explain_shares(exercise: Exercise, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Explain, with its numbers, the share that each table earns which is right in part."""
    judged = list(zip(exercise.requirements, findings, strict=True))
    explained = []
    for answer in exercise.answers:
        cells = [(r, f) for r, f in judged if r.answer == answer and isinstance(r, Predicts)]
        right = sum(finding.met for _, finding in cells)
        if 0 < right < len(cells):
            explained.append(f"{answer}: {_explain_table(cells, right)}")
    return tuple(explained)


def _explain_table(cells: Sequence[tuple[Predicts, Finding]], right: int) -> str:
    groups = _groups_of_cells(cells)
    share = f"{_share_of_table(cells):.0%}" if _share_of_table(cells) else "nothing"
    counted = f"{right} of {len(cells)} cells {'is' if right == 1 else 'are'} right"
    if len(groups) == 1:
        return f"{counted}, which earns {share}: all of them have to be."
    right_groups = f"{sum(map(_mean, groups)):.3g}"
    return (
        f"{counted}, which earns {share}. The cells form {len(groups)} groups, each with the same "
        f"right answer, and {right_groups} of these groups are right. One answer for every cell "
        f"would get 1 group right, so ({right_groups} - 1) / ({len(groups)} - 1) counts."
    )


def _share_of_answer(exercise: Exercise, judged: Sequence[Judged]) -> float:
    """Return the share of one answer's points that is earned."""
    cells = [(r, f) for r, f in judged if isinstance(r, Predicts)]
    if cells:
        return _share_of_table(cells)
    subject = [f for r, f in judged if _is_about(exercise, r)]
    rest = [f for r, f in judged if not _is_about(exercise, r)]
    if not subject or not rest:
        return _mean(subject or rest)
    earned_by_subject = (
        float(all(_credit(f) == 1 for f in subject)) if exercise.together else _mean(subject)
    )
    return (1 - SHARE_OF_THE_REST) * earned_by_subject + SHARE_OF_THE_REST * _mean(rest)


def _is_about(exercise: Exercise, requirement: Requirement) -> bool:
    """Check whether an exercise is about a requirement; by default it is, unless of values."""
    if exercise.about:
        return isinstance(requirement, exercise.about)
    return not isinstance(requirement, Computes)


def _share_of_table(cells: Sequence[tuple[Predicts, Finding]]) -> float:
    """Return the share of a table's points that is earned.

    Cells with the same right answer form a group, and groups count equally. One answer for every
    cell gets one group right, so the first right group earns nothing.
    """
    groups = _groups_of_cells(cells)
    if len(groups) == 1:
        return float(all(finding.met for _, finding in cells))
    return max(0.0, (sum(map(_mean, groups)) - 1) / (len(groups) - 1))


def _groups_of_cells(cells: Sequence[tuple[Predicts, Finding]]) -> list[list[Finding]]:
    """Group the findings of the cells that have the same right answer."""
    groups: list[tuple[Predicts, list[Finding]]] = []
    for requirement, finding in cells:
        same = (fs for first, fs in groups if is_predicted(requirement, plain(first.right)))
        group = next(same, None)
        if group is None:
            groups.append((requirement, [finding]))
        else:
            group.append(finding)
    return [findings for _, findings in groups]


def _mean(findings: Sequence[Finding]) -> float:
    return sum(map(_credit, findings)) / len(findings)


def _credit(finding: Finding) -> float:
    return float(finding.met) if finding.credit is None else finding.credit
