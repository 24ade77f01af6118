"""What leaves a kernel as a value: numbers, strings and lists of them, in the form JSON has."""

import math
from typing import Any

import jax
import numpy as np


def plain(value: object, depth: int = 4) -> Any:
    """Numbers, strings, booleans and lists of them; anything else as its type's name.

    A partition spec is a list of its entries, without the `None`s at its end, which say nothing;
    a sharding is its spec.
    """
    if isinstance(value, jax.NamedSharding):
        value = value.spec
    if isinstance(value, jax.P):
        value = tuple(value)
        while value and value[-1] is None:
            value = value[:-1]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = np.asarray(value).tolist()
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) < 1 << 63 else repr(value)
        case float():
            return float(value) if math.isfinite(value) else repr(value)
        case str():
            return str(value).encode(errors="replace").decode()
        case set() | frozenset() if depth:
            return _sorted([plain(item, depth - 1) for item in value])
        case list() | tuple() | range() if depth:
            return [plain(item, depth - 1) for item in value]
    return {"of type": type(value).__name__}


def _sorted(items: list[Any]) -> list[Any]:
    """In order, numbers as numbers; by how they are written where they are of several kinds."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)
