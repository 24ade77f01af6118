"""Measure how long processes have run, without the time that they waited for a CPU.

On a busy machine the clock says little about a notebook. Linux counts for each thread how long it
could have run and was not let; that time is subtracted. Sleeping, or waiting for something that
never comes, is the notebook's own time. On other systems nothing is subtracted.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

import psutil

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
