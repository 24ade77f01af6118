"""Explain right numbers that come in another shape or order, or in too many results."""

import math
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Final

import jax
import numpy as np
from humanize import natural_list

from autograder.artifacts import Argument
from autograder.judge.comparing_values import (
    ArrayFunction,
    Wrong,
    compare_outputs,
    describe_array,
)
from autograder.judge.diagnoses import (
    IN_A_CONTAINER,
    NOT_JOINED,
    RESHAPED,
    TOO_MANY_RESULTS,
    WRONG_VALUES,
)
from autograder.judge.running_programs import SampledRun

MAX_ORDERED: Final = 4
"""The most results, or dimensions, of which other orders are tried."""


def explain_several_results(
    reference: ArrayFunction, runs: Sequence[SampledRun], names: Sequence[str] = ()
) -> Wrong | None:
    """Say which results come in another order, are too many, or are wrong alone, in every case.

    Args:
        reference: computes the right results.
        runs: the inputs and results of each program.
        names: the names of the results, if they have names.
    """
    cases = [
        (outputs, jax.tree.leaves(reference(*inputs)))
        for samples, ran in runs
        for inputs, outputs in zip(samples, ran.outputs, strict=True)
    ]
    came, count = len(cases[0][0]), len(cases[0][1])
    if came < max(2, count) or any(len(outputs) != came for outputs, _ in cases):
        return None
    for order in permutations(range(came), count) if came <= MAX_ORDERED else ():
        if order == tuple(range(came)) or not all(
            compare_outputs([outputs[i] for i in order], wanted) is None
            for outputs, wanted in cases
        ):
            continue
        if came == count:
            samples, ran = runs[0]
            if ran.container == "dict" and not isinstance(reference(*samples[0]), dict):
                return IN_A_CONTAINER, (
                    "All results are right, but the function returns them in a dict; expected a "
                    "tuple."
                )
            places = map(order.index, range(count))
            listed = ", ".join(names[i] if names else str(i + 1) for i in places)
            return "other-order-of-results", (
                f"All results are right, but they come in another order: {listed}."
            )
        right = natural_list([str(i + 1) for i in order])
        return TOO_MANY_RESULTS, (
            f"The function returned {came} arrays; expected {count}. "
            f"{f'Results {right} are' if count > 1 else f'Result {right} is'} right."
        )
    if any(
        [a.shape for a in outputs] != [np.shape(a) for a in wanted] for outputs, wanted in cases
    ):
        return None
    wrong = [
        any(compare_outputs([outputs[i]], [wanted[i]]) for outputs, wanted in cases)
        for i in range(count)
    ]
    if all(wrong):
        return None
    which = natural_list(
        [names[i] if names else f"result {i + 1}" for i in range(count) if wrong[i]]
    )
    are = "is" if sum(wrong) == 1 else "are"
    others = "the other is" if count - sum(wrong) == 1 else "the others are"
    return WRONG_VALUES, f"Of {count} results, {which} {are} wrong, and {others} right."


def explain_joined_blocks(
    reference: ArrayFunction,
    argument_lists: Sequence[Sequence[Argument]],
    runs: Sequence[SampledRun],
) -> Wrong | None:
    """Say whether `out_specs` joins equal blocks, or blocks in the wrong dimension, in every case.

    Args:
        reference: computes the right results.
        argument_lists: the arguments of each program.
        runs: the inputs and results of each program.
    """
    if not all(ran.has_shard_map for _, ran in runs):
        return None  # without a shard_map there are no out_specs
    explanations = [
        _explain_joined(outputs, jax.tree.leaves(reference(*inputs)), arguments[0])
        for (samples, ran), arguments in zip(runs, argument_lists, strict=True)
        for inputs, outputs in zip(samples, ran.outputs, strict=True)
    ]
    first = explanations[0]
    if first is None or any(each is None or each[0] != first[0] for each in explanations):
        return None
    return first


def _explain_joined(
    outputs: Sequence[jax.Array], wanted: Sequence[np.ndarray], argument: Argument
) -> Wrong | None:
    """Say how `out_specs` joined the blocks of one result."""
    if len(outputs) != 1 or len(wanted) != 1:
        return None
    output, right = outputs[0], np.asarray(wanted[0])
    exchanged = (
        _explain_exchanged_axes(output, right, argument) if output.ndim == right.ndim else ""
    )
    if output.shape == right.shape:
        return ("joined-elsewhere", exchanged) if exchanged else None
    shapes = f"The result has shape {output.shape}; expected {right.shape}."
    right = right.reshape(right.shape or (1,))  # a number can be joined only as a vector of one
    if output.ndim != right.ndim:
        return None
    whole = np.asarray(output)
    for axis, (name, size) in enumerate(argument.axes):
        for d in range(right.ndim):
            if _has_block_of(output, right, argument, axis, d):
                return NOT_JOINED, (
                    f"{shapes} Each device along {name} has its own block of the right result, "
                    f"and out_specs says that all of them have the same. Which dimension does "
                    f"{name} shard?"
                )
            if output.shape[d] % size or not _is_sharded_over(output, argument, axis, d):
                continue
            copies = np.split(whole, size, axis=d)
            many = output.shape[d] == size * right.shape[d]
            if many and all(np.array_equal(copies[0], each) for each in copies[1:]):
                once = ""
                if copies[0].shape == right.shape and _is_right(copies[0], right):
                    once = " One of them alone is the right result."
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


def _explain_exchanged_axes(output: jax.Array, right: np.ndarray, argument: Argument) -> str:
    """Say which two axes `out_specs` exchanged, if the result is right otherwise."""
    for (i, (one, m)), (j, (other, n)) in combinations(enumerate(argument.axes), 2):
        for d, e in permutations(range(right.ndim), 2):
            if output.shape[d] % m or output.shape[e] % n:
                continue
            axes = ((i, d), (j, e))
            if not all(_is_sharded_over(output, argument, *pair) for pair in axes):
                continue
            blocks = [np.split(strip, n, axis=e) for strip in np.split(np.asarray(output), m, d)]
            strips = [np.concatenate(strip, axis=e) for strip in zip(*blocks, strict=True)]
            moved = np.concatenate(strips, axis=d)
            if moved.shape == right.shape and _is_right(moved, right):
                return (
                    f"The body's blocks are right, but out_specs joins those along {one} in "
                    f"dimension {d} and those along {other} in dimension {e}. Which dimension "
                    f"does each axis divide?"
                )
    return ""


def explain_reshape(reference: ArrayFunction, runs: Sequence[SampledRun]) -> Wrong | None:
    """Say whether every case gave the right numbers, in order, but in another shape."""
    for samples, ran in runs:
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            wanted = jax.tree.leaves(reference(*inputs))
            if len(outputs) != 1 or len(wanted) != 1:
                return None
            actual, right = outputs[0], np.asarray(wanted[0])
            if actual.size != right.size or actual.shape == right.shape:
                return None
            if not _is_right(np.asarray(actual).reshape(right.shape), right):
                return None
    samples, ran = runs[0]
    output, right = ran.outputs[0][0], np.asarray(jax.tree.leaves(reference(*samples[0]))[0])
    shapes = f"The function returned {describe_array(output)}; expected {describe_array(right)}."
    if not right.shape:
        return RESHAPED, (
            f"{shapes} The number is right, but it comes in an array with a dimension. Is a "
            f"dimension of length 1 kept, as keepdims=True and slices do?"
        )
    if [n for n in output.shape if n > 1] == [n for n in right.shape if n > 1]:
        many = "many" if output.ndim > right.ndim else "few"
        return RESHAPED, (
            f"{shapes} The numbers are right, but there is a dimension of length 1 too {many}."
        )
    if (output.shape[0] * math.prod(output.shape[1:2]), *output.shape[2:]) == right.shape:
        return RESHAPED, (
            f"{shapes} The numbers are right and in the right order, but the first two dimensions "
            f"should be one. Are blocks stacked that belong end to end? (Where a collective "
            f"joins them, tiled=True does that; elsewhere, a reshape.)"
        )
    return RESHAPED, (
        f"{shapes} The numbers are right and in the right order, but in another shape. What shape "
        f"should the function return?"
    )


def explain_exchanged_dimensions(
    reference: ArrayFunction, runs: Sequence[SampledRun]
) -> Wrong | None:
    """Say whether every case gave the right numbers, with dimensions in another order."""
    cases = [
        (outputs, jax.tree.leaves(reference(*inputs)))
        for samples, ran in runs
        for inputs, outputs in zip(samples, ran.outputs, strict=True)
    ]
    if any(len(outputs) != 1 or len(wanted) != 1 for outputs, wanted in cases):
        return None
    output, right = cases[0][0][0], np.asarray(cases[0][1][0])
    if output.ndim != right.ndim or output.ndim > MAX_ORDERED or output.shape == right.shape:
        return None  # if the shapes are equal, a general mistake is the transpose
    for order in permutations(range(output.ndim)):
        if all(
            outputs[0].ndim == len(order)
            and np.transpose(outputs[0], order).shape == np.shape(wanted[0])
            and _is_right(np.transpose(outputs[0], order), np.asarray(wanted[0]))
            for outputs, wanted in cases
        ):
            moved = [str(d) for d in range(len(order)) if order[d] != d]
            are = "exchanged" if len(moved) == 2 else "in another order"
            return RESHAPED, (
                f"The function returned {describe_array(output)}; expected "
                f"{describe_array(right)}. The numbers are right, but dimensions "
                f"{natural_list(moved)} are {are}."
            )
    return None


def _is_right(actual: np.ndarray, right: np.ndarray) -> bool:
    return compare_outputs([jax.numpy.asarray(actual)], [right]) is None


def _has_block_of(
    output: jax.Array, right: np.ndarray, argument: Argument, axis: int, d: int
) -> bool:
    """Check whether each device along an axis, which shards nothing, has another block."""
    sizes = [size for _, size in argument.axes]
    if right.shape[d] % sizes[axis] or max(d.id for d in output.devices()) >= np.prod(sizes):
        return False
    blocks = np.split(right, sizes[axis], axis=d)
    if output.shape != blocks[0].shape or sizes[axis] == 1:
        return False
    indices: dict[tuple[int, ...], set[str]] = {}
    for shard in output.addressable_shards:
        place = [int(i) for i in np.unravel_index(shard.device.id, sizes)]
        if not _is_right(np.asarray(shard.data), blocks[place.pop(axis)][shard.index]):
            return False
        indices.setdefault(tuple(place), set()).add(str(shard.index))
    return all(len(each) == 1 for each in indices.values())


def _is_sharded_over(output: jax.Array, argument: Argument, axis: int, d: int) -> bool:
    """Check whether a dimension is sharded over exactly this axis, in the order of its devices."""
    sizes = [size for _, size in argument.axes]
    starts: dict[int, set[int]] = {}
    for shard in output.addressable_shards:
        if shard.device.id >= np.prod(sizes):
            return False
        place = int(np.unravel_index(shard.device.id, sizes)[axis])
        starts.setdefault(place, set()).add(shard.index[d].start or 0)
    length = output.shape[d] // sizes[axis]
    return sizes[axis] > 1 and starts == {i: {i * length} for i in range(sizes[axis])}
