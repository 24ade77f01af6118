"""Watch limits that no system call enforces, and kill a kernel that exceeds one.

A notebook's time is its running time, which excludes time spent waiting for a CPU
(`processes/running_time.py`), because on a busy machine clock time says little about it.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

import psutil

from autograder.instructor.sandbox.sandbox import Sandbox
from autograder.processes import RunningTime

LOOK_SECONDS: Final = 0.25
"""The time between two checks, and so the longest that a limit may be exceeded."""

CLOCK_FACTOR: Final = 10
"""The limit of a notebook's time by the clock, in multiples of its limit in running time."""


class WatchedProcess(Protocol):
    """A process that can be watched."""

    @property
    def pid(self) -> int:
        """The process's number."""

    @property
    def passed_limit(self) -> str:
        """The limit for which its supervisor ended it, in words; empty if it did not."""

    def poll(self) -> object:
        """Return None while the process runs."""

    def kill(self) -> None:
        """Kill the process and all processes that it started."""


class ProcessFamily(subprocess.Popen[bytes]):
    """A process in a new session, which is killed together with all processes that it started."""

    passed_limit = ""

    def __init__(self, command: Sequence[str], **others: Any) -> None:
        super().__init__(command, start_new_session=True, **others)

    def kill(self) -> None:
        """Kill whole process groups, so that none of them can start another process meanwhile.

        Once this process was waited for, its number may be that of somebody else's process.
        """
        for process in find_family(self.pid) if self.returncode is None else []:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if process.is_running():
                    os.killpg(os.getpgid(process.pid), signal.SIGKILL)
        super().kill()


class LimitWatch(threading.Thread):
    """Kills a process and all that it started when together they exceed a limit.

    It is a separate thread, because the thread that reads a kernel's messages could be kept busy by
    a kernel that never stops sending them.

    Attributes:
        reason: the limit that was exceeded, in words; empty if none was.
        running: the running time of the processes, excluding time spent waiting for a CPU.
        is_machines_fault: whether the processes were ended although they exceeded no limit: the
            machine did not let them run, or the watch itself failed.
    """

    def __init__(self, process: WatchedProcess, limits: Sandbox) -> None:
        super().__init__(daemon=True)
        self.process, self.limits = process, limits
        self.started, self.reason = time.monotonic(), ""
        self.running, self.is_machines_fault = RunningTime(), False
        self._stopped = threading.Event()

    def run(self) -> None:
        """Check the limits until the process ends or `stop` is called."""
        while not self._stopped.is_set() and self.process.poll() is None:
            try:
                self.reason = self._exceeded_limit()
            except Exception as error:  # what cannot be watched must not run
                self.reason = f"it could not be watched: {type(error).__name__}"
                self.is_machines_fault = True
            if self.reason:
                self.process.kill()
                return
            self._stopped.wait(LOOK_SECONDS)
        if self.process.poll() is not None:
            self.reason = self.process.passed_limit

    def stop(self) -> None:
        """Stop checking, and wait for the thread to end."""
        self._stopped.set()
        if self.is_alive():  # not if the machine had no thread for it
            self.join()

    def _exceeded_limit(self) -> str:
        """Return the limit that the processes exceed, as a sentence; empty if they exceed none."""
        limits, family = self.limits, find_family(self.process.pid)
        # counted first, because reading their times takes longer the more there are
        if len(family) > limits.processes:
            return f"it started more than {limits.processes} processes"
        if sum(map(_count_threads, family)) > limits.threads:
            return f"it started more than {limits.threads} threads"
        self.running.update(family)
        if self.running.seconds > limits.seconds:
            return f"the notebook took more than {limits.seconds} seconds"
        if time.monotonic() - self.started > CLOCK_FACTOR * limits.seconds:
            self.is_machines_fault = True
            share = f"{self.running.seconds:.0f} seconds in {CLOCK_FACTOR * limits.seconds}"
            return f"the machine let the notebook have {share}"
        if sum(map(_measure_memory, family)) > limits.memory:
            return f"it held more than {limits.memory / 2**30:g} GiB of memory"
        return ""


def find_family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; nothing if it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:  # it has ended meanwhile
        return []


def _count_threads(process: psutil.Process) -> int:
    """Return the number of threads of a process; 0 if it has ended."""
    try:
        return int(process.num_threads())
    except psutil.Error:
        return 0


def _measure_memory(process: psutil.Process) -> int:
    """Return the bytes of memory that a process shares with no other process and no file.

    Shared memory need not be counted: it consists of files on the sandbox's own disks, whose size
    is limited. The filter of system calls refuses all other kinds (`sandbox/call_filter.py`).
    """
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    return int(memory.rss - getattr(memory, "shared", 0))
