"""Run one function in several processes, and collect what it returned in each: `on_processes`.

No process outlives the call. All are killed when their work is done, when one of them fails, when
they take too long, and when their parent ends, however it ends.

They are forked from a server that has imported JAX but has not started a backend. Forking takes a
tenth of a second; starting Python and importing JAX takes a second.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import cloudpickle
import msgspec
import psutil
from humanize import natural_list

from autograder.explanations import Fault
from autograder.processes.child import LOOPBACK, ChildMessage, ChildSetup, FunctionCall, run_child
from autograder.processes.disks import Disk, DiskServer
from autograder.processes.packing import PackedFunction, pack, pack_arguments
from autograder.processes.running_time import IDLE_SECONDS, IdleTimer
from autograder.processes.sendable_results import pickle_result
from shardlings.errors import ShortError, UsageError

PROCESS_COUNTS: Final = (1, 2, 4, 8)

START_SECONDS: Final = 20
"""Time for all processes to start and join each other."""

WORK_CPU_SECONDS: Final = 60
"""CPU time of each process, including its start."""

MAX_CLOCK_SECONDS: Final = 5 * WORK_CPU_SECONDS
"""Wall-clock time of all processes after their start, however busy the machine is."""

AFTER_ERROR_SECONDS: Final = 2.0
"""Time for the other processes to raise the same error that one has raised."""

MAX_MESSAGE_BYTES: Final = 1 << 28
"""Size of one process's result."""

STACK_LINE: Final = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in ')
"""A line of a stack trace that `faulthandler` writes."""

PRELOADED: Final = [
    "autograder.processes.forkserver",
    "autograder.processes.child",
    "jax.experimental.multihost_utils",
]
"""Modules that the fork server imports, so that no child has to. None of them starts a backend."""


class ProcessesError(ShortError, RuntimeError):
    """A function did not return in every process; the message says where and why it did not."""


class ProcessesFailedError(RuntimeError):
    """The processes failed by an error of ours, or of the machine's; the message says which.

    Attributes:
        fault: the error, if one of ours was caught in a child.
    """

    def __init__(self, message: str, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass
class ProcessOutcome:
    """The outcome of a function in one process.

    Attributes:
        process: the process's number.
        result: what the function returned; `...` if it did not return, or is a stub.
        why: a diagnosis, if it did not return.
        sentence: an explanation, if it did not return.
        printed: what the function printed.
    """

    process: int
    result: Any = ...
    why: str = ""
    sentence: str = ""
    printed: str = ""


@dataclass(frozen=True)
class ResultEncoding:
    """An encoding of results: `write` is called in the children, and `read` in the parent."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


PICKLES: Final = ResultEncoding(pickle_result, cloudpickle.loads)
"""The encoding for any object. Only notebooks use it: unpickling runs code of the child."""


def on_processes(function: Callable[..., Any], processes: int, *arguments: Any) -> list[Any]:
    """Call a function in several processes at once, each with its share of eight emulated devices.

    The processes are new. `jax.distributed` connects them, over this machine's loopback interface,
    and they end when all have returned. What they print is printed here, with the number of the
    process before each line.

    Args:
        function: called in each process. Whatever it uses of the notebook is sent along, except
            meshes, shardings and devices, which it has to make itself.
        processes: the number of processes: 1, 2, 4 or 8.
        *arguments: the function's arguments, the same in every process.

    Returns:
        What each process returned, in order. An array on several devices is returned as
        `AddressableShards`: the shards that the process holds.

    Raises:
        ProcessesError: a process did not start, raised an error, ended, or waited for ever; all
            others were ended.
        UsageError: the number of processes is not possible, or the function cannot be sent.
    """
    if not callable(function):
        raise UsageError(
            f"on_processes(function, processes) expects a function first, as in "
            f"on_processes(who, 2), but got {type(function).__name__}."
        )
    try:
        packed_arguments = pack_arguments(function, lambda ask: arguments)
        outcomes = run(pack(function), processes, lambda _: packed_arguments)
    except ProcessesFailedError as error:
        raise ProcessesError(str(error)) from error
    for outcome in outcomes:
        for line in outcome.printed.splitlines():
            print(f"process {outcome.process} | {line}")
    failed = [outcome for outcome in outcomes if outcome.why]
    if failed:
        # report an error before the processes that were stopped because of it
        failed.sort(key=lambda outcome: outcome.why == "stopped")
        prefix = f"Process {failed[0].process}: " * (failed[0].why == "raised")
        rest = " ".join(o.sentence for o in failed[1:] if o.why in ("stopped", "waits", "died"))
        raise ProcessesError(f"{prefix}{failed[0].sentence} {rest}".strip())
    return [outcome.result for outcome in outcomes]


def run(
    function: PackedFunction,
    processes: int,
    arguments: Callable[[int], bytes],
    *,
    axes: Sequence[str] = (),
    encoding: ResultEncoding = PICKLES,
    disks: Sequence[Mapping[int, Disk]] = (),
    port: int | None = None,
    target: Callable[..., None] = run_child,
) -> list[ProcessOutcome]:
    """Call a function in several processes at once, each with its share of eight devices.

    Args:
        function: the learner's function.
        processes: the number of processes: 1, 2, 4 or 8.
        arguments: takes the number of a process, and returns a pickled function that makes the
            arguments there.
        axes: the names of the mesh axes, for error messages.
        encoding: the encoding in which results are sent to the parent.
        disks: what each process may read, by the numbers of its arguments.
        port: the port of the loopback interface at which process 0 coordinates the others; by
            default a free one.
        target: the function that each process runs; tests use others.

    Returns:
        The outcome of each process, in order.

    Raises:
        UsageError: the number of processes is not possible, or none can be started here.
        ProcessesFailedError: they did not start, or failed by an error of ours.
    """
    _refuse_processes(processes)
    context = multiprocessing.get_context("forkserver")
    disk_servers: list[DiskServer] = []
    calls: list[FunctionCall] = []
    for process in range(processes):
        requests, to_parent = context.Pipe()
        disk_servers.append(DiskServer(disks[process] if disks else {}, requests))
        calls.append(
            FunctionCall(function, arguments(process), to_parent, tuple(axes), encoding.write)
        )
    coordinator_port = free_port(port)
    with tempfile.TemporaryDirectory() as folder:
        setups = [
            ChildSetup(
                process=i,
                processes=processes,
                port=coordinator_port,
                stack_file=Path(folder, f"stack {i}"),
                log_file=Path(folder, f"log {i}"),
                start_seconds=START_SECONDS,
            )
            for i in range(processes)
        ]
        with _started(setups, calls, disk_servers, target) as children:
            _wait_for_start(children)
            _wait_for_outcomes(children, function.file)
            outcomes = [c.outcome for c in children if c.outcome is not None]
    for outcome, disk_server in zip(outcomes, disk_servers, strict=True):
        if not outcome.why:
            _read_outcome(outcome, disk_server, encoding)
    return outcomes


def _refuse_processes(processes: int) -> None:
    """Refuse to start so many processes, or any here.

    Raises:
        UsageError: the number of processes is not possible, or none can be started here.
    """
    if type(processes) is not int or processes not in PROCESS_COUNTS:
        raise UsageError(
            f"Eight devices can be shared evenly by 1, 2, 4 or 8 processes, but got {processes!r}."
        )
    if multiprocessing.current_process().daemon:
        raise UsageError(
            "This is one of several processes already, and cannot start more of them. Call "
            "on_processes, and check, in the notebook itself."
        )
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise UsageError(
            "on_processes needs fork, which Windows does not have. Use Linux, macOS, WSL or Colab."
        )


def _read_outcome(
    outcome: ProcessOutcome, disk_server: DiskServer, encoding: ResultEncoding
) -> None:
    """Decode the result of a process, unless its reads were refused."""
    if disk_server.refusal is not None:
        outcome.why, outcome.sentence = disk_server.refusal
        return
    try:
        outcome.result = encoding.read(outcome.result)
    except msgspec.MsgspecError:
        outcome.why = "unreadable"
        outcome.sentence = f"Process {outcome.process} sent something that is not a result."


@dataclass
class Child:
    """A child process, as its parent sees it.

    Attributes:
        messages: brings its messages.
        setup: its place among the others, and its files.
        is_up: whether it has started.
        is_ready: whether it has joined the others.
        has_closed: whether it has ended, or sent a malformed message.
        outcome: its outcome, once there is one.
        idle_timer: measures its work.
    """

    process: BaseProcess
    messages: Connection
    setup: ChildSetup
    is_up: bool = False
    is_ready: bool = False
    has_closed: bool = False
    outcome: ProcessOutcome | None = None
    idle_timer: IdleTimer = field(init=False)

    def __post_init__(self) -> None:
        self.idle_timer = IdleTimer(self.process.pid or 0)

    @property
    def name(self) -> str:
        return f"Process {self.setup.process}"

    def fail(self, why: str, sentence: str) -> None:
        """Set an outcome that is no result."""
        self.outcome = ProcessOutcome(self.setup.process, why=why, sentence=sentence)


def free_port(port: int | None) -> int:
    """Return a port if it is free; without one, return any free port.

    Raises:
        ProcessesFailedError: the port is not free.
    """
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port or 0))
        except OSError as error:
            raise ProcessesFailedError(
                f"Port {port} is in use by another program. Leave `port` out to use any free one."
            ) from error
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _started(
    setups: Sequence[ChildSetup],
    calls: Sequence[FunctionCall],
    disk_servers: Sequence[DiskServer],
    target: Callable[..., None],
) -> Iterator[list[Child]]:
    """Start a child for each call; kill all of them in the end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    children: list[Child] = []
    try:
        for setup, call, disk_server in zip(setups, calls, disk_servers, strict=True):
            messages, to_parent = context.Pipe(duplex=False)
            process = context.Process(target=target, args=(setup, call, to_parent), daemon=True)
            with without_main_module():
                start_fork_server()
                process.start()
            to_parent.close()
            call.requests.close()
            disk_server.start()
            children.append(Child(process, messages, setup))
        yield children
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):  # it does not lead its group yet
                os.killpg(child.process.pid or 0, signal.SIGKILL)
            child.process.kill()
        for child in children:
            child.process.join()
            child.messages.close()
            child.process.close()
        for disk_server in disk_servers[: len(children)]:
            disk_server.join()
            if disk_server.fault is not None:  # what the process reported follows from it
                raise ProcessesFailedError(f"A disk failed: {disk_server.fault}", disk_server.fault)


def start_fork_server() -> None:
    """Start the server that forks processes, unless it runs, with Ctrl-C blocked.

    The server cannot handle it while it imports, nor the processes before they run our code.
    """
    resource_tracker.ensure_running()  # or the server would start it, which unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def without_main_module() -> Iterator[None]:
    """Keep `multiprocessing` from running the main script again in processes that are started.

    No process needs it, because whatever it uses is sent to it.
    """
    main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _wait_for_start(children: list[Child]) -> None:
    """Wait until all children have joined each other.

    Raises:
        ProcessesFailedError: one did not.
    """
    deadline = time.monotonic() + START_SECONDS
    while not all(c.is_ready for c in children):
        if time.monotonic() > deadline:
            # while one is missing, the others wait for it, and are not ready either
            missing = [c.name.lower() for c in children if not c.is_up] or ["one of them"]
            raise ProcessesFailedError(
                f"{natural_list(missing).capitalize()} of {len(children)} did not start within "
                f"{START_SECONDS} "
                f"seconds. The others waited, and were ended. Is the machine very busy?"
            )
        for child in _poll([c for c in children if not c.is_ready]):
            try:
                _receive(child)
            except ProcessesFailedError:
                if not _has_lost_one(children):
                    raise
                child.fail(
                    "stopped", f"{child.name} did not join the others, of which one had ended."
                )
                return
            if child.has_closed and _has_lost_one(children):
                return
            if child.has_closed:
                raise ProcessesFailedError(
                    f"{child.name} ended before it had joined the others: "
                    f"{_how_it_ended(child)}. {_last_log_line(child)}All were ended."
                )


def _has_lost_one(children: list[Child]) -> bool:
    """Check whether a process that had joined has ended; the others cannot join then."""
    for child in children:
        while not (child.is_ready or child.has_closed) and child.messages.poll():
            _receive(child)  # that it has joined may not have been read yet
        if child.is_ready:
            child.process.join(0.5)  # the others may have noticed before its parent does
    return any(c.is_ready and not c.process.is_alive() for c in children)


def _wait_for_outcomes(children: list[Child], file: str) -> None:
    """Wait until each child has an outcome; stop those that wait for ever or take too long.

    Args:
        children: the children.
        file: Python's name of the cell with the learner's function.
    """
    deadline = time.monotonic() + MAX_CLOCK_SECONDS
    first_error = 0.0
    while unfinished := [c for c in children if c.outcome is None]:
        for child in _poll(unfinished):
            _receive(child)
            if child.has_closed:
                child.fail(
                    "died", f"{child.name} ended before it was done: {_how_it_ended(child)}."
                )
        failed = next((c for c in children if c.outcome and c.outcome.why), None)
        first_error = first_error or (time.monotonic() if failed else 0.0)
        unfinished = [c for c in unfinished if c.outcome is None]
        idle = [c for c in unfinished if c.idle_timer.poll()]
        if failed and time.monotonic() > first_error + AFTER_ERROR_SECONDS:
            for child in unfinished:
                child.fail(
                    "stopped",
                    f"{child.name} was stopped, since it may wait for {failed.name.lower()}.",
                )
        elif unfinished and len(idle) == len(unfinished):
            _report_deadlock(children, idle, file)
        unfinished = [c for c in unfinished if c.outcome is None]
        if unfinished and time.monotonic() > deadline:
            raise ProcessesFailedError(
                f"After {MAX_CLOCK_SECONDS} seconds the processes were not done, though none of "
                f"them had had "
                f"{WORK_CPU_SECONDS} seconds of a processor: this machine is too busy."
            )
        for child in unfinished:
            if child.idle_timer.cpu_seconds > WORK_CPU_SECONDS:
                line = _current_line(child, file)
                child.fail(
                    "too-slow",
                    f"{child.name} was not done after {WORK_CPU_SECONDS} seconds of work"
                    f"{f', and was in {line}' * bool(line)}.",
                )


def _report_deadlock(children: list[Child], idle: list[Child], file: str) -> None:
    """Set the outcomes of children that wait for ever: in which line, and which others returned."""
    done = [c.name.lower() for c in children if c.outcome is not None]
    others = f", while {natural_list(done)} had returned" if done else ""
    for child in idle:
        line = _current_line(child, file)
        child.fail(
            "waits",
            f"{child.name} stood still for {IDLE_SECONDS:.0f} seconds"
            f"{f' in {line}' * bool(line)}{others}. Does it wait for a collective that not all "
            f"processes have come to, here or further up?",
        )


def _current_line(child: Child, file: str) -> str:
    """Return the line of the cell that a child runs, such as "line 3 of the cell: `x[0]`".

    The child answers a signal by writing the stacks of its threads to a file.

    Args:
        child: the child.
        file: Python's name of the cell with the learner's function.

    Returns:
        An empty string if the child is in no line of that cell, or does not answer.
    """
    with contextlib.suppress(OSError):
        psutil.Process(child.process.pid or 0).send_signal(signal.SIGUSR1)
    for _ in range(20):
        for stack_line in _read_lines(child.setup.stack_file):
            match = STACK_LINE.match(stack_line)
            if match and match["file"] == file:
                code = linecache.getline(file, int(match["line"])).strip()
                return f"line {match['line']} of the cell" + f": `{code}`" * bool(code)
        time.sleep(0.05)
    return ""


def _read_lines(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text(errors="replace").splitlines()
    return []


def _poll(children: list[Child]) -> list[Child]:
    """Return the children that have sent a message or have ended; wait a moment for one."""
    readable = connection.wait([c.messages for c in children], timeout=0.1)
    return [c for c in children if c.messages in readable]


def _receive(child: Child) -> None:
    """Take a child's next message.

    Raises:
        ProcessesFailedError: the child reports an error of ours.
    """
    try:
        encoded = child.messages.recv_bytes(MAX_MESSAGE_BYTES)
        message = msgspec.msgpack.decode(encoded, type=ChildMessage)
    except (EOFError, OSError, msgspec.MsgspecError):
        child.process.join(1)
        child.has_closed = True
        return
    match message.kind:
        case "up":
            child.is_up = True
        case "ready":
            child.is_ready = True
        case "returned":
            child.outcome = ProcessOutcome(
                child.setup.process, message.result, printed=message.printed
            )
        case "raised":
            child.outcome = ProcessOutcome(
                child.setup.process,
                why=message.why or "raised",
                sentence=message.sentence,
                printed=message.printed,
            )
        case "failed":
            raise ProcessesFailedError(f"{child.name} failed: {message.fault}", message.fault)


def _how_it_ended(child: Child) -> str:
    code = child.process.exitcode or 0
    return f"signal {-code} killed it" if code < 0 else f"its exit code was {code}"


def _last_log_line(child: Child) -> str:
    """Quote, in a sentence, the last line that JAX's libraries wrote."""
    lines = [line for line in _read_lines(child.setup.log_file) if line.strip()]
    return f"The last line that it logged was: {lines[-1].strip()[:300]} " if lines else ""
