"""Capture the results of a plain function, and tables."""

import ast
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import jax
import numpy as np

from autograder.errors import TheirError, their_error, theirs
from autograder.evidence.data import NotCaptured, Piece, Struct, Unanswered, Value
from autograder.evidence.exported_functions import is_stub
from autograder.evidence.time_limits import DoesNotEndError, does_not_end, limited
from autograder.evidence.unsuitable_answers import a_type, not_a_function
from autograder.layouts import entries


class ResultsPlan(Struct, frozen=True, tag="results"):
    """A function is called in the kernel, and its results become a `Value`.

    Attributes:
        written: the cases, a tuple of arguments for each call, as Python writes them: JSON has no
            tuples, and a function may tell them from lists.
    """

    written: str

    @classmethod
    def of(cls, cases: Any) -> "ResultsPlan":
        """The plan for some cases.

        Raises:
            TypeError: they hold what is not plain data.
        """
        plan = cls(repr(list(cases)))
        try:
            same = plan.cases == list(cases)
        except (ValueError, SyntaxError):
            same = False
        if not same:
            raise TypeError(
                "A case is made of numbers, strings, None, and tuples, lists and dictionaries of "
                f"them, and nothing else; these are not: {plan.written[:200]}"
            )
        return plan

    @property
    def cases(self) -> list[tuple[Any, ...]]:
        """The cases, made anew, since who is called may change them."""
        cases: list[tuple[Any, ...]] = ast.literal_eval(self.written)
        return cases

    def capture(self, name: str, answer: object) -> Piece:
        """What a function returns in each case, or what it raises; or why it cannot be called."""
        if not callable(answer):
            return not_a_function(answer)
        results = []
        for case in self.cases:
            call = f"{name}({_in_short(', '.join(map(repr, case)))})"
            try:
                results.append(_call(answer, case, call))
            except DoesNotEndError as error:
                return does_not_end(error, answer, f"{call} did not come to an end")
        if all(result.get("came", 0) is ... for result in results):
            return Unanswered()
        return Value([{key: plain(value) for key, value in result.items()} for result in results])


class TablePlan(Struct, frozen=True, tag="table"):
    """A dictionary of predictions becomes a `Value`."""

    def capture(self, name: str, answer: object) -> Piece:
        """A table of predictions; or why it is none."""
        if not isinstance(answer, dict):
            return NotCaptured(
                "not-a-table",
                f"Got {a_type(answer)}; expected the table, which is a dictionary.",
            )
        if all(value is ... for value in answer.values()):
            return Unanswered()
        return Value({str(plain(key)): plain(value) for key, value in answer.items()})


def _call(function: Callable[..., object], case: tuple[Any, ...], call: str) -> dict[str, Any]:
    def came() -> object:
        with theirs():
            return function(*case)

    try:
        return {"came": limited(came, f"{call} has not returned yet")}
    except TheirError as raised:
        if is_stub(raised.error):
            return {"came": ...}
        return {"error": their_error(raised.error, function)}


def _in_short(arguments: str) -> str:
    """The arguments of a call, or both ends of them."""
    return arguments if len(arguments) <= 100 else f"{arguments[:60]} … {arguments[-30:]}"


MAX_INTEGER_BITS: Final = 10_000
"""Python refuses to write much longer numbers."""


def plain(value: object, depth: int = 4) -> Any:
    """Numbers, strings, booleans and lists of them; anything else as its type's name.

    A partition spec is a list of its entries, and a sharding is its spec.
    """
    if isinstance(value, jax.NamedSharding):
        value = value.spec
    if isinstance(value, jax.P):
        value = entries(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = _numbers(value)
    match value:
        case None | bool():
            return value
        case int() if abs(value) < 1 << 63:
            return int(value)
        case int() if value.bit_length() < MAX_INTEGER_BITS:
            return repr(value)
        case Fraction():
            return plain(float(value))
        case float():
            return float(value) if math.isfinite(value) else repr(value)
        case str():
            return str(value).encode(errors="replace").decode()
        case set() | frozenset() if depth:
            return _sorted([plain(item, depth - 1) for item in value])
        case list() | tuple() | range() if depth:
            return [plain(item, depth - 1) for item in value]
    return {"of type": type(value).__name__}


def _numbers(array: Any) -> object:
    """The numbers of an array; the array itself where it has none to show.

    Random keys have none, deleted arrays have none any more, and those of a tracer are yet to come.
    """
    try:
        with theirs():
            return np.asarray(array).tolist()
    except TheirError:
        return array


def _sorted(items: list[Any]) -> list[Any]:
    """In order, numbers as numbers; by how they are written where they are of several kinds."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)
