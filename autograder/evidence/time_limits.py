"""Call a learner's function within a time limit, and print what `check` is waiting for.

A thread watches the call. After a few seconds it prints what `check` is waiting for, and at the
limit it raises an exception in the calling thread: from a signal handler, if that is the main
thread on Linux or macOS, and otherwise with `PyThreadState_SetAsyncExc`. Both need a thread that
executes Python. A loop in C code (`sum(range(10**12))`) or a JAX program that does not end goes on
until the kernel is restarted. If it holds the GIL, nothing is printed either.

The limit is on the thread's CPU time. A thread that sleeps uses none, so there is a second limit on
the wall clock, without the time for which Linux kept the thread waiting for a CPU.
"""

import contextlib
import ctypes
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self, TypeVar

from autograder.evidence.data import NotCaptured
from shardlings.errors import frame_owner, line_in_cell

T = TypeVar("T")

ANNOUNCE_SECONDS: Final = 4.0
"""Time until `check` prints what it is waiting for."""

CPU_SECONDS: Final = 10.0
"""CPU time of one call; the exercises' solutions take less than a second."""

CLOCK_SECONDS: Final = 40.0
"""Wall-clock time of one call, without the time for which its thread waited for a CPU."""

ANNOUNCE_JAX_SECONDS: Final = 30.0
"""Time until `check` prints that it is waiting for JAX, which may take long to compile."""

ENDLESS_PROGRAM: Final = (
    "It may still be compiling. Or does it have a jax.lax.while_loop that never ends, or a "
    "collective that only some devices reach? JAX cannot be stopped: if it does not go on, restart "
    "the kernel."
)

POLL_SECONDS: Final = 0.2

RETRY_SECONDS: Final = 0.05
"""Time until a call that caught the exception gets another one."""

LEARNERS_LINES_SECONDS: Final = 1.0
"""Time after the limit in which only the learner's lines are interrupted; then libraries, too."""

RESEND_SECONDS: Final = 1.0
"""Time after which a signal that was not handled is sent again."""


class DoesNotEndError(Exception):
    """A call did not end within its limit.

    Attributes:
        stopped: the exception that stopped it; its traceback has the lines that were running.
        limit: the limit, in words.
    """

    def __init__(self, stopped: BaseException, limit: str) -> None:
        super().__init__(f"it did not finish within {limit}")
        self.stopped, self.limit = stopped, limit


def explain_endless_call(
    error: DoesNotEndError, function: Callable[..., object], what: str
) -> NotCaptured:
    """Explain that a call was stopped, and in which line.

    Args:
        error: the error of the stopped call.
        function: the learner's function.
        what: the beginning of the sentence, such as "f(3) did not finish".
    """
    line = line_in_cell(error.stopped, function)
    where = f" ({line})" if line else ""
    return NotCaptured(
        "does-not-end",
        f"{what} within {error.limit}, and was stopped{where}. Is there a loop that never ends?",
    )


class _StopCall(BaseException):  # not an `Exception`, which a learner's loop may catch
    """Raised in a call to stop it."""


SWALLOWS_EXCEPTIONS: Final = ("__del__", "_xla_gc_callback", "gc_callback")
"""Functions, of JAX and hypothesis too, in which Python prints an exception and goes on."""

SWALLOWING_MODULES: Final = ("weakref", "_weakrefset")
"""Python also does so in callbacks of weak references, which these modules have."""


def call_within_limit(call: Callable[[], T], waits_for: str) -> T:
    """Return the result of a call, or stop it at the time limit.

    Args:
        call: calls the learner's function.
        waits_for: what to print while waiting, such as "f(3) has not returned yet".

    Raises:
        DoesNotEndError: the call was stopped.
    """
    watch = _Watch(waits_for, stops=True)
    try:
        with watch:
            return call()
    except _StopCall as stopped:
        with contextlib.suppress(_StopCall):
            watch.end()  # once more, as it may have been raised just before the first time
        raise DoesNotEndError(stopped, watch.passed) from None


@contextlib.contextmanager
def announce_wait(waits_for: str) -> Iterator[None]:
    """Print what `check` is waiting for, if JAX takes long to compile or run a program.

    Args:
        waits_for: what to print while waiting, such as "JAX has not compiled f yet".
    """
    with _Watch(waits_for, stops=False):
        yield


class _Watch:
    """Watches the calling thread, from another thread, while a `with` statement runs.

    Args:
        waits_for: what to print while waiting.
        stops: whether to raise `_StopCall` in the calling thread at the limit.

    Attributes:
        passed: the limit that the call has passed, in words; empty if none.
    """

    def __init__(self, waits_for: str, stops: bool) -> None:
        self.passed = ""
        self._waits_for, self._stops = waits_for, stops
        self._thread, self._time = threading.get_ident(), _ThreadTime()
        self._ended = threading.Event()
        self._lock = threading.Lock()  # held while the thread is being stopped
        self._attempts, self._passed_at = 0, 0.0
        self._previous_trace = sys.gettrace()
        self._uses_signal = (
            stops
            and hasattr(signal, "pthread_kill")
            and threading.current_thread() is threading.main_thread()
        )
        self._previous_handler: Any = None
        self._signalled_at = -math.inf  # when the last signal was sent that was not handled yet

    def __enter__(self) -> Self:
        """Start watching."""
        if self._uses_signal:
            self._previous_handler = signal.signal(signal.SIGALRM, self._on_signal)
        threading.Thread(target=self._watch, name="shardlings-limit", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self.end()

    def end(self) -> None:
        """Stop watching, and restore the signal handler and the trace function.

        The call may end just as it is being stopped, so `_StopCall` may be raised here.
        """
        stopped: BaseException | None = None
        while True:
            try:
                self._ended.set()
                with self._lock:  # from here on, the watching thread raises nothing
                    pass
                if self._attempts and not self._uses_signal:
                    self._take_pending_exception()
                if self._uses_signal:
                    signal.signal(signal.SIGALRM, self._previous_handler or signal.SIG_DFL)
                if self._attempts and sys.gettrace() is not self._previous_trace:
                    sys.settrace(self._previous_trace)
                break
            except _StopCall as late:
                stopped = late
        if stopped is not None:
            raise stopped

    def _watch(self) -> None:
        """Check the time until the call has ended."""
        is_announced, pause = False, POLL_SECONDS
        announce_after = ANNOUNCE_SECONDS if self._stops else ANNOUNCE_JAX_SECONDS
        while not self._ended.wait(pause):
            if not is_announced and self._time.clock() > announce_after:
                is_announced = True
                self._announce()
            if self._stops and (self.passed or self._passes_limit()):
                pause = RETRY_SECONDS
                self._stop()

    def _announce(self) -> None:
        """Print what `check` is waiting for."""
        consequence = (
            f"It is stopped after {CPU_SECONDS:.0f} seconds of CPU time, or "
            f"{CLOCK_SECONDS:.0f} by the clock."
            if self._stops
            else ENDLESS_PROGRAM
        )
        print(f"check is still waiting: {self._waits_for}. {consequence}", flush=True)

    def _passes_limit(self) -> bool:
        """Check whether the call has passed a limit, and remember which."""
        if self._time.cpu() > CPU_SECONDS:
            self.passed = f"{CPU_SECONDS:.0f} seconds of CPU time"
        elif self._time.clock() > CLOCK_SECONDS:
            self.passed = f"{CLOCK_SECONDS:.0f} seconds"
        if self.passed:
            self._passed_at = time.monotonic()
        return bool(self.passed)

    def _stop(self) -> None:
        """Raise `_StopCall` in the calling thread."""
        with self._lock:
            if self._ended.is_set():
                return
            if self._uses_signal:
                # A second signal would interrupt the handler of the first, and so on without end on
                # a busy machine. A signal that a handler of the learner's has taken is sent again.
                if time.monotonic() > self._signalled_at + RESEND_SECONDS:
                    self._signalled_at = time.monotonic()
                    signal.pthread_kill(self._thread, signal.SIGALRM)
            elif self._may_stop(sys._current_frames().get(self._thread)):
                self._attempts += 1
                self._raise_in_thread()

    def _take_pending_exception(self) -> None:
        """Remove an exception that was not raised yet, by raising another one in its place.

        Python would also remove it if `None` were set. But then 3.11 goes on looking for one at
        each call, for ever, and hangs at the next call under a debugger or a profiler.
        """
        try:
            self._raise_in_thread()
            while True:
                pass
        except _StopCall:
            pass

    def _raise_in_thread(self) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread), ctypes.py_object(_StopCall)
        )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: ours stops the call, and everybody else's is passed on.

        Raises:
            _StopCall: to stop the call.
        """
        if not self.passed:  # the alarm is not ours
            if callable(self._previous_handler):
                self._previous_handler(number, frame)
            return
        try:
            self._stop_here(frame)
        finally:
            self._signalled_at = -math.inf

    def _stop_here(self, frame: FrameType | None) -> None:
        """Raise `_StopCall`, if the thread is where it may be stopped.

        Raises:
            _StopCall: to stop the call.
        """
        if self._ended.is_set() or not self._may_stop(frame):
            return
        self._attempts += 1
        if self._attempts > 1:
            # A bare `except` caught the last one. Raise it in every line from now on.
            caller = frame
            while caller is not None and frame_owner(caller) != "ours":
                if frame_owner(caller) == "theirs":
                    caller.f_trace = self._on_line
                caller = caller.f_back
            sys.settrace(self._on_line)
        raise _StopCall

    def _on_line(self, frame: FrameType, event: str, _: object) -> Any:
        """Raise `_StopCall` at the learner's next line; a trace function.

        Raises:
            _StopCall: at a line of the learner's.
        """
        if self._ended.is_set():
            return None
        if event == "line" and frame_owner(frame) == "theirs":
            raise _StopCall
        return self._on_line

    def _may_stop(self, frame: FrameType | None) -> bool:
        """Check whether the thread is in the learner's code, or in a library that it calls.

        Libraries are interrupted only if for a while none of the learner's own lines has run.
        """
        if frame is None or frame_owner(frame) == "theirs":
            return frame is not None
        if time.monotonic() < self._passed_at + LEARNERS_LINES_SECONDS:
            return False
        caller: FrameType | None = frame
        while caller is not None and frame_owner(caller) == "library":
            module = caller.f_globals.get("__name__")
            if caller.f_code.co_name in SWALLOWS_EXCEPTIONS or module in SWALLOWING_MODULES:
                return False
            caller = caller.f_back
        return caller is not None and frame_owner(caller) == "theirs"


class _ThreadTime:
    """Measures the time that the calling thread takes from now on; other threads may read it."""

    def __init__(self) -> None:
        self._clock_id = None
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS, nor on Windows
            self._clock_id = time.pthread_getcpuclockid(threading.get_ident())
        self._scheduled = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._start = time.monotonic()
        self._cpu_at_start, self._waited_at_start = self._total_cpu(), self._total_waited()

    def cpu(self) -> float:
        """Return the thread's CPU seconds; where the system does not count them, the process's.

        Several threads of a process together may use more seconds than have elapsed.
        """
        return min(self._total_cpu() - self._cpu_at_start, self.elapsed())

    def clock(self) -> float:
        """Return the wall-clock seconds, without those in which the thread waited for a CPU."""
        return self.elapsed() - (self._total_waited() - self._waited_at_start)

    def elapsed(self) -> float:
        """Return the wall-clock seconds."""
        return time.monotonic() - self._start

    def _total_cpu(self) -> float:
        if self._clock_id is None:
            return time.process_time()
        return time.clock_gettime(self._clock_id)

    def _total_waited(self) -> float:
        """Return for how many seconds Linux kept the thread waiting; 0 on other systems."""
        try:
            return int(self._scheduled.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0
