"""Two machines grade a class, and one of them is cut off in the middle: nothing is lost."""

import shutil
import subprocess
import sys

import pytest

from autograder.instructor.sandbox import has_bubblewrap
from tests.conftest import ROOT
from tests.instructor.tiny_class import log, scores, tiny_class, wanted

STUDENTS = 7
TRY = "ip link add name a type veth peer name b && bwrap --ro-bind / / true"


def has_networks():
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "bwrap"))):
        return False
    tried = subprocess.run(["unshare", "-rn", "sh", "-c", TRY], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(
    not has_bubblewrap() or not has_networks(), reason="no networks can be made here"
)
def test_a_machine_that_is_cut_off_costs_nobody_a_grade(tmp_path):
    root = tiny_class(tmp_path / "course", STUDENTS)
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "tests.instructor.classroom.two_machines", root],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=700,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CUT" in done.stdout
    assert scores(root) == wanted(STUDENTS)
    entered = [line for line in log(root) if line["step"] == "entered"]
    assert len(entered) == STUDENTS
    assert len({line["worker"] for line in entered}) == 2
