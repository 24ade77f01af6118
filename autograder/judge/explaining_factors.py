"""Explain wrong values by what they were multiplied by, or what was added to all of them."""

import math
from collections.abc import Collection, Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts import Argument, sharding_of
from autograder.judge.comparing_values import (
    LENIENT,
    ROUNDING,
    ArrayFunction,
    Wrong,
    find_largest,
    is_finite,
    widen,
)
from autograder.judge.running_programs import SampledRun

MAX_INTEGER_FACTOR: Final = 128
"""Larger factors are written as decimals."""

FACTOR_TOLERANCE: Final = 1e-5
"""Relative difference of the factors found for two samples of the inputs."""

CHANGE_TOLERANCE: Final = 0.02
"""The tolerance for a change that is a multiple of the right one: parts may be in bfloat16."""

EPS: Final = float(np.finfo(np.float32).eps)


def find_factor(outputs: Sequence[jax.Array], wanted: Sequence[Any]) -> float | None:
    """Find the factor that every value was multiplied by, if nothing else is wrong."""
    if any(np.asarray(value).dtype == bool for value in wanted):
        return None
    values = np.concatenate([np.ravel(widen(w)) for w in wanted] or [np.empty(0)])
    actual = np.concatenate([np.ravel(widen(o)) for o in outputs] or [np.empty(0)])
    if values.shape != actual.shape or not values.any():
        return None
    if not np.isfinite(values).all() or not np.isfinite(actual).all():
        return None
    factor = float((np.vdot(values, actual) / np.vdot(values, values)).real)
    rest = np.max(np.abs(actual - factor * values))
    tolerance = LENIENT * np.finfo(np.float32).eps * abs(factor) * np.max(np.abs(values))
    is_factor = rest <= tolerance and not math.isclose(factor, 1, rel_tol=1e-3)
    return factor if is_factor and factor else None


def describe_factor(factor: float) -> str:
    """Return `8 times`, `1/8 of`, or `minus`."""
    if math.isclose(factor, -1, rel_tol=1e-4):
        return "minus"
    size = abs(factor)
    integer, divisor = round(size), round(1 / size)
    if integer <= MAX_INTEGER_FACTOR and math.isclose(size, integer, rel_tol=1e-4):
        words = f"{integer} times"
    elif divisor <= MAX_INTEGER_FACTOR and math.isclose(size * divisor, 1, rel_tol=1e-4):
        words = f"1/{divisor} of"
    else:
        words = f"{size:.4g} times"
    return words if factor > 0 else f"minus {words}"


def explain_factor(
    reference: ArrayFunction,
    arguments: Sequence[str],
    runs: Sequence[SampledRun],
    argument_lists: Sequence[Sequence[Argument]] = (),
    names: Sequence[str] = (),
) -> Wrong | None:
    """Say what every value was multiplied by, if nothing else is wrong in any case.

    Args:
        reference: computes the right results.
        arguments: the arguments of each program, in words.
        runs: the inputs and results of each program.
        argument_lists: the arguments of each program.
        names: the names of the arguments.
    """
    arguments_by_factor: dict[str, str] = {}
    factors = []
    for (samples, ran), in_words in zip(runs, arguments, strict=True):
        sample_factors = [
            find_factor(outputs, jax.tree.leaves(reference(*inputs)))
            for inputs, outputs in zip(samples, ran.outputs, strict=True)
        ]
        first = sample_factors[0]
        if first is None or any(
            other is None or not math.isclose(first, other, rel_tol=FACTOR_TOLERANCE)
            for other in sample_factors
        ):
            return None
        factors.append(first)
        arguments_by_factor.setdefault(describe_factor(first), in_words)
    first_factor, *others = arguments_by_factor
    sentence = f"Every value is {first_factor} what it should be"
    sentence += "".join(
        f"; for {arguments_by_factor[other]}, it is {other} what it should be" for other in others
    )
    reduced = {
        axis
        for _, ran in runs
        for collective in (*ran.requested, *ran.report.collectives)
        if collective.traits.reduces
        for axis in collective.axes
    }
    return (
        "off-by-a-factor",
        f"{sentence}.{_name_equal_size(factors, argument_lists, names, reduced)}",
    )


def _name_equal_size(
    factors: Sequence[float],
    argument_lists: Sequence[Sequence[Argument]],
    names: Sequence[str],
    reduced: Collection[str],
) -> str:
    """Name the size of the mesh or of an argument that equals the factor in every case.

    The number of devices along an axis is named only if the program reduces over this axis;
    otherwise, an equal factor may be a coincidence.
    """
    if not argument_lists or not all(abs(math.log(abs(f))) > 0.1 for f in factors):
        return ""
    is_large = abs(factors[0]) > 1
    wanted = [abs(f) if is_large else 1 / abs(f) for f in factors]
    sizes = [_name_sizes(arguments, names) for arguments in argument_lists]
    equal_sizes = [
        name
        for name in sizes[0]
        if all(
            math.isclose(each.get(name, 0), size, rel_tol=1e-4)
            for each, size in zip(sizes, wanted, strict=True)
        )
    ]
    if not equal_sizes:
        return ""
    number = "That number" if is_large else "The divisor"
    if equal_sizes[0].startswith("the number of devices"):
        axis = equal_sizes[0].removeprefix("the number of devices").removeprefix(" along ")
        if not set(reduced).issuperset([axis] if axis else dict(argument_lists[0][0].axes)):
            return ""
        over_axis = f" over {axis}" if axis else ""
        why = (
            f"is something added up{over_axis} that is the same on all devices already, or is a "
            f"divisor a mean that should be a sum?"
            if is_large
            else f"is a mean taken{over_axis} where a sum is needed, or is something divided twice?"
        )
        return f" {number} is {equal_sizes[0]}: {why}"
    if len(equal_sizes) > 1:
        return ""
    why = (
        "is something multiplied by it, or not divided"
        if is_large
        else "is something divided by it"
    )
    return f" {number} is {equal_sizes[0]}: {why}?"


def _name_sizes(arguments: Sequence[Argument], names: Sequence[str]) -> dict[str, int]:
    """Return the sizes that a factor may be equal to, by name; numbers of devices first."""
    axes = dict(arguments[0].axes)
    sizes = {f"the number of devices along {name}": size for name, size in axes.items()}
    if len(axes) > 1:
        sizes["the number of devices"] = math.prod(axes.values())
    for name, argument in zip(names, arguments, strict=False):
        block = sharding_of(argument).shard_shape(argument.shape)
        for d, (length, block_length) in enumerate(zip(argument.shape, block, strict=True)):
            sizes[f"the length of dimension {d} of {name}"] = length
            if block_length != length:
                sizes[f"the length of dimension {d} of a device's block of {name}"] = block_length
        if len(argument.shape) > 1:
            sizes[f"the number of elements of {name}"] = math.prod(argument.shape)
    return {name: size for name, size in sizes.items() if size > 1}


def explain_varying_factors(reference: ArrayFunction, runs: Sequence[SampledRun]) -> Wrong | None:
    """Say that all values are off by one factor, which is another one for other inputs."""
    for samples, ran in runs:
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            wanted = jax.tree.leaves(reference(*inputs))
            if sum(each.size for each in wanted) == 1 or find_factor(outputs, wanted) is None:
                return None
    return "off-by-varying-factors", (
        "All values are off by one factor, which differs from input to input. Is the result "
        "multiplied or divided by something that follows from the inputs, such as a sum?"
    )


def explain_change(
    reference: ArrayFunction,
    arguments: Sequence[str],
    runs: Sequence[SampledRun],
    names: Sequence[str],
    may_differ: bool = False,
) -> Wrong | None:
    """Say how many times too large or too small the change of an argument is, in each case.

    Args:
        reference: computes the right results.
        arguments: the arguments of each program, in words.
        runs: the inputs and results of each program.
        names: the names of the arguments.
        may_differ: whether the number may differ by case, and the result be the change alone.
    """
    for number, name in enumerate(names):
        arguments_by_factor: dict[str, str] = {}
        is_change = True
        for (samples, ran), in_words in zip(runs, arguments, strict=True):
            factors: set[str] = set()
            for inputs, outputs in zip(samples, ran.outputs, strict=True):
                wanted = jax.tree.leaves(reference(*inputs))
                given = inputs[number]
                if len(outputs) != 1 or len(wanted) != 1:
                    return None
                if not outputs[0].shape == wanted[0].shape == given.shape:
                    return None
                if wanted[0].dtype == bool or not is_finite(wanted[0]):
                    return None
                right, made = (widen(each) - widen(given) for each in (wanted[0], outputs[0]))
                factors.add(_describe_multiple(right, made))
                is_change = is_change and _is_change(right, widen(outputs[0]))
            arguments_by_factor.setdefault(factors.pop() if len(factors) == 1 else "", in_words)
        if may_differ and is_change:
            return "change-alone", f"The result is the change of {name}, and not the new {name}."
        if "" not in arguments_by_factor and (may_differ or len(arguments_by_factor) == 1):
            first, *others = arguments_by_factor
            sentence = f"The change of {name} is {first} what it should be" + "".join(
                f"; for {arguments_by_factor[other]}, it is {other} what it should be"
                for other in others
            )
            return "other-change", (
                f"{sentence}. Is something left out that multiplies or divides it?"
            )
    return None


def _is_change(right: np.ndarray, made: np.ndarray) -> bool:
    """Check whether an array is about the right change of an argument, or minus this."""
    tolerance = CHANGE_TOLERANCE * np.max(np.abs(right), initial=0)
    return bool(right.any()) and min(np.max(np.abs(made - s * right)) for s in (1, -1)) <= tolerance


def _describe_multiple(right: np.ndarray, made: np.ndarray) -> str:
    """Describe a whole number, or 1 by one, with which one array is about a multiple of another."""
    if not right.any() or not np.isfinite(made).all():
        return ""
    factor = float(np.vdot(right, made).real / np.vdot(right, right).real)
    tolerance = CHANGE_TOLERANCE * abs(factor) * np.max(np.abs(right))
    if not factor or np.max(np.abs(made - factor * right)) > tolerance:
        return ""
    is_large = abs(factor) > 1
    size = abs(factor) if is_large else 1 / abs(factor)
    few_digits = float(f"{size:.2g}")  # of large ones, the rest may be rounding
    is_close = math.isclose(size, few_digits, rel_tol=CHANGE_TOLERANCE / 2)
    whole = round(few_digits if is_close else size)
    if whole == 1 or not math.isclose(size, whole, rel_tol=CHANGE_TOLERANCE):
        return ""
    return f"about {describe_factor(math.copysign(whole if is_large else 1 / whole, factor))}"


def explain_constant(
    reference: ArrayFunction, arguments: Sequence[str], runs: Sequence[SampledRun]
) -> Wrong | None:
    """Say what was added to every value, if nothing else is wrong in any case."""
    arguments_by_constant: dict[str, str] = {}
    for (samples, ran), in_words in zip(runs, arguments, strict=True):
        added: list[float] = []
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            wanted = jax.tree.leaves(reference(*inputs))
            is_single = len(outputs) == len(wanted) == 1 and outputs[0].shape == wanted[0].shape
            if not is_single or not wanted[0].size or wanted[0].dtype == bool:
                return None
            arrays = outputs[0], wanted[0]
            if any(map(np.iscomplexobj, arrays)) or not all(map(is_finite, arrays)):
                return None
            differences = widen(outputs[0]) - widen(wanted[0])
            tolerance = 10 * ROUNDING * EPS * find_largest(wanted[0], at_least=1)
            mean = float(differences.mean())
            if abs(mean) < 10 * tolerance or np.max(np.abs(differences - mean)) > tolerance:
                return None
            if added and abs(added[0] - mean) > tolerance:
                return None
            added.append(mean)
        size = abs(added[0])
        is_integer = round(size) > 0 and abs(size - round(size)) < 1e-3
        shown = f"{round(size)}" if is_integer else f"{size:.3g}"
        arguments_by_constant.setdefault(
            f"{shown} too {'large' if added[0] > 0 else 'small'}", in_words
        )
    first, *others = arguments_by_constant
    sentence = f"Every value is {first}"
    sentence += "".join(f"; for {arguments_by_constant[other]}, it is {other}" for other in others)
    return "off-by-a-constant", f"{sentence}. Was something added that should not be, or left out?"
