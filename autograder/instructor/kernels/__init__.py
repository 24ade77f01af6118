"""Kernels behind walls: started, watched, and listened to with care.

In: cells, plans, and the files beside a notebook. Out: its outputs, within limits, and why a kernel
was killed where it was. What no system call limits is looked at here, four times a second.
"""

from autograder.instructor.kernels.kernel import Kernel, KernelDiedError
from autograder.instructor.kernels.kernel_messages import (
    Allowance,
    TooLarge,
    error_output,
    output_of,
    read_message,
)
from autograder.instructor.kernels.kernel_package import furnish
from autograder.instructor.kernels.observing_apart import (
    NotObservedError,
    is_observed,
    observe_apart,
)

__all__ = [
    "Allowance",
    "Kernel",
    "KernelDiedError",
    "NotObservedError",
    "TooLarge",
    "error_output",
    "furnish",
    "is_observed",
    "observe_apart",
    "output_of",
    "read_message",
]
