"""Read zip files from learning platforms within limits.

Names and sizes inside a zip file are checked, not trusted. Extracted files are named by numbers, in
a folder of ours; the names in an archive are never used as paths.
"""

import errno
import io
import itertools
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from autograder.instructor.collecting.platforms import FOLDERS, NamePattern, parse_owner
from autograder.instructor.course import (
    EXCHANGE_FILES,
    MAX_NOTEBOOK_BYTES,
    MAX_SUBMISSION_BYTES,
    is_accepted_file,
)

NUMBERED_NAME: Final = re.compile(
    r"(?P<stem>.+?)(?:[-_ ]?\((?P<n>\d+)\)|-(?P<m>\d+)|(?P<copy>[-_ ]*[cC]opy *\(?\d*\)?))"
)
"""A name that a platform or a browser has numbered, or that of a copy by Jupyter or a system."""

NOTEBOOK_NAME: Final = re.compile(r"(?P<stem>.+)\.ipynb(?:\.txt|\.json)?\s*", re.IGNORECASE)
"""A notebook's name; some browsers append an ending to it."""


def count_outer_folders(names: Iterable[PurePosixPath]) -> int:
    """Count the folders around everything in an archive: 0 or 1."""
    first = {name.parts[0] if len(name.parts) > 2 else "" for name in names}
    return int(len(first) == 1 and first != {""})


def find_uploader(
    name: PurePosixPath, outer_folders: int, pattern: NamePattern | None = None
) -> str:
    """Return a key for the uploader of a file: the same for all files of one student.

    Args:
        name: the file's name in the archive.
        outer_folders: how many of its folders are around everything in the archive.
        pattern: the form of the names, if the class has one of its own.
    """
    for outer in range(min(2, len(name.parts))):
        owned = parse_owner(PurePosixPath(*name.parts[outer:]), pattern)
        if owned is not None and owned.platform is not FOLDERS:
            return "/".join((*name.parts[:outer], f"{owned.name}_{owned.number}"))
    return "/".join(name.parts[:-1][: outer_folders + 1])


@dataclass(frozen=True)
class Assigned:
    """The assignment of a notebook in an archive, by its name or its folder's.

    Attributes:
        notebook: the notebook's name in the assignment.
        copy_number: the number that a platform or browser has appended; 0 if there is none.
        is_backup: whether it is named as a copy that Jupyter or a system has made.
    """

    assignment: str
    notebook: str
    copy_number: int = 0
    is_backup: bool = False


def find_assignment(file: PurePosixPath, notebooks: Mapping[str, str]) -> Assigned | None:
    """Find a notebook's assignment; None if no part of its name is that of one.

    A number at the end counts as a copy's only if the name without it is a notebook's, and the name
    with it is not. Upper and lower case matter only between two notebooks.

    Args:
        file: the notebook's name, with the student's own folders.
        notebooks: the assignment of each notebook, by name.
    """
    match = NOTEBOOK_NAME.fullmatch(file.name)
    stem = (match["stem"] if match else file.stem).strip()
    if name := _match_name(stem, notebooks):
        return Assigned(notebooks[name], name)
    numbered = NUMBERED_NAME.fullmatch(stem)
    if numbered and (name := _match_name(numbered["stem"], notebooks)):
        number = numbered["n"] or numbered["m"] or "0"
        is_backup = bool(numbered["copy"])
        return Assigned(notebooks[name], name, int(number[:9]), is_backup)
    number, _, rest = stem.partition("_")  # some platforms number the files of a submission
    if number.isdecimal() and (name := _match_name(rest, notebooks)):
        return Assigned(notebooks[name], name)
    assignments = {*notebooks.values()}
    folders = (_match_name(folder, assignments) for folder in reversed(file.parts[:-1]))
    return next((Assigned(name, name) for name in folders if name), None)


def _match_name(name: str, names: Collection[str]) -> str:
    """Return a name if it is one of some, or else the only one that differs in case alone."""
    if name in names:
        return name
    alike = [each for each in names if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else ""


Refuse = Callable[[str, str], None]
"""Called with the name of a file that is rejected, and the reason."""

MAX_FILES: Final = 100_000
"""The limit for an archive's files, without those in nested archives."""

MAX_NESTED_FILES: Final = 1000

MAX_ARCHIVE_BYTES: Final = 10 * 2**30

MAX_STUDENT_BYTES: Final = 4 * MAX_SUBMISSION_BYTES
"""Once a student's files have this size, no more of them are extracted."""

MAX_LIST_BYTES: Final = 2**25
"""Size limit for an archive's list of files."""

CHUNK_BYTES: Final = 2**20
"""The size of a read; also the size limit for a nested archive's list of files."""

MAX_NAME_CHARACTERS: Final = 500

MAX_PATH_PART_BYTES: Final = 255
"""The limit for the name of a file or folder on all usual file systems."""

ENCRYPTED_FLAG: Final = 0x1
"""The flag of a file that needs a password."""

COMPRESSION_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Other methods are rejected, because `zipfile` may extract gigabytes of them into memory."""

MACHINE_ERRORS: Final = frozenset({
    errno.EACCES, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EPERM,
    errno.EROFS, errno.ESTALE,
})  # fmt: skip
"""The error numbers that say nothing about an archive. Damaged ones raise an OSError, too."""

SYSTEM_FOLDERS: Final = frozenset({"__MACOSX", ".ipynb_checkpoints", "__pycache__"})
"""Folders that systems create, and nobody submits."""

RESERVED_NAME: Final = "only the grader writes files of this name."


class ArchiveError(RuntimeError):
    """An archive cannot be read at all, or is too large; the message says why."""


class _TooMuchError(Exception):
    """An archive is too large; the message says why."""


@dataclass(frozen=True)
class ExtractedFile:
    """A file extracted from an archive.

    Attributes:
        name: its name in the archive, where a nested archive counts as a folder.
        path: the extracted file.
        packed: how many parts of the name, from the first on, are the path of the nested archive
            that it was in; 0 if it was in none.
    """

    name: PurePosixPath
    path: Path
    packed: int = 0


class _LimitedReader(io.BufferedReader):
    """A file that refuses to read too much at once, such as a list of a million files."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__(io.FileIO(path))
        self.max_bytes = max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes, unless that is too much at once."""
        if size is not None and size > self.max_bytes:
            raise _TooMuchError("the list of its files is too long.")
        return super().read(size)


class Archive:
    """Extracts the files of an archive that may be part of a submission.

    Args:
        folder: the folder to extract them to.
        refuse: called with the name of a file that is rejected, and the reason.
        pattern: the form of the names, if the class has one of its own.
    """

    def __init__(self, folder: Path, refuse: Refuse, pattern: NamePattern | None = None) -> None:
        self.folder, self.refuse, self.pattern = folder, refuse, pattern
        self.numbers = itertools.count(1)
        self.bytes_read, self.bytes_left = 0, MAX_ARCHIVE_BYTES
        self.bytes_by_uploader: Counter[str] = Counter()
        self.outer_folders = 0

    def take(self, path: Path) -> list[ExtractedFile]:
        """Extract the files of an archive, and of the archives in it.

        Raises:
            ArchiveError: it is not an archive, or too large.
            OSError: it cannot be opened, or the disk is full.
        """
        try:
            with _LimitedReader(path, MAX_LIST_BYTES) as file, zipfile.ZipFile(file) as archive:
                if len(archive.infolist()) > MAX_FILES:
                    raise ArchiveError(f"{path.name} has more than {MAX_FILES:,} files in it.")
                return list(self._extract_all(archive, path.name))
        except (ArchiveError, OSError):
            raise
        except _TooMuchError as error:
            raise ArchiveError(f"{path.name} is too large: {error}") from None
        except Exception as error:
            why = str(error).rstrip(".")
            raise ArchiveError(f"{path.name} cannot be read as a zip file: {why}.") from None

    def uploader(self, name: PurePosixPath) -> str:
        """Return a key for the uploader of a file of this archive."""
        return find_uploader(name, self.outer_folders, self.pattern)

    def _extract_all(self, archive: zipfile.ZipFile, archive_name: str) -> Iterator[ExtractedFile]:
        names = [info.filename for info in archive.infolist()]
        files_only = [name for name in names if not name.endswith("/") and not _is_ignored(name)]
        self.outer_folders = count_outer_folders(map(PurePosixPath, files_only))
        for info, name in _acceptable(archive, PurePosixPath(), self.refuse, is_nested=False):
            uploader, bytes_before = self.uploader(name), self.bytes_read
            if self.bytes_by_uploader[uploader] > MAX_STUDENT_BYTES:
                self.refuse(
                    str(name),
                    f"there are more than {MAX_STUDENT_BYTES // 2**20} MB of the same student "
                    f"before it.",
                )
                continue
            copy = self._extract(archive, info, name, self.refuse)
            files = [ExtractedFile(name, copy)] if copy else []
            if copy and name.suffix.lower() == ".zip":
                files = self._extract_nested(copy, name)
                copy.unlink()
            self.bytes_by_uploader[uploader] += self.bytes_read - bytes_before
            self.bytes_left -= sum(file.path.stat().st_size for file in files)
            if self.bytes_left < 0:
                largest = self.bytes_by_uploader.most_common(1)[0][0]
                most = f', most of them of "{largest}"' if largest else ""
                raise ArchiveError(
                    f"{archive_name} has contents of more than {MAX_ARCHIVE_BYTES // 2**30} "
                    f"GB{most}. Split it."
                )
            yield from files

    def _extract_nested(self, path: Path, name: PurePosixPath) -> list[ExtractedFile]:
        """Extract a nested archive; if it cannot be read or is too large, none of its files."""
        refused: list[tuple[str, str]] = []
        extracted: list[ExtractedFile] = []
        folder, bytes_before = name.with_suffix(""), self.bytes_read

        def refuse(name: str, why: str) -> None:
            refused.append((name, why))

        try:
            with _LimitedReader(path, CHUNK_BYTES) as file, zipfile.ZipFile(file) as archive:
                if len(archive.infolist()) > MAX_NESTED_FILES:
                    raise _TooMuchError(f"there are more than {MAX_NESTED_FILES:,} files in it.")
                for info, inner_name in _acceptable(archive, folder, refuse, is_nested=True):
                    copy = self._extract(archive, info, inner_name, refuse)
                    if copy:
                        extracted.append(ExtractedFile(inner_name, copy, len(folder.parts)))
                    if self.bytes_read - bytes_before > MAX_SUBMISSION_BYTES:
                        raise _TooMuchError(
                            f"its contents have more than {MAX_SUBMISSION_BYTES // 2**20} MB."
                        )
        except Exception as error:  # a bad nested archive concerns only its own student
            if _is_machines_fault(error):
                raise
            for rejected in extracted:
                rejected.path.unlink()
            is_too_much = isinstance(error, _TooMuchError)
            why = str(error) if is_too_much else "it cannot be read as a zip file."
            self.refuse(str(name), why)
            return []
        for file_name, why in refused:
            self.refuse(file_name, why)
        return extracted

    def _extract(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: PurePosixPath, refuse: Refuse
    ) -> Path | None:
        """Extract a file, and count its real bytes; None if it is damaged or too large."""
        max_bytes = MAX_NOTEBOOK_BYTES if name.suffix == ".ipynb" else MAX_SUBMISSION_BYTES
        copy = self.folder / f"{next(self.numbers):06}{name.suffix}"
        size = 0
        try:
            with archive.open(info) as packed, copy.open("wb") as file:
                while size <= max_bytes and (chunk := packed.read(CHUNK_BYTES)):
                    size += len(chunk)
                    self.bytes_read += len(chunk)
                    file.write(chunk)
        except Exception as error:  # each compression method has its own errors
            copy.unlink(missing_ok=True)
            if _is_machines_fault(error):
                raise
            refuse(str(name), "it is damaged.")
            return None
        if size > max_bytes:
            copy.unlink()
            refuse(str(name), f"it has more than {max_bytes // 2**20} MB.")
            return None
        return copy


def _is_machines_fault(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in MACHINE_ERRORS


def _acceptable(
    archive: zipfile.ZipFile, folder: PurePosixPath, refuse: Refuse, is_nested: bool
) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Yield the files that are safe and may be part of a submission, with their full names."""
    for info in archive.infolist():
        if info.filename.endswith("/") or _is_ignored(info.filename):
            continue
        why = _explain_unsafe(info) or _explain_unwanted(info.filename, is_nested)
        if why:
            refuse(f"{folder / info.filename[:MAX_NAME_CHARACTERS]}", why)
        else:
            yield info, folder / PurePosixPath(info.filename)


def _is_ignored(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(SYSTEM_FOLDERS & set(parts)) or (bool(parts) and parts[-1].startswith("."))


def _explain_unsafe(info: zipfile.ZipInfo) -> str:
    """Return why a file must not be extracted; empty if it may be."""
    # the original name: `zipfile` ends names at the first null character, and replaces backslashes
    name = info.orig_filename
    if not _has_one_name(info):
        return "it has two names, which differ."
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if "\x00" in name or ".." in parts or name.startswith(("/", "\\")) or name[1:2] == ":":
        return "its name leads out of the archive."
    if len(name) > MAX_NAME_CHARACTERS or not parts:
        return "its name is too long, or there is none."
    if any(len(part.encode(errors="replace")) > MAX_PATH_PART_BYTES for part in parts):
        return "its name is too long for a file or folder."
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "it is a link, or not a file."
    if info.flag_bits & ENCRYPTED_FLAG:
        return "a password is needed to read it."
    if info.compress_type not in COMPRESSION_METHODS:
        return "it is packed in an unusual way. Deflate is the usual one."
    return ""


def _has_one_name(info: zipfile.ZipInfo) -> bool:
    """Check that an extra field does not rename a file.

    Newer versions of `zipfile` use the name in that field. It may repeat a name that is not ASCII.
    """
    name = info.orig_filename.partition("\x00")[0].replace(os.sep, "/")
    if info.filename == name:
        return True
    try:
        return name.encode("cp437").decode() == info.filename
    except UnicodeError:
        return False


def _explain_unwanted(name: str, is_nested: bool) -> str:
    """Return why a file is not part of a submission; empty if it may be."""
    path = PurePosixPath(name)
    if path.suffix.lower() == ".zip":
        return "it is an archive in an archive in an archive." if is_nested else ""
    if path.name.casefold() in EXCHANGE_FILES:
        return RESERVED_NAME
    if NOTEBOOK_NAME.fullmatch(path.name) or is_accepted_file(Path(path.name)):
        return ""
    return "it is neither a notebook nor a file that a notebook may need."
