"""Capture values: numbers, strings and lists of them, as JSON has them."""

import math
from fractions import Fraction
from typing import Any, Final

import jax
import numpy as np

from autograder.errors import TheirError, theirs
from autograder.layouts import entries

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
