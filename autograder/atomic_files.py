"""Files and folders that are written whole or not at all, also by several processes at once."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_atomically(path: Path, contents: bytes) -> None:
    """Write a file, in place of an earlier one: who reads it finds the old contents or the new.

    If several processes write at once, the last one wins.

    Raises:
        OSError: it cannot be written; an earlier file is as before.
    """
    with _written_beside(path, contents) as new:
        os.replace(new, path)


def write_first(path: Path, contents: bytes) -> bytes:
    """Write a file unless it exists, and return what is in it.

    If several processes write at once, the first one wins, and all get its contents.

    Raises:
        OSError: it can be neither written nor read.
    """
    with suppress(FileNotFoundError):
        return path.read_bytes()
    with _written_beside(path, contents) as new:
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        except OSError:  # a disk without hard links, where the last one may win
            if not path.exists():
                os.replace(new, path)
    return path.read_bytes()


def swap_folder(folder: Path, new: Path, aside: Path) -> None:
    """Replace a folder by another one, or leave it as it was.

    Args:
        folder: the folder to replace; it need not exist.
        new: the folder that takes its place.
        aside: where the earlier one is moved, if there is one; nothing is there yet. All three are
            on one disk.

    Raises:
        OSError: it cannot be replaced.
    """
    try:
        if folder.exists():
            folder.rename(aside)
        new.rename(folder)
    finally:  # undo the first renaming, also after an interrupt between the two
        if aside.exists() and not folder.exists():
            aside.rename(folder)


@contextmanager
def _written_beside(path: Path, contents: bytes) -> Iterator[Path]:
    """Write a file of a name that nobody else uses, which is gone after the `with` block."""
    # a name of its own, because the file's may be as long as names can be
    new = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        new.write_bytes(contents)
        yield new
    finally:
        new.unlink(missing_ok=True)
