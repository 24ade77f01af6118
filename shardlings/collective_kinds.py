"""The kinds of collective: their names, what they do, and what a ring sends for each.

A kind is a string, namely HLO's name for it, so `collective.kind == CollectiveKind.ALL_GATHER` also
works for a name that was read from a program.
"""

from enum import StrEnum
from typing import Final, Self


class CollectiveKind(StrEnum):
    """A kind of collective.

    Attributes:
        stablehlo: the StableHLO operation that requests it; a name without `stablehlo.` is the
            target of a custom call.
        ring_passes: how many times the whole buffer `V` travels around a ring of `n` devices. In
            each pass a device sends `(n - 1) / n * V`. 0 if it needs no ring and sends `V` once.
        does: a sentence that describes it.
        adds: the same sentence for a sum; empty if the collective does not combine data.
        verb: what it does to an argument, as in "It gathers A"; empty if feedback never says so.
        growth: the result's size relative to the input's: 1 if it is `n` times as large for groups
            of `n` devices, -1 if it is `1 / n` as large, 0 if both have the same size.
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
        """Create a member: a string with attributes."""
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
        """Check whether it combines data, and does not only move it."""
        return bool(self.adds)

    @property
    def has_pairs(self) -> bool:
        """Check whether its groups are (source, target) pairs."""
        return self is CollectiveKind.COLLECTIVE_PERMUTE


KINDS: Final = {kind.value: kind for kind in CollectiveKind}
"""The kinds by their names in HLO."""
