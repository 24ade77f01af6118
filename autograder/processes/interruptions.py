"""Kill a process in the middle of training, between two steps or while it writes a checkpoint."""

import contextlib
import os
import signal
import sys
from os import kill
from pathlib import Path
from typing import Any, Final

import msgspec

from shardlings.errors import ShortError

# Bound here, before a learner's function can replace them in their modules.
with contextlib.suppress(ImportError):  # Windows has neither
    from resource import RLIMIT_FSIZE, setrlimit

MOVES: Final = {"os.rename": 1, "os.link": 1, "os.symlink": 1}
"""Audit events of moving a file into place, and the position of the new name in their arguments."""


class Interruption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An end in the middle of training, after which the function is called once more.

    Attributes:
        step: the number of batches that the processes can read before the end. They can read
            batches from `step - 1` on after it.
        process: the number of the process that is killed; None if none is, because the first call
            is asked for `step` steps only, and returns.
        change: which of its changes to the shared folder kills the process, counted from 1 since
            it read batch `step - 1`; 0 for none. A process that makes fewer changes is killed when
            it reads batch `step`.
        resumed_by: the number of processes that the function is called in after the kill.
    """

    step: int
    process: int | None
    change: int = 0
    resumed_by: int = 2


class BatchUsedError(ShortError, LookupError):
    """A process asked for a batch that was used long before the kill."""


def kill_this_process() -> None:
    """Kill this process at once, as the machine does when a host fails."""
    kill(os.getpid(), signal.SIGKILL)


def restore_size_signal() -> None:
    """Let the operating system kill this process when it exceeds a limit on the size of files.

    Python ignores the signal for this by default. Only the main thread can change that.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def kill_at_change(folder: Path, change: int) -> None:
    """Kill this process at a change to a folder, counted from now.

    A process that moves a file into place is killed before it does. A process that writes a file is
    killed at the first byte: the file is there, with nothing in it.

    Args:
        folder: the folder that counts.
        change: the number of the change, from 1.
    """
    changes = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if not _is_change(folder, event, arguments):
            return
        changes += 1
        if changes < change:
            return
        if event in MOVES:
            kill_this_process()
        setrlimit(RLIMIT_FSIZE, (0, 0))

    sys.addaudithook(count)


def _is_change(folder: Path, event: str, arguments: tuple[Any, ...]) -> bool:
    """Check whether an audit event opens a file in a folder for writing, or moves one there."""
    if event in MOVES:
        return _is_in(folder, arguments[MOVES[event]])
    if event != "open":
        return False
    path, _, flags = arguments
    if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return False
    return _is_in(folder, path)


def _is_in(folder: Path, path: object) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    return Path(os.path.abspath(os.fsdecode(path))).is_relative_to(folder)
