"""Workers: processes on this machine, or those of a Dask scheduler.

A worker is a process and not a thread, because libraries keep settings for a whole interpreter:
matplotlib's drawing settings and CPython's parser are two that threads broke. Each worker has one
warm server for kernels and one for judges. One that dies is replaced.

Anybody who can reach a scheduler can run code on its workers, so a scheduler on another machine
must use TLS. One on this machine may do without, with a warning.
"""

import ipaddress
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from autograder.instructor.commands import ProcessExecutor
from autograder.instructor.pipeline import (
    GRADING_FAILED,
    AssignmentFacts,
    Outcome,
    Record,
    State,
    Submission,
    failed_outcome,
    grade,
)
from autograder.instructor.sandbox import has_bubblewrap
from shardlings.errors import ShortError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS: Final = 30
"""Time for a scheduler to answer, and again for it to have a worker."""

HOW_TO_CONNECT: Final = (
    "Start scheduler and workers with certificates (dask scheduler --tls-ca-file … --tls-cert … "
    "--tls-key …), name the same files here by DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__"
    "CERT and …__CLIENT__KEY, and give its address as tls://…"
)
"""Advice on a scheduler on another machine."""

TLS_WARNING: Final = (
    "The scheduler at {address} does not use TLS, so anybody with an account on this machine can "
    "reach it, read submissions, and send any grade. If anybody else has one, use TLS. "
)
"""Printed before such a scheduler is used, followed by `HOW_TO_CONNECT`."""


class WorkersError(ShortError, ValueError):
    """The number of workers is not a number; the message says which setting it is from."""


class SchedulerError(ShortError, RuntimeError):
    """A scheduler's address is not allowed, or it does not answer; the message says what to do."""


@dataclass(frozen=True)
class Pool:
    """An executor and its workers.

    Attributes:
        executor: runs the gradings.
        count_workers: returns how many workers there are now; None if the scheduler is lost.
        ahead: how many submissions each worker is given at a time; with two, none is idle.
    """

    executor: Executor
    count_workers: Callable[[], int | None]
    ahead: int = 2


@contextmanager
def open_local_pool(number: int) -> Iterator[Pool]:
    """Open a pool of processes on this machine."""
    executor = ProcessExecutor(number)
    try:
        yield Pool(executor, lambda: number)
    except BaseException:  # after Ctrl-C nobody waits for running gradings: they are killed
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()  # waits, or Python's exit could write to a pipe that is being closed


@contextmanager
def connect_to_scheduler(address: str) -> Iterator[Pool]:
    """Open a pool of the workers of a running scheduler.

    Raises:
        SchedulerError: its address is not allowed, it does not answer, or it has no workers.
    """
    check_address(address)
    from distributed import Client, Security  # takes half a second, and few need it

    security = Security(require_encryption=address.startswith("tls://"))
    try:
        client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:
        raise SchedulerError(
            f"The scheduler at {address} does not answer as it should: {_first_cause(error)}. "
            f"Is it there, and are its certificates and those named here of one authority?"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise SchedulerError(
                f"The scheduler at {address} has no workers. Start one: dask worker {address} "
                f"--nworkers auto --nthreads 1"
            ) from None
        yield Pool(
            _PicklingExecutor(client.get_executor(pure=False)), lambda: _count_workers(client)
        )


class _PicklingExecutor(Executor):
    """A scheduler's executor that is given pickled calls.

    A scheduler unpickles what it passes on, so that without this it would import this package.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def submit(  # type: ignore[override]  # nobody here names arguments
        self, function: Callable[..., Any], /, *arguments: Any
    ) -> "Future[Any]":
        """Call a function on a worker."""
        import cloudpickle

        packed = cloudpickle.dumps((function, *arguments))
        return self.executor.submit(grade_on_worker, packed)


def grade_on_worker(packed: bytes) -> Any:
    """Call a pickled grading function on a worker, and add the worker's address to the outcome."""
    import dataclasses
    import pickle

    from distributed import get_worker

    grade, *arguments = pickle.loads(packed)
    return dataclasses.replace(grade(*arguments), worker=get_worker().address)


grade_on_worker.__module__ = "__main__"
"""So that it is pickled by value, as functions of `__main__` are, and not by its name."""


def _count_workers(client: "Client") -> int | None:
    """Count a scheduler's workers, which grade one submission at a time; None if it is lost."""
    return len(client.nthreads()) if client.status == "running" else None


def has_killed_workers(error: Exception) -> bool:
    """Check whether an error says that a worker died, or of a scheduler's, several in turn."""
    if isinstance(error, BrokenExecutor):
        return True
    distributed = sys.modules.get("distributed")  # not imported unless there is a scheduler
    return distributed is not None and isinstance(error, distributed.KilledWorker)


def describe_risk(address: str) -> str:
    """Return the warning for a scheduler without TLS; empty for any other address, or none."""
    parts = urlsplit(address)
    is_open = parts.scheme == "tcp" and _is_loopback(parts.hostname or "")
    return f"{TLS_WARNING.format(address=address)}{HOW_TO_CONNECT}." if is_open else ""


def check_address(address: str) -> None:
    """Check that a scheduler's address uses TLS or is on this machine.

    Raises:
        SchedulerError: the address is malformed or not allowed, or certificates are not configured.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname:
        raise SchedulerError(
            f"{address} is not the address of a scheduler. Give one such as tls://host:8786, or, "
            f"on this machine and if nobody else has an account here, tcp://127.0.0.1:8786."
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


def _first_cause(error: Any) -> str:
    """Return an error's first cause in one line; Dask's says what is wrong with certificates."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__
    return f"{type(first).__name__}: {first}".splitlines()[0]


POLL_SECONDS: Final = 2.0
"""The time between two checks of the number of workers."""

NO_WORKER_SECONDS: Final = 300
"""The time limit for a new worker after the last one is lost."""

WORKERS_VARIABLE: Final = "SHARDLINGS_WORKERS"
"""The environment variable with the default number of workers on this machine."""

WORKERS_LOST: Final = (
    f"{GRADING_FAILED}The scheduler, or the last of its workers, was lost before this was done. "
    "What was graded is kept; grade again when they are back, or without them."
)

WORKERS_DIED: Final = (
    f"{GRADING_FAILED}The worker that graded it died, twice. Did the machine run out of memory?"
)

Pair = tuple[str, str]
"""The student and the assignment of a submission."""


@dataclass(frozen=True)
class Workers:
    """The workers that were asked for.

    Attributes:
        scheduler: the address of a running scheduler; empty for workers on this machine.
        number: the number of workers on this machine; 0 for one on each core.
    """

    scheduler: str = ""
    number: int = 0

    def count_local_workers(self) -> int:
        """Return how many workers on this machine to use at most.

        Raises:
            WorkersError: the environment variable with the default is not a whole number.
        """
        from dask.system import CPU_COUNT  # only the cores that a container may use

        default = os.environ.get(WORKERS_VARIABLE, "").strip() or "0"
        if not (default.isascii() and default.isdigit()):
            raise WorkersError(
                f"{WORKERS_VARIABLE} is the number of workers on this machine, a whole number, and "
                f"not {default!r}."
            )
        return self.number or int(default) or CPU_COUNT


def grade_in_pool(
    pairs: Sequence[Pair],
    read: Callable[[str, str], tuple[Submission, AssignmentFacts]],
    pool: Pool,
    begin: Callable[[Pair], None],
) -> Generator[tuple[Pair, Outcome]]:
    """Have workers grade submissions, and yield each outcome as it arrives.

    Each that the machine failed is tried once more, on its own.

    Args:
        pairs: the submissions, in the order in which to start them.
        read: reads a submission and the facts of its assignment, when its turn comes.
        pool: the workers that grade.
        begin: called with each submission when it starts.
    """
    grading, failed = _PoolGrading(pool, read, begin), dict[Pair, Outcome]()
    for pair, outcome in grading.grade_once(deque(pairs), pool.ahead):
        if outcome is None or not outcome.is_final:
            failed[pair] = outcome or _not_graded(WORKERS_DIED)
        else:
            yield pair, outcome
    for pair, first in failed.items():
        if not pool.count_workers():  # no worker is left that could try again
            yield pair, first
            continue
        for _, outcome in grading.grade_once(deque([pair]), 1):
            yield pair, outcome or _not_graded(WORKERS_DIED)


class _PoolGrading:
    """The submissions that a pool is grading."""

    def __init__(
        self,
        pool: Pool,
        read: Callable[[str, str], tuple[Submission, AssignmentFacts]],
        begin: Callable[[Pair], None],
    ) -> None:
        self.pool, self.read, self.begin = pool, read, begin
        self.running: dict[Future[Outcome], Pair] = {}

    def grade_once(self, waiting: deque[Pair], ahead: int) -> Iterator[tuple[Pair, Outcome | None]]:
        """Grade submissions; the outcome of one that killed its workers is None."""
        seconds_without_workers = 0.0
        while waiting or self.running:
            number = self.pool.count_workers()
            seconds_without_workers = 0.0 if number else seconds_without_workers + POLL_SECONDS
            if number is None or seconds_without_workers > NO_WORKER_SECONDS:
                lost = [*self.running.values(), *waiting]
                self.running.clear()
                yield from ((pair, _not_graded(WORKERS_LOST)) for pair in lost)
                return
            while waiting and len(self.running) < max(ahead * number, 1):
                pair = waiting.popleft()
                failure = self._send(pair)
                if failure is not None:
                    yield pair, failure
            for future in wait(self.running, POLL_SECONDS, FIRST_COMPLETED).done:
                yield self.running.pop(future), _read_outcome(future)

    def _send(self, pair: Pair) -> Outcome | None:
        """Send a submission to the pool; if it cannot be sent, return that as its outcome."""
        self.begin(pair)
        try:
            submission, facts = self.read(*pair)
            future = self.pool.executor.submit(grade, submission, facts, has_bubblewrap())
        except Exception as error:
            return failed_outcome(error)
        self.running[future] = pair
        return None


def _read_outcome(future: "Future[Outcome]") -> Outcome | None:
    """Return a submission's outcome; None if it killed its workers."""
    try:
        return future.result()
    except CancelledError:  # the scheduler is lost
        return _not_graded(WORKERS_LOST)
    except Exception as error:
        return None if has_killed_workers(error) else failed_outcome(error)


def _not_graded(why: str) -> Outcome:
    return Outcome(Record(State.FAILED, why), is_final=False)
