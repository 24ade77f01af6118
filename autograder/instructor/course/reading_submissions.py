"""Check a submission before anything of it is copied or run, and read its notebook in a sandbox.

The process that grades never parses a student's notebook. A *reader*, a process in the sandbox,
does, and returns a notebook of bounded size with only the parts that are graded and shown. The code
of the reader is in `notebook_rewriting.py`.
"""

import contextlib
import functools
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from humanize import natural_list
from traitlets.config import Config

from autograder.instructor.commands import printable
from autograder.instructor.course import notebook_rewriting
from autograder.instructor.sandbox import (
    PACKAGES,
    MachineError,
    ProcessFamily,
    Sandbox,
    has_bubblewrap,
    read_sandbox_environment,
)

MAX_NOTEBOOK_BYTES: Final = 20 * 2**20
"""A notebook of this course, with all its outputs, has less than 1 MB."""

READER_MEMORY_BYTES: Final = 2 * 2**30
"""Parsing 20 MB of brackets takes 1 GB."""

READER_CPU_SECONDS: Final = 60
"""A notebook of 20 MB takes two seconds."""

READER_GRACE_SECONDS: Final = 10
"""CPU time beyond its limit in which a reader reports that it has passed it."""

READER_TRIES: Final = 2
"""The most readers for a notebook: one may be killed by the machine, for example for memory."""

READER_PATIENCE: Final = 10
"""The time limit of a reader, as a multiple of its CPU time; beyond it the machine is at fault."""

MAX_REPLY_BYTES: Final = 2**25
"""The reader's limits on cells and pictures keep replies below this size."""

CONTROL_NOTEBOOK: Final = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'
"""An empty notebook: if reading it fails, the machine is at fault."""


class UnreadableError(ValueError):
    """A file cannot be read as a notebook; the message says why, and what to do."""


class ReaderFailedError(MachineError):
    """The readers died or were not let run, which is not the submission's fault."""


@dataclass(frozen=True)
class RewrittenNotebook:
    """A submitted notebook, rewritten by a reader.

    Attributes:
        text: the notebook, as JSON.
        notes: sentences about what was left out.
        read_names: the names that each code cell reads from the notebook, by its source; None if
            it may read any.
    """

    text: str
    notes: tuple[str, ...] = ()
    read_names: Mapping[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def notebook(self) -> Any:
        """A new copy of the notebook, which may be modified."""
        return nbformat.reads(self.text, 4)


class _ReaderReply(msgspec.Struct):
    why: str = ""
    passed_limit: bool = False
    notebook: msgspec.Raw = msgspec.Raw(b"")
    notes: list[str] = []
    read_names: dict[str, frozenset[str] | None] = {}


def read_in_sandbox(name: str, contents: bytes, config: Config | None = None) -> RewrittenNotebook:
    """Read a submitted notebook in the sandbox.

    Args:
        name: the name of its file.
        contents: its file.
        config: the course's configuration, which says whether a sandbox is required.

    Raises:
        UnreadableError: the file cannot be read as a notebook.
        ReaderFailedError: no reader finished, and the submission is not at fault.
    """
    if len(contents) > MAX_NOTEBOOK_BYTES:
        raise UnreadableError(f"{printable(name)} has more than {MAX_NOTEBOOK_BYTES // 2**20} MB.")
    notebook = _read_notebook(contents, Sandbox(config=config or Config()).required)
    if isinstance(notebook, str):
        raise UnreadableError(f"{printable(name)} cannot be read as a notebook: {notebook}.")
    return notebook


def find_notebook_problem(path: Path, config: Config | None = None) -> str:
    """Return why a file cannot be read as a notebook, in a sentence; empty if it can.

    Raises:
        OSError: it cannot be opened, for another reason than its permissions.
        ReaderFailedError: no reader finished, and the submission is not at fault.
    """
    try:
        with path.open("rb") as file:
            contents = file.read(MAX_NOTEBOOK_BYTES + 1)
        read_in_sandbox(path.name, contents, config)
    except (PermissionError, IsADirectoryError) as error:
        return f"{printable(path.name)} cannot be opened: {error.strerror}. Hand it in again."
    except UnreadableError as error:
        return str(error)
    return ""


@functools.lru_cache(maxsize=1)  # a caller first checks whether it can be read, and then reads it
def _read_notebook(contents: bytes, is_sandbox_required: bool) -> RewrittenNotebook | str:
    """Have a reader parse a file; return the notebook, or why it is none."""
    sandbox = Sandbox(
        required=is_sandbox_required,
        memory=READER_MEMORY_BYTES,
        cpu_seconds=int(READER_CPU_SECONDS) + READER_GRACE_SECONDS,
        scratch=MAX_REPLY_BYTES,
    )
    replies = (_run_reader(contents, sandbox) for _ in range(READER_TRIES))
    reply = next(filter(None, replies), None)
    if reply is None and _run_reader(CONTROL_NOTEBOOK, sandbox) is None:
        raise ReaderFailedError("No notebook can be read here, not even an empty one.")
    if reply is None:
        raise ReaderFailedError(
            f"{READER_TRIES} processes died while they read the notebook, and did not say why."
        )
    if reply.passed_limit:
        return (
            f"it takes more than {READER_CPU_SECONDS} seconds or {READER_MEMORY_BYTES // 2**30} "
            f"GB to read it. Clear its "
            f"outputs, and hand it in again"
        )
    if reply.why:
        return reply.why
    return RewrittenNotebook(bytes(reply.notebook).decode(), tuple(reply.notes), reply.read_names)


def _run_reader(contents: bytes, sandbox: Sandbox) -> _ReaderReply | None:
    """Parse a file in a process of its own; return None if that process died.

    Raises:
        ReaderFailedError: the process hardly got any CPU time.
    """
    script = Path(notebook_rewriting.__file__)
    if has_bubblewrap():
        script = Path(PACKAGES, f"{notebook_rewriting.__name__.replace('.', '/')}.py")
    variables = read_sandbox_environment()
    command = [sys.executable, "-P", "-s", str(script), str(READER_CPU_SECONDS)]
    seconds = READER_PATIENCE * READER_CPU_SECONDS
    deadline = time.monotonic() + seconds
    with ProcessFamily(
        sandbox.command(command, variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
    ) as reader:
        timer = threading.Timer(seconds, reader.kill)
        try:
            timer.start()
            assert reader.stdin is not None
            assert reader.stdout is not None
            with contextlib.suppress(BrokenPipeError), reader.stdin as pipe:
                pipe.write(contents)
            output = reader.stdout.read(MAX_REPLY_BYTES)
        finally:
            timer.cancel()
            reader.kill()
    with contextlib.suppress(msgspec.MsgspecError):  # truncated, or not a reply
        return msgspec.json.decode(output, type=_ReaderReply)
    if time.monotonic() > deadline:
        raise ReaderFailedError(
            "The machine did not let a notebook be read. Grade it again, when it has less to do."
        )
    return None


MAX_SUBMISSION_BYTES: Final = 100 * 2**20

MAX_FILES: Final = 1000
"""The maximum number of files and folders in a submission."""

MAX_PATH_CHARACTERS: Final = 500

HAND_IN_THE_FILE: Final = "Hand in the file itself, and remove the link."

MAY_NOT_BE_READ: Final = (
    "cannot be opened by the account that grades. Run chmod u+r on it, or hand it in again."
)
"""The message for a file or folder without permission, after its name."""


def find_unsafe_file(folder: Path) -> str:
    """Return why a submission's folder must not be opened or copied; empty if it may be.

    This opens no file, because opening a special file, such as a pipe, could block for ever.

    Raises:
        OSError: it cannot be inspected, for another reason than its permissions.
    """
    if folder.is_symlink():
        return f"{printable(folder.name)} is a link. {HAND_IN_THE_FILE}"
    try:
        return _problem_inside(folder)
    except PermissionError as error:  # of a folder in it
        return f"{printable(Path(error.filename or folder).name)} {MAY_NOT_BE_READ}"


def _problem_inside(folder: Path) -> str:
    """Return why the contents of a folder must not be opened or copied.

    Raises:
        OSError: an entry cannot be inspected.
    """
    total_bytes = 0
    for number, entry in enumerate(_entries(folder), 1):
        if len(entry.path) > len(str(folder)) + MAX_PATH_CHARACTERS:
            return "the folders that were handed in are too deep. Hand in the notebook alone."
        status = entry.stat(follow_symlinks=False)
        if entry.is_symlink():  # nbgrader would copy the file that it points to
            return f"{printable(entry.name)} is a link. {HAND_IN_THE_FILE}"
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return f"{printable(entry.name)} is neither a file nor a folder. Remove it."
        if not os.access(entry.path, os.R_OK):
            return f"{printable(entry.name)} {MAY_NOT_BE_READ}"
        if entry.name.endswith(".ipynb") and status.st_size > MAX_NOTEBOOK_BYTES:
            return (
                f"{printable(entry.name)} has {status.st_size / 2**20:.0f} MB, and "
                f"{MAX_NOTEBOOK_BYTES // 2**20} are taken. Clear its outputs, and hand it in again."
            )
        total_bytes += status.st_size
        if number > MAX_FILES:
            return f"more than {MAX_FILES:,} files were handed in. Hand in the notebook alone."
        if total_bytes > MAX_SUBMISSION_BYTES:
            return (
                f"what was handed in has more than {MAX_SUBMISSION_BYTES // 2**20} MB. Hand in the "
                f"notebook alone."
            )
    return ""


def explain_missing_notebook(path: Path, notebooks: Collection[str]) -> str:
    """Return why there is no notebook of an assignment's name; empty if there is one.

    Args:
        path: the notebook's path.
        notebooks: the names of all notebooks of the assignment.
    """
    if path.is_dir():
        return f"{path.name} is a folder. Hand in the notebook's own file."
    names = (p.name for p in path.parent.glob("*") if p != path)
    # such as Hw.ipynb, hw.ipynb.txt of a browser, or a name that ends with a line break
    others = sorted(printable(name) for name in names if ".ipynb" in name.casefold())
    due = [name for name in others if name.removesuffix(".ipynb") in notebooks]
    if not path.exists() and others and due == others:
        return (
            f"there is no {path.name} in the folder that was handed in, only "
            f"{natural_list(due)}. Hand in all of them together."
        )
    if not path.exists() and others:
        return (
            f"there is no {path.name} in the folder that was handed in, but {', '.join(others)}. "
            f"If that is it, rename it to {path.name}."
        )
    if not path.exists():
        return f"there is no {path.name} in the folder that was handed in."
    return ""


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """Yield everything in a folder, level by level."""
    folders: list[str] = [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
