"""Find right values in wrong places, and where the wrong ones are."""

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.judge.comparing_values import ROUNDING
from autograder.programs import Argument

TOLERANCE: Final = 100 * ROUNDING * float(np.finfo(np.float32).eps)
"""Relative to the largest value."""

MAX_PIECES: Final = 64
"""The most pieces in which values are looked for along one dimension."""

MAX_SHOWN: Final = 8
"""The most pieces whose order is written out."""

NOT_FOUND, ZEROS = -2, -1


def misplaced(output: jax.Array, wanted: np.ndarray, arguments: Sequence[Argument]) -> str:
    """Say how the pieces of a result are misplaced, if they are right but for that; else nothing.

    Args:
        output: what a program gave, with the block of each device.
        wanted: what is right.
        arguments: what the program was given; their mesh says how many pieces there may be.
    """
    if output.shape != wanted.shape or not np.issubdtype(wanted.dtype, np.inexact):
        return ""
    on_some = ""
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
                said = _in_words(found, d, size, wanted)
                if not _is_on_some(found):
                    return said
                on_some = on_some or said  # along another dimension it may be so on all devices
    return on_some


def _is_on_some(found: Sequence[tuple[int, list[int]]]) -> bool:
    """Whether a piece is zeros on some of the devices that have it, and right on others."""
    pieces = {(first + i, source) for first, each in found for i, source in enumerate(each)}
    return any(source == ZEROS and (place, place) in pieces for place, source in pieces)


def _sources(shard: Any, wanted: np.ndarray, d: int, size: int) -> tuple[int, list[int]]:
    """For each piece of a device's block, which of the right pieces it is.

    Returns:
        The number of the first piece that should be there, and those that are there.
    """
    data = np.asarray(shard.data)
    index = list(shard.index)
    first = (index[d].start or 0) // size
    index[d] = slice(None)
    strip = wanted[tuple(index)]
    pieces = np.split(strip, strip.shape[d] // size, axis=d)
    near = TOLERANCE * float(np.max(np.abs(wanted), initial=0))
    sources = []
    for number, piece in enumerate(np.split(data, data.shape[d] // size, axis=d)):
        place = first + number
        if not np.max(np.abs(pieces[place] - piece), initial=0) > near:
            sources.append(place)  # of equal pieces, the one that belongs here
            continue
        same = (
            i for i, right in enumerate(pieces) if np.max(np.abs(right - piece), initial=0) <= near
        )
        sources.append(next(same, NOT_FOUND if piece.any() else ZEROS))
    return first, sources


def _in_words(found: Sequence[tuple[int, list[int]]], d: int, size: int, wanted: np.ndarray) -> str:
    """How pieces are misplaced; nothing where that says no more than that some are empty."""
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
        if same or (len(found[0][1]) < total and not _is_on_some(found)):
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
        twice = len({source for _, source in pieces if source >= 0}) < total
        right = (
            f"Some {what}s are in several places, and others are missing."
            if twice
            else f"Every {what} is right, but not in its place."
        )
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
    """On which device which pieces are zeros: the first two devices that have some."""
    empty = [
        (device, [first + k for k, source in enumerate(each) if source == ZEROS])
        for device, (first, each) in enumerate(found)
    ]
    said = [
        f"on device {device} {what}{'s' * (len(places) > 1)} {_listed(places)}"
        for device, places in empty
        if places
    ]
    return f"{', '.join(said[:2])}{' and so on' * (len(said) > 2)}"


def _order(by_place: dict[int, int], count: int, what: str, where: str = "") -> str:
    """The order in which pieces come, or the first that is not in its place."""
    places = sorted(by_place)
    if count <= MAX_SHOWN:
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
    """`3`, `3 and 4`, or `3, 4, 5 and others`."""
    if len(numbers) > 4:
        return f"{', '.join(map(str, numbers[:3]))} and others"
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def where_wrong(output: jax.Array, wanted: np.ndarray) -> str:
    """Say where the wrong values of a result are, if not everywhere; else nothing.

    Such as `The first element of each device's block is wrong, and the others are right.`
    """
    if output.shape != wanted.shape or not np.issubdtype(wanted.dtype, np.inexact):
        return ""
    near = TOLERANCE * float(np.max(np.abs(wanted), initial=0))
    shards = sorted(output.addressable_shards, key=lambda shard: shard.device.id)
    with np.errstate(invalid="ignore"):
        off = [~(np.abs(np.asarray(shard.data) - wanted[shard.index]) <= near) for shard in shards]
    by_device = [bool(each.any()) for each in off]
    if not all(by_device):
        return ""  # said already, of how many devices
    if all(each.all() for each in off) or wanted.ndim == 0:
        return ""
    for d in range(wanted.ndim):
        length = off[0].shape[d]
        if length < 3 or any(each.shape[d] != length for each in off):
            continue
        others = tuple(i for i in range(wanted.ndim) if i != d)
        places = [set(np.flatnonzero(each.any(axis=others)).tolist()) for each in off]
        cut = length < wanted.shape[d]
        whose = "each device's block" if cut else "the result"
        along = f" along dimension {d}" if wanted.ndim > 1 else ""
        what = "element" if wanted.ndim == 1 else "index"
        names = {
            (0,): f"the first {what}", (length - 1,): f"the last {what}",
            (0, length - 1): f"the first and the last {what}",
        }  # fmt: skip
        met = tuple(sorted(set().union(*places)))
        if met in names:
            right = f"The values are right but for {names[met]} of {whose}{along}."
            return right if cut else right.replace(f"{what} of the result", what)
    return ""
