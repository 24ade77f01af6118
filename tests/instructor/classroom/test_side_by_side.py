"""Many workers: a class is never lost, whoever dies, and no stranger's scheduler is spoken to."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
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


def test_two_submissions_are_graded_at_once_in_one_process(tmp_path, monkeypatch):
    together, meet = [], threading.Barrier(2, timeout=60)

    def both_are_here(*given):
        meet.wait()  # each waits until the other has begun
        together.append(threading.get_ident())
        return grade_one(*given)

    monkeypatch.setattr(workers, "grade", both_are_here)
    root = tiny_class(tmp_path, 2)
    assert main(["--root", str(root), "grade", "--workers", "2"]) == 0
    assert len(set(together)) == 2
    assert scores(root) == wanted(2)


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


def of(monkeypatch, *ends):
    """Grade three submissions with such a pool: their outcomes, and the order of trying."""
    pool_of_them: Any = Workers(*ends)
    pool = nullcontext(workers.Pool(pool_of_them, lambda: pool_of_them.there))
    monkeypatch.setattr(workers, "connect_to_scheduler", lambda _: pool)
    pairs = [(name, ASSIGNMENT) for name in ("ann", "bob", "cyd")]
    chosen = workers.Workers("tls://10.0.0.1:1")
    found = grade_in_pool(pairs, lambda *pair: pair, chosen, lambda _: None)
    return {pair[0]: outcome for pair, outcome in found}, pool_of_them.tried


GOOD = Outcome(Record(State.GRADED))


def test_what_workers_die_of_is_tried_again_alone_and_then_it_is_our_failure(monkeypatch):
    nobody: Any = None
    killed = KilledWorker("x", nobody, 3)
    found, tried = of(monkeypatch, killed, GOOD, GOOD, killed)
    assert tried == ["ann", "bob", "cyd", "ann"]
    assert found["bob"] == found["cyd"] == GOOD
    assert "Workers died" in found["ann"].record.why
    assert found["ann"].record.state is State.FAILED
    found, _ = of(monkeypatch, killed, GOOD, GOOD, GOOD)
    assert all(outcome is GOOD for outcome in found.values())


def test_a_scheduler_that_is_lost_is_our_failure_for_all_that_are_left(monkeypatch):
    found, _ = of(monkeypatch, GOOD, "lost", GOOD)
    assert "What was graded is kept; grade again" in found["cyd"].record.why
    assert not any(outcome.record.state is State.BROKEN for outcome in found.values())
    assert len(found) == 3


def test_an_error_in_dask_is_one_submissions_failure(monkeypatch):
    found, _ = of(monkeypatch, ModuleNotFoundError("No module named 'autograder'"), GOOD, GOOD)
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
        ("10.0.0.1:8786", "is no address of a scheduler"),
        ("ws://127.0.0.1:8786", "is no address of a scheduler"),
        ("tcp://", "is no address of a scheduler"),
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
