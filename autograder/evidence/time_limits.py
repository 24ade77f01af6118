"""Call a learner's function within a time limit, and say what `check` is waiting for.

A thread watches the call. After a few seconds it prints what `check` waits for; at the limit it
stops the call. It does so by a signal, where the call runs in the main thread of Linux or macOS,
and elsewhere by an exception that Python itself raises in the thread. Both need a thread that
executes Python: a loop within C code (`sum(range(10**12))`), or a JAX program that does not end,
goes on until the kernel is restarted. (Where it holds the interpreter, not even the words come.)

Time is the processor time of the thread. A thread that sleeps uses none, so there is a limit by
the clock as well, less the time for which Linux kept the thread waiting for a processor.
"""

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self, TypeVar

from autograder.errors import frame_owner, line_in_cell
from autograder.evidence.data import NotCaptured

T = TypeVar("T")

SPEAK_SECONDS: Final = 4.0
"""After how many seconds it is said what is waited for."""

CPU_SECONDS: Final = 10.0
"""The most processor time that one call may take; those of the exercises take less than one."""

CLOCK_SECONDS: Final = 40.0
"""The most time by the clock, less the time that the thread waited for a processor."""

SPEAK_OF_JAX_SECONDS: Final = 10.0
"""The same of what JAX compiles and runs, which may take a while and cannot be stopped."""

ENDLESS_PROGRAM: Final = (
    "Does it have a jax.lax.while_loop that never ends, or a collective that only some devices "
    "reach? JAX cannot be stopped: if it does not go on, restart the kernel."
)
"""What to do where JAX does not return."""

LOOK_SECONDS: Final = 0.2
"""How often the time is looked at."""

RETRY_SECONDS: Final = 0.05
"""After how many seconds a call that ignored the exception gets another one."""

OWN_LINES_SECONDS: Final = 1.0
"""For how long a call is stopped in a line of the learner's only, and not within a library."""


class DoesNotEndError(Exception):
    """A call did not come to an end within its limit.

    Attributes:
        stopped: the exception that stopped it, with the lines in which it was.
        limit: the limit, in words.
    """

    def __init__(self, stopped: BaseException, limit: str) -> None:
        super().__init__(f"it did not come to an end within {limit}")
        self.stopped, self.limit = stopped, limit


def does_not_end(error: DoesNotEndError, function: Callable[..., object], what: str) -> NotCaptured:
    """What is found of a function that was stopped.

    Args:
        error: how it was stopped.
        function: the learner's function.
        what: what did not come to an end, as the beginning of a sentence.
    """
    where = line_in_cell(error.stopped, function)
    at = f" ({where})" if where else ""
    return NotCaptured(
        "does-not-end",
        f"{what} within {error.limit}, and was stopped{at}. Is there a loop that never ends?",
    )


class _StopCall(BaseException):  # not an `Exception`, which a learner's loop may catch
    """What stops a call."""


IGNORES_EXCEPTIONS: Final = ("__del__", "_xla_gc_callback")
"""Functions that Python calls between two lines, and whose exceptions it prints and forgets."""


def limited(call: Callable[[], T], waits_for: str) -> T:
    """The result of a call that may not end.

    Args:
        call: calls the learner's function.
        waits_for: what is waited for, as the beginning of a sentence: "f(3) has not returned".

    Raises:
        DoesNotEndError: it took longer than it may.
    """
    watch = _Watch(waits_for, stops=True)
    try:
        with watch:
            return call()
    except _StopCall as stopped:
        raise DoesNotEndError(stopped, watch.passed) from None


@contextlib.contextmanager
def announced(waits_for: str) -> Iterator[None]:
    """Say what is waited for, where JAX takes long to compile or run a program of the learner's.

    Args:
        waits_for: as for `limited`.
    """
    with _Watch(waits_for, stops=False):
        yield


class _Watch:
    """Watches what one thread does, from another one, while a `with` statement runs."""

    def __init__(self, waits_for: str, stops: bool) -> None:
        self.passed = ""
        self._waits_for, self._stops = waits_for, stops
        self._thread, self._time = threading.get_ident(), _ThreadTime()
        self._over = threading.Event()
        self._lock = threading.Lock()  # held while the thread is being stopped
        self._tried, self._since = 0, 0.0
        self._traces = sys.gettrace()
        self._by_signal = (
            stops
            and hasattr(signal, "pthread_kill")
            and threading.current_thread() is threading.main_thread()
        )
        self._handler: Any = None

    def __enter__(self) -> Self:
        """Begin to watch."""
        if self._by_signal:
            self._handler = signal.signal(signal.SIGALRM, self._on_signal)
        threading.Thread(target=self._watch, name="shardlings-limit", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching, and leave everything as it was found.

        A call may end at the moment that it is to be stopped, so the exception may come here.
        """
        stopped: BaseException | None = None
        while True:
            try:
                self._over.set()
                with self._lock:  # from here on nobody stops anything
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), None)
                if self._by_signal:
                    signal.signal(signal.SIGALRM, self._handler or signal.SIG_DFL)
                if self._tried and sys.gettrace() is not self._traces:
                    sys.settrace(self._traces)
                break
            except _StopCall as late:
                stopped = late
        if stopped is not None:
            raise stopped

    def _watch(self) -> None:
        """Look at the time until the call is over."""
        said, pause = False, LOOK_SECONDS
        speak_after = SPEAK_SECONDS if self._stops else SPEAK_OF_JAX_SECONDS
        while not self._over.wait(pause):
            if not said and self._time.clock() > speak_after:
                said = True
                self._say()
            if self._stops and (self.passed or self._is_over()):
                pause = RETRY_SECONDS
                self._stop()

    def _say(self) -> None:
        """Print what is waited for."""
        then = (
            f"It is stopped after {CPU_SECONDS:.0f} seconds of processor time, or "
            f"{CLOCK_SECONDS:.0f} by the clock."
            if self._stops
            else ENDLESS_PROGRAM
        )
        print(f"check is still waiting: {self._waits_for}. {then}", flush=True)

    def _is_over(self) -> bool:
        """Whether the call has had its time; then that is put in words."""
        if self._time.cpu() > CPU_SECONDS:
            self.passed = f"{CPU_SECONDS:.0f} seconds of processor time"
        elif self._time.clock() > CLOCK_SECONDS:
            self.passed = f"{CLOCK_SECONDS:.0f} seconds"
        if self.passed:
            self._since = time.monotonic()
        return bool(self.passed)

    def _stop(self) -> None:
        """Have the exception raised in the thread."""
        with self._lock:
            if self._over.is_set():
                return
            if self._by_signal:
                signal.pthread_kill(self._thread, signal.SIGALRM)
            elif self._may_stop(sys._current_frames().get(self._thread)):
                self._tried += 1
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(_StopCall)
                )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise the exception, where the thread is in the call, and not in code of ours.

        Raises:
            _Stop: it is.
        """
        if not self.passed:  # it is somebody else's alarm
            if callable(self._handler):
                self._handler(number, frame)
            return
        if self._over.is_set() or not self._may_stop(frame):
            return
        self._tried += 1
        if self._tried > 1:  # a bare `except` took the last one: the next line raises it again
            each = frame
            while each is not None and frame_owner(each) != "ours":
                if frame_owner(each) == "theirs":
                    each.f_trace = self._on_line
                each = each.f_back
            sys.settrace(self._on_line)
        raise _StopCall

    def _on_line(self, frame: FrameType, event: str, _: object) -> Any:
        """Raise the exception at the next line of the learner's.

        Raises:
            _Stop: this is one.
        """
        if self._over.is_set():
            return None
        if event == "line" and frame_owner(frame) == "theirs":
            raise _StopCall
        return self._on_line

    def _may_stop(self, frame: FrameType | None) -> bool:
        """Whether the thread is where it can be stopped: in the learner's code, and not in ours.

        A library that the learner's code calls is interrupted only where none of the learner's own
        lines comes by for a while.
        """
        if frame is None or frame_owner(frame) == "theirs":
            return frame is not None
        if time.monotonic() < self._since + OWN_LINES_SECONDS:
            return False
        caller: FrameType | None = frame
        while caller is not None and frame_owner(caller) == "library":
            if caller.f_code.co_name in IGNORES_EXCEPTIONS:
                return False
            caller = caller.f_back
        return caller is not None and frame_owner(caller) == "theirs"


class _ThreadTime:
    """The time that the calling thread takes from now on, as other threads can see it."""

    def __init__(self) -> None:
        self._clock_id = None
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS, nor on Windows
            self._clock_id = time.pthread_getcpuclockid(threading.get_ident())
        self._scheduled = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._began, self._cpu, self._waited = time.monotonic(), self._cpu_now(), self._delay()

    def cpu(self) -> float:
        """The seconds of processor time; where no thread can be asked, those of the process."""
        return min(self._cpu_now() - self._cpu, self.elapsed())

    def clock(self) -> float:
        """The seconds by the clock, less those in which the thread waited for a processor."""
        return self.elapsed() - (self._delay() - self._waited)

    def elapsed(self) -> float:
        """The seconds by the clock."""
        return time.monotonic() - self._began

    def _cpu_now(self) -> float:
        if self._clock_id is None:
            return time.process_time()
        return time.clock_gettime(self._clock_id)

    def _delay(self) -> float:
        """The seconds for which Linux has kept the thread waiting; 0 where nobody tells."""
        try:
            return int(self._scheduled.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0
