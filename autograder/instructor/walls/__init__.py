"""Walls: where strangers' code runs, and where the judge does.

In: a command, or evidence. Out: the same command behind walls and within limits, and verdicts from
a clean process. The limits on memory, time, processes and files are traits of `Sandbox`.
"""

from autograder.instructor.walls.judge_process import (
    SECONDS,
    Case,
    JudgeFailedError,
    encode,
    judge_apart,
)
from autograder.instructor.walls.sandbox import (
    PACKAGES,
    UNPROTECTED,
    NoSandboxError,
    Sandbox,
    environment,
    works,
)

__all__ = [
    "PACKAGES",
    "SECONDS",
    "UNPROTECTED",
    "Case",
    "JudgeFailedError",
    "NoSandboxError",
    "Sandbox",
    "encode",
    "environment",
    "judge_apart",
    "works",
]
