"""The sandbox: where submissions run, and where the judge does.

In: a command; cells, plans and the files beside a notebook; or evidence. Out: the command inside
bubblewrap and its limits; a kernel's outputs, or why it was killed; verdicts from a clean process.
The limits on memory, time, processes and files are traits of `Sandbox`. Those that no system call
enforces are checked four times a second.
"""

from autograder.instructor.sandbox.bubblewrap import (
    AS_ROOT,
    NO_SANDBOX,
    UNFILTERED,
    UNPROTECTED,
    has_bubblewrap,
    has_call_filter,
    is_root,
)
from autograder.instructor.sandbox.judge_process import JUDGE_CPU_SECONDS, Case, encode
from autograder.instructor.sandbox.judging_apart import JudgeFailedError, judge_apart
from autograder.instructor.sandbox.kernel import Kernel, KernelDiedError, furnish
from autograder.instructor.sandbox.kernel_messages import (
    Allowance,
    TooLarge,
    error_output,
    output_of,
    read_message,
)
from autograder.instructor.sandbox.observing_apart import (
    NotObservedError,
    is_observed,
    observe_apart,
)
from autograder.instructor.sandbox.sandbox import (
    PACKAGES,
    ExposedError,
    NoSandboxError,
    Sandbox,
    sandbox_environment,
    seal,
)
from autograder.instructor.sandbox.warm_process import SERVERS, START_SECONDS, Forked

__all__ = [
    "AS_ROOT",
    "JUDGE_CPU_SECONDS",
    "NO_SANDBOX",
    "PACKAGES",
    "SERVERS",
    "START_SECONDS",
    "UNFILTERED",
    "UNPROTECTED",
    "Allowance",
    "Case",
    "ExposedError",
    "Forked",
    "JudgeFailedError",
    "Kernel",
    "KernelDiedError",
    "NoSandboxError",
    "NotObservedError",
    "Sandbox",
    "TooLarge",
    "encode",
    "error_output",
    "furnish",
    "has_bubblewrap",
    "has_call_filter",
    "is_observed",
    "is_root",
    "judge_apart",
    "observe_apart",
    "output_of",
    "read_message",
    "sandbox_environment",
    "seal",
]
