"""Pools of workers: threads on this machine, or the workers of a Dask scheduler.

Threads are enough here: what takes long runs in processes of its own. Whoever can reach a scheduler
can have its workers do anything, so one on another machine is only spoken to with TLS. One that
stands on this machine may be without, which is said.
"""

import ipaddress
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from distributed import Client

PATIENCE: Final = 30
"""How many seconds a scheduler has to answer, and to have a worker."""

HOW: Final = (
    "Start scheduler and workers with certificates (dask scheduler --tls-ca-file … --tls-cert … "
    "--tls-key …), name the same files here by DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__"
    "CERT and …__CLIENT__KEY, and give its address as tls://…"
)
"""How a scheduler on another machine is reached."""


OPEN: Final = (
    "The scheduler at {address} is without TLS, so whoever has an account on this machine can "
    "reach it, read what is handed in, and send any grade. Where somebody else has one, use TLS. "
)
"""What is said before it is used, with how it is done otherwise."""


class SchedulerError(RuntimeError):
    """A scheduler is not to be used, or cannot be; the message says why, and what to do."""


@dataclass(frozen=True)
class Pool:
    """An executor, and how many workers it has.

    Attributes:
        executor: takes submissions to grade.
        number: counts its workers at the moment; None where they are lost for good.
        ahead: the submissions that each worker is given at a time, so that none waits for more.
    """

    executor: Executor
    number: Callable[[], int | None]
    ahead: int = 2


class _AtOnce(Executor):
    """Does what it is given before it goes on, so that Ctrl-C comes where the work is."""

    def submit(  # type: ignore[override]  # nobody here names arguments
        self, function: Callable[..., Any], /, *arguments: Any
    ) -> "Future[Any]":
        """Call a function."""
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


@contextmanager
def on_this_machine(number: int) -> Iterator[Pool]:
    """Make a pool of so many threads; a pool of one runs in the caller's thread."""
    if number == 1:
        yield Pool(_AtOnce(), lambda: 1, ahead=1)
        return
    executor = ThreadPoolExecutor(number)
    try:
        yield Pool(executor, lambda: number)
    finally:  # after Ctrl-C nobody waits for what is at work, whose processes are ended
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def standing(address: str) -> Iterator[Pool]:
    """Make a pool of the workers of a scheduler that runs already.

    Raises:
        SchedulerError: it may not be spoken to, does not answer, or has no workers.
    """
    check_address(address)
    from distributed import Client, Security  # half a second, which few need

    security = Security(require_encryption=address.startswith("tls://"))
    try:
        client = Client(address, security=security, timeout=PATIENCE, set_as_default=False)
    except Exception as error:
        raise SchedulerError(
            f"The scheduler at {address} does not answer as it should: {_said(error)}. Is it "
            f"there, and are its certificates and those named here of one authority?"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise SchedulerError(
                f"The scheduler at {address} has no workers. Start one: dask worker {address} "
                f"--nworkers auto --nthreads 1"
            ) from None
        yield Pool(_Packing(client.get_executor(pure=False)), lambda: _number(client))


class _Packing(Executor):
    """A scheduler's executor, which is given bytes.

    A scheduler unpacks what it passes on, and would have to import all of this package meanwhile.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def submit(  # type: ignore[override]  # nobody here names arguments
        self, function: Callable[..., Any], /, *arguments: Any
    ) -> "Future[Any]":
        """Have a function called."""
        import cloudpickle

        packed = cloudpickle.dumps((function, *arguments))
        return self.executor.submit(graded_there, packed)


def graded_there(packed: bytes) -> Any:
    """Call a function that grades, which was sent with its arguments as bytes; and say where."""
    import dataclasses
    import pickle

    from distributed import get_worker

    grade, *arguments = pickle.loads(packed)
    return dataclasses.replace(grade(*arguments), where=get_worker().address)


graded_there.__module__ = "__main__"
"""It is sent by its code then: what is of `__main__` is not sent by its name."""


def _number(client: "Client") -> int | None:
    """Count the submissions that a scheduler's workers can grade at once; None if it is lost."""
    return sum(client.nthreads().values()) if client.status == "running" else None


def was_deadly(error: Exception) -> bool:
    """Check whether an error says that a task killed several workers in turn."""
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def warning_of(address: str) -> str:
    """What is to be said before a scheduler is used; empty where it has TLS, or there is none."""
    parts = urlsplit(address)
    is_open = parts.scheme == "tcp" and _is_loopback(parts.hostname or "")
    return f"{OPEN.format(address=address)}{HOW}." if is_open else ""


def check_address(address: str) -> None:
    """See that an address is one that nobody can listen to, or pretend to be.

    Raises:
        SchedulerError: it is not.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname:
        raise SchedulerError(
            f"{address} is no address of a scheduler. One is tls://host:8786, or, on this machine "
            f"alone and where nobody else has an account, tcp://127.0.0.1:8786."
        )
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname):
        raise SchedulerError(
            f"{address} is on another machine and without TLS: whoever listens would read what is "
            f"handed in, and whoever answers could send any grades. {HOW}"
        )
    import dask

    if parts.scheme == "tls" and not dask.config.get("distributed.comm.tls.ca-file", None):
        raise SchedulerError(f"No certificates are named here for {address}. {HOW}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _said(error: Any) -> str:
    """An error in a line, with what caused it: Dask tells of certificates there."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__
    return f"{type(first).__name__}: {first}".splitlines()[0]
