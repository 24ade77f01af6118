"""The CSVs and the report on a class, which are written if anything that they show has changed."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from autograder.instructor.classroom.class_report import TEMPLATE, write_report
from autograder.instructor.classroom.grade_tables import write_csvs
from autograder.instructor.classroom.roster import Person, read_roster
from autograder.instructor.classroom.submission_states import (
    Failure,
    StateRow,
    read_kept_answers,
)
from autograder.instructor.commands import write_atomically
from autograder.instructor.course import CLASS_FILE, Course
from autograder.instructor.nbgrader_plugins import load_times
from autograder.instructor.pipeline import Records, read_versions

WRITTEN_FILE: Final = "written.json"
"""The file in `grading/` with digests of the CSVs and the report, and of all that they show."""


class _WrittenFile(msgspec.Struct, frozen=True):
    """A file that was written: its title, its path below `grading/`, and a digest of it."""

    title: str
    path: str
    digest: str


class _Written(msgspec.Struct, frozen=True):
    """The files that were written last, and a digest of all that they show."""

    shown: str = ""
    files: tuple[_WrittenFile, ...] = ()


def renew_class_files(
    course: Course, records: Records, rows: Sequence[StateRow], failures: Sequence[Failure]
) -> list[tuple[str, Path]]:
    """Write the CSVs and the report, unless they are as they would be written again.

    Args:
        course: the course.
        records: its records.
        rows: the state of each submission.
        failures: the submissions that could not be graded.

    Returns:
        The title and the path of each file.

    Raises:
        ClassError: one of the class's files cannot be understood.
    """
    people = read_roster(course)
    shown = _digest_shown(course, records, rows, failures, people)
    last = _read_last(course)
    paths = [course.grading / file.path for file in last.files]
    if shown == last.shown and [*map(_digest, paths)] == [file.digest for file in last.files]:
        return [(file.title, path) for file, path in zip(last.files, paths, strict=True)]
    submissions = read_kept_answers(course, rows)
    page = write_report(course, rows, failures, people, submissions)
    csvs = write_csvs(course.grading, rows, people, submissions, load_times(course).rules)
    written = [("Report on the class", page), *csvs]
    files = [
        _WrittenFile(title, str(path.relative_to(course.grading)), _digest(path))
        for title, path in written
    ]
    write_atomically(
        course.grading / WRITTEN_FILE, msgspec.json.encode(_Written(shown, tuple(files)))
    )
    return written


def _digest_shown(
    course: Course,
    records: Records,
    rows: Sequence[StateRow],
    failures: Sequence[Failure],
    people: Sequence[Person],
) -> str:
    """Return a digest of all that the files show: the arguments, the records, rules and code."""
    summaries = [records.summary(row.student, row.assignment) for row in rows if row.is_graded]
    kept = [summary.version if summary is not None else None for summary in summaries]
    reasons = [repr(failure) for failure in failures]  # names may not be UTF-8
    files = [_digest(path) for path in (course.grading / CLASS_FILE, TEMPLATE)]
    shown = [rows, people, kept, reasons, files, read_versions()]
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()


def _read_last(course: Course) -> _Written:
    try:
        return msgspec.json.decode((course.grading / WRITTEN_FILE).read_bytes(), type=_Written)
    except (FileNotFoundError, msgspec.MsgspecError):
        return _Written()


def _digest(path: Path) -> str:
    """Return a digest of a file; empty if there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
