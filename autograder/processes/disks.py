"""Disks: what a process may read, kept by its parent, which answers each request.

A learner's function runs in the process, so whatever the process has, the function can read and
change: a count of bytes, for example, or a list of the rows that are here. So the parent keeps them
(`RowsDisk`, `FileDisk`), and the process has only a way to ask (`Rows`, `WeightsFile`).
"""

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from autograder.explanations import Fault
from shardlings.errors import ShortError, first_line

MAX_REQUEST_BYTES: Final = 1 << 16
"""Size of one request; a table's row numbers are far fewer."""

Ask = Callable[["ReadRequest"], bytes]
"""Asks the parent for what is on a disk; raises the parent's refusal."""


class NoSuchPartError(ShortError, IndexError):
    """A table, a batch of it or a file was asked for a part that it does not have."""


@contextmanager
def as_wrong_index(asked: str) -> Iterator[None]:
    """Raise any error of a `with` block as one of an index, which a learner's function chose."""
    try:
        yield
    except Exception as error:
        raise NoSuchPartError(f"{asked} ({first_line(error)})") from error


class ReadRefusedError(ShortError, ValueError):
    """A process read what its devices do not need.

    Attributes:
        diagnosis: `not-here`, for rows that only another process has; of a file,
            `outside-the-array`; `of-another-process`, for other blocks of the array; or
            `reads-too-much`, for more bytes than its devices' blocks have.
    """

    def __init__(self, diagnosis: str, message: str) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


class RowsNotHereError(ReadRefusedError, IndexError):
    """A process asked for rows that only another process has."""


class ForgedRequestError(Exception):
    """A request that no process sends unless it is forged."""


class ReadRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to read, from a process to its parent. It may be forged.

    Attributes:
        argument: the number of the function's argument.
        numbers: the numbers of a table's rows; or the first byte of a file, and how many.
    """

    argument: int
    numbers: tuple[int, ...]


class ReadReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parent's reply to a request.

    Attributes:
        contents: the bytes.
        diagnosis: the diagnosis of a refused request.
        message: why it was refused.
    """

    contents: bytes = b""
    diagnosis: str = ""
    message: str = ""


class Disk(Protocol):
    """A part of the parent's data that one process may read.

    Attributes:
        caught: the sentence about a refusal that the function caught, with `{error}` in it.
    """

    caught: str

    def read(self, numbers: Sequence[int]) -> bytes:
        """Return what a request asks for.

        Raises:
            ReadRefusedError: the process may not read this.
            ForgedRequestError: it does not exist.
        """


@dataclass
class RowsDisk:
    """A table, of which a process has only some rows.

    Attributes:
        process: the number of the process.
        table: the whole table.
        here: for each row, whether the process has it.
    """

    process: int
    table: np.ndarray
    here: np.ndarray
    caught: str = (
        "Your function asked for rows that are not here, and caught the error: {error}. Catching "
        "it does not help: a process may not ask for the rows of another."
    )

    def read(self, numbers: Sequence[int]) -> bytes:
        """Return the bytes of some rows, by their numbers."""
        if not set(numbers) <= set(range(len(self.here))):
            raise ForgedRequestError("the table has no such row")
        rows = np.array(numbers, int)
        missing = rows[~self.here[rows]]
        if len(missing):
            raise RowsNotHereError(
                "not-here",
                f"process {self.process} has {_describe_rows(np.flatnonzero(self.here))} on its "
                f"disk, and not {_describe_rows(missing)}",
            )
        return bytes(self.table[rows].tobytes())


@dataclass
class FileDisk:
    """A file with an array, of which a process may read what its devices need, and no more.

    Attributes:
        process: the number of the process.
        here: for each element, whether a device of the process needs it.
        before: the number of bytes before the array, and after it.
        budget: how many bytes the process may read in all.
    """

    process: int
    array: np.ndarray
    here: np.ndarray
    before: int
    budget: int
    caught: str = "Your function read bytes that it may not read, and caught the error: {error}."
    total: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._contents = bytes(self.before) + self.array.tobytes() + bytes(self.before)
        self._needed = np.pad(np.repeat(self.here.ravel(), self.array.itemsize), self.before)

    def read(self, numbers: Sequence[int]) -> bytes:
        """Return so many bytes of the file, from the first one on."""
        places = range(self.before, self.before + self.array.nbytes)
        if len(numbers) != 2 or min(numbers) < 0 or sum(numbers) > len(self._contents):
            raise ForgedRequestError("the file has no such bytes")
        first, count = numbers
        end = first + count
        asked = (
            f"process {self.process} read {count:,} bytes from {first:,} on, of an array of shape "
            f"{self.array.shape}"
        )
        missing = np.flatnonzero(~self._needed[first:end])
        if missing.size and not (first in places and end - 1 in places):
            raise ReadRefusedError(
                "outside-the-array",
                f"{asked}, and the array has bytes {places.start:,} to {places.stop - 1:,}",
            )
        if missing.size:
            byte = f"{first + int(missing[0]):,}"
            raise ReadRefusedError(
                "of-another-process", f"{asked}, and byte {byte} belongs to another process"
            )
        self.total += count
        if self.total > self.budget:
            raise ReadRefusedError(
                "reads-too-much",
                f"process {self.process} has read {self.total:,} bytes of an array of shape "
                f"{self.array.shape}, and the blocks of its devices have {self.budget:,}",
            )
        return self._contents[first:end]


def _describe_rows(rows: np.ndarray) -> str:
    """Describe row numbers as ranges, such as `rows 0 to 7 and 16 to 23`."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return "rows " + " and ".join(f"{r[0]} to {r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)


class DiskServer(threading.Thread):
    """Answers the requests of one process, in its parent, until the process has ended.

    Attributes:
        refusal: the first refusal, as a diagnosis and a sentence; the process may have caught it.
        fault: an error of ours, after which requests are not answered any more.
    """

    def __init__(self, disks: Mapping[int, Disk], requests: Connection) -> None:
        super().__init__(daemon=True)
        self._disks, self._requests = disks, requests
        self.refusal: tuple[str, str] | None = None
        self.fault: Fault | None = None

    def run(self) -> None:
        """Answer requests until the process ends, or until one that must be forged."""
        forged = msgspec.MsgspecError, ForgedRequestError
        with self._requests:
            try:
                with contextlib.suppress(EOFError, OSError, *forged):
                    while True:
                        encoded = self._requests.recv_bytes(MAX_REQUEST_BYTES)
                        answer = self._answer(msgspec.msgpack.decode(encoded, type=ReadRequest))
                        self._requests.send_bytes(msgspec.msgpack.encode(answer))
            except Exception as error:
                self.fault = Fault.of(error)

    def _answer(self, request: ReadRequest) -> ReadReply:
        disk = self._disks.get(request.argument)
        if disk is None:
            raise ForgedRequestError("the argument is not on a disk")
        try:
            return ReadReply(disk.read(request.numbers))
        except ReadRefusedError as error:
            self.refusal = self.refusal or (error.diagnosis, disk.caught.format(error=error))
            return ReadReply(diagnosis=error.diagnosis, message=str(error))


def make_ask(requests: Connection) -> Ask:
    """Return a function that asks the parent at the other end of a connection.

    Threads may ask at the same time, as they may read a file.
    """
    lock = threading.Lock()

    def ask(request: ReadRequest) -> bytes:
        with lock:
            requests.send_bytes(msgspec.msgpack.encode(request))
            answer = msgspec.msgpack.decode(requests.recv_bytes(), type=ReadReply)
        if answer.diagnosis:
            kind = RowsNotHereError if answer.diagnosis == "not-here" else ReadRefusedError
            raise kind(answer.diagnosis, answer.message)
        return answer.contents

    return ask


class Rows:
    """A table on disk, of which this process has only some rows; it is indexed like an array.

    Attributes:
        shape: the shape of the whole table.
        dtype: the dtype of its values.
    """

    __module__ = "builtins"  # JAX's messages name its type; its module would only distract

    def __init__(self, shape: tuple[int, ...], argument: int, ask: Ask) -> None:
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(np.float32)
        self._argument, self._ask = argument, ask

    def __repr__(self) -> str:
        """Such as `rows of a table of shape (16, 4)`; JAX's messages quote it."""
        return f"rows of a table of shape {self.shape}"

    def __len__(self) -> int:
        """The number of rows of the whole table."""
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        """Return some of the rows, or some columns of them.

        Raises:
            RowsNotHereError: this process does not have all of them.
            NoSuchPartError: the table has none of these.
        """
        asked = f"a table of shape {self.shape} cannot be indexed like this"
        with as_wrong_index(asked):
            rows = index[0] if isinstance(index, tuple) else index
            numbers = np.atleast_1d(np.arange(len(self))[rows]).ravel()
        contents = self._ask(ReadRequest(self._argument, tuple(numbers.tolist())))
        table = np.zeros(self.shape, self.dtype)
        table[numbers] = np.frombuffer(contents, self.dtype).reshape(-1, *self.shape[1:])
        with as_wrong_index(asked):
            part = np.array(table[index])
        return part

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """Return the whole table.

        Raises:
            RowsNotHereError: this process does not have all of it.
        """
        return self[:]


class WeightsFile:
    """A file with an array, of which a process may read what its devices need, and no more.

    It is called with an offset and a size, in bytes, and returns bytes.

    Attributes:
        size: the file's size, in bytes.
    """

    __module__ = "builtins"  # as for Rows

    def __init__(self, size: int, argument: int, ask: Ask) -> None:
        self.size, self._argument, self._ask = size, argument, ask

    def __call__(self, offset: int, size: int) -> bytes:
        """Return so many bytes of the file, from an offset on.

        Raises:
            NoSuchPartError: the file does not have these bytes.
            ReadRefusedError: the process does not need them.
        """
        with as_wrong_index("an offset and a size are whole numbers of bytes"):
            first, count = operator.index(offset), operator.index(size)
        if first < 0 or count < 0 or first + count > self.size:
            raise NoSuchPartError(
                f"the file has {self.size:,} bytes, and not {count:,} from {first:,} on"
            )
        return self._ask(ReadRequest(self._argument, (first, count)))
