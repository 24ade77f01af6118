"""Export functions, and check, run and measure exported programs, which may be forged.

In: a learner's function and its arguments, or the bytes of an exported program. Out: an *artifact*,
which is such bytes; what running it on fresh inputs gives; its report; the costs of its backward
pass; schedules, run step by step.

A learner's process exports functions (`exporting.py`), and the judge's process loads them
(`loading.py`), checks them (`program_checks.py`) and runs them (`running.py`).
"""

from autograder.artifacts.arguments import (
    Adjustment,
    Argument,
    describe_arguments,
    override_debugging,
    override_mesh,
    sharding_of,
)
from autograder.artifacts.backward_passes import (
    GradientRun,
    export_passes,
    measure_backward,
    run_passes,
)
from autograder.artifacts.exporting import export, export_laid_out, find_donated_arguments
from autograder.artifacts.laid_out_programs import LaidOutProgram, report_laid_out, run_laid_out
from autograder.artifacts.loading import fingerprint_program
from autograder.artifacts.program_checks import IN_A_CONTAINER, MALFORMED, UNREDUCED, ProgramError
from autograder.artifacts.running import ProgramRun, compile_and_run, container_name, run
from autograder.artifacts.schedules import (
    BACKWARD,
    FORWARD,
    PipelineRun,
    chart_forward_pipeline,
    chart_fsdp,
    chart_overlap,
    chart_pipelines,
    chart_ring_attention,
    draw_forward_pipeline,
    draw_fsdp,
    draw_overlap,
    draw_pipelines,
    draw_ring_attention,
    explain_buckets,
    explain_orders,
    explain_waiting,
    run_overlap,
    run_pipeline,
)

__all__ = [
    "BACKWARD",
    "FORWARD",
    "IN_A_CONTAINER",
    "MALFORMED",
    "UNREDUCED",
    "Adjustment",
    "Argument",
    "GradientRun",
    "LaidOutProgram",
    "PipelineRun",
    "ProgramError",
    "ProgramRun",
    "chart_forward_pipeline",
    "chart_fsdp",
    "chart_overlap",
    "chart_pipelines",
    "chart_ring_attention",
    "compile_and_run",
    "container_name",
    "describe_arguments",
    "draw_forward_pipeline",
    "draw_fsdp",
    "draw_overlap",
    "draw_pipelines",
    "draw_ring_attention",
    "explain_buckets",
    "explain_orders",
    "explain_waiting",
    "export",
    "export_laid_out",
    "export_passes",
    "find_donated_arguments",
    "fingerprint_program",
    "measure_backward",
    "override_debugging",
    "override_mesh",
    "report_laid_out",
    "run",
    "run_laid_out",
    "run_overlap",
    "run_passes",
    "run_pipeline",
    "sharding_of",
]
