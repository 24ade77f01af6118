"""An error in our own code gives no grade: in the judge, in nbgrader, and in judging again."""

import itertools
import shutil
import sysconfig
import venv
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nbformat.v4 import new_code_cell, new_output

from autograder import check, evidence, notebook
from autograder.evidence import plans
from autograder.exercises import find
from autograder.explanations import Fault
from autograder.instructor.__main__ import main
from autograder.instructor.nbgrader_plugins import judge_evidence as judging
from autograder.instructor.pipeline.grading import is_transient
from autograder.instructor.sandbox import (
    Case,
    find_package_folders,
    judge_in_sandbox,
    judging_in_sandbox,
)
from autograder.instructor.sandbox.judge_process import Reply, Work, judge_cases
from autograder.judge import failed_verdict
from autograder.notebook import NotJudged
from tests.conftest import some_of
from tests.instructor.room import ASSIGNMENT, RIGHT, UNCALIBRATED, Classroom
from tests.judge.plantings import PLANTINGS, Planting, strips

NOT_HERE = {
    "judge.progress": "only a student's own kernel remembers",
    "shardlings.pictures.displaying": "only a student's own kernel shows anything",
}
"""Modules that neither a grading kernel nor a judge runs, and why."""

GRADED = [planting for planting in PLANTINGS if planting.module not in NOT_HERE]

SEEDS = itertools.count(1000)
"""A seed for each judging: what was judged with the same one is remembered."""


def handed_in(planting, seed, monkeypatch, folder):
    """The graded cell of a kernel that captures, and the evidence that it published."""
    published: list[Any] = []
    cell = new_code_cell(f"check({planting.exercise!r}, …)")
    with monkeypatch.context() as patch:
        patch.setattr(notebook, "_publish", lambda e: published.append(evidence.to_json(e)))
        patch.setattr(plans, "_given", None)
        evidence.give_plans([find(planting.exercise).plan(seed)])
        answers = planting.named()
        planting.plant(patch)
        try:
            check(planting.exercise, **answers)
        except NotJudged as error:
            output = new_output("error", ename=type(error).__name__, evalue=str(error))
            cell.outputs = [output]
    return cell, published


def judged_here(cases, *_):
    """Judge cases as a clean process does, but in this process."""
    made = judge_cases(
        msgspec.json.encode(Work([msgspec.json.decode(c, type=Case) for c in cases]))
    )
    return judging_in_sandbox.JudgeRun([read_verdict(reply) for reply in made], 0)


def read_verdict(reply):
    """Return the verdict of a judge's reply."""
    verdict = msgspec.json.decode(reply, type=Reply).verdict
    assert verdict is not None
    return verdict


def grade(planting, cell, published, seed):
    """Grade a cell by its evidence."""
    verdict = None
    for data in published:
        (verdict,) = judge_in_sandbox([Case(planting.exercise, data, seed)])
    judging._check_no_fault(find(planting.exercise), cell, verdict)
    assert verdict is not None
    judging.write_verdict(cell, verdict, 1)


@pytest.mark.parametrize("planting", some_of(GRADED), ids=str)
def test_there_is_no_score(planting, monkeypatch, tmp_path):
    seed = next(SEEDS)
    cell, published = handed_in(planting, seed, monkeypatch, tmp_path)
    monkeypatch.setattr(judging_in_sandbox, "_run_and_read_judge", judged_here)
    planting.plant(monkeypatch)
    failed = (judging.NotGradedError, ZeroDivisionError)
    with pytest.raises(failed, match=r"by no fault of the answer|planted"):
        grade(planting, cell, published, seed)
    assert not [o for o in cell.outputs if o.output_type == "execute_result"]


def test_evidence_that_cannot_be_sent_is_no_zero(monkeypatch, tmp_path):
    planting = Planting("evidence.data", "to_json", "1.1", strips)
    cell, published = handed_in(planting, 1, monkeypatch, tmp_path)
    assert not published
    with pytest.raises(judging.NotGradedError, match="its check failed in the kernel"):
        judging._check_no_fault(find("1.1"), cell, None)


@pytest.mark.parametrize(
    ("error", "expected"), [("MemoryError", True), ("BlockingIOError", True), ("KeyError", False)]
)
def test_what_the_machine_did_to_the_judge_need_not_come_again(error, expected):
    verdict = failed_verdict(find("1.1"), Fault(error, "planted", "in the judge"))
    with pytest.raises(judging.NotGradedError, match="by no fault of the answer") as raised:
        judging._check_no_fault(find("1.1"), new_code_cell(), verdict)
    assert is_transient(raised.value) == expected


def test_evidence_that_cannot_be_read_is_no_zero(monkeypatch):
    Planting("evidence.data", "from_json", "1.1", strips).plant(monkeypatch)
    case = Case("1.1", {"exercise": "1.1", "answers": {}}, 1)
    (reply,) = judge_cases(msgspec.json.encode(Work([case])))
    assert read_verdict(reply).state == "failed"


def course_with_an_error(folder, module, line):
    """A Python that has the package with an error in it, and everything else as it is here."""
    copy = folder / "package"
    for package in find_package_folders():
        shutil.copytree(package, copy / package.name)
    file = copy / f"{module}.py"
    text = file.read_text()
    assert text.count(line) == 1
    indent = line[: len(line) - len(line.lstrip())]
    file.write_text(text.replace(line, f"{indent}raise ZeroDivisionError('planted')\n{line}"))
    venv.EnvBuilder(symlinks=True).create(folder / "python")
    installed = sysconfig.get_path("purelib", "venv", {"base": str(folder / "python")})
    paths = f"{copy}\n{sysconfig.get_path('purelib')}\n"
    (Path(installed) / "elsewhere.pth").write_text(paths)
    return folder / "python" / "bin" / "python"


def graded_by(python, room):
    """The exit status of `make grade` where our code fails, and what it says, on one line."""
    status, said = room.run(
        "autograder.instructor", "--root", str(room.root), "grade", python=python
    )
    return status, " ".join(said.split())


def handed_in_to(root, more=""):
    """A class of one, who is right, with some more lines in its configuration."""
    room = Classroom.at(root, until="1.1", calibrated=False)
    room.forget_the_others()
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    room.hand_in("ada", {"1.1": RIGHT["1.1"]})
    with (room.root / "nbgrader_config.py").open("a") as config:
        config.write(more)
    return room


def state_of_ada(room):
    """The beginning of her line in `grades.csv`."""
    rows = (room.root / "grading" / "grades.csv").read_text("utf-8-sig")
    return next(row for row in rows.splitlines() if row.startswith("ada,"))


NOT_JUDGED = (
    f"ada, {ASSIGNMENT}: grading failed. NotGradedError: exercise 1.1 could not be judged, by no "
    "fault of the answer: ZeroDivisionErr"
)


def test_nbgrader_grades_nobody_where_the_judge_fails(tmp_path, monkeypatch, capsys):
    room = handed_in_to(tmp_path, UNCALIBRATED)  # calibration would have noticed it before
    monkeypatch.setattr(judging_in_sandbox, "_run_and_read_judge", judged_here)
    Planting("judge.judging", "judge", "1.1", strips).plant(monkeypatch)
    with pytest.raises(AssertionError, match="ZeroDivisionError: planted"):  # its status is not 0
        room.nbgrader("autograde", ASSIGNMENT, "--create")
    assert "ada" not in room.scores()
    assert not (room.root / "grading" / "autograded" / "ada" / ASSIGNMENT).exists()

    assert main(["--root", str(room.root), "grade"]) == 1
    assert NOT_JUDGED in " ".join(capsys.readouterr().out.split())
    assert "ada" not in room.scores()
    assert state_of_ada(room).startswith(f"ada,{ASSIGNMENT},failed,,")


NO_BUBBLEWRAP = "\nc.Sandbox.required = False\n"
"""For a Python below /tmp, which bubblewrap cannot start."""


@pytest.mark.slow
def test_nobody_is_graded_where_the_judges_half_fails(tmp_path):
    room = handed_in_to(tmp_path, NO_BUBBLEWRAP + UNCALIBRATED)
    python = course_with_an_error(
        tmp_path, "shardlings/layouts/differences", "    if expected == actual:"
    )
    status, said = room.run("nbgrader", "autograde", ASSIGNMENT, "--create", python=python)
    assert status == 1
    assert "ZeroDivisionError: planted (shardlings.layouts.differences, line" in said
    assert room.scores() == {}

    status, said = graded_by(python, room)
    assert status == 1
    assert NOT_JUDGED in said
    assert room.scores() == {}
    assert state_of_ada(room).startswith(f"ada,{ASSIGNMENT},failed,,")


@pytest.mark.slow
def test_nobody_is_graded_where_the_kernels_half_fails(tmp_path):
    room = handed_in_to(tmp_path, NO_BUBBLEWRAP)
    python = course_with_an_error(
        tmp_path, "autograder/evidence/placements", "    contents = Contents("
    )
    status, said = graded_by(python, room)
    assert status == 1
    assert "The solution notebook cannot be graded" in said
    assert "ZeroDivisionError: planted (autograder.evidence.placements, line" in said
    assert room.scores() == {}
    assert state_of_ada(room).startswith(f"ada,{ASSIGNMENT},failed,,")
