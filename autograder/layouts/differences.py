"""Describe and draw how two layouts differ, in a learner's words and without the answer."""

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

from autograder.layouts.layout import Layout, devices_in_words
from autograder.pictures import Picture

YOURS: Final = "Yours"


@dataclass(frozen=True)
class Difference:
    """How a layout differs from the one that was asked for.

    Attributes:
        diagnosis: a short name for the kind of difference, such as `transposed`; exercises hang
            their own teaching sentences on it.
        sentence: the difference in words.
    """

    diagnosis: str
    sentence: str


def difference(asked: Layout, made: Layout) -> Difference | None:
    """The most telling difference between two layouts, or None where every block is in its place.

    Args:
        asked: the layout that was asked for.
        made: the layout that came.

    Returns:
        One of these diagnoses: `shape`, `one-device`, `devices-unused`, `devices-extra`,
        `other-devices`, `replicated`, `transposed`, `replicated-dimension`, `split-dimension`,
        `grid`, `device-order`.
    """
    if asked == made:
        return None
    if asked.shape != made.shape:
        return Difference("shape", f"Got shape {made.shape}; expected {asked.shape}.")
    return _devices(asked, made) or _cuts(asked, made) or _order(asked, made)


def _devices(asked: Layout, made: Layout) -> Difference | None:
    wanted, used = set(asked.devices), set(made.devices)
    if wanted == used:
        return None
    if len(used) == 1 and math.prod(asked.counts) == 1:
        there = devices_in_words(made.devices)
        if len(wanted) == 1:
            said = f"It is on {there}; expected on {devices_in_words(asked.devices)}."
        else:
            said = f"It is on {there} alone; expected a copy on {_each_of(asked)}."
        return Difference("one-device", said)
    if len(used) == 1:
        return Difference(
            "one-device",
            f"The whole array is on {devices_in_words(made.devices)}: nothing was cut. Expected a "
            f"block on {_each_of(asked)}.",
        )
    missing = devices_in_words(tuple(sorted(wanted - used)))
    extra = devices_in_words(tuple(sorted(used - wanted)))
    if used < wanted:
        return Difference("devices-unused", f"There is nothing on {missing}.")
    if used > wanted:
        return Difference(
            "devices-extra",
            f"There is data on {extra} too; expected data on {devices_in_words(asked.devices)} "
            f"only.",
        )
    return Difference("other-devices", f"There is data on {extra} and none on {missing}.")


def _each_of(asked: Layout) -> str:
    return f"each of {devices_in_words(asked.devices)}"


def _cuts(asked: Layout, made: Layout) -> Difference | None:
    """Differences in the grid of blocks, where the devices are the right ones."""
    if math.prod(made.counts) == 1:
        return Difference(
            "replicated",
            f"{_each_of(made).capitalize()} holds the whole array: it was copied, not cut.",
        )
    if _is_transposed(asked, made):
        if made.counts == asked.counts[::-1] and sorted(made.counts)[:-1] == [1]:
            words = ("rows", "columns") if made.counts[0] > 1 else ("columns", "rows")
            return Difference("transposed", f"Your blocks are {words[0]}; expected {words[1]}.")
        return Difference(
            "transposed",
            "This is the expected layout with its dimensions exchanged. "
            f"{_counts_compared(asked, made)}".strip(),
        )
    if asked.counts == made.counts:
        return None
    if made.copies > asked.copies:
        return Difference(
            "replicated-dimension",
            f"Each block is on {made.copies} devices; expected {asked.copies}. "
            f"{_counts_compared(asked, made)}",
        )
    if made.copies < asked.copies:
        return Difference(
            "split-dimension",
            f"Each block is on {made.copies} device{'s' * (made.copies != 1)}; expected "
            f"{asked.copies}. {_counts_compared(asked, made)}",
        )
    return Difference(
        "grid",
        f"The right devices hold blocks, but in the wrong grid. {_counts_compared(asked, made)}",
    )


def _order(asked: Layout, made: Layout) -> Difference:
    """The grid is right, so some blocks are on other devices."""
    place, holders = next(
        (place, holders) for place, holders in made.grid.items() if holders != asked.grid[place]
    )
    wrong = sum(holders != asked.grid[place] for place, holders in made.grid.items())
    where = place[0] if len(place) == 1 else place
    return Difference(
        "device-order",
        f"The blocks have the right shape, but {wrong} of {len(made.grid)} are on the wrong "
        f"devices. The first is block {where}, which is on {devices_in_words(holders)}; expected "
        f"on {devices_in_words(asked.grid[place])}.",
    )


def _is_transposed(asked: Layout, made: Layout) -> bool:
    """Whether the picture, not the array, has its dimensions in another order."""
    picture = asked.on(asked.counts)
    orders = permutations(range(len(asked.shape)))
    return any(
        made.on(made.counts) == picture.transpose(order)
        for order in orders
        if order != tuple(range(len(asked.shape)))
    )


def _counts_compared(asked: Layout, made: Layout) -> str:
    cut = "; ".join(
        f"dimension {d} into {_pieces(m)}, not {a}"
        for d, (a, m) in enumerate(zip(asked.counts, made.counts, strict=True))
        if a != m
    )
    return cut and f"It cuts {cut}."


def _pieces(count: int) -> str:
    return f"{count} piece{'s' * (count != 1)}"


def compared(
    made: Layout | None, expected: Layout | None, called: str = YOURS
) -> tuple[Picture, ...]:
    """The pictures of what was made and of what was expected; one, where both are the same.

    Args:
        made: None where nothing came that could be drawn.
        expected: None where there is no one layout that is right.
        called: what the picture of what was made is called.
    """
    if made is None or expected is None:
        return tuple(
            layout.picture(title)
            for title, layout in ((called, made), ("Expected", expected))
            if layout is not None
        )
    if made == expected:
        return (made.picture(f"{called}, as expected"),)
    yours, asked = made.picture(called), expected.picture("Expected")
    wrong, missing = _unlike(made, expected), _unlike(expected, made)
    if len(wrong) == len(made.grid):
        return replace(yours, wrong=wrong, note=_whole(made, expected)), asked
    places = ", ".join(map(str, sorted(wrong)))
    said = f"{yours.description}. Blocks that belong on other devices: {places}."
    return (
        replace(yours, wrong=wrong, note="blocks that belong on other devices", description=said),
        replace(
            asked,
            pale=frozenset(expected.grid) - missing,
            note="blocks that you have right" if called == YOURS else "blocks that are right",
        ),
    )


def _unlike(one: Layout, other: Layout) -> frozenset[tuple[int, ...]]:
    """The places of the blocks that the other layout does not have on the same devices."""
    if one.shape != other.shape:
        return frozenset(one.grid)
    there = {
        tuple(cuts[i] for i, cuts in zip(place, other.cuts, strict=True)): holders
        for place, holders in other.grid.items()
    }
    return frozenset(
        place
        for place, holders in one.grid.items()
        if there.get(tuple(cuts[i] for i, cuts in zip(place, one.cuts, strict=True))) != holders
    )


def _whole(made: Layout, expected: Layout) -> str:
    """What is wrong with every block."""
    if made.shape != expected.shape:
        return "wrong shape"
    if made.counts != expected.counts:
        return "cut differently" if any(count > 1 for count in made.counts) else "not cut"
    if math.prod(expected.counts) == 1:
        return "on other devices than expected"
    return "every block belongs on another device"
