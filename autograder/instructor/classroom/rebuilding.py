"""The gradebook made again from the records, and from the newest copy that is sound.

It is a projection of the records, but for what was entered by hand; that is in the copies. While it
is being made again, a file says so, so that whoever goes on after a stop asks about the same scores
by hand.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.course import Course, printable, zone_of
from autograder.instructor.gradebook import (
    auto_scores,
    backups,
    file_of,
    put_back,
    set_aside,
    trouble_in,
)
from autograder.instructor.nbgrader_plugins import enter_again, times_of, transaction
from autograder.instructor.pipeline import Record, Records, State, write_anew

Scores = Mapping[str, Mapping[tuple[str, str], float | None]]
"""By student, what each cell has earned, by notebook and name."""

UNDER_WAY: Final = "gradebook.rebuilding"
"""The file that says of when the copy is that a gradebook is being made of again."""


def begin_to_rebuild(course: Course, console: Console) -> bool:
    """Put the newest sound copy in the place of a gradebook that is lost or damaged.

    What is damaged is kept beside it.

    Returns:
        Whether the gradebook is being made again, now or since an earlier command was stopped.
    """
    trouble, marker = course.trouble(), course.grading / UNDER_WAY
    if not trouble:
        return marker.exists()
    url = course.api.coursedir.db_url
    gradebook, said = file_of(url), [trouble]
    newest = next((copy for copy in backups(course.backups) if not trouble_in(copy)), None)
    made = newest.stat().st_mtime if newest is not None else 0.0
    write_anew(marker, str(made).encode())
    if gradebook.exists():
        kept = set_aside(gradebook)
        said.append(f"It is kept as {kept.relative_to(course.root)}.")
    if newest is None:
        said.append(
            "It is made again from what was graded. There is no sound copy of it, so scores and "
            "comments that somebody gave by hand are lost."
        )
    else:
        put_back(newest, url)
        when = datetime.fromtimestamp(made, UTC).astimezone(
            zone_of(course.grading, course.assignments())
        )
        said.append(
            f"It is made again from its copy of {when:%A, %d %B %Y, %H:%M %Z} and from what was "
            f"graded. Scores and comments that somebody gave by hand since then are lost."
        )
    console.print(printable(" ".join(said)), style="bold yellow", markup=False, highlight=False)
    return True


def enter_what_is_missing(course: Course, console: Console) -> None:
    """Enter all records whose scores the gradebook does not have, in one transaction."""
    marker = course.grading / UNDER_WAY
    made_again = _time(marker)
    records, times = Records(course.records), times_of(course)
    entered = 0
    with transaction(course) as gradebook:
        for student, assignment, record in list(_missing(course, gradebook, records)):
            # a score by hand in the copy was given for what had been handed in by then
            is_later = made_again is not None and (
                record.since is None or record.since > made_again
            )
            enter_again(gradebook, times, student, assignment, record, is_later)
            entered += 1
    marker.unlink(missing_ok=True)
    if entered:
        were = "1 submission was" if entered == 1 else f"{entered} submissions were"
        console.print(f"The grades of {were} entered again from the records.", highlight=False)


def _missing(
    course: Course, gradebook: Gradebook, records: Records
) -> Iterator[tuple[str, str, Record]]:
    """The records of what is handed in whose scores the gradebook does not have."""
    there = {assignment.name for assignment in gradebook.assignments}
    handed_in = {*course.submissions()}
    known: dict[str, Scores] = {}
    for student, assignment in records.all():
        record = records.get(student, assignment)
        is_current = record is not None and record.state is State.GRADED and not record.again
        if record is None or not is_current or assignment not in there:
            continue
        if (student, assignment) not in handed_in:
            continue
        if assignment not in known:
            known[assignment] = auto_scores(gradebook, assignment)
        if not _has(known[assignment].get(student), record):
            yield student, assignment, record


def _has(scores: Mapping[tuple[str, str], float | None] | None, record: Record) -> bool:
    """Whether a gradebook's scores are those of a record."""
    return scores is not None and all(
        scores.get((name, cell), score) == score
        for name, found in record.notebooks.items()
        for cell, score in found.scores.items()
    )


def _time(marker: Path) -> datetime | None:
    """Of when the copy is that a gradebook is being made of again; None where none is."""
    try:
        return datetime.fromtimestamp(float(marker.read_text()), UTC)
    except (OSError, ValueError):
        return None
