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
from typing import Any, Final

import cloudpickle
import jax
import jaxlib._jax

from autograder import devices
from autograder.errors import Fault, TheirError, first_line, their_error, theirs, what_it_raised
from autograder.processes.addressable import leaving
from autograder.processes.cases import NotHereError

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
    """What all workers are to do.

    Attributes:
        function: what is called.
        arguments: makes its arguments, in the worker, since devices cannot be sent.
        file: where the function was written, as Python calls the cell.
        cells: the text of that cell, and of others that it uses, for messages that quote it.
        axes: the names of the mesh axes that it is to know, for messages too.
    """

    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    file: str
    cells: dict[str, tuple[str, ...]]
    axes: tuple[str, ...]


def work(place: Place, job: bytes, to_parent: Connection) -> None:
    """Come up, join the others, call the function, and wait to be ended.

    What it sends: `("up",)`, and `("ready",)` once all are; then `("came", result, printed)`,
    `("raised", diagnosis, sentence, printed)`, or `("failed", fault)`. It never ends by itself
    after that, since the others may still need its devices.
    """
    _leave_nothing_behind()
    _write_to(place)
    try:
        to_parent.send(("up",))
        _join(place)
        to_parent.send(("ready",))
        to_parent.send(_done(cloudpickle.loads(job)))
    except Exception as error:
        to_parent.send(("failed", Fault.of(error)))
    threading.Event().wait()


def _done(job: Job) -> tuple[Any, ...]:
    """What became of a job: the message for the parent."""
    for file, lines in job.cells.items():
        linecache.cache[file] = (0, None, list(lines), file)
    arguments = job.arguments()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), theirs():
            result = job.function(*arguments)
            jax.block_until_ready(result)
            jax.effects_barrier()  # what jax.debug.print says
            result = leaving(result)
    except (KeyboardInterrupt, GeneratorExit) as error:
        return ("raised", "raised", f"Your function raised {type(error).__name__}.", "")
    except TheirError as raised:
        if isinstance(raised.error, NotImplementedError) and not str(raised.error):
            return ("came", cloudpickle.dumps(...), printed.getvalue())
        why, said = _raised(raised.error, job)
        return ("raised", why, said, printed.getvalue())
    try:
        return ("came", cloudpickle.dumps(result), printed.getvalue())
    except Exception as error:
        said = (
            f"What your function returns cannot leave its process: {error}. Return what is to be "
            f"known of it, such as its str(…)."
        )
        return ("raised", "cannot-leave", said, printed.getvalue())


def _raised(error: BaseException, job: Job) -> tuple[str, str]:
    """A diagnosis of an error, and what is said of it."""
    if isinstance(error, NotHereError):
        return "not-here", f"Your function raised {their_error(error, job.function)}."
    if isinstance(error, FileNotFoundError):
        return "file-not-found", f"Your function raised {their_error(error, job.function)}."
    words = first_line(error)
    elsewhere = any(said in words for said in ELSEWHERE)
    why = "not-addressable" if elsewhere else "raised"
    if why == "raised" and _speaks(error):
        return what_it_raised(error, job.function, job.axes)
    return why, f"Your function raised {their_error(error, job.function)}."


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
