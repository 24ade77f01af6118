"""Compare values with the reference: near enough, or in which way they differ.

How far off a right program may be follows from the computation. It adds up and rounds in an order
of its own, so its error is of the size of what a last place of its inputs does to the result: where
numbers cancel, that is much larger than a last place of the result.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

ROUNDING: Final = 16
"""How many units in the last place, scaled by the largest value, a computation may be off."""

LENIENT: Final = 100 * ROUNDING
"""The same, where a mistake is to be recognised: it may be the difference of two large numbers."""

MAX_TOLERANCE: Final = 1e-3
"""Relative to the largest value, whatever rounding would allow."""

CLEARLY_FURTHER: Final = 1.001
"""A value is told as the one furthest off if it is so many times as far off as another."""

NUDGES: Final = 4
"""How often inputs are moved by their last places, to see what that does to the result."""

Arrays = Callable[..., Any]
"""What takes arrays and gives arrays."""

Wrong = tuple[str, str]
"""What is wrong, as a short name and in words."""


def compare(
    reference: Arrays, inputs: Sequence[np.ndarray], outputs: Sequence[jax.Array]
) -> Wrong | None:
    """What is wrong with outputs, if anything is.

    Args:
        reference: gives the right ones.
        inputs: what it is to be given.
        outputs: what a program gave, flattened; every copy is looked at.
    """
    wanted = jax.tree.leaves(reference(*inputs))
    wrong = compare_outputs(outputs, wanted)
    if wrong is None or wrong[0] != "values":
        return wrong
    return compare_outputs(outputs, wanted, spread=_spread(reference, inputs, wanted))


def compare_outputs(
    outputs: Sequence[jax.Array],
    wanted: Sequence[Any],
    rounding: float = ROUNDING,
    spread: Sequence[float] = (),
) -> Wrong | None:
    """The same, beside right outputs.

    Args:
        outputs: what a program gave.
        wanted: what is right.
        rounding: how many units in the last place, scaled by the largest value, they may be off.
        spread: for each, how far off it is besides if its inputs are off by their last places.
    """
    if len(outputs) != len(wanted):
        came, asked = (f"{len(a)} array{'s' * (len(a) != 1)}" for a in (outputs, wanted))
        return "shape", f"The function returned {came}; expected {asked}."
    if [o.shape for o in outputs] != [w.shape for w in wanted]:
        came, asked = (", ".join(map(typed, arrays)) for arrays in (outputs, wanted))
        return "shape", f"The function returned {came}; expected {asked}."
    for number, (output, value) in enumerate(zip(outputs, wanted, strict=True)):
        allowed = rounding * (_unit(value) + (spread[number] if spread else 0.0))
        with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, and off
            off = [
                float(np.max(np.abs(np.asarray(shard.data) - value[shard.index]), initial=0))
                for shard in output.addressable_shards
            ]
        # A coarser type would be let off with coarser values.
        if output.dtype != value.dtype:
            return "dtype", _of_other_type(output, value, max(off))
        right = [each <= allowed for each in off]  # so that NaN is off
        if not all(right) and _copies_disagree(output, allowed):
            return "copies-disagree", (
                "Devices that should hold the same block hold different numbers. Does each have "
                "its own part of a sum, or its own data, that was never combined?"
            )
        if not any(right):
            return "values", "The values are wrong."
        if not all(right):
            devices = f"{right.count(False)} of {len(right)} devices"
            return "values", f"The values are wrong on {devices}."
    return None


def are_alike_where_finite(
    outputs: Sequence[jax.Array], others: Sequence[Any], rounding: float
) -> bool:
    """Whether outputs have infinities and NaNs where others have them, and are near elsewhere.

    Where one has an infinity, the other may have NaN: a divisor that is not quite zero makes that
    difference.
    """
    if [(o.shape, o.dtype) for o in outputs] != [(o.shape, o.dtype) for o in others]:
        return False
    for output, other in zip(map(np.asarray, outputs), map(np.asarray, others), strict=True):
        finite = np.isfinite(other)
        if not np.array_equal(np.isfinite(output), finite):
            return False
        came, wanted = np.where(finite, output, 0), np.where(finite, other, 0)
        if np.max(np.abs(came - wanted), initial=0) > rounding * _unit(wanted.astype(other.dtype)):
            return False
    return True


def is_near(came: Any, wanted: Any) -> bool:
    """Whether a block's values are those of another, but for rounding."""
    with np.errstate(invalid="ignore"):
        off = np.max(np.abs(np.asarray(came) - wanted), initial=0)
    return bool(off <= ROUNDING * _unit(wanted))  # so that NaN is off


def worst_place(
    outputs: Sequence[jax.Array], wanted: Sequence[Any], names: Sequence[str] = ()
) -> str:
    """Where values are furthest off, with what is there and what is right; or nothing.

    Such as `1.5 at [0, 3] on device 2; it should be 0.75`.

    Args:
        outputs: what a program gave.
        wanted: what is right.
        names: what each of them is called, where there are several.
    """
    if len(outputs) != len(wanted):
        return ""
    furthest, said = 0.0, ""
    for number, (output, value) in enumerate(zip(outputs, wanted, strict=True)):
        if output.shape != value.shape:
            return ""
        for shard in output.addressable_shards:
            came, right = np.asarray(shard.data), np.asarray(value[shard.index])
            with np.errstate(invalid="ignore"):
                off = np.abs(wide(came) - wide(right))
            off = np.where(np.isnan(off), np.inf, off)
            # the first of those that are about as far off: of equals, rounding would choose
            if not off.size or off.max() <= furthest * CLEARLY_FURTHER:
                continue
            place = np.unravel_index(int((off * CLEARLY_FURTHER >= off.max()).argmax()), off.shape)
            starts = [part.start or 0 for part in shard.index]
            at = ", ".join(str(int(i) + s) for i, s in zip(place, starts, strict=True))
            where = f"at [{at}] " if at else ""
            where += f"of {names[number]} " if names else ""
            furthest = float(off.max())
            found, wanted_number = _in_digits(came[place], right[place])
            said = f"{found} {where}on device {shard.device.id}; it should be {wanted_number}"
    return said


def _in_digits(came: Any, right: Any) -> tuple[str, str]:
    """Two numbers in as many digits as tell them apart, and no more than are needed."""
    if not np.issubdtype(np.result_type(came, right), np.inexact):
        return str(came), str(right)
    for digits in (4, 6):
        said = f"{came:.{digits}g}", f"{right:.{digits}g}"
        if said[0] != said[1]:
            break
    return said


def _copies_disagree(output: jax.Array, allowed: float) -> bool:
    """Whether devices hold other numbers than those that hold the same block."""
    first: dict[str, np.ndarray] = {}
    for shard in output.addressable_shards:
        data = np.asarray(shard.data)
        other = first.setdefault(str(shard.index), data)
        with np.errstate(invalid="ignore"):
            if np.max(np.abs(data - other), initial=0) > allowed:
                return True
    return False


def is_right_to_few_digits(outputs: Sequence[jax.Array], wanted: Sequence[Any]) -> bool:
    """Whether every value is off by no more than the last place of bfloat16."""
    coarse = _last_place(jnp.bfloat16)
    return all(
        output.shape == value.shape
        and bool(np.all(np.abs(np.asarray(output) - value) <= coarse * np.abs(value)))
        for output, value in zip(outputs, wanted, strict=True)
    )


def is_close_throughout(outputs: Sequence[jax.Array], wanted: Sequence[Any]) -> bool:
    """Whether values are right even if all of them are small.

    `compare` lets through as much for values below 1 as for 1.
    """
    for output, value in zip(outputs, wanted, strict=True):
        most = float(np.max(np.abs(value), initial=0))
        far = np.max(np.abs(wide(output) - wide(value)), initial=0)
        allowed = most * ROUNDING * _last_place(jnp.float32) * math.sqrt(value.size)
        if most < 1 and far > allowed:
            return False
    return True


def wide(array: Any) -> np.ndarray:
    """Numbers in a type in which their differences are exact enough, complex ones as such."""
    made = np.asarray(array)
    return made.astype(np.complex128 if np.iscomplexobj(made) else np.float64)


def typed(array: Any) -> str:
    """An array's type and shape: `float32[16,8]`."""
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"


def _spread(reference: Arrays, inputs: Sequence[np.ndarray], wanted: Sequence[Any]) -> list[float]:
    """For each result, how far it moves with the last places of the inputs."""
    generator = np.random.default_rng(0)
    most = [0.0] * len(wanted)
    for _ in range(NUDGES):
        moved = jax.tree.leaves(reference(*(_nudged(array, generator) for array in inputs)))
        for number, (there, here) in enumerate(zip(moved, wanted, strict=True)):
            far = float(np.max(np.abs(there - here), initial=0)) if _unit(here) else 0.0
            most[number] = max(most[number], far)
    largest = [float(np.max(np.abs(value), initial=1)) for value in wanted]
    return [
        min(far, MAX_TOLERANCE / ROUNDING * size) for far, size in zip(most, largest, strict=True)
    ]


def _nudged(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """An array each of whose numbers is off by its last place, up or down."""
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    signs = generator.choice([-1.0, 1.0], array.shape)
    return np.asarray(array * (1 + signs * _last_place(array.dtype))).astype(array.dtype)


def _unit(value: Any) -> float:
    """A unit in the last place of an array's largest number, and more where it has many."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return 0.0
    scale = float(np.max(np.abs(value), initial=1)) * math.sqrt(max(value.size, 1))
    return _last_place(value.dtype) * scale


def _last_place(dtype: Any) -> float:
    """A unit in the last place of 1; of bfloat16, only JAX knows it."""
    finfo: Any = jnp.finfo
    return float(finfo(dtype).eps)


def _of_other_type(output: jax.Array, value: Any, off: float) -> str:
    """What is said of an output whose type is another than was asked for."""
    kinds = [jnp.issubdtype(d, jnp.inexact) for d in (output.dtype, value.dtype)]
    coarser = max(map(_last_place, (output.dtype, value.dtype))) if all(kinds) else 0
    near = coarser * float(np.max(np.abs(value), initial=1))
    but = "The values are right, but the" if off <= near else "The"
    return f"{but} dtype is {output.dtype.name}; expected {value.dtype.name}."
