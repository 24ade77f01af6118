"""Read what a program requests: its StableHLO, before any compiler.

In: the operations of an exported program. Out: the collectives and constraints that its author
wrote, whether it uses `shard_map`, and the work outside of one. The collectives can also be scaled,
to see whether the results depend on them, or taken out, to see what a compiler adds.
"""

from autograder.programs.requested.collectives import read, remove_collectives, scale
from autograder.programs.requested.constraints import (
    find_replicated_arguments,
    is_constrained,
    other_meshes,
)
from autograder.programs.requested.live_operations import counting, is_sure_to_end
from autograder.programs.requested.work_outside_shard_map import (
    count_flops_outside_shard_map,
    has_shard_map,
)

__all__ = [
    "count_flops_outside_shard_map",
    "counting",
    "find_replicated_arguments",
    "has_shard_map",
    "is_constrained",
    "is_sure_to_end",
    "other_meshes",
    "read",
    "remove_collectives",
    "scale",
]
