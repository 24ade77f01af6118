"""Keep other processes of the same user from reading this one's memory."""

import ctypes
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def close_memory() -> None:
    """Make this process, and those that are forked from it, unreadable for others.

    On Linux, `/proc/<pid>/mem`, `fd` and `environ` then belong to root. Elsewhere nothing happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
