"""To hold a gradebook, so that no other grading writes to it: on this machine, or on any.

Whoever grades by hand in Formgrader holds nothing, and need not: what they write stands in other
columns than what grading writes.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from autograder.instructor.gradebook.address import is_server, reached, shown

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
