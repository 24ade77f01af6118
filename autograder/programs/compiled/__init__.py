"""Read a compiled program from XLA's serialised module.

In: a compiled program. Out: its collectives, with their mesh axes, bytes, number of runs, and where
they come from; and the work of its loops. No text is read: a learner may have named things in it.
"""

from autograder.programs.compiled.collectives import read
from autograder.programs.compiled.distinct_work import operations, work_left_out
from autograder.programs.compiled.hlo import CompiledProgram
from autograder.programs.compiled.reading_modules import (
    UnreadableProgramError,
    program_of,
    read_module,
)
from autograder.programs.compiled.transforms import has_transform_in_other_order

__all__ = [
    "CompiledProgram",
    "UnreadableProgramError",
    "has_transform_in_other_order",
    "operations",
    "program_of",
    "read",
    "read_module",
    "work_left_out",
]
