"""Stop in order on Ctrl-C or SIGTERM, and leave no process running.

The first signal raises `KeyboardInterrupt` wherever it arrives. Further ones are ignored for ten
seconds, so that cleaning up can end; one after that kills all child processes and exits.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import psutil

CLEANUP_SECONDS: Final = 10
"""Signals in so many seconds after the first one are ignored."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

STATUSES: Final = frozenset(128 + number for number in SIGNALS)
"""What a command ends with that was stopped, as a shell says it."""

STOPPED: Final = (
    "Stopped. What was graded is kept, and what was at work has its files of before, and is graded "
    "the next time. To go on from there, run the same command again, without AGAIN=1, --again or "
    "--force, with which it would begin anew."
)


class _Stop:
    """What is done when a signal comes."""

    def __init__(self) -> None:
        self.status, self.since = 0, 0.0
        self.there_before = frozenset(psutil.Process().children())

    def __call__(self, number: int, _: FrameType | None) -> None:
        if not self.status:
            self.status, self.since = 128 + number, time.monotonic()
            # a loop that was left says of each of its tasks that nobody asked how it ended
            logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
            raise KeyboardInterrupt
        if time.monotonic() > self.since + CLEANUP_SECONDS:
            self.end_children()
            os._exit(self.status)

    def end_children(self) -> None:
        """Kill the processes that were started since, and those that they have started.

        What ran before stays. Whoever goes on after a stop, as a test does, still has its own.
        """
        own = [c for c in psutil.Process().children() if c not in self.there_before]
        started = [*own, *(each for child in own for each in _descendants(child))]
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(started, timeout=CLEANUP_SECONDS / 2)


@contextmanager
def stoppable() -> Iterator[None]:
    """Have what is done within stopped by Ctrl-C, with all the processes that it has started.

    Raises:
        SystemExit: it was; the status is a shell's, 130 for Ctrl-C. The caller says what is kept,
            and lets it pass.
    """
    if threading.current_thread() is not threading.main_thread():  # where no signal comes
        yield
        return
    stop = _Stop()
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        stop.end_children()
        sys.exit(stop.status or 128 + signal.SIGINT)
    finally:
        if not stop.status:  # else it is on its way out, and is not to be stopped in that
            for number, handler in before.items():
                signal.signal(number, handler)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found
