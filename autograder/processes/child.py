"""A child: one of the processes that call a function together, each with some of the devices."""

import contextlib
import faulthandler
import functools
import io
import linecache
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

import cloudpickle
import jax
import jaxlib._jax
import msgspec

from autograder.explanations import Fault, explain_error
from autograder.processes.disks import ReadRefusedError, make_ask
from autograder.processes.interruptions import BatchUsedError
from autograder.processes.isolation import REFUSED_WRITES
from autograder.processes.packing import PackedFunction
from autograder.processes.sendable_results import ResultNotSendableError, make_sendable
from shardlings import devices
from shardlings.errors import TheirError, describe_error, first_line, theirs

LOOPBACK: Final = "127.0.0.1"

NOT_ADDRESSABLE: Final = "non-addressable", "must be a fully addressable array"
"""Words in JAX's errors, of one version or another, about arrays that other processes share."""

DEVICES: Final = 8
"""The number of devices that the processes have together."""


@dataclass(frozen=True)
class ChildSetup:
    """A child's place among the others, and its files.

    Attributes:
        process: the child's number.
        processes: the number of children.
        port: the port of the loopback interface at which process 0 coordinates the others.
        stack_file: the file to which the child writes its threads' stacks, on SIGUSR1.
        log_file: the file for what JAX's libraries print.
        start_seconds: the time in which the parent expects all children to start.
    """

    process: int
    processes: int
    port: int
    stack_file: Path
    log_file: Path
    start_seconds: int


@dataclass(frozen=True)
class FunctionCall:
    """A function for a child to call.

    Attributes:
        function: the learner's function.
        arguments: a pickled function that makes the arguments in the child, because devices, for
            example, cannot be sent; it takes a function that asks the parent for what is on a disk.
        requests: takes requests for what is on a disk to the parent.
        axes: the names of the mesh axes, for error messages.
        write: encodes what the function returns.
    """

    function: PackedFunction
    arguments: bytes
    requests: Connection
    axes: tuple[str, ...]
    write: Callable[[Any], bytes]


class ChildMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message from a child to its parent. It may be forged, for the function runs in the child.

    Attributes:
        kind: `up` when the child has started, and `ready` when it has joined the others; then
            `returned`, `raised`, or, for an error of ours, `failed`.
        result: what the function returned, encoded.
        why: a diagnosis, if it raised.
        sentence: an explanation, if it raised.
        printed: what the function printed.
        fault: the error of ours.
    """

    kind: Literal["up", "ready", "returned", "raised", "failed"]
    result: bytes = b""
    why: str = ""
    sentence: str = ""
    printed: str = ""
    fault: Fault | None = None


def run_child(setup: ChildSetup, call: FunctionCall, to_parent: Connection) -> None:
    """Start JAX, join the other children, call the function, and wait to be killed.

    A child never ends by itself, because the others may still need its devices.
    """
    _end_with_parent()
    _redirect_output(setup)

    def send(message: ChildMessage) -> None:
        to_parent.send_bytes(msgspec.msgpack.encode(message))

    try:
        send(ChildMessage("up"))
        _join_others(setup)
        send(ChildMessage("ready"))
        send(_call_function(call))
    except Exception as error:
        send(ChildMessage("failed", fault=Fault.of(error)))
    threading.Event().wait()


def _call_function(call: FunctionCall) -> ChildMessage:
    for file, lines in call.function.cells.items():
        linecache.cache[file] = (0, None, list(lines), file)
    try:
        function = cloudpickle.loads(call.function.pickled)
    except Exception as error:
        sentence = f"Your function cannot be read in another process: {first_line(error)}."
        return ChildMessage("raised", why="cannot-be-sent", sentence=sentence)
    arguments = cloudpickle.loads(call.arguments)(make_ask(call.requests))
    printed = io.StringIO()

    def raised(why: str, sentence: str) -> ChildMessage:
        return ChildMessage("raised", why=why, sentence=sentence, printed=printed.getvalue())

    try:
        with contextlib.redirect_stdout(printed), theirs():
            result = function(*arguments)
            jax.block_until_ready(result)
            jax.effects_barrier()  # wait for the output of jax.debug.print
            result = make_sendable(result)
    except (KeyboardInterrupt, GeneratorExit) as error:
        return raised("raised", f"Your function raised {type(error).__name__}.")
    except TheirError as error:
        if not isinstance(error.error, NotImplementedError) or str(error.error):
            return raised(*_explain_error(error.error, function, call.axes))
        result = ...
    try:
        return ChildMessage("returned", call.write(result), printed=printed.getvalue())
    except ResultNotSendableError as error:
        return raised("cannot-leave", str(error))


def _explain_error(
    error: BaseException, function: Callable[..., Any], axes: tuple[str, ...]
) -> tuple[str, str]:
    """Return a diagnosis and an explanation of an error that a function raised."""
    is_refused_write = isinstance(error, OSError) and bool(REFUSED_WRITES)
    if is_refused_write:
        error = REFUSED_WRITES[0]
    said = f"Your function raised {describe_error(error, function)}."
    if is_refused_write:
        return "no-common-disk", said
    if isinstance(error, ReadRefusedError):
        return error.diagnosis, said
    if isinstance(error, BatchUsedError):
        return "begins-anew", said
    if isinstance(error, FileNotFoundError):
        return "file-not-found", said
    message = first_line(error)
    if any(words in message for words in NOT_ADDRESSABLE):
        return "not-addressable", said
    return explain_error(error, function, axes) if _has_message(error) else ("raised", said)


def _has_message(error: BaseException) -> bool:
    """Check whether an error has a message.

    What JAX's errors without one mean depends on where they are raised.
    """
    try:
        return bool(str(error))
    except Exception:
        return False


def _end_with_parent() -> None:
    """End this process when its parent ends, however it ends; leave interrupts to the parent."""
    os.setpgid(0, 0)  # killing the group also ends the processes that the function starts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _redirect_output(setup: ChildSetup) -> None:
    """Write the output of JAX's libraries to a file, instead of the notebook's terminal."""
    log = os.open(setup.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    stacks = setup.stack_file.open("w")
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)


def _join_others(setup: ChildSetup) -> None:
    """Start JAX with this child's share of the devices, connected to the other children."""
    share = DEVICES // setup.processes
    os.environ.update(devices.environment(share))
    os.environ["PJRT_NPROC"] = str(devices.pool_size(DEVICES))
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", share)
    # the cache may hold a program that was compiled for a single process
    jax.config.update("jax_enable_compilation_cache", False)
    if setup.processes > 1:
        _use_loopback()
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            f"{LOOPBACK}:{setup.port}",
            setup.processes,
            setup.process,
            # by default, other machines can connect too
            coordinator_bind_address=f"{LOOPBACK}:{setup.port}",
            initialization_timeout=setup.start_seconds + 10,  # the parent gives up first
        )
    jax.devices()


def _use_loopback() -> None:
    """Have Gloo, which runs the processes' collectives, use the loopback interface.

    By default it uses the interface of this machine's host name. Other machines may be able to
    reach that one, and in a sandbox, where the name does not resolve, Gloo does not start. JAX has
    no setting for it, so this binds the argument of the function that JAX calls.
    """
    make_collectives = jaxlib._jax.make_gloo_tcp_collectives
    jaxlib._jax.make_gloo_tcp_collectives = functools.partial(make_collectives, hostname=LOOPBACK)
