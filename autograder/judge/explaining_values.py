"""Explain wrong values from the values alone: misplaced, scaled, joined or added up wrongly.

`recognising_mistakes.py` tries out mistakes instead, and compares what they give.
"""

import math
from collections.abc import Collection, Sequence
from itertools import combinations, permutations
from typing import Any, Final

import jax
import numpy as np
from humanize import natural_list

from autograder.artifacts import Argument, sharding_of
from autograder.judge.comparing_values import (
    LENIENT,
    ROUNDING,
    ArrayFunction,
    Wrong,
    compare_outputs,
    describe_array,
    find_largest,
    is_finite,
    measure_differences,
    widen,
)
from autograder.judge.diagnoses import (
    IN_A_CONTAINER,
    NOT_JOINED,
    RESHAPED,
    TOO_MANY_RESULTS,
    WRONG_VALUES,
)
from autograder.judge.running_programs import SampledRun

PIECE_TOLERANCE: Final = 100 * ROUNDING * float(np.finfo(np.float32).eps)
"""The tolerance for pieces that are looked for in a result, relative to the largest value."""

MAX_ORDERED: Final = 4
"""The most results, or dimensions, of which other orders are tried."""

MAX_PIECES: Final = 64
"""The most pieces that a dimension is split into."""

MAX_LISTED_PIECES: Final = 8
"""The most pieces whose order a verdict lists."""

MAX_NAMED_DEVICES: Final = 4
"""The most devices that a verdict names, and does not count."""

NOT_FOUND, ZEROS = -2, -1
"""Sources of a piece that is none of the right ones, or that is zeros."""


def explain_misplaced(output: jax.Array, wanted: np.ndarray, arguments: Sequence[Argument]) -> str:
    """Say how the pieces of a result are misplaced, if they are right otherwise; else empty.

    Args:
        output: the program's result.
        wanted: the right result.
        arguments: the program's arguments; the sizes of pieces follow from their mesh.
    """
    if output.shape != wanted.shape or not np.issubdtype(wanted.dtype, np.inexact):
        return ""
    missing_on_some = ""
    for d in range(wanted.ndim):
        shards = sorted(output.addressable_shards, key=lambda shard: shard.device.id)
        own = np.asarray(shards[0].data).shape[d]
        counts = {size for _, size in arguments[0].axes}
        counts |= {len(shards)}
        sizes = [own] * (own < wanted.shape[d])
        sizes += [wanted.shape[d] // n for n in sorted(counts) if wanted.shape[d] % n == 0]
        sizes.append(1)
        for size in dict.fromkeys(sizes):
            if not size or own % size or not 1 < wanted.shape[d] // size <= MAX_PIECES:
                continue
            found = [_sources(shard, wanted, d, size) for shard in shards]
            if found and all(NOT_FOUND not in sources for _, sources in found):
                sentence = _describe_pieces(found, d, size, wanted)
                if not _is_missing_on_some(found):
                    return sentence
                # along another dimension, the explanation may hold on all devices
                missing_on_some = missing_on_some or sentence
    return missing_on_some


def _is_missing_on_some(found: Sequence[tuple[int, list[int]]]) -> bool:
    """Check whether a place holds zeros on some devices, and the right piece on others."""
    pieces = {(first + i, source) for first, each in found for i, source in enumerate(each)}
    return any(source == ZEROS and (place, place) in pieces for place, source in pieces)


def _sources(shard: Any, wanted: np.ndarray, d: int, size: int) -> tuple[int, list[int]]:
    """Find out which of the right pieces each piece of a device's block is.

    Returns:
        The number of the first piece that should be there, and the numbers of those that are.
    """
    data = np.asarray(shard.data)
    index = list(shard.index)
    first = (index[d].start or 0) // size
    index[d] = slice(None)
    strip = wanted[tuple(index)]
    pieces = np.stack(np.split(strip, strip.shape[d] // size, axis=d))
    near = PIECE_TOLERANCE * find_largest(wanted)
    sources = []
    for number, piece in enumerate(np.split(data, data.shape[d] // size, axis=d)):
        far = measure_differences(pieces, piece).reshape(len(pieces), -1).max(1, initial=0)
        # the nearest, because two numbers may be near by chance; of equal ones, that of its place
        source = min(range(len(far)), key=lambda i: (far[i], i != first + number))
        sources.append(source if far[source] <= near else NOT_FOUND if piece.any() else ZEROS)
    return first, sources


def _describe_pieces(
    found: Sequence[tuple[int, list[int]]], d: int, size: int, wanted: np.ndarray
) -> str:
    """Say how pieces are misplaced; empty if all are right, or all are zeros."""
    total = wanted.shape[d] // size
    pieces = [(first + i, source) for first, each in found for i, source in enumerate(each)]
    off = {(place, source) for place, source in pieces if place != source}
    if not off or {source for _, source in pieces} == {ZEROS}:
        return ""
    single = ("value",) if wanted.ndim == 1 else ("row", "column") if wanted.ndim == 2 else ()
    what = "block" if size > 1 else single[d] if single else "part"
    of = f"along dimension {d}" + f", in {total} blocks of {size}" * (size > 1)
    if {source for _, source in off} == {ZEROS}:
        empty = sorted({place for place, _ in off})
        everywhere = all((p, ZEROS) in off for p in empty) and len(found[0][1]) == total
        same = everywhere and len({tuple(each) for _, each in found}) == 1
        if same or (len(found[0][1]) < total and not _is_missing_on_some(found)):
            several = len(empty) > 1
            which = f"{what}{'s' * several} {_listed(empty)} {'are' if several else 'is'}"
            return f"Some of the result is missing: {of}, {which} zeros, and the rest is right."
        if all(each == [ZEROS if k == i else k for k in range(total)]
               for i, (_, each) in enumerate(found)):  # fmt: skip
            return (
                f"On each device the {what} with the device's own number is zeros, and the rest is "
                f"right: on device 0 {what} 0, on device 1 {what} 1 ({of})."
            )
        return f"Some of the result is zeros, and the rest is right: {_where(found, what)} ({of})."
    by_place = dict(pieces)
    consistent = all(by_place[place] == source for place, source in pieces)
    if consistent and len(by_place) == total:
        steps = {(source - place) % total for place, source in pieces if source >= 0}
        if ZEROS not in by_place.values() and steps == {1}:
            return f"Every {what} is right, but one place too early ({of}): {what} 1 comes first."
        if ZEROS not in by_place.values() and steps == {total - 1}:
            return (
                f"Every {what} is right, but one place too late ({of}): where {what} 1 should be, "
                f"there is {what} 0."
            )
        if all(source == total - 1 - place for place, source in pieces):
            return f"Every {what} is right, but they come in the opposite order ({of})."
        kept = [source for source in by_place.values() if source >= 0]
        if len(set(kept)) < len(kept):
            right = f"Some {what}s are in several places, and others are missing."
        elif len(kept) < total:
            right = f"Some {what}s are zeros, and others are not in their places."
        else:
            right = f"Every {what} is right, but not in its place."
        return f"{right} {_order(by_place, total, what)} ({of})."
    device, (first, sources) = next(
        (i, each) for i, each in enumerate(found) if any(
            source != each[0] + k for k, source in enumerate(each[1])
        )
    )  # fmt: skip
    here = dict(enumerate(sources, first))
    kept = [source for source in sources if source >= 0]
    several = len(set(kept)) < len(kept)
    right = (
        f"Some {what}s are there several times, and others are missing."
        if several
        else f"The {what}s are right, but not in their places."
    )
    return f"{right} {_order(here, len(sources), what, f'On device {device}, ')} ({of})."


def _where(found: Sequence[tuple[int, list[int]]], what: str) -> str:
    """Return `on device 0 rows 1 and 2, on device 1 row 3 and so on`, for pieces that are zeros."""
    empty = [
        (device, [first + k for k, source in enumerate(each) if source == ZEROS])
        for device, (first, each) in enumerate(found)
    ]
    items = [
        f"on device {device} {what}{'s' * (len(places) > 1)} {_listed(places)}"
        for device, places in empty
        if places
    ]
    return f"{', '.join(items[:2])}{' and so on' * (len(items) > 2)}"


def _order(by_place: dict[int, int], count: int, what: str, where: str = "") -> str:
    """Describe the order of the pieces; of many, only the first that is misplaced."""
    places = sorted(by_place)
    if count <= MAX_LISTED_PIECES:
        shown = ", ".join("zeros" if by_place[p] == ZEROS else str(by_place[p]) for p in places)
        expected = ", ".join(map(str, places))
        if count == 1:
            there = "there are zeros" if shown == "zeros" else f"there is {what} {shown}"
            return f"{where or ''}{'w' if where else 'W'}here {what} {expected} should be, {there}"
        start = f"{where}the order" if where else "The order"
        return f"{start} is {shown}; expected {expected}"
    place = next(p for p in places if by_place[p] != p)
    start = f"{where}where" if where else "Where"
    start = f"{start} {what} {place} of the expected result should be, there"
    if by_place[place] == ZEROS:
        return f"{start} are zeros"
    return f"{start} is its {what} {by_place[place]}"


def _listed(numbers: Sequence[int]) -> str:
    """Return `3`, `3 and 4`, or `3, 4, 5 and others`."""
    if len(numbers) > 4:
        return f"{', '.join(map(str, numbers[:3]))} and others"
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def explain_wrong_places(output: jax.Array, wanted: np.ndarray) -> str:
    """Say which places of a result are wrong, if it is right elsewhere; else empty.

    For example, `The values are right but for the first element of each device's block.`
    """
    if output.shape != wanted.shape or not np.issubdtype(wanted.dtype, np.inexact):
        return ""
    near = PIECE_TOLERANCE * find_largest(wanted)
    off = {
        shard.device.id: measure_differences(shard.data, wanted[shard.index]) > near
        for shard in sorted(output.addressable_shards, key=lambda shard: shard.device.id)
    }
    wrong_on = [device for device, each in off.items() if each.any()]
    if wanted.ndim == 0 or not wrong_on:
        return ""
    is_everywhere = len(wrong_on) == len(off)
    if is_everywhere:
        where = ""
    elif len(wrong_on) <= MAX_NAMED_DEVICES:
        where = f" on device{'s' * (len(wrong_on) > 1)} {_listed(wrong_on)}"
    else:
        where = f" on {len(wrong_on)} of {len(off)} devices"
    place, is_in_block = _describe_place([off[device] for device in wrong_on], wanted.shape)
    if place:
        whose = ("of each device's block" if is_everywhere else "of the block") * is_in_block
        return " ".join(f"The values are right but for {place} {whose}{where}".split()) + "."
    others = "others" if len(off) - len(wrong_on) > 1 else "other one"
    return f"The values are wrong{where}, and right on the {others}." if where else ""


def _describe_place(off: Sequence[np.ndarray], shape: Sequence[int]) -> tuple[str, bool]:
    """Find the rows, columns or elements in which all wrong values of some blocks are.

    Args:
        off: which values of each block are wrong.
        shape: the shape of the whole array.

    Returns:
        The place in words, such as `the last row`, and whether it is that of a block, and not of
        the whole array; `""` if there is no such place.
    """
    for d, size in enumerate(shape):
        length = off[0].shape[d]
        if length < 3 or any(each.shape[d] != length for each in off):
            continue
        others = tuple(i for i in range(len(shape)) if i != d)
        places = [set(np.flatnonzero(each.any(axis=others)).tolist()) for each in off]
        wrong = tuple(sorted(set().union(*places)))
        joined = "and" if all(each == set(wrong) for each in places) else "or"
        what = {1: ["element"], 2: ["row", "column"]}.get(len(shape), ["index"] * len(shape))[d]
        ends = {
            (0,): f"the first {what}", (length - 1,): f"the last {what}",
            (0, length - 1): f"the first {joined} the last {what}",
        }  # fmt: skip
        if wrong in ends:
            along = f" along dimension {d}" if what == "index" else ""
            return f"{ends[wrong]}{along}", length < size
    return "", False


MAX_INTEGER_FACTOR: Final = 128
"""Larger factors are written as decimals."""

FACTOR_TOLERANCE: Final = 1e-5
"""Relative difference of the factors found for two samples of the inputs."""

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
    found = float((np.vdot(values, actual) / np.vdot(values, values)).real)
    rest = np.max(np.abs(actual - found * values))
    near = LENIENT * np.finfo(np.float32).eps * abs(found) * np.max(np.abs(values))
    return found if rest <= near and not math.isclose(found, 1, rel_tol=1e-3) and found else None


def describe_factor(found: float) -> str:
    """Return `8 times`, `1/8 of`, or `minus`."""
    if math.isclose(found, -1, rel_tol=1e-4):
        return "minus"
    size = abs(found)
    integer, divisor = round(size), round(1 / size)
    if integer <= MAX_INTEGER_FACTOR and math.isclose(size, integer, rel_tol=1e-4):
        words = f"{integer} times"
    elif divisor <= MAX_INTEGER_FACTOR and math.isclose(size * divisor, 1, rel_tol=1e-4):
        words = f"1/{divisor} of"
    else:
        words = f"{size:.4g} times"
    return words if found > 0 else f"minus {words}"


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
        found = [
            find_factor(outputs, jax.tree.leaves(reference(*inputs)))
            for inputs, outputs in zip(samples, ran.outputs, strict=True)
        ]
        first = found[0]
        if first is None or any(
            other is None or not math.isclose(first, other, rel_tol=FACTOR_TOLERANCE)
            for other in found
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
    return "off-by-a-factor", f"{sentence}.{_which_size(factors, argument_lists, names, reduced)}"


def _which_size(
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
    large = abs(factors[0]) > 1
    wanted = [abs(f) if large else 1 / abs(f) for f in factors]
    sizes = [_sizes(arguments, names) for arguments in argument_lists]
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
    number = "That number" if large else "The divisor"
    if same[0].startswith("the number of devices"):
        along = same[0].removeprefix("the number of devices").removeprefix(" along ")
        if not set(reduced).issuperset([along] if along else dict(argument_lists[0][0].axes)):
            return ""
        over = f" over {along}" if along else ""
        why = (
            f"is something added up{over} that is the same on all devices already, or is a divisor "
            f"a mean that should be a sum?"
            if large
            else f"is a mean taken{over} where a sum is needed, or is something divided twice?"
        )
        return f" {number} is {same[0]}: {why}"
    if len(same) > 1:
        return ""
    why = "is something multiplied by it, or not divided" if large else "is something divided by it"
    return f" {number} is {same[0]}: {why}?"


def _sizes(arguments: Sequence[Argument], names: Sequence[str]) -> dict[str, int]:
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


CHANGE_TOLERANCE: Final = 0.02
"""The tolerance for a change that is a multiple of the right one: parts may be in bfloat16."""


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
                if len(wanted) != 1 or not outputs[0].shape == wanted[0].shape == given.shape:
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
    near = CHANGE_TOLERANCE * np.max(np.abs(right), initial=0)
    return bool(right.any()) and min(np.max(np.abs(made - s * right)) for s in (1, -1)) <= near


def _describe_multiple(right: np.ndarray, made: np.ndarray) -> str:
    """Describe a whole number, or 1 by one, with which one array is about a multiple of another."""
    if not right.any() or not np.isfinite(made).all():
        return ""
    factor = float(np.vdot(right, made).real / np.vdot(right, right).real)
    near = CHANGE_TOLERANCE * abs(factor) * np.max(np.abs(right))
    if not factor or np.max(np.abs(made - factor * right)) > near:
        return ""
    is_large = abs(factor) > 1
    size = float(f"{abs(factor) if is_large else 1 / abs(factor):.2g}")  # the rest is rounding
    if size == 1 or size != round(size):
        return ""
    return f"about {describe_factor(math.copysign(size if is_large else 1 / size, factor))}"


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
            found = ", ".join(names[i] if names else str(i + 1) for i in places)
            return "other-order-of-results", (
                f"All results are right, but they come in another order: {found}."
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
            if not is_single or np.iscomplexobj(wanted[0]) or not wanted[0].size:
                return None
            if wanted[0].dtype == bool or not all(map(is_finite, (outputs[0], wanted[0]))):
                return None
            off = widen(outputs[0]) - widen(wanted[0])
            near = 10 * ROUNDING * EPS * find_largest(wanted[0], at_least=1)
            mean = float(off.mean())
            if abs(mean) < 10 * near or np.max(np.abs(off - mean)) > near:
                return None
            if added and abs(added[0] - mean) > near:
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
    if not all(ran.mapped for _, ran in runs):
        return None  # without a shard_map there are no out_specs
    found = [
        _explain_joined(outputs, jax.tree.leaves(reference(*inputs)), arguments[0])
        for (samples, ran), arguments in zip(runs, argument_lists, strict=True)
        for inputs, outputs in zip(samples, ran.outputs, strict=True)
    ]
    first = found[0]
    if first is None or any(each is None or each[0] != first[0] for each in found):
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
            if not all(_is_sharded_over(output, argument, axis, at) for axis, at in axes):
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
        found: list[tuple[Sums, Sums]] = []
        for (a, b), outputs in zip(samples, ran.outputs, strict=True):
            if len(outputs) != 1 or outputs[0].shape != (len(a), b.shape[1]):
                return None
            shards = {
                s.device.id: (np.asarray(s.data), s.index) for s in outputs[0].addressable_shards
            }
            got = _sums(a, b, counts, {i: data for i, (data, _) in shards.items()})
            right = _sums(a, b, counts, {i: (a @ b)[index] for i, (_, index) in shards.items()})
            if got is None or right is None:
                break
            found.append((got, right))
        if len(found) < len(samples):
            continue
        (got, right), *others = found
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


def _sums(
    a: np.ndarray, b: np.ndarray, counts: tuple[int, int, int], blocks: dict[int, np.ndarray]
) -> Sums | None:
    """Count each product of blocks in each device's block; None if that is not certain."""
    rows, inner, columns = counts
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
        values = np.ravel(block).astype(np.float64)
        if not np.isfinite(values).all():
            return None
        solved, _, rank, _ = np.linalg.lstsq(terms, values, rcond=None)
        terms_count = np.round(solved, 3)
        off = np.max(np.abs(terms @ terms_count - values))
        if rank < math.prod(shape) or off > PRODUCT_TOLERANCE * np.max(np.abs(terms)):
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
