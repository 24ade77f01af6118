"""A gradebook's rows, copied from one database into another: a file, or a server's.

A copy in a file is a gradebook itself, wherever it was made from, so it can be looked into with
nbgrader, and nothing is needed to put it back that a gradebook does not need anyway.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from nbgrader.api import Base
from sqlalchemy import Column, MetaData, String, Table, delete, insert, inspect, select

from autograder.instructor.gradebook.address import GradebookError, engine, is_server, reached

VERSION: Final = Table("alembic_version", MetaData(), Column("version_num", String(32)))
"""nbgrader's note of which tables a gradebook has."""

ROWS: Final = 1000
"""How many rows are copied at a time."""


def has_grades(url: str) -> bool:
    """Whether there is anything in a gradebook that would be missed.

    Raises:
        GradebookError: it cannot be reached.
    """
    if not is_server(url) and not Path(_file(url)).exists():
        return False
    with reached(url) as connection:
        if not inspect(connection).has_table("submitted_assignment"):
            return False
        handed_in = Base.metadata.tables["submitted_assignment"]
        return connection.execute(select(handed_in).limit(1)).first() is not None


def write_copy(url: str, path: Path) -> None:
    """Copy a gradebook, as it is at one moment, into a file, which is there whole or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    if is_server(url):
        _copy(url, f"sqlite:///{part}")
    else:
        with closing(sqlite3.connect(_file(url))) as kept, closing(sqlite3.connect(part)) as copy:
            kept.backup(copy)
    os.replace(part, path)


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
    """Have a gradebook be what a copy of it is, or leave it as it is.

    Raises:
        GradebookError: the file is no gradebook.
    """
    _see_that_it_is_one(path)
    if is_server(url):
        _copy(f"sqlite:///{path}", url)
        return
    with closing(sqlite3.connect(path)) as copy, closing(sqlite3.connect(_file(url))) as kept:
        copy.backup(kept)


def _file(url: str) -> str:
    return url.removeprefix("sqlite:///")


def _see_that_it_is_one(path: Path) -> None:
    wanted = {table.name for table in Base.metadata.sorted_tables}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as copy:
            (sound,) = copy.execute("PRAGMA integrity_check").fetchone()
            found = {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise GradebookError(f"{path} is no gradebook: {error}.") from None
    if sound != "ok" or wanted - found:
        raise GradebookError(f"{path} is no gradebook of nbgrader's, or a damaged one.")


def _copy(source: str, target: str) -> None:
    """Replace all of a gradebook's rows by another one's, in one transaction each."""
    tables = [*Base.metadata.sorted_tables, VERSION]
    read, write = engine(source), engine(target)
    try:
        Base.metadata.create_all(write)
        VERSION.create(write, checkfirst=True)
        level = "REPEATABLE READ" if is_server(source) else "SERIALIZABLE"
        with read.connect() as there, write.begin() as here:
            there.execution_options(isolation_level=level)  # all of it is of one moment
            for table in reversed(tables):
                here.execute(delete(table))
            for table in tables:
                _copy_table(there, here, table)
    finally:
        read.dispose()
        write.dispose()


def _copy_table(there: Any, here: Any, table: Table) -> None:
    if not inspect(there).has_table(table.name):
        return
    for rows in there.execute(select(table)).mappings().partitions(ROWS):
        here.execute(insert(table), [dict(row) for row in rows])
