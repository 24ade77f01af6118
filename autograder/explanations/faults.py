"""Errors of ours, as plain data, and how a learner is told of one.

The worst mistake of an autograder is to blame an answer for the autograder's own error. An error of
capturing, reading, judging or drawing becomes a `Fault`, which leads to a verdict of its own and to
no score.
"""

import importlib.metadata
import re
from typing import Final, Self

import msgspec

from shardlings.errors import first_line, frame_owner, frames_of, versions_in_words

DISTRIBUTION: Final = "shardlings"
"""The name under which the package is installed."""


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
                module = str(frame.f_globals.get("__name__", "a function"))
                where = f"{module}, line {line}" if line else module
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


def explain_fault(fault: Fault) -> tuple[str, str]:
    """Return two sentences for a learner: what happened, and what to do about it."""
    return (
        f"This is not your answer's fault: Shardlings itself failed while it looked at your "
        f"answer. The error was {fault}.",
        f"Your answer has not been judged, and restarting or running it again is unlikely to help. "
        f"{versions_in_words()} Please report this message at {report_address()}.",
    )
