"""Describe how arrays that several processes returned differ from the right ones."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from autograder.judge.comparing_values import Wrong
from autograder.judge.scaled_values import in_words

TOLERANCE: Final = 1e-5
"""Relative to the largest value."""


def how_values_differ(came: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> Wrong | None:
    """Say whether all values are zeros, or off by one factor.

    Args:
        came: blocks as they came, of all processes.
        wanted: for each, what it should hold.
    """
    if not any(block.any() for block in came):
        return "nothing-but-zeros", "All numbers are zeros."
    values = np.concatenate([np.ravel(block).astype(np.float64) for block in came])
    right = np.concatenate([np.ravel(block).astype(np.float64) for block in wanted])
    if not right.any() or not np.isfinite(values).all() or np.iscomplexobj(came[0]):
        return None
    found = float(values @ right / (right @ right))
    if not found or np.max(np.abs(values - found * right)) > TOLERANCE * np.max(np.abs(values)):
        return None
    return "off-by-a-factor", f"Every value is {in_words(found)} what it should be."


def how_rows_differ(came: np.ndarray, wanted: np.ndarray, place: Sequence[slice]) -> str:
    """Name what a block of a table has in place of its rows; nothing where it has some of them.

    Args:
        came: the block.
        wanted: the whole table.
        place: where in the table the block lies.
    """
    if came.ndim != 2 or came.shape != wanted[tuple(place)].shape:
        return ""
    rows = sorted(map(tuple, came.tolist()))
    if rows == sorted(map(tuple, wanted[tuple(place)].tolist())):
        return "rows-exchanged"
    table = set(map(tuple, wanted[:, place[1]].tolist()))
    return "other-numbers" if not table & set(rows) else ""


def how_far_off(came: np.ndarray, wanted: np.ndarray) -> str:
    """Which value is furthest off, in words; nothing where all are near enough."""
    if came.shape != wanted.shape:
        return f"the block has shape {came.shape}; expected {wanted.shape}."
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    with np.errstate(invalid="ignore"):
        off = np.abs(came.astype(np.complex128) - wanted)
    if not off.size or bool((off <= TOLERANCE * scale).all()):
        return ""
    place = np.unravel_index(int(np.nanargmax(np.where(np.isnan(off), np.inf, off))), off.shape)
    at = f"the value at {tuple(map(int, place))}" if place else "the value"
    return f"{at} is {came[place]:g}; expected {wanted[place]:g}."
