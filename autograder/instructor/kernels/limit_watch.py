"""Limits that no system call keeps: somebody has to look, and to kill."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import psutil

from autograder.instructor.kernels.own_time import OwnTime
from autograder.instructor.walls import Sandbox

EVERY: Final = 0.25
"""How often it is looked, in seconds: so long may a limit be passed."""

PATIENCE: Final = 10
"""How many times as long a notebook is let run by the clock as it may have for itself."""

MOST_SOCKETS: Final = 8
"""How much there may be in the folder that a kernel shares: its connection file and its sockets."""


class Watch(threading.Thread):
    """Kills a process, and all that it started, as soon as together they pass a limit.

    It is a thread of its own, since what starts a kernel waits for its words, and a kernel that
    never stops talking would keep it from looking.

    Attributes:
        ended: the limit that was passed, in words; empty where none was.
        own: the time that the processes have had, while the machine let them.
        starved: whether it was ended because the machine did not let them have theirs.
    """

    def __init__(self, process: "subprocess.Popen[Any]", limits: Sandbox, shared: Path) -> None:
        super().__init__(daemon=True)
        self.process, self.limits, self.shared = process, limits, shared
        self.started, self.ended = time.monotonic(), ""
        self.own, self.starved = OwnTime(), False
        self.shmem, self.heard = _shmem(), _held(psutil.Process())

    def run(self) -> None:
        """Look until the process has ended."""
        while self.process.poll() is None:
            try:
                self.ended = self._too_much()
            except Exception as error:  # who cannot be watched is not to run
                self.ended = f"it could not be watched: {type(error).__name__}"
            if self.ended:
                self._kill()
                return
            time.sleep(EVERY)

    def _kill(self) -> None:
        if sys.platform == "win32":
            self.process.kill()
            return
        with contextlib.suppress(ProcessLookupError):  # it went by itself
            os.killpg(self.process.pid, signal.SIGKILL)  # Jupyter starts a kernel as a group's head

    def _too_much(self) -> str:
        """What they take too much of, in a sentence."""
        limits, family = self.limits, _family(self.process.pid)
        self.own.look(family)
        if self.own.seconds > limits.seconds:
            return f"the notebook took more than {limits.seconds} seconds"
        self.starved = time.monotonic() - self.started > PATIENCE * limits.seconds
        if self.starved:
            had = f"{self.own.seconds:.0f} seconds in {PATIENCE * limits.seconds}"
            return f"the machine let the notebook have {had}"
        if len(family) > limits.processes:
            return f"it started more than {limits.processes} processes"
        if sum(map(_held, family)) + _shmem() - self.shmem > limits.memory:
            return f"it held more than {limits.memory / 2**30:g} GiB of memory"
        if _held(psutil.Process()) - self.heard > limits.heard:
            return f"to hear it out took more than {limits.heard / 2**30:g} GiB of memory"
        if _crowded(self.shared):
            return "it wrote into the folder that is for its sockets alone"
        return ""


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:  # it has ended meanwhile
        return []


def _held(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _shmem() -> int:
    """The bytes of memory that are files of nobody's: on a tmpfs, or shared segments.

    They may be held by no process at all, so it is the whole machine's that are counted.
    """
    return int(getattr(psutil.virtual_memory(), "shared", 0))


def _crowded(folder: Path) -> bool:
    """Whether there is more in a folder than a kernel needs there, or anything of another kind."""
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries, 1):
                file = entry.is_file(follow_symlinks=False) and entry.name != "kernel.json"
                if number > MOST_SOCKETS or file or entry.is_symlink() or entry.is_dir():
                    return True
    except FileNotFoundError:  # it is over, and the folder gone
        return False
    except OSError:  # nobody may look into it any more
        return True
    return False
