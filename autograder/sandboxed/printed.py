"""Collect what cells print: through `sys.stdout`, `sys.stderr`, and descriptors 1 and 2.

Python's own text is sent as messages. What subprocesses and libraries in C write to the descriptors
goes into a file, from which it is taken in turn.
"""

import contextlib
import io
import os
import tempfile
import threading
import time
from typing import Final, Literal

import msgspec

from autograder.sandboxed.messages import Message, Stream

MAX_PIECE: Final = 2**16
"""The most characters that wait to be sent."""

MAX_FILE_BYTES: Final = 2**21
"""The most bytes that are taken at once of what was written to a descriptor."""

PAUSE_SECONDS: Final = 0.2
"""Lines are sent at once, unless some were sent as short a while ago."""


class Channel:
    """The way to the process that grades; it takes one message at a time.

    Args:
        file: the descriptor of a pipe.
    """

    def __init__(self, file: int) -> None:
        self._file, self._lock, self._process = file, threading.RLock(), os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the kernel's process, and not one that a cell has forked."""
        return os.getpid() == self._process

    def send(self, message: Message) -> None:
        """Send a message, on a line of its own even where an interrupt cut the last one off."""
        if not self.is_here:
            return
        left = memoryview(b"\n%b\n" % msgspec.json.encode(message))
        with self._lock:
            while left:
                left = left[os.write(self._file, left) :]


class Printed(io.TextIOBase):
    """A stream of text that cells print to.

    Args:
        name: the stream's.
        descriptor: the one that stands for it in subprocesses.
        channel: takes its messages.
    """

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(
        self, name: Literal["stdout", "stderr"], descriptor: int, channel: Channel
    ) -> None:
        self._name, self._descriptor, self._channel = name, descriptor, channel
        self._waiting, self._size, self._sent = list[str](), 0, 0.0
        self._lock = threading.RLock()
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
            os.dup2(self._file, descriptor)

    def fileno(self) -> int:
        """The descriptor that stands for the stream."""
        return self._descriptor

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Print text.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self._channel.is_here:
            os.write(self._file, spell(text).encode())
            return len(text)
        with self._lock:
            self._take_file()
            self._waiting.append(text)
            self._size += len(text)
            is_due = time.monotonic() > self._sent + PAUSE_SECONDS and text.endswith("\n")
            if is_due or self._size > MAX_PIECE:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what waits."""
        if not self._channel.is_here:
            return
        with self._lock:
            self._take_file()
            text, self._size = "".join(self._waiting), 0
            self._waiting.clear()
            if text:
                self._channel.send(Stream(self._name, spell(text)))
                self._sent = time.monotonic()

    def _take_file(self) -> None:
        """Take what was written to the descriptor since."""
        with contextlib.suppress(OSError):  # a cell may have closed what is not its own
            if os.fstat(self._file).st_size:
                written = os.pread(self._file, MAX_FILE_BYTES, 0)
                os.ftruncate(self._file, 0)
                os.lseek(self._file, 0, os.SEEK_SET)
                self._waiting.append(written.decode(errors="replace"))
                self._size += len(written)


def spell(text: object) -> str:
    """Spell out halves of characters in a text: they cannot be written down."""
    return str(text).encode("utf-8", "backslashreplace").decode()
