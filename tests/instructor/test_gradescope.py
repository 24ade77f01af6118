"""A bundle for Gradescope, run in folders laid out as Gradescope's are.

The layout, the fields of `results.json` and `submission_metadata.json` are those of
https://gradescope-autograders.readthedocs.io/en/latest/specs/ and
https://gradescope-autograders.readthedocs.io/en/latest/submission_metadata/, read on 2026-11-25.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import msgspec
import nbformat
import pytest
from rich.console import Console

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from autograder.instructor.gradescope import (
    SCRIPTS,
    compare_points,
    write_bundle,
    write_results,
)
from autograder.instructor.one_submission import prepare_grader
from autograder.instructor.pipeline import GradedNotebook, Outcome, Record, State
from tests.conftest import ROOT
from tests.instructor.gradescope_folders import (
    METADATA,
    Gradescope,
    fill_in,
    hostile,
    make_bundle,
)
from tests.instructor.room import ASSIGNMENT, RIGHT, UNCALIBRATED
from tests.instructor.tiny_class import SOURCE, notebook, tiny_class


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A bundle in Gradescope's folders, and the room that it comes from.

    `setup.sh` is not run, but what it makes is there: a Python with all packages. Nothing is
    calibrated, which would take two thirds of the time.
    """
    folder = tmp_path_factory.mktemp("gradescope")
    room, bundle = make_bundle(folder / "course", "after_due_date")
    gradescope = Gradescope(folder / "autograder", bundle)
    python = gradescope.root / "source" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    with (gradescope.root / "source" / "nbgrader_config.py").open("a") as config:
        config.write(UNCALIBRATED)
    return room, gradescope


@pytest.mark.bubblewrap
def test_a_right_answer_gets_its_points_and_a_picture_and_nothing_else_gets_any(image):
    room, gradescope = image
    gradescope.hand_in(fill_in(room, {"1.1": RIGHT["1.1"]}, first=hostile(gradescope.root)))
    status, printed, results = gradescope.run(**room.environment())
    assert status == 0, printed
    assert "worth 20 points, and its notebook 1." in " ".join(printed.split())
    (test,) = results.pop("tests")
    html = test.pop("output")
    assert test == {
        "name": "Column strips", "number": "1.1", "score": 1, "max_score": 1, "status": "passed",
    }  # fmt: skip
    assert "1.1 Column strips: right" in html
    assert "<svg" in html
    assert "<script" not in html
    assert results.pop("execution_time") > 0
    assert results == {
        "score": 1, "visibility": "after_due_date", "stdout_visibility": "hidden",
        "test_output_format": "html", "output": "",
    }  # fmt: skip
    assert not (gradescope.root / "submission" / "link").is_symlink()
    assert os.listdir(gradescope.root / "results") == ["results.json"]
    assert json.loads((gradescope.root / "submission_metadata.json").read_text()) == METADATA


@pytest.mark.slow
def test_a_link_in_the_submission_is_not_followed(image):
    room, gradescope = image
    gradescope.hand_in(fill_in(room, {"1.1": RIGHT["1.1"]}))
    notebook = gradescope.root / "submission" / f"{ASSIGNMENT}.ipynb"
    notebook.unlink()
    notebook.symlink_to(gradescope.root / "source" / "solutions" / ASSIGNMENT / notebook.name)
    status, printed, results = gradescope.run(**room.environment())
    assert status == 0, printed
    assert results["score"] == 0
    assert f"Nothing could be graded: {ASSIGNMENT}.ipynb is a link." in results["output"]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_container_is_calibrated_gets_a_notebook_and_gives_a_record(image, tmp_path):
    room, gradescope = image
    source = gradescope.root / "source"
    shutil.copy(room.root / "nbgrader_config.py", source)  # which has it calibrated
    notebook = room.hand_in("hypatia", {"1.1": RIGHT["1.1"]})
    done = subprocess.run(
        [ROOT / "containers" / "grade", notebook, "--record", tmp_path / "record.json"],
        cwd=source,
        env={**room.environment(), "ASSIGNMENT": ASSIGNMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (source / "grading" / "calibration" / f"{ASSIGNMENT}.json").exists()
    record = msgspec.json.decode((tmp_path / "record.json").read_bytes(), type=Record)
    assert record.state is State.GRADED
    assert record.notebooks[ASSIGNMENT].scores == {"ex-1-1-check": 1}


@pytest.mark.slow
def test_without_bubblewrap_nothing_is_graded_and_earlier_results_are_gone(image):
    room, gradescope = image
    (gradescope.root / "results" / "results.json").write_text('{"score": 1}')
    tools = gradescope.root / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "rm"):
        (tools / name).symlink_to(shutil.which(name))
    status, printed, results = gradescope.run(**{**room.environment(), "PATH": str(tools)})
    assert status == 1
    assert results is None
    assert "no working bubblewrap" in " ".join(printed.split())
    assert "--container-is-sandbox, or make gradescope CONTAINER=1" in " ".join(printed.split())


def test_a_bundle_has_the_solution_but_no_other_answers_and_both_scripts_are_executable(image):
    room, _ = image
    bundle = write_bundle(Course(room.root), ASSIGNMENT, "visible", True)
    with zipfile.ZipFile(bundle) as zipped:
        names = zipped.namelist()
        modes = [zipped.getinfo(name).external_attr >> 16 for name in SCRIPTS]
        settings = zipped.read("settings.sh").decode()
    assert all(mode & stat.S_IXUSR for mode in modes)
    assert "CONTAINER=--container-is-sandbox" in settings
    solutions = [name for name in names if name.startswith("solutions/")]
    assert solutions == [f"solutions/{ASSIGNMENT}/{ASSIGNMENT}.ipynb"]
    assert not [name for name in names if name.startswith(("grading/", "course/", "tests/"))]


def test_a_bundle_that_cannot_be_made_leaves_the_earlier_one(tmp_path):
    course = Course(tmp_path)  # without the scripts that a bundle needs
    bundle = course.grading / "exports" / f"gradescope-{ASSIGNMENT}.zip"
    bundle.parent.mkdir(parents=True)
    bundle.write_bytes(b"earlier")
    with pytest.raises(FileNotFoundError):
        write_bundle(course, ASSIGNMENT, "visible", container_is_sandbox=False)
    assert bundle.read_bytes() == b"earlier"


def test_the_submission_may_be_the_current_folder(tmp_path, monkeypatch, capsys):
    record = Record(State.BROKEN, "it has no notebook")
    points = {(ASSIGNMENT, "test"): 1.0}
    grader = SimpleNamespace(points=points, grade=lambda given: Outcome(record))
    monkeypatch.setattr("autograder.instructor.__main__.prepare_grader", lambda *_: grader)
    (tmp_path / "nbgrader_config.py").touch()
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission_metadata.json").write_text(json.dumps(METADATA))
    monkeypatch.chdir(tmp_path / "submission")
    command = ["--root", str(tmp_path), "grade-one", "--assignment", ASSIGNMENT]
    assert main([*command, "--gradescope", "r.json", "."]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "On Gradescope this assignment is worth 20 points, and its notebook 1." in said
    (tmp_path / "submission_metadata.json").unlink()
    assert main([*command, "--gradescope", "r.json", "."]) == 0
    assert capsys.readouterr().out == "broken: it has no notebook\n", "and no empty line"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", "There is no nowhere: give a submission's folder or its notebook."),
        ("missing.ipynb", "There is no missing.ipynb: give a submission's folder or its notebook."),
        ("notes.txt", "notes.txt is neither a submission's folder nor a notebook (.ipynb)."),
    ],
)
def test_a_wrong_path_of_a_submission_is_explained_before_calibration(
    tmp_path, monkeypatch, capsys, name, sentence
):
    (tmp_path / "nbgrader_config.py").touch()
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["--root", ".", "grade-one", "--assignment", ASSIGNMENT, name]) == 1
    assert " ".join(capsys.readouterr().out.split()).endswith(sentence)


def test_when_grading_failed_no_results_are_written(tmp_path):
    write_results(tmp_path / "r.json", Record(State.FAILED, "oh"), {}, "visible")
    assert not os.listdir(tmp_path)


def test_a_cell_that_is_graded_by_hand_has_no_score_yet_and_a_lost_cell_has_none(tmp_path):
    found = GradedNotebook({"essay": None, "test": 2.0}, notes=("evil\x1b.html stayed away",))
    record = Record(State.GRADED, notebooks={"a": found})
    points = {("a", "essay"): 3.0, ("a", "test"): 2.0, ("a", "lost"): 1.0}
    write_results(tmp_path / "r.json", record, points, "visible")
    results = json.loads((tmp_path / "r.json").read_text())
    essay, test, lost = results["tests"]
    assert "score" not in essay
    assert "graded by hand" in essay["output"]
    assert (test["score"], test["status"]) == (2, "passed")
    assert (lost["score"], lost["max_score"], lost["status"]) == (0, 1, "failed")
    assert results["score"] == 2
    assert "\x1b" not in results["output"]


def test_a_grader_has_the_points_of_all_cells_of_all_notebooks(tmp_path):
    root = tiny_class(tmp_path, 0)
    other = notebook(SOURCE)
    other.cells[1].metadata.nbgrader.points = 1
    nbformat.write(other, root / "solutions" / "tiny" / "other.ipynb")
    grader = prepare_grader(Course(root), Console(), "tiny")
    assert grader.points == {("other", "test"): 1, ("tiny", "test"): 2}


def test_cells_of_one_name_in_two_notebooks_have_each_their_own_score(tmp_path):
    notebooks = {"a": GradedNotebook({"test": 2.0}), "b": GradedNotebook({"test": 0.0})}
    points = {("a", "test"): 2.0, ("b", "test"): 1.0}
    write_results(tmp_path / "r.json", Record(State.GRADED, notebooks=notebooks), points, "visible")
    results = json.loads((tmp_path / "r.json").read_text())
    assert [test["score"] for test in results["tests"]] == [2, 0]
    assert results["score"] == 2


@pytest.mark.parametrize("text", ["", "[]", '{"assignment": {"total_points": "1.0"}}'])
def test_points_that_agree_or_are_unknown_are_not_mentioned(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    assert compare_points(tmp_path / "m.json", {("a", "test"): 1.0}) == ""
