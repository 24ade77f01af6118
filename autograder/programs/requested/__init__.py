"""Read what a program requests: its StableHLO, before any compiler.

In: the operations of an exported program. Out: the collectives that its author wrote, whether there
is a `shard_map` in it, and what is done outside of one. To see what a result rests on, more can be
put into a collective; to see what a compiler adds, they can be taken out.
"""

from autograder.programs.requested.collectives import is_sure_to_end, read
from autograder.programs.requested.constraints import (
    is_constrained,
    other_meshes,
    replicated_values,
)
from autograder.programs.requested.one_device import is_mapped, work_outside
from autograder.programs.requested.scaling import scale, take_out
from autograder.programs.requested.trip_counts import counting

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
