"""Code that runs inside the sandbox: a fork server, and the kernel for submissions.

In: requests, through a socket. Out: how each task ended; of a kernel, the outputs of its cells. It
knows nothing of exercises, and the process that grades believes nothing that a kernel says.
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
