"""Commands are wrapped in the sandbox; without one, they run as they are or are refused."""

import subprocess
import sys
import time

import psutil
import pytest

import autograder
from autograder.instructor.sandbox import judge_in_sandbox, read_sandbox_environment, sandbox
from autograder.instructor.sandbox.judging_in_sandbox import CONTROL_CASE
from tests.conftest import ROOT
from tests.helpers import copy_folder, pretend_bubblewrap

SECONDS = "271.828182"
"""By which a command that sleeps so long is known."""

START_AND_DIE = f"""
import os, signal, subprocess, time
from autograder.instructor.sandbox import Sandbox, read_sandbox_environment
command = Sandbox().command(["sleep", "{SECONDS}"], read_sandbox_environment())
for seconds in (0, 0.004, 0.006, 0.1):
    if os.fork() == 0:
        subprocess.Popen(command)
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.wait()[1] == signal.SIGKILL
"""


@pytest.mark.bubblewrap
def test_it_dies_with_who_started_it_however_early():
    subprocess.run([sys.executable, "-c", START_AND_DIE], check=True, timeout=60)
    until = time.monotonic() + 2
    while any(SECONDS in (p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < until, "it is still running"
        time.sleep(0.05)


def test_without_a_sandbox_it_says_so_or_refuses(monkeypatch):
    pretend_bubblewrap(monkeypatch, False)
    here = sandbox.Sandbox().command(["true"], {})
    assert here[-1] == "true"
    assert "bwrap" not in here
    with pytest.raises(sandbox.NoSandboxError, match="apt-get install bubblewrap"):
        sandbox.Sandbox(required=True).command(["true"], {})


@pytest.mark.bubblewrap
def test_in_the_sandbox_is_the_package_at_work_wherever_another_is_installed(tmp_path, monkeypatch):
    copy_folder(ROOT / "autograder", tmp_path / "autograder")
    (tmp_path / "solutions").mkdir()
    file = tmp_path / "autograder" / "__init__.py"
    file.write_text(f"{file.read_text()}\nWHICH = 'the other one'\n")
    monkeypatch.setattr(autograder, "__path__", [str(file.parent)])
    look = f"import autograder, os; print(autograder.WHICH, os.path.exists({str(tmp_path)!r}))"
    command = sandbox.Sandbox().command([sys.executable, "-c", look], read_sandbox_environment())
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "the other one False\n", done.stderr
    assert [verdict.exercise for verdict in judge_in_sandbox([CONTROL_CASE])] == ["1.1"]
