"""Submissions graded by many workers at once, and what becomes of each, as soon as it is known."""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import cloudpickle
from dask.system import CPU_COUNT
from distributed import Client, Future, KilledWorker, get_worker, wait

from autograder.instructor import walls
from autograder.instructor.classroom.schedulers import on_this_machine, standing
from autograder.instructor.pipeline import (
    Facts,
    Outcome,
    Record,
    State,
    Submission,
    failed,
    grade,
)

AHEAD: Final = 2
"""How many submissions are on their way to each worker, so that none waits for the writer."""

LOOK: Final = 2.0
"""How often it is looked, in seconds, whether there still are workers."""

ALONE: Final = 300
"""How many seconds it is waited for a worker, where all have gone."""

VARIABLE: Final = "SHARDLINGS_WORKERS"
"""The variable that says how many workers there are to be on this machine, if nobody else does."""

ONE_AT_A_TIME: Final = threading.Lock()
"""A process grades one submission at a time, however many threads its worker has."""

LOST: Final = (
    "grading failed. The scheduler, or the last of its workers, was lost before this was done. "
    "What was graded is kept; grade again when they are back, or without them."
)

DEADLY: Final = "grading failed. Workers died while they did."

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

    def on_this_machine(self, submissions: int) -> int:
        """How many there are to be for so many submissions."""
        wanted = self.number or int(os.environ.get(VARIABLE, 0)) or CPU_COUNT
        return min(wanted, submissions)


def graded(
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
    number = workers.on_this_machine(len(pairs))
    if not pairs:
        return
    if not workers.scheduler and number <= 1:
        for pair in pairs:
            sent(pair)
            yield pair, _here(*pair, handed_in)
        return
    with ExitStack() as stack:
        place = standing(workers.scheduler) if workers.scheduler else on_this_machine(number)
        client = stack.enter_context(place)
        yield from _Grading(client, handed_in, sent).of(pairs)


def _here(
    student: str, assignment: str, handed_in: Callable[[str, str], tuple[Submission, Facts]]
) -> Outcome:
    """Grade a submission in this process."""
    try:
        return grade(*handed_in(student, assignment))
    except Exception as error:
        return failed(error)


def one_at_a_time(submission: Submission, facts: Facts, sandboxed: bool) -> Outcome:
    """What a worker does."""
    with ONE_AT_A_TIME:
        return replace(grade(submission, facts, sandboxed), where=get_worker().address)


def unpacked(packed: bytes) -> Any:
    """Call a function that was sent with its arguments, as bytes."""
    import pickle

    function, *arguments = pickle.loads(packed)
    return function(*arguments)


# A scheduler unpacks what it passes on, and would have to import all of this package meanwhile. It
# is given bytes, and this function by its code: what is of `__main__` is not sent by its name.
unpacked.__module__ = "__main__"


class _Grading:
    """The submissions that are under way at a scheduler's workers."""

    def __init__(
        self,
        client: Client,
        handed_in: Callable[[str, str], tuple[Submission, Facts]],
        sent: Callable[[Pair], None],
    ) -> None:
        self.client, self.handed_in, self.sent = client, handed_in, sent
        self.running: dict[Future[Outcome], Pair] = {}

    def of(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Outcome]]:
        """Grade these; what its workers died of is tried once more, with nothing beside it."""
        deadly: list[Pair] = []
        for pair, found in self._all(deque(pairs), AHEAD):
            if found is None:
                deadly.append(pair)
            else:
                yield pair, found
        for pair in deadly:
            for _, found in self._all(deque([pair]), 1):
                yield pair, found or _not_graded(DEADLY)

    def _all(self, waiting: deque[Pair], ahead: int) -> Iterator[tuple[Pair, Outcome | None]]:
        """Grade these, and say of each what became of it; nothing where its workers died of it."""
        alone = 0.0
        while waiting or self.running:
            if self.client.status != "running":
                yield from self._lost([*self.running.values(), *waiting])
                return
            there = len(self.client.nthreads())
            while waiting and len(self.running) < max(ahead * there, 1):
                pair = waiting.popleft()
                failed = self._send(pair)
                if failed is not None:
                    yield pair, failed
            alone = 0.0 if there else alone + LOOK
            if alone > ALONE:
                yield from self._lost([*self.running.values(), *waiting])
                return
            for future in self._done():
                yield self.running.pop(future), _result(future)
                future.release()

    def _send(self, pair: Pair) -> Outcome | None:
        """Send a submission to whoever is free; what went wrong, if it could not be."""
        self.sent(pair)
        try:
            packed = cloudpickle.dumps((one_at_a_time, *self.handed_in(*pair), walls.works()))
            future = self.client.submit(unpacked, packed, pure=False)
        except Exception as error:
            return failed(error)
        self.running[future] = pair
        return None

    def _done(self) -> list[Future[Outcome]]:
        """Those that have come to an end, after a while at most."""
        with self.client.as_current(), suppress(TimeoutError, CancelledError):
            wait([*self.running], timeout=LOOK, return_when="FIRST_COMPLETED")
        return [future for future in self.running if future.done()]

    def _lost(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Outcome]]:
        self.running.clear()
        yield from ((pair, _not_graded(LOST)) for pair in pairs)


def _result(future: Future[Outcome]) -> Outcome | None:
    """What became of a submission; nothing where its workers died of it."""
    try:
        found: Outcome = future.result()
        return found
    except KilledWorker:
        return None
    except CancelledError:  # as all are when a scheduler has gone
        return _not_graded(LOST)
    except Exception as error:
        return failed(error)


def _not_graded(why: str) -> Outcome:
    return Outcome(Record(State.FAILED, why), is_final=False)
