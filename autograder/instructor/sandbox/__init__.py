"""The sandbox, in which submissions and the judge run.

- `Sandbox` turns a command into one that runs in bubblewrap, within limits.
- `Kernel` runs the cells of a submission.
- `judge_apart` judges evidence in a clean process.
- `observe_apart` calls a submitted function in several processes.

The limits on memory, time, processes and files are traits of `Sandbox`. Limits that no system call
enforces are checked four times a second.
"""

from autograder.instructor.sandbox.bubblewrap import (
    NO_SANDBOX,
    ROOT_WARNING,
    UNFILTERED,
    UNPROTECTED,
    has_bubblewrap,
    has_call_filter,
    is_root,
)
from autograder.instructor.sandbox.judge_process import JUDGE_CPU_SECONDS, Case, encode_case
from autograder.instructor.sandbox.judging_apart import JudgeFailedError, judge_apart
from autograder.instructor.sandbox.kernel import Kernel, KernelDiedError, copy_kernel_package
from autograder.instructor.sandbox.kernel_messages import (
    Allowance,
    TooLarge,
    make_error_output,
    make_output,
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
from autograder.instructor.sandbox.warm_process import SERVERS, START_SECONDS, ForkedTask

__all__ = [
    "JUDGE_CPU_SECONDS",
    "NO_SANDBOX",
    "PACKAGES",
    "ROOT_WARNING",
    "SERVERS",
    "START_SECONDS",
    "UNFILTERED",
    "UNPROTECTED",
    "Allowance",
    "Case",
    "ExposedError",
    "ForkedTask",
    "JudgeFailedError",
    "Kernel",
    "KernelDiedError",
    "NoSandboxError",
    "NotObservedError",
    "Sandbox",
    "TooLarge",
    "copy_kernel_package",
    "encode_case",
    "has_bubblewrap",
    "has_call_filter",
    "is_observed",
    "is_root",
    "judge_apart",
    "make_error_output",
    "make_output",
    "observe_apart",
    "read_message",
    "sandbox_environment",
    "seal",
]
