"""Backups of a gradebook's file, made before each command that may change grades.

The latest thirty are kept, and one for each earlier day, sixty in all. A backup is dated by its
name, because copying a folder changes its files' times. It is checked when it is made and before it
is restored. A gradebook on a server is not backed up here; databases have their
own tools for that.
"""

import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nbgrader.api import Base, Grade, Gradebook
from sqlalchemy import event

from autograder.instructor.gradebook.connections import (
    DamagedError,
    GradebookError,
    connect,
    explain_errors,
    forget_file,
    install_engine,
    is_server,
)

KEPT_BACKUPS: Final = 30
"""The number of latest backups that are all kept; of earlier ones, one for each day."""

MAX_BACKUPS: Final = 60

BACKUP_NAME: Final = "gradebook-%Y-%m-%dT%H%M%S-%f.db"
"""The name of a backup: when it was made, in UTC and to the microsecond."""

GRADE_TABLES: Final = (
    "submitted_assignment", "submitted_notebook", "grade", "comment", "base_cell", "grade_cells",
    "task_cells",
)  # fmt: skip
"""The tables with grades."""

SQLITE_SUFFIXES: Final = ("-journal", "-wal", "-shm")
"""The endings of the files in which SQLite keeps what is not written yet, or to be taken back."""

ON_A_SERVER: Final = (
    "The gradebook is on a server, which has its own way to copy it and to put a copy back: "
    "pg_dump and pg_restore."
)


def back_up(url: str, folder: Path, keep: str = "") -> Path | None:
    """Back up a gradebook, and delete old backups.

    If the latest backup has the same grades, no new one is made.

    Args:
        url: the gradebook's address.
        folder: the folder of backups.
        keep: the name of an old backup that is not deleted.

    Returns:
        The backup's path; None if the gradebook is on a server or has no grades.

    Raises:
        GradebookError: it cannot be copied, or is damaged.
    """
    if is_server(url) or not has_grades(url):
        return None
    try:
        return _back_up_file(gradebook_file(url), folder, keep)
    except (OSError, sqlite3.Error) as error:
        raise GradebookError(
            f"No grade is changed, because the gradebook cannot be copied to {folder} first: "
            f"{error}."
        ) from None


def _back_up_file(gradebook: Path, folder: Path, keep: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / datetime.now(UTC).strftime(BACKUP_NAME)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    _copy_database(gradebook, part)
    trouble = find_damage(part)
    # an older backup with the same grades is no reason: a rebuild begins from the newest
    latest = list_all_backups(folder)[:1]
    same = next((backup for backup in latest if _have_same_grades(backup, part)), None)
    if trouble or same:
        part.unlink()
    if trouble:
        raise sqlite3.DatabaseError(f"the copy {trouble}")
    if same is not None:
        return same
    part.replace(path)
    for old in _expired(list_all_backups(folder)):
        if old.name != keep:
            old.unlink(missing_ok=True)
    return path


def _copy_database(source: Path, target: Path) -> None:
    """Copy a gradebook as it is at one moment, even if somebody writes to it meanwhile."""
    with closing(connect(source)) as kept, closing(connect(target)) as copy:
        kept.copy_to(copy)


def list_all_backups(folder: Path) -> list[Path]:
    """Return the backups in a folder, the latest first.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        names = os.listdir(folder)  # a glob does not tell an unreadable folder from an empty one
    except FileNotFoundError:
        names = []
    dated = [(when, folder / name) for name in names if (when := _read_name(name)) is not None]
    return [path for _, path in sorted(dated, reverse=True)]


def read_backup_time(path: Path) -> datetime:
    """Return when a backup was made; of a file with another name, when it was last changed.

    Raises:
        OSError: the file is not there.
    """
    return _read_name(path.name) or datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _read_name(name: str) -> datetime | None:
    """Return the time in a backup's name; None if it is not the name of a backup."""
    try:
        return datetime.strptime(name, BACKUP_NAME).replace(tzinfo=UTC)
    except ValueError:
        return None


def find_newest_backup(folder: Path) -> Path | None:
    """Return the newest sound backup in a folder, if there is one."""
    return next((path for path in list_all_backups(folder) if not find_damage(path)), None)


def explain_rebuild(folder: Path) -> str:
    """Say from what `make grade` makes a lost gradebook again, and what it cannot bring back."""
    newest = find_newest_backup(folder)
    if newest is None:
        return (
            "make grade makes it again, from what was graded. There is no intact backup of it: any "
            "scores and comments that somebody gave by hand have to be entered again."
        )
    return (
        f"make grade makes it again, from what was graded and from its newest sound copy, "
        f"{newest.name}. Any scores and comments that somebody gave by hand since then have to be "
        f"entered again."
    )


def has_grades(url: str) -> bool:
    """Check whether a gradebook's file has any submissions.

    Raises:
        GradebookError: that cannot be known now.
    """
    path = gradebook_file(url)
    if not path.exists():
        return False
    try:
        with explain_errors(path), closing(connect(path)) as book:
            return book.execute("SELECT 1 FROM submitted_assignment LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError:  # nbgrader has not created its tables yet
        return False
    except DamagedError:  # backing it up will report that
        return True


def count_manual_scores(path: Path) -> int:
    """Count the scores that somebody gave by hand, in a sound gradebook's file."""
    query = "SELECT count(*) FROM grade WHERE manual_score IS NOT NULL OR extra_credit != 0"
    with explain_errors(path), closing(connect(path)) as book:
        (number,) = book.execute(query).fetchone()
    return int(number)


def find_damage(path: Path) -> str:
    """Return what is wrong with a gradebook's file, as the end of a sentence; empty if sound.

    Raises:
        GradebookError: that cannot be known now, because the file is locked or cannot be read.
    """
    if not path.exists():
        return "is not there"
    if path.is_dir():
        return "is damaged: it is a folder"
    if not path.stat().st_size:
        return "is empty"
    known_tables = {table.name for table in Base.metadata.sorted_tables}
    try:
        with explain_errors(path), closing(connect(path)) as book:
            (sound,) = book.execute("PRAGMA integrity_check").fetchone()
            tables = {name for (name,) in book.execute("SELECT name FROM sqlite_master")}
    except DamagedError as error:
        return f"is damaged: {error.__cause__}"
    if sound != "ok":
        return "is damaged"
    return "has not all of nbgrader's tables" if known_tables - tables else ""


@contextmanager
def open_gradebook(path: str | Path) -> Iterator[Gradebook]:
    """Open a class's gradebook, for programs that read or enter grades.

    Args:
        path: its file, such as `grading/gradebook.db`.

    Raises:
        GradebookError: it is lost or damaged, and nbgrader would make an empty one in its place;
            or a score is no number, which nbgrader would store as no score.
    """
    url = f"sqlite:///{Path(path).absolute()}"
    trouble = find_damage(Path(path)) or ("" if has_grades(url) else "has no grades")
    if trouble:
        raise GradebookError(
            f"The gradebook {path} {trouble}. Give its path, or let make grade make it again."
        )
    install_engine()
    scores = (Grade.manual_score, Grade.extra_credit)
    for column in scores:
        event.listen(column, "set", _refuse_strange_score)
    try:
        with Gradebook(url) as gradebook:
            yield gradebook
    finally:
        for column in scores:
            event.remove(column, "set", _refuse_strange_score)


def _refuse_strange_score(grade: Grade, score: float | None, *_: object) -> None:
    if score is not None and not math.isfinite(score):
        raise GradebookError(f"The score {score} of {grade.name} is not a number.")


def restore_backup(path: Path, url: str) -> None:
    """Replace a gradebook by a backup, in one transaction of the gradebook's own file.

    A program that has the file open, such as Formgrader, goes on with the restored grades.

    Args:
        path: the backup.
        url: the gradebook's address.

    Raises:
        GradebookError: the backup is damaged, or the gradebook is on a server.
    """
    if is_server(url):
        raise GradebookError(ON_A_SERVER)
    refuse_damaged(path)
    gradebook = gradebook_file(url)
    with explain_errors(gradebook):
        _copy_database(path, gradebook)


def rename_damaged(gradebook: Path) -> Path:
    """Rename a damaged gradebook, with SQLite's files beside it; return its new path."""
    renamed = gradebook.with_name(f"{gradebook.name}.damaged-{datetime.now(UTC):%Y-%m-%dT%H%M%S}")
    for suffix in SQLITE_SUFFIXES:  # left here, they would be applied to the next gradebook
        with suppress(FileNotFoundError):
            os.rename(f"{gradebook}{suffix}", f"{renamed}{suffix}")
    forget_file(gradebook)
    gradebook.rename(renamed)
    return renamed


def gradebook_file(url: str) -> Path:
    """Return the file of a gradebook that is not on a server."""
    return Path(url.removeprefix("sqlite:///"))


def refuse_damaged(path: Path) -> None:
    """Check that a file can be restored.

    Raises:
        GradebookError: it is no gradebook, or a damaged one.
    """
    trouble = find_damage(path)
    if trouble:
        raise GradebookError(f"{path} is no gradebook that could be put back: it {trouble}.")


def _have_same_grades(one: Path, other: Path) -> bool:
    """Check whether two gradebooks have the same grades."""
    with closing(sqlite3.connect(":memory:")) as both:
        try:
            for name, path in (("one", one), ("other", other)):
                both.execute(f"ATTACH ? AS {name}", [str(path)])
            return all(_has_same_rows(both, table) for table in GRADE_TABLES)
        except sqlite3.Error:  # one of them is not a gradebook, or damaged
            return False


def _has_same_rows(both: sqlite3.Connection, table: str) -> bool:
    """Check whether a table has the same rows in `one` and `other`; each row has a primary key."""
    counts = [both.execute(f"SELECT count(*) FROM {name}.{table}").fetchone()
              for name in ("one", "other")]  # fmt: skip
    missing = f"SELECT * FROM one.{table} EXCEPT SELECT * FROM other.{table} LIMIT 1"
    return counts[0] == counts[1] and both.execute(missing).fetchone() is None


def _expired(all_backups: Sequence[Path]) -> list[Path]:
    """Return the backups to be deleted, given all of them, the latest first."""
    kept = list(all_backups[:KEPT_BACKUPS])
    days = set()
    for backup in all_backups[KEPT_BACKUPS:]:  # the latest of each day
        day = read_backup_time(backup).date()
        if day not in days and len(kept) < MAX_BACKUPS:
            days.add(day)
            kept.append(backup)
    return [backup for backup in all_backups if backup not in kept]
