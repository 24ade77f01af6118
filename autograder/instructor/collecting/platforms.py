r"""Whose a file is, by what learning platforms call it in the zip files that they give.

Canvas: `doejane_LATE_12345_67890_notebook-1.ipynb`: the name without what is no letter, the
student's number, the file's, and a number where it was handed in again.
Moodle: `Jane Doe_4711_assignsubmission_file/notebook.ipynb`, with one more `_` before 2022, or the
same without a folder; the number is another one in each assignment.
Kaggle, and others: a folder for each student, which is called like them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

CANVAS: Final = re.compile(
    r"(?P<name>[^_/]+)_(?:(?P<late>LATE)_)?(?P<user>\d+)_(?P<number>\d+)_(?P<file>[^/]+)"
)
MOODLE: Final = re.compile(
    r"(?P<name>[^/]+?)_(?P<user>\d+)_assignsubmission_[a-z]+(?:_/?|/)(?P<file>.+)"
)

AGAIN: Final = re.compile(r"(?P<stem>.+?)(?:[-_ ]?\((?P<n>\d+)\)|-(?P<m>\d+)|[-_ ]?[cC]opy\d*)")
"""What platforms and browsers make of a name that there is already."""


@dataclass(frozen=True)
class Owned:
    """A file, and what the platform says of it.

    Attributes:
        platform: which.
        name: whose it is, as the platform writes it.
        user: the platform's number of them; empty where there is none that stays.
        participant: their number in this assignment alone; empty where there is none.
        file: what it is called, without what the platform has put before it.
        number: the larger, the later it was handed in, among a student's files of one name.
        late: whether the platform calls it late.
    """

    platform: str
    name: str
    user: str
    file: PurePosixPath
    number: tuple[int, int] = (0, 0)
    late: bool = False
    participant: str = ""


def owned(name: PurePosixPath) -> Owned | None:
    """Whose a file is, by its name in an archive; None where that cannot be seen.

    Only the beginning is the platform's word. What comes after it, a student may have written.
    """
    canvas = CANVAS.fullmatch(name.parts[0])
    if canvas is not None:
        file = PurePosixPath(*(name.parts[1:] or (canvas["file"],)))  # an archive is a folder
        number = int(canvas["number"][:18]), again(file.stem)[1]
        late = canvas["late"] is not None
        return Owned("Canvas", canvas["name"], canvas["user"], file, number, late)
    moodle = MOODLE.fullmatch(str(name))
    if moodle is not None:
        file = PurePosixPath(moodle["file"])
        number, participant = (0, again(file.stem)[1]), moodle["user"]
        return Owned("Moodle", moodle["name"].strip(), "", file, number, participant=participant)
    if len(name.parts) > 1:
        file = PurePosixPath(*name.parts[1:])
        return Owned("folders", name.parts[0].strip(), "", file, (0, again(file.stem)[1]))
    return None


def folder_around(names: Iterable[PurePosixPath]) -> int:
    """Count the folders around all that is in an archive: none, or one."""
    first = {name.parts[0] if len(name.parts) > 2 else "" for name in names}
    return int(len(first) == 1 and first != {""})


def uploader(name: PurePosixPath, around: int) -> str:
    """Who has uploaded a file of an archive, as far as its name alone can say it.

    All that one student hands in has one such name, whatever folders they put it in.

    Args:
        name: the file's, in the archive.
        around: how many of its folders are around all that is in the archive.
    """
    for outer in (0, 1):
        who = owned(PurePosixPath(*name.parts[outer:])) if len(name.parts) > outer else None
        if who is not None and who.platform != "folders":
            return "/".join((*name.parts[:outer], f"{who.name}_{who.user or who.participant}"))
    return "/".join(name.parts[:-1][: around + 1])


def again(stem: str) -> tuple[str, int]:
    """A file's name without what was put after it because there was one, and which it was."""
    found = AGAIN.fullmatch(stem)
    if found is None:
        return stem, 0
    return found["stem"], int((found["n"] or found["m"] or "1")[:9])
