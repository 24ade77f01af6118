"""Compute a score: the share of an exercise's points that its findings earn.

Most points are for the requirements that an exercise is about. A program that computes the right
values, but is laid out or communicates as the compiler chose, earns a quarter. A table earns what
it gets right beyond what one answer for every cell would get right, where there could be one.
"""

from collections.abc import Sequence
from numbers import Number
from typing import Final, NamedTuple

from humanize import natural_list

from autograder.evidence import plain
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.requirements_on_results import Predicts, is_predicted
from autograder.judge.verdict import Finding
from autograder.judge.wording import in_percent

SHARE_OF_THE_REST: Final = 1 / 4
"""The share of an answer's points for the requirements that the exercise is not about."""

Judged = tuple[Requirement, Finding]


def compute_share(exercise: Exercise, findings: Sequence[Finding]) -> float:
    """Return the share of an exercise's points that findings earn, from 0 to 1.

    Answers count equally, unless the exercise's `weights` says otherwise.
    """
    if all(_credit(finding) == 1 for finding in findings):
        return 1.0
    by_answer = _by_answer(exercise, findings)
    weights = {answer: exercise.weights.get(answer, 1) for answer in by_answer}
    total = sum(
        weights[answer] * _share_of_answer(exercise, judged) for answer, judged in by_answer.items()
    )
    return total / sum(weights.values())


def explain_share(exercise: Exercise, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Explain a score with its numbers: one sentence, then details; nothing if it follows.

    It follows from the verdict if there is nothing or everything to earn, or if answers that count
    equally are right or wrong as a whole.
    """
    by_answer = _by_answer(exercise, findings)
    total = compute_share(exercise, findings)
    reasons = {a: _explain_answer(exercise, judged) for a, judged in by_answer.items()}
    weights = {answer: exercise.weights.get(answer, 1) for answer in by_answer}
    explains_itself = not any(reasons.values()) and len({*weights.values()}) == 1
    groups = [_explain_groups(a, judged) for a, judged in by_answer.items() if reasons[a]]
    counting = tuple(filter(None, groups))
    if total in (0, 1) or explains_itself:
        nothing = (f"{answer} earns nothing: {why}." for answer, why in reasons.items() if why)
        return (*nothing, *counting)
    if len(by_answer) == 1:
        (answer, why) = next(iter(reasons.items()))
        return (f"{answer} earns {in_percent(total)}: {why}.", *counting)
    shares = {a: _share_of_answer(exercise, judged) for a, judged in by_answer.items()}
    lost = {answer for answer, share in shares.items() if reasons[answer] and not share}
    parts = [
        f"{answer} ({in_percent(share)}"
        + f": {reasons[answer]}" * (answer in lost)
        + f", counted {weights[answer]} times" * (weights[answer] != 1)
        + ")"
        for answer, share in shares.items()
    ]
    return (
        f"The score of {in_percent(total)} is the mean of {natural_list(parts)}.",
        *(f"{answer}: {why}." for answer, why in reasons.items() if why and answer not in lost),
        *counting,
    )


def _by_answer(exercise: Exercise, findings: Sequence[Finding]) -> dict[str, list[Judged]]:
    judged = list(zip(exercise.requirements, findings, strict=True))
    return {
        answer: [(r, f) for r, f in judged if r.answer == answer] for answer in exercise.answers
    }


def _explain_answer(exercise: Exercise, judged: Sequence[Judged]) -> str:
    """Explain the share of an answer that is right in part; empty if it explains itself."""
    cells = [(r, f) for r, f in judged if isinstance(r, Predicts)]
    if cells:
        return _explain_table(cells)
    share = _share_of_answer(exercise, judged)
    subject, rest = _subject_and_rest(exercise, judged)
    if exercise.together and not share and any(map(_credit, subject)):
        return f"{_name(subject)} count only together" * (len(_abouts(subject)) > 1)
    if not 0 < share < 1:
        return ""
    if not subject or not rest:
        met = sum(finding.met for _, finding in judged)
        partial = any(finding.credit for _, finding in judged)
        return f"{met} of {len(judged)} requirements are met" * (len(judged) > 1 and not partial)
    rest_share = SHARE_OF_THE_REST * _mean(rest)
    lost_together = exercise.together and share == rest_share and any(map(_credit, subject))
    return (
        f"{100 * (share - rest_share):.0f} of {100 * (1 - SHARE_OF_THE_REST):.0f}% for "
        f"{_name(subject)}{' (earned only together)' * lost_together}, and "
        f"{100 * rest_share:.0f} of {100 * SHARE_OF_THE_REST:.0f}% for {_name(rest)}"
    )


def _name(findings: Sequence[Finding]) -> str:
    return natural_list(_abouts(findings))


def _abouts(findings: Sequence[Finding]) -> list[str]:
    return [*dict.fromkeys(finding.about for finding in findings)]


def _explain_table(cells: Sequence[tuple[Predicts, Finding]]) -> str:
    right = sum(finding.met for _, finding in cells)
    if right in (0, len(cells)):
        return ""
    counted = f"{right} of {len(cells)} entries {'is' if right == 1 else 'are'} right"
    groups = _groups_of_cells(cells)
    if len(groups) == 1:
        return f"{counted}, and all of them have to be"
    if not _count_guessed_groups(groups):
        return counted
    if not _share_of_table(cells):
        return f"{counted}; the same answer in each entry would get as many"
    have = sum(_mean(group.findings) for group in groups)
    return (
        f"{counted}, which makes {_two_decimals(have)} of {len(groups)} groups with the same right "
        f"answer; one group is deducted, so {_two_decimals(have - 1)} of {len(groups) - 1} count"
    )


def _explain_groups(answer: str, judged: Sequence[Judged]) -> str:
    """Explain how many entries of a table one answer for all of them would get right."""
    groups = _groups_of_cells([(r, f) for r, f in judged if isinstance(r, Predicts)])
    if len(groups) < 2 or not _count_guessed_groups(groups):
        return ""
    have = sum(_mean(group.findings) for group in groups)
    return (
        f"Entries of {answer} with the same right answer form a group, and groups count equally. "
        f"You have {_two_decimals(have)} of {len(groups)} groups. One answer for all entries would "
        f"get one, so it is deducted: {_two_decimals(max(0, have - 1))} of {len(groups) - 1} left."
    )


def _two_decimals(number: float) -> str:
    """Return `1.33`, and `2` rather than `2.00`."""
    return f"{round(number, 2):g}"


def _share_of_answer(exercise: Exercise, judged: Sequence[Judged]) -> float:
    """Return the share of one answer's points that is earned."""
    cells = [(r, f) for r, f in judged if isinstance(r, Predicts)]
    if cells:
        return _share_of_table(cells)
    subject, rest = _subject_and_rest(exercise, judged)
    if not subject:
        return _mean(rest)
    misses_the_point = any(_credit(f) < 1 and not f.is_slight for f in subject)
    earned_by_subject = 0.0 if exercise.together and misses_the_point else _mean(subject)
    if not rest:
        return earned_by_subject
    return (1 - SHARE_OF_THE_REST) * earned_by_subject + SHARE_OF_THE_REST * _mean(rest)


def _subject_and_rest(
    exercise: Exercise, judged: Sequence[Judged]
) -> tuple[list[Finding], list[Finding]]:
    """Split an answer's findings into those that the exercise is about, and the rest."""
    subject = [f for r, f in judged if _is_about(exercise, r)]
    return subject, [f for r, f in judged if not _is_about(exercise, r)]


def _is_about(exercise: Exercise, requirement: Requirement) -> bool:
    """Check whether an exercise is about a requirement; by default it is, unless of values."""
    if exercise.about:
        return isinstance(requirement, exercise.about)
    return requirement.is_usual_subject


class _Group(NamedTuple):
    """The cells of a table with the same right answer: that answer, and their findings."""

    right: object
    findings: list[Finding]


def _share_of_table(cells: Sequence[tuple[Predicts, Finding]]) -> float:
    """Return the share of a table's points that is earned.

    Cells with the same right answer form a group, and groups count equally. One answer for every
    cell may get one group right, so the first right group then earns nothing.
    """
    groups = _groups_of_cells(cells)
    if len(groups) == 1:
        return float(all(finding.met for _, finding in cells))
    guessed = _count_guessed_groups(groups)
    right = sum(_mean(group.findings) for group in groups)
    return max(0.0, (right - guessed) / (len(groups) - guessed))


def _count_guessed_groups(groups: Sequence[_Group]) -> int:
    """Count the groups that one answer for every cell gets right.

    A table that asks for a name and a number has no such answer.
    """
    kinds = [Number if isinstance(group.right, Number) else type(group.right) for group in groups]
    return int(len({*kinds}) < len(kinds))


def _groups_of_cells(cells: Sequence[tuple[Predicts, Finding]]) -> list[_Group]:
    """Group the findings of the cells that have the same right answer."""
    groups: list[_Group] = []
    for requirement, finding in cells:
        same = (group for group in groups if is_predicted(requirement, group.right))
        group = next(same, None)
        if group is None:
            groups.append(_Group(plain(requirement.right), [finding]))
        else:
            group.findings.append(finding)
    return groups


def _mean(findings: Sequence[Finding]) -> float:
    return sum(map(_credit, findings)) / len(findings)


def _credit(finding: Finding) -> float:
    return float(finding.met) if finding.credit is None else finding.credit
