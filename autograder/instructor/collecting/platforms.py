"""All learning platforms, and the forms of names that are of no platform in particular.

To add a platform, write a subclass of `Platform` in a module of its own, as `canvas.py` is, and
add it to `PLATFORMS`. Its settings and its columns in the roster are in
`course/platform_settings.py`, and its exporter of grades, which nbgrader loads by its name, in
`exporters.py`.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final

from autograder.instructor.collecting.canvas import CanvasPlatform
from autograder.instructor.collecting.moodle import MoodlePlatform
from autograder.instructor.collecting.owners import OwnedFile, Platform


class StudentFolders(Platform):
    """Kaggle, and others: a folder for each student, with the student's name or id."""

    name = "folders"

    def parse_owner(self, name: PurePosixPath) -> OwnedFile | None:
        """Parse a file's name in an archive; None if it is in no folder."""
        if len(name.parts) < 2:
            return None
        return OwnedFile(self, name.parts[0].strip(), "", PurePosixPath(*name.parts[1:]))


class NamePattern(Platform):
    """The file names of a platform without a grammar of its own here, from `class.toml`.

    In a pattern, `{student}` is an id, a login or a name in the roster, `{file}` the student's own
    name of a file, `{any}` anything, and `{time:%Y-%m-%d}` a time in a form of `strptime`, by which
    resubmissions are sorted. Each but `{file}` is within one folder's or file's name, and as short
    as possible, because students write what follows it.

    Args:
        text: the pattern.

    Raises:
        ValueError: it is no pattern; the message says why.
    """

    name = "class.toml"
    PART: Final = re.compile(r"\{([^{}]*)\}")

    def __init__(self, text: str) -> None:
        parts = self.PART.split(text)
        names = [part.partition(":")[0] for part in parts[1::2]]
        unknown = {*names} - {"student", "file", "any", "time"}
        is_ambiguous = any(names.count(name) != 1 for name in ("student", "file"))
        if unknown or is_ambiguous or names.count("time") > 1:
            raise ValueError(
                "it should have {student} and {file} once each, at most one {time:…} such as "
                "{time:%Y-%m-%d-%H-%M-%S}, and otherwise {any} and what is the same in all names"
            )
        self.time_form = next((p.partition(":")[2] for p in parts[1::2] if p[:4] == "time"), "")
        shapes = {"file": "(?P<file>.+)", "student": "(?P<student>[^/]+?)", "any": "[^/]+?"}
        shapes["time"] = "(?P<time>[^/]+?)"
        self.expression = re.compile(
            "".join(
                re.escape(part) if index % 2 == 0 else shapes[part.partition(":")[0]]
                for index, part in enumerate(parts)
            )
        )

    def parse_owner(self, name: PurePosixPath) -> OwnedFile | None:
        """Parse a file's name in an archive; None if it is not of this form."""
        match = self.expression.fullmatch(str(name))
        if match is None:
            return None
        time = datetime.min
        if self.time_form:
            try:
                time = datetime.strptime(match["time"], self.time_form)
                if time.tzinfo is not None:
                    time = time.astimezone(UTC).replace(tzinfo=None)
            except (ValueError, OverflowError):
                return None
        # not .timestamp(): this machine's zone may be another, and may skip an hour
        seconds = (time - datetime.min) // timedelta(seconds=1)
        student, file = match["student"].strip(), PurePosixPath(match["file"])
        return OwnedFile(self, student, "", file, seconds)


FOLDERS: Final = StudentFolders()

PLATFORMS: Final[tuple[Platform, ...]] = (MoodlePlatform(), CanvasPlatform(), FOLDERS)
"""The first one that understands a name decides."""


def parse_owner(name: PurePosixPath, pattern: NamePattern | None = None) -> OwnedFile | None:
    """Parse a file's name in an archive; None if it does not name a student.

    Args:
        name: the name.
        pattern: the form of the names, if the class has one of its own.
    """
    platforms = PLATFORMS if pattern is None else (pattern,)
    return next(filter(None, (platform.parse_owner(name) for platform in platforms)), None)
