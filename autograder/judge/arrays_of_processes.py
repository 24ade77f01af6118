"""Check arrays that several processes returned, which may be forged; say how they differ."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from autograder.evidence import Contents, OwnArray, Shard, Shards, Value
from autograder.judge.comparing_values import Wrong
from autograder.judge.scaled_values import in_words
from autograder.layouts import Layout, Shape
from autograder.processes import ProcessCase

MAX_NUMBERS: Final = 1 << 16
"""In one array; those of the exercises have less."""

MAX_DIMENSIONS: Final = 4
TOLERANCE: Final = 1e-5
"""Relative to the largest value."""


class MalformedRunsError(Exception):
    """The evidence is none that `capture` makes."""


def whole(part: Shards | OwnArray | Value) -> np.ndarray | str:
    """An array that one process has all of; or what it has instead, in words."""
    match part:
        case OwnArray(contents):
            return array_of(contents)
        case Value(int() | float() as value):
            return np.asarray(float(value))
        case Value(list() as value):
            try:
                return np.asarray(value, np.float64)
            except (ValueError, TypeError, OverflowError):
                return "a list that is no array of numbers"
        case Shards(shape, _, shards):
            for shard in shards:
                if shard.block == tuple((0, size) for size in shape):
                    return array_of(shard.contents)
            return f"an array of shape {shape} of which it has only some of the blocks"
    return part_in_words(part)


def look_at(case: ProcessCase, parts: Sequence[Shards | OwnArray | Value]) -> None:
    """Look at what each process has: blocks of one array, on devices of its own.

    Raises:
        MalformedRunsError: it is anything else.
    """
    shared = [(i, part) for i, part in enumerate(parts) if isinstance(part, Shards)]
    if shared and not any(part.shards for _, part in shared):
        raise MalformedRunsError("an array is on no device")
    for process, part in shared:
        if math.prod(part.shape) > MAX_NUMBERS or len(part.shape) > MAX_DIMENSIONS:
            raise MalformedRunsError("an array is too large")
        for shard in part.shards:
            _look_at_shard(shard, part.shape)
        devices = [shard.device for shard in part.shards]
        if not set(devices) <= set(case.devices_of(process)) or len(set(devices)) < len(devices):
            raise MalformedRunsError("a device is another process's, or there twice")


def _look_at_shard(shard: Shard, shape: Shape) -> None:
    if len(shard.block) != len(shape):
        raise MalformedRunsError("a block has other dimensions than its array")
    intervals = zip(shard.block, shape, strict=True)
    if not all(start <= stop <= size for (start, stop), size in intervals):
        raise MalformedRunsError("a block is outside of its array")
    if tuple(stop - start for start, stop in shard.block) != shard.contents.shape:
        raise MalformedRunsError("a block has another shape than what it holds")


def joint_layout(parts: Sequence[Shards]) -> Layout:
    """The layout that all processes' blocks make together."""
    blocks = {shard.device: shard.block for part in parts for shard in part.shards}
    return Layout.from_blocks(parts[0].shape, blocks)


def array_of(contents: Contents) -> np.ndarray:
    """What evidence says an array holds."""
    try:
        dtype = np.dtype(contents.dtype)
        if dtype.kind not in "biufc":
            raise TypeError
        return np.frombuffer(contents.data, dtype).reshape(contents.shape)
    except (TypeError, ValueError) as error:
        raise MalformedRunsError("bytes do not fill an array") from error


def rows_like(block: np.ndarray, whole: np.ndarray, place: Sequence[tuple[int, int]]) -> int | None:
    """The first of those rows of an array whose numbers a block holds, if there are such rows.

    Args:
        block: what a device holds.
        whole: the array.
        place: where in it the block lies, of which all but the rows counts.
    """
    if not block.size or block.shape != tuple(stop - start for start, stop in place):
        return None
    _, *others = (slice(start, stop) for start, stop in place)
    rows = len(block)
    starts = range(len(whole) - rows + 1)
    return next((i for i in starts if np.array_equal(whole[i : i + rows, *others], block)), None)


def all_that_came(parts: Sequence[Shards | OwnArray | Value]) -> list[np.ndarray]:
    """An array as each process has it, or put together from the blocks of all of them."""
    wholes = [whole(part) for part in parts]
    arrays = [whole for whole in wholes if not isinstance(whole, str)]
    if len(arrays) == len(parts):
        return arrays
    shared = [part for part in parts if isinstance(part, Shards)]
    if len(shared) < len(parts) or len({part.shape for part in shared}) > 1:
        return []
    put_together = np.full(shared[0].shape, np.nan)
    for part in shared:
        for shard in part.shards:
            block = tuple(slice(start, stop) for start, stop in shard.block)
            put_together[block] = array_of(shard.contents)
    return [put_together]


def part_in_words(part: Shards | OwnArray | Value) -> str:
    """What kind of thing a process handed in."""
    match part:
        case OwnArray(contents):
            return f"an array of its own, of shape {contents.shape}"
        case Value(None):
            return "None"
        case Value(dict() as value):
            return f"something of type {value.get('of type')}"
        case Value(value):
            return f"{'an' if isinstance(value, int) else 'a'} {type(value).__name__}"
    return "an array"


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
