"""What was handed in, looked at before anything of it is copied or run."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import nbformat

MOST_BYTES: Final = 20 * 2**20
"""How large a notebook is taken: with all its outputs, one of this course has less than 1 MB."""

MOST_WRITTEN: Final = 2**20
"""How many characters its cells may have: those of this course have at most 25,000."""

MOST_TOGETHER: Final = 100 * 2**20
"""How much is taken in all."""

MOST_FILES: Final = 1000
"""How many files and folders."""

DEEPEST: Final = 500
"""How many characters of folders lead to one."""

CONTROLS: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
"""Control characters, and Unicode's pictures of them."""

HAND_IN_THE_FILE: Final = "Hand in the file itself, and remove the link."


def why_not(folder: Path, assignment: str) -> str:
    """Why a submission cannot be graded, in a sentence; empty where it can."""
    path = folder / f"{assignment}.ipynb"
    return cannot_be_copied(folder) or is_no_file(path) or cannot_be_read(path)


def cannot_be_copied(folder: Path) -> str:
    """Why nothing in a folder is to be followed, opened or copied; empty where it can be.

    No file is opened for it: what is no file may keep whoever opens it for ever.
    """
    if folder.is_symlink():
        return f"{folder.name} is a link. {HAND_IN_THE_FILE}"
    together = 0
    for number, entry in enumerate(_entries(folder), 1):
        if len(entry.path) > len(str(folder)) + DEEPEST:
            return "the folders that were handed in are too deep. Hand in the notebook alone."
        about = entry.stat(follow_symlinks=False)
        if entry.is_symlink():  # nbgrader would follow it, and copy what it points to
            return f"{readable(entry.name)} is a link. {HAND_IN_THE_FILE}"
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            return f"{readable(entry.name)} is neither a file nor a folder. Remove it."
        if entry.name.endswith(".ipynb") and about.st_size > MOST_BYTES:
            return (
                f"{readable(entry.name)} has {about.st_size / 2**20:.0f} MB, and "
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
    others = sorted(readable(p.name) for p in path.parent.glob("*.ipynb") if p != path)
    if not path.exists() and others:
        return (
            f"there is no {path.name} in the folder that was handed in, but {', '.join(others)}. "
            f"If that is it, rename it to {path.name}."
        )
    if not path.exists():
        return f"there is no {path.name} in the folder that was handed in."
    return ""


def cannot_be_read(path: Path) -> str:
    """Why a file cannot be read as a notebook, in a sentence; empty where it can."""
    try:
        written = sum(len(cell.source) for cell in nbformat.read(path, 4).cells)
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 text from byte {error.start} on. Save it as UTF-8"
    except (nbformat.reader.NotJSONError, RecursionError):
        why = _where_json_breaks(path)
    except Exception as error:  # nbformat raises many kinds
        first = (str(error).splitlines() or [type(error).__name__])[0]
        why = readable(first[:120])
    else:
        if written <= MOST_WRITTEN:
            return ""
        return (
            f"the cells of {path.name} have {written:,} characters, and {MOST_WRITTEN:,} are taken."
        )
    return f"{path.name} cannot be read as a notebook: {why}."


def readable(text: str) -> str:
    """Text that can be written down: names of files, and parts of notebooks, need not be."""
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    """Text that is safe on one line of a terminal: what cannot be seen there is a symbol instead.

    A folder's name can hold what moves the cursor, or turns the line round.
    """
    return "".join(c if c.isprintable() else _symbol(c) for c in readable(text))


def _symbol(character: str) -> str:
    return CONTROLS.get(ord(character)) or (" " if character.isspace() else "�")


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """All that is in a folder, those in it first, and then what is in those."""
    folders: list[str] = [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)


def _where_json_breaks(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if text.startswith("\ufeff"):
            return "it starts with a byte order mark; save it as UTF-8 without one"
        return (
            f"its JSON breaks off at line {error.lineno}. It was probably cut off on the way, "
            f"and has to be handed in again"
        )
    except (ValueError, RecursionError):  # a number of five thousand digits, or brackets
        pass
    return "it is not a notebook's JSON"
