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
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import cloudpickle
import msgspec
import psutil

from autograder.errors import Fault, ShortError, UsageError
from autograder.processes.packing import PackedFunction, pack, pack_arguments
from autograder.processes.worker import LOOPBACK, Job, Message, Place, pickle_result, work

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


START_SECONDS: Final = 20
"""Time for all processes to start."""

WORK_CPU_SECONDS: Final = 60
"""Processor time of each process, from then on."""

MAX_CLOCK_SECONDS: Final = 5 * WORK_CPU_SECONDS
"""They are ended after so many seconds by the clock, however little time the machine gave them."""

AFTER_ERROR_SECONDS: Final = 2.0
"""Time for the others to raise the same error that one has raised."""

COUNTS: Final = (1, 2, 4, 8)

MAX_MESSAGE_BYTES: Final = 1 << 28
"""How large the result of one process may be."""


@dataclass(frozen=True)
class Form:
    """How results leave their processes: as bytes, which are read in the parent."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


OBJECTS: Final = Form(pickle_result, cloudpickle.loads)
"""Any object; for a notebook alone, since unpickling runs whatever code a worker sends."""


def run(
    function: PackedFunction,
    processes: int,
    arguments: Callable[[int], bytes],
    *,
    axes: Sequence[str] = (),
    form: Form = OBJECTS,
    port: int | None = None,
    target: Callable[..., None] = work,
) -> list[ProcessOutcome]:
    """Call a function in several processes at once, each with its share of eight devices.

    Args:
        function: what is called, in each of them; a learner's.
        processes: how many: 1, 2, 4 or 8.
        arguments: for the number of a process, what makes the function's arguments there, pickled.
        axes: the names of the mesh axes that the function is to know, for messages.
        form: how results leave the processes.
        port: of the loopback interface, where process 0 coordinates them; a free one by default.
        target: what a process does; another one in tests.

    Returns:
        What became of each, in order.

    Raises:
        UsageError: there can be no such number of processes.
        ProcessesFailedError: they did not come up, or failed by an error of ours.
    """
    if type(processes) is not int or processes not in COUNTS:
        raise UsageError(
            f"Eight devices are shared out evenly to 1, 2, 4 or 8 processes; {processes!r} came."
        )
    if multiprocessing.current_process().daemon:
        raise UsageError(
            "This is one of several processes already, and cannot start more of them. Call "
            "on_processes, and check, in the notebook itself."
        )
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise UsageError(
            "Processes are started here in a way that Windows does not have. Take Linux, macOS, "
            "Windows' own Linux (WSL), or Colab."
        )
    jobs = [Job(function, arguments(i), tuple(axes), form.write) for i in range(processes)]
    meet = free_port(port)
    with tempfile.TemporaryDirectory() as folder:
        places = [
            Place(
                i,
                processes,
                meet,
                Path(folder, f"stands {i}"),
                Path(folder, f"says {i}"),
                START_SECONDS,
            )
            for i in range(processes)
        ]
        with started(places, jobs, target) as workers:
            _come_up(workers)
            _do_their_work(workers, function.file)
            outcomes = [w.outcome for w in workers if w.outcome is not None]
    for outcome in (each for each in outcomes if not each.why):
        try:
            outcome.came = form.read(outcome.came)
        except msgspec.MsgspecError:
            outcome.why, outcome.said = (
                "unreadable",
                f"Process {outcome.process} sent what is no result.",
            )
    return outcomes


def _come_up(workers: list[Worker]) -> None:
    """Wait until all of them have joined the others.

    Raises:
        ProcessesFailedError: one did not.
    """
    until = time.monotonic() + START_SECONDS
    while not all(w.ready for w in workers):
        if time.monotonic() > until:
            # while one is missing, the others wait for it, and are not ready either
            missing = [w.name.lower() for w in workers if not w.up] or ["one of them"]
            raise ProcessesFailedError(
                f"{_listed(missing).capitalize()} of {len(workers)} did not come up within "
                f"{START_SECONDS} "
                f"seconds. The others waited, and were ended. Is the machine very busy?"
            )
        for worker in _speaking([w for w in workers if not w.ready]):
            try:
                _hear(worker)
            except ProcessesFailedError:
                if not _one_has_left(workers):
                    raise
                worker.outcome = ProcessOutcome(
                    worker.place.process, why="stopped",
                    said=f"{worker.name} did not join the others, of which one had ended.",
                )  # fmt: skip
                return
            if worker.silent and _one_has_left(workers):
                return
            if worker.silent:
                raise ProcessesFailedError(
                    f"{worker.name} ended before it had joined the others: {_how(worker)}. "
                    f"{_last_words(worker)}All were ended."
                )


def _one_has_left(workers: list[Worker]) -> bool:
    """Check whether a process that had joined has ended; the others cannot join then."""
    for worker in workers:
        if worker.ready:
            worker.process.join(0.5)  # the others may have noticed before its parent does
    return any(w.ready and not w.process.is_alive() for w in workers)


def _do_their_work(workers: list[Worker], file: str) -> None:
    """Wait until each has an outcome, and give one to those that do not come to an end."""
    until = time.monotonic() + MAX_CLOCK_SECONDS
    first_error = 0.0
    while unfinished := [w for w in workers if w.outcome is None]:
        for worker in _speaking(unfinished):
            _hear(worker)
            if worker.silent:
                said = f"{worker.name} ended before it was done: {_how(worker)}."
                worker.outcome = ProcessOutcome(worker.place.process, why="died", said=said)
        failed = next((w for w in workers if w.outcome and w.outcome.why), None)
        first_error = first_error or (time.monotonic() if failed else 0.0)
        unfinished = [w for w in unfinished if w.outcome is None]
        still = [w for w in unfinished if w.stillness.look()]
        if failed and time.monotonic() > first_error + AFTER_ERROR_SECONDS:
            for worker in unfinished:
                worker.outcome = ProcessOutcome(
                    worker.place.process, why="stopped",
                    said=f"{worker.name} was stopped, since it may wait for {failed.name.lower()}.",
                )  # fmt: skip
        elif unfinished and len(still) == len(unfinished):
            _stand_still(workers, still, file)
        unfinished = [w for w in unfinished if w.outcome is None]
        if unfinished and time.monotonic() > until:
            raise ProcessesFailedError(
                f"After {MAX_CLOCK_SECONDS} seconds the processes were not done, though none of "
                f"them had had "
                f"{WORK_CPU_SECONDS} seconds of a processor: this machine is too busy."
            )
        for worker in unfinished:
            if worker.stillness.had > WORK_CPU_SECONDS:
                where = where_it_stands(worker.process.pid or 0, worker.place.stands, file)
                worker.outcome = ProcessOutcome(
                    worker.place.process, why="too-slow",
                    said=f"{worker.name} was not done after {WORK_CPU_SECONDS} seconds of work"
                    f"{f', and was in {where}' * bool(where)}.",
                )  # fmt: skip


def _stand_still(workers: list[Worker], still: list[Worker], file: str) -> None:
    """Say of processes that stand still where they do, and which ones have ended."""
    done = [w.name.lower() for w in workers if w.outcome is not None]
    others = f", while {_listed(done)} had returned" if done else ""
    for worker in still:
        where = where_it_stands(worker.process.pid or 0, worker.place.stands, file)
        worker.outcome = ProcessOutcome(
            worker.place.process, why="waits",
            said=f"{worker.name} stood still for {IDLE_SECONDS:.0f} seconds"
            f"{f' in {where}' * bool(where)}{others}. Does it wait for a collective that not all "
            f"processes have come to, here or further up?",
        )  # fmt: skip


def _speaking(workers: list[Worker]) -> list[Worker]:
    """Those that have something to say, or have ended; waits a moment for one."""
    found = connection.wait([w.messages for w in workers], timeout=0.1)
    return [w for w in workers if w.messages in found]


def _hear(worker: Worker) -> None:
    """Take a message of a worker's; one that cannot be read is as good as none."""
    try:
        written = worker.messages.recv_bytes(MAX_MESSAGE_BYTES)
        message = msgspec.msgpack.decode(written, type=Message)
    except (EOFError, OSError, msgspec.MsgspecError):
        worker.process.join(1)
        worker.silent = True
        return
    number = worker.place.process
    match message.kind:
        case "up":
            worker.up = True
        case "ready":
            worker.ready = True
        case "came":
            worker.outcome = ProcessOutcome(number, message.result, printed=message.printed)
        case "raised":
            worker.outcome = ProcessOutcome(
                number, why=message.why or "raised", said=message.said, printed=message.printed
            )
        case "failed":
            raise ProcessesFailedError(f"{worker.name} failed: {message.fault}", message.fault)


def _how(worker: Worker) -> str:
    """How a process ended."""
    code = worker.process.exitcode or 0
    return f"signal {-code} killed it" if code < 0 else f"its exit code was {code}"


def _last_words(worker: Worker) -> str:
    """The last line that JAX's libraries wrote, in a sentence."""
    with contextlib.suppress(OSError):
        lines = worker.place.says.read_text(errors="replace").strip().splitlines()
        return f"Its last words were: {lines[-1][:300]} " if lines else ""
    return ""


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]


class ProcessesError(ShortError, RuntimeError):
    """A function did not come to its end in every process; the message says where it did not."""


def on_processes(function: Callable[..., Any], processes: int, *arguments: Any) -> list[Any]:
    """Call a function in several processes at once, each with its share of eight emulated devices.

    The processes are new ones. They are joined by `jax.distributed`, and what they send each other
    goes over this machine's loopback interface. When all have returned, they are ended. What they
    print is printed here, each line behind the number of its process.

    Args:
        function: what is called in each process; whatever it uses of the notebook is sent along,
            but for meshes, shardings and devices, which it has to make itself.
        processes: how many: 1, 2, 4 or 8.
        *arguments: what the function is called with, the same in every process.

    Returns:
        What each process returned, in order. An array on several devices is there as
        `AddressableShards`: as much of it as that process holds.

    Raises:
        ProcessesError: a process did not come up, raised an error, ended, or stood still; all
            others were ended.
        UsageError: there can be no such number of processes, or the function cannot be sent.
    """
    if not callable(function):
        raise UsageError(
            f"on_processes(function, processes) takes a function first, such as "
            f"on_processes(who, 2); {type(function).__name__} came."
        )
    try:
        given = pack_arguments(function, partial(tuple, arguments))
        outcomes = run(pack(function), processes, lambda _: given)
    except ProcessesFailedError as error:
        raise ProcessesError(str(error)) from error
    for outcome in outcomes:
        for line in outcome.printed.splitlines():
            print(f"process {outcome.process} | {line}")
    failed = [outcome for outcome in outcomes if outcome.why]
    if failed:
        # what was stopped for another's error is told after that error
        failed.sort(key=lambda outcome: outcome.why == "stopped")
        said = f"Process {failed[0].process}: " * (failed[0].why == "raised") + failed[0].said
        more = " ".join(o.said for o in failed[1:] if o.why in ("stopped", "waits", "died"))
        raise ProcessesError(f"{said} {more}".strip())
    return [outcome.came for outcome in outcomes]
