"""Read what a program requests: its StableHLO, before any compiler.

In: the operations of an exported program. Out: the collectives and constraints that its author
wrote, whether it uses `shard_map`, with which specs this takes the arguments, the work outside of
one, the arguments that it donates, and collectives that some devices need not reach. The
collectives can also be scaled, to see whether the results depend on them, or taken out, to see what
a compiler adds.
"""

from shardlings.programs.requested.collectives import (
    read_collectives,
    remove_collectives,
    scale_collectives,
)
from shardlings.programs.requested.constraints import (
    Spec,
    find_arguments_of_replicated_values,
    find_specs_of_arguments,
    is_constrained,
    other_meshes,
)
from shardlings.programs.requested.donations import find_donated_arguments
from shardlings.programs.requested.live_operations import (
    is_sure_to_end,
    list_counter_operands,
    list_loops_that_may_not_end,
)
from shardlings.programs.requested.unreached_collectives import (
    Source,
    UnreachedCollective,
    find_unreached_collective,
)
from shardlings.programs.requested.work_outside_shard_map import (
    count_flops_outside_shard_map,
    has_shard_map,
)

__all__ = [
    "Source",
    "Spec",
    "UnreachedCollective",
    "count_flops_outside_shard_map",
    "find_arguments_of_replicated_values",
    "find_donated_arguments",
    "find_specs_of_arguments",
    "find_unreached_collective",
    "has_shard_map",
    "is_constrained",
    "is_sure_to_end",
    "list_counter_operands",
    "list_loops_that_may_not_end",
    "other_meshes",
    "read_collectives",
    "remove_collectives",
    "scale_collectives",
]
