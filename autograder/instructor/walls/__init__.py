"""Walls: where strangers' code runs, and where the judge does.

In: a command, or evidence. Out: the same command behind walls and within limits, and verdicts from
a clean process. The limits on memory, time, processes and files are traits of `Sandbox`.
"""

from autograder.instructor.walls.as_root import AS_ROOT, is_root
from autograder.instructor.walls.bubblewrap import (
    NO_SANDBOX,
    UNFILTERED,
    UNPROTECTED,
    has_bubblewrap,
    has_call_filter,
)
from autograder.instructor.walls.compiled import seal
from autograder.instructor.walls.judge_process import SECONDS, Case, encode
from autograder.instructor.walls.judging_apart import JudgeFailedError, judge_apart
from autograder.instructor.walls.other_copies import ExposedError
from autograder.instructor.walls.sandbox import (
    PACKAGES,
    NoSandboxError,
    Sandbox,
    sandbox_environment,
)
from autograder.instructor.walls.warm_process import SERVERS, START_SECONDS, Forked

__all__ = [
    "AS_ROOT",
    "NO_SANDBOX",
    "PACKAGES",
    "SECONDS",
    "SERVERS",
    "START_SECONDS",
    "UNFILTERED",
    "UNPROTECTED",
    "Case",
    "ExposedError",
    "Forked",
    "JudgeFailedError",
    "NoSandboxError",
    "Sandbox",
    "encode",
    "has_bubblewrap",
    "has_call_filter",
    "is_root",
    "judge_apart",
    "sandbox_environment",
    "seal",
]
