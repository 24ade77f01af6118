"""A process that waits for a CPU is not taken for one that waits for ever."""

import io
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from autograder.processes import running_time
from autograder.processes.running_time import IDLE_SECONDS, MEASURE_SECONDS, IdleTimer


@pytest.fixture
def idle_timer(monkeypatch):
    """A timer for a process that uses no CPU time, and the clock by which it measures."""
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(running_time, "time", clock)
    monkeypatch.setattr(running_time, "time", clock)
    times = SimpleNamespace(user=0.0, system=0.0, children_user=0.0, children_system=0.0)
    process = SimpleNamespace(pid=1, cpu_times=lambda: times)
    monkeypatch.setattr(psutil, "Process", lambda _: process)
    monkeypatch.setattr(running_time, "_read_waits", lambda _: [])
    monkeypatch.setattr(running_time, "is_asleep", lambda _: True)
    return IdleTimer(1), clock


def idle_after(idle_timer, clock, seconds):
    """Check whether a process counts as idle after so many seconds."""
    for _ in range(int(seconds / MEASURE_SECONDS)):
        clock.now += MEASURE_SECONDS
        is_idle = idle_timer.poll()
    return is_idle


def test_a_process_that_sleeps_is_idle(idle_timer):
    timer, clock = idle_timer
    assert not idle_after(timer, clock, IDLE_SECONDS)
    assert idle_after(timer, clock, 1)


def test_a_process_that_the_machine_kept_waiting_is_not_idle(idle_timer, monkeypatch):
    timer, clock = idle_timer
    monkeypatch.setattr(running_time, "_read_waits", lambda _: [("1/1", int(0.9e9 * clock.now))])
    assert not idle_after(timer, clock, 9 * IDLE_SECONDS)
    assert idle_after(timer, clock, 2 * IDLE_SECONDS), "it slept a tenth of the time"


def test_a_process_that_is_ready_to_run_is_not_idle(idle_timer, monkeypatch):
    timer, clock = idle_timer
    monkeypatch.setattr(running_time, "is_asleep", lambda _: False)
    assert not idle_after(timer, clock, 100 * IDLE_SECONDS)


SPINS = "print(flush=True)\nwhile True: pass"
SPINS_IN_A_THREAD = """
import threading
threading.Thread(target=exec, args=("while True: pass",)).start()
print(flush=True)
"""
SLEEPS = "import time\nprint(flush=True)\ntime.sleep(600)"


def is_asleep(code, looks, number=0):
    """Check whether a process that runs code is found asleep in one of so many looks."""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        started.send_signal(number)
        process = psutil.Process(started.pid)
        found = any(running_time.is_asleep(process) for _ in range(looks))
        started.kill()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no states to read")
def test_the_states_of_all_threads_are_read():
    assert is_asleep(SLEEPS, 10**6)
    assert not is_asleep(SPINS, 100)
    assert not is_asleep(SPINS_IN_A_THREAD, 100)
    assert not is_asleep(SPINS, 100, signal.SIGSTOP)


def test_the_waits_of_all_threads_are_read(monkeypatch):
    files = {"/proc/7/task/7/schedstat": "11 22 33\n", "/proc/7/task/8/schedstat": "44 55 66\n"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", {"/proc/7/task": ["7", "8"]}.__getitem__)
        patch.setattr(running_time, "open", lambda path: io.StringIO(files[path]), raising=False)
        waits = dict(running_time._read_waits(SimpleNamespace(pid=7)))
    assert waits == {"7/7": 22, "7/8": 55}
