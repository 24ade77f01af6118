"""Calls that do not end are announced and stopped, and nothing else is disturbed."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from types import FunctionType

import jax
import jax.numpy as jnp
import pytest

from autograder import check
from autograder.evidence import NotCaptured, Program, Value, time_limits
from autograder.evidence.time_limits import DoesNotEndError, announce_wait, call_within_limit
from autograder.exercises import find
from autograder.judge import judge
from tests.conftest import some_of
from tests.helpers import SPINS, capture, crowd

MAIN_THREAD_SIGNALS = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="only a signal wakes a thread that sleeps"
)


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    """Stop calls after a short time."""
    monkeypatch.setattr(time_limits, "ANNOUNCE_SECONDS", 0.1)
    monkeypatch.setattr(time_limits, "CPU_SECONDS", 0.4)
    monkeypatch.setattr(time_limits, "CLOCK_SECONDS", 2.0)
    monkeypatch.setattr(time_limits, "POLL_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def handlers_are_restored():
    handler, trace = signal.getsignal(signal.SIGALRM), sys.gettrace()
    yield
    assert signal.getsignal(signal.SIGALRM) is handler
    assert sys.gettrace() is trace


def spins():
    while True:
        pass


def catches_exceptions():
    while True:
        try:  # noqa: SIM105
            time.perf_counter()
        except Exception:
            pass


def catches_everything():
    while True:
        try:  # noqa: SIM105
            time.perf_counter()
        except:  # noqa: E722
            pass


def catches_everything_twice():
    while True:
        try:  # noqa: SIM105
            catches_everything()
        except:  # noqa: E722
            pass


def sleeps():
    time.sleep(1000)


def waits_for_a_lock():
    threading.Event().wait()


def traces_for_ever():
    def f(x):
        while True:
            x = x + 1

    return jax.jit(f).lower(1.0)


LOOPS = [spins, catches_exceptions, catches_everything, traces_for_ever]


@pytest.mark.parametrize("function", [*LOOPS, catches_everything_twice])
def test_a_loop_is_stopped_whatever_it_catches(function, capsys):
    with pytest.raises(DoesNotEndError, match="within 0 seconds of CPU time"):
        call_within_limit(function, "it has not returned yet")
    assert "check is still waiting: it has not returned yet." in capsys.readouterr().out


@MAIN_THREAD_SIGNALS
@pytest.mark.parametrize("function", [sleeps, waits_for_a_lock])
def test_a_call_that_sleeps_is_stopped_by_the_wall_clock(function):
    with pytest.raises(DoesNotEndError, match="within 2 seconds"):
        call_within_limit(function, "it sleeps")


# where Hypothesis listens to the garbage collector, the exception may be raised there, and is lost
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("function", LOOPS)
def test_a_loop_in_another_thread_is_stopped(function):
    messages: list[str] = []

    def call():
        try:
            call_within_limit(function, "it has not returned yet")
        except DoesNotEndError as error:
            messages.append(str(error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert messages


def test_a_call_that_ends_is_left_alone():
    assert call_within_limit(lambda: 3, "three") == 3
    with pytest.raises(ZeroDivisionError):
        call_within_limit(lambda: 1 // 0, "nothing")
    # the exception may be raised just as a call returns
    for _ in range(300):
        call_within_limit(lambda: sum(range(100)), "a sum")


def test_a_call_that_is_stopped_just_before_its_watch_ends_is_no_longer_watched(monkeypatch):
    exits = time_limits._Watch.__exit__

    def is_too_late(watch, *_):
        monkeypatch.setattr(time_limits._Watch, "__exit__", exits)
        raise time_limits._StopCall

    monkeypatch.setattr(time_limits._Watch, "__exit__", is_too_late)
    with pytest.raises(DoesNotEndError):
        call_within_limit(lambda: 1, "it has not returned yet")
    watches = [t for t in threading.enumerate() if t.name == "shardlings-limit"]
    for watch in watches:
        watch.join(10)
    assert not any(watch.is_alive() for watch in watches)


def test_a_busy_machine_does_not_stop_a_call():
    with crowd():
        start = time.monotonic()
        os.sched_setaffinity(0, {min(all_cpus := os.sched_getaffinity(0))})
        try:
            assert call_within_limit(lambda: exec(SPINS % 0.2, {}), "some work") is None
        finally:
            os.sched_setaffinity(0, all_cpus)
    assert time.monotonic() > start


def test_interrupts_and_alarms_of_others_reach_them(monkeypatch):
    received = []
    previous = signal.signal(signal.SIGALRM, lambda *_: received.append("alarm"))
    try:
        call_within_limit(lambda: signal.raise_signal(signal.SIGALRM), "an alarm")
        with pytest.raises(KeyboardInterrupt):
            call_within_limit(lambda: signal.raise_signal(signal.SIGINT), "an interrupt")
        with pytest.raises(DoesNotEndError):
            call_within_limit(spins, "it has not returned yet")
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert received == ["alarm", "alarm"]


def test_code_of_ours_is_not_stopped():
    def ours():
        spin, end = 0, time.thread_time() + 1
        while time.thread_time() < end:
            spin += 1
        return spin

    names = {"__file__": time_limits.__file__, "time": time}
    code = FunctionType(ours.__code__, names)
    assert call_within_limit(code, "our own work") > 0


def test_an_endless_call_is_reported_with_its_line_and_other_answers_are_judged():
    exercise = find("1.7")
    answers = dict.fromkeys(exercise.answers, lambda *_: 0)
    name = exercise.answers[0]
    pieces = capture(exercise, answers | {name: lambda *_: spins()}, 1).answers
    piece = pieces[name]
    assert isinstance(piece, NotCaptured)
    assert piece.why == "does-not-end"
    assert piece.sentence.startswith(f"{name}(")
    assert "of test_time_limits.py: `" in piece.sentence
    assert piece.sentence.endswith(" Is there a loop that never ends?")
    assert all(isinstance(pieces[other], Value) for other in exercise.answers[1:])
    verdict = judge(exercise, capture(exercise, answers | {name: lambda *_: spins()}, 1), 1)
    assert verdict.diagnoses.count("does-not-end") == 1
    assert len(set(verdict.diagnoses)) > 1


@pytest.mark.parametrize("jit", [False, True])
def test_tracing_that_does_not_end_is_stopped(jit, capsys):
    def turned(x):
        while True:
            x = jnp.sin(x)

    check("3.1", jax.jit(turned) if jit else turned)
    output = " ".join(capsys.readouterr().out.split())
    assert "check is still waiting: JAX has not traced turned for float32[" in output
    assert "it did not finish within 0 seconds of CPU time" in output
    assert isinstance(capture(find("3.1"), {"turned": jnp.sin}, 1).answers["turned"], Program)


def test_jax_cannot_be_stopped_and_is_announced(monkeypatch, capsys):
    monkeypatch.setattr(time_limits, "ANNOUNCE_JAX_SECONDS", 0.1)
    with announce_wait("JAX runs it"):
        time.sleep(1)
    said = capsys.readouterr().out
    assert "check is still waiting: JAX runs it. It may still be compiling. Or does it have" in said
    assert "restart the kernel." in said


@MAIN_THREAD_SIGNALS
def test_a_callback_of_a_weak_reference_is_not_interrupted(monkeypatch):
    """Python would print the exception and go on, and pytest makes an error of that."""
    monkeypatch.setattr(time_limits, "CPU_SECONDS", 0.1)
    monkeypatch.setattr(time_limits, "LEARNERS_LINES_SECONDS", 0.0)

    class Key:
        pass

    def drops_keys() -> None:
        known: weakref.WeakKeyDictionary[Key, int] = weakref.WeakKeyDictionary()
        while True:
            known[Key()] = 1

    for _ in range(10):
        with pytest.raises(DoesNotEndError):
            call_within_limit(drops_keys, "it has not returned yet")


def test_a_busy_machine_handles_one_signal_at_a_time(monkeypatch):
    nested = []
    may_stop = time_limits._Watch._may_stop

    def slowly(watch, frame):
        nested.append(sum(f.name == "_on_signal" for f in traceback.extract_stack()))
        time.sleep(5 * time_limits.RETRY_SECONDS)
        return may_stop(watch, frame)

    monkeypatch.setattr(time_limits._Watch, "_may_stop", slowly)
    with pytest.raises(DoesNotEndError):
        call_within_limit(spins, "spins has not returned")
    assert set(nested) == {1}


IN_A_THREAD = """
import sys, threading
from autograder.evidence import time_limits
time_limits.CPU_SECONDS = 0.2
def spins():
    while True:
        pass
def stop():
    try:
        time_limits.call_within_limit({function}, "it has not returned")
    except time_limits.DoesNotEndError:
        print("stopped")
thread = threading.Thread(target=stop) if {in_thread} else None
thread.start() if thread else stop()
thread and thread.join()
def debugged():
    return "done"
sys.setprofile(lambda *_: None)
print(debugged())
"""


@pytest.mark.parametrize("in_thread", some_of([False, True], 1))
@pytest.mark.parametrize(("function", "printed"), [("int", "done\n"), ("spins", "stopped\ndone\n")])
def test_a_debugger_works_after_a_call_within_limits(function, printed, in_thread):
    code = IN_A_THREAD.format(function=function, in_thread=in_thread)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == printed, done.stderr
