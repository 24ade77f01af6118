"""Warm processes: servers that import everything once, and fork for each task.

The first task of a kind starts a server in the sandbox (`sandboxed/fork_server.py`). If the system
allows no nested namespaces, or cannot filter system calls, there is no server, and each task starts
a new process.
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

from autograder.sandboxed import (
    MAX_MESSAGE_BYTES,
    MAX_STARTED_PROCESSES,
    TaskEnd,
    TaskRequest,
    TaskSettings,
)

MAX_SERVERS: Final = max(4, 2 * (os.cpu_count() or 1))
"""The most servers to keep; grading a notebook uses two, one for kernels and one for judges."""

START_SECONDS: Final = 120
"""The time limit for a server to import everything and enter a sandbox, on a busy machine."""

TASK_START_SECONDS: Final = 20
"""The time limit for a server to start a task; forking takes 40 ms on an idle machine."""

END_SECONDS: Final = 1
"""The time limit for a server without tasks to end by itself."""

RETRY_SECONDS: Final = 30
"""The pause before a server that failed to start is started again."""

MAX_SEND_TRIES, SEND_PAUSE_SECONDS = 20, 0.1
"""The number of attempts at sending open files, and the pause between two of them."""

MAX_OPEN_FILES: Final = 2**16
"""The most files that this process may have open. By the same limit Linux bounds how many open
files of a user may be in transit to other processes, and submissions can send files as well.
"""

MAX_OUTPUT_BYTES: Final = 2**26
"""The most bytes that are read of a task's output."""

CREDENTIALS_BYTES: Final = socket.CMSG_SPACE(12) if hasattr(socket, "CMSG_SPACE") else 0
"""The buffer for the sender's process, user and group numbers, which Linux adds to a message."""


class FinishedTask(msgspec.Struct, frozen=True):
    """A finished task.

    Attributes:
        status: its exit status; minus the signal's number if a signal ended it.
        stdout: its output.
        stderr: its error output.
        cpu_seconds: the CPU time that it used.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cpu_seconds: float


class WarmProcess:
    """A server in the sandbox, which forks for each task.

    Args:
        command: the command that starts the server; its standard input is the control socket.
        variables: the server's environment.
        setting: the settings of every task's sandbox.

    Raises:
        OSError: the server could not be started, or cannot enter a sandbox for a task.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], setting: TaskSettings
    ) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._task_start_seconds = START_SECONDS  # for the first task, which waits for the imports
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
        self._task_start_seconds = TASK_START_SECONDS

    def start(
        self, arguments: Sequence[str], files: Sequence[int], cache: str = ""
    ) -> "ForkedTask":
        """Start a task; a server that does not start it in time hangs, and is killed.

        Args:
            arguments: the task's arguments.
            files: its standard input, output and error output.
            cache: its compilation cache, a folder in `CACHES_MOUNT`.

        Raises:
            OSError: the server hung or has ended, or cannot enter a sandbox.
        """
        self.control.settimeout(self._task_start_seconds)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            with theirs:
                request = msgspec.json.encode(TaskRequest([*arguments], cache))
                _send_files(self.control, request, [theirs.fileno(), *files])
            return ForkedTask(ours, self._task_start_seconds)
        except BaseException as error:
            ours.close()
            if isinstance(error, TimeoutError):
                self.process.kill()
            raise

    def run(
        self, arguments: Sequence[str], input: bytes, timeout: float, cache: str = ""
    ) -> FinishedTask:
        """Run a task to its end.

        Args:
            arguments: the task's arguments.
            input: its standard input.
            timeout: how long to wait until it ends, in seconds; then it is killed.
            cache: its compilation cache, a folder in `CACHES_MOUNT`.

        Raises:
            TimeoutExpired: it did not end in time.
            OSError: the server hung or has ended, or the task's supervisor has ended.
        """
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            stdin.write(input)
            stdin.seek(0)
            deadline = time.monotonic() + timeout
            files = [file.fileno() for file in (stdin, stdout, stderr)]
            with contextlib.closing(self.start(arguments, files, cache)) as task:
                ended = task.wait(deadline - time.monotonic())
            return FinishedTask(ended.status, _read(stdout), _read(stderr), ended.cpu_seconds)

    def close(self) -> None:
        """Let the server end as soon as its last task has ended."""
        self.control.close()
        threading.Thread(target=self.process.wait, daemon=True).start()


class ForkedTask:
    """A running task of a warm server, with all processes that it starts.

    Args:
        supervisor: the socket on which the task's supervisor reports its start and its end.
        timeout: how long to wait until it has started, in seconds.

    Attributes:
        pid: the number of the supervisor, the first process of the task's PID namespace.

    Raises:
        OSError: it did not start, or not in time.
    """

    def __init__(self, supervisor: socket.socket, timeout: float) -> None:
        self._supervisor = supervisor
        supervisor.settimeout(timeout)
        message, credentials, _, _ = supervisor.recvmsg(MAX_MESSAGE_BYTES, CREDENTIALS_BYTES)
        if not message:
            raise OSError("the process that forks for each task has ended")
        self.pid: int = struct.unpack("3i", credentials[0][2])[0]
        self._process: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._process = os.pidfd_open(self.pid)

    def poll(self) -> bool | None:
        """Return True if all processes of the task have ended, and None if not."""
        if self._process is None:
            return True
        poller = select.poll()
        poller.register(self._process, select.POLLIN)
        return True if poller.poll(0) else None

    @property
    def passed_limit(self) -> str:
        """The limit for which its supervisor ended it, in words; empty if it did not."""
        try:
            ended = self.wait(0)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        description = (
            f"it started more than {MAX_STARTED_PROCESSES:,} processes and threads, one after "
            f"another"
        )
        return description if ended.has_started_too_many else ""

    def wait(self, timeout: float) -> TaskEnd:
        """Wait for the task to end.

        Raises:
            TimeoutExpired: it did not end in time.
            OSError: the supervisor has ended without reporting the task's end.
        """
        self._supervisor.settimeout(max(timeout, 0.001))
        try:
            message = self._supervisor.recv(MAX_MESSAGE_BYTES)
        except TimeoutError:
            raise subprocess.TimeoutExpired("a task", timeout) from None
        if not message:
            raise OSError("the process that forks for each task has ended")
        return msgspec.json.decode(message, type=TaskEnd)

    def kill(self) -> None:
        """Kill all processes of the task."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def close(self) -> None:
        """Release the task; if it is still running, its supervisor kills it."""
        self._supervisor.close()
        if self._process is not None:
            os.close(self._process)


def _send_files(control: socket.socket, request: bytes, files: Sequence[int]) -> None:
    """Send a request with open files, and retry if too many files are in transit.

    Linux counts those of all processes of a user, including submissions.
    """
    for _ in range(MAX_SEND_TRIES):
        try:
            socket.send_fds(control, [request], files)
            return
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            time.sleep(SEND_PAUSE_SECONDS)
    raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))


def _raise_open_file_limit() -> None:
    """Raise the limit of open files as far as allowed, up to `MAX_OPEN_FILES`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES)


class _Servers:
    """The servers that this process has started, ordered by when they were last used."""

    def __init__(self) -> None:
        self.lock, self.servers = threading.Lock(), OrderedDict[tuple[str, ...], WarmProcess]()
        self.failed = dict[tuple[str, ...], float]()

    def get(
        self, command: Sequence[str], variables: Mapping[str, str], setting: TaskSettings
    ) -> WarmProcess | None:
        """Return the server for a command, starting it if need be; None if it cannot start."""
        with self.lock:
            key, now = tuple(command), time.monotonic()
            if key not in self.servers:
                if now < self.failed.get(key, -math.inf) + RETRY_SECONDS:
                    return None
                _raise_open_file_limit()
                try:
                    self.servers[key] = WarmProcess(command, variables, setting)
                except OSError:
                    self.failed[key] = time.monotonic()
                    return None
            self.servers.move_to_end(key)
            while len(self.servers) > MAX_SERVERS:
                _, oldest = self.servers.popitem(last=False)
                oldest.close()
            return self.servers[key]

    def forget(self, server: WarmProcess) -> None:
        """Drop a server, so that the next task starts another one."""
        with self.lock:
            for key in [key for key, other in self.servers.items() if other is server]:
                del self.servers[key]
        server.close()

    def close(self) -> None:
        """End all servers, including those with running tasks."""
        with self.lock:
            running = list(self.servers.values())
            for server in running:
                server.control.close()
            for server in running:
                try:
                    server.process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    server.process.kill()
                    server.process.wait()
            self.servers.clear()
            self.failed.clear()


SERVERS: Final = _Servers()

atexit.register(SERVERS.close)
