"""Keep processes from reading each other's memory, and from exchanging files."""

import ctypes
import os
import sys
from typing import Any, Final

import jax

from shardlings.errors import ShortError

PR_SET_DUMPABLE: Final = 4


def close_memory() -> None:
    """Keep other processes from reading the memory of this process and of its forks.

    On Linux, the files `mem`, `fd` and `environ` in `/proc/<pid>/` then belong to root. On other
    systems this does nothing.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class NoCommonDiskError(ShortError, OSError):
    """A process tried to write a file, although the hosts of a cluster have no disk in common."""


REFUSED_WRITES: Final[list[NoCommonDiskError]] = []
"""The errors that `refuse_to_write` raised in this process. `tempfile`, for example, catches them
and raises another error."""


def refuse_to_write(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open a file for writing; an audit hook for `sys.addaudithook`.

    The hosts of a cluster have no disk in common. The processes here share a disk, and could
    exchange files on it instead of communicating.
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
