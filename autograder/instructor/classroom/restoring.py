"""A gradebook as it was before grades changed in it: what copies there are, and one put back."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.course import ClassError, Course, GradebookError, printable, zone_of
from autograder.instructor.gradebook import (
    ON_A_SERVER,
    back_up,
    backups,
    file_of,
    is_server,
    put_back,
    readable_copy,
    set_aside,
    shown,
    shown_grades,
    trouble_in,
)
from autograder.instructor.pages import shown_by
from autograder.instructor.pipeline import Records


def list_backups(course: Course, console: Console) -> int:
    """Say which copies there are of the gradebook; the exit status."""
    copies = backups(course.backups)
    if not copies:
        console.print("There is no copy of the gradebook yet: none of its grades has changed.")
        return 0
    try:
        zone = zone_of(course.grading, course.assignments())
    except ClassError:  # which keeps nobody from going back
        zone = UTC
    console.print("The gradebook, as it was before its grades were changed, the last one first:")
    for copy in copies:
        when = datetime.fromtimestamp(copy.stat().st_mtime, UTC).astimezone(zone)
        where = printable(str(copy.relative_to(course.root)))
        trouble = trouble_in(copy)
        marked = f"  (it {trouble}, and cannot be put back)" if trouble else ""
        console.print(f"  {where}  of {when:%A, %d %B %Y, %H:%M:%S %Z}{marked}", highlight=False)
    console.print("To put one back: make restore FROM=<file>", highlight=False)
    return 0


def restore(course: Course, console: Console, file: Path) -> int:
    """Have the gradebook be what a copy of it is; the exit status.

    What it is now is copied first, so that this can be undone, too.

    Raises:
        GradebookError: the file is no gradebook, or the gradebook cannot be reached.
    """
    path = file if file.is_absolute() else course.root / file
    if not path.is_file() and file.name == str(file):  # as `make restore` lists them, or shorter
        path = course.backups / file
    if not path.is_file():
        raise GradebookError(
            f"There is no file {printable(str(file))}. make restore, without FROM=, names those "
            f"that can be put back."
        )
    url = course.api.coursedir.db_url
    if is_server(url):
        raise GradebookError(ON_A_SERVER)
    with course.alone(url, rebuilds=True), readable_copy(path) as copy:
        gradebook = file_of(url)
        is_damaged = course.trouble(url) and gradebook.exists()
        now = set_aside(gradebook) if is_damaged else back_up(url, course.backups)
        # first, so that whatever is stopped from here on leaves no grade that nobody makes anew
        again = _forget_what_is_not_in(copy, course)
        put_back(path, url)
    console.print(
        printable(f"The gradebook {shown(url)} is now as it is in {file}."),
        markup=False, soft_wrap=not sys.stdout.isatty(),
    )  # fmt: skip
    if now is not None:
        where = now.relative_to(course.root)
        console.print(f"What it was before is in {where}.", markup=False, highlight=False)
    if again:
        console.print(
            f"{again} submissions are to be graded again: make grade does that."
            if again > 1
            else "One submission is to be graded again: make grade does that."
        )
    return 0


def _forget_what_is_not_in(copy: str, course: Course) -> int:
    """Have those submissions graded again whose grades a gradebook has not; how many now are."""
    submissions, records = course.submissions(), Records(course.records)
    with Gradebook(copy, course.api.coursedir.course_id) as gradebook:
        for assignment in dict.fromkeys(assignment for _, assignment in submissions):
            there = shown_grades(gradebook, assignment, "")
            for student in (s for s, a in submissions if a == assignment):
                page = course.feedback / student / assignment / f"{assignment}.html"
                seen, then = shown_by(page), there.get(student)
                if seen is None or then is None or seen.scores != then.scores:
                    records.forget(student, assignment)
    return sum(records.is_marked(*pair) for pair in submissions)
