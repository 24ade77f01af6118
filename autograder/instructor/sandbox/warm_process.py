"""Warm processes: import everything once, and fork for each task.

The first task of a kind starts a server in the sandbox (`sandboxed/fork_server.py`). Where the
system allows no nested namespaces, or has no filter of system calls, there is no server, and each
task starts its own process.
"""

import atexit
import contextlib
import errno
import math
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import IO, Final

import msgspec

from autograder.sandboxed import MAX_MESSAGE_BYTES, MAX_STARTED, Ended, Setting

MAX_SERVERS: Final = max(4, 2 * (os.cpu_count() or 1))
"""The most servers that are kept: a notebook that is being graded has two, for kernel and judge."""

START_SECONDS: Final = 120
"""Time for a server to import everything and enter a sandbox, on a busy machine."""

END_SECONDS: Final = 1
"""Time for a server without tasks to end by itself."""

RETRY_SECONDS: Final = 30
"""Time until a server is tried again that could not be started."""

TRIES, PAUSE_SECONDS = 20, 0.1
"""How often it is tried to send open files, and how long to wait in between."""

MAX_OPEN_FILES: Final = 2**16
"""The most files that this process may have open. Linux counts by it, too, how many of a user's
open files may be on their way to another process, and strangers may send as many as they may open.
"""

MAX_OUTPUT_BYTES: Final = 2**26
"""The most that is read of a task's output."""

CREDENTIALS_BYTES: Final = socket.CMSG_SPACE(12) if hasattr(socket, "CMSG_SPACE") else 0
"""Room for the number of a process, of its user and of its group, which Linux sends along."""


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

    def start(self, arguments: Sequence[str], files: Sequence[int], timeout: float) -> "Forked":
        """Start a task.

        Args:
            arguments: of the task.
            files: its standard input, output and error output.
            timeout: how long to wait for it to start, in seconds.

        Raises:
            TimeoutExpired: it did not start in time.
            OSError: the server has ended, or cannot enter a sandbox.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            with theirs:
                request = msgspec.json.encode(arguments)
                _send_files(self.control, request, [theirs.fileno(), *files])
            return Forked(ours, timeout)
        except BaseException:
            ours.close()
            raise

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
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            stdin.write(input)
            stdin.seek(0)
            until = time.monotonic() + timeout
            files = [each.fileno() for each in (stdin, stdout, stderr)]
            with contextlib.closing(self.start(arguments, files, timeout)) as task:
                ended = task.wait(until - time.monotonic())
            return Finished(ended.status, _read(stdout), _read(stderr), ended.cpu_seconds)

    def close(self) -> None:
        """Let the server end, as soon as its last task has."""
        self.control.close()
        threading.Thread(target=self.process.wait, daemon=True).start()


class Forked:
    """A task that a server has forked for, with all processes that it starts.

    Args:
        supervisor: on this socket the task's supervisor says that it started, and how it ended.
        timeout: how long to wait until it has started, in seconds.

    Attributes:
        pid: the supervisor's process, the first one of the task's PID namespace.

    Raises:
        TimeoutExpired: it did not start in time.
        OSError: it did not start.
    """

    def __init__(self, supervisor: socket.socket, timeout: float) -> None:
        self._supervisor = supervisor
        supervisor.settimeout(max(timeout, 0.001))
        try:
            said, credentials, _, _ = supervisor.recvmsg(MAX_MESSAGE_BYTES, CREDENTIALS_BYTES)
        except TimeoutError:
            raise subprocess.TimeoutExpired("a task", timeout) from None
        if not said:
            raise OSError("the process that forks for each task has ended")
        self.pid: int = struct.unpack("3i", credentials[0][2])[0]
        self._process: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._process = os.pidfd_open(self.pid)

    def poll(self) -> bool | None:
        """Whether all processes of the task have ended; None where they have not."""
        if self._process is None:
            return True
        ends = select.poll()
        ends.register(self._process, select.POLLIN)
        return True if ends.poll(0) else None

    @property
    def passed_limit(self) -> str:
        """The limit for which its supervisor has ended it, in words; empty where it has not."""
        try:
            ended = self.wait(0)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        most = f"it started more than {MAX_STARTED:,} processes and threads, one after another"
        return most if ended.started_too_many else ""

    def wait(self, timeout: float) -> Ended:
        """Wait for the task to end.

        Raises:
            TimeoutExpired: it did not end in time.
            OSError: nobody says how it ended.
        """
        self._supervisor.settimeout(max(timeout, 0.001))
        try:
            said = self._supervisor.recv(MAX_MESSAGE_BYTES)
        except TimeoutError:
            raise subprocess.TimeoutExpired("a task", timeout) from None
        if not said:
            raise OSError("the process that forks for each task has ended")
        return msgspec.json.decode(said, type=Ended)

    def kill(self) -> None:
        """Kill all processes of the task."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def close(self) -> None:
        """Forget the task; if it has not ended, its supervisor ends it."""
        self._supervisor.close()
        if self._process is not None:
            os.close(self._process)


def _send_files(control: socket.socket, request: bytes, files: Sequence[int]) -> None:
    """Send a request with open files.

    Linux counts the files of a user that are on their way, and strangers' count too, so there may
    be too many for a moment.
    """
    for _ in range(TRIES):
        try:
            socket.send_fds(control, [request], files)
            return
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            time.sleep(PAUSE_SECONDS)
    raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))


def _raise_open_files() -> None:
    """Let this process open as many files as it may, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES)


class _Servers:
    """The servers of this process, the one that was used last at the end."""

    def __init__(self) -> None:
        self.lock, self.kept = threading.Lock(), OrderedDict[tuple[str, ...], WarmProcess]()
        self.failed = dict[tuple[str, ...], float]()

    def get(
        self, command: Sequence[str], variables: Mapping[str, str], setting: Setting
    ) -> WarmProcess | None:
        """A server for a command, started where there is none; None where it cannot be had."""
        with self.lock:
            name, now = tuple(command), time.monotonic()
            if name not in self.kept:
                if now < self.failed.get(name, -math.inf) + RETRY_SECONDS:
                    return None
                _raise_open_files()
                try:
                    self.kept[name] = WarmProcess(command, variables, setting)
                except OSError:
                    self.failed[name] = time.monotonic()
                    return None
            self.kept.move_to_end(name)
            while len(self.kept) > MAX_SERVERS:
                _, oldest = self.kept.popitem(last=False)
                oldest.close()
            return self.kept[name]

    def forget(self, server: WarmProcess) -> None:
        """Have the next task start another server."""
        with self.lock:
            for name in [name for name, kept in self.kept.items() if kept is server]:
                del self.kept[name]
        server.close()

    def close(self) -> None:
        """End all servers, also those that are at work."""
        with self.lock:
            servers = list(self.kept.values())
            for server in servers:
                server.control.close()
            for server in servers:
                try:
                    server.process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    server.process.kill()
                    server.process.wait()
            self.kept.clear()
            self.failed.clear()


SERVERS: Final = _Servers()

atexit.register(SERVERS.close)
