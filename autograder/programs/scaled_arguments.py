"""Scale arguments to a real size, and costs to bfloat16, without making arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import jax.numpy as jnp

from autograder.programs.collective import Collective
from autograder.programs.report import Report

BFLOAT16: Final = 2
"""Bytes of a number in bfloat16, which large models compute in."""

WIDER_THAN_BFLOAT16: Final = {"f32": 4, "f64": 8}
"""Bytes of the floating-point types of HLO that count as bfloat16 when a program is scaled up."""


class ScalingError(ValueError):
    """Sizes cannot be replaced by others; the message says why."""


def scaled_up(
    arguments: Sequence[Any], sizes: Mapping[int, int], bfloat16: bool = False
) -> list[Any]:
    """The same arguments with other sizes: shapes and shardings, and no data.

    For a CPU, types stay as they are: there, XLA widens bfloat16 before it sends it, so that its
    bytes would be counted as twice what they are elsewhere. `in_bfloat16` counts them. A TPU's
    compiler knows bfloat16, and what it sends in another type, it has widened on purpose.

    Args:
        arguments: arrays, or pytrees of arrays, or what is no array and stays as it is.
        sizes: for sizes of dimensions, what takes their place.
        bfloat16: whether wider floating-point numbers are to be bfloat16.

    Raises:
        ScalingError: the sizes are no dictionary of positive numbers, or no array has one of them.
    """
    if not isinstance(sizes, Mapping):
        raise ScalingError(
            f"scaled says which size takes the place of which, as in {{16: 8192}}; "
            f"{type(sizes).__name__} came."
        )
    arrays = [a for a in jax.tree.leaves(list(arguments)) if hasattr(a, "shape")]
    had = sorted({size for array in arrays for size in array.shape})
    for old, new in sizes.items():
        if not (isinstance(new, int) and new > 0):
            raise ScalingError(f"A size is a positive whole number; scaled has {old!r}: {new!r}.")
        if old not in had:
            listed = ", ".join(map(str, had)) or "none"
            raise ScalingError(
                f"No argument has a dimension of {old!r}, so there is nothing to scale. "
                f"The sizes of their dimensions are: {listed}."
            )

    def other(leaf: Any) -> Any:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        shape = tuple(sizes.get(size, size) for size in leaf.shape)
        sharding = getattr(leaf, "sharding", None)
        on_a_mesh = isinstance(sharding, jax.sharding.NamedSharding)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            return leaf  # a random key has a size of its own
        wide = bfloat16 and leaf.dtype in (jnp.float32, jnp.float64)
        dtype = jnp.bfloat16 if wide else leaf.dtype
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding if on_a_mesh else None)

    return [jax.tree.map(other, argument) for argument in arguments]


def in_bfloat16(report: Report, sizes: Mapping[int, int]) -> Report:
    """The report on a program that was scaled up, its floating-point numbers counted as bfloat16.

    Memory is halved as a whole: what is not floating-point is small beside what is.

    Args:
        report: on the program as it was compiled.
        sizes: what took the place of which size.
    """
    return replace(
        report,
        collectives=tuple(map(_narrowed, report.collectives)),
        peak_bytes=report.peak_bytes // 2,
        scaled=sizes_in_words(sizes),
    )


def sizes_in_words(sizes: Mapping[int, int]) -> str:
    """`8,192 in place of 16`."""
    return ", ".join(f"{new:,} in place of {old:,}" for old, new in sizes.items())


def _narrowed(collective: Collective) -> Collective:
    if not collective.dtypes or any(
        dtype not in WIDER_THAN_BFLOAT16 for dtype in collective.dtypes
    ):
        return collective
    widest = max(WIDER_THAN_BFLOAT16[dtype] for dtype in collective.dtypes)
    return replace(
        collective,
        bytes_in=round(collective.bytes_in * BFLOAT16 / widest),
        bytes_out=round(collective.bytes_out * BFLOAT16 / widest),
    )
