"""Recognise values that are wrong by one factor or one difference, and say which."""

import math
from collections.abc import Collection, Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.judge.comparing_values import LENIENT, ROUNDING, Arrays, Wrong, wide
from autograder.judge.running_programs import Run
from autograder.programs import Argument, placed

MAX_WHOLE_FACTOR: Final = 128
"""Larger factors are told as decimals."""

FACTOR_TOLERANCE: Final = 1e-5
"""Relative difference of the factors found for two samples of the inputs."""

EPS: Final = float(np.finfo(np.float32).eps)


def factor(outputs: Sequence[jax.Array], wanted: Sequence[Any]) -> float | None:
    """What every value has been multiplied by, where that is all that is wrong."""
    values = np.concatenate([np.ravel(wide(w)) for w in wanted] or [np.empty(0)])
    came = np.concatenate([np.ravel(wide(o)) for o in outputs] or [np.empty(0)])
    if values.shape != came.shape or not values.any() or not np.isfinite(came).all():
        return None
    found = float((np.vdot(values, came) / np.vdot(values, values)).real)
    rest = np.max(np.abs(came - found * values))
    near = LENIENT * np.finfo(np.float32).eps * abs(found) * np.max(np.abs(values))
    return found if rest <= near and not math.isclose(found, 1, rel_tol=1e-3) and found else None


def in_words(found: float) -> str:
    """A factor as it is said: `8 times`, `1/8 of`, `minus`."""
    if math.isclose(found, -1, rel_tol=1e-4):
        return "minus"
    size = abs(found)
    whole, part = round(size), round(1 / size)
    if whole <= MAX_WHOLE_FACTOR and math.isclose(size, whole, rel_tol=1e-4):
        said = f"{whole} times"
    elif part <= MAX_WHOLE_FACTOR and math.isclose(size * part, 1, rel_tol=1e-4):
        said = f"1/{part} of"
    else:
        said = f"{size:.4g} times"
    return said if found > 0 else f"minus {said}"


def off_by_a_factor(
    reference: Arrays,
    arguments: Sequence[str],
    runs: Sequence[Run],
    asked: Sequence[Sequence[Argument]] = (),
    names: Sequence[str] = (),
) -> Wrong | None:
    """Say what every value was multiplied by, if that is all that is wrong, in every case.

    Args:
        reference: what gives the right results.
        arguments: what each program was given, in words.
        runs: what each program made of what it was given.
        asked: the same arguments as the exercise has them.
        names: what they are called.
    """
    said: dict[str, str] = {}
    factors = []
    for (draws, ran), these in zip(runs, arguments, strict=True):
        found = [
            factor(outputs, jax.tree.leaves(reference(*inputs)))
            for inputs, outputs in zip(draws, ran.outputs, strict=True)
        ]
        first = found[0]
        if first is None or any(
            other is None or not math.isclose(first, other, rel_tol=FACTOR_TOLERANCE)
            for other in found
        ):
            return None
        factors.append(first)
        said.setdefault(in_words(first), these)
    first_said, *others = said
    sentence = f"Every value is {first_said} what it should be"
    sentence += "".join(f"; for {said[each]}, it is {each} what it should be" for each in others)
    reduced = {
        axis
        for _, ran in runs
        for collective in (*ran.requested, *ran.report.collectives)
        if collective.traits.reduces
        for axis in collective.axes
    }
    return "off-by-a-factor", f"{sentence}.{_which_size(factors, asked, names, reduced)}"


def _which_size(
    factors: Sequence[float],
    asked: Sequence[Sequence[Argument]],
    names: Sequence[str],
    reduced: Collection[str],
) -> str:
    """Which size of the mesh or of an argument a factor is in every case, if it is just one.

    The number of devices along an axis is named only where the program reduces over this axis:
    elsewhere a factor of two is a coincidence.
    """
    if not asked or not all(abs(math.log(abs(f))) > 0.1 for f in factors):
        return ""
    large = abs(factors[0]) > 1
    wanted = [abs(f) if large else 1 / abs(f) for f in factors]
    sizes = [_sizes(arguments, names) for arguments in asked]
    same = [
        name
        for name in sizes[0]
        if all(
            math.isclose(each.get(name, 0), size, rel_tol=1e-4)
            for each, size in zip(sizes, wanted, strict=True)
        )
    ]
    if not same:
        return ""
    number = "That number" if large else "The number that it is divided by"
    if same[0].startswith("the number of devices"):
        along = same[0].removeprefix("the number of devices").removeprefix(" along ")
        if not set(reduced).issuperset([along] if along else dict(asked[0][0].axes)):
            return ""
        over = f" over {along}" if along else ""
        why = (
            f"is something added up{over} that is the same on all devices already, or divided by "
            f"a mean where a sum is needed?"
            if large
            else f"is a mean taken{over} where a sum is needed, or is something divided twice?"
        )
        return f" {number} is {same[0]}: {why}"
    if len(same) > 1:
        return ""
    why = "is something multiplied by it, or not divided" if large else "is something divided by it"
    return f" {number} is {same[0]}: {why}?"


def _sizes(arguments: Sequence[Argument], names: Sequence[str]) -> dict[str, int]:
    """The sizes that a factor may be, by what they are called; devices first."""
    axes = dict(arguments[0].axes)
    sizes = {f"the number of devices along {name}": size for name, size in axes.items()}
    if len(axes) > 1:
        sizes["the number of devices"] = math.prod(axes.values())
    for name, argument in zip(names, arguments, strict=False):
        block = placed(argument).shard_shape(argument.shape)
        for d, (length, own) in enumerate(zip(argument.shape, block, strict=True)):
            sizes[f"the length of dimension {d} of {name}"] = length
            if own != length:
                sizes[f"the length of dimension {d} of a device's block of {name}"] = own
        if len(argument.shape) > 1:
            sizes[f"the number of elements of {name}"] = math.prod(argument.shape)
    return {name: size for name, size in sizes.items() if size > 1}


def off_by_a_constant(
    reference: Arrays, arguments: Sequence[str], runs: Sequence[Run]
) -> Wrong | None:
    """Say what was added to every value, if that is all that is wrong, in every case."""
    said: dict[str, str] = {}
    for (draws, ran), these in zip(runs, arguments, strict=True):
        added: list[float] = []
        for inputs, outputs in zip(draws, ran.outputs, strict=True):
            wanted = jax.tree.leaves(reference(*inputs))
            one = len(outputs) == len(wanted) == 1 and outputs[0].shape == wanted[0].shape
            if not one or np.iscomplexobj(wanted[0]) or not wanted[0].size:
                return None
            off = wide(outputs[0]) - wide(wanted[0])
            if not np.isfinite(off).all():
                return None
            near = 10 * ROUNDING * EPS * max(1.0, float(np.max(np.abs(wanted[0]), initial=1)))
            mean = float(off.mean())
            if abs(mean) < 10 * near or np.max(np.abs(off - mean)) > near:
                return None
            if added and abs(added[0] - mean) > near:
                return None
            added.append(mean)
        size = abs(added[0])
        shown = f"{round(size)}" if abs(size - round(size)) < 1e-3 else f"{size:.3g}"
        said.setdefault(f"{shown} too {'large' if added[0] > 0 else 'small'}", these)
    first, *others = said
    sentence = f"Every value is {first}"
    sentence += "".join(f"; for {said[each]}, it is {each}" for each in others)
    return "off-by-a-constant", f"{sentence}. Was something added that should not be, or left out?"
