"""A course in a temporary folder, graded by nbgrader's own commands."""

import contextlib
import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps.nbgraderapp import NbGraderApp
from sqlalchemy.exc import SAWarning
from traitlets.config import Application

from autograder.exercises import NOTEBOOKS, find
from autograder.instructor.authoring import bank, fill_in_answers
from autograder.instructor.calibration import calibrate
from autograder.instructor.commands.process_executor import prepare_process
from autograder.instructor.course import Course
from autograder.instructor.pipeline import fingerprint_assignment
from autograder.instructor.pipeline.facts import DIGEST_CHARACTERS
from autograder.instructor.sandbox import Sandbox, has_bubblewrap
from shardlings.devices import environment
from tests.conftest import ROOT
from tests.helpers import copy_folder

ASSIGNMENT = "01_sharding_basics"

SHARED = ROOT if os.access(ROOT, os.W_OK) else Path(tempfile.gettempdir()) / "shardlings"
SECRET = bytes(32)
"""The secret of each class, so that answers are tried with the same inputs in each run."""

CALIBRATED = SHARED / ".pytest_cache" / "calibration"
"""Calibrations shared by all tests, also those that run in parallel."""


COMPILED = CALIBRATED / "compiled"
"""The caches of these calibrations, from which warm servers read, whatever class they serve."""


def begin_test_worker(folder: str) -> None:
    """Prepare a worker of the pool that all classes share."""
    prepare_process(folder)
    share_caches()


def share_caches() -> None:
    """Let this process's sandboxes read caches from `COMPILED`, so that classes share servers."""
    create = Sandbox.__init__

    def __init__(self: Any, **traits: Any) -> None:  # noqa: N807
        create(self, **traits)
        shared = COMPILED / Path(self.compiled).name
        if self.compiled and not self.fills_compiled and shared.is_dir():
            self.compiled = str(shared)

    Sandbox.__init__ = __init__  # type: ignore[method-assign]


def right_answers(assignment: str) -> dict[str, str]:
    """Return a right answer to each exercise of a notebook."""
    known = bank.load(ROOT / "solutions" / assignment / "bank.py")
    return {entry.exercise: entry.code for entry in reversed(known) if entry.score == 1}


RIGHT = right_answers(ASSIGNMENT)

FULL = {"1.1": 1, "1.2": 1, "1.3": 1, "1.4": 1, "1.5": 2, "1.6": 2, "1.7": 3, "1.8": 2}
"""The points of each exercise of the assignment."""

LAST = "1.2"
SHORT = {exercise: points for exercise, points in FULL.items() if exercise <= LAST}
"""The points in a classroom whose notebook ends after its second exercise."""


@dataclass
class Classroom:
    """A course's folder with submissions of one assignment, and a gradebook."""

    root: Path
    assignment: str = ASSIGNMENT

    @classmethod
    def at(
        cls,
        root: Path,
        assignment: str = ASSIGNMENT,
        until: str = "",
        without: Collection[str] = (),
        calibrated: bool = True,
    ) -> "Classroom":
        """Copy the course from the checkout, without a class.

        Args:
            root: the folder to copy it to.
            assignment: the assignment that will be submitted.
            until: the exercise that the notebook ends with, for tests that need only a few
                exercises, because this is much faster to grade.
            without: exercises before that one which are left out too.
            calibrated: whether to calibrate the assignment; not if the test changes it first.
        """
        for folder in ("course", "solutions"):
            copy_folder(ROOT / folder, root / folder)
        shutil.copy(ROOT / "pyproject.toml", root)
        (root / "nbgrader_config.py").write_text(configuration())
        (root / "grading").mkdir()
        (root / "grading" / "secret").write_bytes(SECRET)
        classroom = cls(root, assignment)
        if until:
            classroom.shorten(until, without)
        if calibrated:
            classroom.calibrate()
        return classroom

    def shorten(self, last: str, without: Collection[str] = ()) -> None:
        """Delete other exercises, and what follows the last, in both notebooks."""
        left_out = {find(exercise).grade_id.removesuffix("-check") for exercise in without}
        for folder in ("solutions", "course"):
            path = self.root / folder / self.assignment / f"{self.assignment}.ipynb"
            notebook = nbformat.read(path, 4)
            names = [c.metadata.get("nbgrader", {}).get("grade_id", "") for c in notebook.cells]
            end = names.index(find(last).grade_id) + 1
            notebook.cells = [
                cell
                for name, cell in zip(names[:end], notebook.cells[:end], strict=True)
                if name.removesuffix("-check") not in left_out
            ]
            nbformat.write(notebook, path)

    def grade_uncalibrated(self) -> None:
        """Configure grading without calibration, for classes that are not about it."""
        with (self.root / "nbgrader_config.py").open("a") as config:
            config.write(UNCALIBRATED)

    def calibrate(self) -> None:
        """Calibrate the assignment, once for all classrooms with the same notebooks.

        Only the files of the calibration are shared, and these name what they are valid for.
        """
        own = self.root / "grading" / "calibration" / f"{self.assignment}.json"
        compiled = self.root / "grading" / "cache"
        api = Course(self.root).api
        state = fingerprint_assignment(api.coursedir, api.config, self.assignment)
        shared = CALIBRATED / f"{state}.json"
        for folder in (own.parent, compiled, COMPILED):
            folder.mkdir(parents=True, exist_ok=True)
        with shared.with_suffix(".lock").open("w") as lock, warnings.catch_warnings():
            fcntl.flock(lock, fcntl.LOCK_EX)
            warnings.simplefilter("ignore", SAWarning)
            if shared.exists():
                shutil.copy(shared, own)
                for cache in COMPILED.glob(f"{self.assignment}.{state[:DIGEST_CHARACTERS]}-*"):
                    shutil.copytree(cache, compiled / cache.name, dirs_exist_ok=True)
            calibrate(api.config, self.assignment)
            for cache in compiled.glob(f"{self.assignment}.*"):
                shutil.copytree(cache, COMPILED / cache.name, dirs_exist_ok=True)
            shutil.copy(own, shared)

    def forget_the_others(self) -> None:
        """Remove the other assignments from the course, so that grading is fast."""
        for folder in (self.root / "solutions").iterdir():
            if folder.name != self.assignment:
                shutil.rmtree(folder)

    def nbgrader(self, *arguments: str, check: bool = True) -> str:
        """Run one of nbgrader's commands in this process, and return its output.

        A configuration that patches our modules would patch them for all tests; use `run` then.
        """
        output, status = io.StringIO(), 0
        with (
            mock.patch.dict(os.environ, self.environment(), clear=True),
            contextlib.chdir(self.root),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            try:
                NbGraderApp.launch_instance(list(arguments))
            except SystemExit as end:
                status = int(end.code or 0)
            finally:  # else the next command would be this one again
                type(Application.instance()).clear_instance()
        assert not check or status == 0, output.getvalue()
        return output.getvalue()

    def run(self, *command: str, python: Path | str = sys.executable) -> tuple[int, str]:
        """Run a module as a command in the course's folder; return its status and its output."""
        (self.root / "tmp").mkdir(exist_ok=True)
        done = subprocess.run(
            [str(python), "-m", *command],
            cwd=self.root,
            # without the environment's own scripts, as if it were not activated
            env={**self.environment(), "PATH": os.defpath, "TMPDIR": str(self.root / "tmp")},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        """Return an instructor's environment variables, without the tests' eight devices."""
        kept = {name: os.environ[name] for name in os.environ if name not in environment()}
        return {**kept, "SHARDLINGS_STATE": str(self.root / "state")}

    def released(self) -> Any:
        """Read the notebook that students get."""
        return nbformat.read(self.root / "course" / self.assignment / f"{self.assignment}.ipynb", 4)

    def hand_in(self, student: str, answers: dict[str, str], *, first: str = "") -> Path:
        """Submit the released notebook with answers, and with code in a cell at the top."""
        notebook = fill_in_answers(self.released(), answers)
        if first:
            notebook.cells.insert(2, nbformat.v4.new_code_cell(first))
        return self.hand_in_notebook(student, notebook)

    def hand_in_notebook(self, student: str, notebook: Any) -> Path:
        """Submit a notebook as it is."""
        folder = self.root / "grading" / "submitted" / student / self.assignment
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.assignment}.ipynb"
        nbformat.write(notebook, path)
        return path

    def scores(self) -> dict[str, dict[str, float]]:
        """Read each student's score for each exercise from the gradebook."""
        names = {exercise.grade_id: exercise.id for exercise in NOTEBOOKS[self.assignment]}
        with Gradebook(f"sqlite:///{self.root / 'grading' / 'gradebook.db'}") as gradebook:
            return {
                submission.student.id: {
                    names[grade.name]: grade.auto_score
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                }
                for submission in gradebook.assignment_submissions(self.assignment)
            }

    def graded(self, student: str) -> Any:
        """Read a student's graded notebook."""
        graded = self.root / "grading" / "autograded"
        path = graded / student / self.assignment / f"{self.assignment}.ipynb"
        return nbformat.read(path, 4)

    def printed(self, student: str) -> str:
        """Return the output of the cell that `hand_in` put at the top."""
        cells = self.graded(student).cells
        has_note = cells[0].source.startswith("    ")  # the note that lists what was left out
        outputs = cells[2 + has_note].outputs
        return "".join(str(o.get("text", "")) for o in outputs)

    def verdicts(self, student: str) -> dict[str, str]:
        """Return the verdict below each check of a graded notebook, as plain text."""
        verdicts = {}
        for cell in self.graded(student).cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if grade_id.endswith("-check"):
                texts = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
                verdicts[grade_id] = "\n".join(texts)
        return verdicts


UNCALIBRATED = "\nc.LockedAutograde.calibrate = False\n"
"""A line of a configuration, for classes that are not about calibration."""


def configuration() -> str:
    """Return the course's configuration, without the sandbox where bubblewrap is missing."""
    text = (ROOT / "nbgrader_config.py").read_text()
    return text if has_bubblewrap() else f"{text}\nc.Sandbox.required = False\n"


def grade_nothing(path: Path) -> None:
    """End a notebook before its first exercise, whose names later cells may use."""

    def strip(data: Any) -> None:
        data["cells"] = [*takewhile(lambda cell: "nbgrader" not in cell["metadata"], data["cells"])]

    edit(path, strip)


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Apply a function to a notebook's JSON."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
