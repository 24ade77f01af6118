"""Read a compiled program from XLA's serialised module.

In: a compiled program. Out: its collectives, with their mesh axes, bytes, number of runs, and the
lines of source that caused them; and its floating-point operations. The program's text is never
parsed, because learners choose names in it.
"""

from autograder.programs.compiled.collectives import read
from autograder.programs.compiled.flop_counts import operations, work_left_out
from autograder.programs.compiled.hlo import CompiledProgram
from autograder.programs.compiled.reading_modules import (
    UnreadableProgramError,
    has_transform_in_other_order,
    program_of,
    read_module,
)

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
