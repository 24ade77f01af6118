"""Read a compiled program from XLA's serialised module.

In: a compiled program. Out: its collectives, with their mesh axes, bytes, number of runs, and the
lines of source that caused them; and its floating-point operations. The program's text is never
parsed, because learners choose names in it.
"""

from shardlings.programs.compiled.collectives import read_collectives
from shardlings.programs.compiled.flop_counts import (
    count_flops,
    count_flops_xla_omits,
    count_int8_operations,
)
from shardlings.programs.compiled.hlo import (
    Array,
    CompiledProgram,
    Instruction,
    count_bytes,
    find_root,
)
from shardlings.programs.compiled.reading_modules import (
    UnreadableProgramError,
    has_unrunnable_fft,
    read_dumped_module,
    read_executable,
    read_module,
)

__all__ = [
    "Array",
    "CompiledProgram",
    "Instruction",
    "UnreadableProgramError",
    "count_bytes",
    "count_flops",
    "count_flops_xla_omits",
    "count_int8_operations",
    "find_root",
    "has_unrunnable_fft",
    "read_collectives",
    "read_dumped_module",
    "read_executable",
    "read_module",
]
