"""Programs: export, compile and run them; read their collectives and what these cost.

In: a function and its arguments, or an exported program, which may be forged. Out: its
collectives, as the compiler made them (`compiled/`) and as they were asked for by hand
(`requested/`), how often each runs, the line of code that caused it, bytes, operations and memory
on each device, and seconds on named machines; the same for TPUs, if their compiler is installed.
Here functions are exported, to leave one process, and loaded and run in another.
"""

from autograder.programs.arguments import Argument, current, described, placed
from autograder.programs.collective import MACHINES, Collective, Machine, seconds, wire_bytes
from autograder.programs.compared_reports import ComparedReports
from autograder.programs.compile_and_report import CommunicationError, communication
from autograder.programs.exporting import export, export_laid_out
from autograder.programs.laid_out_programs import LaidOut, report_laid_out, run_laid_out
from autograder.programs.program_errors import UNREDUCED, ProgramError
from autograder.programs.report import Report
from autograder.programs.requested import scale, take_out
from autograder.programs.running import Ran, container_of, execute, run
from autograder.programs.scaled_arguments import BFLOAT16, in_bfloat16

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
