"""Distinguish the learner's errors, and JAX's errors about their code, from our own.

The worst mistake of an autograder is to blame an answer for the autograder's own error. So the
learner's code, and JAX running it, are only called within a narrow `with theirs():`, and an error
raised there becomes a `TheirError`. Every other error while capturing, reading, judging or drawing
is ours. It becomes a `Fault`: plain data, which leads to a verdict of its own and to no score.
"""

import importlib.metadata
import os
import re
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Literal, Self

import msgspec

PACKAGES: Final = frozenset({"shardlings", "autograder"})
"""The packages whose errors are ours: this library, and the grader above it."""

DISTRIBUTION: Final = "shardlings"
"""The name under which the package is installed."""

LIBRARIES: Final = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
"""The folders of Python's own modules and of installed packages."""

Owner = Literal["ours", "theirs", "library"]
"""The owner of a piece of code: the autograder, the learner, or a library."""


class ShortError(Exception):
    """An error whose message is enough, so that IPython shows no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class UsageError(ShortError, TypeError):
    """One of the course's functions was called with arguments that it cannot use."""


class TheirError(Exception):
    """An error raised by the learner's code, or by JAX while it runs that code.

    Attributes:
        error: the original error.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {first_line(error)}")
        self.error = error


class theirs:  # noqa: N801  it reads as a statement: with theirs(): answer(x)
    """A context manager for calling the learner's code, or JAX on it.

    An error raised inside is raised again as a `TheirError`, unless the innermost code that is not
    a library's is ours: a learner's function may call `show`, and `show` may have a bug. A
    `ShortError` counts as the learner's, because it says what they can change.
    """

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception | SystemExit) or isinstance(error, TheirError):
            return
        inside = traceback.tb_next if traceback is not None else None  # the first is the caller
        if isinstance(error, ShortError) or _innermost_owner(inside) != "ours":
            raise TheirError(error) from error


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="fault"):
    """An error of ours, as plain data.

    Attributes:
        error: the name of its type.
        message: the first line of its message.
        where: the innermost module of ours that it passed, and the line.
    """

    error: str
    message: str
    where: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return the fault that describes an error."""
        where = "outside of its own modules"
        for frame, line in frames_of(error.__traceback__):
            if frame_owner(frame) == "ours":
                where = str(frame.f_globals["__name__"]) + (f", line {line}" if line else "")
        return cls(type(error).__name__, first_line(error), where)

    def __str__(self) -> str:
        """Return one short, printable line, even if the fault was forged."""
        line = f"{self.error[:100]}: {self.message[:300]} ({self.where[:100]})"
        return "".join(c if c.isprintable() else " " for c in line)


def report_address() -> str:
    """Return where to report an error: the repository's address, or words if it is unknown."""
    try:
        urls = importlib.metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # a copy that is not installed
        urls = []
    links = dict(re.split(r",\s*", url, maxsplit=1) for url in urls if "," in url)
    return links.get("Repository", "the place that you have Shardlings from")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, in characters that can be encoded."""
    lines = message_of(error).strip().splitlines() or ["it gives no message"]
    line = lines[len(lines) > 1 and lines[0].startswith("Mismatch details (")]
    line = line.partition("This error occurs at source:")[0]  # `cell_lines` gives the line
    return line[:300].rstrip(" :.(").encode(errors="replace").decode()


def message_of(error: BaseException) -> str:
    """Return an error's message, even if a learner's `__str__` raises."""
    try:
        return str(error)
    except Exception as another:
        return f"its message cannot be shown, because `__str__` raised {type(another).__name__}"


def frames_of(traceback: TracebackType | None) -> list[tuple[FrameType, int | None]]:
    """Return the frames that an error passed, outermost first, with the line number in each.

    An instruction that belongs to no line has None.
    """
    frames: list[tuple[FrameType, int | None]] = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def frame_owner(frame: FrameType) -> Owner:
    """Return whose code a frame runs. Code that is neither ours nor installed is the learner's."""
    return owner_of_globals(frame.f_globals, frame.f_code.co_filename)


def owner_of_globals(names: Mapping[str, object], file_name: str = "") -> Owner:
    """Return the owner of the module with these global names.

    Args:
        names: the module's global names.
        file_name: the file of its code, for a module without `__file__`. A generated method has
            its module's global names but no file.
    """
    module = str(names.get("__name__", ""))
    if module.partition(".")[0] in PACKAGES:
        return "ours"
    file = str(names.get("__file__") or file_name)
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    if installed or file.startswith((*LIBRARIES, "<frozen ")):
        return "library"
    return "theirs"


def _innermost_owner(traceback: TracebackType | None) -> Owner:
    """Return whose code raised an error, or called the library that raised it."""
    for frame, _ in reversed(frames_of(traceback)):
        owner = frame_owner(frame)
        if owner != "library":
            return owner
    return "library"
