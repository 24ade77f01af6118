"""A worker: one of the processes that call a function together, each with some of the devices."""

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
import jax.numpy as jnp
import jaxlib._jax
import msgspec
import numpy as np

from autograder.processes.disks import ReadRefusedError, make_ask
from autograder.processes.interruptions import BatchUsedError
from autograder.processes.isolation import REFUSED_WRITES
from autograder.processes.packing import PackedFunction
from shardlings import devices
from shardlings.errors import (
    Fault,
    TheirError,
    UsageError,
    describe_error,
    explain_error,
    first_line,
    theirs,
)
from shardlings.layouts import Block, Layout, Shape

LOOPBACK: Final = "127.0.0.1"

NOT_ADDRESSABLE: Final = "non-addressable", "must be a fully addressable array"
"""Words in JAX's errors, of one version or another, about arrays that other processes share."""

DEVICES: Final = 8
"""The number of devices that the processes have together."""


@dataclass(frozen=True)
class Place:
    """A worker's place among the others.

    Attributes:
        process: the worker's number.
        processes: the number of workers.
        port: the port of the loopback interface at which process 0 coordinates the others.
        stack_file: the file to which the worker writes its threads' stacks, on SIGUSR1.
        log_file: the file for what JAX's libraries print.
        start_seconds: the time in which the parent expects all workers to start.
    """

    process: int
    processes: int
    port: int
    stack_file: Path
    log_file: Path
    start_seconds: int


@dataclass(frozen=True)
class Job:
    """A function for a worker to call.

    Attributes:
        function: the learner's function.
        arguments: a pickled function that makes the arguments in the worker, because devices, for
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


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message from a worker to its parent. It may be forged, for the function runs in the worker.

    Attributes:
        kind: `up` when the worker has started, and `ready` when it has joined the others; then
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


class ResultNotSendableError(Exception):
    """A function's result cannot be sent to the parent; the message says why and what to do."""


def run_worker(place: Place, job: Job, to_parent: Connection) -> None:
    """Start JAX, join the other workers, call the function, and wait to be killed.

    A worker never ends by itself, because the others may still need its devices.
    """
    _end_with_parent()
    _redirect_output(place)

    def send(message: Message) -> None:
        to_parent.send_bytes(msgspec.msgpack.encode(message))

    try:
        send(Message("up"))
        _join_others(place)
        send(Message("ready"))
        send(_call_function(job))
    except Exception as error:
        send(Message("failed", fault=Fault.of(error)))
    threading.Event().wait()


def _call_function(job: Job) -> Message:
    for file, lines in job.function.cells.items():
        linecache.cache[file] = (0, None, list(lines), file)
    try:
        function = cloudpickle.loads(job.function.pickled)
    except Exception as error:
        sentence = f"Your function cannot be read in another process: {first_line(error)}."
        return Message("raised", why="cannot-be-sent", sentence=sentence)
    arguments = cloudpickle.loads(job.arguments)(make_ask(job.requests))
    printed = io.StringIO()

    def raised(why: str, sentence: str) -> Message:
        return Message("raised", why=why, sentence=sentence, printed=printed.getvalue())

    try:
        with contextlib.redirect_stdout(printed), theirs():
            result = function(*arguments)
            jax.block_until_ready(result)
            jax.effects_barrier()  # wait for the output of jax.debug.print
            result = make_sendable(result)
    except (KeyboardInterrupt, GeneratorExit) as error:
        sentence = f"Your function raised {type(error).__name__}."
        return Message("raised", why="raised", sentence=sentence)
    except TheirError as error:
        if not isinstance(error.error, NotImplementedError) or str(error.error):
            return raised(*_explain_error(error.error, function, job.axes))
        result = ...
    try:
        return Message("returned", job.write(result), printed=printed.getvalue())
    except ResultNotSendableError as error:
        return raised("cannot-leave", str(error))


def pickle_result(result: Any) -> bytes:
    """Pickle what a function returned.

    Raises:
        ResultNotSendableError: it cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as error:
        raise ResultNotSendableError(
            f"What your function returns cannot leave its process: {error}. Return what is to be "
            f"known of it, such as its str(…)."
        ) from error


def _explain_error(
    error: BaseException, function: Callable[..., Any], axes: tuple[str, ...]
) -> tuple[str, str]:
    """Return a diagnosis and an explanation of an error that a function raised."""
    if isinstance(error, ReadRefusedError):
        return error.diagnosis, f"Your function raised {describe_error(error, function)}."
    if isinstance(error, BatchUsedError):
        return "begins-anew", f"Your function raised {describe_error(error, function)}."
    if isinstance(error, OSError) and REFUSED_WRITES:
        error = REFUSED_WRITES[0]
        return "no-common-disk", f"Your function raised {describe_error(error, function)}."
    if isinstance(error, FileNotFoundError):
        return "file-not-found", f"Your function raised {describe_error(error, function)}."
    message = first_line(error)
    if any(words in message for words in NOT_ADDRESSABLE):
        return "not-addressable", f"Your function raised {describe_error(error, function)}."
    if _has_message(error):
        return explain_error(error, function, axes)
    return "raised", f"Your function raised {describe_error(error, function)}."


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


def _redirect_output(place: Place) -> None:
    """Write the output of JAX's libraries to a file, instead of the notebook's terminal."""
    log = os.open(place.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    stacks = place.stack_file.open("w")
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)


def _join_others(place: Place) -> None:
    """Start JAX with this worker's share of the devices, connected to the other workers."""
    share = DEVICES // place.processes
    os.environ.update(devices.environment(share))
    os.environ["PJRT_NPROC"] = str(devices.pool_size(DEVICES))
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", share)
    # the cache may hold a program that was compiled for a single process
    jax.config.update("jax_enable_compilation_cache", False)
    if place.processes > 1:
        _use_loopback()
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            f"{LOOPBACK}:{place.port}",
            place.processes,
            place.process,
            # by default, other machines can connect too
            coordinator_bind_address=f"{LOOPBACK}:{place.port}",
            initialization_timeout=place.start_seconds + 10,  # the parent gives up first
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


@dataclass(frozen=True, repr=False)
class AddressableShards:
    """The shards of a global array that one process holds.

    Attributes:
        shape: the array's global shape, in elements.
        dtype: the NumPy name of its type.
        shards: for each device of the process, the device's number among all devices, the block
            that it holds, and the block's values.
        layout: the block of each device, those of other processes included; `show` draws it.
    """

    shape: Shape
    dtype: str
    shards: tuple[tuple[int, Block, np.ndarray], ...]
    layout: Layout

    @classmethod
    def of(cls, array: jax.Array) -> "AddressableShards":
        """Return the shards of an array that this process holds."""
        number = {device: i for i, device in enumerate(jax.devices())}
        indices = array.sharding.devices_indices_map(array.shape)
        return cls(
            array.shape,
            array.dtype.name,
            tuple(
                (number[shard.device], _block(shard.index, array.shape), np.asarray(shard.data))
                for shard in sorted(array.addressable_shards, key=lambda s: number[s.device])
            ),
            Layout.from_blocks(
                array.shape,
                {number[device]: _block(index, array.shape) for device, index in indices.items()},
            ),
        )

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """Refuse to be used as the global array."""
        raise UsageError(
            f"Of this array of shape {self.shape}, only what one process holds came back. Its "
            f".shards have it: for each device its number, its block, and the block's values."
        )

    def __repr__(self) -> str:
        """Such as `float32[16,4]: 4 of its shards are here, (2, 4) on each of devices 0 to 3`."""
        sizes = ",".join(map(str, self.shape))
        if not self.shards:
            return f"{self.dtype}[{sizes}]: none of its shards are here"
        numbers = [device for device, _, _ in self.shards]
        block_shape = self.shards[0][2].shape
        shards = f"one of its shards is here, {block_shape} on device {numbers[0]}"
        if numbers[1:]:
            shards = f"{len(numbers)} of its shards are here, {block_shape} on each of devices "
            shards += f"{numbers[0]} to {numbers[-1]}"
        return f"{self.dtype}[{sizes}]: {shards}"


def make_sendable(result: Any) -> Any:
    """Replace the arrays in a result by what can be sent to the parent.

    An array on several devices becomes `AddressableShards`, and an array on one device, which
    belongs to this process alone, becomes a NumPy array.
    """
    return jax.tree.map(_make_leaf_sendable, result)


def _make_leaf_sendable(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):  # random keys
        value = jax.random.key_data(value)
    if len(value.sharding.device_set) == 1:
        return np.asarray(value)
    return AddressableShards.of(value)


def _block(index: tuple[slice, ...], shape: Shape) -> Block:
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))
