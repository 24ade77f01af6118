"""Compare the results of Python functions: plain data, which may have been through JSON.

Arrays are compared in `comparing_values.py`.
"""

import math
from typing import Any, Final

NON_FINITE_NUMBERS: Final = ("nan", "inf", "-inf")
"""The strings that stand for these numbers in plain data."""


class AnyOrder(list[Any]):
    """A list whose order does not matter when it is compared."""


def is_same(actual: Any, wanted: Any) -> bool:
    """Check whether plain data is equal; tuples equal lists, and floats may differ by rounding."""
    if isinstance(wanted, AnyOrder):
        return isinstance(actual, list) and sorted(map(repr, actual)) == sorted(map(repr, wanted))
    if isinstance(wanted, tuple | list):
        return (
            isinstance(actual, tuple | list)
            and len(actual) == len(wanted)
            and all(
                is_same(part, wanted_part) for part, wanted_part in zip(actual, wanted, strict=True)
            )
        )
    if isinstance(wanted, float) and not math.isfinite(wanted):
        return bool(actual in (wanted, repr(wanted)))  # evidence has it as a string
    if isinstance(wanted, float) and isinstance(actual, int | float):
        return math.isclose(actual, wanted, rel_tol=1e-6, abs_tol=1e-12)
    return type(actual) is type(wanted) and bool(actual == wanted)


def is_number(value: Any) -> bool:
    """Check for a number, which a bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_integers(value: Any) -> Any:
    """Convert floats that are whole numbers to integers, in lists too."""
    if isinstance(value, list | tuple):
        return [to_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
