"""Read what a program requests: its StableHLO, before any compiler.

In: the operations of an exported program. Out: the collectives and constraints that its author
wrote, whether it uses `shard_map`, and the work outside of one. The collectives can also be scaled,
to see whether the results depend on them, or taken out, to see what a compiler adds.
"""

from autograder.programs.requested.collectives import read, scale, take_out
from autograder.programs.requested.constraints import (
    is_constrained,
    other_meshes,
    replicated_values,
)
from autograder.programs.requested.live_operations import counting, is_sure_to_end
from autograder.programs.requested.work_outside_shard_map import is_mapped, work_outside

__all__ = [
    "counting",
    "is_constrained",
    "is_mapped",
    "is_sure_to_end",
    "other_meshes",
    "read",
    "replicated_values",
    "scale",
    "take_out",
    "work_outside",
]
