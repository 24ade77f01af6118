"""Check a submission before anything of it is copied or run, and read its notebook in a sandbox.

The process that grades never parses a student's notebook. A reader in the sandbox does, and returns
a notebook of bounded size with only what is graded and shown.
"""

import functools
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from traitlets.config import Config

import autograder
from autograder.instructor.course import notebook_rewriting
from autograder.instructor.course.names import printable
from autograder.instructor.sandbox import PACKAGES, Sandbox, has_bubblewrap, sandbox_environment

MAX_NOTEBOOK_BYTES: Final = 20 * 2**20
"""One of this course, with all its outputs, has less than 1 MB."""

READER_MEMORY_BYTES: Final = 2 * 2**30
"""20 MB of brackets make 1 GB of lists."""

READER_CPU_SECONDS: Final = 60
"""A notebook of 20 MB takes two."""

READER_PATIENCE: Final = 10
"""How many times its processor time a reader may take by the clock; then the machine is at fault.
"""

MAX_REPLY_BYTES: Final = 2**24
"""A reader's limits on cells and pictures keep it below."""

CONTROL_NOTEBOOK: Final = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'
"""Any reader can read it; if that fails, the machine is at fault."""


class UnreadableError(ValueError):
    """A file cannot be read as a notebook; the message says why, and what to do."""


class ReaderFailedError(RuntimeError):
    """No notebook can be read here. This says nothing of what was handed in."""


@dataclass(frozen=True)
class HandedIn:
    """A notebook that was handed in, as it is graded.

    Attributes:
        text: the notebook, as JSON.
        said: what there is to say of it, in sentences.
    """

    text: str
    said: tuple[str, ...] = ()

    @property
    def notebook(self) -> Any:
        """The notebook, for whoever is to change it."""
        return nbformat.reads(self.text, 4)


class _Reply(msgspec.Struct):
    why: str = ""
    notebook: msgspec.Raw = msgspec.Raw(b"")
    said: list[str] = []


def read_apart(path: Path, config: Config | None = None) -> HandedIn:
    """Read a file as a notebook.

    Args:
        path: the file, which nobody else changes meanwhile.
        config: the configuration of the course, which may say what to do without a sandbox.

    Raises:
        UnreadableError: it cannot be read.
        ReaderFailedError: nothing can be read here.
    """
    try:
        with path.open("rb") as file:
            came = file.read(MAX_NOTEBOOK_BYTES + 1)
    except OSError as error:  # it is closed to whoever grades, or no file
        raise UnreadableError(
            f"{printable(path.name)} cannot be opened: {error.strerror}. Hand it in again."
        ) from None
    if len(came) > MAX_NOTEBOOK_BYTES:
        raise UnreadableError(
            f"{printable(path.name)} has more than {MAX_NOTEBOOK_BYTES // 2**20} MB."
        )
    made = _made(came, Sandbox(config=config or Config()).required)
    if isinstance(made, str):
        raise UnreadableError(f"{printable(path.name)} cannot be read as a notebook: {made}.")
    return made


def cannot_be_read(path: Path, config: Config | None = None) -> str:
    """Why a file cannot be read as a notebook, in a sentence; empty where it can."""
    try:
        read_apart(path, config)
    except UnreadableError as error:
        return str(error)
    return ""


@functools.lru_cache(maxsize=1)  # whoever asks first whether it can be read has it read next
def _made(came: bytes, required: bool) -> HandedIn | str:
    """What a reader makes of a file's bytes; or why it makes nothing of them."""
    room = Sandbox(
        required=required,
        memory=READER_MEMORY_BYTES,
        cpu_seconds=READER_CPU_SECONDS,
        scratch=MAX_REPLY_BYTES,
    )
    reply = _reply(came, room)
    if reply is None and _reply(CONTROL_NOTEBOOK, room) is None:
        raise ReaderFailedError("No notebook can be read here, not even an empty one.")
    if reply is None:
        return (
            f"it takes more than {READER_CPU_SECONDS} seconds or {READER_MEMORY_BYTES // 2**30} "
            f"GB to read it. Clear its "
            f"outputs, and hand it in again"
        )
    if reply.why:
        return reply.why
    return HandedIn(bytes(reply.notebook).decode(), tuple(reply.said))


def _reply(came: bytes, room: Sandbox) -> _Reply | None:
    """What a process of its own makes of a file's bytes; None where it came to no end.

    Raises:
        ReaderFailedError: it was kept waiting for very long.
    """
    script = Path(notebook_rewriting.__file__)
    if has_bubblewrap():
        script = Path(PACKAGES, script.relative_to(Path(autograder.__file__).parent.parent))
    variables = sandbox_environment()
    with tempfile.TemporaryFile() as reply:
        try:
            subprocess.run(
                room.command([sys.executable, "-P", "-s", str(script)], variables),
                input=came,
                stdout=reply,
                stderr=subprocess.DEVNULL,
                timeout=READER_PATIENCE * READER_CPU_SECONDS,
                env=variables,
                check=True,
            )
        except subprocess.TimeoutExpired:
            raise ReaderFailedError(
                "The machine did not let a notebook be read. Grade it again, when it has less to "
                "do."
            ) from None
        except subprocess.CalledProcessError:
            return None
        reply.seek(0)
        try:
            return msgspec.json.decode(reply.read(MAX_REPLY_BYTES), type=_Reply)
        except msgspec.MsgspecError:  # cut off, or no reply at all
            return None


MAX_SUBMISSION_BYTES: Final = 100 * 2**20

MAX_FILES: Final = 1000
"""Files and folders."""

MAX_PATH_CHARACTERS: Final = 500

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
        if len(entry.path) > len(str(folder)) + MAX_PATH_CHARACTERS:
            return "the folders that were handed in are too deep. Hand in the notebook alone."
        about = entry.stat(follow_symlinks=False)
        if entry.is_symlink():  # nbgrader would follow it, and copy what it points to
            return f"{printable(entry.name)} is a link. {HAND_IN_THE_FILE}"
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            return f"{printable(entry.name)} is neither a file nor a folder. Remove it."
        if not os.access(entry.path, os.R_OK):
            return f"{printable(entry.name)} {MAY_NOT_BE_READ}"
        if entry.name.endswith(".ipynb") and about.st_size > MAX_NOTEBOOK_BYTES:
            return (
                f"{printable(entry.name)} has {about.st_size / 2**20:.0f} MB, and "
                f"{MAX_NOTEBOOK_BYTES // 2**20} are taken. Clear its outputs, and hand it in again."
            )
        together += about.st_size
        if number > MAX_FILES:
            return f"more than {MAX_FILES:,} files were handed in. Hand in the notebook alone."
        if together > MAX_SUBMISSION_BYTES:
            return (
                f"what was handed in has more than {MAX_SUBMISSION_BYTES // 2**20} MB. Hand in the "
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
