"""Start several processes, and end them whatever happens in between.

They are forked from a server that has imported JAX and has started none of it, which takes a tenth
of a second where a new Python takes one.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from autograder.errors import Fault
from autograder.processes.standing_still import Stillness
from autograder.processes.worker import LOOPBACK, Job, Place

PRELOADED: Final = [
    "autograder.processes.forkserver",
    "autograder.processes.worker",
    "jax.experimental.multihost_utils",
]
"""What the server has imported, so that no worker need: none of it starts JAX."""


@dataclass
class Outcome:
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
    outcome: Outcome | None = None
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
