"""Explain the wrong values of a matmul of blocks by the products that each device added up."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from autograder.artifacts import Argument
from autograder.judge.comparing_values import (
    Wrong,
)
from autograder.judge.running_programs import SampledRun

PRODUCT_TOLERANCE: Final = 1e-4
"""The tolerance for a sum of products of blocks, relative to the largest value."""

MAX_PRODUCTS_PER_VALUE: Final = 2 / 3
"""With more, several sums of products give the same values."""

MAX_LISTED_PRODUCTS: Final = 4
"""The most products that a verdict lists for one device."""

Sums = dict[int, np.ndarray]
"""The number of times that each device adds each product, indexed by the row and column of A's
block, and the row and column of B's block.
"""


def explain_added_products(
    block_counts: Sequence[tuple[int, int, int]],
    argument_lists: Sequence[Sequence[Argument]],
    runs: Sequence[SampledRun],
) -> Wrong | None:
    """Say which products of blocks a device of a matmul adds up, if they are the wrong ones.

    If each device's block is a sum of products of a block of A and a block of B, its values
    determine the products, unless another sum has the same values.

    Args:
        block_counts: for each list of arguments, into how many blocks A's rows, the contracted
            dimension and B's columns are divided.
        argument_lists: the arguments of each program.
        runs: the inputs and results of each program.
    """
    for counts, arguments, (samples, ran) in zip(block_counts, argument_lists, runs, strict=False):
        sample_sums: list[tuple[Sums, Sums]] = []
        for (a, b), outputs in zip(samples, ran.outputs, strict=True):
            if len(outputs) != 1 or outputs[0].shape != (len(a), b.shape[1]):
                return None
            shards = {
                s.device.id: (np.asarray(s.data), s.index) for s in outputs[0].addressable_shards
            }
            got = _count_products(a, b, counts, {i: data for i, (data, _) in shards.items()})
            right = _count_products(
                a, b, counts, {i: (a @ b)[index] for i, (_, index) in shards.items()}
            )
            if got is None or right is None:
                break
            sample_sums.append((got, right))
        if len(sample_sums) < len(samples):
            continue
        (got, right), *others = sample_sums
        if any(not np.array_equal(got[i], other[i]) for other, _ in others for i in got):
            continue
        device = next((i for i in sorted(got) if not np.array_equal(got[i], right[i])), None)
        if device is None or np.count_nonzero(got[device]) > MAX_LISTED_PRODUCTS:
            continue
        rows, inner, columns = counts
        axes = " × ".join(f"{name}={size}" for name, size in arguments[0].axes)
        return "other-products", (
            f"The values on device {device} (mesh {axes}) are {_describe_products(got[device])}; "
            f"expected {_describe_products(right[device])}. (A[i, k] is A's block in row i and "
            f"column k of {rows} × {inner}, and B[k, j] that of {inner} × {columns}.)"
        )
    return None


def _count_products(
    a: np.ndarray, b: np.ndarray, counts: tuple[int, int, int], blocks: dict[int, np.ndarray]
) -> Sums | None:
    """Count each product of blocks in each device's block; None if that is not certain."""
    rows, inner, columns = counts
    a_blocks = [np.split(strip, inner, axis=1) for strip in np.split(a.astype(np.float64), rows)]
    b_blocks = [np.split(strip, columns, axis=1) for strip in np.split(b.astype(np.float64), inner)]
    shape = rows, inner, inner, columns
    products = [a_blocks[i][k] @ b_blocks[m][j] for i, k, m, j in np.ndindex(shape)]
    terms = np.stack([np.ravel(product) for product in products], axis=1)
    if math.prod(shape) > MAX_PRODUCTS_PER_VALUE * len(terms):
        return None
    sums = {}
    for device, block in blocks.items():
        if block.shape != products[0].shape or np.iscomplexobj(block):
            return None
        values = np.ravel(block).astype(np.float64)
        if not np.isfinite(values).all():
            return None
        solved, _, rank, _ = np.linalg.lstsq(terms, values, rcond=None)
        terms_count = np.round(solved, 3)
        distance = np.max(np.abs(terms @ terms_count - values))
        if rank < math.prod(shape) or distance > PRODUCT_TOLERANCE * np.max(np.abs(terms)):
            return None
        sums[device] = terms_count.reshape(shape)
    return sums


def _describe_products(counts: np.ndarray) -> str:
    """Return `A[1, 0] B[0, 0] + 2 A[1, 1] B[1, 0]`."""
    terms = [
        f"{'' if counts[i, k, m, j] == 1 else f'{counts[i, k, m, j]:g} '}A[{i}, {k}] B[{m}, {j}]"
        for i, k, m, j in np.argwhere(counts)
    ]
    return " + ".join(terms) or "zeros"
