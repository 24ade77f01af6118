"""Code that runs inside the sandbox: a fork server, and the kernel for submissions.

In: requests, through a socket. Out: how each task ended, and from a kernel, the outputs of its
cells. Nothing here knows the exercises, and the process that grades trusts nothing that a kernel
sends.
"""

from autograder.sandboxed.fork_server import (
    CACHE_MOUNT,
    CACHES_MOUNT,
    IMPORTED_BY_JAX,
    MAX_MESSAGE_BYTES,
    MAX_STARTED_PROCESSES,
    TaskEnd,
    TaskRequest,
    TaskSettings,
    load_modules,
    serve,
)
from autograder.sandboxed.messages import (
    MAX_ERROR_CHARACTERS,
    MAX_TRACEBACK_LINES,
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
    "CACHES_MOUNT",
    "CACHE_MOUNT",
    "IMPORTED_BY_JAX",
    "MAX_ERROR_CHARACTERS",
    "MAX_MESSAGE_BYTES",
    "MAX_STARTED_PROCESSES",
    "MAX_TRACEBACK_LINES",
    "Begin",
    "Display",
    "Done",
    "Error",
    "Interrupt",
    "Message",
    "Ready",
    "Request",
    "Result",
    "RunCell",
    "Stream",
    "TaskEnd",
    "TaskRequest",
    "TaskSettings",
    "Update",
    "load_modules",
    "serve",
]
