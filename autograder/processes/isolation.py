"""Keep processes apart: no disk in common, and no memory that another may read."""

import ctypes
import os
import sys
from typing import Any, Final

import jax

from autograder.errors import ShortError

PR_SET_DUMPABLE: Final = 4


def close_memory() -> None:
    """Make this process, and those that are forked from it, unreadable for others.

    On Linux, `/proc/<pid>/mem`, `fd` and `environ` then belong to root. Elsewhere nothing happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class NoCommonDiskError(ShortError, OSError):
    """A process tried to write a file, which the others of its cluster could not read."""


REFUSED_WRITES: Final[list[NoCommonDiskError]] = []
"""The errors raised in this process for files: `tempfile` catches them and raises others."""


def refuse_to_write(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open a file for writing; an audit hook.

    The hosts of a cluster have no disk in common, and on one machine a file would do what the
    processes are to do by communicating.
    """
    if event != "open":
        return
    path, _, flags = arguments
    if isinstance(path, int) or path == os.devnull or not isinstance(flags, int):
        return
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        error = NoCommonDiskError(
            f"process {jax.process_index()} tried to write a file, and the processes have no disk "
            f"in common: what others need has to be sent to them"
        )
        REFUSED_WRITES.append(error)
        raise error
