"""Recognise a mistake by making it, and comparing its values with the program's.

There are the mistakes that an exercise knows, and general ones that any program can make. A mistake
is reported only if it gives the program's values in every case, for every sample of the inputs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from typing import Any, Final, TypeAlias

import jax
import numpy as np

from autograder.artifacts import Argument, ProgramRun, sharding_of
from autograder.judge.comparing_values import (
    ROUNDING,
    ArrayFunction,
    Wrong,
    compare_outputs,
    find_largest,
    is_alike_where_finite,
    is_finite,
    is_like_mistake,
    measure_differences,
)
from autograder.judge.exercise import ways_of
from autograder.judge.explaining_shapes import (
    explain_exchanged_dimensions,
    explain_joined_blocks,
    explain_reshape,
)
from autograder.judge.running_programs import SampledRun

TOLERANCE: Final = 10 * ROUNDING
"""The tolerance for a general mistake, in scaled units in the last place."""

REFUSALS: Final = (ArithmeticError, LookupError, StopIteration, TypeError, ValueError)
"""Errors that a reference may raise for inputs that it was not written for."""

MAX_ROUGH_DISTANCE: Final = 0.2
"""The largest distance of a known mistake from a result that it explains roughly, relative to the
distance of the right result."""

MIN_DIFFERENCE: Final = 1e-4
"""The least distance of a general mistake from the right result, relative to the largest value."""

Made: TypeAlias = list[np.ndarray] | None
"""The results of a mistake; None if it cannot be made with these inputs."""


def try_out(make: Callable[..., Any], *given: Any) -> Made:
    """Call a function; return None if it raises, or returns anything but finite numbers."""
    try:
        with np.errstate(all="ignore"):
            made = [np.asarray(leaf) for leaf in jax.tree.leaves(make(*given))]
    except REFUSALS:
        return None
    numbers = all(np.issubdtype(m.dtype, np.number) for m in made)
    return made if made and numbers and all(np.isfinite(m).all() for m in made) else None


MAX_ELEMENTS: Final = 1 << 16
"""The most elements, of all arguments together, with which mistakes are tried out."""
ROUGH, EXACT = 1, 2
"""The quality of a mistake's explanation of a result; 0 if it explains nothing."""


@dataclass(frozen=True)
class GeneralMistake:
    """A mistake that any program can make.

    Attributes:
        diagnosis: its short name.
        sentence: the explanation for the learner.
        make: computes its results from the arguments of a case and their values.
    """

    diagnosis: str
    sentence: str
    make: Callable[[Sequence[Argument], Sequence[np.ndarray]], Made]


def recognise_general_mistake(
    reference: ArrayFunction,
    argument_lists: Sequence[Sequence[Argument]],
    names: Sequence[str],
    runs: Sequence[SampledRun],
) -> Wrong | None:
    """Find the general mistake that explains the results of all programs, if there is one.

    Args:
        reference: computes the right results.
        argument_lists: the arguments of each program.
        names: the names of the arguments.
        runs: the inputs and results of each program.
    """
    explained = (
        explain_joined_blocks(reference, argument_lists, runs)
        or explain_reshape(reference, runs)
        or explain_exchanged_dimensions(reference, runs)
    )
    if explained or any(
        sum(array.size for array in samples[0]) > MAX_ELEMENTS for samples, _ in runs
    ):
        return explained
    candidates = chain(
        transform_results(reference, names),
        sample_other_inputs(reference, argument_lists[0], names),
    )
    return explain_own_results(reference, argument_lists, runs) or next(
        (
            (m.diagnosis, m.sentence)
            for m in candidates
            if _explains(m, argument_lists, runs) and _differs(m, reference, argument_lists, runs)
        ),
        None,
    )


def _differs(
    mistake: GeneralMistake,
    reference: ArrayFunction,
    argument_lists: Sequence[Sequence[Argument]],
    runs: Sequence[SampledRun],
) -> bool:
    """Check whether a mistake gives other results than the right ones in some case."""
    for (samples, _), arguments in zip(runs, argument_lists, strict=True):
        for inputs in samples:
            made = try_out(mistake.make, arguments, inputs)
            right = jax.tree.leaves(reference(*inputs))
            if made is None or [m.shape for m in made] != [np.shape(r) for r in right]:
                return True
            largest = max(find_largest(r) for r in right)
            if _distance(made, right) > MIN_DIFFERENCE * largest:
                return True
    return False


def _explains(
    mistake: GeneralMistake,
    argument_lists: Sequence[Sequence[Argument]],
    runs: Sequence[SampledRun],
) -> bool:
    """Check whether a mistake gives the programs' results in every case."""
    for (samples, ran), arguments in zip(runs, argument_lists, strict=True):
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            made = try_out(mistake.make, arguments, inputs)
            if made is None or len(made) != len(outputs):
                return False
            pairs = list(zip(made, outputs, strict=True))
            if any(np.iscomplexobj(m) and not np.iscomplexobj(o) for m, o in pairs):
                return False  # NumPy warns of lost imaginary parts
            with np.errstate(all="ignore"):  # they may not fit the type of what came
                converted = [m.astype(o.dtype) for m, o in pairs]
            if compare_outputs(outputs, converted, TOLERANCE) is not None:
                return False
    return True


TRANSFORMATIONS: Final[dict[str, Callable[[np.ndarray], Any]]] = {
    "The result is the transpose of what it should be.": lambda w: np.swapaxes(w, -1, -2),
    "Every value is the logarithm of what it should be.": np.log,
    "Every value is the exponential of what it should be.": np.exp,
    "Every value is the square of what it should be.": np.square,
    "Every value is the square root of what it should be.": np.sqrt,
    "Every value is 1 divided by what it should be.": np.reciprocal,
    "Every value is the absolute value of what it should be.": np.abs,
    "Every value that should be negative is 0, and the others are right. Is there a maximum that "
    "includes zeros?": lambda w: np.maximum(w, 0),
    "Every value is the sine of what it should be: is the sine taken twice?": np.sin,
    "Every value is tanh of what it should be: is tanh taken once too often?": np.tanh,
}
"""Transformations of the right result, by the sentence that explains them."""


def transform_results(reference: ArrayFunction, names: Sequence[str]) -> Iterator[GeneralMistake]:
    """Yield the mistakes of transforming the right result.

    Args:
        reference: computes the right results.
        names: the names of the arguments.
    """
    for sentence, transform in TRANSFORMATIONS.items():

        def make(
            _: Sequence[Argument],
            inputs: Sequence[np.ndarray],
            transform: Callable[[np.ndarray], Any] = transform,
        ) -> Made:
            wanted = jax.tree.leaves(reference(*inputs))
            return [transform(np.asarray(each)) for each in wanted]

        yield GeneralMistake("transformed", sentence, make)
    for i, name in enumerate(names):
        for words, combine in COMBINED_WITH_ARGUMENT.items():

            def with_argument(
                _: Sequence[Argument],
                inputs: Sequence[np.ndarray],
                i: int = i,
                combine: Callable[[np.ndarray, np.ndarray], Any] = combine,
            ) -> Made:
                wanted = np.asarray(reference(*inputs))
                same = wanted.shape == inputs[i].shape
                return [combine(wanted, inputs[i])] if same else None

            sentence = f"The result is right, except that {words.format(name)}."
            yield GeneralMistake("transformed", sentence, with_argument)


COMBINED_WITH_ARGUMENT: Final[dict[str, Callable[[np.ndarray, np.ndarray], Any]]] = {
    "{} has been added to it": np.add,
    "{} has been subtracted from it": np.subtract,
    "it has been multiplied by {}": np.multiply,
}
"""Ways to combine the right result with an argument."""


def sample_other_inputs(
    reference: ArrayFunction, first: Sequence[Argument], names: Sequence[str]
) -> Iterator[GeneralMistake]:
    """Yield the mistakes of computing the right result from changed arguments.

    Args:
        reference: computes the right results.
        first: the arguments of the first case; those of other cases have the same ranks.
        names: the names of the arguments.
    """

    def apply_to(
        change: Callable[[Sequence[Argument], list[np.ndarray]], list[np.ndarray]],
    ) -> Callable[[Sequence[Argument], Sequence[np.ndarray]], Made]:
        return lambda arguments, inputs: jax.tree.leaves(
            reference(*change(arguments, list(inputs)))
        )

    for i, j in combinations(range(len(first)), 2):

        def exchange(
            _: Sequence[Argument], inputs: list[np.ndarray], i: int = i, j: int = j
        ) -> list[np.ndarray]:
            inputs[i], inputs[j] = inputs[j], inputs[i]
            return inputs

        yield GeneralMistake(
            "of-other-inputs",
            f"These are the right values with {names[i]} and {names[j]} exchanged.",
            apply_to(exchange),
        )
    for i, argument in enumerate(first):
        for words, change in _changes(argument):

            def change_one(
                arguments: Sequence[Argument],
                inputs: list[np.ndarray],
                i: int = i,
                change: Callable[[np.ndarray, Argument], Any] = change,
            ) -> list[np.ndarray]:
                changed = np.asarray(change(inputs[i], arguments[i]))
                inputs[i] = changed.astype(inputs[i].dtype)
                return inputs

            sentence = f"These are the right values for {words.format(names[i])}."
            yield GeneralMistake("of-other-inputs", sentence, apply_to(change_one))


def _changes(argument: Argument) -> Iterator[tuple[str, Callable[[np.ndarray, Argument], Any]]]:
    """Yield changes of an argument, in words and as a function."""
    if np.issubdtype(argument.dtype, np.integer):
        yield "{} + 1", lambda a, _: a + 1
        yield "{} - 1", lambda a, _: a - 1
    else:
        yield "-{}", lambda a, _: -a
        yield "the absolute values of {}", lambda a, _: np.abs(a)
        yield "the squares of {}", lambda a, _: np.square(a)
    if len(argument.shape) > 1:
        yield "{} transposed", lambda a, _: np.swapaxes(a, -1, -2)
    for d in range(len(argument.shape)):
        yield f"{{}} in the opposite order along dimension {d}", partial(_flip, d)
        for name, _ in argument.axes:
            for words, order in ORDERS.items():
                many = f"(as many as there are devices along {name})"
                yield f"{{}} with {words.format(d=d)} {many}", partial(_reorder, order, d, name)


def _flip(d: int, a: np.ndarray, _: Argument) -> np.ndarray:
    return np.flip(a, d)


def _reorder(
    order: Callable[[np.ndarray, int, int], np.ndarray],
    d: int,
    name: str,
    a: np.ndarray,
    argument: Argument,
) -> np.ndarray:
    """Reorder an array's blocks along a dimension; there are as many as devices along an axis."""
    return order(a, d, dict(argument.axes)[name])


def _reorder_blocks(
    order: Callable[[int, int], int],
) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """Return a function that puts block `order(i, n)` in the place of block i of n."""

    def reorder(a: np.ndarray, d: int, n: int) -> np.ndarray:
        blocks = np.split(a, n, axis=d)
        return np.concatenate([blocks[order(i, n) % n] for i in range(n)], axis=d)

    return reorder


def _deal_out(a: np.ndarray, d: int, n: int) -> np.ndarray:
    """Put indices i, i + n, i + 2n and so on in the place of block i of n."""
    return np.concatenate([np.take(a, range(i, a.shape[d], n), axis=d) for i in range(n)], axis=d)


ORDERS: Final[dict[str, Callable[[np.ndarray, int, int], np.ndarray]]] = {
    "its blocks along dimension {d} in the opposite order": _reorder_blocks(lambda i, n: n - 1 - i),
    "its blocks along dimension {d} one place further on": _reorder_blocks(lambda i, n: i - 1),
    "its blocks along dimension {d} one place further back": _reorder_blocks(lambda i, n: i + 1),
    "dimension {d} dealt out one by one, like cards, and not partitioned into blocks": _deal_out,
}
"""Wrong orders of blocks, in words."""


def recognise_known_mistake(
    reference: ArrayFunction, mistakes: Mapping[str, Any], runs: Sequence[SampledRun]
) -> Wrong | None:
    """Find the exercise's mistake that explains all results, preferring an exact match."""
    roughly = None
    for diagnosis, mistaken in mistakes.items():
        ways, likeness = ways_of(mistaken), EXACT
        for run in runs:
            likeness = min(likeness, max(_likeness(way, reference, *run) for way in ways))
            if not likeness:  # further runs would only take time
                break
        if likeness == EXACT:
            return diagnosis, "The values are wrong."
        if likeness == ROUGH and roughly is None:
            roughly = diagnosis, "The values are wrong."
    return roughly


def _likeness(
    mistaken: Callable[..., Any],
    reference: ArrayFunction,
    samples: list[list[np.ndarray]],
    ran: ProgramRun,
) -> int:
    """Return how well a mistake explains a program's results: 0, `ROUGH` or `EXACT`.

    A rough match counts only if the mistake is clearly not the right result: beside a large
    diagonal, small differences vanish in the tolerance.
    """
    likeness = EXACT
    for inputs, outputs in zip(samples, ran.outputs, strict=True):
        with np.errstate(all="ignore"):
            made = jax.tree.leaves(mistaken(*inputs))
        if not all(map(is_finite, made)):
            if not is_alike_where_finite(outputs, made):
                return 0
            continue
        if compare_outputs(outputs, made) is None:
            continue
        right = jax.tree.leaves(reference(*inputs))
        if is_alike_where_finite(made, right) or not is_like_mistake(
            mistaken, inputs, outputs, made
        ):
            return 0
        if _distance(outputs, made) > MAX_ROUGH_DISTANCE * _distance(outputs, right):
            return 0  # another mistake, whose results are about as far from these
        likeness = ROUGH
    return likeness


def _distance(some: Sequence[Any], others: Sequence[Any]) -> float:
    """Return how far results are from others at most; infinite if their shapes differ."""
    if [each.shape for each in some] != [each.shape for each in others]:
        return math.inf
    pairs = zip(some, others, strict=True)
    return max(float(np.max(measure_differences(a, b), initial=0)) for a, b in pairs)


REDUCTIONS: Final[dict[str, Callable[[np.ndarray], Any]]] = {
    "added up": lambda parts: parts.sum(0),
    "averaged": lambda parts: parts.mean(0),
    "reduced to the largest": lambda parts: parts.max(0),
    "reduced to the smallest": lambda parts: parts.min(0),
    "multiplied": lambda parts: parts.prod(0),
}
"""Ways to combine the devices' own results."""


def explain_own_results(
    reference: ArrayFunction,
    argument_lists: Sequence[Sequence[Argument]],
    runs: Sequence[SampledRun],
) -> Wrong | None:
    """Recognise that each device used only its own block, and say how the results were combined."""
    cases = []
    for arguments, (samples, ran) in zip(argument_lists, runs, strict=True):
        blocks = [sharding_of(a).devices_indices_map(a.shape) for a in arguments]
        devices: list[Any] = sorted(blocks[0], key=lambda device: int(device.id))
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            by_device = {
                device.id: try_out(
                    reference,
                    *(a[block[device]] for a, block in zip(inputs, blocks, strict=True)),
                )
                for device in devices
            }
            if len(outputs) != 1 or not all(each and len(each) == 1 for each in by_device.values()):
                return None
            cases.append(
                (arguments, outputs[0], {i: each[0] for i, each in by_device.items() if each})
            )
    whole = jax.tree.leaves(reference(*runs[0][0][0]))[0].shape
    if cases[0][1].shape != whole:
        return None  # each device's result may be right, but joined wrongly
    if not _gives_blocks(cases, lambda own, device, groups: own[device]):
        return _explain_combined(cases, [ran for _, ran in runs])
    return "own-results", (
        "Each device returns the result for its own block of the arguments: nothing from the "
        "other devices is in it."
    )


OwnResults = tuple[Sequence[Argument], jax.Array, dict[int, np.ndarray]]


def _explain_combined(cases: Sequence[OwnResults], programs: Sequence[ProgramRun]) -> Wrong | None:
    """Say how the devices' own results were combined, if that explains the program's result."""
    axes = [name for name, _ in cases[0][0][0].axes]
    for reduced_axes in (s for size in range(1, len(axes) + 1) for s in combinations(axes, size)):
        if not all(_reduces_over(ran, reduced_axes) for ran in programs):
            continue  # the mean of equal results would explain every one of them
        for words, combine in REDUCTIONS.items():
            if _gives_blocks(
                cases,
                lambda own, device, groups, reduced_axes=reduced_axes, combine=combine: combine(
                    np.stack([own[i] for i in groups(device, reduced_axes)])
                ),
            ):
                return "own-results", (
                    f"Each device computes the result for its own block, and these results are "
                    f"{words} over {' and '.join(reduced_axes)}. That is not the result for the "
                    f"global array."
                )
    for place, words in ((0, "first"), (-1, "last")):
        if _gives_blocks(cases, lambda own, _, __, place=place: own[sorted(own)[place]]):
            return "own-results", (
                f"This is the result for the block of the {words} device alone: nothing from the "
                f"other devices is in it."
            )
    return None


def _reduces_over(ran: ProgramRun, axes: Sequence[str]) -> bool:
    """Check whether a program has requested or compiled reductions over these axes."""
    collectives = (*ran.requested, *ran.report.collectives)
    reduced = {axis for c in collectives if c.traits.reduces for axis in c.axes}
    return reduced >= set(axes)


def _gives_blocks(cases: Sequence[OwnResults], make: Callable[..., Any]) -> bool:
    """Check whether `make` gives each device's block from all devices' own results.

    False if all values are within the tolerance of zero, where anything would match.
    """
    is_nonzero = False
    for arguments, output, own in cases:
        sizes = tuple(size for _, size in arguments[0].axes)
        places = np.arange(math.prod(sizes)).reshape(sizes)
        names = [name for name, _ in arguments[0].axes]

        def groups(
            device: int,
            reduced_axes: Sequence[str],
            sizes: tuple[int, ...] = sizes,
            places: np.ndarray = places,
            names: Sequence[str] = tuple(names),
        ) -> list[int]:
            position = np.unravel_index(device, sizes)
            index = tuple(
                slice(None) if n in reduced_axes else i
                for n, i in zip(names, position, strict=True)
            )
            return [int(i) for i in np.ravel(places[index])]

        for shard in output.addressable_shards:
            if len({each.shape for each in own.values()}) > 1 or shard.device.id not in own:
                return False
            made, actual = make(own, shard.device.id, groups), np.asarray(shard.data)
            if made.shape != actual.shape or not np.issubdtype(actual.dtype, np.number):
                return False
            distance = np.max(measure_differences(actual, made), initial=0)
            scale = find_largest(made, at_least=1) * math.sqrt(max(made.size, 1))
            tolerance = TOLERANCE * np.finfo(np.float32).eps * scale
            if not distance <= tolerance:
                return False
            is_nonzero |= bool(find_largest(made) > tolerance)
    return is_nonzero
