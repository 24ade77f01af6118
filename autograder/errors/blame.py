"""Tell the learner's errors, and JAX's about their code, from our own.

To blame an answer for an error of its own is the worst that an autograder can do. So the learner's
code, and JAX at work on it, are called in few places, each within a narrow `with theirs():`, and
what is raised there comes out as a `TheirError`. Any other error that escapes from capturing,
reading, judging or drawing is ours. It becomes a `Fault`: plain data, which leads to a verdict of
its own and to no score.
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

from autograder.errors.jax_versions import versions_in_words
from autograder.errors.messages import ShortError, first_line

PACKAGE: Final = __name__.partition(".")[0]

DISTRIBUTION: Final = "shardlings"
"""What the package is called where it is installed from."""

LIBRARIES: Final = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
"""Where Python's own modules and installed packages are."""


class TheirError(Exception):
    """What the learner's code raised, or JAX at work on it.

    Attributes:
        error: the error itself.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {first_line(error)}")
        self.error = error


class theirs:  # noqa: N801  it reads as a statement: with theirs(): answer(x)
    """A place in which the learner's code is called, or JAX at work on it.

    An error comes out of it as a `TheirError`, except where the innermost code, libraries aside, is
    ours: a learner's function may call `show`, and `show` may have an error of its own. To call
    such a function in a way that it refuses is an error of the caller's.
    """

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise what is theirs as such, and let everything else pass."""
        if not isinstance(error, Exception | SystemExit) or isinstance(error, TheirError):
            return
        within = traceback.tb_next if traceback is not None else None  # the first is the caller
        if isinstance(error, ShortError) or _innermost(within) != "ours":
            raise TheirError(error) from error


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="fault"):
    """An error of ours, as plain data.

    Attributes:
        error: the name of its type.
        message: the first line of what it says.
        where: the module and the line of ours that it comes from.
    """

    error: str
    message: str
    where: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """What is to be known of an error."""
        where = "outside of its own modules"
        for frame, line in frames_of(error.__traceback__):
            if whose(frame) == "ours":
                where = f"{frame.f_globals['__name__']}, line {line}"
        return cls(type(error).__name__, first_line(error), where)

    def __str__(self) -> str:
        """On one line and in characters that can be shown anywhere, since it may be forged."""
        said = f"{self.error[:100]}: {self.message[:300]} ({self.where[:100]})"
        return "".join(c if c.isprintable() else " " for c in said)


def explanation(fault: Fault) -> tuple[str, str]:
    """What a learner is told of an error of ours: what happened, and what to do about it."""
    return (
        f"This is not your answer's fault: Shardlings itself failed while it looked at your "
        f"answer. The error was {fault}.",
        f"Your answer has not been judged, and restarting or running it again is unlikely to help. "
        f"{versions_in_words()} Please report this message at {address()}.",
    )


def address() -> str:
    """Where to report an error: the package itself knows where it lives."""
    try:
        urls = importlib.metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # a copy that nobody has installed
        urls = []
    links = dict(re.split(r",\s*", url, maxsplit=1) for url in urls if "," in url)
    return links.get("Repository", "the place that you have Shardlings from")


def _innermost(traceback: TracebackType | None) -> Literal["ours", "theirs", "library"]:
    """Whose code it was that called the last of the libraries, or that raised the error itself."""
    for frame, _ in reversed(frames_of(traceback)):
        owner = whose(frame)
        if owner != "library":
            return owner
    return "library"


def frames_of(traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
    """The frames that an error passed, the outermost first, and the line in each."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def whose(frame: FrameType) -> Literal["ours", "theirs", "library"]:
    """Whose code a frame is of; what is neither ours nor installed is the learner's."""
    return whose_globals(frame.f_globals, frame.f_code.co_filename)


def whose_globals(
    names: Mapping[str, object], file_name: str = ""
) -> Literal["ours", "theirs", "library"]:
    """Whose module has some global names.

    Args:
        names: the module's names.
        file_name: the file of its code, where the names do not say it: generated methods have no
            file, and the globals of the module that they were generated for.
    """
    module = str(names.get("__name__", ""))
    if module.partition(".")[0] == PACKAGE:
        return "ours"
    file = str(names.get("__file__") or file_name)
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    if installed or file.startswith((*LIBRARIES, "<frozen ")):
        return "library"
    return "theirs"
