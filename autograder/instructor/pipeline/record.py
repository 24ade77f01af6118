"""The record of a submission: a file from which the gradebook and all pages can be rebuilt.

It is written last, after the gradebook and the graded notebook. If grading is killed before that,
the submission is graded again.
"""

import enum
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from autograder.instructor.commands import write_atomically
from autograder.instructor.course import list_folder
from autograder.instructor.pipeline.basis import Basis
from autograder.instructor.sandbox import Case
from autograder.judge import Verdict

MAX_RECORD_BYTES: Final = 2**27
"""The size of the largest record that is read; a notebook's evidence is limited to far less."""

SUFFIX: Final = ".json"


class State(enum.StrEnum):
    """The state of a submission."""

    MISSING = "missing"
    """It was due, and there is no submission."""
    AWAITED = "awaited"
    """There is no submission, and it is not due yet."""
    EXEMPT = "exempt"
    """There is no submission, and the student does not need to submit."""
    WAITING = "waiting"
    """There is a submission, which has not been graded."""
    BROKEN = "broken"
    """The submission cannot be graded; the student has to submit again."""
    FAILED = "failed"
    """Grading failed, through no fault of the submission."""
    GRADED = "graded"


class UnreadableRecordError(RuntimeError):
    """A file is not a record, or one of another version; the message says which file, and why."""


class GradedNotebook(msgspec.Struct, frozen=True):
    """The results of one notebook.

    Attributes:
        scores: the score of each graded cell, by name; None if it has to be graded manually.
        unanswered: the names of answer cells that are unchanged since the release.
        verdicts: the verdicts on its exercises, as JSON.
        evidence: the evidence that was judged, as JSON: cases for `judge_in_sandbox`.
        notes: sentences about what was left out.
        old_comments: what somebody has written on its cells before it was handed in, by cell.
    """

    scores: dict[str, float | None] = {}
    unanswered: tuple[str, ...] = ()
    verdicts: msgspec.Raw = msgspec.Raw(b"[]")
    evidence: msgspec.Raw = msgspec.Raw(b"[]")
    notes: tuple[str, ...] = ()
    old_comments: dict[str, str] = {}

    def verdicts_by_exercise(self) -> dict[str, Verdict]:
        """Return the verdicts by exercise; none if another version wrote them."""
        try:
            verdicts = msgspec.json.decode(self.verdicts, type=tuple[Verdict, ...])
        except (msgspec.MsgspecError, RecursionError):
            return {}
        return {verdict.exercise: verdict for verdict in verdicts}

    def cases(self) -> tuple[Case, ...]:
        """Return the evidence.

        Raises:
            UnreadableRecordError: another version wrote it.
        """
        try:
            return msgspec.json.decode(self.evidence, type=tuple[Case, ...])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnreadableRecordError(f"its evidence cannot be read: {error}") from None


class RecordHead(msgspec.Struct, frozen=True):
    """A record without its notebooks: what is needed to tell whether a submission is to be graded.

    A command looks at the records of a whole class, and their evidence would fill its memory.

    Attributes:
        state: graded, broken or failed.
        why: if it has no grade, the reason in a sentence.
        basis: the basis of the grade; None if there is no grade, or the basis is unknown.
        failed_basis: the basis with which grading failed last; None if it has not failed since it
            was graded. While this basis is current, grading is not tried again automatically.
        is_due_again: whether to grade it again even if its basis is current.
        format_version: the version of this format.
    """

    state: State
    why: str = ""
    basis: Basis | None = None
    failed_basis: Basis | None = None
    is_due_again: bool = False
    format_version: Literal[1] = 1


class Record(RecordHead, frozen=True):
    """The record of a submission.

    Attributes:
        notebooks: the results of each notebook, by name.
        seconds: how long grading took.
        since: when this version of the submission was first graded; regrading does not change it.
    """

    notebooks: dict[str, GradedNotebook] = {}
    seconds: float = 0.0
    since: datetime | None = None

    def head(self) -> RecordHead:
        """Return the record without its notebooks."""
        return RecordHead(**{name: getattr(self, name) for name in RecordHead.__struct_fields__})


class RecordSummary(NamedTuple):
    """The part of a record that stays in memory, for each record of a class that is read.

    Attributes:
        head: its head.
        notes: the notes on its notebooks.
        version: the number, the time and the size of its file, which another record does not
            share, because each is written into a file of its own.
    """

    head: RecordHead
    notes: tuple[str, ...]
    version: tuple[int, int, int]


_SUMMARIES: Final[dict[str, RecordSummary]] = {}
"""The summary of each record that was read, by the path of its file."""


class Records:
    """The records of a class, in a file for each submission.

    Args:
        folder: the folder of records, `grading/records`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, student: str, assignment: str) -> Path:
        """Return the path of a submission's record, which need not exist."""
        return self.folder.joinpath(student, f"{assignment}{SUFFIX}")

    def read(self, student: str, assignment: str) -> Record | None:
        """Read the record of a submission; return None if there is none.

        Raises:
            UnreadableRecordError: the file is not a record.
            OSError: it is not known what is in the file.
        """
        path = self.path(student, assignment)
        status = _find_status(path)
        return None if status is None else _decode(path, status)

    def summary(self, student: str, assignment: str) -> RecordSummary | None:
        """Summarise a submission's record; return None if there is none that can be read.

        The summary is remembered until the file changes.
        """
        path = os.path.join(self.folder, student, assignment + SUFFIX)  # often: no slow `Path`
        status = _find_status(path)
        if status is None:
            return None
        summary = _SUMMARIES.get(path)
        if summary is not None and summary.version == _version(status):
            return summary
        try:
            _decode(Path(path), status)
        except UnreadableRecordError:
            return None
        return _SUMMARIES[path]

    def head(self, student: str, assignment: str) -> RecordHead | None:
        """Return the head of a submission's record; None if there is none that can be read."""
        summary = self.summary(student, assignment)
        return summary.head if summary is not None else None

    def get(self, student: str, assignment: str) -> Record | None:
        """Read the record of a submission; return None if there is none that can be read."""
        try:
            return self.read(student, assignment)
        except UnreadableRecordError:
            return None

    def write(self, student: str, assignment: str, record: Record) -> None:
        """Write a record atomically, in place of an earlier one."""
        path = self.path(student, assignment)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(record))

    def mark(self, student: str, assignment: str) -> None:
        """Mark a submission to be graded again, even if its basis is current."""
        record = self.get(student, assignment)
        if record is not None and not record.is_due_again:
            self.write(student, assignment, msgspec.structs.replace(record, is_due_again=True))

    def mark_broken(self, student: str, assignment: str, why: str) -> None:
        """Mark a submission as one that cannot be graded, and what was kept of it as outdated."""
        record = self.get(student, assignment) or Record(State.BROKEN)
        broken = msgspec.structs.replace(record, state=State.BROKEN, why=why, is_due_again=True)
        if broken != record:
            self.write(student, assignment, broken)

    def was_broken(self, student: str, assignment: str) -> bool:
        """Check whether a submission could not be graded, so that it has no scores."""
        head = self.head(student, assignment)
        return head is not None and head.state is State.BROKEN

    def is_marked(self, student: str, assignment: str) -> bool:
        """Check whether a submission is marked to be graded again."""
        head = self.head(student, assignment)
        return head is not None and head.is_due_again

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield the student and the assignment of each record, in order."""
        for student in list_folder(self.folder):
            for path in list_folder(student):
                if path.suffix == SUFFIX and not path.name.startswith("."):
                    yield student.name, path.name.removesuffix(SUFFIX)


def _find_status(path: str | Path) -> os.stat_result | None:
    """Return the status of a file; None if there is no such file."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _decode(path: Path, status: os.stat_result) -> Record:
    """Read a record, and remember its summary.

    Raises:
        UnreadableRecordError: the file is not a record.
    """
    try:
        if status.st_size > MAX_RECORD_BYTES:
            raise UnreadableRecordError(f"{path.name} is larger than {MAX_RECORD_BYTES:,} bytes.")
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        notes = tuple(note for notebook in record.notebooks.values() for note in notebook.notes)
        _SUMMARIES[str(path)] = RecordSummary(record.head(), notes, _version(status))
        return record
    except (IsADirectoryError, RecursionError, msgspec.MsgspecError) as error:
        raise UnreadableRecordError(f"{path.name} cannot be read: {error}") from None


def encoded_verdicts(verdicts: Mapping[str, Verdict]) -> msgspec.Raw:
    """Encode verdicts as JSON for a record, in the order of their exercises."""
    return msgspec.Raw(msgspec.json.encode([verdicts[exercise] for exercise in sorted(verdicts)]))
