"""Where there is no bubblewrap, root can grade submissions as another user."""

import subprocess
import time

import psutil
import pytest

from autograder.instructor.sandbox import Sandbox, is_root
from tests.helpers import pretend_bubblewrap

pytestmark = pytest.mark.skipif(not is_root(), reason="only root can become another user")

UID = 61535


@pytest.fixture
def sandbox(monkeypatch):
    pretend_bubblewrap(monkeypatch, False)
    return Sandbox(required=False, uid=UID)


def run(sandbox, script, packages):
    """Run a shell's script as a kernel is run."""
    command = sandbox.command(["/bin/sh", "-c", script], {}, packages)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return done.stdout.split()


def test_a_kernel_has_another_user_and_no_group_of_roots(sandbox, tmp_path):
    script = "id -u; id -G; grep NoNewPrivs /proc/self/status | cut -f 2"
    assert run(sandbox, script, tmp_path) == [str(UID), str(UID), "1"]


def test_a_judge_which_runs_no_students_python_does_not(sandbox):
    assert run(sandbox, "id -u", None) == ["0"]


def test_it_cannot_read_what_only_root_may(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("42")
    secret.chmod(0o600)
    assert run(sandbox, f"cat {secret} || echo refused", tmp_path) == ["refused"]


def test_what_it_leaves_is_ended(sandbox, tmp_path):
    script = "setsid sleep 1000 >/dev/null 2>&1 & setsid sh -c 'trap \"\" TERM; sleep 1000' &"
    run(sandbox, f"({script}) >/dev/null 2>&1; sleep 0.2", tmp_path)
    assert list_processes()
    sandbox.end_processes()
    deadline = time.monotonic() + 10
    while list_processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list_processes()


def list_processes():
    """Return the processes of the other user that have not ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.uids().real == UID and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_where_there_is_bubblewrap_there_is_no_other_user(monkeypatch, tmp_path):
    pretend_bubblewrap(monkeypatch, True)
    assert not Sandbox(uid=UID).has_other_user
