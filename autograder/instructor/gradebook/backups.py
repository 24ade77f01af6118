"""Copies of a gradebook, each of how it was before a command changed grades in it.

They are dated, and there are never more than so many: the last ones, and of earlier days one each.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from autograder.instructor.gradebook.address import GradebookError
from autograder.instructor.gradebook.copies import has_grades, write_copy

LAST: Final = 10
"""How many of the last copies are kept, of whatever day."""

MOST: Final = 30
"""How many are kept in all."""

NAME: Final = re.compile(r"gradebook-(\d{4}-\d\d-\d\d)T\d{6}(-\d+)?\.db")

CHANGES_GRADES: Final = re.compile(
    r'\s*((insert\s+into|update|delete\s+from)\s+"?'
    r"(grade|comment|submitted_notebook|base_cell|grade_cells|task_cells)"
    r'|(insert\s+into|delete\s+from)\s+"?submitted_assignment|delete\s+from\s+"?student)\b',
    re.IGNORECASE,
)
"""A statement that changes what somebody has earned, of how much, or whether they handed in."""

NEAR: Final = 5
"""Which of the last copies are looked at, whether they have these grades already."""

OF_GRADES: Final = (
    "submitted_assignment", "submitted_notebook", "grade", "comment", "base_cell", "grade_cells",
    "task_cells",
)  # fmt: skip
"""The tables that hold what somebody has earned, and of how much."""


@contextmanager
def backed_up(url: str, folder: Path) -> Iterator[None]:
    """Copy a gradebook before the first of its grades is changed by this process within, if any is.

    Args:
        url: the gradebook.
        folder: where its copies are.

    Raises:
        GradebookError: within, instead of each such change, as long as no copy can be made.
    """
    wanted, is_copied, is_at_it = make_url(url), False, False

    def before(connection: Any, _: Any, statement: str, *__: Any) -> None:
        nonlocal is_copied, is_at_it
        if is_copied or is_at_it:  # the copy is made through an engine, too
            return
        if not CHANGES_GRADES.match(statement) or connection.engine.url != wanted:
            return
        is_at_it = True
        try:
            back_up(url, folder)
            is_copied = True
        except (OSError, sqlite3.Error, SQLAlchemyError) as error:
            raise GradebookError(
                f"No grade is changed, because the gradebook cannot be copied to {folder} first: "
                f"{error}."
            ) from None
        finally:
            is_at_it = False

    event.listen(Engine, "before_cursor_execute", before)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", before)


def back_up(url: str, folder: Path) -> Path | None:
    """Copy a gradebook as it is; where the copy is.

    A gradebook without grades is not copied, nor one whose grades are in one of the last copies.
    """
    if not has_grades(url):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"gradebook-{datetime.now(UTC):%Y-%m-%dT%H%M%S}"
    names = (f"{stem}{f'-{n}' * bool(n)}.db" for n in range(1000))
    path = next(folder / name for name in names if not (folder / name).exists())
    there = backups(folder)[:NEAR]
    write_copy(url, path)
    if same := next((copy for copy in there if _are_same(copy, path)), None):
        path.unlink()
        return same
    for old in _superfluous(backups(folder)):
        old.unlink(missing_ok=True)
    return path


def backups(folder: Path) -> list[Path]:
    """All copies in a folder, the last one first."""
    copies = [path for path in folder.glob("gradebook-*.db") if NAME.fullmatch(path.name)]
    return sorted(copies, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)


def _are_same(one: Path, other: Path) -> bool:
    """Whether two copies hold the same grades."""
    with closing(sqlite3.connect(":memory:")) as both:
        try:
            for name, path in (("one", one), ("other", other)):
                both.execute(f"ATTACH ? AS {name}", [str(path)])
            return all(_is_same(both, table) for table in OF_GRADES)
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
    kept = list(copies[:LAST])
    days = set()
    for copy in copies[LAST:]:  # of each day, the last one
        found = NAME.fullmatch(copy.name)
        day = found[1] if found else ""
        if day not in days and len(kept) < MOST:
            days.add(day)
            kept.append(copy)
    return [copy for copy in copies if copy not in kept]
