"""Diagnoses that several modules use: their names, and what can be asked about a diagnosis.

A diagnosis names a mistake in a word or two. Exercises look up their lessons by it, banks of known
answers list it, and a class's records keep it. A diagnosis that only one place gives, and that no
code asks about, is written there, beside its sentence.
"""

from collections.abc import Sequence
from typing import Final

UNANSWERED: Final = "unanswered"

NOT_COUNTED: Final = "not-counted-yet"
"""The requirement is met, but counts only once another one is met."""

NO_SHARD_MAP: Final = "no-shard-map"
OUTSIDE_THE_BODY: Final = "outside-the-body"
MAKES_NO_DIFFERENCE: Final = "makes-no-difference"
ADDED_BY_COMPILER: Final = "added-by-the-compiler"
OTHER_BLOCKS_ENTER: Final = "other-blocks-enter"
"""The compiler adds collectives, because in_specs give a body blocks that its device lacks."""

GATHERED_BEFORE_BODY: Final = "gathered-before-the-body"
TOO_SELDOM: Final = "too-seldom"

OTHER_FORM: Final = "other-form"
"""A cell of a table holds a value of another type."""

OTHER_RESULT: Final = "other-result"
"""A Python function's results are wrong, for no reason that was recognised."""

OTHER_FACTORS: Final = "other-factors"
"""A Python function's result is a sum of the right terms, with wrong factors."""

_NO: Final = "no "
_EXPLICIT: Final = "explicit "
_OVER: Final = " over "


def name_missing_collective(kind: str) -> str:
    """Return `no all-reduce`: the program has to request this kind, and does not."""
    return f"{_NO}{kind}"


def name_explicit_collective(kind: str) -> str:
    """Return `explicit all-reduce`: the program requests this kind, and must not."""
    return f"{_EXPLICIT}{kind}"


def name_compiled_collective(kind: str, axes: Sequence[str]) -> str:
    """Return `all-reduce over x`: the compiled program has this collective, and must not."""
    return f"{kind}{_OVER}{', '.join(axes) or 'parts of axes'}"


def is_missing_collective(diagnosis: str) -> bool:
    """Check whether the program requests no collective of a kind, or too few."""
    return diagnosis.startswith(_NO) or diagnosis in (TOO_SELDOM, GATHERED_BEFORE_BODY)


def is_explicit_collective(diagnosis: str) -> bool:
    """Check whether the program requests a collective that it must not request."""
    return diagnosis.startswith(_EXPLICIT)


def is_left_to_compiler(diagnosis: str) -> bool:
    """Check whether the program leaves to the compiler what it should do explicitly."""
    return diagnosis in (NO_SHARD_MAP, OUTSIDE_THE_BODY, MAKES_NO_DIFFERENCE)


def is_of_values_without_cause(diagnosis: str) -> bool:
    """Check whether values are wrong for an unknown cause, such as a missing collective."""
    return diagnosis in ("values", "not-a-number", "not-finite")


def is_without_evidence(diagnosis: str) -> bool:
    """Check whether nothing reached the judge that a hint could help with."""
    return diagnosis in ("no-evidence", "kernel-died", "other-exercise", "did-not-finish")


def list_generalisations(diagnosis: str) -> tuple[str, ...]:
    """Return a diagnosis and the more general ones: `all-reduce over x`, then `all-reduce`."""
    if diagnosis in ("reshaped", "not-joined", "too-many-results"):
        return diagnosis, "shape"  # with the right numbers
    if diagnosis == "not-a-number":
        return diagnosis, "not-finite"
    if diagnosis == "not-gathered":
        return diagnosis, "blocks-do-not-fit"
    if diagnosis == GATHERED_BEFORE_BODY:
        return diagnosis, name_missing_collective("all-gather")
    if diagnosis == OTHER_BLOCKS_ENTER:
        return diagnosis, ADDED_BY_COMPILER
    if diagnosis == "constraint-moves-nothing":
        return diagnosis, "nothing-moved"
    kind, over, _ = diagnosis.partition(_OVER)
    return (diagnosis, kind) if over else (diagnosis,)
