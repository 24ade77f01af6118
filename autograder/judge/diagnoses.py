"""Diagnoses that several modules use: their names, and what can be asked about a diagnosis.

A diagnosis names a mistake in a word or two. Exercises look up their lessons by it, banks of known
answers list it, and a class's records keep it. A diagnosis that only one place gives, and that no
other code asks about, is written there, beside its sentence. Those that exporting, capturing
or an error of JAX gives have their names in `autograder.artifacts`, `autograder.evidence` and
`autograder.explanations`.
"""

from collections.abc import Sequence
from typing import Final

from autograder import artifacts
from autograder.evidence import DID_NOT_FINISH
from autograder.explanations import BLOCKS_DO_NOT_FIT, NOT_GATHERED

UNANSWERED: Final = "unanswered"
NO_EVIDENCE: Final = "no-evidence"
"""The check did not run."""

KERNEL_DIED: Final = "kernel-died"
OTHER_EXERCISE: Final = "other-exercise"
"""The evidence belongs to another exercise."""

MALFORMED: Final = artifacts.MALFORMED
"""The evidence is not what was planned, so it may be forged."""

NOT_COUNTED: Final = "not-counted-yet"
"""The requirement is met, but counts only once another one is met."""

WRONG_VALUES: Final = "values"
WRONG_SHAPE: Final = "shape"
WRONG_DTYPE: Final = "dtype"
NOT_A_NUMBER: Final = "not-a-number"
"""The result has NaNs in it."""

NOT_FINITE: Final = "not-finite"
"""The result has infinities in it."""

MISPLACED: Final = "misplaced"
COPIES_DISAGREE: Final = "copies-disagree"
"""Devices that should hold the same numbers hold different ones."""

IGNORES_INPUTS: Final = "ignores-inputs"
RESHAPED: Final = "reshaped"
"""The shape is wrong, and the numbers are right."""

NOT_JOINED: Final = "not-joined"
TOO_MANY_RESULTS: Final = "too-many-results"
IN_A_CONTAINER: Final = artifacts.IN_A_CONTAINER

NOTHING_MOVED: Final = "nothing-moved"
CONSTRAINT_MOVES_NOTHING: Final = "constraint-moves-nothing"

UNKNOWN_TIMES: Final = "unknown-times"
"""A collective is in a loop whose length is known only when it runs."""

WAITS_FOR_DATA: Final = "waits-for-data"
"""A step takes too long, because of its communication."""

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
    return diagnosis in (WRONG_VALUES, NOT_A_NUMBER, NOT_FINITE)


def is_without_evidence(diagnosis: str) -> bool:
    """Check whether nothing reached the judge that a hint could help with."""
    return diagnosis in (NO_EVIDENCE, KERNEL_DIED, OTHER_EXERCISE, DID_NOT_FINISH)


def list_generalisations(diagnosis: str) -> tuple[str, ...]:
    """Return a diagnosis and the more general ones: `all-reduce over x`, then `all-reduce`."""
    if diagnosis in (RESHAPED, NOT_JOINED, TOO_MANY_RESULTS):
        return diagnosis, WRONG_SHAPE  # with the right numbers
    if diagnosis == NOT_A_NUMBER:
        return diagnosis, NOT_FINITE
    if diagnosis == NOT_GATHERED:
        return diagnosis, BLOCKS_DO_NOT_FIT
    if diagnosis == GATHERED_BEFORE_BODY:
        return diagnosis, name_missing_collective("all-gather")
    if diagnosis == OTHER_BLOCKS_ENTER:
        return diagnosis, ADDED_BY_COMPILER
    if diagnosis == CONSTRAINT_MOVES_NOTHING:
        return diagnosis, NOTHING_MOVED
    kind, separator, _ = diagnosis.partition(_OVER)
    return (diagnosis, kind) if separator else (diagnosis,)
