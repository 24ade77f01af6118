"""Recognise results that each device computed from its own block alone."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

import jax
import numpy as np

from autograder.judge.comparing_values import ROUNDING, Arrays, Wrong
from autograder.judge.running_programs import Run
from autograder.programs import Argument, Ran, placed

TOLERANCE: Final = 10 * ROUNDING
"""How many units in the last place, scaled, a mistake may be off from what it is recognised by."""

REFUSALS: Final = (ArithmeticError, LookupError, StopIteration, TypeError, ValueError)
"""What a reference may raise for inputs of another shape than it was written for."""

Made: TypeAlias = list[np.ndarray] | None
"""What a mistake makes of inputs; None where it cannot be made with them."""


def tried(make: Callable[..., Any], *given: Any) -> Made:
    """What a function gives as arrays; None where it refuses, or gives other than numbers."""
    try:
        with np.errstate(all="ignore"):
            made = [np.asarray(leaf) for leaf in jax.tree.leaves(make(*given))]
    except REFUSALS:
        return None
    numbers = all(np.issubdtype(m.dtype, np.number) for m in made)
    return made if made and numbers and all(np.isfinite(m).all() for m in made) else None


COMBINED: Final[dict[str, Callable[[np.ndarray], Any]]] = {
    "added up": lambda parts: parts.sum(0),
    "averaged": lambda parts: parts.mean(0),
    "reduced to the largest": lambda parts: parts.max(0),
    "reduced to the smallest": lambda parts: parts.min(0),
    "multiplied": lambda parts: parts.prod(0),
}
"""What can become of the devices' own results."""


def own_results(
    reference: Arrays, asked: Sequence[Sequence[Argument]], runs: Sequence[Run]
) -> Wrong | None:
    """Say where each device worked on its own block alone, and what became of the results."""
    cases = []
    for arguments, (draws, ran) in zip(asked, runs, strict=True):
        blocks = [placed(a).devices_indices_map(a.shape) for a in arguments]
        devices: list[Any] = sorted(blocks[0], key=lambda device: int(device.id))
        for inputs, outputs in zip(draws, ran.outputs, strict=True):
            own = {
                device.id: tried(
                    reference,
                    *(a[block[device]] for a, block in zip(inputs, blocks, strict=True)),
                )
                for device in devices
            }
            if len(outputs) != 1 or not all(each and len(each) == 1 for each in own.values()):
                return None
            cases.append((arguments, outputs[0], {i: each[0] for i, each in own.items() if each}))
    whole = jax.tree.leaves(reference(*runs[0][0][0]))[0].shape
    if cases[0][1].shape != whole:
        return None  # each device's own result may be right, and put together wrongly
    if not _is_made_of(cases, lambda own, device, groups: own[device]):
        return _combined(cases, [ran for _, ran in runs])
    return "own-results", (
        "Each device returns the result for its own block of the arguments: nothing from the "
        "other devices is in it."
    )


Case = tuple[Sequence[Argument], jax.Array, dict[int, np.ndarray]]


def _combined(cases: Sequence[Case], programs: Sequence[Ran]) -> Wrong | None:
    """Say how the devices' own results were combined, if that is what came."""
    axes = [name for name, _ in cases[0][0][0].axes]
    for over in (s for size in range(1, len(axes) + 1) for s in combinations(axes, size)):
        if not all(_reduces_over(ran, over) for ran in programs):
            continue  # where all results are the same, their mean is one of them
        for words, combine in COMBINED.items():
            if _is_made_of(
                cases,
                lambda own, device, groups, over=over, combine=combine: combine(
                    np.stack([own[i] for i in groups(device, over)])
                ),
            ):
                return "own-results", (
                    f"Each device computes the result for its own block, and these results are "
                    f"{words} over {' and '.join(over)}. That is not the result for the whole "
                    f"array."
                )
    for place, words in ((0, "first"), (-1, "last")):
        if _is_made_of(cases, lambda own, _, __, place=place: own[sorted(own)[place]]):
            return "own-results", (
                f"This is the result for the block of the {words} device alone: nothing from the "
                f"other devices is in it."
            )
    return None


def _reduces_over(ran: Ran, axes: Sequence[str]) -> bool:
    """Whether a program reduces something over axes, by hand or as the compiler does it."""
    collectives = (*ran.requested, *ran.report.collectives)
    over = {axis for c in collectives if c.traits.reduces for axis in c.axes}
    return over >= set(axes)


def _is_made_of(cases: Sequence[Case], make: Callable[..., Any]) -> bool:
    """Whether each device holds what `make` gives, from all devices' own results.

    That is known only where it is not as good as nothing: all small numbers are alike.
    """
    is_something = False
    for arguments, output, own in cases:
        sizes = tuple(size for _, size in arguments[0].axes)
        places = np.arange(math.prod(sizes)).reshape(sizes)
        names = [name for name, _ in arguments[0].axes]

        def groups(
            device: int,
            over: Sequence[str],
            sizes: tuple[int, ...] = sizes,
            places: np.ndarray = places,
            names: Sequence[str] = tuple(names),
        ) -> list[int]:
            at = np.unravel_index(device, sizes)
            index = tuple(slice(None) if n in over else i for n, i in zip(names, at, strict=True))
            return [int(i) for i in np.ravel(places[index])]

        for shard in output.addressable_shards:
            if len({each.shape for each in own.values()}) > 1 or shard.device.id not in own:
                return False
            made, came = make(own, shard.device.id, groups), np.asarray(shard.data)
            if made.shape != came.shape or not np.issubdtype(came.dtype, np.number):
                return False
            far = np.max(np.abs(came - made), initial=0)
            scale = np.max(np.abs(made), initial=1) * math.sqrt(max(made.size, 1))
            near = TOLERANCE * np.finfo(np.float32).eps * scale
            if not far <= near:
                return False
            is_something |= bool(np.max(np.abs(made), initial=0) > near)
    return is_something
