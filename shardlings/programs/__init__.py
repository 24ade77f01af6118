"""Compile programs, and report their collectives, memory and costs.

In: a function and its arguments, a stage of its compilation, or a program that XLA has dumped. Out:
its collectives, both compiled (`compiled/`) and requested (`requested/`), with the bytes, the
number of runs, the line of code and the part of the model of each; operations and memory on each
device; times on named machines; and the same for TPUs, if their compiler is installed. Reports are
stored as JSON, and compared.
"""

from shardlings.programs.collective import (
    MACHINES,
    Collective,
    Machine,
    communication_seconds,
    groups_along,
    take_costliest_branches,
    wire_bytes,
)
from shardlings.programs.compile_and_report import (
    BFLOAT16,
    communication,
    count_in_bfloat16,
)
from shardlings.programs.compiled import UnreadableProgramError
from shardlings.programs.dumped_programs import DumpError, read_dump
from shardlings.programs.latencies import LATENCIES, Latency
from shardlings.programs.lowering import CommunicationError
from shardlings.programs.numbers_in_words import bytes_with_unit, write_apart, write_bytes_apart
from shardlings.programs.parts_reports import PartsReport
from shardlings.programs.report import MACHINE, Report
from shardlings.programs.requested import remove_collectives, scale_collectives
from shardlings.programs.stored_reports import (
    ReportComparison,
    StoredReport,
    StoredReportError,
    compare,
)
from shardlings.programs.target_reports import TargetReports

__all__ = [
    "BFLOAT16",
    "LATENCIES",
    "MACHINE",
    "MACHINES",
    "Collective",
    "CommunicationError",
    "DumpError",
    "Latency",
    "Machine",
    "PartsReport",
    "Report",
    "ReportComparison",
    "StoredReport",
    "StoredReportError",
    "TargetReports",
    "UnreadableProgramError",
    "bytes_with_unit",
    "communication",
    "communication_seconds",
    "compare",
    "count_in_bfloat16",
    "groups_along",
    "read_dump",
    "remove_collectives",
    "scale_collectives",
    "take_costliest_branches",
    "wire_bytes",
    "write_apart",
    "write_bytes_apart",
]
