"""Export, compile and run programs, and report their collectives and costs.

In: a function and its arguments, or an exported program, which may be forged. Out: its outputs; its
collectives, both compiled (`compiled/`) and requested (`requested/`), with the bytes, the number of
runs and the line of code of each; operations and memory on each device; times on named machines;
and the same for TPUs, if their compiler is installed.

A learner's process exports functions (`exporting.py`), and the judge's process loads, checks and
runs them (`running.py`).
"""

from autograder.programs.arguments import Argument, current, described, placed
from autograder.programs.collective import MACHINES, Collective, Machine, seconds, wire_bytes
from autograder.programs.compared_reports import ComparedReports
from autograder.programs.compile_and_report import (
    BFLOAT16,
    CommunicationError,
    communication,
    in_bfloat16,
)
from autograder.programs.exporting import export, export_laid_out
from autograder.programs.program_checks import UNREDUCED, ProgramError
from autograder.programs.report import Report
from autograder.programs.requested import scale, take_out
from autograder.programs.running import (
    LaidOut,
    Ran,
    container_of,
    execute,
    report_laid_out,
    run,
    run_laid_out,
)

__all__ = [
    "BFLOAT16",
    "MACHINES",
    "UNREDUCED",
    "Argument",
    "Collective",
    "CommunicationError",
    "ComparedReports",
    "LaidOut",
    "Machine",
    "ProgramError",
    "Ran",
    "Report",
    "communication",
    "container_of",
    "current",
    "described",
    "execute",
    "export",
    "export_laid_out",
    "in_bfloat16",
    "placed",
    "report_laid_out",
    "run",
    "run_laid_out",
    "scale",
    "seconds",
    "take_out",
    "wire_bytes",
]
