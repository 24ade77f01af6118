"""Kernels behind walls: started, watched, and listened to with care.

In: what Jupyter would start a kernel with. Out: its outputs, within limits, and why it was killed
where it was. What no system call limits is looked at here, four times a second.
"""

from autograder.instructor.kernels.kernel_messages import (
    MESSAGE,
    Allowance,
    Client,
    bound,
    heard,
    shorten_error,
)
from autograder.instructor.kernels.kernel_package import furnish
from autograder.instructor.kernels.observing_apart import (
    NotObservedError,
    is_observed,
    observe_apart,
)
from autograder.instructor.kernels.provisioner import PROVISIONER, SandboxedKernel
from autograder.instructor.kernels.shared_folders import place_for_sockets, remove

__all__ = [
    "MESSAGE",
    "PROVISIONER",
    "Allowance",
    "Client",
    "NotObservedError",
    "SandboxedKernel",
    "bound",
    "furnish",
    "heard",
    "is_observed",
    "observe_apart",
    "place_for_sockets",
    "remove",
    "shorten_error",
]
