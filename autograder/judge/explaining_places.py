"""Explain wrong values by their places: pieces that are moved or missing, or a few wrong places."""

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts import Argument
from autograder.judge.comparing_values import (
    ROUNDING,
    find_largest,
    measure_differences,
)

PIECE_TOLERANCE: Final = 100 * ROUNDING * float(np.finfo(np.float32).eps)
"""The tolerance for pieces that are looked for in a result, relative to the largest value."""

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
            device_sources = [_find_sources(shard, wanted, d, size) for shard in shards]
            if device_sources and all(NOT_FOUND not in sources for _, sources in device_sources):
                sentence = _describe_pieces(device_sources, d, size, wanted)
                if not _is_missing_on_some(device_sources):
                    return sentence
                # along another dimension, the explanation may hold on all devices
                missing_on_some = missing_on_some or sentence
    return missing_on_some


def _is_missing_on_some(device_sources: Sequence[tuple[int, list[int]]]) -> bool:
    """Check whether a place holds zeros on some devices, and the right piece on others."""
    pieces = {
        (first + i, source) for first, each in device_sources for i, source in enumerate(each)
    }
    return any(source == ZEROS and (place, place) in pieces for place, source in pieces)


def _find_sources(shard: Any, wanted: np.ndarray, d: int, size: int) -> tuple[int, list[int]]:
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
    tolerance = PIECE_TOLERANCE * find_largest(wanted)
    sources = []
    for number, piece in enumerate(np.split(data, data.shape[d] // size, axis=d)):
        distances = measure_differences(pieces, piece).reshape(len(pieces), -1).max(1, initial=0)
        # the nearest, because two numbers may be near by chance; of equal ones, that of its place
        source = min(range(len(distances)), key=lambda i: (distances[i], i != first + number))
        sources.append(
            source if distances[source] <= tolerance else NOT_FOUND if piece.any() else ZEROS
        )
    return first, sources


def _describe_pieces(
    device_sources: Sequence[tuple[int, list[int]]], d: int, size: int, wanted: np.ndarray
) -> str:
    """Say how pieces are misplaced; empty if all are right, or all are zeros."""
    total = wanted.shape[d] // size
    pieces = [
        (first + i, source) for first, each in device_sources for i, source in enumerate(each)
    ]
    misplaced = {(place, source) for place, source in pieces if place != source}
    if not misplaced or {source for _, source in pieces} == {ZEROS}:
        return ""
    single = ("value",) if wanted.ndim == 1 else ("row", "column") if wanted.ndim == 2 else ()
    what = "block" if size > 1 else single[d] if single else "part"
    split = f"along dimension {d}" + f", in {total} blocks of {size}" * (size > 1)
    if {source for _, source in misplaced} == {ZEROS}:
        empty = sorted({place for place, _ in misplaced})
        is_everywhere = (
            all((p, ZEROS) in misplaced for p in empty) and len(device_sources[0][1]) == total
        )
        same = is_everywhere and len({tuple(each) for _, each in device_sources}) == 1
        if same or (len(device_sources[0][1]) < total and not _is_missing_on_some(device_sources)):
            several = len(empty) > 1
            which = f"{what}{'s' * several} {_list_numbers(empty)} {'are' if several else 'is'}"
            return f"Some of the result is missing: {split}, {which} zeros, and the rest is right."
        if all(each == [ZEROS if k == i else k for k in range(total)]
               for i, (_, each) in enumerate(device_sources)):  # fmt: skip
            return (
                f"On each device the {what} with the device's own number is zeros, and the rest is "
                f"right: on device 0 {what} 0, on device 1 {what} 1 ({split})."
            )
        where = _list_zeros(device_sources, what)
        return f"Some of the result is zeros, and the rest is right: {where} ({split})."
    by_place = dict(pieces)
    is_consistent = all(by_place[place] == source for place, source in pieces)
    if is_consistent and len(by_place) == total:
        steps = {(source - place) % total for place, source in pieces if source >= 0}
        if ZEROS not in by_place.values() and steps == {1}:
            return (
                f"Every {what} is right, but one place too early ({split}): {what} 1 comes first."
            )
        if ZEROS not in by_place.values() and steps == {total - 1}:
            return (
                f"Every {what} is right, but one place too late ({split}): where {what} 1 should "
                f"be, there is {what} 0."
            )
        if all(source == total - 1 - place for place, source in pieces):
            return f"Every {what} is right, but they come in the opposite order ({split})."
        kept = [source for source in by_place.values() if source >= 0]
        if len(set(kept)) < len(kept):
            right = f"Some {what}s are in several places, and others are missing."
        elif len(kept) < total:
            right = f"Some {what}s are zeros, and others are not in their places."
        else:
            right = f"Every {what} is right, but not in its place."
        return f"{right} {_describe_order(by_place, total, what)} ({split})."
    device, (first, sources) = next(
        (i, each) for i, each in enumerate(device_sources) if any(
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
    return (
        f"{right} {_describe_order(here, len(sources), what, f'On device {device}, ')} ({split})."
    )


def _list_zeros(device_sources: Sequence[tuple[int, list[int]]], what: str) -> str:
    """Return `on device 0 rows 1 and 2, on device 1 row 3 and so on`, for pieces that are zeros."""
    empty = [
        (device, [first + k for k, source in enumerate(each) if source == ZEROS])
        for device, (first, each) in enumerate(device_sources)
    ]
    items = [
        f"on device {device} {what}{'s' * (len(places) > 1)} {_list_numbers(places)}"
        for device, places in empty
        if places
    ]
    return f"{', '.join(items[:2])}{' and so on' * (len(items) > 2)}"


def _describe_order(by_place: dict[int, int], count: int, what: str, where: str = "") -> str:
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


def _list_numbers(numbers: Sequence[int]) -> str:
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
    tolerance = PIECE_TOLERANCE * find_largest(wanted)
    masks = {
        shard.device.id: measure_differences(shard.data, wanted[shard.index]) > tolerance
        for shard in sorted(output.addressable_shards, key=lambda shard: shard.device.id)
    }
    wrong_on = [device for device, each in masks.items() if each.any()]
    if wanted.ndim == 0 or not wrong_on:
        return ""
    is_everywhere = len(wrong_on) == len(masks)
    if is_everywhere:
        where = ""
    elif len(wrong_on) <= MAX_NAMED_DEVICES:
        where = f" on device{'s' * (len(wrong_on) > 1)} {_list_numbers(wrong_on)}"
    else:
        where = f" on {len(wrong_on)} of {len(masks)} devices"
    place, is_in_block = _describe_place([masks[device] for device in wrong_on], wanted.shape)
    if place:
        whose = ("of each device's block" if is_everywhere else "of the block") * is_in_block
        return " ".join(f"The values are right but for {place} {whose}{where}".split()) + "."
    others = "others" if len(masks) - len(wrong_on) > 1 else "other one"
    return f"The values are wrong{where}, and right on the {others}." if where else ""


def _describe_place(masks: Sequence[np.ndarray], shape: Sequence[int]) -> tuple[str, bool]:
    """Find the rows, columns or elements in which all wrong values of some blocks are.

    Args:
        masks: which values of each block are wrong.
        shape: the shape of the whole array.

    Returns:
        The place in words, such as `the last row`, and whether it is that of a block, and not of
        the whole array; `""` if there is no such place.
    """
    for d, size in enumerate(shape):
        length = masks[0].shape[d]
        if length < 3 or any(each.shape[d] != length for each in masks):
            continue
        others = tuple(i for i in range(len(shape)) if i != d)
        places = [set(np.flatnonzero(each.any(axis=others)).tolist()) for each in masks]
        wrong = tuple(sorted(set().union(*places)))
        joined = "and" if all(each == set(wrong) for each in places) else "or"
        what = {1: ["element"], 2: ["row", "column"]}.get(len(shape), ["index"] * len(shape))[d]
        ends = {
            (0,): f"the first {what}", (length - 1,): f"the last {what}",
            (0, length - 1): f"the first {joined} the last {what}",
        }  # fmt: skip
        if wrong in ends:
            suffix = f" along dimension {d}" if what == "index" else ""
            return f"{ends[wrong]}{suffix}", length < size
    return "", False
