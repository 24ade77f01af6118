"""Start several processes, and end them whatever happens in between.

They are forked from a server that has imported JAX and has started none of it, which takes a tenth
of a second where a new Python takes one.
"""

import contextlib
import linecache
import multiprocessing
import os
import re
import signal
import socket
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import psutil

from autograder.errors import Fault
from autograder.processes.worker import LOOPBACK, Job, Place

IDLE_SECONDS: Final = 5.0
"""After so many seconds without work a process is said to stand still."""

BUSY_CPU_SECONDS: Final = 0.02
"""The seconds of a processor, in that time, with which a process does nothing: the threads that
tell the others that it lives need less."""

LONGEST_LOOK: Final = 0.5
"""The seconds that may pass between two looks: if more do, the whole machine stood still."""

FRAME: Final = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in ')
PRELOADED: Final = [
    "autograder.processes.forkserver",
    "autograder.processes.worker",
    "jax.experimental.multihost_utils",
]
"""What the server has imported, so that no worker need: none of it starts JAX."""


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


@dataclass
class ProcessOutcome:
    """What became of the work of one process.

    Attributes:
        process: its number.
        came: what the function returned; `...` where nothing did.
        why: a diagnosis, where nothing came.
        said: what is to be said of that, in a sentence or two.
        printed: what the function printed.
    """

    process: int
    came: Any = ...
    why: str = ""
    said: str = ""
    printed: str = ""


class ProcessesFailedError(RuntimeError):
    """The processes failed by an error of ours, or of the machine's; the message says which.

    Attributes:
        fault: the error, where one of our own was caught in a worker.
    """

    def __init__(self, said: str, fault: Fault | None = None) -> None:
        super().__init__(said)
        self.fault = fault


@dataclass
class Worker:
    """A process and what is known of it."""

    process: BaseProcess
    messages: Connection
    place: Place
    up: bool = False
    ready: bool = False
    silent: bool = False
    outcome: ProcessOutcome | None = None
    stillness: Stillness = field(init=False)

    def __post_init__(self) -> None:
        self.stillness = Stillness(self.process.pid or 0)

    @property
    def name(self) -> str:
        return f"Process {self.place.process}"


def free_port(port: int | None) -> int:
    """A port, if it is free; any free one, where none is named.

    Raises:
        ProcessesFailedError: it is not free.
    """
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port or 0))
        except OSError as error:
            raise ProcessesFailedError(
                f"Port {port}, at which the processes are to meet, is taken by another program. "
                f"Leave it out, and a free one is found."
            ) from error
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def started(
    places: Sequence[Place], jobs: Sequence[Job], target: Callable[..., None]
) -> Iterator[list[Worker]]:
    """The workers; at the end, all of them are killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    workers: list[Worker] = []
    try:
        for place, job in zip(places, jobs, strict=True):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=target, args=(place, job, theirs), daemon=True)
            with _no_main_module():
                process.start()
            theirs.close()
            workers.append(Worker(process, ours, place))
        yield workers
    finally:
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):  # it is not the head of its group yet
                os.killpg(worker.process.pid or 0, signal.SIGKILL)
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.messages.close()
            worker.process.close()


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep `multiprocessing` from running a script's text once more in each worker.

    Nothing of it is needed there: what a job uses is sent with it.
    """
    main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
