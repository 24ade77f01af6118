"""What a program asks for by hand: StableHLO, before any compiler has seen it.

In: the operations of an exported program. Out: the collectives that its author wrote, and whether
there is a `shard_map` in it. To see what a result rests on, more can be put into a collective.
"""

from autograder.programs.requested.collectives import is_mapped, read
from autograder.programs.requested.scaling import scale

__all__ = [
    "is_mapped",
    "read",
    "scale",
]
