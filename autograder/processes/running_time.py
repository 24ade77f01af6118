"""Measure how long processes ran, and how long they slept, without waiting for a CPU.

Linux counts for each thread how long it was ready to run and had to wait, and that is subtracted.
Sleeping, or waiting for something that never comes, counts. On other systems nothing is subtracted.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

import psutil

LONGEST_STEP_SECONDS: Final = 1.0
"""The most that one update adds: if updates come more rarely, this process was kept waiting too."""

ASLEEP: Final = ("S", "I")
"""The states in `/proc` of a thread that sleeps until something comes."""


IDLE_SECONDS: Final = 5.0
"""Time without work after which a process counts as waiting for ever."""

BUSY_CPU_SECONDS: Final = 0.02
"""CPU time, within `IDLE_SECONDS`, that counts as work; JAX's heartbeat threads need less."""

MEASURE_SECONDS: Final = 0.25
"""The time between two measurements of a process; each reads two files for every thread."""


class RunningTime:
    """The running time of a family of processes; its caller updates it several times a second.

    Attributes:
        seconds: the running time so far.
    """

    def __init__(self) -> None:
        self.seconds, self._updated = 0.0, time.monotonic()
        self._cpu_seconds, self._wait_ns = 0.0, dict[str, int]()

    def update(self, family: Sequence[psutil.Process]) -> None:
        """Add the running time since the last update.

        It is the time by the clock, minus the longest time that any thread waited for a CPU. If the
        family's threads kept each other waiting, that is too little, so at least the CPU time
        that they used is added, up to the time by the clock.
        """
        now, cpu_seconds = time.monotonic(), sum(map(_cpu_seconds_of, family))
        wait_ns = dict(thread_wait for process in family for thread_wait in _read_waits(process))
        waited = max(
            (ns - self._wait_ns.get(thread, 0) for thread, ns in wait_ns.items()), default=0
        )
        elapsed = min(now - self._updated, LONGEST_STEP_SECONDS)
        at_least = min(max(cpu_seconds - self._cpu_seconds, 0.0), elapsed)
        self.seconds += max(elapsed - waited / 1e9, at_least)
        self._updated, self._cpu_seconds, self._wait_ns = now, cpu_seconds, wait_ns


def _cpu_seconds_of(process: psutil.Process) -> float:
    """Return the CPU time of a process and of its ended children."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _read_waits(process: psutil.Process) -> Iterator[tuple[str, int]]:
    """Yield each thread of a process with the nanoseconds that it waited for a CPU."""
    threads = f"/proc/{process.pid}/task"
    with contextlib.suppress(OSError):  # the process has ended, or this is not Linux
        for thread in os.listdir(threads):
            with (
                contextlib.suppress(OSError, IndexError),
                open(f"{threads}/{thread}/schedstat") as file,
            ):
                yield f"{process.pid}/{thread}", int(file.read().split()[1])


def is_asleep(process: psutil.Process) -> bool:
    """Check whether all threads of a process sleep; True where the system does not say.

    A thread that waits for a CPU does not sleep. Linux counts its wait only once it has a CPU.
    """
    threads = f"/proc/{process.pid}/task"
    with contextlib.suppress(OSError):  # the process has ended, or this is not Linux
        for thread in os.listdir(threads):
            with contextlib.suppress(OSError), open(f"{threads}/{thread}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]  # after the name, in parentheses
                if state not in ASLEEP:
                    return False
    return True


class IdleTimer:
    """Measures how long a process has slept, without the time that it waited for a CPU.

    Attributes:
        cpu_seconds: the CPU time that the process has used.
    """

    def __init__(self, pid: int) -> None:
        self._process: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self._process = psutil.Process(pid)
        self.cpu_seconds, self._idle_seconds, self._running = 0.0, 0.0, RunningTime()
        self._measured_at = time.monotonic()

    def poll(self) -> bool:
        """Measure again, and return whether the process has been idle for `IDLE_SECONDS`."""
        if self._process is None or time.monotonic() < self._measured_at + MEASURE_SECONDS:
            return self._idle_seconds > IDLE_SECONDS
        self._measured_at, cpu_seconds = time.monotonic(), 0.0
        with contextlib.suppress(psutil.Error):
            times = self._process.cpu_times()
            cpu_seconds = times.user + times.system
        seconds_before = self._running.seconds
        self._running.update([self._process])
        if cpu_seconds > self.cpu_seconds + BUSY_CPU_SECONDS:
            self.cpu_seconds, self._idle_seconds = cpu_seconds, 0.0
        elif is_asleep(self._process):
            self._idle_seconds += self._running.seconds - seconds_before
        return self._idle_seconds > IDLE_SECONDS
