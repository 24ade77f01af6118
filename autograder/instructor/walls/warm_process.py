"""Processes that were warmed up: what a task needs is imported once, and not for each task.

The first task of a kind starts a server in the sandbox, which imports everything and forks for each
task (`fork_server.py`). Where that cannot be done, because the system allows no namespaces within
namespaces or has no filter of system calls, there is none, and each task starts a process.
"""

import atexit
import socket
import subprocess
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import IO, Final

import msgspec

from autograder.instructor.walls.fork_server import MAX_MESSAGE_BYTES, Ended, Setting

MAX_SERVERS: Final = 2
"""The most servers that are kept: there is one for each notebook that is being graded."""

START_SECONDS: Final = 120
"""Time for a server to import everything and enter a sandbox, on a busy machine."""

MAX_OUTPUT_BYTES: Final = 2**26
"""The most that is read of a task's output."""


class Finished(msgspec.Struct, frozen=True):
    """A task that has ended.

    Attributes:
        status: its exit status; minus the signal's number where a signal ended it.
        stdout: its output.
        stderr: its error output.
        cpu_seconds: the processor time that it took.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cpu_seconds: float


class WarmProcess:
    """A server in the sandbox, which forks for each task.

    Args:
        command: what starts the server; it finds its control socket as standard input.
        variables: its environment.
        setting: what every task is given.

    Raises:
        OSError: it could not be started, or cannot enter a sandbox for a task.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], setting: Setting
    ) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=variables,
            )
        try:
            self.control.send(msgspec.json.encode(setting))
            if self.run([], b"", START_SECONDS).status:
                raise OSError("no process can enter a sandbox within the sandbox")
        except (OSError, subprocess.TimeoutExpired) as error:
            self.process.kill()
            self.close()
            raise OSError(str(error)) from error

    def run(self, arguments: Sequence[str], input: bytes, timeout: float) -> Finished:
        """Do a task.

        Args:
            arguments: of the task.
            input: what it finds as standard input.
            timeout: how long to wait for it, in seconds; then it is killed.

        Raises:
            TimeoutExpired: it did not end in time.
            OSError: the server has ended, or the task's supervisor has.
        """
        ours, theirs = socket.socketpair()
        with (
            ours,
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            stdin.write(input)
            stdin.seek(0)
            with theirs:
                files = [each.fileno() for each in (theirs, stdin, stdout, stderr)]
                socket.send_fds(self.control, [msgspec.json.encode(arguments)], files)
            ours.settimeout(max(timeout, 0.001))
            try:
                said = ours.recv(MAX_MESSAGE_BYTES)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a task", timeout) from None
            if not said:
                raise OSError("the process that forks for each task has ended")
            ended = msgspec.json.decode(said, type=Ended)
            return Finished(ended.status, _read(stdout), _read(stderr), ended.cpu_seconds)

    def close(self) -> None:
        """Let the server end, as soon as its last task has."""
        self.control.close()
        threading.Thread(target=self.process.wait, daemon=True).start()


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES)


class _Servers:
    """The servers of this process, the one that was used last at the end."""

    def __init__(self) -> None:
        self.lock, self.kept = threading.Lock(), OrderedDict[tuple[str, ...], WarmProcess | None]()

    def get(
        self, command: Sequence[str], variables: Mapping[str, str], setting: Setting
    ) -> WarmProcess | None:
        """A server for a command, started where there is none; None where it cannot be had."""
        with self.lock:
            name = tuple(command)
            if name not in self.kept:
                try:
                    self.kept[name] = WarmProcess(command, variables, setting)
                except OSError:
                    self.kept[name] = None
            self.kept.move_to_end(name)
            while len(self.kept) > MAX_SERVERS:
                _, oldest = self.kept.popitem(last=False)
                if oldest is not None:
                    oldest.close()
            return self.kept[name]

    def forget(self, server: WarmProcess) -> None:
        """Have the next task start another server."""
        with self.lock:
            for name in [name for name, kept in self.kept.items() if kept is server]:
                del self.kept[name]
        server.close()

    def close(self) -> None:
        """End all servers."""
        with self.lock:
            for server in filter(None, self.kept.values()):
                server.process.kill()
                server.process.wait()
                server.control.close()
            self.kept.clear()


SERVERS: Final = _Servers()

atexit.register(SERVERS.close)
