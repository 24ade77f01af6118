"""What was handed in, looked at before anything of it is copied or run."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from autograder.instructor.course.names import printable
from autograder.instructor.course.reading_apart import MOST_BYTES

MOST_TOGETHER: Final = 100 * 2**20
"""How much is taken in all."""

MOST_FILES: Final = 1000
"""How many files and folders."""

DEEPEST: Final = 500
"""How many characters of folders lead to one."""

HAND_IN_THE_FILE: Final = "Hand in the file itself, and remove the link."

MAY_NOT_BE_READ: Final = (
    "cannot be opened by whoever grades. Permit it to be read, or hand it in again."
)
"""What is said after the name of such a file or folder."""


def cannot_be_taken(folder: Path, assignment: str) -> str:
    """Why a submission cannot be graded, whatever its notebook holds; empty where it can."""
    return cannot_be_copied(folder) or is_no_file(folder / f"{assignment}.ipynb")


def cannot_be_copied(folder: Path) -> str:
    """Why nothing in a folder is to be followed, opened or copied; empty where it can be.

    No file is opened for it: what is no file may keep whoever opens it for ever.
    """
    if folder.is_symlink():
        return f"{printable(folder.name)} is a link. {HAND_IN_THE_FILE}"
    try:
        return _cannot_be_copied(folder)
    except OSError as error:  # a folder in it is closed to whoever grades
        return f"{printable(Path(error.filename or folder).name)} {MAY_NOT_BE_READ}"


def _cannot_be_copied(folder: Path) -> str:
    """The same of what is in a folder.

    Raises:
        OSError: something in it cannot be looked at.
    """
    together = 0
    for number, entry in enumerate(_entries(folder), 1):
        if len(entry.path) > len(str(folder)) + DEEPEST:
            return "the folders that were handed in are too deep. Hand in the notebook alone."
        about = entry.stat(follow_symlinks=False)
        if entry.is_symlink():  # nbgrader would follow it, and copy what it points to
            return f"{printable(entry.name)} is a link. {HAND_IN_THE_FILE}"
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            return f"{printable(entry.name)} is neither a file nor a folder. Remove it."
        if not os.access(entry.path, os.R_OK):
            return f"{printable(entry.name)} {MAY_NOT_BE_READ}"
        if entry.name.endswith(".ipynb") and about.st_size > MOST_BYTES:
            return (
                f"{printable(entry.name)} has {about.st_size / 2**20:.0f} MB, and "
                f"{MOST_BYTES // 2**20} are taken. Clear its outputs, and hand it in again."
            )
        together += about.st_size
        if number > MOST_FILES:
            return f"more than {MOST_FILES:,} files were handed in. Hand in the notebook alone."
        if together > MOST_TOGETHER:
            return (
                f"what was handed in has more than {MOST_TOGETHER // 2**20} MB. Hand in the "
                f"notebook alone."
            )
    return ""


def is_no_file(path: Path) -> str:
    """Why there is no notebook of that name; empty where there is."""
    if path.is_dir():
        return f"{path.name} is a folder. Hand in the notebook's own file."
    others = sorted(printable(p.name) for p in path.parent.glob("*.ipynb") if p != path)
    if not path.exists() and others:
        return (
            f"there is no {path.name} in the folder that was handed in, but {', '.join(others)}. "
            f"If that is it, rename it to {path.name}."
        )
    if not path.exists():
        return f"there is no {path.name} in the folder that was handed in."
    return ""


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """All that is in a folder, those in it first, and then what is in those."""
    folders: list[str] = [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
