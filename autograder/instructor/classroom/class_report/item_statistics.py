"""What an exercise says of who answers it: whether it goes with the rest of the score."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from autograder.instructor.classroom.kept_answers import Submission

FEWEST: Final = 10
"""From how many submissions on a correlation is said at all: with fewer, chance alone makes it."""

HARDLY: Final = 0.2
"""Below this, an exercise says little of the rest."""


def item_rest(name: str, submissions: Sequence[Submission]) -> float | None:
    """The correlation of an exercise's score with the sum of all other scores, without penalties.

    Returns:
        From -1 to 1; None where there are too few submissions, or where all have the same score in
        the exercise or in the rest.
    """
    pairs = [
        (mark.score, sum(m.score for n, m in s.row.marks.items() if n != name))
        for s in submissions
        for mark in [s.row.marks.get(name)]
        if mark is not None
    ]
    if len(pairs) < FEWEST:
        return None
    item, rest = np.array(pairs).T
    if np.ptp(item) < 1e-9 or np.ptp(rest) < 1e-9:
        return None
    return float(np.corrcoef(item, rest)[0, 1])


def too_few_for_some(names: Sequence[str], submissions: Sequence[Submission]) -> str:
    """That there are exercises of which no correlation is said, in a sentence; empty if not."""
    if all(_count(name, submissions) >= FEWEST for name in names):
        return ""
    return (
        f"How an exercise goes with the rest of the score is said from {FEWEST} graded submissions "
        f"on."
    )


def item_rest_in_words(name: str, submissions: Sequence[Submission]) -> str:
    """That correlation with what it means, in a sentence; nothing, where there are too few."""
    if _count(name, submissions) < FEWEST:
        return ""
    found = item_rest(name, submissions)
    if found is None:
        return "How it goes with the rest of the score cannot be said: all have the same score."
    meaning = "who has it right tends to do well in the rest, too"
    if found < 0:
        meaning = (
            "who has it right tends to do worse in the rest; is there something in its text, or in "
            "what it asks, that misleads those who know more?"
        )
    elif found < HARDLY:
        meaning = "it says little of the rest"
    return f"Correlation with the rest of the score: {found:.2f} ({meaning})."


def _count(name: str, submissions: Sequence[Submission]) -> int:
    """How many submissions have an exercise graded."""
    return sum(name in submission.row.marks for submission in submissions)
