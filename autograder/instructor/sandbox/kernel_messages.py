"""Check and limit a kernel's messages, which student code may have written."""

import re
from collections import defaultdict
from typing import Any, Final, assert_never

import msgspec
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import evidence
from autograder.sandboxed import (
    MAX_ERROR_CHARACTERS,
    MAX_TRACEBACK_LINES,
    Display,
    Error,
    Message,
    Result,
    Stream,
    Update,
)

MAX_MESSAGE_BYTES: Final = 2**24

MAX_COLONS: Final = 2**16
"""The most colons in a message, and so the most names: decoding each takes a microsecond."""

MAX_DEPTH: Final = 64
"""The deepest nesting of data, because copying it in Python is recursive."""

ELEMENT_BYTES: Final = 64
"""The size that is counted for each element of a list or an object; see `_measure_size`."""

MIN_OUTPUT_CHARACTERS: Final = 500
"""Each output counts as at least so many characters, because a page shows it as an element."""

JSON_TYPE: Final = re.compile(r"application/(.*\+)?json")
"""The MIME types whose data need not be text."""

Output = Stream | Display | Update | Result | Error


class TooLargeMessage(msgspec.Struct, frozen=True):
    """A placeholder for a message that is too large to read."""


class LineBuffer:
    """Joins pieces of input into lines; drops empty lines, and replaces too long ones with None."""

    def __init__(self) -> None:
        self._pieces, self._size = list[bytes](), 0

    def feed(self, received: bytes) -> list[bytes | None]:
        """Return the lines that end in the next piece."""
        *pieces, rest = received.split(b"\n")
        lines = list[bytes | None]()
        for piece in pieces:
            self._append(piece)
            if self._size:  # a million empty lines would take half a minute to process
                lines.append(b"".join(self._pieces) if self._size <= MAX_MESSAGE_BYTES else None)
            self._pieces, self._size = [], 0
        self._append(rest)
        return lines

    def _append(self, piece: bytes) -> None:
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > MAX_MESSAGE_BYTES:
            self._pieces.clear()


def read_message(line: bytes | None) -> Message | TooLargeMessage | None:
    """Decode a line from a kernel strictly; None if it is not a message."""
    if line is None or line.count(b":") > MAX_COLONS:
        return TooLargeMessage()
    try:
        message: Message = msgspec.json.decode(line, type=Message)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return message


class OutputLimits:
    """Limits how much of a notebook's output is kept.

    Evidence has a limit of its own, so a notebook that prints a lot can still submit its answers.

    Args:
        cell: the most characters of output for one cell.
        notebook: the most characters of output for all cells.
        max_evidence: the most characters of evidence for all cells.

    Attributes:
        too_large: the indices of the cells whose evidence was not kept.
    """

    def __init__(self, cell: int, notebook: int, max_evidence: int) -> None:
        self.cell, self.notebook, self.max_evidence = cell, notebook, max_evidence
        self.output_sizes = defaultdict[int, int](int)
        self.evidence_size = 0
        self.too_large = set[int]()

    def admit(self, message: Output, index: int, times: int = 1) -> bool:
        """Check whether a message can be kept, and count it if so.

        Args:
            message: the kernel's message.
            index: the index of the cell.
            times: the number of outputs that keep it; an update changes all with its name.
        """
        size = _measure_size(message)
        if is_evidence(message):
            return self._admit_evidence(size, index)
        size = max(size, MIN_OUTPUT_CHARACTERS) * times
        is_kept = (
            self.output_sizes[index] + size <= self.cell
            and sum(self.output_sizes.values()) + size <= self.notebook
        )  # fmt: skip
        self.output_sizes[index] += size if is_kept else 0
        return is_kept

    def _admit_evidence(self, size: int, index: int) -> bool:
        is_kept = self.evidence_size + size <= self.max_evidence
        self.evidence_size += size if is_kept else 0
        if not is_kept:
            self.too_large.add(index)
        return is_kept


def _measure_size(message: Output) -> int:
    """Count the characters that are kept of a message, without decoding its JSON.

    Each element of a list or an object counts for 64 more, because it becomes a Python object and
    a line of the notebook's file.
    """
    if isinstance(message, Stream):
        return len(message.text)
    if isinstance(message, Error):
        return sum(map(len, (message.ename, message.evalue, *message.traceback)))
    name = "" if isinstance(message, Result) else message.name or ""
    size = len(name)
    for mime_type, raw in message.data.items():
        data = bytes(raw)
        elements = sum(map(data.count, b",[{")) if JSON_TYPE.fullmatch(mime_type) else 0
        size += len(mime_type) + len(data) + ELEMENT_BYTES * elements
    return size


def is_evidence(message: Output) -> bool:
    """Check whether a message is a check's evidence with at most a short text beside it."""
    if not isinstance(message, Display) or evidence.MIME_TYPE not in message.data:
        return False
    text = message.data.get("text/plain", msgspec.Raw(b""))
    return (
        message.data.keys() <= {evidence.MIME_TYPE, "text/plain"}
        and len(bytes(text)) <= MAX_ERROR_CHARACTERS
    )


def measure_depth(content: Any) -> int:
    """Return how deeply plain data is nested, but at most `MAX_DEPTH` + 1."""
    depth, level = 0, [content]
    while depth <= MAX_DEPTH:
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            break
        depth += 1
        level = [i for item in level for i in (item.values() if isinstance(item, dict) else item)]
    return depth


def make_error_output(error: Error) -> NotebookNode:
    """Return the output for an error, shortened, because a cell can make it as long as it likes."""
    return new_output(
        "error",
        ename=error.ename[:MAX_ERROR_CHARACTERS],
        evalue=error.evalue[:MAX_ERROR_CHARACTERS],
        traceback=[line[:MAX_ERROR_CHARACTERS] for line in error.traceback[-MAX_TRACEBACK_LINES:]],
    )


def make_output(
    message: Output, index: int, allowance: OutputLimits, times: int = 1
) -> NotebookNode | None:
    """Return the notebook output for a message; None if it cannot be kept.

    Metadata is never kept, because nbconvert copies some of it, such as a picture's width, into
    pages unescaped.

    Args:
        message: the kernel's message.
        index: the index of the cell.
        allowance: the limits, which count what is kept.
        times: the number of outputs that keep it.
    """
    if not allowance.admit(message, index, times):
        return None
    match message:
        case Stream():
            return new_output("stream", name=message.name, text=message.text)
        case Error():
            return make_error_output(message)
        case Display() | Update():
            data = _decode_data(message.data)
            return data and new_output("display_data", data=data)
        case Result():
            data, number = _decode_data(message.data), message.execution_count
            return data and new_output("execute_result", data=data, execution_count=number)
        case _:
            assert_never(message)


def _decode_data(bundle: dict[str, msgspec.Raw]) -> dict[str, Any] | None:
    """Decode data by MIME type; None if it is nested too deeply, or is not text but should be."""
    try:
        data = {
            mime_type: msgspec.json.decode(raw, type=Any if JSON_TYPE.fullmatch(mime_type) else str)
            for mime_type, raw in bundle.items()
        }
    except (msgspec.MsgspecError, RecursionError):
        return None
    return data if measure_depth(data) <= MAX_DEPTH else None
