"""A class judged again from its evidence; a grading that was killed; two at once."""

import fcntl
import io
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from rich.console import Console

from autograder.explanations import Fault
from autograder.instructor.__main__ import main
from autograder.instructor.classroom import grading, regrading, stale_grades
from autograder.instructor.course import BusyError, Course
from autograder.instructor.nbgrader_plugins import capture_evidence as capturing
from autograder.instructor.pipeline import (
    Records,
)
from autograder.instructor.sandbox import JudgeFailedError, judge_in_sandbox, sandbox
from tests.helpers import pretend_bubblewrap
from tests.instructor.room import (
    ASSIGNMENT,
    LAST,
    RIGHT,
    Classroom,
)

WRONG = {**RIGHT, "1.1": "columns = x"}

pytestmark = pytest.mark.usefixtures("in_this_process")


def say():
    return Console(file=io.StringIO(), width=200)


def classroom(root, **students):
    """A class that has one assignment of two exercises, and no calibration, to be quick."""
    room = Classroom.at(root, until=LAST, calibrated=False)
    room.forget_the_others()
    room.grade_uncalibrated()
    for student, answers in students.items():
        room.hand_in(student, answers)
    return room


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class of four, graded."""
    room = classroom(
        tmp_path_factory.mktemp("course"), right=RIGHT, wrong=WRONG, half={"1.1": RIGHT["1.1"]},
        none={},
    )  # fmt: skip
    grading.grade_class(Course(room.root), say())
    return room


@pytest.fixture
def graded(before, tmp_path):
    """The same, for a test that may change it."""
    shutil.copytree(before.root, tmp_path / "course", symlinks=True)
    return Classroom(tmp_path / "course")


def test_the_same_evidence_gives_the_same_scores_and_runs_nobodys_code(graded, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a notebook was run")

    monkeypatch.setattr(capturing.CaptureEvidence, "preprocess", refuse)
    before, books = graded.scores(), graded.root / "grading"
    csv = (books / "exercises.csv").read_text("utf-8-sig")
    said = say()
    assert regrading.regrade_class(Course(graded.root), said) == 0
    assert "4 submissions were judged again; 0 have changed." in said.file.getvalue()
    assert graded.scores() == before
    assert (books / "exercises.csv").read_text("utf-8-sig") == csv
    assert before["wrong"]["1.1"] == 0
    assert before["right"]["1.1"] == 1


def test_each_submission_has_a_judge_of_its_own_and_inputs_that_nobody_can_guess(
    graded, monkeypatch
):
    given = []

    def judge(cases, seconds, room):
        given.append((cases, seconds))
        return judge_in_sandbox(cases, seconds, room)

    monkeypatch.setattr(stale_grades, "judge_in_sandbox", judge)
    config = graded.root / "nbgrader_config.py"
    text = config.read_text()
    config.write_text(text + "\nc.JudgeEvidence.seconds = 77\n")
    regrading.regrade_class(Course(graded.root), say())
    config.write_text(text)
    assert [seconds for _, seconds in given] == [77] * 4
    kept = Records(Course(graded.root).records)
    classes = [
        record.notebooks[ASSIGNMENT].cases()
        for pair in kept.all()
        if (record := kept.get(*pair)) is not None
    ]
    assert sorted(map(repr, classes)) == sorted(repr(tuple(cases)) for cases, _ in given)
    drawn = {case.fresh or 0 for cases in classes for case in cases}
    assert len(drawn) == 4
    assert all(96 < fresh.bit_length() <= 128 for fresh in drawn)


def test_a_judge_that_fails_costs_nobody_else_a_new_grade(graded, monkeypatch):
    def judge(cases, seconds, room):
        if any(case.exercise == "1.1" for case in cases) and judge_in_sandbox(cases)[0].score == 0:
            raise JudgeFailedError("The machine is too busy.")
        return [
            type(v)(v.exercise, v.title, tuple(f.but(met=True) for f in v.findings), earned=1.0)
            for v in judge_in_sandbox(cases, seconds, room)
        ]

    before, said = graded.scores(), say()
    monkeypatch.setattr(stale_grades, "judge_in_sandbox", judge)
    assert regrading.regrade_class(Course(graded.root), said) == 1
    words = said.file.getvalue()
    assert f"wrong, {ASSIGNMENT}: the old grade stays. JudgeFailedError: The machine is" in words
    assert graded.scores()["wrong"] == before["wrong"]
    assert graded.scores()["half"] != before["half"], "the others go on"
    monkeypatch.undo()
    regrading.regrade_class(Course(graded.root), say())
    assert graded.scores() == before


def test_a_changed_exercise_changes_scores_feedback_and_tables(graded, monkeypatch):
    def lenient(cases, seconds, room):
        verdicts = judge_in_sandbox(cases, seconds, room)
        return [
            type(v)(v.exercise, v.title, tuple(f.but(met=True) for f in v.findings), earned=1.0)
            if v.exercise == "1.1"
            else v
            for v in verdicts
        ]

    monkeypatch.setattr(stale_grades, "judge_in_sandbox", lenient)
    said = say()
    regrading.regrade_class(Course(graded.root), said)
    assert "have changed" in said.file.getvalue()
    assert graded.scores()["wrong"] == graded.scores()["right"]
    books = graded.root / "grading"
    assert f"wrong,{ASSIGNMENT},graded,2.0,2.0" in (books / "grades.csv").read_text("utf-8-sig")
    page = books / "feedback" / "wrong" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    assert "1.1 Column strips: right" in page.read_text()
    assert list((books / "backups").iterdir())
    monkeypatch.undo()
    regrading.regrade_class(Course(graded.root), say())
    assert graded.scores()["wrong"]["1.1"] == 0


def test_who_cannot_be_judged_again_keeps_grade_and_page(graded, monkeypatch):
    def half_broken(cases, seconds, room):
        """A judge that fails on who is right in 1.2, and lets everybody else pass in 1.1."""
        verdicts = judge_in_sandbox(cases, seconds, room)
        fault = Fault("ZeroDivisionError", "planted", "shardlings.layouts.differences, line 33")
        return [
            type(v)(v.exercise, v.title, (), fault)
            if v.exercise == "1.2" and v.score == 1
            else type(v)(
                v.exercise, v.title, tuple(f.but(met=True) for f in v.findings), earned=1.0
            )
            if v.exercise == "1.1"
            else v
            for v in verdicts
        ]

    before, books = graded.scores(), graded.root / "grading"
    kept = {path: path.read_bytes() for path in books.glob("*/right/*/*.*")}
    assert len(kept) > 2
    monkeypatch.setattr(stale_grades, "judge_in_sandbox", half_broken)
    said = say()
    assert regrading.regrade_class(Course(graded.root), said) == 1
    words = said.file.getvalue()
    assert f"right, {ASSIGNMENT}: the old grade stays. NotGradedError: exercise 1.2 could" in words
    assert "by no fault of the answer: ZeroDivisionError: planted (shardlings.layouts" in words
    assert "2 of them could not be judged, and keep their grades." in words
    after = graded.scores()
    assert {name: after[name] for name in ("right", "wrong")} == {
        name: before[name] for name in ("right", "wrong")
    }
    assert after["none"]["1.1"] == 1, "the others go on"
    assert {path: path.read_bytes() for path in kept} == kept
    monkeypatch.undo()
    assert regrading.regrade_class(Course(graded.root), say()) == 0
    assert graded.scores() == before


def test_two_gradings_at_once_are_one(graded, capsys):
    with (graded.root / "grading" / ".lock").open("w") as lock:  # as another process has it
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in ("grade", "regrade"):
            assert main(["--root", str(graded.root), command]) == 1
            assert "Another command is at work in this folder." in capsys.readouterr().out
        with pytest.raises(BusyError), Course(graded.root).hold_lock():
            pass
    with Course(graded.root).hold_lock(), Course(graded.root).hold_lock():
        pass


def test_evidence_that_cannot_be_read_is_said_and_left(graded, monkeypatch):
    path = graded.root / "grading" / "records" / "wrong" / f"{ASSIGNMENT}.json"
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b"{", b"{NaN", 1))
    said, before = say(), graded.scores()
    assert regrading.regrade_class(Course(graded.root), said) == 0
    assert f"{path.name} cannot be read: JSON is malformed" in said.file.getvalue()
    assert "3 submissions were judged again; 0 have changed." in said.file.getvalue()
    assert graded.scores() == before
    path.write_bytes(kept)


def test_judging_again_keeps_to_the_sandbox_that_was_asked_for(graded, monkeypatch):
    config = graded.root / "nbgrader_config.py"
    text = config.read_text()
    config.write_text(text + "\nc.Sandbox.required = True\n")
    pretend_bubblewrap(monkeypatch, False)
    with pytest.raises(sandbox.NoSandboxError, match="Nothing is graded, because"):
        regrading.regrade_class(Course(graded.root), say())
    config.write_text(text)


@pytest.mark.slow
def test_a_grading_that_is_killed_goes_on_where_it_was(tmp_path):
    students = {f"student-{i}": RIGHT if i % 2 else WRONG for i in range(4)}
    room = classroom(tmp_path, **students)
    command = [sys.executable, "-m", "autograder.instructor", "--root", str(room.root), "grade"]
    (room.root / "tmp").mkdir()
    first = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(room.root / "tmp")},
    )
    done = room.root / "grading" / "autograded"
    while not (done / "student-0" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").exists():
        assert first.poll() is None, "it ended before it could be killed"
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    time.sleep(2)
    running = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in running if str(room.root) in command]
    kept = (done / "student-0" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").stat().st_mtime_ns
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stdout + second.stderr
    assert {name: scores["1.1"] for name, scores in room.scores().items()} == {
        "student-0": 0, "student-1": 1, "student-2": 0, "student-3": 1,
    }  # fmt: skip
    assert (done / "student-0" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").stat().st_mtime_ns == kept
