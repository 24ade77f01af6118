"""Dated copies of a gradebook's file, made before each command that may change grades.

The last ten are kept, and one for each earlier day, thirty in all. A copy is checked when it is
made, and again before it is put back. Backups of a database server are the server's own business.
"""

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nbgrader.api import Base

from autograder.instructor.gradebook.database import GradebookError, is_server

LAST_KEPT: Final = 10
"""How many of the latest copies are kept."""

MAX_KEPT: Final = 30

COPY_NAME: Final = re.compile(r"gradebook-(\d{4}-\d\d-\d\d)T\d{6}(-\d+)?\.db")

COMPARED: Final = 5
"""How many of the latest copies are compared with the gradebook."""

GRADE_TABLES: Final = (
    "submitted_assignment", "submitted_notebook", "grade", "comment", "base_cell", "grade_cells",
    "task_cells",
)  # fmt: skip
"""The tables that hold what somebody has earned."""

ON_A_SERVER: Final = (
    "The gradebook is on a server, which has its own way to copy it and to put a copy back: "
    "pg_dump and pg_restore."
)


def back_up(url: str, folder: Path) -> Path | None:
    """Copy a gradebook as it is; where the copy is.

    A gradebook without grades is not copied, nor one whose grades are in one of the last copies,
    nor one on a server.

    Raises:
        GradebookError: it cannot be copied, or is damaged.
    """
    if is_server(url) or not has_grades(url):
        return None
    try:
        return _copied(file_of(url), folder)
    except (OSError, sqlite3.Error) as error:
        raise GradebookError(
            f"No grade is changed, because the gradebook cannot be copied to {folder} first: "
            f"{error}."
        ) from None


def _copied(gradebook: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"gradebook-{datetime.now(UTC):%Y-%m-%dT%H%M%S}"
    names = (f"{stem}{f'-{n}' * bool(n)}.db" for n in range(1000))
    path = next(folder / name for name in names if not (folder / name).exists())
    part = path.with_suffix(".part")
    _write(gradebook, part)
    trouble = trouble_in(part)
    same = next((copy for copy in backups(folder)[:COMPARED] if _are_same(copy, part)), None)
    if trouble or same:
        part.unlink()
    if trouble:
        raise sqlite3.DatabaseError(f"the copy {trouble}")
    if same is not None:
        return same
    part.replace(path)
    for old in _superfluous(backups(folder)):
        old.unlink(missing_ok=True)
    return path


def _write(gradebook: Path, path: Path) -> None:
    """Copy a gradebook, as it is at one moment."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(gradebook)) as kept, closing(sqlite3.connect(path)) as copy:
        kept.backup(copy)


def backups(folder: Path) -> list[Path]:
    """All copies in a folder, the last one first."""
    copies = [path for path in folder.glob("gradebook-*.db") if COPY_NAME.fullmatch(path.name)]
    return sorted(copies, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)


def has_grades(url: str) -> bool:
    """Whether there is anything in a gradebook's file that would be missed."""
    path = file_of(url)
    if not path.exists():
        return False
    try:
        with closing(_read_only(path)) as book:
            return book.execute("SELECT 1 FROM submitted_assignment LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError:  # nbgrader has not made its tables yet
        return False
    except sqlite3.DatabaseError:  # it is damaged, which is found out when it is copied
        return True


def trouble_in(path: Path) -> str:
    """What is wrong with a gradebook's file, as the end of a sentence; empty where nothing is."""
    if not path.exists():
        return "is not there"
    if path.is_dir():
        return "is damaged: it is a folder"
    if not path.stat().st_size:
        return "is empty"
    wanted = {table.name for table in Base.metadata.sorted_tables}
    try:
        with closing(_read_only(path)) as book:
            (sound,) = book.execute("PRAGMA integrity_check").fetchone()
            found = {name for (name,) in book.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        return f"is damaged: {error}"
    if sound != "ok":
        return "is damaged"
    return "has not all of nbgrader's tables" if wanted - found else ""


@contextmanager
def readable_copy(path: Path) -> Iterator[str]:
    """The address at which nbgrader can look into a copy; it may write to what it looks into.

    Raises:
        GradebookError: the file is no gradebook.
    """
    _see_that_it_is_one(path)
    with tempfile.TemporaryDirectory(prefix="shardlings-") as folder:
        shutil.copyfile(path, Path(folder, "gradebook.db"))
        yield f"sqlite:///{folder}/gradebook.db"


def put_back(path: Path, url: str) -> None:
    """Have a gradebook be what a copy of it is, wholly, or leave it as it is.

    Raises:
        GradebookError: the file is no gradebook, or the gradebook is on a server.
    """
    if is_server(url):
        raise GradebookError(ON_A_SERVER)
    _see_that_it_is_one(path)
    gradebook = file_of(url)
    part = gradebook.with_suffix(".part")
    _write(path, part)
    os.replace(part, gradebook)


def set_aside(gradebook: Path) -> Path:
    """Give a damaged gradebook's file another name; where it is then."""
    kept = gradebook.with_name(f"{gradebook.name}.damaged-{datetime.now(UTC):%Y-%m-%dT%H%M%S}")
    gradebook.rename(kept)
    return kept


def file_of(url: str) -> Path:
    """The file of a gradebook that is in one."""
    return Path(url.removeprefix("sqlite:///"))


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _see_that_it_is_one(path: Path) -> None:
    trouble = trouble_in(path)
    if trouble:
        raise GradebookError(f"{path} is no gradebook that could be put back: it {trouble}.")


def _are_same(one: Path, other: Path) -> bool:
    """Whether two copies hold the same grades."""
    with closing(sqlite3.connect(":memory:")) as both:
        try:
            for name, path in (("one", one), ("other", other)):
                both.execute(f"ATTACH ? AS {name}", [str(path)])
            return all(_is_same(both, table) for table in GRADE_TABLES)
        except sqlite3.Error:  # it is no gradebook, or a damaged one
            return False


def _is_same(both: sqlite3.Connection, table: str) -> bool:
    """Whether a table of `one` has just the rows of that of `other`; each has its own key."""
    counts = [both.execute(f"SELECT count(*) FROM {name}.{table}").fetchone()
              for name in ("one", "other")]  # fmt: skip
    missing = f"SELECT * FROM one.{table} EXCEPT SELECT * FROM other.{table} LIMIT 1"
    return counts[0] == counts[1] and both.execute(missing).fetchone() is None


def _superfluous(copies: Sequence[Path]) -> list[Path]:
    """Those that are not kept, of all, the last one first."""
    kept = list(copies[:LAST_KEPT])
    days = set()
    for copy in copies[LAST_KEPT:]:  # of each day, the last one
        found = COPY_NAME.fullmatch(copy.name)
        day = found[1] if found else ""
        if day not in days and len(kept) < MAX_KEPT:
            days.add(day)
            kept.append(copy)
    return [copy for copy in copies if copy not in kept]
