"""The messages between the process that grades and a kernel: one line of JSON each."""

from typing import Literal

import msgspec

from autograder.evidence import Plan

MimeBundle = dict[str, msgspec.Raw]
"""Data by its MIME type. It stays JSON until its size is known to be within limits."""


LONG, LINES = 2**12, 100
"""The most characters of a line of an error, and the most lines."""


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first request.

    Attributes:
        plans: what `check` is to capture.
        files: for each file beside the notebook its path, as the system writes it, and its bytes.
    """

    plans: list[Plan]
    files: list[tuple[bytes, bytes]]


class RunCell(msgspec.Struct, frozen=True, tag=True):
    """Run a cell; `Done` names it by its number."""

    number: int
    source: str


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Interrupt the cell that runs, as Ctrl-C does."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The kernel is up; it has run nobody's code."""


class Stream(msgspec.Struct, frozen=True, tag=True):
    """Text that was printed."""

    name: Literal["stdout", "stderr"]
    text: str


class Display(msgspec.Struct, frozen=True, tag=True):
    """Something that was shown; where it has a name, an `Update` may change it."""

    data: MimeBundle
    name: str | None = None


class Update(msgspec.Struct, frozen=True, tag=True):
    """New data for what was shown under a name."""

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
    """A cell has ended; there is nothing more to come from it."""

    number: int
    error: Error | None = None


Request = Begin | RunCell | Interrupt
Message = Ready | Stream | Display | Update | Result | Error | Done
