"""Check and limit a kernel's messages. A student's code may control it, so none is trusted."""

import re
from collections import defaultdict
from typing import Any, Final, assert_never

import msgspec
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import evidence
from autograder.sandboxed import LINES, LONG, Display, Error, Message, Result, Stream, Update

MAX_MESSAGE_BYTES: Final = 2**24

MAX_COLONS: Final = 2**16
"""A message has no more names than colons; making each takes a microsecond."""

MAX_DEPTH: Final = 64
"""Python's own copying ends somewhere."""

PART_BYTES: Final = 64

MIN_OUTPUT_CHARACTERS: Final = 500
"""Each output counts as at least so many, because it is a part of a page."""

JSON: Final = re.compile(r"application/(.*\+)?json")
"""The kinds of data that need not be text."""

Output = Stream | Display | Update | Result | Error


class TooLarge(msgspec.Struct, frozen=True):
    """In place of a message that has more bytes than any may have."""


class Lines:
    """The lines of what comes in pieces, without empty ones; None in place of one too long."""

    def __init__(self) -> None:
        self._begun, self._size = list[bytes](), 0

    def feed(self, read: bytes) -> list[bytes | None]:
        """The lines that end in the next piece."""
        *ends, rest = read.split(b"\n")
        lines = list[bytes | None]()
        for end in ends:
            self._keep(end)
            if self._size:  # a million empty ones would take half a minute to look at
                lines.append(b"".join(self._begun) if self._size <= MAX_MESSAGE_BYTES else None)
            self._begun, self._size = [], 0
        self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        self._begun.append(piece)
        if self._size > MAX_MESSAGE_BYTES:
            self._begun.clear()


def read_message(line: bytes | None) -> Message | TooLarge | None:
    """A line that a kernel has written, read strictly; None where it is no message."""
    if line is None or line.count(b":") > MAX_COLONS:
        return TooLarge()
    try:
        message: Message = msgspec.json.decode(line, type=Message)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return message


class Allowance:
    """How much is kept of what the cells of a notebook say.

    Evidence has an allowance of its own: who prints much is to hand in none the less.

    Args:
        cell: the most characters of one cell.
        notebook: the most of all.
        handed_in: the most of all evidence.

    Attributes:
        too_large: the cells whose evidence was not kept.
    """

    def __init__(self, cell: int, notebook: int, handed_in: int) -> None:
        self.cell, self.notebook, self.handed_in = cell, notebook, handed_in
        self.said = defaultdict[int, int](int)
        self.evidence = 0
        self.too_large = set[int]()

    def takes(self, message: Output, index: int, times: int = 1) -> bool:
        """Check whether a message of a cell can be kept; where it can, it is counted.

        Args:
            message: what the kernel says.
            index: the cell's.
            times: in how many outputs it is kept; an update changes all that have its name.
        """
        size = _size(message)
        if is_evidence(message):
            return self._takes_evidence(size, index)
        size = max(size, MIN_OUTPUT_CHARACTERS) * times
        taken = (
            self.said[index] + size <= self.cell
            and sum(self.said.values()) + size <= self.notebook
        )  # fmt: skip
        self.said[index] += size if taken else 0
        return taken

    def _takes_evidence(self, size: int, index: int) -> bool:
        taken = self.evidence + size <= self.handed_in
        self.evidence += size if taken else 0
        if not taken:
            self.too_large.add(index)
        return taken


def _size(message: Output) -> int:
    """Count all that is kept of a message; its data is still JSON, and nothing is made of it.

    Each element of a list or an object counts as many bytes, because it takes as many as an object
    of Python's, and as a line of a notebook.
    """
    if isinstance(message, Stream):
        return len(message.text)
    if isinstance(message, Error):
        return sum(map(len, (message.ename, message.evalue, *message.traceback)))
    name = "" if isinstance(message, Result) else message.name or ""
    size = len(name)
    for kind, raw in message.data.items():
        data = bytes(raw)
        parts = sum(map(data.count, b",[{")) if JSON.fullmatch(kind) else 0
        size += len(kind) + len(data) + PART_BYTES * parts
    return size


def is_evidence(message: Output) -> bool:
    """Whether a message is evidence, as a check hands it in, and little else."""
    if not isinstance(message, Display) or evidence.MIME_TYPE not in message.data:
        return False
    said = message.data.get("text/plain", msgspec.Raw(b""))
    return message.data.keys() <= {evidence.MIME_TYPE, "text/plain"} and len(bytes(said)) <= LONG


def depth(content: Any) -> int:
    """How deep plain data is nested; of what is too deep to keep, one more than that."""
    deep, level = 0, [content]
    while deep <= MAX_DEPTH:
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            break
        deep += 1
        level = [i for each in level for i in (each.values() if isinstance(each, dict) else each)]
    return deep


def error_output(error: Error) -> NotebookNode:
    """What can be read of an error: it may be as long as a cell likes."""
    return new_output(
        "error",
        ename=error.ename[:LONG],
        evalue=error.evalue[:LONG],
        traceback=[line[:LONG] for line in error.traceback[-LINES:]],
    )


def output_of(
    message: Output, index: int, allowance: Allowance, times: int = 1
) -> NotebookNode | None:
    """The output that a message of a cell makes; None where it cannot be kept.

    Metadata is never kept: a picture's width goes into nbconvert's pages as it is.
    """
    if not allowance.takes(message, index, times):
        return None
    match message:
        case Stream():
            return new_output("stream", name=message.name, text=message.text)
        case Error():
            return error_output(message)
        case Display() | Update():
            data = _data(message.data)
            return data and new_output("display_data", data=data)
        case Result():
            data, number = _data(message.data), message.execution_count
            return data and new_output("execute_result", data=data, execution_count=number)
        case _:
            assert_never(message)


def _data(bundle: dict[str, msgspec.Raw]) -> dict[str, Any] | None:
    """Data by its MIME type; None where it is nested too deeply, or is no text and should be."""
    try:
        data = {
            kind: msgspec.json.decode(raw, type=Any if JSON.fullmatch(kind) else str)
            for kind, raw in bundle.items()
        }
    except (msgspec.MsgspecError, RecursionError):
        return None
    return data if depth(data) <= MAX_DEPTH else None
