"""The gradebook's database: its address, which is a file's or a PostgreSQL server's, and its lock.

Only one process may grade a class at a time, on any machine. Formgrader needs no lock, because it
writes manual scores and comments, which grading never overwrites.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from autograder.instructor.gradebook.connections import (
    GradebookError,
    hide_secrets,
    is_server,
    make_engine,
)
from shardlings.errors import ShortError

ADDRESS_VARIABLE: Final = "SHARDLINGS_DB"
"""The environment variable with the gradebook's address, for all commands and Formgrader."""

DRIVER: Final = "postgresql+psycopg"

SERVERS: Final = ("postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2")

SECRET_OPTIONS: Final = frozenset({"sslpassword", "oauth_client_secret"})
"""Options of an address that are secrets and that cannot be set by environment variables."""


def parse_address(written: str) -> str:
    """Convert the address that somebody wrote as `DB=` to one for SQLAlchemy, without password.

    The password is moved to the environment variable `PGPASSWORD`, which PostgreSQL reads, so that
    no address with a password can be shown or written to a file.

    Raises:
        GradebookError: it is not an address, or contains another secret.
    """
    try:
        url = make_url(written)
    except (ArgumentError, ValueError):  # whose message contains the password
        raise GradebookError(
            "DB= is not the address of a database. It looks like "
            "postgresql://name@host:5432/database, where special characters of a password are "
            "written as in a web address (@ is %40)."
        ) from None
    if url.drivername in SERVERS:
        query = dict(url.query)
        from_query = query.pop("password", None)  # takes precedence, as in PostgreSQL
        if isinstance(from_query, tuple):
            from_query = from_query[-1]
        password = url.password if from_query is None else from_query
        if password is not None:
            os.environ["PGPASSWORD"] = str(password)
        if secrets := sorted(SECRET_OPTIONS & {*query}):
            raise GradebookError(
                f"DB= has {secrets[0]} in it, which would be shown with the address. Write it into "
                f"a file of services instead (~/.pg_service.conf), and name the service in DB=: "
                f"postgresql:///?service=grades."
            )
        # an empty host means the socket on this machine
        url = URL.create(DRIVER, url.username, None, url.host, url.port, url.database, query)
    elif url.get_backend_name() != "sqlite":
        raise GradebookError(
            f"A gradebook is a file (sqlite:///…) or a database on a PostgreSQL server "
            f"(postgresql://…), and DB= begins with {url.drivername}://."
        )
    return str(url.render_as_string(hide_password=False))


def _connect(url: str) -> Any:
    """Connect to a gradebook.

    Raises:
        GradebookError: it cannot be reached.
    """
    try:
        # without a pool, closing a connection really closes it
        return make_engine(url, poolclass=NullPool).connect()
    except ModuleNotFoundError:
        raise GradebookError(
            "A gradebook on a server needs psycopg: pip install 'shardlings[postgresql]'."
        ) from None


if sys.platform != "win32":
    import fcntl

LOCK_NUMBER: Final = 0x5348_4152_444C  # "SHARDL"
"""The number of our advisory lock in a PostgreSQL database."""


class BusyError(ShortError, RuntimeError):
    """Another process is grading the class."""


@contextmanager
def hold_folder_lock(file: Path) -> Iterator[None]:
    """Lock a class's folder within a `with` block.

    Args:
        file: the lock file, which is created if necessary.

    Raises:
        BusyError: another process holds the lock.
        OSError: it is not known whether another process does.
    """
    # Not the `filelock` package: it opens the file for writing, and in a folder that is shared by a
    # group the file may belong to another user.
    descriptor = os.open(file, os.O_RDONLY | os.O_CREAT)
    try:
        _lock_file(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock_file(descriptor: int) -> None:
    if sys.platform == "win32":  # has no such locks
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # other errors do not tell whether somebody holds it
        raise BusyError(
            "Another command is at work in this folder. Wait until it has ended."
        ) from None


@contextmanager
def hold_server_lock(url: str) -> Iterator[None]:
    """Lock a gradebook on a server within a `with` block; do nothing if it is a file.

    If the connection breaks, the server releases the lock.

    Raises:
        BusyError: another process, on any machine, holds the lock.
        GradebookError: the server cannot be reached.
    """
    if not is_server(url):
        yield
        return
    with _connect(url) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")  # leaves no transaction open
        is_locked = connection.execute(
            text("SELECT pg_try_advisory_lock(:n)"), {"n": LOCK_NUMBER}
        ).scalar()
        if not is_locked:
            raise BusyError(
                f"Somebody else is grading into {hide_secrets(url)}, perhaps on another machine. "
                f"Wait until that has ended."
            )
        try:
            yield
        finally:
            with suppress(SQLAlchemyError):  # if the server is gone, so is the lock
                connection.execute(text("SELECT pg_advisory_unlock(:n)"), {"n": LOCK_NUMBER})
