"""Explain a result of another shape: blocks joined by the wrong out_specs, or a reshape."""

import math
from collections.abc import Sequence
from itertools import combinations, permutations

import jax
import numpy as np

from autograder.judge.comparing_values import Arrays, Wrong, compare_outputs, typed
from autograder.judge.running_programs import Run
from autograder.programs import Argument

Device = tuple[int, ...]
"""A device's place along each axis of the mesh."""


def joined_wrongly(
    reference: Arrays, asked: Sequence[Sequence[Argument]], runs: Sequence[Run]
) -> Wrong | None:
    """Say whether copies are joined, or blocks along another dimension, in every case.

    Args:
        reference: what gives the right results.
        asked: the arguments of each program.
        runs: what each program made of what it was given.
    """
    if not all(ran.mapped for _, ran in runs):
        return None  # without a shard_map there are no out_specs
    found = [
        _how_joined(outputs, jax.tree.leaves(reference(*inputs)), arguments[0])
        for (draws, ran), arguments in zip(runs, asked, strict=True)
        for inputs, outputs in zip(draws, ran.outputs, strict=True)
    ]
    first = found[0]
    if first is None or any(each is None or each[0] != first[0] for each in found):
        return None
    return first


def _how_joined(
    outputs: Sequence[jax.Array], wanted: Sequence[np.ndarray], argument: Argument
) -> Wrong | None:
    """Say how one result of another shape was joined."""
    if len(outputs) != 1 or len(wanted) != 1:
        return None
    output, right = outputs[0], np.asarray(wanted[0])
    exchanged = _exchanged(output, right, argument) if output.ndim == right.ndim else ""
    if output.shape == right.shape:
        return ("joined-elsewhere", exchanged) if exchanged else None
    shapes = f"The result has shape {output.shape}; expected {right.shape}."
    right = right.reshape(right.shape or (1,))  # a number can be joined only as a vector of one
    if output.ndim != right.ndim:
        return None
    whole = np.asarray(output)
    for axis, (name, size) in enumerate(argument.axes):
        for d in range(right.ndim):
            if output.shape[d] % size or not _lie_along(output, argument, axis, d):
                continue
            copies = np.split(whole, size, axis=d)
            many = output.shape[d] == size * right.shape[d]
            if many and all(np.array_equal(copies[0], each) for each in copies[1:]):
                once = ""
                if copies[0].shape == right.shape and _is_right(copies[0], right):
                    once = " Without the copies, the result is right."
                return "copies-side-by-side", (
                    f"{shapes} out_specs joins the blocks of the devices along {name} in "
                    f"dimension {d}, and these blocks are all the same.{once}"
                )
            for other in range(right.ndim):
                if other == d:
                    continue
                moved = np.concatenate(copies, axis=other)
                if moved.shape == right.shape and _is_right(moved, right):
                    block = np.asarray(output.addressable_shards[0].data).shape
                    return "joined-elsewhere", (
                        f"{shapes} The body's blocks, of shape {block}, divide dimension {other} "
                        f"of the result along {name}, and out_specs joins them in dimension {d}. "
                        f"Both have to be the same dimension: which one should {name} shard here?"
                    )
    return ("joined-elsewhere", f"{shapes} {exchanged}") if exchanged else None


def _exchanged(output: jax.Array, right: np.ndarray, argument: Argument) -> str:
    """Say which two axes out_specs exchanged, if the result is right but for that."""
    for (i, (one, m)), (j, (other, n)) in combinations(enumerate(argument.axes), 2):
        for d, e in permutations(range(right.ndim), 2):
            if output.shape[d] % m or output.shape[e] % n:
                continue
            if not _lie_along(output, argument, i, d) or not _lie_along(output, argument, j, e):
                continue
            blocks = [np.split(strip, n, axis=e) for strip in np.split(np.asarray(output), m, d)]
            strips = [np.concatenate(strip, axis=e) for strip in zip(*blocks, strict=True)]
            moved = np.concatenate(strips, axis=d)
            if moved.shape == right.shape and _is_right(moved, right):
                return (
                    f"The body's blocks are right, but out_specs joins those along {one} in "
                    f"dimension {d} and those along {other} in dimension {e}. Which dimension of "
                    f"the blocks has each axis divided?"
                )
    return ""


def reshaped(reference: Arrays, runs: Sequence[Run]) -> Wrong | None:
    """Say whether every case gave the right numbers in their order, but in another shape."""
    for draws, ran in runs:
        for inputs, outputs in zip(draws, ran.outputs, strict=True):
            wanted = jax.tree.leaves(reference(*inputs))
            if len(outputs) != 1 or len(wanted) != 1:
                return None
            came, right = outputs[0], np.asarray(wanted[0])
            if came.size != right.size or came.shape == right.shape:
                return None
            if not _is_right(np.asarray(came).reshape(right.shape), right):
                return None
    draws, ran = runs[0]
    output, right = ran.outputs[0][0], np.asarray(reference(*draws[0]))
    shapes = f"The function returned {typed(output)}; expected {typed(right)}."
    if not right.shape:
        return "reshaped", (
            f"{shapes} The number is right, but it comes in an array with a dimension. Is a "
            f"dimension of length 1 kept, as keepdims=True and slices do?"
        )
    if [n for n in output.shape if n > 1] == [n for n in right.shape if n > 1]:
        many = "many" if output.ndim > right.ndim else "few"
        return "reshaped", (
            f"{shapes} The numbers are right, but there is a dimension of length 1 too {many}."
        )
    if (output.shape[0] * math.prod(output.shape[1:2]), *output.shape[2:]) == right.shape:
        return "reshaped", (
            f"{shapes} The numbers are right and in the right order, but the first two dimensions "
            f"should be one. Are blocks stacked that belong end to end? (Where a collective "
            f"joins them, tiled=True does that; elsewhere, a reshape.)"
        )
    return "reshaped", (
        f"{shapes} The numbers are right and in the right order, but in another shape. What shape "
        f"should the function return?"
    )


def _is_right(came: np.ndarray, right: np.ndarray) -> bool:
    return compare_outputs([jax.numpy.asarray(came)], [right]) is None


def _lie_along(output: jax.Array, argument: Argument, axis: int, d: int) -> bool:
    """Whether a dimension has a block for each device along an axis, in their order.

    The other axes may shard other dimensions, and not this one.
    """
    sizes = [size for _, size in argument.axes]
    starts: dict[int, set[int]] = {}
    for shard in output.addressable_shards:
        if shard.device.id >= np.prod(sizes):
            return False
        place = int(np.unravel_index(shard.device.id, sizes)[axis])
        starts.setdefault(place, set()).add(shard.index[d].start or 0)
    length = output.shape[d] // sizes[axis]
    return sizes[axis] > 1 and starts == {i: {i * length} for i in range(sizes[axis])}
