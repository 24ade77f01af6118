"""What counts in a student's total: exemptions, dropped scores, weights and the best N.

The rules are in `grading/class.toml`. nbgrader's scores stay as they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from autograder.instructor.classroom.submission_states import NOT_BEST, StateRow
from autograder.instructor.course import EXEMPT, ClassRules
from autograder.instructor.pipeline import State


def mark_left_out(rules: ClassRules, rows: Iterable[StateRow]) -> list[StateRow]:
    """Return the rows, and set `left_out` in those that do not count in their student's total.

    Args:
        rules: the rules of the class.
        rows: all rows of each student, because the best N are chosen among them.
    """
    rows = [_exclude(rules, row) for row in rows]
    if rules.best is None:
        return rows
    counted: dict[str, list[StateRow]] = {}
    for row in rows:
        if row.is_counted:
            counted.setdefault(row.student, []).append(row)
    best = {
        (row.student, row.assignment)
        for of_student in counted.values()
        for row in sorted(of_student, key=lambda row: (-row.share, row.assignment))[: rules.best]
    }
    reason = f"{NOT_BEST} {rules.best}"
    return [
        replace(row, left_out=reason)
        if row.is_counted and (row.student, row.assignment) not in best
        else row
        for row in rows
    ]


def _exclude(rules: ClassRules, row: StateRow) -> StateRow:
    """Return a row as exemptions, dropped scores and weights have it."""
    reason = rules.exclusion(row.student, row.assignment)
    if not reason and rules.weights is not None and not rules.weights.get(row.assignment):
        reason = "weight 0"
    if reason == EXEMPT and not row.is_handed_in:
        return replace(row, state=State.EXEMPT, left_out=reason)
    return replace(row, left_out=reason) if reason else row


def compute_percentage(rules: ClassRules, rows: Sequence[StateRow]) -> float | None:
    """Compute a student's total in percent; None if nothing counts.

    Each assignment weighs what `[weights]` says, or else as much as its points.
    """
    counted = [row for row in rows if row.is_counted and row.points]
    weights = [row.points if rules.weights is None else rules.weights[row.assignment]
               for row in counted]  # fmt: skip
    if not sum(weights):
        return None
    earned = sum(weight * row.share for weight, row in zip(weights, counted, strict=True))
    return round(100 * earned / sum(weights), 2)
