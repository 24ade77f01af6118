"""Nobody is graded if kernels could look answers up, and the message names the file."""

import shutil
from concurrent.futures import Future
from typing import Any

import pytest
from rich.console import Console
from traitlets.config import Config

from autograder.exercises import NOTEBOOKS
from autograder.instructor import calibration
from autograder.instructor.calibration import (
    HINTS,
    CalibrationError,
    _identifying_texts,
    calibrate,
    find_exposed_answers,
)
from autograder.instructor.classroom import calibrating, workers
from autograder.instructor.course import Course
from autograder.instructor.sandbox import bubblewrap, hidden_copies, sandbox
from tests.conftest import ROOT
from tests.instructor.room import ASSIGNMENT

EXERCISES = ROOT / "autograder" / "exercises" / "notebooks"


@pytest.mark.parametrize("assignment", NOTEBOOKS)
def test_the_words_that_are_looked_for_stand_in_the_exercises(assignment):
    text = "".join(path.read_text() for path in EXERCISES.glob("*.py"))
    found = [word for word in _identifying_texts(assignment) if word in text]
    assert len(found) > len(NOTEBOOKS[assignment]) / 2


@pytest.mark.parametrize("path", [*EXERCISES.glob("nb*.py")], ids=lambda path: path.stem)
def test_the_word_by_which_files_are_chosen_stands_where_exercises_are_defined(path):
    text = path.read_text()
    assert HINTS in text or "Exercise(" not in text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One more folder that kernels see all of."""
    own = bubblewrap.list_visible_folders()
    for module in (bubblewrap, sandbox):
        monkeypatch.setattr(module, "list_visible_folders", lambda: [*own, tmp_path])
    hidden_copies._find_copies.cache_clear()
    yield tmp_path
    hidden_copies._find_copies.cache_clear()


@pytest.mark.bubblewrap
def test_copies_of_other_names_are_found(folder, monkeypatch):
    everything, only_here = 'os.walk("/")', f"os.walk({str(folder)!r})"
    assert everything in calibration.SEARCH  # as in the next test; with texts it takes long
    search = calibration.SEARCH.replace(everything, only_here)
    monkeypatch.setattr(calibration, "SEARCH", search)
    (folder / "a/b/c/d/e/f/g").mkdir(parents=True)
    (folder / "share").mkdir()
    module = next(path for path in EXERCISES.glob("nb01*.py"))
    notebook = f"{ASSIGNMENT}.ipynb"
    shutil.copy(module, folder / "a/b/c/d/e/f/g/of_last_year.txt")
    shutil.copy(ROOT / "solutions" / ASSIGNMENT / notebook, folder / "share" / notebook)
    shutil.copytree(ROOT / "course" / ASSIGNMENT, folder / "released")
    shutil.copytree(ROOT / "autograder", folder / "installed" / "autograder")
    other = "03_constraints"
    found = find_exposed_answers(Config(), [ASSIGNMENT, other])
    assert sorted(found[ASSIGNMENT]) == [
        str(folder / "a/b/c/d/e/f/g/of_last_year.txt"), str(folder / "share" / notebook),
    ]  # fmt: skip
    assert found[other] == []


@pytest.mark.bubblewrap
def test_a_solved_copy_is_found_also_if_there_is_no_text_to_look_for(folder):
    for name in ("solved", "released"):
        (folder / name).mkdir()
    (folder / "solved" / "sums.ipynb").write_text('{"cells": ["### BEGIN SOLUTION"]}')
    (folder / "released" / "sums.ipynb").write_text('{"cells": []}')
    assert find_exposed_answers(Config(), ["sums"]) == {
        "sums": [str(folder / "solved" / "sums.ipynb")]
    }


class Worker:
    """A worker that keeps the names of the functions that it is given, and their last arguments."""

    def __init__(self, found):
        self.found, self.asked = found, []

    def submit(self, function, /, *arguments):
        self.asked.append((function.__name__, *arguments[2:]))
        future: Future[object] = Future()
        if "search" not in function.__name__:
            future.set_result("")
        elif isinstance(self.found, Exception):
            future.set_exception(self.found)
        else:
            future.set_result(self.found)
        return future


@pytest.mark.parametrize("found", [{"a": ["/opt/a.py"], "b": []}, RuntimeError("killed")])
def test_a_worker_searches_once_for_all_assignments(tmp_path, monkeypatch, found):
    monkeypatch.setattr(calibrating, "recall_calibration", lambda *_: None)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    worker: Any = Worker(found)
    pool = workers.Pool(worker, lambda: 2)
    refusals = calibrating.Refusals(Course(tmp_path), Console(quiet=True), (), pool)
    assert refusals.find(["a", "b"]) == {"a": "", "b": ""}
    alone = {} if isinstance(found, Exception) else found  # each searches by itself
    assert worker.asked == [
        ("_search_in_worker", ["a", "b"]),
        ("_calibrate_in_worker", "a", alone.get("a")),
        ("_calibrate_in_worker", "b", alone.get("b")),
    ]


def test_nobody_is_graded_where_there_are_any(tmp_path, monkeypatch):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("solutions", "course"):
        shutil.copytree(ROOT / name / ASSIGNMENT, tmp_path / name / ASSIGNMENT)
    files = [f"/opt/{number}.py" for number in range(5)]
    monkeypatch.setattr(calibration, "find_exposed_answers", lambda *_: {ASSIGNMENT: files})
    api = Course(tmp_path).api
    with pytest.raises(
        CalibrationError,
        match=r"can be read where submissions run, in /opt/0.py, /opt/1.py, /opt/2.py and others\. "
        r"Kernels see all of Python's folders: remove the copy",
    ):
        calibrate(api.config, ASSIGNMENT)
