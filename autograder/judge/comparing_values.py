"""Compare a program's results with the reference, within a tolerance for rounding.

The tolerance follows from the computation. A right program may add up in another order than the
reference, so its error is about as large as the change of the result when each input changes in its
last place. Where numbers cancel, that is much more than a last place of the result.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.judge.diagnoses import COPIES_DISAGREE, WRONG_DTYPE, WRONG_SHAPE, WRONG_VALUES
from shardlings.documents import with_noun

ROUNDING: Final = 16
"""The tolerance, in units in the last place times the largest value and the root of the size."""

LENIENT: Final = 100 * ROUNDING
"""The tolerance for recognising a mistake, whose values may be differences of large numbers."""

MAX_TOLERANCE: Final = 1e-3
"""The largest tolerance for rounding, relative to the largest value."""

MAX_SHORT_TOLERANCE: Final = 0.5
"""The largest tolerance of all, for types of so few bits that `ROUNDING` would allow anything."""

MAX_MISTAKEN: Final = 0.02
"""The same for a mistake that makes rounding errors grow, as a nearly singular matrix does."""

MAX_JUST_OVERFLOWING: Final = 0.05
"""The largest share of places in which only one of two arrays overflows, if they are alike."""

MIN_COMPARED: Final = 0.5
"""The least share of places in which such arrays do not overflow."""

CLEARLY_FURTHER: Final = 1.001
"""A later value is reported as the worst only if it is by this factor further off."""

NUDGES: Final = 4
"""The number of times that inputs are changed in their last places to compute the tolerance."""

ArrayFunction = Callable[..., Any]
"""A function of arrays that returns arrays."""

Wrong = tuple[str, str]
"""A diagnosis, and a sentence for the learner."""


def compare(
    reference: ArrayFunction,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[jax.Array],
    names: Sequence[str] = (),
) -> Wrong | None:
    """Compare a program's outputs with the reference's.

    Args:
        reference: computes the right outputs.
        inputs: the inputs.
        outputs: the program's outputs, flattened; the blocks of all devices are compared.
        names: the names of the outputs, if they have names.

    Returns:
        What is wrong, or None.
    """
    wanted = jax.tree.leaves(reference(*inputs))
    wrong = compare_outputs(outputs, wanted, names=names)
    if wrong is None or wrong[0] != WRONG_VALUES:
        return wrong
    spread = _spread(reference, inputs, wanted)
    return compare_outputs(outputs, wanted, spread=spread, names=names)


def compare_outputs(
    outputs: Sequence[jax.Array],
    wanted: Sequence[Any],
    rounding: float = ROUNDING,
    spread: Sequence[float] = (),
    names: Sequence[str] = (),
) -> Wrong | None:
    """Compare a program's outputs with the right ones.

    Args:
        outputs: the program's outputs.
        wanted: the right ones.
        rounding: the tolerance, in scaled units in the last place; see `ROUNDING`.
        spread: for each output, how much it changes when the inputs change in their last places.
        names: the names of the outputs, if they have names.

    Returns:
        What is wrong, or None.
    """
    if len(outputs) != len(wanted):
        got, expected = (with_noun(len(a), "array") for a in (outputs, wanted))
        return WRONG_SHAPE, f"The function returned {got}; expected {expected}."
    if [o.shape for o in outputs] != [w.shape for w in wanted]:
        got, expected = (", ".join(map(describe_array, arrays)) for arrays in (outputs, wanted))
        return WRONG_SHAPE, f"The function returned {got}; expected {expected}."
    for number, (output, value) in enumerate(zip(outputs, wanted, strict=True)):
        allowed = min(
            rounding * (_unit(value) + (spread[number] if spread else 0.0)),
            MAX_SHORT_TOLERANCE * find_largest(value, at_least=1),
        )
        distances = [
            float(np.max(measure_differences(shard.data, value[shard.index]), initial=0))
            for shard in output.addressable_shards
        ]
        # Before values are compared: the tolerance of a coarser type would be too large.
        if output.dtype != value.dtype:
            name = names[number] if names else f"result {number + 1}"
            which = f" of {name}" if len(outputs) > 1 else ""
            is_only = not any(
                compare_outputs([outputs[i]], [wanted[i]], rounding, spread[i : i + 1])
                for i in range(len(outputs))
                if i != number
            )
            return WRONG_DTYPE, _of_other_type(
                output, value, max(distances) if is_only else np.inf, which
            )
        is_right = [each <= allowed for each in distances]
        if not all(is_right) and _copies_disagree(output, allowed):
            return COPIES_DISAGREE, (
                "Devices that should hold the same block hold different numbers. Does each have "
                "its own part of a sum, or its own data, that was never combined?"
            )
        if not any(is_right):
            return WRONG_VALUES, "The values are wrong."
        if not all(is_right):
            devices = f"{is_right.count(False)} of {len(is_right)} devices"
            return WRONG_VALUES, f"The values are wrong on {devices}."
    return None


def is_like_mistake(
    mistaken: ArrayFunction,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[jax.Array],
    made: Sequence[Any],
) -> bool:
    """Check whether outputs are a mistake's results, up to rounding errors that it makes grow.

    Args:
        mistaken: the function with the mistake.
        inputs: the inputs.
        outputs: the program's outputs.
        made: what `mistaken` returned for these inputs.
    """
    if compare_outputs(outputs, made, LENIENT) is None:
        return True
    largest = [MAX_MISTAKEN / ROUNDING * find_largest(a) for a in made]
    if compare_outputs(outputs, made, spread=largest) is not None:
        return False
    spread = _spread(mistaken, inputs, made, MAX_MISTAKEN)
    return compare_outputs(outputs, made, spread=spread) is None


def is_alike_where_finite(outputs: Sequence[jax.Array], others: Sequence[Any]) -> bool:
    """Check whether arrays overflow in the same places, and are close in all others.

    An infinity in one may be a NaN in the other: a divisor near zero makes that difference. A sum
    that just overflows may do so in one of the arrays only, because they add up in different
    orders. So a few places may overflow in one array only, or be 0 in one only, which is what a
    number divided by an infinity is.
    """
    if [(o.shape, o.dtype) for o in outputs] != [(o.shape, o.dtype) for o in others]:
        return False
    for output, other in zip(map(np.asarray, outputs), map(np.asarray, others), strict=True):
        overflows = _overflows(output), _overflows(other)
        neither = ~overflows[0] & ~overflows[1]
        actual, wanted = np.where(neither, output, 0), np.where(neither, other, 0)
        far = measure_differences(actual, wanted) > LENIENT * _unit(wanted.astype(other.dtype))
        once = (overflows[0] != overflows[1]) | (far & ((actual == 0) | (wanted == 0)))
        if (far & ~once).any():
            return False
        if once.any() and not _may_just_overflow(once, both=overflows[0] & overflows[1]):
            return False
    return True


def _overflows(array: np.ndarray) -> np.ndarray:
    """Return where numbers are not finite, or so large that their divisor was hardly above 0."""
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return np.zeros(array.shape, bool)
    finfo: Any = jnp.finfo  # NumPy does not know bfloat16
    most = float(finfo(array.dtype).max) * _last_place(array.dtype)
    is_small: np.ndarray = np.abs(array) <= most  # False for NaN
    return ~is_small


def _may_just_overflow(once: np.ndarray, both: np.ndarray) -> bool:
    """Check whether rounding may decide what overflows in one of two arrays only.

    Args:
        once: where one array overflows. This has to be rare, and rarer than in both.
        both: where both do. This has to leave enough places to compare.
    """
    few = min(both.sum(), MAX_JUST_OVERFLOWING * once.size)
    return bool(once.sum() <= few and (once | both).mean() <= 1 - MIN_COMPARED)


def is_near(actual: Any, wanted: Any) -> bool:
    """Check whether the values of two blocks are equal up to rounding."""
    distance = np.max(measure_differences(actual, wanted), initial=0)
    return bool(distance <= ROUNDING * _unit(wanted))


def find_worst_element(
    outputs: Sequence[jax.Array], wanted: Sequence[Any], names: Sequence[str] = ()
) -> str:
    """Describe the value that is furthest off: `1.5 at [0, 3] on device 2; it should be 0.75`.

    Args:
        outputs: the program's outputs.
        wanted: the right ones.
        names: the names of the outputs, if there are several.

    Returns:
        The description; empty if all values are right.
    """
    if len(outputs) != len(wanted):
        return ""
    furthest, description = 0.0, ""
    for number, (output, value) in enumerate(zip(outputs, wanted, strict=True)):
        if output.shape != value.shape:
            return ""
        for shard in output.addressable_shards:
            actual, right = np.asarray(shard.data), np.asarray(value[shard.index])
            differences = measure_differences(actual, right)
            # of values that are about equally far off, the first: else rounding would decide
            if not differences.size or differences.max() <= furthest * CLEARLY_FURTHER:
                continue
            is_furthest = differences * CLEARLY_FURTHER >= differences.max()
            place = np.unravel_index(int(is_furthest.argmax()), differences.shape)
            starts = [part.start or 0 for part in shard.index]
            position = ", ".join(str(int(i) + s) for i, s in zip(place, starts, strict=True))
            where = f"at [{position}] " if position else ""
            where += f"of {names[number]} " if names else ""
            where += f"on device {shard.device.id}" if len(output.sharding.device_set) > 1 else ""
            furthest = float(differences.max())
            got, expected = format_pair(actual[place], right[place])
            description = f"{f'{got} {where}'.rstrip()}; it should be {expected}"
    return description


def format_pair(actual: Any, right: Any, at_least: int = 4) -> tuple[str, str]:
    """Format two numbers with a few digits, or with as many as show that they differ."""
    if not all(jnp.issubdtype(np.asarray(each).dtype, jnp.inexact) for each in (actual, right)):
        return str(actual), str(right)
    actual, right = widen(actual)[()], widen(right)[()]  # short floats have no `.4g`
    for digits in (at_least, 6, 9, 17):  # float32 needs nine, and float64 seventeen
        pair = f"{actual:.{digits}g}", f"{right:.{digits}g}"
        if pair[0] != pair[1]:
            break
    return pair


def _copies_disagree(output: jax.Array, allowed: float) -> bool:
    """Check whether devices that hold the same block hold different values."""
    first: dict[str, np.ndarray] = {}
    for shard in output.addressable_shards:
        data = np.asarray(shard.data)
        other = first.setdefault(str(shard.index), data)
        if np.max(measure_differences(data, other), initial=0) > allowed:
            return True
    return False


def is_right_to_few_digits(outputs: Sequence[jax.Array], wanted: Sequence[Any]) -> bool:
    """Check whether every value is right within the last place of bfloat16."""
    coarse = _last_place(jnp.bfloat16)
    return len(outputs) == len(wanted) and all(
        output.shape == value.shape
        and bool(np.all(measure_differences(output, value) <= coarse * _finite_sizes(value)))
        for output, value in zip(outputs, wanted, strict=True)
    )


def is_close_throughout(
    reference: ArrayFunction, inputs: Sequence[np.ndarray], outputs: Sequence[jax.Array]
) -> bool:
    """Check whether values are right relative to the largest one, even if all are below 1.

    The tolerance of `compare` is the same for values below 1 as for 1.
    """
    wanted = jax.tree.leaves(reference(*inputs))
    spreads = _spread(reference, inputs, wanted)  # sums of larger numbers are less exact
    for output, value, spread in zip(outputs, wanted, spreads, strict=True):
        most = find_largest(value)
        far = np.max(measure_differences(output, value), initial=0)
        unit = most * _last_place(jnp.float32) * math.sqrt(value.size)
        if most < 1 and far > ROUNDING * (unit + spread):
            return False
    return True


def widen(array: Any) -> np.ndarray:
    """Convert to float64 or complex128, so that differences are exact enough."""
    values = np.asarray(array)
    return values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)


def measure_differences(actual: Any, wanted: Any) -> np.ndarray:
    """Return how far each value is from the right one, as a float64 array.

    The difference is 0 between equal infinities and between NaNs, and infinite between any other
    value and one of these. Values of different types are compared as float64 or complex128.
    """
    arrays = np.asarray(actual), np.asarray(wanted)
    wide = widen(arrays[0]), widen(arrays[1])
    are_of_one_type = arrays[0].dtype == arrays[1].dtype
    is_equal = np.equal(*(arrays if are_of_one_type else wide))
    is_equal |= np.isnan(wide[0]) & np.isnan(wide[1])
    with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity
        differences = np.abs(wide[0] - wide[1])
    if are_of_one_type and jnp.issubdtype(arrays[0].dtype, jnp.integer):
        differences = np.maximum(differences, 1)  # 64-bit integers may be equal as float64
    return np.where(is_equal, 0.0, np.where(np.isnan(differences), np.inf, differences))


def find_largest(array: Any, at_least: float = 0.0) -> float:
    """Return the largest absolute value, leaving out infinities and NaNs."""
    return float(np.max(_finite_sizes(array), initial=at_least))


def _finite_sizes(array: Any) -> np.ndarray:
    """Return the absolute values, with 0 for infinities and NaNs."""
    wide = widen(array)
    return np.where(np.isfinite(wide), np.abs(wide), 0.0)


def is_finite(array: Any) -> bool:
    """Check whether an array has no infinity and no NaN."""
    return bool(np.isfinite(widen(array)).all())


def describe_array(array: Any) -> str:
    """Return an array's type and shape: `float32[16,8]`."""
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"


def _spread(
    reference: ArrayFunction,
    inputs: Sequence[np.ndarray],
    wanted: Sequence[Any],
    most_of_largest: float = MAX_TOLERANCE,
) -> list[float]:
    """Compute how much each result changes when the inputs change in their last places."""
    generator = np.random.default_rng(0)
    most = [0.0] * len(wanted)
    for _ in range(NUDGES):
        moved = jax.tree.leaves(reference(*(_nudged(array, generator) for array in inputs)))
        for number, (there, here) in enumerate(zip(moved, wanted, strict=True)):
            if _unit(here):
                differences = measure_differences(there, here)
                change = float(np.max(differences, initial=0, where=np.isfinite(differences)))
                most[number] = max(most[number], change)
    largest = [find_largest(value, at_least=1) for value in wanted]
    return [
        min(change, most_of_largest / ROUNDING * size)
        for change, size in zip(most, largest, strict=True)
    ]


def _nudged(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Change each number in its last place, up or down."""
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    signs = generator.choice([-1.0, 1.0], array.shape)
    return np.asarray(array * (1 + signs * _last_place(array.dtype))).astype(array.dtype)


def _unit(value: Any) -> float:
    """Return a unit in the last place of the largest value, times the root of the size."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return 0.0
    scale = find_largest(value, at_least=1) * math.sqrt(max(value.size, 1))
    return _last_place(value.dtype) * scale


def _last_place(dtype: Any) -> float:
    """Return a unit in the last place of 1."""
    finfo: Any = jnp.finfo  # NumPy does not know bfloat16
    return float(finfo(dtype).eps)


def _of_other_type(output: jax.Array, value: Any, distance: float, which: str) -> str:
    """Return the sentence for an output of another type, and which of several outputs it is."""
    kinds = [jnp.issubdtype(d, jnp.inexact) for d in (output.dtype, value.dtype)]
    coarser = max(map(_last_place, (output.dtype, value.dtype))) if all(kinds) else 0
    tolerance = coarser * find_largest(value, at_least=1)
    up_to_rounding = " up to rounding" * (distance > 0)
    start = f"The values are right{up_to_rounding}, but the" if distance <= tolerance else "The"
    return f"{start} dtype{which} is {output.dtype.name}; expected {value.dtype.name}."
