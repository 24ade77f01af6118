"""Choose the cause of a wrong answer among its findings; the rest may follow from it."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from autograder.judge.verdict import Finding

NOT_BY_HAND: Final = ("no-shard-map", "outside-the-body", "makes-no-difference")
"""What is found where a program leaves to the compiler what it was to do by hand."""

NOT_COUNTED: Final = "not-counted-yet"

ORDER: Final = ("values", "layout")
"""What has to be right before what costs is looked at."""

UNEXPLAINED: Final = ("values", "not-finite")
"""Diagnoses of wrong values that name no cause: a collective that is missing may well be it."""

OF_SHAPES: Final = ("shape", "reshaped", "copies-side-by-side", "joined-elsewhere")
"""Diagnoses that say that a result has another shape."""

MISSING: Final = ("no ", "too-seldom")
"""How the names of diagnoses begin that say that a collective is missing."""


def state_of(finding: Finding) -> str:
    """How one requirement stands: a state of `MARKS`."""
    if finding.met:
        return "right"
    if finding.diagnosis == "unanswered":
        return "unanswered"
    return "partly" if finding.credit else "wrong"


def problems_of(findings: Sequence[Finding]) -> list[Finding]:
    """What is wrong with one answer, causes before what may follow from them, each once."""
    wrong = [f for f in findings if state_of(f) in ("wrong", "partly")]
    found = [f for f in wrong if f.diagnosis != NOT_COUNTED]
    if {"values", "layout"} <= {f.about for f in found if f.diagnosis in OF_SHAPES}:
        # that the shape is wrong is said of the values, and once is enough
        found = [f for f in found if (f.about, f.diagnosis) != ("layout", "shape")]
    unexplained = any(f.about == "values" and f.diagnosis in UNEXPLAINED for f in found)
    causes = sorted(found, key=partial(_rank, unexplained))
    alike = {(f.cell, f.diagnosis, f.difference): f for f in reversed(causes)}
    return [f for f in causes if any(f is kept for kept in alike.values())]


def _rank(unexplained: bool, finding: Finding) -> int:
    missing = finding.about == "collectives" and finding.diagnosis.startswith(MISSING)
    if finding.diagnosis in NOT_BY_HAND or (unexplained and missing):
        return -1
    return ORDER.index(finding.about) if finding.about in ORDER else len(ORDER)
