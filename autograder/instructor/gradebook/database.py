"""The gradebook's database: its address, a file or a PostgreSQL server, and a lock for grading.

Only one grading may write to it, on this machine or any other. Formgrader needs no lock: it writes
manual scores and comments, which grading never overwrites.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

VARIABLE: Final = "SHARDLINGS_DB"
"""The variable that says where the gradebook is, for all commands and for Formgrader."""

DRIVER: Final = "postgresql+psycopg"

SERVERS: Final = ("postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2")

SECRETS: Final = frozenset({"sslpassword", "oauth_client_secret"})
"""Options of an address that are secrets, too, and for which there are no variables."""

CONNECT_SECONDS: Final = 10
"""Time for a server to answer."""


class GradebookError(RuntimeError):
    """The gradebook cannot be had; the message says why, and what to do. It names no password."""


def take_address(said: str) -> str:
    """The gradebook's address, as SQLAlchemy takes it, from what somebody wrote as `DB=`.

    A password goes from it into `PGPASSWORD`, where whatever connects finds it; so there is no
    address with a password that anything could show or write down.

    Raises:
        GradebookError: it is no such address.
    """
    try:
        url = make_url(said)
    except (ArgumentError, ValueError):  # whose message has it all, password included
        raise GradebookError(
            "DB= is not the address of a database. It looks like "
            "postgresql://name@host:5432/database, where special characters of a password are "
            "written as in a web address (@ is %40)."
        ) from None
    if url.drivername in SERVERS:
        query = dict(url.query)
        said_there = query.pop("password", None)  # which wins, as it does where one connects
        if isinstance(said_there, tuple):
            said_there = said_there[-1]
        password = url.password if said_there is None else said_there
        if password is not None:
            os.environ["PGPASSWORD"] = str(password)
        if found := sorted(SECRETS & {*query}):
            raise GradebookError(
                f"DB= has {found[0]} in it, which would be shown with the address. Write it into a "
                f"file of services instead (~/.pg_service.conf), and name the service in DB=: "
                f"postgresql:///?service=grades."
            )
        # the empty name of a host stands for this machine's own socket
        url = URL.create(DRIVER, url.username, None, url.host, url.port, url.database, query)
    elif url.get_backend_name() != "sqlite":
        raise GradebookError(
            f"A gradebook is a file (sqlite:///…) or a database on a PostgreSQL server "
            f"(postgresql://…), and DB= begins with {url.drivername}://."
        )
    return str(url.render_as_string(hide_password=False))


def is_server(url: str) -> bool:
    """Whether a gradebook is on a server, and not in a file."""
    return bool(make_url(url).get_backend_name() == "postgresql")


def shown(url: str | URL) -> str:
    """An address as it can be shown: without password, and without options that may hold one."""
    about = make_url(url)
    kind = "postgresql" if about.get_backend_name() == "postgresql" else about.drivername
    parsed = URL.create(kind, about.username, None, about.host, about.port, about.database)
    return str(parsed.render_as_string(hide_password=True))


def engine(url: str) -> Any:
    """What connects to a gradebook, and notices when a server does not answer."""
    if not is_server(url):
        return create_engine(url)
    patience = {"connect_timeout": CONNECT_SECONDS, "keepalives_idle": 30}
    return create_engine(url, connect_args=patience, poolclass=NullPool)  # closed is closed


def reached(url: str) -> Any:
    """A connection to a gradebook.

    Raises:
        GradebookError: it cannot be reached.
    """
    try:
        return engine(url).connect()
    except ModuleNotFoundError:
        raise GradebookError(
            "A gradebook on a server needs psycopg: pip install 'shardlings[postgresql]'."
        ) from None
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()
        said = cause[-1].rstrip(".?! ") if cause else "no answer"
        raise GradebookError(
            f"The gradebook {shown(url)} cannot be reached: {said}. "
            f"See that the server runs, and that DB= names it, the database and who you are there."
        ) from None


if sys.platform != "win32":
    import fcntl

NUMBER: Final = 0x5348_4152_444C  # "SHARDL"
"""What a server knows the lock by; locks are of one database."""


class BusyError(RuntimeError):
    """Somebody else is grading here."""


@contextmanager
def held_here(file: Path) -> Iterator[None]:
    """Hold a class's folder.

    Raises:
        BusyError: another process holds it.
    """
    lock = os.open(file, os.O_RDONLY | os.O_CREAT)  # which another of a group may have made
    try:
        _take(lock)
        yield
    finally:
        os.close(lock)


def _take(lock: int) -> None:
    if sys.platform == "win32":  # which has no such locks
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BusyError(
            "Another grading is at work in this folder. Wait for its end; if it was "
            "killed, its lock went with it."
        ) from None


@contextmanager
def held_anywhere(url: str) -> Iterator[None]:
    """Hold a gradebook on a server, as long as the connection to it stands.

    Raises:
        BusyError: somebody else holds it, on whichever machine.
        GradebookError: the server cannot be reached.
    """
    if not is_server(url):
        yield
        return
    with reached(url) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")  # no transaction stays open
        taken = connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": NUMBER}).scalar()
        if not taken:
            raise BusyError(
                f"Somebody else is grading into {shown(url)}, perhaps on another machine. Wait "
                f"for its end; if it was killed, its lock went with it."
            )
        try:
            yield
        finally:
            with suppress(SQLAlchemyError):  # where the server has gone, so has its lock
                connection.execute(text("SELECT pg_advisory_unlock(:n)"), {"n": NUMBER})
