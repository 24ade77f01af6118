"""The sandbox, in which submissions and the judge run.

In: a command; a submission's cells, plans and files; or evidence. Out: a command that runs in
bubblewrap within limits (`Sandbox`); a kernel's outputs, or why it was killed (`Kernel`); verdicts
from a clean process (`judge_in_sandbox`); or what several processes computed with a submitted
function (`observe_in_sandbox`).

The limits on memory, time, processes and files are traits of `Sandbox`. Limits that no system call
enforces are checked four times a second.
"""

from autograder.instructor.sandbox.bubblewrap import (
    NO_SANDBOX_ERROR,
    NO_SANDBOX_WARNING,
    ROOT_WARNING,
    has_bubblewrap,
    has_call_filter,
    is_root,
)
from autograder.instructor.sandbox.compilation_cache import prune_cache
from autograder.instructor.sandbox.hidden_copies import ExposedError
from autograder.instructor.sandbox.judge_process import JUDGE_CPU_SECONDS, Case, encode_case
from autograder.instructor.sandbox.judging_in_sandbox import JudgeFailedError, judge_in_sandbox
from autograder.instructor.sandbox.kernel import Kernel, KernelDiedError
from autograder.instructor.sandbox.kernel_messages import (
    OutputLimits,
    TooLargeMessage,
    make_error_output,
    make_output,
)
from autograder.instructor.sandbox.limit_watch import ProcessFamily
from autograder.instructor.sandbox.observing_in_sandbox import (
    NotObservedError,
    is_observed,
    observe_in_sandbox,
)
from autograder.instructor.sandbox.sandbox import (
    PACKAGES,
    NoSandboxError,
    Sandbox,
    find_package_folders,
    read_sandbox_environment,
)
from autograder.instructor.sandbox.shortages import GRADE_AGAIN, MachineError, read_shortages

__all__ = [
    "GRADE_AGAIN",
    "JUDGE_CPU_SECONDS",
    "NO_SANDBOX_ERROR",
    "NO_SANDBOX_WARNING",
    "PACKAGES",
    "ROOT_WARNING",
    "Case",
    "ExposedError",
    "JudgeFailedError",
    "Kernel",
    "KernelDiedError",
    "MachineError",
    "NoSandboxError",
    "NotObservedError",
    "OutputLimits",
    "ProcessFamily",
    "Sandbox",
    "TooLargeMessage",
    "encode_case",
    "find_package_folders",
    "has_bubblewrap",
    "has_call_filter",
    "is_observed",
    "is_root",
    "judge_in_sandbox",
    "make_error_output",
    "make_output",
    "observe_in_sandbox",
    "prune_cache",
    "read_sandbox_environment",
    "read_shortages",
]
