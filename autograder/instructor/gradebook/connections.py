"""Connections to a gradebook that wait for locks, and whose errors are sentences.

nbgrader's own sessions use them, too. Only a file that is no database, or whose contents contradict
themselves, is damaged. All other errors leave open what is in the file, so nothing of it is moved.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, TypeVar

import nbgrader.api
from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import OperationalError

from shardlings.errors import ShortError

T = TypeVar("T")

LOCK_SECONDS: Final = 600.0
"""The time limit for another program to release its lock on a gradebook's file."""

FORMGRADER_LOCK_SECONDS: Final = 10.0
"""The same in Formgrader, whose server does nothing else meanwhile."""

SILENT_LOCK_SECONDS: Final = 2.0
"""The time to wait for a lock before a message is printed."""

CONNECT_SECONDS: Final = 10
"""The time limit for a server to answer."""

LOCK_PAUSE_SECONDS: Final = 0.1
"""The pause between two tries, because SQLite refuses some locks at once."""

LOCK_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})

DAMAGE_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

UNKNOWN_CODES: Final = LOCK_CODES | {
    sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}  # fmt: skip
"""The errors that say nothing about what is in a file."""


class GradebookError(ShortError, RuntimeError):
    """The gradebook cannot be used; the message says why, and contains no password."""


class DamagedError(GradebookError):
    """A gradebook's file is damaged."""


class _WatchedFile:
    """A gradebook's file that must not be made anew after it was there.

    Args:
        path: the file.
        explain: returns what is to be done if it is lost.
    """

    def __init__(self, path: Path, explain: Callable[[], str]) -> None:
        self.path, self.explain, self.was_there = path, explain, path.exists()

    def check(self) -> None:
        """Check that the file is there, if it was there before.

        Raises:
            GradebookError: it was deleted, or moved away.
        """
        if self.was_there and not self.path.exists():
            raise GradebookError(
                f"The gradebook {self.path} was deleted, or moved away, while this command was at "
                f"work. {self.explain()}"
            )


WATCHED_FILES: Final[dict[str, _WatchedFile]] = {}
"""The gradebooks' files that `watch_file` watches, by path."""


@contextmanager
def watch_file(path: Path, explain: Callable[[], str]) -> Iterator[None]:
    """Let nobody in a `with` block make a new gradebook in the place of one that was lost.

    nbgrader would make an empty one, and the grades that it had would be missing.

    Args:
        path: the gradebook's file.
        explain: returns what is to be done if it is lost.

    Raises:
        GradebookError: it was lost.
    """
    watched = WATCHED_FILES[str(path)] = _WatchedFile(path, explain)
    try:
        yield
        watched.check()
    finally:
        del WATCHED_FILES[str(path)]


def forget_file(path: Path) -> None:
    """Permit a watched file to be made anew."""
    if watched := WATCHED_FILES.get(str(path)):
        watched.was_there = False


class PatientCursor(sqlite3.Cursor):
    """A cursor that waits while another program holds the file locked."""

    connection: "PatientConnection"

    def execute(self, *arguments: Any) -> Any:
        """Execute a statement."""
        return self.connection.wait(partial(super().execute, *arguments))

    def executemany(self, *arguments: Any) -> Any:
        """Execute a statement for several rows."""
        return self.connection.wait(partial(super().executemany, *arguments))


class PatientConnection(sqlite3.Connection):
    """A connection that waits while another program holds the file locked, and says so.

    Args:
        database: the file's path.
        options: those of `sqlite3.connect`.

    Raises:
        GradebookError: the file is watched, and was lost.
    """

    def __init__(self, database: str, **options: Any) -> None:
        watched = WATCHED_FILES.get(database)
        if watched is not None:
            watched.check()
        super().__init__(database, **options)
        if watched is not None:
            watched.was_there = True
        self.file = Path(database).name

    def cursor(self, factory: Any = PatientCursor) -> Any:
        """Return a new cursor."""
        return super().cursor(factory)

    def execute(self, *arguments: Any) -> Any:
        """Execute a statement with a new cursor; sqlite3 itself would not use `cursor`."""
        return self.cursor().execute(*arguments)

    def commit(self) -> None:
        """Commit the transaction."""
        self.wait(super().commit)

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Replace the contents of another database by this one's, in one transaction."""
        self.wait(partial(self.backup, target, progress=_refuse_lock))

    def wait(self, call: Callable[[], T]) -> T:
        """Call a function again and again until it needs no lock that another program holds.

        Raises:
            sqlite3.OperationalError: the lock is still held after the time limit.
        """
        deadline = 0.0
        while True:
            try:
                return call()
            except sqlite3.OperationalError as error:
                if _code(error) not in LOCK_CODES or (deadline and monotonic() > deadline):
                    raise
            if not deadline:
                seconds = FORMGRADER_LOCK_SECONDS if _is_in_server() else LOCK_SECONDS
                deadline = monotonic() + seconds
                print(
                    f"{self.file} is locked by another program. Waiting for up to "
                    f"{seconds:g} seconds until it is free; Ctrl-C stops.",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
            sleep(LOCK_PAUSE_SECONDS)


def _is_in_server() -> bool:
    """Check whether this process is a Jupyter server, such as Formgrader's."""
    module = sys.modules.get("jupyter_server.serverapp")
    return module is not None and module.ServerApp.initialized()


def _refuse_lock(status: int, *_: int) -> None:
    """Raise an error where copying a database needs a lock, for which SQLite waits for ever."""
    if status & 0xFF in LOCK_CODES:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = status
        raise error


def connect(path: Path) -> PatientConnection:
    """Connect to a gradebook's file, which is made if there is none.

    The file is never opened for reading only: where a program was killed while it wrote, SQLite
    first takes back what was half written.
    """
    return PatientConnection(str(path), timeout=SILENT_LOCK_SECONDS)


def make_engine(url: str, **options: Any) -> Any:
    """Create an SQLAlchemy engine for a gradebook, whose errors are sentences.

    Args:
        url: the gradebook's address.
        options: those of `create_engine`.
    """
    if is_server(url):
        connecting: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "keepalives_idle": 30}
    else:
        connecting = {"timeout": SILENT_LOCK_SECONDS, "factory": PatientConnection}
    engine = create_engine(url, connect_args=connecting, **options)
    event.listen(engine, "handle_error", partial(_explain_error, hide_secrets(url)))
    return engine


def install_engine() -> None:
    """Make nbgrader open gradebooks with `make_engine`."""
    nbgrader.api.create_engine = make_engine


def _explain_error(where: str, context: Any) -> GradebookError | None:
    """Return the error that replaces one of a database; None if it stays."""
    original = context.original_exception
    if isinstance(original, sqlite3.Error):
        return _explain_sqlite(original, where)
    if not isinstance(context.sqlalchemy_exception, OperationalError):
        return None
    lines = str(original or type(original).__name__).strip().splitlines()
    problem = lines[-1].rstrip(".?! ") if lines else "no answer"
    return GradebookError(
        f"The gradebook {where} cannot be reached: {problem}. "
        f"Check that the server is running, and that DB= has the right host, database and user."
    )


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Replace SQLite's errors about a gradebook's file by sentences.

    Raises:
        DamagedError: the file is damaged.
        GradebookError: it is not known what is in the file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise (_explain_sqlite(error, str(path)) or error) from error


def _explain_sqlite(error: sqlite3.Error, where: str) -> GradebookError | None:
    code = _code(error)
    if code in DAMAGE_CODES:
        return DamagedError(
            f"The gradebook {where} is damaged: {error}. make grade makes it again."
        )
    if code in LOCK_CODES:
        return GradebookError(
            f"The gradebook {where} is still locked by another program, so nothing more is "
            f"entered, and nothing of it was moved. Close that program, or have it write its "
            f"changes, and run the same command again."
        )
    if code in UNKNOWN_CODES:
        return GradebookError(
            f"The gradebook {where} could not be read or written: {error}. What was graded is "
            f"kept, and nothing is half written. Check that the disk has free space and that you "
            f"may write there, and run the same command again."
        )
    return None


def _code(error: sqlite3.Error) -> int:
    """Return the kind of an error of SQLite's, without its details."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def is_server(url: str | URL) -> bool:
    """Check whether a gradebook is on a server, and not in a file."""
    return bool(make_url(url).get_backend_name() == "postgresql")


def hide_secrets(url: str | URL) -> str:
    """Format an address without its password and options, which may contain secrets."""
    parsed = make_url(url)
    kind = "postgresql" if parsed.get_backend_name() == "postgresql" else parsed.drivername
    public = URL.create(kind, parsed.username, None, parsed.host, parsed.port, parsed.database)
    return str(public.render_as_string(hide_password=True))
