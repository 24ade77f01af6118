"""Processes call a function together, their failures are explained, and none is left running."""

import linecache
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
import psutil
import pytest

from autograder.explanations import Fault
from autograder.processes import (
    AddressableShards,
    ProcessesError,
    ProcessesFailedError,
    launching,
    on_processes,
    pack,
    pack_arguments,
    run,
)
from autograder.processes.child import ChildMessage, ChildSetup, FunctionCall, run_child
from autograder.processes.running_time import IDLE_SECONDS
from shardlings import devices
from shardlings.errors import UsageError


def nothing(process: int) -> bytes:
    """Pack the arguments of a function that takes none."""
    return pack_arguments(which, lambda ask: ())


def which():
    return jax.process_index()


def rows():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    numbers = np.arange(32, dtype=np.float32).reshape(16, 2)
    return jax.device_put(numbers, jax.NamedSharding(mesh, jax.P("x")))


def children() -> list[psutil.Process]:
    """Return the running processes: children of the fork server, which is a child of this process.

    Those that were there before the test grade for other tests.
    """
    return [
        child
        for server in psutil.Process().children()
        for child in server.children()
        if "forkserver" in " ".join(server.cmdline()) and child not in EARLIER
    ]


EARLIER: list[psutil.Process] = []


@pytest.fixture(autouse=True)
def no_worker_is_left():
    EARLIER.clear()
    EARLIER.extend(children())
    yield
    assert children() == []


def test_each_has_its_share_of_the_devices():
    def share():
        return jax.process_index(), len(jax.local_devices()), len(jax.devices())

    for count in (1, 2, 4):
        assert on_processes(share, count) == [(i, 8 // count, 8) for i in range(count)]


def test_they_compute_together():
    def total():
        return float(rows().sum())

    assert on_processes(total, 2) == [496.0, 496.0]


def test_a_global_array_is_returned_as_each_processs_shards():
    first, second = on_processes(lambda: {"x": rows()}, 2)
    assert isinstance(first["x"], AddressableShards)
    assert first["x"].layout == second["x"].layout
    assert second["x"].layout.devices == tuple(range(8))
    assert [device for device, _, _ in first["x"].shards] == [0, 1, 2, 3]
    with pytest.raises(UsageError, match="only what one process holds came back"):
        np.asarray(second["x"])
    assert second["x"].shards[0][1] == ((8, 10), (0, 2))
    np.testing.assert_array_equal(second["x"].shards[0][2], [[16, 17], [18, 19]])
    assert "4 of its shards are here, (2, 2) on each of devices 4 to 7" in repr(second["x"])


def test_an_array_on_one_device_is_returned_as_a_numpy_array():
    for came in on_processes(lambda: jax.numpy.arange(3) + jax.process_index(), 2):
        assert isinstance(came, np.ndarray)


def test_printed_lines_have_the_processs_number(capsys):
    def says():
        print("hello")
        jax.debug.print("traced")

    on_processes(says, 2)
    assert capsys.readouterr().out.splitlines() == [
        "process 0 | hello", "process 0 | traced", "process 1 | hello", "process 1 | traced",
    ]  # fmt: skip


def test_arguments_and_closures_are_sent():
    factor = 3

    def times(number):
        return factor * number

    assert on_processes(times, 2, 14) == [42, 42]


def test_an_error_is_reported_with_process_and_line():
    def fails():
        if jax.process_index() == 1:
            raise ValueError("not today")

    with pytest.raises(ProcessesError) as raised:
        on_processes(fails, 2)
    assert str(raised.value).startswith("Process 1: Your function raised ValueError: not today")
    assert 'raise ValueError("not today")' in str(raised.value)


def test_a_process_that_waits_alone_is_reported_with_its_line():
    def alone():
        x = rows()
        return float(x.sum()) if jax.process_index() == 0 else None

    with pytest.raises(ProcessesError) as raised:
        on_processes(alone, 2)
    said = str(raised.value)
    assert said.startswith(f"Process 0 stood still for {IDLE_SECONDS:.0f} seconds in line ")
    assert "`return float(x.sum()) if" in said
    assert "while process 1 had returned" in said
    assert "Does it wait for a collective that not all processes have come to, here or" in said


def test_a_killed_process_ends_all():
    def dies():
        if jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(rows().sum())

    with pytest.raises(ProcessesError) as raised:
        on_processes(dies, 2)
    said = str(raised.value)
    assert "Process 1 ended before it was done: signal 9 killed it." in said
    assert "Process 0 was stopped, since it may wait for process 1." in said


def test_a_process_that_exits_is_reported():
    with pytest.raises(ProcessesError, match=r"Process \d ended before .* its exit code was 3"):
        on_processes(lambda: os._exit(3), 2)


def the_second_later(setup: ChildSetup, call: FunctionCall, to_parent: object) -> None:
    """Act as processes: the first joins and exits, and then the second aborts while it joins."""
    if setup.process == 1:
        while not (setup.log_file.parent / "gone").exists():
            time.sleep(0.05)
        os.abort()
    for kind in ("up", "ready"):
        to_parent.send_bytes(msgspec.msgpack.encode(ChildMessage(kind)))  # type: ignore
    (setup.log_file.parent / "gone").touch()
    os._exit(3)


def test_a_process_that_exits_while_others_join_is_reported():
    first, second = run(pack(rows), 2, nothing, target=the_second_later)
    assert (first.why, first.sentence) == (
        "died", "Process 0 ended before it was done: its exit code was 3.",
    )  # fmt: skip
    assert second.why == "died"


def test_a_process_that_exits_is_reported_though_its_messages_are_read_late(monkeypatch):
    poll = launching._poll

    def poll_late(those):
        time.sleep(1)
        return poll(those)

    monkeypatch.setattr(launching, "_poll", poll_late)
    first, _ = run(pack(rows), 2, nothing, target=the_second_later)
    assert first.sentence == "Process 0 ended before it was done: its exit code was 3."


def the_second_cannot_join(setup: ChildSetup, call: FunctionCall, to_parent: object) -> None:
    """Act as processes: the first joins and exits, and the second reports that it cannot join."""
    if setup.process == 0:
        the_second_later(setup, call, to_parent)
    while not (setup.log_file.parent / "gone").exists():
        time.sleep(0.05)
    fault = Fault.of(RuntimeError("recvmsg: Connection reset by peer"))
    to_parent.send_bytes(msgspec.msgpack.encode(ChildMessage("failed", fault=fault)))  # type: ignore


def test_a_process_that_cannot_join_is_reported_after_the_one_that_exited():
    first, second = run(pack(rows), 2, nothing, target=the_second_cannot_join)
    assert first.sentence == "Process 0 ended before it was done: its exit code was 3."
    assert second.sentence == "Process 1 did not join the others, of which one had ended."


def not_the_second(setup: ChildSetup, call: FunctionCall, to_parent: object) -> None:
    """Act as processes of which the second hangs."""
    if setup.process == 1:
        time.sleep(600)
    run_child(setup, call, to_parent)  # type: ignore[arg-type]


def not_the_second_either(setup: ChildSetup, call: FunctionCall, to_parent: object) -> None:
    """Act as processes of which the second exits at once."""
    if setup.process == 1:
        os._exit(7)
    run_child(setup, call, to_parent)  # type: ignore[arg-type]


def test_a_process_that_does_not_start_is_named(monkeypatch):
    monkeypatch.setattr(launching, "START_SECONDS", 3)
    with pytest.raises(ProcessesFailedError, match="Process 1 of 2 did not start within 3"):
        run(pack(rows), 2, nothing, target=not_the_second)


def test_a_process_that_exits_at_once_is_named():
    with pytest.raises(ProcessesFailedError, match=r"Process 1 ended before .* code was 7"):
        run(pack(rows), 2, nothing, target=not_the_second_either)


def test_a_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ProcessesFailedError, match=f"Port {port} is in use by another"):
            run(pack(rows), 2, nothing, port=port)


def test_a_port_that_is_taken_after_the_check_is_reported(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(launching, "free_port", lambda _: taken.getsockname()[1])
        with pytest.raises(ProcessesFailedError, match=r"^Process 0 (failed|ended before)"):
            run(pack(rows), 2, nothing)


def test_children_finds_running_workers():
    seen: list[int] = []

    def look():
        for _ in range(300):
            seen.append(len(children()))
            time.sleep(0.05)
            if seen[-1] == 2:
                return

    looking = threading.Thread(target=look)
    looking.start()
    on_processes(time.sleep, 2, 2)
    looking.join()
    assert max(seen) == 2


@pytest.mark.parametrize("count", [0, 3, 16, True, "2", 2.0])
def test_other_numbers_of_processes_are_refused(count):
    with pytest.raises(UsageError, match="1, 2, 4 or 8 processes"):
        on_processes(rows, count)


def test_an_object_that_cannot_be_sent_is_named():
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))

    def uses():
        return mesh.shape

    with pytest.raises(UsageError, match=r"uses mesh of the notebook.*make them within"):
        on_processes(uses, 2)


def test_an_object_that_only_a_function_within_uses_is_named():
    lock = threading.Lock()
    names: dict[str, Any] = {"__name__": "__main__", "mesh": lock, "sharding": lock}
    exec("def f(x):\n    return x.sharding, (lambda: mesh)()\n", names)
    with pytest.raises(UsageError, match=r"uses mesh of the notebook"):
        pack(names["f"])


def test_an_argument_that_cannot_be_sent_is_not_reported_as_the_function():
    with pytest.raises(UsageError, match=r"^An argument of which cannot be sent .*lock") as raised:
        on_processes(which, 2, threading.Lock())
    assert "of the notebook" not in str(raised.value)


def test_the_cells_of_all_functions_that_are_used_are_sent():
    """Two functions of one cell, of which the second uses another cell."""

    def define(cell, source, names):
        linecache.cache[cell] = (len(source), None, source.splitlines(True), cell)
        exec(compile(source, cell, "exec"), names)

    names: dict[str, Any] = {"__name__": "__main__"}
    define("cell B", "def h():\n    return 1\n", names)
    define("cell A", "def f():\n    return (lambda: g())()\n\ndef g():\n    return h()\n", names)
    assert list(pack(names["f"]).cells) == ["cell A", "cell B"]


def test_an_array_on_several_devices_is_not_sent():
    x = rows()
    with pytest.raises(UsageError, match=r"is on 8 devices .* uses x of the notebook"):
        on_processes(lambda: np.asarray(x), 2)
    with pytest.raises(UsageError, match="is on 8 devices of this process"):
        on_processes(np.asarray, 2, x)


def test_workers_cannot_start_workers():
    def nested():
        return on_processes(which, 2)

    with pytest.raises(ProcessesError, match="one of several processes already"):
        on_processes(nested, 2)


def test_processes_that_a_worker_starts_end_with_it(tmp_path):
    def forks():
        import subprocess

        child = subprocess.Popen(["sleep", "600"])
        return child.pid

    for pid in on_processes(forks, 2):
        until = time.monotonic() + 10
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, "what a process started outlived it"
            time.sleep(0.05)


def test_an_endless_loop_is_stopped_and_its_line_reported(monkeypatch):
    monkeypatch.setattr(launching, "WORK_CPU_SECONDS", 3)

    def endless():
        number = 0
        while True:
            number += 1

    with pytest.raises(ProcessesError) as raised:
        on_processes(endless, 2)
    assert "was not done after 3 seconds of work, and was in line" in str(raised.value)


def test_strange_errors_are_reported_too():
    class StrangeError(Exception):
        def __str__(self):
            raise ValueError

    def strange():
        raise StrangeError

    def interrupts():
        raise KeyboardInterrupt

    for function, name in ((strange, "StrangeError"), (interrupts, "KeyboardInterrupt")):
        with pytest.raises(ProcessesError, match=f"Your function raised {name}"):
            on_processes(function, 2)


def test_what_an_interrupted_function_printed_is_kept():
    def interrupts():
        print("before")
        raise KeyboardInterrupt

    for outcome in run(pack(interrupts), 2, nothing):
        assert outcome.sentence == "Your function raised KeyboardInterrupt."
        assert outcome.printed == "before\n"


def test_random_keys_are_returned_as_numbers():
    for came in on_processes(lambda: jax.random.key(3), 2):
        np.testing.assert_array_equal(came, [0, 3])


def test_an_error_in_another_cell_is_reported_with_both_lines():
    names: dict[str, object] = {"__name__": "__main__", "jax": jax}
    for cell, text in {
        "<helper>": "def helper(x):\n    return x.nothing\n",
        "<answer>": "def answer():\n    return helper(jax.numpy.ones(3))\n",
    }.items():
        linecache.cache[cell] = (0, None, text.splitlines(keepends=True), cell)
        exec(compile(text, cell, "exec"), names)
    led = r"line 2 of the cell: `.*`, which led to helper, line 2 of another cell: `return x\.n"
    with pytest.raises(ProcessesError, match=led):
        on_processes(names["answer"], 2)  # type: ignore[arg-type]


def test_an_argument_that_is_not_a_function_is_refused():
    with pytest.raises(UsageError, match="expects a function first"):
        on_processes(2, rows)  # type: ignore[arg-type]


SCRIPT = """
import jax, psutil, sys, time
from autograder import on_processes
from shardlings import emulate_devices
emulate_devices(8)
psutil.Process().cpu_affinity(list(range(int(sys.argv[1]))))

def which():
    return jax.process_index()

for _ in range(int(sys.argv[2])):
    assert on_processes(which, 2) == [0, 1]
print(sum(len(server.children()) for server in psutil.Process().children()))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(psutil.Process, "cpu_affinity"), reason="cores are not chosen here")
@pytest.mark.parametrize("cores", [1, 2])
def test_fifty_times_and_none_is_left(cores):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(min(cores, os.cpu_count() or 1)), "50"],
        env={**os.environ, **devices.environment(8)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


ENDLESS = """
import jax, os, time
from autograder import on_processes
from shardlings import emulate_devices
emulate_devices(8)

def endless():
    with open(f"{folder}/{os.getpid()}", "w"):
        pass
    while True:
        time.sleep(0.01)
        sum(range(10_000))

on_processes(endless, 2)
"""


def test_no_worker_outlives_its_parent(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", f"folder = {str(tmp_path)!r}\n{ENDLESS}"],
        env={**os.environ, **devices.environment(8)},
    )
    try:
        until = time.monotonic() + 120
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < until
            assert parent.poll() is None
            time.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    pids = [int(file.name) for file in tmp_path.iterdir()]
    gone = time.monotonic() + 30
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < gone, "a process outlived its parent"
        time.sleep(0.1)


def test_modules_beside_the_notebook_are_sent(tmp_path, monkeypatch):
    (tmp_path / "helpers_of_mine.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import helpers_of_mine  # type: ignore[import-not-found]

    packed = pack(lambda: helpers_of_mine.twice(jax.process_index()))
    (tmp_path / "helpers_of_mine.py").unlink()
    assert [outcome.result for outcome in run(packed, 2, nothing)] == [0, 2]


@pytest.mark.parametrize("folder", ["/", str(Path(sys.prefix)), str(Path(os.__file__).parents[2])])
def test_a_notebook_may_be_in_a_folder_that_has_python_in_it(folder, monkeypatch):
    """Such as a home directory with `.pyenv` or `.local/share/uv` in it."""
    monkeypatch.chdir(folder)
    assert pack(lambda: 2).pickled


def test_a_module_with_two_names_is_sent(tmp_path, monkeypatch):
    (tmp_path / "twofold.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import twofold  # type: ignore[import-not-found]

    monkeypatch.setitem(sys.modules, "also_twofold", twofold)
    assert pack(lambda: twofold.twice(1)).pickled
    monkeypatch.delitem(sys.modules, "twofold")
    assert pack(lambda: jax.process_index()).pickled


def test_a_function_is_sent_from_a_script(tmp_path):
    """Such as `make try`, where the main module is a file below the current folder."""
    script = tmp_path / "main.py"
    script.write_text(
        "from autograder import on_processes\n"
        "if __name__ == '__main__':\n"
        "    print(on_processes(lambda: 3, 2))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[3, 3]", done.stderr
