"""Submissions graded by many workers at once, and what becomes of each, as soon as it is known."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Final

from autograder.instructor.classroom.schedulers import (
    Pool,
    on_this_machine,
    standing,
    was_deadly,
)
from autograder.instructor.pipeline import (
    Facts,
    Outcome,
    Record,
    State,
    Submission,
    failed,
    grade,
)
from autograder.instructor.walls import has_bubblewrap

LOOK: Final = 2.0
"""How often it is looked, in seconds, whether there still are workers."""

ALONE: Final = 300
"""How many seconds it is waited for a worker, where all have gone."""

VARIABLE: Final = "SHARDLINGS_WORKERS"
"""The variable that says how many workers there are to be on this machine, if nobody else does."""

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
        from dask.system import CPU_COUNT  # the cores that a container may use, and no others

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
    if not pairs:
        return
    number = workers.on_this_machine(len(pairs))
    place = standing(workers.scheduler) if workers.scheduler else on_this_machine(number)
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
                yield pair, found or _not_graded(DEADLY)

    def _all(self, waiting: deque[Pair], ahead: int) -> Iterator[tuple[Pair, Outcome | None]]:
        """Grade these, and say of each what became of it; nothing where its workers died of it."""
        alone = 0.0
        while waiting or self.running:
            there = self.pool.number()
            alone = 0.0 if there else alone + LOOK
            if there is None or alone > ALONE:
                yield from self._lost([*self.running.values(), *waiting])
                return
            while waiting and len(self.running) < max(ahead * there, 1):
                pair = waiting.popleft()
                failed = self._send(pair)
                if failed is not None:
                    yield pair, failed
            for future in wait(self.running, LOOK, FIRST_COMPLETED).done:
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
        yield from ((pair, _not_graded(LOST)) for pair in pairs)


def _result(future: "Future[Outcome]") -> Outcome | None:
    """What became of a submission; nothing where its workers died of it."""
    try:
        return future.result()
    except CancelledError:  # as all are when a scheduler has gone
        return _not_graded(LOST)
    except Exception as error:
        return None if was_deadly(error) else failed(error)


def _not_graded(why: str) -> Outcome:
    return Outcome(Record(State.FAILED, why), is_final=False)
