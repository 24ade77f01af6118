"""Describe and draw how two layouts differ, without giving away the answer."""

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

from shardlings.documents import with_noun
from shardlings.layouts.layout import Layout, devices_in_words, index_in_words
from shardlings.pictures import Picture

YOURS: Final = "Yours"


@dataclass(frozen=True)
class Difference:
    """A difference between a layout and the expected one.

    Attributes:
        diagnosis: a short name for the kind of difference, such as `transposed`.
        sentence: the difference in words.
    """

    diagnosis: str
    sentence: str


def find_difference(expected: Layout, actual: Layout) -> Difference | None:
    """Return the most informative difference between two layouts, or None if they are equal.

    Args:
        expected: the expected layout.
        actual: the layout of the answer.

    Returns:
        A difference with one of these diagnoses: `shape`, `one-device`, `devices-unused`,
        `devices-extra`, `other-devices`, `replicated`, `transposed`, `replicated-dimension`,
        `split-dimension`, `grid`, `device-order`.
    """
    if expected == actual:
        return None
    if expected.shape != actual.shape:
        return Difference("shape", f"Got shape {actual.shape}; expected {expected.shape}.")
    return (
        _other_devices(expected, actual)
        or _other_grid(expected, actual)
        or _other_order(expected, actual)
    )


def _other_devices(expected: Layout, actual: Layout) -> Difference | None:
    wanted, used = set(expected.devices), set(actual.devices)
    if wanted == used:
        return None
    if len(used) == 1 and math.prod(expected.counts) == 1:
        place = devices_in_words(actual.devices)
        if len(wanted) == 1:
            sentence = f"The array is on {place}; expected on {devices_in_words(expected.devices)}."
        else:
            sentence = (
                f"The array is on {place} alone; expected a replica on {_each_device(expected)}."
            )
        return Difference("one-device", sentence)
    if len(used) == 1:
        return Difference(
            "one-device",
            f"The array is not sharded: all of it is on {devices_in_words(actual.devices)}. "
            f"Expected a block on {_each_device(expected)}.",
        )
    missing = devices_in_words(tuple(sorted(wanted - used)))
    extra = devices_in_words(tuple(sorted(used - wanted)))
    if used < wanted:
        return Difference("devices-unused", f"There is nothing on {missing}.")
    if used > wanted:
        return Difference(
            "devices-extra",
            f"There is data on {extra} too; expected data on "
            f"{devices_in_words(expected.devices)} only.",
        )
    return Difference("other-devices", f"There is data on {extra} and none on {missing}.")


def _each_device(layout: Layout) -> str:
    return f"each of {devices_in_words(layout.devices)}"


def _other_grid(expected: Layout, actual: Layout) -> Difference | None:
    """Compare the grids of blocks of two layouts on the same devices."""
    if math.prod(actual.counts) == 1:
        return Difference(
            "replicated",
            f"The array is replicated, not sharded: {_each_device(actual)} holds all of it.",
        )
    if _is_transposed(expected, actual):
        if len(actual.counts) == 2 and 1 in actual.counts:
            got, wanted = ("rows", "columns") if actual.counts[0] > 1 else ("columns", "rows")
            return Difference("transposed", f"Your blocks are {got}; expected {wanted}.")
        how = (
            "This is the expected layout with its two dimensions swapped."
            if len(actual.counts) == 2
            else "This is the expected layout with its dimensions in another order."
        )
        return Difference("transposed", f"{how} {_compare_counts(expected, actual)}".strip())
    if expected.counts == actual.counts:
        return None
    if actual.copies > expected.copies:
        return Difference(
            "replicated-dimension",
            f"Each block is on {actual.copies} devices; expected {expected.copies}. "
            f"{_compare_counts(expected, actual)}",
        )
    if actual.copies < expected.copies:
        return Difference(
            "split-dimension",
            f"Each block is on {with_noun(actual.copies, 'device')}; expected "
            f"{expected.copies}. {_compare_counts(expected, actual)}",
        )
    return Difference(
        "grid",
        f"The right devices hold blocks, but in the wrong grid. "
        f"{_compare_counts(expected, actual)}",
    )


def _other_order(expected: Layout, actual: Layout) -> Difference:
    """Describe layouts that have the same blocks on the same devices, in another order."""
    wrong = [index for index, holders in actual.grid.items() if holders != expected.grid[index]]
    first = wrong[0]
    return Difference(
        "device-order",
        f"The blocks have the right shape, but {len(wrong)} of {len(actual.grid)} are on the wrong "
        f"devices. The first is block {index_in_words(first)}, which is on "
        f"{devices_in_words(actual.grid[first])}; expected on "
        f"{devices_in_words(expected.grid[first])}.",
    )


def _is_transposed(expected: Layout, actual: Layout) -> bool:
    """Check whether permuting the expected grid's dimensions gives the actual grid of blocks.

    The sizes of the array do not matter.
    """
    expected_grid, actual_grid = (layout.on(layout.counts) for layout in (expected, actual))
    in_order = tuple(range(len(expected.shape)))
    return any(
        actual_grid == expected_grid.transpose(order)
        for order in permutations(in_order)
        if order != in_order
    )


def _compare_counts(expected: Layout, actual: Layout) -> str:
    return " ".join(
        f"Dimension {d} has {with_noun(got, 'shard')}; expected {wanted}."
        for d, (wanted, got) in enumerate(zip(expected.counts, actual.counts, strict=True))
        if wanted != got
    )


def comparison_pictures(
    actual: Layout | None, expected: Layout | None, called: str = YOURS
) -> tuple[Picture, ...]:
    """Return pictures of the actual and the expected layout.

    There is one picture if they are equal, or if one of them is None.

    Args:
        actual: the layout of the answer, or None if it has none.
        expected: the expected layout, or None if several are right.
        called: the title of the actual layout's picture.
    """
    if actual is None or expected is None:
        return tuple(
            layout.picture(title)
            for title, layout in ((called, actual), ("Expected", expected))
            if layout is not None
        )
    if actual == expected:
        return (actual.picture(f"{called}, as expected"),)
    yours, asked = actual.picture(called), expected.picture("Expected")
    wrong, missing = _blocks_only_in(actual, expected), _blocks_only_in(expected, actual)
    if len(wrong) == len(actual.grid):
        return replace(yours, wrong=wrong, note=_explain_all_wrong(actual, expected)), asked
    places = ", ".join(map(index_in_words, sorted(wrong)))
    return (
        replace(
            yours,
            wrong=wrong,
            note="blocks that belong on other devices",
            description=f"{yours.description} Blocks that belong on other devices: {places}.",
        ),
        replace(
            asked,
            pale=frozenset(expected.grid) - missing,
            note="blocks that you have right" if called == YOURS else "blocks that are right",
        ),
    )


def _blocks_only_in(layout: Layout, other: Layout) -> frozenset[tuple[int, ...]]:
    """Return the indices of a layout's blocks that are not on the same devices in another layout.

    Blocks that the other does not have are among them.
    """
    if layout.shape != other.shape:
        return frozenset(layout.grid)
    holders_in_other = {other.block_at(index): holders for index, holders in other.grid.items()}
    return frozenset(
        index
        for index, holders in layout.grid.items()
        if holders_in_other.get(layout.block_at(index)) != holders
    )


def _explain_all_wrong(actual: Layout, expected: Layout) -> str:
    if actual.shape != expected.shape:
        return "wrong shape"
    if actual.counts != expected.counts:
        is_sharded = any(count > 1 for count in actual.counts)
        return "sharded differently" if is_sharded else "not sharded"
    if math.prod(expected.counts) == 1:
        return "on other devices than expected"
    if actual.copies < expected.copies:
        return "every block belongs on more devices"
    if actual.copies > expected.copies:
        return "every block belongs on fewer devices"
    if expected.copies > 1:
        return "no block is on all of its devices"
    return "every block belongs on another device"
