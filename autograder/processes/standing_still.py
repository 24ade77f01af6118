"""Find processes that wait for each other, and the line in which each does."""

import contextlib
import linecache
import re
import signal
import time
from pathlib import Path
from typing import Final

import psutil

IDLE_SECONDS: Final = 5.0
"""After so many seconds without work a process is said to stand still."""

BUSY_CPU_SECONDS: Final = 0.02
"""The seconds of a processor, in that time, with which a process does nothing: the threads that
tell the others that it lives need less."""

LONGEST_LOOK: Final = 0.5
"""The seconds that may pass between two looks: if more do, the whole machine stood still."""

FRAME: Final = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in ')


class Stillness:
    """Since when a process has stood still, and how many seconds of a processor it `had`.

    One that has work, and waits for a processor, does not look so: it is given some of one in time.
    """

    def __init__(self, pid: int) -> None:
        self._process: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self._process = psutil.Process(pid)
        self.had, self._still, self._looked = 0.0, 0.0, time.monotonic()

    def look(self) -> bool:
        """Whether it has stood still for as long as matters."""
        had = 0.0
        if self._process is not None:
            with contextlib.suppress(psutil.Error):
                times = self._process.cpu_times()
                had = times.user + times.system
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LONGEST_LOOK), now
        self._still += passed
        if had > self.had + BUSY_CPU_SECONDS:
            self.had, self._still = had, 0.0
        return self._still > IDLE_SECONDS


def where_it_stands(pid: int, file: Path, written_in: str) -> str:
    """The line of the learner's in which a process stands, such as "line 3 of the cell: `x[0]`".

    Args:
        pid: the process.
        file: where it writes, when it gets the signal, which lines its threads are in.
        written_in: what Python calls the cell that the learner's function was written in.

    Returns:
        Nothing, where it is in none of the learner's lines, or does not answer.
    """
    with contextlib.suppress(OSError):
        psutil.Process(pid).send_signal(signal.SIGUSR1)
    for _ in range(20):
        for line in _lines(file):
            found = FRAME.match(line)
            if found and found["file"] == written_in:
                text = linecache.getline(written_in, int(found["line"])).strip()
                return f"line {found['line']} of the cell" + f": `{text}`" * bool(text)
        time.sleep(0.05)
    return ""


def _lines(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text(errors="replace").splitlines()
    return []
