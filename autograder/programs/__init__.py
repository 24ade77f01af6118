"""Export, compile and run programs, and report their collectives and costs.

In: a function and its arguments, or an exported program, which may be forged. Out: its outputs; its
collectives, both compiled (`compiled/`) and requested (`requested/`), with the bytes, the number of
runs and the line of code of each; operations and memory on each device; times on named machines;
and the same for TPUs, if their compiler is installed.

A learner's process exports functions (`exporting.py`), and the judge's process loads, checks and
runs them (`running.py`).
"""

from autograder.programs.arguments import Argument, describe_arguments, override_mesh, sharding_of
from autograder.programs.backward_passes import (
    BackwardCosts,
    GradientRun,
    export_passes,
    measure_backward,
    run_passes,
)
from autograder.programs.collective import (
    MACHINES,
    Collective,
    Machine,
    communication_seconds,
    groups_along,
    wire_bytes,
)
from autograder.programs.compared_reports import ComparedReports
from autograder.programs.compile_and_report import (
    BFLOAT16,
    CommunicationError,
    communication,
    count_in_bfloat16,
)
from autograder.programs.exporting import export, export_laid_out
from autograder.programs.latencies import LATENCIES, Latency
from autograder.programs.numbers_in_words import bytes_with_unit
from autograder.programs.program_checks import UNREDUCED, ProgramError
from autograder.programs.report import Report
from autograder.programs.requested import remove_collectives, scale_collectives
from autograder.programs.running import (
    LaidOutProgram,
    ProgramRun,
    compile_and_run,
    container_name,
    report_laid_out,
    run,
    run_laid_out,
)
from autograder.programs.schedules import (
    BACKWARD,
    FORWARD,
    OverlapRun,
    PipelineRun,
    Schedules,
    draw_overlap,
    draw_pipelines,
    explain_buckets,
    explain_orders,
    explain_waiting,
    run_overlap,
    run_pipeline,
)

__all__ = [
    "BACKWARD",
    "BFLOAT16",
    "FORWARD",
    "LATENCIES",
    "MACHINES",
    "UNREDUCED",
    "Argument",
    "BackwardCosts",
    "Collective",
    "CommunicationError",
    "ComparedReports",
    "GradientRun",
    "LaidOutProgram",
    "Latency",
    "Machine",
    "OverlapRun",
    "PipelineRun",
    "ProgramError",
    "ProgramRun",
    "Report",
    "Schedules",
    "bytes_with_unit",
    "communication",
    "communication_seconds",
    "compile_and_run",
    "container_name",
    "count_in_bfloat16",
    "describe_arguments",
    "draw_overlap",
    "draw_pipelines",
    "explain_buckets",
    "explain_orders",
    "explain_waiting",
    "export",
    "export_laid_out",
    "export_passes",
    "groups_along",
    "measure_backward",
    "override_mesh",
    "remove_collectives",
    "report_laid_out",
    "run",
    "run_laid_out",
    "run_overlap",
    "run_passes",
    "run_pipeline",
    "scale_collectives",
    "sharding_of",
    "wire_bytes",
]
