"""How long processes have had: the clock, but for the time that the machine kept them waiting.

Where a machine has much else to do, the clock says nothing of what a notebook takes. Who sleeps or
waits for itself uses its own time; who would run and is not let does not.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

LONGEST: Final = 1.0
"""The most seconds that are counted at once: who looks more rarely has been kept waiting itself."""

WANTS_TO_RUN: Final = "RD"
"""The states, as Linux writes them, of a thread that would run if it was let."""


class OwnTime:
    """The time that some processes have had, as it is known to whoever looks often enough.

    Attributes:
        seconds: that time.
    """

    def __init__(self) -> None:
        self.seconds, self._looked, self._ran = 0.0, time.monotonic(), 0.0

    def look(self, family: Sequence[psutil.Process]) -> None:
        """Count the time since the last look."""
        now, ran = time.monotonic(), sum(map(_ran, family))
        passed, had = min(now - self._looked, LONGEST), max(ran - self._ran, 0.0)
        if had < passed and any(map(_wants_to_run, family)):
            passed = had
        self.seconds += passed
        self._looked, self._ran = now, ran


def _ran(process: psutil.Process) -> float:
    """The processor time of a process, and of those of its children that have ended."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _wants_to_run(process: psutil.Process) -> bool:
    """Whether a thread of a process would run if it was let; false where the system says nothing.

    Of a process, its first thread alone has a state, and the others may be at work.
    """
    for task in Path(f"/proc/{process.pid}/task").glob("*/stat"):
        try:
            state = task.read_text(errors="replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):  # it has ended meanwhile
            continue
        if state in WANTS_TO_RUN:
            return True
    return False
