"""The watch over a kernel: limits on its shared folder, and when it is ended."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from autograder.instructor.sandbox import Sandbox
from autograder.instructor.sandbox import limit_watch as watching
from autograder.instructor.sandbox.limit_watch import LimitWatch, ProcessFamily
from autograder.processes import running_time
from tests.helpers import ON_ONE_CORE, SPINS, crowd


def who_watched(code, **limits):
    """Run code in a process until it ends, and return the watch over it."""
    process = ProcessFamily([sys.executable, "-c", code])
    watch = LimitWatch(process, Sandbox(**limits))
    watch.start()
    process.wait(timeout=60)
    watch.join(timeout=60)
    assert not watch.is_alive()
    return watch


def watched(code, **limits):
    """Run code in a process, and return why it was ended; empty if it ended by itself."""
    return who_watched(code, **limits).reason


def test_who_keeps_to_the_limits_is_left_alone():
    assert watched("import time; time.sleep(1)") == ""


def test_an_error_of_the_watch_is_the_machines_fault(monkeypatch):
    def refuse(_):
        raise OSError

    monkeypatch.setattr(watching, "_measure_memory", refuse)
    watch = who_watched("import time; time.sleep(600)")
    assert watch.reason == "it could not be watched: OSError"
    assert watch.is_machines_fault


def test_processes_that_end_while_they_are_looked_at_are_no_error(monkeypatch):
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0)
    starts = "import subprocess\nfor _ in range(300): subprocess.run(['true'])"
    assert watched(starts) == ""


def test_a_process_that_has_ended_holds_nothing_and_waits_for_nothing():
    ended = subprocess.Popen(["true"])
    process = psutil.Process(ended.pid)
    ended.wait()
    assert watching._measure_memory(process) == 0
    assert watching._count_threads(process) == 0
    assert list(running_time._read_waits(process)) == []
    assert running_time.is_asleep(process)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody says what waits for a CPU")
def test_a_process_that_only_looks_starved_has_no_more_time(tmp_path):
    """A parent cannot run, nor be interrupted, until the child of its `vfork` has started."""
    os.mkfifo(tmp_path / "fifo")
    opens = [(os.POSIX_SPAWN_OPEN, 9, str(tmp_path / "fifo"), os.O_RDONLY, 0)]
    looks = f"import os\nos.posix_spawn('/bin/true', ['true'], {{}}, file_actions={opens})"
    watch = who_watched(looks, seconds=1)
    assert watch.reason == "the notebook took more than 1 seconds"
    assert not watch.is_machines_fault


def test_the_number_of_a_process_that_has_ended_is_nobody_s_to_kill(monkeypatch):
    process = ProcessFamily([sys.executable, "-c", "pass"])
    process.wait()
    other = psutil.Process()  # has the number now, as far as the family knows
    monkeypatch.setattr(watching, "find_family", lambda pid: [other])
    killed = []
    monkeypatch.setattr("os.killpg", lambda *group: killed.append(group))
    process.kill()
    assert killed == []


def test_who_passes_a_limit_is_ended_in_words():
    endless = "import time; time.sleep(600)"
    hoards = f"held = b'x' * 2**28; {endless}"
    starts = f"import subprocess; [subprocess.Popen(['sleep', '9']) for _ in range(9)]; {endless}"
    assert watched(endless, seconds=1) == "the notebook took more than 1 seconds"
    assert watched(hoards, memory=2**27) == "it held more than 0.125 GiB of memory"
    waits = "threading.Thread(target=time.sleep, args=(9,))"
    threads = f"import threading, time; [{waits}.start() for _ in range(40)]; {endless}"
    assert watched(starts, processes=4) == "it started more than 4 processes"
    assert watched(threads, threads=20) == "it started more than 20 threads"


@pytest.fixture
def crowded():
    with crowd():
        yield


@pytest.mark.crowded
def test_who_is_kept_waiting_has_its_time_all_the_same(crowded):
    began = time.monotonic()
    watch = who_watched(ON_ONE_CORE + SPINS % 0.8, seconds=3)
    assert watch.reason == ""
    assert time.monotonic() - began > 4, "by the clock it would have been too long"
    assert watch.running.seconds < 3


@pytest.mark.crowded
def test_who_spins_is_ended_however_busy_the_machine_is(crowded, monkeypatch):
    monkeypatch.setattr(watching, "CLOCK_FACTOR", 60)  # of which it has a sixteenth
    watch = who_watched(ON_ONE_CORE + SPINS % 600, seconds=1)
    assert watch.reason == "the notebook took more than 1 seconds"
    assert not watch.is_machines_fault


def test_who_sleeps_has_no_more_time_than_the_clock_gives(crowded):
    watch = who_watched(ON_ONE_CORE + "time.sleep(10_000)", seconds=2)
    assert watch.reason == "the notebook took more than 2 seconds"
    assert not watch.is_machines_fault


@pytest.mark.crowded
def test_who_is_not_let_run_at_all_is_ended_for_the_machines_sake(crowded, monkeypatch):
    monkeypatch.setattr(watching, "CLOCK_FACTOR", 2)
    watch = who_watched(ON_ONE_CORE + SPINS % 600, seconds=3)
    assert watch.is_machines_fault
    assert watch.reason in [
        f"the machine let the notebook have {n} seconds in 6" for n in (0, 1, 2)
    ]
