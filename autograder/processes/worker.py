"""A worker: one of the processes that run a function together, each with some of the devices."""

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

from autograder import devices
from autograder.errors import (
    Fault,
    TheirError,
    UsageError,
    first_line,
    their_error,
    theirs,
    what_it_raised,
)
from autograder.layouts import Block, Layout, Shape
from autograder.processes.cases import NotHereError, Rows
from autograder.processes.isolation import REFUSED_WRITES
from autograder.processes.packing import PackedFunction

LOOPBACK: Final = "127.0.0.1"

ELSEWHERE: Final = "non-addressable", "must be a fully addressable array"
"""What JAX's errors have in them, in one version or another, where numbers are not all here."""

DEVICES: Final = 8
"""How many devices the processes have together."""


@dataclass(frozen=True)
class Place:
    """Which of the workers one is, and where it finds what it needs.

    Attributes:
        process: its number.
        processes: how many there are.
        port: of the loopback interface, where process 0 coordinates them.
        stands: a file into which it writes where it stands, when asked by a signal.
        says: a file for what JAX's own libraries write to the terminal.
        come: how many seconds it waits for the others.
    """

    process: int
    processes: int
    port: int
    stands: Path
    says: Path
    come: int


@dataclass(frozen=True)
class Job:
    """The work of one process.

    Attributes:
        function: what is called, and where it was written.
        arguments: what makes its arguments, pickled: devices, for example, cannot be sent.
        axes: the names of the mesh axes that it is to know, for messages.
        write: turns what the function returns into bytes.
    """

    function: PackedFunction
    arguments: bytes
    axes: tuple[str, ...]
    write: Callable[[Any], bytes]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker tells its parent. It may be forged, for the function runs in the worker.

    Attributes:
        kind: `up`, and `ready` once all are; then `came`, `raised`, or, for an error of ours,
            `failed`.
        result: what the function returned, as bytes.
        why: a diagnosis, where it returned nothing.
        said: what is to be said of that.
        printed: what the function printed.
        fault: the error of ours.
    """

    kind: Literal["up", "ready", "came", "raised", "failed"]
    result: bytes = b""
    why: str = ""
    said: str = ""
    printed: str = ""
    fault: Fault | None = None


class CannotLeaveError(Exception):
    """What a function returned cannot leave its process; the message says why and what to do."""


def work(place: Place, job: Job, to_parent: Connection) -> None:
    """Come up, join the others, call the function, and wait to be ended.

    It never ends by itself, since the others may still need its devices.
    """
    _leave_nothing_behind()
    _write_to(place)

    def tell(message: Message) -> None:
        to_parent.send_bytes(msgspec.msgpack.encode(message))

    try:
        tell(Message("up"))
        _join(place)
        tell(Message("ready"))
        tell(_done(job))
    except Exception as error:
        tell(Message("failed", fault=Fault.of(error)))
    threading.Event().wait()


def _done(job: Job) -> Message:
    """Call a job's function."""
    for file, lines in job.function.cells.items():
        linecache.cache[file] = (0, None, list(lines), file)
    try:
        function = cloudpickle.loads(job.function.pickled)
    except Exception as error:
        said = f"Your function cannot be read in another process: {first_line(error)}."
        return Message("raised", why="cannot-be-sent", said=said)
    arguments = cloudpickle.loads(job.arguments)()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), theirs():
            result = function(*arguments)
            jax.block_until_ready(result)
            jax.effects_barrier()  # what jax.debug.print says
            result = leaving(result)
    except (KeyboardInterrupt, GeneratorExit) as error:
        return Message("raised", why="raised", said=f"Your function raised {type(error).__name__}.")
    except TheirError as raised:
        if not isinstance(raised.error, NotImplementedError) or str(raised.error):
            why, said = _raised(raised.error, function, job.axes)
            return Message("raised", why=why, said=said, printed=printed.getvalue())
        result = ...
    for rows in (each for each in arguments if isinstance(each, Rows)):
        if rows.refused is not None:  # tried for all rows, one after another, without a sharding
            said = (
                f"Your function asked for rows that are not here, and caught the error: "
                f"{rows.refused}. To catch it does not help: no process may ask for the rows of "
                f"another."
            )
            return Message("raised", why="not-here", said=said, printed=printed.getvalue())
    try:
        return Message("came", job.write(result), printed=printed.getvalue())
    except CannotLeaveError as error:
        said, text = str(error), printed.getvalue()
        return Message("raised", why="cannot-leave", said=said, printed=text)


def pickle_result(result: Any) -> bytes:
    """Pickle what a function returned.

    Raises:
        CannotLeaveError: it cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as error:
        raise CannotLeaveError(
            f"What your function returns cannot leave its process: {error}. Return what is to be "
            f"known of it, such as its str(…)."
        ) from error


def _raised(
    error: BaseException, function: Callable[..., Any], axes: tuple[str, ...]
) -> tuple[str, str]:
    """A diagnosis of an error, and what is said of it."""
    if isinstance(error, NotHereError):
        return "not-here", f"Your function raised {their_error(error, function)}."
    if isinstance(error, OSError) and REFUSED_WRITES:
        error = REFUSED_WRITES[0]
        return "no-common-disk", f"Your function raised {their_error(error, function)}."
    if isinstance(error, FileNotFoundError):
        return "file-not-found", f"Your function raised {their_error(error, function)}."
    words = first_line(error)
    elsewhere = any(said in words for said in ELSEWHERE)
    why = "not-addressable" if elsewhere else "raised"
    if why == "raised" and _speaks(error):
        return what_it_raised(error, function, axes)
    return why, f"Your function raised {their_error(error, function)}."


def _speaks(error: BaseException) -> bool:
    """Whether an error has words; what JAX means by one without depends on where it is raised."""
    try:
        return bool(str(error))
    except Exception:
        return False


def _leave_nothing_behind() -> None:
    """End as soon as the parent does, however that ends; an interrupt is the parent's to answer."""
    os.setpgid(0, 0)  # what it starts itself is ended with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _write_to(place: Place) -> None:
    """Keep the terminal, which is the notebook's, for what the function prints."""
    log = os.open(place.says, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    stands = place.stands.open("w")
    faulthandler.register(signal.SIGUSR1, stands, all_threads=True)


def _join(place: Place) -> None:
    """Start JAX with this process's share of the devices, beside the other processes."""
    share = DEVICES // place.processes
    os.environ.update(devices.environment(share))
    os.environ["PJRT_NPROC"] = str(devices.pool_size(DEVICES))
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", share)
    # one of programs for a single process may be at hand
    jax.config.update("jax_enable_compilation_cache", False)
    if place.processes > 1:
        _keep_to_loopback()
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            f"{LOOPBACK}:{place.port}",
            place.processes,
            place.process,
            coordinator_bind_address=f"{LOOPBACK}:{place.port}",  # else all the world could join
            initialization_timeout=place.come + 10,  # the parent gives up first
        )
    jax.devices()


def _keep_to_loopback() -> None:
    """Have the processes' collectives talk over the loopback interface.

    By default they talk over the one that this machine's name stands for. That may be one that all
    the world can reach, and where the name stands for none, as in a sandbox, they do not start. JAX
    has no setting for it, so the function that it calls is given the address.
    """
    made = jaxlib._jax.make_gloo_tcp_collectives
    jaxlib._jax.make_gloo_tcp_collectives = functools.partial(made, hostname=LOOPBACK)


@dataclass(frozen=True, repr=False)
class AddressableShards:
    """An array as one process sees it: what leaves the process in the array's place.

    Attributes:
        shape: the array's global shape, in elements.
        dtype: the NumPy name of its type.
        shards: for each device of the process, by its number among all devices, which block of the
            array it holds, and the block's values.
        layout: which block each device holds, those of all processes; `show` draws it.
    """

    shape: Shape
    dtype: str
    shards: tuple[tuple[int, Block, np.ndarray], ...]
    layout: Layout

    @classmethod
    def of(cls, array: jax.Array) -> "AddressableShards":
        """What this process holds of an array."""
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
        """Refuse to be taken for the whole array."""
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
        block = self.shards[0][2].shape
        said = f"one of its shards is here, {block} on device {numbers[0]}"
        if numbers[1:]:
            said = f"{len(numbers)} of its shards are here, {block} on each of devices "
            said += f"{numbers[0]} to {numbers[-1]}"
        return f"{self.dtype}[{sizes}]: {said}"


def leaving(result: Any) -> Any:
    """A result as it can leave its process, with `AddressableShards` for arrays that are shared.

    An array on one device only, which no other process knows of, is a NumPy array.
    """
    return jax.tree.map(_leaving, result)


def _leaving(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):  # random keys
        value = jax.random.key_data(value)
    if len(value.sharding.device_set) == 1:
        return np.asarray(value)
    return AddressableShards.of(value)


def _block(index: tuple[slice, ...], shape: Shape) -> Block:
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))
