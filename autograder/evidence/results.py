"""Capture the results of functions that are called in the kernel, and tables of predictions."""

import ast
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import jax
import numpy as np

from autograder.evidence.data import (
    MAX_STRING_CHARACTERS,
    NotCaptured,
    Piece,
    Struct,
    Unanswered,
    Value,
)
from autograder.evidence.exported_functions import is_stub
from autograder.evidence.time_limits import DoesNotEndError, call_within_limit, explain_endless_call
from autograder.evidence.unsuitable_answers import describe_type, not_a_function
from shardlings.errors import TheirError, describe_error, theirs
from shardlings.layouts import spec_entries


class ResultsPlan(Struct, frozen=True, tag="results"):
    """A plan to call a function in the kernel, and capture its results as a `Value`.

    Attributes:
        written: the `repr` of the cases, a list with a tuple of arguments for each call. It is not
            JSON, because JSON has no tuples, and a function may tell tuples from lists.
    """

    written: str

    @classmethod
    def of(cls, cases: Any) -> "ResultsPlan":
        """Return the plan for a list of cases.

        Raises:
            TypeError: a case has an argument that `repr` and `literal_eval` do not preserve.
        """
        plan = cls(repr(list(cases)))
        try:
            is_plain = plan.cases == list(cases)
        except (ValueError, SyntaxError):
            is_plain = False
        if not is_plain:
            raise TypeError(
                "A case is made of numbers, strings, None, and tuples, lists and dictionaries of "
                f"them, and nothing else; these are not: {plan.written[:200]}"
            )
        return plan

    @property
    def cases(self) -> list[tuple[Any, ...]]:
        """A new copy of the cases, because the function may change its arguments."""
        cases: list[tuple[Any, ...]] = ast.literal_eval(self.written)
        return cases

    def capture(self, name: str, answer: object) -> Piece:
        """Call a function in each case, and capture what it returns or raises."""
        if not callable(answer):
            return not_a_function(answer)
        results = []
        for case in self.cases:
            call = f"{name}({_abbreviate(', '.join(map(repr, case)))})"
            try:
                results.append(_call_answer(answer, case, call))
            except DoesNotEndError as error:
                return explain_endless_call(error, answer, f"{call} did not finish")
        if all(result.get("returned", 0) is ... for result in results):
            return Unanswered()
        return Value([{key: plain(value) for key, value in result.items()} for result in results])


class TablePlan(Struct, frozen=True, tag="table"):
    """A plan to capture a dictionary of predictions as a `Value`."""

    def capture(self, name: str, answer: object) -> Piece:
        """Capture a table of predictions, or explain why the answer is not a table."""
        if not isinstance(answer, dict):
            return NotCaptured(
                "not-a-table",
                f"Got {describe_type(answer)}; expected the table, which is a dictionary.",
            )
        if all(value is ... for value in answer.values()):
            return Unanswered()
        specs = {  # a sharding in place of its spec says as much
            key: value.spec if isinstance(value, jax.NamedSharding) else value
            for key, value in answer.items()
        }
        return Value(
            {str(plain(key))[:MAX_STRING_CHARACTERS]: plain(value) for key, value in specs.items()}
        )


def _call_answer(
    function: Callable[..., object], arguments: tuple[Any, ...], call: str
) -> dict[str, Any]:
    def call_function() -> object:
        with theirs():
            return function(*arguments)

    try:
        return {"returned": call_within_limit(call_function, f"{call} has not returned yet")}
    except TheirError as raised:
        if is_stub(raised.error):
            return {"returned": ...}
        return {"error": describe_error(raised.error, function)}


def _abbreviate(arguments: str) -> str:
    return arguments if len(arguments) <= 100 else f"{arguments[:60]} … {arguments[-30:]}"


MAX_INTEGER_BITS: Final = 10_000
"""Python refuses to convert much longer integers to strings."""


MAX_ITEMS: Final = 10_000
"""Longer lists and larger arrays are not converted: no exercise asks for one."""


def plain(value: object, depth: int = 4) -> Any:
    """Convert a value to numbers, strings, booleans, None, and lists of them.

    A partition spec becomes a list of its entries, an array or a set a list, and any other object
    `{"of type": …}` with its type's name; so does a list of more than `MAX_ITEMS`.

    Args:
        value: may be anything.
        depth: how deep lists may be nested; a deeper list becomes its type's name.
    """
    if isinstance(value, jax.P):
        value = spec_entries(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = _array_to_list(value)
    if isinstance(value, list | tuple | set | frozenset | range) and len(value) > MAX_ITEMS:
        return {"of type": f"{type(value).__name__}, with more than {MAX_ITEMS:,} items"}
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
        case str() if len(value) > MAX_STRING_CHARACTERS:
            return {"of type": f"str, of more than {MAX_STRING_CHARACTERS:,} characters"}
        case str():
            return str(value).encode(errors="replace").decode()
        case set() | frozenset() if depth:
            return _sorted([plain(item, depth - 1) for item in value])
        case list() | tuple() | range() if depth:
            return [plain(item, depth - 1) for item in value]
    return {"of type": type(value).__name__}


def _array_to_list(array: Any) -> object:
    """Convert an array to lists; return large ones, random keys and tracers as they are."""
    try:
        with theirs():
            return np.asarray(array).tolist() if array.size <= MAX_ITEMS else array
    except TheirError:
        return array


def _sorted(items: list[Any]) -> list[Any]:
    """Sort a list; by `repr` if its items cannot be compared."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)
