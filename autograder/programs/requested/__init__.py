"""What a program asks for by hand: StableHLO, before any compiler has seen it.

In: the operations of an exported program. Out: the collectives that its author wrote, and whether
there is a `shard_map` in it.
"""

from autograder.programs.requested.collectives import is_mapped, read

__all__ = [
    "is_mapped",
    "read",
]
