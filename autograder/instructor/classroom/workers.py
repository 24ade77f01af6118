"""Grade submissions with many workers at once: threads here, or the workers of a Dask scheduler.

Threads are enough on one machine, because kernels and judges are processes of their own. Anybody
who can reach a scheduler can run code on its workers, so a scheduler on another machine must use
TLS. One on this machine may do without, with a warning.
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

import os
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait

from autograder.instructor.pipeline import (
    Facts,
    Outcome,
    Record,
    State,
    Submission,
    failed,
    grade,
)
from autograder.instructor.sandbox import has_bubblewrap

CONNECT_SECONDS: Final = 30
"""Time for a scheduler to answer and to have a worker."""

HOW_TO_CONNECT: Final = (
    "Start scheduler and workers with certificates (dask scheduler --tls-ca-file … --tls-cert … "
    "--tls-key …), name the same files here by DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__"
    "CERT and …__CLIENT__KEY, and give its address as tls://…"
)
"""How a scheduler on another machine is reached."""


TLS_WARNING: Final = (
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


class _CallingThreadExecutor(Executor):
    """Does what it is given before it goes on, so that Ctrl-C comes where the work is."""

    def submit(  # type: ignore[override]  # nobody here names arguments
        self, function: Callable[..., Any], /, *arguments: Any
    ) -> "Future[Any]":
        """Call a function."""
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


@contextmanager
def open_local_pool(number: int) -> Iterator[Pool]:
    """Make a pool of so many threads; a pool of one runs in the caller's thread."""
    if number == 1:
        yield Pool(_CallingThreadExecutor(), lambda: 1, ahead=1)
        return
    executor = ThreadPoolExecutor(number)
    try:
        yield Pool(executor, lambda: number)
    finally:  # after Ctrl-C nobody waits for what is at work, whose processes are ended
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def connect_to_scheduler(address: str) -> Iterator[Pool]:
    """Make a pool of the workers of a scheduler that runs already.

    Raises:
        SchedulerError: it may not be spoken to, does not answer, or has no workers.
    """
    check_address(address)
    from distributed import Client, Security  # half a second, which few need

    security = Security(require_encryption=address.startswith("tls://"))
    try:
        client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:
        raise SchedulerError(
            f"The scheduler at {address} does not answer as it should: {_said(error)}. Is it "
            f"there, and are its certificates and those named here of one authority?"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise SchedulerError(
                f"The scheduler at {address} has no workers. Start one: dask worker {address} "
                f"--nworkers auto --nthreads 1"
            ) from None
        yield Pool(_PicklingExecutor(client.get_executor(pure=False)), lambda: _number(client))


class _PicklingExecutor(Executor):
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
        return self.executor.submit(grade_on_worker, packed)


def grade_on_worker(packed: bytes) -> Any:
    """Call a function that grades, which was sent with its arguments as bytes; and say where."""
    import dataclasses
    import pickle

    from distributed import get_worker

    grade, *arguments = pickle.loads(packed)
    return dataclasses.replace(grade(*arguments), where=get_worker().address)


grade_on_worker.__module__ = "__main__"
"""It is sent by its code then: what is of `__main__` is not sent by its name."""


def _number(client: "Client") -> int | None:
    """Count the submissions that a scheduler's workers can grade at once; None if it is lost."""
    return sum(client.nthreads().values()) if client.status == "running" else None


def has_killed_workers(error: Exception) -> bool:
    """Check whether an error says that a task killed several workers in turn."""
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def describe_risk(address: str) -> str:
    """What is to be said before a scheduler is used; empty where it has TLS, or there is none."""
    parts = urlsplit(address)
    is_open = parts.scheme == "tcp" and _is_loopback(parts.hostname or "")
    return f"{TLS_WARNING.format(address=address)}{HOW_TO_CONNECT}." if is_open else ""


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
            f"handed in, and whoever answers could send any grades. {HOW_TO_CONNECT}"
        )
    import dask

    if parts.scheme == "tls" and not dask.config.get("distributed.comm.tls.ca-file", None):
        raise SchedulerError(f"No certificates are named here for {address}. {HOW_TO_CONNECT}")


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


POLL_SECONDS: Final = 2.0
"""How often it is checked whether there still are workers."""

NO_WORKER_SECONDS: Final = 300
"""How long to wait for a worker after all have gone."""

WORKERS_VARIABLE: Final = "SHARDLINGS_WORKERS"
"""The variable that says how many workers there are to be on this machine, if nobody else does."""

WORKERS_LOST: Final = (
    "grading failed. The scheduler, or the last of its workers, was lost before this was done. "
    "What was graded is kept; grade again when they are back, or without them."
)

WORKERS_DIED: Final = "grading failed. Workers died while they did."

Pair = tuple[str, str]
"""A student, and an assignment that they handed in."""


@dataclass(frozen=True)
class Workers:
    """Who is to grade.

    Attributes:
        scheduler: the address of one that stands; empty for workers on this machine.
        number: how many there are to be on this machine; 0 for one on each of its cores.
    """

    scheduler: str = ""
    number: int = 0

    def count_local_workers(self, submissions: int) -> int:
        """How many there are to be for so many submissions."""
        from dask.system import CPU_COUNT  # the cores that a container may use, and no others

        wanted = self.number or int(os.environ.get(WORKERS_VARIABLE, 0)) or CPU_COUNT
        return min(wanted, submissions)


def grade_in_pool(
    pairs: Sequence[Pair],
    handed_in: Callable[[str, str], tuple[Submission, Facts]],
    workers: Workers,
    sent: Callable[[Pair], None],
) -> Generator[tuple[Pair, Outcome]]:
    """Have submissions graded.

    Args:
        pairs: which, and in what order they are to be begun.
        handed_in: what is sent of one; it is asked only when its turn comes.
        workers: by whom.
        sent: is told of each when it is begun.

    Raises:
        SchedulerError: a scheduler is not to be used, or cannot be.
    """
    if not pairs:
        return
    number = workers.count_local_workers(len(pairs))
    place = (
        connect_to_scheduler(workers.scheduler) if workers.scheduler else open_local_pool(number)
    )
    with place as pool:
        yield from _Grading(pool, handed_in, sent).of(pairs)


class _Grading:
    """The submissions that are under way."""

    def __init__(
        self,
        pool: Pool,
        handed_in: Callable[[str, str], tuple[Submission, Facts]],
        sent: Callable[[Pair], None],
    ) -> None:
        self.pool, self.handed_in, self.sent = pool, handed_in, sent
        self.running: dict[Future[Outcome], Pair] = {}

    def of(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Outcome]]:
        """Grade these; what its workers died of is tried once more, with nothing beside it."""
        deadly: list[Pair] = []
        for pair, found in self._all(deque(pairs), self.pool.ahead):
            if found is None:
                deadly.append(pair)
            else:
                yield pair, found
        for pair in deadly:
            for _, found in self._all(deque([pair]), 1):
                yield pair, found or _not_graded(WORKERS_DIED)

    def _all(self, waiting: deque[Pair], ahead: int) -> Iterator[tuple[Pair, Outcome | None]]:
        """Grade these, and say of each what became of it; nothing where its workers died of it."""
        alone = 0.0
        while waiting or self.running:
            there = self.pool.number()
            alone = 0.0 if there else alone + POLL_SECONDS
            if there is None or alone > NO_WORKER_SECONDS:
                yield from self._lost([*self.running.values(), *waiting])
                return
            while waiting and len(self.running) < max(ahead * there, 1):
                pair = waiting.popleft()
                failed = self._send(pair)
                if failed is not None:
                    yield pair, failed
            for future in wait(self.running, POLL_SECONDS, FIRST_COMPLETED).done:
                yield self.running.pop(future), _result(future)

    def _send(self, pair: Pair) -> Outcome | None:
        """Send a submission to whoever is free; what went wrong, if it could not be."""
        self.sent(pair)
        try:
            submission, facts = self.handed_in(*pair)
            future = self.pool.executor.submit(grade, submission, facts, has_bubblewrap())
        except Exception as error:
            return failed(error)
        self.running[future] = pair
        return None

    def _lost(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Outcome]]:
        self.running.clear()
        yield from ((pair, _not_graded(WORKERS_LOST)) for pair in pairs)


def _result(future: "Future[Outcome]") -> Outcome | None:
    """What became of a submission; nothing where its workers died of it."""
    try:
        return future.result()
    except CancelledError:  # as all are when a scheduler has gone
        return _not_graded(WORKERS_LOST)
    except Exception as error:
        return None if has_killed_workers(error) else failed(error)


def _not_graded(why: str) -> Outcome:
    return Outcome(Record(State.FAILED, why), is_final=False)
