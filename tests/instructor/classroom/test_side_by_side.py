"""Many workers: a class is never lost, whoever dies, and no stranger's scheduler is spoken to."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import dask
import psutil
import pytest
from distributed import KilledWorker, LocalCluster, Security

from autograder.instructor.__main__ import main
from autograder.instructor.classroom import workers
from autograder.instructor.classroom.workers import grade_in_pool
from autograder.instructor.pipeline import Outcome, Record, State
from autograder.instructor.pipeline import grade as grade_one
from autograder.instructor.pipeline.basis import read_versions
from tests.conftest import ROOT
from tests.instructor.tiny_class import ASSIGNMENT, log, scores, tiny_class, wanted

STUDENTS = 6


def grade(root):
    """`make grade WORKERS=2`, under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.instructor", "--root", str(root), "grade",
         "--workers", "2"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def steps(root, step):
    return [line["student"] for line in log(root) if line["step"] == step]


def wait_for(process, happened):
    while not happened():
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.05)


def meet(folder, name, others):
    """Wait until all are here, and return the process's number."""
    (folder / name).touch()
    until = time.monotonic() + 60
    while not all((folder / other).exists() for other in others):
        assert time.monotonic() < until, f"{name} is alone"
        time.sleep(0.01)
    return os.getpid()


def test_workers_work_at_once_and_each_has_an_interpreter_of_its_own(tmp_path):
    """Libraries keep settings for an interpreter, which two submissions would change at once."""
    names = ("ann", "bob", "cyd")
    with workers.open_local_pool(3) as pool:
        met = [pool.executor.submit(meet, tmp_path, name, names) for name in names]
        processes = {future.result() for future in met}
    assert len(processes) == 3
    assert os.getpid() not in processes


def test_in_one_interpreter_submissions_are_graded_one_after_the_other(monkeypatch):
    """A worker of a scheduler may have several threads."""
    at_work, most = [], []

    def look(submission, *_):
        at_work.append(submission)
        most.append(len(at_work))
        time.sleep(0.01)
        at_work.remove(submission)
        return GOOD

    monkeypatch.setattr("autograder.instructor.pipeline.grading._grade", look)
    facts: Any = SimpleNamespace(versions=read_versions())
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda n: grade_one(n, facts), range(20))]
    assert found == [GOOD] * 20
    assert set(most) == {1}


def die(submission, *_):
    """Grade Ann's submission the second time, end the process at Bob's, and grade the others."""
    folder, student = submission
    first = not (folder / student).exists()
    (folder / student).touch()
    while student == "bob" and not (folder / "ann").exists():
        time.sleep(0.01)  # or Bob's death could end Ann's first try before it began
    if student == "bob" or (student == "ann" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    return GOOD


def test_a_worker_that_dies_is_replaced_and_its_submission_is_graded_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "grade", die)
    pairs = [(name, ASSIGNMENT) for name in ("ann", "bob", "cyd", "dan")]
    given: Any = lambda student, _: ((tmp_path, student), None)  # noqa: E731
    with workers.open_local_pool(2) as pool:
        found = dict(grade_in_pool(pairs, given, pool, lambda _: None))
    assert [found[pair] == GOOD for pair in pairs] == [True, False, True, True]
    why = "The worker that graded it died, twice. Did the machine run out of memory?"
    assert found[pairs[1]].record == Record(State.FAILED, f"grading failed. {why}")
    assert not found[pairs[1]].is_final


def test_workers_end_with_a_command_that_is_killed(tmp_path):
    code = """
import os, signal, time
from autograder.instructor.classroom import workers
with workers.open_local_pool(1) as pool:
    print(pool.executor.submit(os.getpid).result(), flush=True)
    pool.executor.submit(time.sleep, 600)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    worker = int(said.stdout)
    until = time.monotonic() + 30
    while psutil.pid_exists(worker):
        assert time.monotonic() < until, "it outlived its command"
        time.sleep(0.05)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_command_ends_also_where_calls_were_on_their_way_to_workers_that_died(goes_on):
    """Up to Python 3.11.4, it would wait for ever for the thread that writes them."""
    code = f"""
import os, signal, time
from concurrent.futures import BrokenExecutor
from autograder.instructor.classroom import workers
with workers.open_local_pool(1) as pool:
    worker = pool.executor.submit(os.getpid).result()
    long = pool.executor.submit(time.sleep, 600)
    waiting = [pool.executor.submit(len, bytes(2**22)) for _ in range(3)]
    time.sleep(0.5)
    os.kill(worker, signal.SIGKILL)
    try:
        long.result()
    except BrokenExecutor:
        print(pool.executor.submit(len, "went on").result() if {goes_on} else "stopped")
"""
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (said.returncode, said.stdout.strip(), said.stderr) == (
        0, "7" if goes_on else "stopped", "",
    )  # fmt: skip


def test_python_exits_quietly_right_after_a_command():
    """Its exit wakes each pool's thread, and wrote to a pipe that such a thread was closing."""
    code = """
import os, time
from concurrent.futures import process
from autograder.instructor.classroom import workers

def wake_late(self):
    if not self._closed:
        time.sleep(process._global_shutdown)  # so that the thread can close the pipe meanwhile
        self._writer.send_bytes(b"")

process._ThreadWakeup.wakeup = wake_late
with workers.open_local_pool(1) as pool:
    assert pool.executor.submit(os.getpid).result() != os.getpid()
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.slow
def test_a_class_is_graded_whole_though_all_are_killed(tmp_path):
    root = tiny_class(tmp_path, STUDENTS)
    first = grade(root)
    wait_for(first, lambda: steps(root, "entered"))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    first.stdout.close()
    before = steps(root, "entered")
    second = grade(root)
    said = second.communicate(timeout=400)[0].decode()
    assert second.returncode == 0, said
    assert scores(root) == wanted(STUDENTS)
    whole = log(root)
    since = max(at for at, line in enumerate(whole) if line["step"] == "began")
    assert not set(before) & {line.get("student") for line in whole[since:]}
    left = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in left if str(root) in command]


class Workers:
    """A pool whose tasks end as told, one after the other."""

    def __init__(self, *ends):
        self.ends, self.tried = list(ends), []
        self.there: int | None = 1

    def submit(self, _, student, *__):
        self.tried.append(student)
        end = self.ends.pop(0)
        future: Future[Any] = Future()
        if end == "lost":
            self.there = None
            future.cancel()
            future.set_running_or_notify_cancel()
        elif isinstance(end, Exception):
            future.set_exception(end)
        else:
            future.set_result(end)
        return future


def grade_with(pool_of_them):
    """Yield the outcomes of three submissions with such a pool."""
    pool = workers.Pool(pool_of_them, lambda: pool_of_them.there)
    pairs = [(name, ASSIGNMENT) for name in ("ann", "bob", "cyd")]
    given: Any = lambda *pair: pair  # noqa: E731
    return grade_in_pool(pairs, given, pool, lambda _: None)


def of(*ends):
    """Grade three submissions with such a pool: their outcomes, and the order of trying."""
    pool = Workers(*ends)
    return {pair[0]: outcome for pair, outcome in grade_with(pool)}, pool.tried


GOOD = Outcome(Record(State.GRADED))


def test_what_workers_die_of_is_tried_again_alone_and_then_it_is_our_failure():
    nobody: Any = None
    killed = KilledWorker("x", nobody, 3)
    found, tried = of(killed, GOOD, GOOD, killed)
    assert tried == ["ann", "bob", "cyd", "ann"]
    assert found["bob"] == found["cyd"] == GOOD
    assert "The worker that graded it died, twice." in found["ann"].record.why
    assert found["ann"].record.state is State.FAILED
    found, _ = of(killed, GOOD, GOOD, GOOD)
    assert all(outcome is GOOD for outcome in found.values())


def test_submissions_that_workers_died_of_are_tried_again_one_after_the_other():
    nobody: Any = None
    killed = KilledWorker("x", nobody, 3)
    pool = Workers(killed, killed, GOOD, GOOD, GOOD)
    assert [len(pool.tried) for _ in grade_with(pool)] == [3, 4, 5], "each waits for the one before"


def test_a_scheduler_that_is_lost_is_our_failure_for_all_that_are_left():
    found, _ = of(GOOD, "lost", GOOD)
    assert "What was graded is kept; grade again" in found["cyd"].record.why
    assert not any(outcome.record.state is State.BROKEN for outcome in found.values())
    assert len(found) == 3


def test_an_error_in_dask_is_one_submissions_failure():
    missing = ModuleNotFoundError("No module named 'autograder'")
    found, tried = of(missing, GOOD, GOOD, missing)
    assert tried == ["ann", "bob", "cyd", "ann"]
    assert (
        "grading failed. ModuleNotFoundError: No module named 'autograder'"
        in found["ann"].record.why
    )
    assert found["bob"] == found["cyd"] == GOOD


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("tcp://10.0.0.1:8786", "is on another machine and without TLS"),
        ("tcp://grader.example:8786", "is on another machine and without TLS"),
        ("tls://10.0.0.1:8786", "No certificates are named here"),
        ("10.0.0.1:8786", "is not the address of a scheduler"),
        ("ws://127.0.0.1:8786", "is not the address of a scheduler"),
        ("tcp://", "is not the address of a scheduler"),
    ],
)
def test_who_can_be_listened_to_is_not_spoken_to(address, told):
    with pytest.raises(workers.SchedulerError, match=told), workers.connect_to_scheduler(address):
        pass


@pytest.mark.parametrize(
    "address", ["", "tls://127.0.0.1:8786", "tcp://10.0.0.1:8786", "127.0.0.1:8786"]
)
def test_where_nobody_else_can_come_in_nothing_is_said_of_it(address):
    assert workers.describe_risk(address) == ""


def test_it_is_said_that_others_on_this_machine_can_reach_a_scheduler(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 0.5)
    root = tiny_class(tmp_path / "course", 1)
    assert main(["--root", str(root), "grade", "--scheduler", "tcp://127.0.0.1:1"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "anybody with an account on this machine can reach it" in said
    assert said.index("anybody with an account") < said.index("does not answer as it should")


def certificates(folder, security):
    """Dask's settings that name some certificates."""
    files = security.get_tls_config_for_role("client")
    for name in ("ca_file", "cert", "key"):
        (folder / name).write_text(files[name])
    own = {"cert": str(folder / "cert"), "key": str(folder / "key")}
    return {
        "distributed.comm.tls.ca-file": str(folder / "ca_file"),
        **{f"distributed.comm.tls.client.{name}": file for name, file in own.items()},
    }


def test_a_wrong_certificate_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 3)
    right, wrong = Security.temporary(), Security.temporary()
    root = tiny_class(tmp_path / "course", 1)
    with LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", protocol="tls://", security=right,
        dashboard_address=None, silence_logs=50,
    ) as cluster:  # fmt: skip
        command = ["--root", str(root), "grade", "--scheduler", cluster.scheduler_address]
        with dask.config.set(certificates(tmp_path, wrong)):
            assert main(command) == 1
            said = " ".join(capsys.readouterr().out.split())
            assert "does not answer as it should" in said
            assert "CERTIFICATE_VERIFY_FAILED" in said
        with dask.config.set(certificates(tmp_path, right)):
            assert main(command) == 1
            assert "has no workers" in " ".join(capsys.readouterr().out.split())
    assert not steps(root, "entered")
