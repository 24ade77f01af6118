"""The kinds of collective, each described once: its names, its verb, and what a ring sends.

A kind is a string, HLO's name of it, so `collective.kind == CollectiveKind.ALL_GATHER` holds for a
name that was read from a program.
"""

from enum import StrEnum
from typing import Final, Self


class CollectiveKind(StrEnum):
    """A kind of collective.

    Attributes:
        stablehlo: the operation by which a program requests it; a name without `stablehlo.` is the
            target of a custom call.
        ring_passes: how often the whole buffer `V` goes round a ring of `n` devices. Each time a
            device sends `(n - 1) / n * V`. Zero: it is not done in a ring, and sends `V` once.
        does: what it does, in a sentence.
        adds: the same where data are added up; empty where nothing is combined.
        verb: what it does to an argument, as in "It gathers A"; empty where that is not told.
        growth: 1 where a result is as many times as large as what was taken as there are devices
            in a group, -1 where it is that much smaller, 0 where it is as large.
    """

    stablehlo: str
    ring_passes: int
    does: str
    adds: str
    verb: str
    growth: int

    def __new__(
        cls,
        name: str,
        stablehlo: str,
        ring_passes: int,
        does: str,
        adds: str = "",
        verb: str = "",
        growth: int = 0,
    ) -> Self:
        """Make a string with attributes."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.stablehlo, kind.ring_passes, kind.does = stablehlo, ring_passes, does
        kind.adds, kind.verb, kind.growth = adds, verb, growth
        return kind

    ALL_REDUCE = (
        "all-reduce",
        "stablehlo.all_reduce",
        2,
        "The group's blocks are combined, and every device of the group gets the whole result.",
        "The group's blocks are added up, and every device of the group gets the whole sum.",
    )
    ALL_GATHER = (
        "all-gather",
        "stablehlo.all_gather",
        1,
        "Every device of the group ends up with all of the group's blocks.",
        "",
        "gathers",
        1,
    )
    REDUCE_SCATTER = (
        "reduce-scatter",
        "stablehlo.reduce_scatter",
        1,
        "The group's blocks are combined, and every device of the group keeps one piece of the "
        "result.",
        "The group's blocks are added up, and every device of the group keeps one piece of the "
        "sum.",
        "",
        -1,
    )
    ALL_TO_ALL = (
        "all-to-all",
        "stablehlo.all_to_all",
        1,
        "Every device keeps one piece of its block and sends one to each other device of the "
        "group: rows become columns.",
        "",
        "exchanges",
    )
    RAGGED_ALL_TO_ALL = (
        "ragged-all-to-all",
        "ragged_all_to_all",
        1,
        "Every device sends a piece to each other one of the group; the pieces' sizes may differ.",
    )
    COLLECTIVE_PERMUTE = (
        "collective-permute",
        "stablehlo.collective_permute",
        0,
        "Each block travels along its arrow.",
        "",
        "moves",
    )
    COLLECTIVE_BROADCAST = (
        "collective-broadcast",
        "stablehlo.collective_broadcast",
        0,
        "Every device of the group gets the first one's block.",
    )

    @property
    def reduces(self) -> bool:
        """Check whether it combines data; the others only move them."""
        return bool(self.adds)

    @property
    def in_pairs(self) -> bool:
        """Check whether its groups are pairs of a source and a target."""
        return self is CollectiveKind.COLLECTIVE_PERMUTE


KINDS: Final = {kind.value: kind for kind in CollectiveKind}
"""Each kind by HLO's name."""
