"""The tables of a class: who has withdrawn, and when submissions were handed in.

`grading/handed_in.csv` has submission times. Students can write any time into a submission's
`timestamp.txt`, so only this file's times count.
"""

import re
from collections.abc import Collection, Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from autograder.instructor.course.class_file import CLASS_FILE, parse_time
from autograder.instructor.course.written_tables import (
    ClassError,
    WrittenTableError,
    is_written,
    read_table,
)

WITHDRAWN_FILE: Final = "withdrawn.csv"

TIMES_FILE: Final = "handed_in.csv"

COLLECTED_TIMES_FILE: Final = "collected_times.json"

UTC_SUFFIX: Final = re.compile(r"\s*(UTC|Z)$", re.IGNORECASE)
"""The ways to write that a time is in UTC."""

COLUMNS: Final = ("student", "assignment", "time")


def read_withdrawn(grading: Path) -> dict[str, str]:
    """Read `withdrawn.csv`: the students who have left the class, and since when.

    Raises:
        ClassError: the file cannot be understood.
    """
    return {row["student"]: row.get("since", "") for row in read_withdrawals(grading)}


def read_withdrawals(grading: Path) -> list[dict[str, str]]:
    """Read the rows of `withdrawn.csv`, with the columns that an instructor has added.

    Raises:
        ClassError: the file cannot be understood.
    """
    return [row for _, row in _read_table_of(grading, WITHDRAWN_FILE, ("student",))]


def modification_times(grading: Path) -> tuple[int, ...]:
    """Return the modification times of the files with rules and times; 0 for a missing file."""
    files = (grading / name for name in (CLASS_FILE, TIMES_FILE, COLLECTED_TIMES_FILE))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)


def read_times(
    grading: Path, zone: tzinfo | None = None
) -> Mapping[tuple[str, str], tuple[datetime, ...]]:
    """Read `handed_in.csv`: the submission times of each student and assignment, in order.

    Args:
        grading: the class's folder.
        zone: the time zone of times without one.

    Raises:
        ClassError: the file cannot be understood.
    """
    times: dict[tuple[str, str], set[datetime]] = {}
    for line, row in _read_table_of(grading, TIMES_FILE, COLUMNS):
        where = f"grading/{TIMES_FILE}, line {line}: time"
        try:
            written = datetime.fromisoformat(UTC_SUFFIX.sub("+00:00", row["time"]))
        except ValueError:
            raise ClassError(
                f"{where} should be written as year-month-day hours:minutes, such as 2026-10-12 "
                f"23:59 where the class is, or 2026-10-12 21:59 UTC, and is {row['time']!r}. "
                f"Spreadsheets have it as the format of a column, yyyy-mm-dd hh:mm."
            ) from None
        student_and_assignment = row["student"], row["assignment"]
        times.setdefault(student_and_assignment, set()).add(parse_time(written, zone, where))
    return {key: tuple(sorted(submitted)) for key, submitted in times.items()}


def _read_table_of(
    grading: Path, name: str, needed: Collection[str]
) -> list[tuple[int, dict[str, str]]]:
    """Read a table of a class that need not exist; return its rows and their line numbers."""
    if not is_written(grading / name):
        return []
    try:
        return read_table(grading / name, needed, {"id": "student", "student_id": "student"})
    except WrittenTableError as error:
        raise ClassError(f"grading/{error}") from None
