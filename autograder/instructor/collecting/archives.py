"""Read zip files from learning platforms within limits.

Extracted files go into a folder of ours, under numbers; the names in an archive are never used as
paths. Each platform encodes the student in the name:

Canvas: `doejane_LATE_12345_67890_notebook-1.ipynb`: the name without what is no letter, the
student's number, the file's, and a number where it was submitted again.
Moodle: `Jane Doe_4711_assignsubmission_file/notebook.ipynb`, with one more `_` before 2022, or the
same without a folder; the number is another one in each assignment.
Kaggle, and others: a folder for each student, with the student's name or id.
"""

import errno
import io
import itertools
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from autograder.instructor.course import (
    EXCHANGE_FILES,
    MAX_NOTEBOOK_BYTES,
    MAX_SUBMISSION_BYTES,
    is_taken,
)

CANVAS: Final = re.compile(
    r"(?P<name>[^_/]+)_(?:(?P<late>LATE)_)?(?P<user>\d+)_(?P<number>\d+)_(?P<file>[^/]+)"
)
MOODLE: Final = re.compile(
    r"(?P<name>[^/]+?)_(?P<user>\d+)_assignsubmission_[a-z]+(?:_/?|/)(?P<file>.+)"
)

NUMBERED_NAME: Final = re.compile(
    r"(?P<stem>.+?)(?:[-_ ]?\((?P<n>\d+)\)|-(?P<m>\d+)|[-_ ]?[cC]opy\d*)"
)
"""A name as platforms and browsers number it, if there is already one."""


@dataclass(frozen=True)
class OwnedFile:
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


def parse_owner(name: PurePosixPath) -> OwnedFile | None:
    """Whose a file is, by its name in an archive; None where that cannot be seen.

    Only the beginning is the platform's word. What comes after it, a student may have written.
    """
    canvas = CANVAS.fullmatch(name.parts[0])
    if canvas is not None:
        file = PurePosixPath(*(name.parts[1:] or (canvas["file"],)))  # an archive is a folder
        number = int(canvas["number"][:18]), split_copy_number(file.stem)[1]
        late = canvas["late"] is not None
        return OwnedFile("Canvas", canvas["name"], canvas["user"], file, number, late)
    moodle = MOODLE.fullmatch(str(name))
    if moodle is not None:
        file = PurePosixPath(moodle["file"])
        number, participant = (0, split_copy_number(file.stem)[1]), moodle["user"]
        return OwnedFile(
            "Moodle", moodle["name"].strip(), "", file, number, participant=participant
        )
    if len(name.parts) > 1:
        file = PurePosixPath(*name.parts[1:])
        return OwnedFile(
            "folders", name.parts[0].strip(), "", file, (0, split_copy_number(file.stem)[1])
        )
    return None


def count_outer_folders(names: Iterable[PurePosixPath]) -> int:
    """Count the folders around all that is in an archive: none, or one."""
    first = {name.parts[0] if len(name.parts) > 2 else "" for name in names}
    return int(len(first) == 1 and first != {""})


def find_uploader(name: PurePosixPath, around: int) -> str:
    """Who has uploaded a file of an archive, as far as its name alone can say it.

    All that one student hands in has one such name, whatever folders they put it in.

    Args:
        name: the file's, in the archive.
        around: how many of its folders are around all that is in the archive.
    """
    for outer in (0, 1):
        who = parse_owner(PurePosixPath(*name.parts[outer:])) if len(name.parts) > outer else None
        if who is not None and who.platform != "folders":
            return "/".join((*name.parts[:outer], f"{who.name}_{who.user or who.participant}"))
    return "/".join(name.parts[:-1][: around + 1])


def split_copy_number(stem: str) -> tuple[str, int]:
    """A file's name without what was put after it because there was one, and which it was."""
    found = NUMBERED_NAME.fullmatch(stem)
    if found is None:
        return stem, 0
    return found["stem"], int((found["n"] or found["m"] or "1")[:9])


Refuse = Callable[[str, str], None]
"""What is told of a file that is not taken: its name, and why."""

MAX_FILES: Final = 100_000
"""Not counting files in archives inside it."""

MAX_NESTED_FILES: Final = 1000

MAX_ARCHIVE_BYTES: Final = 10 * 2**30

MAX_STUDENT_BYTES: Final = 4 * MAX_SUBMISSION_BYTES
"""Once a student's files come to this, no more of them are unpacked."""

MAX_LIST_BYTES: Final = 2**25
"""Size limit for an archive's list of files."""

CHUNK_BYTES: Final = 2**20
"""How much is read at once; the list of files in an archive within may have as much."""

MAX_NAME_CHARACTERS: Final = 500

MAX_PATH_PART_BYTES: Final = 255
"""The most bytes of a file's or folder's name, on all usual systems."""

ENCRYPTED_FLAG: Final = 0x1
"""The flag of a file in an archive that a password is needed for."""

COMPRESSION_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""How a file may be packed: of other methods `zipfile` unpacks gigabytes at once, in memory."""

DISK_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

SYSTEM_FOLDERS: Final = frozenset({"__MACOSX", ".ipynb_checkpoints", "__pycache__"})
"""Folders that systems make, and nobody hands in."""

RESERVED_NAME: Final = "only whoever grades writes a file of this name."


class ArchiveError(RuntimeError):
    """An archive cannot be read at all, or is too large; the message says why."""


class _TooMuchError(Exception):
    """An archive is too large; the message says why."""


@dataclass(frozen=True)
class ExtractedFile:
    """A file of an archive.

    Attributes:
        name: what it is called there; an archive in an archive is a folder.
        path: where its contents lie now.
        packed: how many parts of the name, from its first on, are those of an archive in the
            archive; 0 where it is in none.
    """

    name: PurePosixPath
    path: Path
    packed: int = 0


class _LimitedReader(io.BufferedReader):
    """A file of which nobody reads more than so much at once, such as a list of a million files."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(io.FileIO(path))
        self.most = most

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes, unless that is too much at once."""
        if size is not None and size > self.most:
            raise _TooMuchError("the list of its files is too long.")
        return super().read(size)


class Archive:
    """Takes the files of an archive that may be part of a submission.

    Args:
        folder: where to put them.
        refuse: what to do with the name of a file that is not taken, and the reason.
    """

    def __init__(self, folder: Path, refuse: Refuse) -> None:
        self.folder, self.refuse = folder, refuse
        self.numbers = itertools.count(1)
        self.read, self.left = 0, MAX_ARCHIVE_BYTES
        self.of_each: Counter[str] = Counter()
        self.around = 0

    def take(self, path: Path) -> list[ExtractedFile]:
        """Take the files of an archive, and of the archives in it.

        Raises:
            ArchiveError: it is none, or too large.
            OSError: it cannot be opened, or there is no space for what is packed in it.
        """
        try:
            with _LimitedReader(path, MAX_LIST_BYTES) as file, zipfile.ZipFile(file) as archive:
                if len(archive.infolist()) > MAX_FILES:
                    raise ArchiveError(f"There are more than {MAX_FILES:,} files in it.")
                return list(self._outer(archive))
        except (ArchiveError, OSError):
            raise
        except _TooMuchError as error:
            raise ArchiveError(f"{path.name} is too large: {error}") from None
        except Exception as error:
            why = str(error).rstrip(".")
            raise ArchiveError(f"{path.name} cannot be read as a zip file: {why}.") from None

    def uploader(self, name: PurePosixPath) -> str:
        """Name whoever uploaded a file of the archive, as far as the file's name says it."""
        return find_uploader(name, self.around)

    def _outer(self, archive: zipfile.ZipFile) -> Iterator[ExtractedFile]:
        names = [about.filename for about in archive.infolist()]
        kept = [name for name in names if not name.endswith("/") and not _is_litter(name)]
        self.around = count_outer_folders(map(PurePosixPath, kept))
        for about, name in _wanted(archive, PurePosixPath(), self.refuse, nested=False):
            whose, before = self.uploader(name), self.read
            if self.of_each[whose] > MAX_STUDENT_BYTES:
                self.refuse(
                    str(name),
                    f"there are more than {MAX_STUDENT_BYTES // 2**20} MB of the same student "
                    f"before it.",
                )
                continue
            copy = self._copied(archive, about, name, self.refuse)
            files = [ExtractedFile(name, copy)] if copy else []
            if copy and name.suffix.lower() == ".zip":
                files = self._inner(copy, name)
                copy.unlink()
            self.of_each[whose] += self.read - before
            self.left -= sum(file.path.stat().st_size for file in files)
            if self.left < 0:
                most = self.of_each.most_common(1)[0][0]
                raise ArchiveError(
                    f"What is packed in it has more than {MAX_ARCHIVE_BYTES // 2**30} GB, and "
                    f"most of it "
                    f"is of {most}. Take it apart."
                )
            yield from files

    def _inner(self, path: Path, name: PurePosixPath) -> list[ExtractedFile]:
        """The files of an archive in the archive; none where anything is wrong with all of it."""
        refused: list[tuple[str, str]] = []
        found: list[ExtractedFile] = []
        within, before = name.with_suffix(""), self.read

        def refuse(name: str, why: str) -> None:
            refused.append((name, why))

        try:
            with _LimitedReader(path, CHUNK_BYTES) as file, zipfile.ZipFile(file) as archive:
                if len(archive.infolist()) > MAX_NESTED_FILES:
                    raise _TooMuchError(f"there are more than {MAX_NESTED_FILES:,} files in it.")
                for about, inside in _wanted(archive, within, refuse, nested=True):
                    copy = self._copied(archive, about, inside, refuse)
                    if copy:
                        found.append(ExtractedFile(inside, copy, len(within.parts)))
                    if self.read - before > MAX_SUBMISSION_BYTES:
                        raise _TooMuchError(
                            f"what is packed in it has more than "
                            f"{MAX_SUBMISSION_BYTES // 2**20} MB."
                        )
        except Exception as error:  # whatever `zipfile` makes of it, it is one student's
            if _is_full(error):
                raise
            for each in found:
                each.path.unlink()
            too_much = isinstance(error, _TooMuchError)
            self.refuse(str(name), str(error) if too_much else "it cannot be read as a zip file.")
            return []
        for one in refused:
            self.refuse(*one)
        return found

    def _copied(
        self, archive: zipfile.ZipFile, about: zipfile.ZipInfo, name: PurePosixPath, refuse: Refuse
    ) -> Path | None:
        """A file's contents, under a number; None where they are refused. No size is believed."""
        most = MAX_NOTEBOOK_BYTES if name.suffix == ".ipynb" else MAX_SUBMISSION_BYTES
        copy = self.folder / f"{next(self.numbers):06}{name.suffix}"
        size = 0
        try:
            with archive.open(about) as packed, copy.open("wb") as file:
                while size <= most and (chunk := packed.read(CHUNK_BYTES)):
                    size += len(chunk)
                    self.read += len(chunk)
                    file.write(chunk)
        except Exception as error:  # a damaged file raises what its method does
            copy.unlink(missing_ok=True)
            if _is_full(error):
                raise
            refuse(str(name), "it is damaged.")
            return None
        if size > most:
            copy.unlink()
            refuse(str(name), f"it has more than {most // 2**20} MB.")
            return None
        return copy


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS


def _wanted(
    archive: zipfile.ZipFile, within: PurePosixPath, refuse: Refuse, nested: bool
) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """The files that may be opened, and may be part of a submission, with their whole names."""
    for about in archive.infolist():
        if about.filename.endswith("/") or _is_litter(about.filename):
            continue
        why = _unsafe(about) or _not_wanted(about.filename, nested)
        if why:
            refuse(f"{within / about.filename[:MAX_NAME_CHARACTERS]}", why)
        else:
            yield about, within / PurePosixPath(about.filename)


def _is_litter(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(SYSTEM_FOLDERS & set(parts)) or (bool(parts) and parts[-1].startswith("."))


def _unsafe(about: zipfile.ZipInfo) -> str:
    """Why a file is not to be opened, whatever it is for; empty where it may be."""
    # what stands there; `zipfile` ends a name at its first null character, and turns strokes round
    name = about.orig_filename
    if not _has_one_name(about):
        return "it has two names, which differ."
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if "\x00" in name or ".." in parts or name.startswith(("/", "\\")) or name[1:2] == ":":
        return "its name leads out of the archive."
    if len(name) > MAX_NAME_CHARACTERS or not parts:
        return "its name is too long, or there is none."
    if any(len(part.encode(errors="replace")) > MAX_PATH_PART_BYTES for part in parts):
        return "its name is too long for a file or folder."
    mode = about.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "it is a link, or no file."
    if about.flag_bits & ENCRYPTED_FLAG:
        return "a password is needed to read it."
    if about.compress_type not in COMPRESSION_METHODS:
        return "it is packed in an unusual way. Deflate is the usual one."
    return ""


def _has_one_name(about: zipfile.ZipInfo) -> bool:
    """Whether a file is called as in the list of files, whatever an extra field says.

    Newer versions of `zipfile` believe the field. It may repeat a name that is not ASCII.
    """
    name = about.orig_filename.partition("\x00")[0].replace(os.sep, "/")
    if about.filename == name:
        return True
    try:
        return name.encode("cp437").decode() == about.filename
    except UnicodeError:
        return False


def _not_wanted(name: str, nested: bool) -> str:
    """Why a file is no part of a submission; empty where it may be one."""
    path = PurePosixPath(name)
    if path.suffix.lower() == ".zip":
        return "it is an archive in an archive in an archive." if nested else ""
    if path.name.casefold() in EXCHANGE_FILES:
        return RESERVED_NAME
    if path.suffix == ".ipynb" or is_taken(Path(path.name)):
        return ""
    return "it is no notebook, and no data that one may need."
