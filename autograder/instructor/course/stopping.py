"""Stop a command on Ctrl-C or SIGTERM, and leave no process running.

The first signal raises `KeyboardInterrupt`. Further signals are ignored for ten seconds, so that
cleaning up can finish. A signal after that kills all child processes and exits.
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
"""The time after the first signal in which further signals are ignored."""

RETRY_SECONDS: Final = 0.05
"""The time after which a signal is sent again that came at a bad moment."""

IGNORED_CALLBACKS: Final = frozenset({"__del__", "_xla_gc_callback"})
"""The functions that Python calls by itself; it would ignore an interrupt in one of them."""

LOOPS_LOG: Final = logging.getLogger("asyncio")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

STOPPED_STATUSES: Final = frozenset(128 + number for number in SIGNALS)
"""Exit statuses of a command that was stopped, as in a shell."""

STOPPED: Final = (
    "Stopped. Everything that was finished is kept. To go on from there, run the same command "
    "again, without AGAIN=1, --again or --force, which would start from the beginning."
)


class _StopHandler:
    """The signal handler, which remembers the first signal."""

    def __init__(self) -> None:
        self.status, self.since = 0, 0.0
        self.earlier_children = frozenset(psutil.Process().children())

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.status and _is_in_callback(frame):
            threading.Timer(RETRY_SECONDS, signal.raise_signal, (number,)).start()
        elif not self.status:
            self.status, self.since = 128 + number, time.monotonic()
            # an interrupted event loop would log an error for each of its tasks
            LOOPS_LOG.setLevel(logging.CRITICAL + 1)
            raise KeyboardInterrupt
        elif time.monotonic() > self.since + CLEANUP_SECONDS:
            self.end_children()
            os._exit(self.status)

    def end_children(self) -> None:
        """Kill the processes that were started since this was created, and their descendants.

        Earlier child processes stay, for callers that go on after a stop, such as tests.
        """
        children = [c for c in psutil.Process().children() if c not in self.earlier_children]
        children = [child for child in children if not _is_tracker(child)]
        started = [*children, *(each for child in children for each in _descendants(child))]
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(started, timeout=CLEANUP_SECONDS / 2)


@contextmanager
def stop_on_signal() -> Iterator[None]:
    """Let Ctrl-C or SIGTERM stop a `with` block and all processes that it has started.

    Raises:
        SystemExit: the block was stopped. The status is as in a shell, 130 for Ctrl-C. The caller
            reports what was kept, and reraises it.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    stop, level = _StopHandler(), LOOPS_LOG.level
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        stop.end_children()
        sys.exit(stop.status or 128 + signal.SIGINT)
    finally:
        LOOPS_LOG.setLevel(level)
        if not stop.status:  # otherwise it is exiting, which must not be interrupted
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_in_callback(frame: FrameType | None) -> bool:
    """Check whether a frame is within a function whose errors Python prints and ignores."""
    while frame is not None and frame.f_code.co_name not in IGNORED_CALLBACKS:
        frame = frame.f_back
    return frame is not None


def _is_tracker(process: psutil.Process) -> bool:
    """Check whether a process is multiprocessing's, which would complain, and start it again."""
    try:
        return any("multiprocessing.resource_tracker" in each for each in process.cmdline())
    except psutil.Error:
        return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found
