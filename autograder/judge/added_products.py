"""Find which products of blocks a wrong matmul added up, from its values alone."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from autograder.judge.comparing_values import Wrong
from autograder.judge.running_programs import Run
from autograder.programs import Argument

TOLERANCE: Final = 1e-4
"""For a sum of products, relative to the largest value."""

MAX_PRODUCTS_PER_VALUE: Final = 2 / 3
"""With more, several sums give the same values."""

MAX_TERMS: Final = 4
"""Limit on the products that a verdict lists for one device."""

Sums = dict[int, np.ndarray]
"""How often each device adds each product, indexed by the row of A's block, its column, the row of
B's block, and its column.
"""


def added_products(
    blocks: Sequence[tuple[int, int, int]], asked: Sequence[Sequence[Argument]], runs: Sequence[Run]
) -> Wrong | None:
    """Say which products of blocks are added up on a device, where others should be.

    Each device's block is taken for a sum of products of a block of A and a block of B. Its values
    say which ones, where no other sum of products has the same values.
    """
    for cuts, arguments, (draws, ran) in zip(blocks, asked, runs, strict=False):
        found: list[tuple[Sums, Sums]] = []
        for (a, b), outputs in zip(draws, ran.outputs, strict=True):
            if len(outputs) != 1 or outputs[0].shape != (len(a), b.shape[1]):
                return None
            shards = {
                s.device.id: (np.asarray(s.data), s.index) for s in outputs[0].addressable_shards
            }
            got = _sums(a, b, cuts, {i: data for i, (data, _) in shards.items()})
            right = _sums(a, b, cuts, {i: (a @ b)[index] for i, (_, index) in shards.items()})
            if got is None or right is None:
                break
            found.append((got, right))
        if len(found) < len(draws):
            continue
        (got, right), *others = found
        if any(not np.array_equal(got[i], other[i]) for other, _ in others for i in got):
            continue
        device = next((i for i in sorted(got) if not np.array_equal(got[i], right[i])), None)
        if device is None or np.count_nonzero(got[device]) > MAX_TERMS:
            continue
        rows, inner, columns = cuts
        axes = " × ".join(f"{name}={size}" for name, size in arguments[0].axes)
        return "other-products", (
            f"The values on device {device} (mesh {axes}) are {_in_words(got[device])}; expected "
            f"{_in_words(right[device])}. (A[i, k] is A's block in row i and column k of "
            f"{rows} × {inner}, and B[k, j] that of {inner} × {columns}.)"
        )
    return None


def _sums(
    a: np.ndarray, b: np.ndarray, cuts: tuple[int, int, int], blocks: dict[int, np.ndarray]
) -> Sums | None:
    """Count each product of blocks in each device's block; None where that is not certain."""
    rows, inner, columns = cuts
    of_a = [np.split(strip, inner, axis=1) for strip in np.split(a.astype(np.float64), rows)]
    of_b = [np.split(strip, columns, axis=1) for strip in np.split(b.astype(np.float64), inner)]
    shape = rows, inner, inner, columns
    products = [of_a[i][k] @ of_b[m][j] for i, k, m, j in np.ndindex(shape)]
    terms = np.stack([np.ravel(product) for product in products], axis=1)
    if math.prod(shape) > MAX_PRODUCTS_PER_VALUE * len(terms):
        return None
    sums = {}
    for device, block in blocks.items():
        if block.shape != products[0].shape:
            return None
        wanted = np.ravel(block).astype(np.float64)
        solved, _, rank, _ = np.linalg.lstsq(terms, wanted, rcond=None)
        counts = np.round(solved, 3)
        off = np.max(np.abs(terms @ counts - wanted))
        if rank < math.prod(shape) or off > TOLERANCE * np.max(np.abs(terms)):
            return None
        sums[device] = counts.reshape(shape)
    return sums


def _in_words(counts: np.ndarray) -> str:
    """`A[1, 0] B[0, 0] + 2 A[1, 1] B[1, 0]`."""
    terms = [
        f"{'' if counts[i, k, m, j] == 1 else f'{counts[i, k, m, j]:g} '}A[{i}, {k}] B[{m}, {j}]"
        for i, k, m, j in np.argwhere(counts)
    ]
    return " + ".join(terms) or "zeros"
