"""Keep a command's temporary files in one folder, and remove those of commands that were killed."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Final

PREFIX: Final = "shardlings-command-"

MAX_PATH_BYTES: Final = 60
"""The longest temporary folder for a socket, whose whole path may have 107 bytes."""


@contextmanager
def keep_temporary_files() -> Iterator[None]:
    """Keep the temporary files of a command and its workers in a folder that is removed at the end.

    The folder is locked while the command runs. Folders of the same user that nobody has locked
    belong to commands that were killed, and are removed first.
    """
    if sys.platform == "win32":  # has no such locks, and nothing is graded there
        yield
        return
    before, parent = tempfile.tempdir, Path(tempfile.gettempdir())
    _make_multiprocessing_folder()
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove_if_unlocked(folder)
    # another command looks for PREFIX, so the folder gets this name once it is locked
    unnamed = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    folder = unnamed.with_name(unnamed.name.removeprefix("."))
    lock = -1
    try:
        lock = _lock(unnamed)
        unnamed.chmod(0o711)  # submissions may run as another user, who reads files in it
        unnamed.rename(folder)
        tempfile.tempdir = str(folder)
        yield
    finally:
        tempfile.tempdir = before
        for each in (folder, unnamed):
            shutil.rmtree(each, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _make_multiprocessing_folder() -> None:
    """Have multiprocessing make its own folder, which it removes after this one is gone.

    It has a socket there, so below a long path it is made in /tmp, as Python 3.14 does by itself.
    """
    before, is_long = tempfile.tempdir, len(os.fsencode(tempfile.gettempdir())) > MAX_PATH_BYTES
    try:
        tempfile.tempdir = "/tmp" if is_long and os.access("/tmp", os.W_OK) else before
        get_temp_dir()
    finally:
        tempfile.tempdir = before


def _remove_if_unlocked(folder: Path) -> None:
    """Remove a folder of our own, unless a running command has locked it.

    Raises:
        OSError: it is locked.
    """
    if folder.lstat().st_uid == os.getuid():
        lock = _lock(folder)
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _lock(folder: Path) -> int:
    """Lock a folder, and return the descriptor that holds the lock.

    Raises:
        OSError: another process has locked it, or it is no folder.
    """
    import fcntl  # not on Windows

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
