"""The messages between the process that grades and a kernel, each one line of JSON."""

from typing import Literal

import msgspec

from autograder.evidence import Plan

MimeBundle = dict[str, msgspec.Raw]
"""Data by its MIME type. It is not decoded before its size has been checked."""


MAX_ERROR_CHARACTERS, MAX_TRACEBACK_LINES = 2**12, 100
"""The most characters of a line of an error, and the most lines of its traceback."""


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first request: the submission's files, and what to capture.

    Attributes:
        plans: the plans by which `check` captures answers.
        files: the path, encoded by the file system's encoding, and contents of each file beside the
            notebook.
    """

    plans: list[Plan]
    files: list[tuple[bytes, bytes]]


class RunCell(msgspec.Struct, frozen=True, tag=True):
    """Run a cell; the `Done` that follows has its number."""

    number: int
    source: str


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Interrupt the running cell, as Ctrl-C does."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The kernel has started; it has run no student's code yet."""


class Stream(msgspec.Struct, frozen=True, tag=True):
    """Printed text."""

    name: Literal["stdout", "stderr"]
    text: str


class Display(msgspec.Struct, frozen=True, tag=True):
    """Displayed data. If it has a name, an `Update` may replace it."""

    data: MimeBundle
    name: str | None = None


class Update(msgspec.Struct, frozen=True, tag=True):
    """New data for a `Display` with a name."""

    data: MimeBundle
    name: str


class Result(msgspec.Struct, frozen=True, tag=True):
    """The value of a cell's last expression."""

    data: MimeBundle
    execution_count: int


class Error(msgspec.Struct, frozen=True, tag=True):
    """An exception that ended a cell."""

    ename: str
    evalue: str
    traceback: list[str]


class Done(msgspec.Struct, frozen=True, tag=True):
    """A cell has ended; no more output follows."""

    number: int
    error: Error | None = None


Request = Begin | RunCell | Interrupt
Message = Ready | Stream | Display | Update | Result | Error | Done
