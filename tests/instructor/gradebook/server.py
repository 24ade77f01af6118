"""A PostgreSQL server on loopback, for tests."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

PASSWORD: Final = "sesame/open@now"
"""A password with characters that have a meaning in addresses."""

QUOTED: Final = "sesame%2Fopen%40now"


def programs() -> Path | None:
    """Return the folder with the server's programs, which need not be in PATH; None without one."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    folders += [Path(os.path.realpath(found)).parent] if found else []
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


def nobody() -> dict[str, Any]:
    """Return arguments for `subprocess` to start a program that refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": "nogroup", "extra_groups": []}


@contextmanager
def server() -> Iterator[str]:
    """Run a server within a `with` block; yield the address of an empty database."""
    bin_ = programs()
    assert bin_ is not None
    folder = Path(tempfile.mkdtemp(prefix="shardlings-postgresql-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if nobody():
            for path in (folder, folder / "password"):
                shutil.chown(path, "nobody", "nogroup")
        made = subprocess.run(
            [bin_ / "initdb", "-D", folder / "data", "-U", "teacher", "-A", "scram-sha-256",
             "--pwfile", folder / "password", "--no-sync", "-E", "UTF8", "--locale=C"],
            cwd="/", capture_output=True, text=True, check=False, **nobody(),
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with subprocess.Popen(
            [bin_ / "postgres", "-D", folder / "data", "-p", str(port), "-c", "fsync=off",
             "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="],
            cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **nobody(),
        ) as running:  # fmt: skip
            try:
                _wait(port)
                yield f"postgresql://teacher:{QUOTED}@127.0.0.1:{port}/postgres"
            finally:
                running.send_signal(signal.SIGINT)  # ends all connections, and then itself
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(
                host="127.0.0.1", port=port, user="teacher", password=PASSWORD, dbname="postgres"
            ).close()
            return
        except psycopg.OperationalError:
            assert time.monotonic() < until, "the server does not start"
            time.sleep(0.1)
