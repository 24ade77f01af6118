"""Stop a command on Ctrl-C or SIGTERM, and leave no process running.

The first signal raises `KeyboardInterrupt`. Python drops it in `__del__` and in callbacks of weak
references, and importing a library in C may turn it into another error, so it is sent again every
tenth of a second until the command ends. Further signals are ignored for ten seconds, so that
cleaning up can finish. A signal after that kills all child processes and exits.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Final

import psutil

CLEANUP_SECONDS: Final = 10
"""The time after the first signal in which further signals are ignored."""

REPEAT_SECONDS: Final = 0.1
"""The time after which to look whether an interrupt was dropped."""

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
        self.ended, self.is_repeated = threading.Event(), False
        self.repeating: threading.Thread | None = None
        self.print_ignored = sys.unraisablehook
        self.earlier_children = frozenset(psutil.Process().children())

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.status:
            self.status, self.since = 128 + number, time.monotonic()
            # an interrupted event loop would log an error for each of its tasks
            LOOPS_LOG.setLevel(logging.CRITICAL + 1)
            self.repeating = threading.Thread(target=self._repeat, args=(number,), daemon=True)
            self.repeating.start()
            raise KeyboardInterrupt
        elif self.is_repeated:
            self.is_repeated = False
            if not self.ended.is_set() and not _is_unwinding():
                raise KeyboardInterrupt
        elif time.monotonic() > self.since + CLEANUP_SECONDS:
            self.end_children()
            os._exit(self.status)

    def _repeat(self, number: int) -> None:
        """Send the first signal again until the block has ended."""
        while not self.ended.wait(REPEAT_SECONDS):
            self.is_repeated = True
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def end_repeating(self) -> None:
        """Send no further signal, which the next handler would take for a new one."""
        self.ended.set()
        if self.repeating is not None:
            self.repeating.join()

    def report_ignored(self, ignored: "sys.UnraisableHookArgs") -> None:
        """Print an error that Python ignores, unless it is our interrupt, which is repeated."""
        if not (self.status and issubclass(ignored.exc_type, KeyboardInterrupt)):
            self.print_ignored(ignored)

    def has_stopped(self, error: BaseException) -> bool:
        """Check whether an error is an interrupt, or what was made of one."""
        return bool(self.status) or isinstance(error, KeyboardInterrupt)

    @contextmanager
    def ending_children(self) -> Iterator[None]:
        """End all processes that a `with` block has started, if it is interrupted."""
        try:
            yield
        except BaseException as error:
            if self.has_stopped(error):
                self.end_children()
            raise

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
def stop_on_signal(around: AbstractContextManager[None] | None = None) -> Iterator[None]:
    """Let Ctrl-C or SIGTERM stop a `with` block and all processes that it has started.

    Args:
        around: a context that is entered first, and left when these processes have ended.

    Raises:
        SystemExit: the block was stopped. The status is as in a shell, 130 for Ctrl-C. The caller
            reports what was kept, and reraises it.
    """
    around = around or nullcontext()
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        with around:
            yield
        return
    stop, level = _StopHandler(), LOOPS_LOG.level
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        sys.unraisablehook = stop.report_ignored
        for number in SIGNALS:
            signal.signal(number, stop)
        with around, stop.ending_children():
            yield
    except BaseException as error:
        if not stop.has_stopped(error):
            raise
        sys.exit(stop.status or 128 + signal.SIGINT)
    finally:
        stop.end_repeating()
        LOOPS_LOG.setLevel(level)
        sys.unraisablehook = stop.print_ignored
        if not stop.status:  # otherwise it is exiting, which must not be interrupted
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_unwinding() -> bool:
    """Check whether an interrupt is being handled, and with it what has to be cleaned up."""
    error = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _is_tracker(process: psutil.Process) -> bool:
    """Check whether a process is multiprocessing's, which would complain, and start it again."""
    try:
        return any("multiprocessing.resource_tracker" in each for each in process.cmdline())
    except psutil.Error:
        return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        children: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return children
