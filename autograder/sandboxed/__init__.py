"""Code that runs inside the sandbox: a fork server, and the kernel for submissions.

In: requests, through a socket. Out: how each task ended, and from a kernel, the outputs of its
cells. Nothing here knows the exercises, and the process that grades trusts nothing that a kernel
sends.
"""

from autograder.sandboxed.fork_server import (
    MAX_MESSAGE_BYTES,
    MAX_STARTED,
    Ended,
    Setting,
    serve,
)
from autograder.sandboxed.messages import (
    LINES,
    LONG,
    Begin,
    Display,
    Done,
    Error,
    Interrupt,
    Message,
    Ready,
    Request,
    Result,
    RunCell,
    Stream,
    Update,
)

__all__ = [
    "LINES",
    "LONG",
    "MAX_MESSAGE_BYTES",
    "MAX_STARTED",
    "Begin",
    "Display",
    "Done",
    "Ended",
    "Error",
    "Interrupt",
    "Message",
    "Ready",
    "Request",
    "Result",
    "RunCell",
    "Setting",
    "Stream",
    "Update",
    "serve",
]
