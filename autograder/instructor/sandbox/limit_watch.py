"""Watch limits that no system call enforces, and kill a kernel that exceeds one.

Running time excludes time spent waiting for a CPU: on a busy machine the clock says little about a
notebook. Linux counts for each thread how long it was ready to run and had to wait; that is
subtracted. Sleeping, or waiting for something that never comes, counts. On other systems nothing is
subtracted.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import psutil

from autograder.instructor.sandbox.sandbox import Sandbox

LONGEST_STEP_SECONDS: Final = 1.0
"""The most that one look adds: who looks more rarely than this was itself kept waiting."""


class RunningTime:
    """The running time of a family of processes, for a caller that looks several times a second.

    Attributes:
        seconds: the running time so far.
    """

    def __init__(self) -> None:
        self.seconds, self._looked = 0.0, time.monotonic()
        self._used, self._waits = 0.0, dict[str, int]()

    def look(self, family: Sequence[psutil.Process]) -> None:
        """Add the time since the last look.

        The family is said to have waited as long as the thread that waited longest. If its threads
        kept each other waiting, they used at least as much processor time as the clock showed, so
        that is the least that is added.
        """
        now, used = time.monotonic(), sum(map(_processor_seconds, family))
        waits = dict(wait for process in family for wait in _waits(process))
        waited = max((ns - self._waits.get(thread, 0) for thread, ns in waits.items()), default=0)
        passed = min(now - self._looked, LONGEST_STEP_SECONDS)
        at_least = min(max(used - self._used, 0.0), passed)
        self.seconds += max(passed - waited / 1e9, at_least)
        self._looked, self._used, self._waits = now, used, waits


def _processor_seconds(process: psutil.Process) -> float:
    """The processor time of a process, and of those of its children that have ended."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _waits(process: psutil.Process) -> Iterator[tuple[str, int]]:
    """For each thread, the nanoseconds that it could have run and was not let."""
    threads = f"/proc/{process.pid}/task"
    with contextlib.suppress(OSError):  # the process has ended, or this is not Linux
        for thread in os.listdir(threads):
            with (
                contextlib.suppress(OSError, IndexError),
                open(f"{threads}/{thread}/schedstat") as file,
            ):
                yield f"{process.pid}/{thread}", int(file.read().split()[1])


LOOK_SECONDS: Final = 0.25
"""How often limits are checked, and so how long one may be exceeded."""

CLOCK_FACTOR: Final = 10
"""How many times its running time a notebook may take by the clock."""


class Process(Protocol):
    """A process that can be watched."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def passed_limit(self) -> str:
        """The limit for which it was ended from within, in words; empty where it was not."""

    def poll(self) -> object:
        """None for as long as it has not ended."""

    def kill(self) -> None:
        """Kill it, with all that it has started."""


class ProcessFamily(subprocess.Popen[bytes]):
    """A process in a session of its own, which is killed with all that it has started."""

    passed_limit = ""

    def __init__(self, command: Sequence[str], **others: Any) -> None:
        super().__init__(command, start_new_session=True, **others)

    def kill(self) -> None:
        """Kill their process groups, so that none of them can start another one meanwhile."""
        for process in family_of(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(process.pid), signal.SIGKILL)
        super().kill()


class Watch(threading.Thread):
    """Kills a process, and all that it started, as soon as together they pass a limit.

    It is a thread of its own, since whoever starts a kernel waits for its words, and a kernel that
    never stops talking would keep it from looking.

    Attributes:
        ended: the limit that was passed, in words; empty where none was.
        running: how long the processes have run, without the time that they waited for a CPU.
        is_machines_fault: whether it was ended for something that the processes did not do: the
            machine did not let them run, or the watch itself failed.
    """

    def __init__(self, process: Process, limits: Sandbox) -> None:
        super().__init__(daemon=True)
        self.process, self.limits = process, limits
        self.started, self.ended = time.monotonic(), ""
        self.running, self.is_machines_fault = RunningTime(), False
        self._stopped = threading.Event()

    def run(self) -> None:
        """Look until the process has ended, or nobody asks for more."""
        while not self._stopped.is_set() and self.process.poll() is None:
            try:
                self.ended = self._too_much()
            except Exception as error:  # what cannot be watched must not run
                self.ended = f"it could not be watched: {type(error).__name__}"
                self.is_machines_fault = True
            if self.ended:
                self.process.kill()
                return
            self._stopped.wait(LOOK_SECONDS)
        if self.process.poll() is not None:
            self.ended = self.process.passed_limit

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self.join()

    def _too_much(self) -> str:
        """What they take too much of, in a sentence."""
        limits, family = self.limits, family_of(self.process.pid)
        # counted first, because the more there are, the longer it takes to look at their times
        if len(family) > limits.processes:
            return f"it started more than {limits.processes} processes"
        if sum(map(_threads, family)) > limits.threads:
            return f"it started more than {limits.threads} threads"
        self.running.look(family)
        if self.running.seconds > limits.seconds:
            return f"the notebook took more than {limits.seconds} seconds"
        if time.monotonic() - self.started > CLOCK_FACTOR * limits.seconds:
            self.is_machines_fault = True
            had = f"{self.running.seconds:.0f} seconds in {CLOCK_FACTOR * limits.seconds}"
            return f"the machine let the notebook have {had}"
        if sum(map(_memory, family)) > limits.memory:
            return f"it held more than {limits.memory / 2**30:g} GiB of memory"
        return ""


def family_of(pid: int) -> list[psutil.Process]:
    """A process, and all that it has started; nothing where it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:  # it has ended meanwhile
        return []


def _threads(process: psutil.Process) -> int:
    """The threads of a process; none where it has ended."""
    try:
        return int(process.num_threads())
    except psutil.Error:
        return 0


def _memory(process: psutil.Process) -> int:
    """The bytes of memory that a process shares with no other, and with no file.

    Shared memory is files on the sandbox's own disks, whose size is limited. The filter of system
    calls refuses all other kinds (`sandbox/call_filter.py`).
    """
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    return int(memory.rss - getattr(memory, "shared", 0))
