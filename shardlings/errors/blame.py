"""Distinguish the user's errors, and JAX's errors about their code, from our own.

Nobody should be blamed for an error of this library. So the user's code, and JAX running it, are
only called within a narrow `with theirs():`, and an error raised there becomes a `TheirError`.
Every other error is ours.
"""

import os
import re
import sysconfig
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Literal

OWN_FOLDERS: Final = [f"{Path(__file__).parents[1]}{os.sep}"]
"""The folders of the packages whose errors are ours: this one, and those that build on it."""

LIBRARIES: Final = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
"""The folders of Python's own modules and of installed packages."""

MAX_MESSAGE_CHARACTERS: Final = 300
"""The most characters of an error's message that a sentence quotes."""

LISTED: Final = re.compile(r"\s*\* ")
"""The beginning of a line in a list, such as one axis in an error of `vmap`."""

NAME_OR_DEVICE: Final = r"(?:'[^'{}]*'|\w+\(id=\d+\))"

SET: Final = re.compile(rf"\{{{NAME_OR_DEVICE}(?:, {NAME_OR_DEVICE})+\}}")
"""A set of names or devices as Python writes it, in an order that differs between processes."""

Owner = Literal["ours", "theirs", "library"]
"""The owner of a piece of code: we, the user, or a library."""


class ShortError(Exception):
    """An error whose message is enough, so that IPython shows no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class UsageError(ShortError, TypeError):
    """One of our functions was called with arguments that it cannot use."""


class TheirError(Exception):
    """An error raised by the user's code, or by JAX while it runs that code.

    Attributes:
        error: the original error.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {first_line(error)}")
        self.error = error


class theirs:  # noqa: N801  it reads as a statement: with theirs(): answer(x)
    """A context manager for calling the user's code, or JAX on it.

    An error raised inside is raised again as a `TheirError`, unless the innermost code that is not
    a library's is ours: a user's function may call `show`, and `show` may have a bug. A
    `ShortError` counts as the user's, because it says what they can change.
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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, in characters that can be encoded.

    A line that ends with a colon has the list below it, as in the error of `vmap` about sizes.
    """
    lines = message_of(error).strip().splitlines() or ["it gives no message"]
    line = lines[len(lines) > 1 and lines[0].startswith("Mismatch details (")]
    listed = takewhile(LISTED.match, lines[1:]) if lines[0].endswith(":") else ()
    line = " ".join([line, *(LISTED.sub("", each) for each in listed)])
    line = line.partition("This error occurs at source:")[0]  # `cell_lines` gives the line
    if len(line) > MAX_MESSAGE_CHARACTERS:
        line = f"{line[:MAX_MESSAGE_CHARACTERS].rsplit(' ', 1)[0]} …"
    return line.rstrip(" :.(").encode(errors="replace").decode()


def _write_in_order(written_set: re.Match[str]) -> str:
    # by length first, so that device 10 comes after device 9
    items = sorted(re.findall(NAME_OR_DEVICE, written_set[0]), key=lambda item: (len(item), item))
    return f"{{{', '.join(items)}}}"


def message_of(error: BaseException) -> str:
    """Return an error's message, even if a user's `__str__` raises.

    Sets in it are in order, so that an error says the same in every process.
    """
    try:
        return SET.sub(_write_in_order, str(error))
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
    """Return whose code a frame runs. Code that is neither ours nor installed is the user's."""
    return owner_of_globals(frame.f_globals, frame.f_code.co_filename)


def owner_of_globals(names: Mapping[str, object], file_name: str = "") -> Owner:
    """Return the owner of the module with these global names.

    Args:
        names: the module's global names.
        file_name: the file of its code, for a module without `__file__`.
    """
    file = str(names.get("__file__") or file_name)
    if is_own_file(file):
        return "ours"
    return "library" if is_installed(file) else "theirs"


def add_own_folder(folder: Path) -> None:
    """Count the code in a folder as ours: that of a package that builds on this one."""
    OWN_FOLDERS.append(f"{folder}{os.sep}")


def is_own_file(file: str) -> bool:
    """Check whether a file of code is ours."""
    return file.startswith(tuple(OWN_FOLDERS))


def is_installed(file: str) -> bool:
    """Check whether a file of code belongs to Python or to an installed package."""
    is_package = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return bool(is_package) or file.startswith((*LIBRARIES, "<frozen "))


def _innermost_owner(traceback: TracebackType | None) -> Owner:
    """Return whose code raised an error, or called the library that raised it."""
    for frame, _ in reversed(frames_of(traceback)):
        owner = frame_owner(frame)
        if owner != "library":
            return owner
    return "library"
