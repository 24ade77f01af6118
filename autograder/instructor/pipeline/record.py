"""The record of a submission: one file, from which the gradebook and all pages can be rebuilt.

It is written last, after the gradebook and the graded notebook. If grading is killed before that,
the submission is graded again.
"""

import enum
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from autograder.instructor.pipeline.basis import Basis
from autograder.instructor.sandbox import Case
from autograder.judge import Verdict

MAX_BYTES: Final = 2**27
"""The largest file that is read as a record: a notebook's evidence has a limit far below."""

ENDING: Final = ".json"


class State(enum.StrEnum):
    """How a submission stands."""

    MISSING = "missing"
    """It was due, and nothing was handed in."""
    AWAITED = "awaited"
    """Nothing was handed in, and it is not due yet."""
    WAITING = "waiting"
    """It was handed in, and has not been graded."""
    BROKEN = "broken"
    """What was handed in cannot be graded: the student has to hand it in again."""
    FAILED = "failed"
    """Grading failed, which says nothing of what was handed in."""
    GRADED = "graded"


class UnreadableRecordError(RuntimeError):
    """A file is no record, or not one of this version; the message says which file, and why."""


class GradedNotebook(msgspec.Struct, frozen=True):
    """What was found of one notebook.

    Attributes:
        scores: what each graded cell earned, by its name; None where somebody has to say.
        unanswered: the cells to be filled in by hand that are as they were released.
        verdicts: those on its exercises, as JSON.
        evidence: what they were judged from, as JSON: cases, for `judge_apart`.
        notes: what else is to be known of it, in sentences.
    """

    scores: dict[str, float | None] = {}
    unanswered: tuple[str, ...] = ()
    verdicts: msgspec.Raw = msgspec.Raw(b"[]")
    evidence: msgspec.Raw = msgspec.Raw(b"[]")
    notes: tuple[str, ...] = ()

    def verdicts_by_exercise(self) -> dict[str, Verdict]:
        """The verdicts by the ids of their exercises; none where another version wrote them."""
        try:
            verdicts = msgspec.json.decode(self.verdicts, type=tuple[Verdict, ...])
        except (msgspec.MsgspecError, RecursionError):
            return {}
        return {verdict.exercise: verdict for verdict in verdicts}

    def cases(self) -> tuple[Case, ...]:
        """The evidence.

        Raises:
            UnreadableRecordError: it is not as this version writes it.
        """
        try:
            return msgspec.json.decode(self.evidence, type=tuple[Case, ...])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnreadableRecordError(f"its evidence cannot be read: {error}") from None


class Record(msgspec.Struct, frozen=True):
    """What became of a submission.

    Attributes:
        state: how it stands: graded, broken or failed.
        why: where it has no grade, the reason in a sentence.
        basis: what the grade rests on; None where that is not known, or there is no grade.
        tried: what a grade would have rested on when grading last failed; None where it has not
            since. It is not tried again by itself as long as that is the same.
        notebooks: what was found of each of its notebooks, by name.
        seconds: how long grading took.
        since: when just this was first handed in, asked and graded, however often it was graded
            anew since.
        again: whether it is to be graded again, whatever its grade rests on.
        form: the version of this format.
    """

    state: State
    why: str = ""
    basis: Basis | None = None
    tried: Basis | None = None
    notebooks: dict[str, GradedNotebook] = {}
    seconds: float = 0.0
    since: datetime | None = None
    again: bool = False
    form: Literal[1] = 1


class Records:
    """The records of a class, a file each.

    Args:
        folder: where they are: `grading/records`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, tuple[tuple[int, int], Record]] = {}

    def path(self, student: str, assignment: str) -> Path:
        """Where the record of a submission is, or would be."""
        return self.folder / student / f"{assignment}{ENDING}"

    def read(self, student: str, assignment: str) -> Record | None:
        """The record of a submission; None where there is none.

        Raises:
            UnreadableRecordError: the file is no record.
        """
        path = self.path(student, assignment)
        try:
            about = path.stat()
        except OSError:
            return None
        version = about.st_mtime_ns, about.st_size
        known = self._read.get(path)
        if known is None or known[0] != version:
            known = self._read[path] = version, _decoded(path, about.st_size)
        return known[1]

    def get(self, student: str, assignment: str) -> Record | None:
        """The record of a submission; None also where it cannot be read."""
        try:
            return self.read(student, assignment)
        except UnreadableRecordError:
            return None

    def write(self, student: str, assignment: str, record: Record) -> None:
        """Keep a record in place of the one that there is: wholly, or not at all."""
        path = self.path(student, assignment)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_anew(path, msgspec.json.encode(record))

    def mark(self, student: str, assignment: str) -> None:
        """Have a submission graded again, whatever its grade rests on."""
        record = self.get(student, assignment)
        if record is not None and not record.again:
            self.write(student, assignment, msgspec.structs.replace(record, again=True))

    def forget(self, student: str, assignment: str) -> None:
        """Have it graded again, and have nothing that the record says hold for what is shown."""
        record = self.get(student, assignment)
        if record is not None:
            self.write(student, assignment, Record(record.state, record.why, again=True))

    def is_marked(self, student: str, assignment: str) -> bool:
        """Whether a submission that has a record is to be graded again."""
        record = self.get(student, assignment)
        return record is not None and record.again

    def all(self) -> Iterator[tuple[str, str]]:
        """The student and the assignment of each record, in order."""
        for path in sorted(self.folder.glob(f"*/[!.]*{ENDING}")):
            yield path.parent.name, path.name.removesuffix(ENDING)


def _decoded(path: Path, size: int) -> Record:
    try:
        if size > MAX_BYTES:
            raise UnreadableRecordError(f"{path.name} is larger than {MAX_BYTES:,} bytes.")
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, RecursionError, msgspec.MsgspecError) as error:
        raise UnreadableRecordError(f"{path.name} cannot be read: {error}") from None


def write_anew(path: Path, contents: bytes) -> None:
    """Write a file that is there wholly, as it was or as it is to be, whenever this is killed."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.write_bytes(contents)
    os.replace(beside, path)


def encoded_verdicts(verdicts: Mapping[str, Verdict]) -> msgspec.Raw:
    """Verdicts as a record keeps them: in the order of their exercises."""
    return msgspec.Raw(msgspec.json.encode([verdicts[exercise] for exercise in sorted(verdicts)]))
