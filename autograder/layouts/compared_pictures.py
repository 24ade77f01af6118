"""Draw what was made beside what was expected: wrong blocks outlined, right ones once."""

import math
from dataclasses import replace
from typing import Final

from autograder.layouts.layout import Layout
from autograder.pictures import Picture

YOURS: Final = "Yours"


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
