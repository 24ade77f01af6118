"""What a command is wrapped in, where there are walls and where there are none."""

import subprocess
import sys
import time

import psutil
import pytest

from autograder.instructor import sandbox

STARTS_AND_DIES = """
import os, signal, subprocess, sys, time
from autograder.instructor.sandbox import Sandbox, environment
subprocess.Popen(Sandbox().command(["sleep", sys.argv[1]], environment()))
time.sleep(float(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_dies_with_who_started_it_however_early():
    seconds = "271.828182"  # by which it is known
    for moment in (0, 0.003, 0.004, 0.005, 0.006, 0.01, 0.1):
        subprocess.run(
            [sys.executable, "-c", STARTS_AND_DIES, seconds, str(moment)], check=False, timeout=60
        )
    time.sleep(2)
    running = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in running if seconds in command]


def test_without_walls_it_says_so_or_refuses(monkeypatch):
    monkeypatch.setattr(sandbox, "works", lambda: False)
    here = sandbox.Sandbox().command(["true"], {})
    assert here[-1] == "true"
    assert "bwrap" not in here
    with pytest.raises(sandbox.NoSandboxError, match="Install bubblewrap, or grade where it does"):
        sandbox.Sandbox(required=True).command(["true"], {})
