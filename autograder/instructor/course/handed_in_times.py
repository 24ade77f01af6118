"""When things were handed in, by the instructor's own word: `grading/handed_in.csv`.

The time in a submission's `timestamp.txt` may be the student's own; the times in this file are of
whoever collects.
"""

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from autograder.instructor.course.class_file import NAME, ClassError, moment
from autograder.instructor.course.written_tables import WrittenTableError, read_table

TIMES: Final = "handed_in.csv"

UTC_SUFFIX: Final = re.compile(r"\s*(UTC|Z)$", re.IGNORECASE)
"""How a time says that it is in UTC."""

COLUMNS: Final = ("student", "assignment", "time")


def written_when(grading: Path) -> tuple[int, ...]:
    """When what an instructor wrote of times was last written, to see that it is as it was."""
    files = (grading / name for name in (NAME, TIMES))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)


def read_times(
    grading: Path, zone: tzinfo | None = None
) -> Mapping[tuple[str, str], tuple[datetime, ...]]:
    """When each student handed in each assignment, in order; a line of the file for each time.

    Args:
        grading: the class's folder.
        zone: of times that name none.

    Raises:
        ClassError: the file cannot be understood.
    """
    path = grading / TIMES
    if not path.exists():
        return {}
    try:
        rows = read_table(path, COLUMNS, {"id": "student", "student_id": "student"})
    except WrittenTableError as error:
        raise ClassError(f"grading/{error}") from None
    times: dict[tuple[str, str], set[datetime]] = {}
    for line, row in rows:
        where = f"grading/{TIMES}, line {line}: time"
        try:
            written = datetime.fromisoformat(UTC_SUFFIX.sub("+00:00", row["time"]))
        except ValueError:
            raise ClassError(
                f"{where} should be written as year-month-day hours:minutes, such as 2026-10-12 "
                f"23:59 where the class is, or 2026-10-12 21:59 UTC, and is {row['time']!r}. "
                f"Spreadsheets have it as the format of a column, yyyy-mm-dd hh:mm."
            ) from None
        pair = row["student"], row["assignment"]
        times.setdefault(pair, set()).add(moment(written, zone, where))
    return {pair: tuple(sorted(theirs)) for pair, theirs in times.items()}
