"""Rebuild a class's gradebook from a dated backup and the records.

Everything in the gradebook is also in the records, except for manual scores and comments, which are
in the backups. A marker file exists during a rebuild. If the rebuild is interrupted, no command but
`make grade` and `make restore` uses the gradebook, and they ask for the same scores to be checked
by hand. `make restore` is a rebuild from a backup that somebody chose.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.commands import describe_no_file, printable, write_atomically
from autograder.instructor.course import (
    REBUILDING_FILE,
    ClassError,
    Course,
    GradebookError,
    read_time_zone,
)
from autograder.instructor.gradebook import (
    ON_A_SERVER,
    back_up,
    count_manual_scores,
    find_damage,
    find_newest_backup,
    gradebook_file,
    hide_secrets,
    is_server,
    list_all_backups,
    read_auto_scores,
    read_backup_time,
    refuse_damaged,
    rename_damaged,
    restore_backup,
)
from autograder.instructor.nbgrader_plugins import load_times, reenter_record, transaction
from autograder.instructor.pipeline import Record, Records, State
from shardlings.documents import with_noun

Scores = Mapping[str, Mapping[tuple[str, str], float | None]]
"""The score of each cell, by student, and by the cell's notebook and name."""


def start_rebuilding(course: Course, console: Console) -> bool:
    """Replace a lost or damaged gradebook by its newest sound backup.

    A damaged one is kept beside it.

    Returns:
        Whether a rebuild has started, now or in an earlier command that was interrupted.
    """
    trouble, marker = course.find_trouble(), course.grading / REBUILDING_FILE
    if not trouble:
        return marker.exists()
    url = course.api.coursedir.db_url
    gradebook, sentences = gradebook_file(url), [trouble]
    newest = find_newest_backup(course.backups)
    when = read_backup_time(newest) if newest is not None else datetime.fromtimestamp(0, UTC)
    write_atomically(marker, when.isoformat().encode())
    if gradebook.exists():
        kept = rename_damaged(gradebook)
        sentences.append(f"It is kept as {kept.relative_to(course.root)}.")
    if newest is None:
        sentences.append(
            "It is made again from what was graded. There is no intact backup of it: any scores "
            "and comments that somebody gave by hand have to be entered again."
        )
    else:
        restore_backup(newest, url)
        when = when.astimezone(read_time_zone(course.grading, course.assignments()))
        sentences.append(
            f"It is made again from its copy of {when:%A, %d %B %Y, %H:%M %Z} and from what was "
            f"graded. Any scores and comments that somebody gave by hand since then have to be "
            f"entered again."
        )
    console.print(
        printable(" ".join(sentences)), style="bold yellow", markup=False, highlight=False
    )
    return True


def enter_missing_grades(course: Course, console: Console) -> None:
    """Enter all records whose scores the gradebook does not have, in one transaction.

    In a rebuild, also enter those of later submissions than the backup's. A manual score in the
    backup was given for what had been submitted by then, so it needs a check.
    """
    marker = course.grading / REBUILDING_FILE
    backup_time = _read_time(marker)
    records, times = Records(course.records), load_times(course)
    entered = 0
    with transaction(course) as gradebook:
        for student, assignment, record in list(_missing(course, gradebook, records, backup_time)):
            ask = _is_later(record, backup_time)
            reenter_record(gradebook, times, student, assignment, record, ask)
            entered += 1
    marker.unlink(missing_ok=True)
    if entered:
        what = with_noun(entered, "submission")
        console.print(f"The grades of {what} were entered again from the records.", highlight=False)


def _missing(
    course: Course, gradebook: Gradebook, records: Records, backup_time: datetime | None
) -> Iterator[tuple[str, str, Record]]:
    """Yield the records whose scores the gradebook does not have, or of later submissions."""
    assignments = {assignment.name for assignment in gradebook.assignments}
    submissions = {*course.submissions(everybody=True)}
    known: dict[str, Scores] = {}
    for student, assignment in records.all():
        record = records.get(student, assignment)
        is_current = record is not None and record.state is State.GRADED and not record.is_due_again
        if record is None or not is_current or assignment not in assignments:
            continue
        if (student, assignment) not in submissions:
            continue
        if assignment not in known:
            known[assignment] = read_auto_scores(gradebook, assignment)
        has_scores = _has_scores(known[assignment].get(student), record)
        if not has_scores or _is_later(record, backup_time):
            yield student, assignment, record


def _is_later(record: Record, backup_time: datetime | None) -> bool:
    """Check whether a submission may be later than the backup that a rebuild began from."""
    return backup_time is not None and (record.since is None or record.since > backup_time)


def _has_scores(scores: Mapping[tuple[str, str], float | None] | None, record: Record) -> bool:
    """Check whether a submission's scores in the gradebook are those of its record."""
    return scores is not None and all(
        scores.get((name, cell), score) == score
        for name, notebook in record.notebooks.items()
        for cell, score in notebook.scores.items()
    )


def _read_time(marker: Path) -> datetime | None:
    """Read the time of the backup from the marker file; None if there is no rebuild."""
    try:
        return datetime.fromisoformat(marker.read_text()).astimezone(UTC)
    except FileNotFoundError:
        return None
    except ValueError:  # nothing is known of the backup, so every manual score needs a check
        return datetime.fromtimestamp(0, UTC)


def list_backups(course: Course, console: Console) -> None:
    """Print whether the gradebook is sound, and its backups, the newest first.

    Raises:
        GradebookError: the gradebook is on a server.
    """
    console.print(
        printable(_describe_gradebook(course)),
        markup=False, highlight=False, soft_wrap=not sys.stdout.isatty(),
    )  # fmt: skip
    copies = list_all_backups(course.backups)
    if not copies:
        console.print("There is no copy of the gradebook yet: none of its grades has changed.")
        return
    try:
        zone = read_time_zone(course.grading, course.assignments())
    except ClassError:  # a mistake in the class's file must not prevent a restore
        zone = UTC
    folder = printable(str(course.backups.relative_to(course.root)))
    console.print(
        f"Its copies in {folder}/, the newest first, when they were made (in {zone}; the names are "
        f"in UTC), and how many scores by hand each has:",
        markup=False, highlight=False,
    )  # fmt: skip
    troubles = {copy: find_damage(copy) for copy in copies}
    for copy in copies:
        when = read_backup_time(copy).astimezone(zone)
        trouble = troubles[copy]
        has = f"it {trouble}" if trouble else f"{count_manual_scores(copy)} by hand"
        console.print(
            f"  {copy.name}  {when:%d %b %Y, %H:%M:%S}  {has}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    if sound := [copy for copy in copies if not troubles[copy]]:
        console.print(f"To put one back: make restore FROM={sound[0].name}", highlight=False)


def _describe_gradebook(course: Course) -> str:
    """Say whether the gradebook can be read, and what to do if it cannot.

    Raises:
        GradebookError: the gradebook is on a server.
    """
    url = course.api.coursedir.db_url
    if is_server(url):
        raise GradebookError(ON_A_SERVER)
    if trouble := course.explain_trouble():
        return trouble
    if find_damage(gradebook_file(url)):
        return "There is no gradebook yet, because nothing has been graded."
    return f"The gradebook {hide_secrets(url)} is sound."


def restore(course: Course, console: Console, file: Path) -> None:
    """Restore the gradebook from a backup, and enter what was graded since.

    Manual scores are those of the backup; the others follow from the records. The current gradebook
    is backed up first, so that this can be undone, too.

    Args:
        course: the course.
        console: where output is printed.
        file: the backup: a path, or the name of a file in the course's backups.

    Raises:
        GradebookError: the file is no gradebook, or the gradebook cannot be reached.
    """
    path = file if file.is_absolute() else course.root / file
    if not path.exists() and file.name == str(file):  # only the name of a backup
        path = course.backups / file
    if not path.is_file():
        raise GradebookError(
            f"{describe_no_file(path, str(file))}. make restore, without FROM=, names those that "
            f"can be put back."
        )
    url = course.api.coursedir.db_url
    if is_server(url):
        raise GradebookError(ON_A_SERVER)
    with course.hold_lock(url, rebuilds=True, keep=path.name):
        gradebook, marker = gradebook_file(url), course.grading / REBUILDING_FILE
        refuse_damaged(path)
        is_damaged = course.find_trouble(url) and gradebook.exists()
        replaced = (
            rename_damaged(gradebook) if is_damaged else back_up(url, course.backups, path.name)
        )
        # first, so that an interrupted restore is continued by the next make grade
        write_atomically(marker, read_backup_time(path).isoformat().encode())
        restore_backup(path, url)
        try:
            enter_missing_grades(course, console)
        except ClassError as error:  # a mistake in the class's file must not prevent a restore
            console.print(
                printable(f"What was graded since is entered by the next make grade. {error}"),
                markup=False, highlight=False,
            )  # fmt: skip
        # a rebuild begins from the newest, and not from what was here
        back_up(url, course.backups, path.name)
    console.print(
        printable(f"The gradebook {hide_secrets(url)} has the manual scores of {file}."),
        markup=False, soft_wrap=not sys.stdout.isatty(),
    )  # fmt: skip
    if replaced is not None:
        where = replaced.relative_to(course.root)
        console.print(f"The replaced gradebook is kept as {where}.", markup=False, highlight=False)
