"""A course of one's own in a temporary folder, graded by nbgrader's commands, unmodified."""

import contextlib
import fcntl
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps.nbgraderapp import NbGraderApp
from sqlalchemy.exc import SAWarning
from traitlets.config import Application

from autograder.devices import environment
from autograder.exercises import NOTEBOOKS, find
from autograder.instructor.authoring import answered, bank
from autograder.instructor.calibration import calibrate
from autograder.instructor.course import Course
from autograder.instructor.pipeline import fingerprint_assignment
from autograder.instructor.sandbox import has_bubblewrap
from tests.conftest import ROOT

ASSIGNMENT = "01_sharding_basics"

SHARED = ROOT if os.access(ROOT, os.W_OK) else Path(tempfile.gettempdir()) / "shardlings"
CALIBRATED = SHARED / ".pytest_cache" / "calibration"
"""Where the tests, and whoever runs them side by side, share what was calibrated."""


def right_answers(assignment: str) -> dict[str, str]:
    """A right answer to each exercise of a notebook."""
    known = bank.load(ROOT / "solutions" / assignment / "bank.py")
    return {entry.exercise: entry.code for entry in reversed(known) if entry.score == 1}


RIGHT = right_answers(ASSIGNMENT)

FULL = {"1.1": 1, "1.2": 1, "1.3": 1, "1.4": 1, "1.5": 2, "1.6": 2, "1.7": 3, "1.8": 2}
"""What right answers to all of it earn."""

LAST = "1.2"
SHORT = {exercise: points for exercise, points in FULL.items() if exercise <= LAST}
"""The same, where a classroom's notebook ends after its second exercise."""


@dataclass
class Classroom:
    """A checkout with submissions of one assignment, and a gradebook."""

    root: Path
    assignment: str = ASSIGNMENT

    @classmethod
    def at(
        cls, root: Path, assignment: str = ASSIGNMENT, until: str = "", calibrated: bool = True
    ) -> "Classroom":
        """Copy what a checkout has; nothing of a class.

        Args:
            root: where to.
            assignment: what will be handed in.
            until: the exercise that its notebook is to end with, which is much quicker to grade;
                for what is about kernels and programs, and not about answers to all of them.
            calibrated: whether it is calibrated, too; where it is to be changed first, it is not.
        """
        for folder in ("course", "solutions"):
            shutil.copytree(ROOT / folder, root / folder)
        shutil.copy(ROOT / "pyproject.toml", root)
        for path in (root, *root.rglob("*")):  # a checkout may not be, and a class is, written to
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
        (root / "nbgrader_config.py").write_text(configuration())
        room = cls(root, assignment)
        if until:
            room.shorten(find(until).grade_id)
        if calibrated:
            room.calibrate()
        return room

    def shorten(self, last: str) -> None:
        """End the notebook after a cell, in the source and in the release."""
        for folder in ("solutions", "course"):
            path = self.root / folder / self.assignment / f"{self.assignment}.ipynb"
            notebook = nbformat.read(path, 4)
            names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
            del notebook.cells[names.index(last) + 1 :]
            nbformat.write(notebook, path)

    def calibrate(self) -> None:
        """Calibrate the assignment, once for all classrooms that have the same.

        What is shared is only what a calibration leaves, and it says itself what it holds for.
        """
        mine = self.root / "grading" / "calibration" / f"{self.assignment}.json"
        compiled = self.root / "grading" / "cache" / self.assignment
        api = Course(self.root).api
        state = fingerprint_assignment(api.coursedir, api.config, self.assignment)
        shared = CALIBRATED / f"{state}.json"
        for path in (mine, shared, compiled):
            path.parent.mkdir(parents=True, exist_ok=True)
        with shared.with_suffix(".lock").open("w") as lock, warnings.catch_warnings():
            fcntl.flock(lock, fcntl.LOCK_EX)
            warnings.simplefilter("ignore", SAWarning)
            if shared.exists():
                shutil.copy(shared, mine)
                shutil.copytree(shared.with_suffix(""), compiled, dirs_exist_ok=True)
            calibrate(api.coursedir, api.config, self.assignment)
            compiled.mkdir(exist_ok=True)  # without a sandbox, nothing is kept there
            shutil.copytree(compiled, shared.with_suffix(""), dirs_exist_ok=True)
            shutil.copy(mine, shared)

    def forget_the_others(self) -> None:
        """Leave one assignment alone in the course, so that to grade a class is quick."""
        for folder in (self.root / "solutions").iterdir():
            if folder.name != self.assignment:
                shutil.rmtree(folder)

    def nbgrader(self, *arguments: str, check: bool = True) -> str:
        """Have one of nbgrader's commands done, in this process; what it says.

        Where a configuration changes our modules, it changes them for all tests: `run` it there.
        """
        said, status = io.StringIO(), 0
        with (
            mock.patch.dict(os.environ, self.environment(), clear=True),
            contextlib.chdir(self.root),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            try:
                NbGraderApp.launch_instance(list(arguments))
            except SystemExit as end:
                status = int(end.code or 0)
            finally:  # else the next such command is this one again
                type(Application.instance()).clear_instance()
        assert not check or status == 0, said.getvalue()
        return said.getvalue()

    def run(self, *command: str, python: Path | str = sys.executable) -> tuple[int, str]:
        """Run a module as a command, in the course's folder; its exit status and what it says."""
        (self.root / "tmp").mkdir(exist_ok=True)
        done = subprocess.run(
            [str(python), "-m", *command],
            cwd=self.root,
            # without the environment's own scripts, as where nobody has activated it
            env={**self.environment(), "PATH": os.defpath, "TMPDIR": str(self.root / "tmp")},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        """The variables of whoever grades, who has one device where tests have eight."""
        kept = {name: os.environ[name] for name in os.environ if name not in environment()}
        return {**kept, "SHARDLINGS_STATE": str(self.root / "state")}

    def released(self) -> Any:
        """The notebook that students get."""
        return nbformat.read(self.root / "course" / self.assignment / f"{self.assignment}.ipynb", 4)

    def hand_in(self, student: str, answers: dict[str, str], *, first: str = "") -> Path:
        """Submit the released notebook with answers, and code in a cell of its own at the top."""
        notebook = answered(self.released(), answers)
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
        """What the gradebook holds: for each student, the score of each exercise."""
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
        """A graded notebook."""
        graded = self.root / "grading" / "autograded"
        path = graded / student / self.assignment / f"{self.assignment}.ipynb"
        return nbformat.read(path, 4)

    def printed(self, student: str) -> str:
        """What the cell said that came first, where a submission has one."""
        cells = self.graded(student).cells
        told = cells[0].source.startswith("    ")  # a cell above all others says what is missing
        outputs = cells[2 + told].outputs
        return "".join(str(o.get("text", "")) for o in outputs)

    def verdicts(self, student: str) -> dict[str, str]:
        """What a graded notebook says below each check, as plain text."""
        said = {}
        for cell in self.graded(student).cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if grade_id.endswith("-check"):
                texts = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
                said[grade_id] = "\n".join(texts)
        return said


def configuration() -> str:
    """A course's configuration, which lets it be graded where there is no bubblewrap, too."""
    written = (ROOT / "nbgrader_config.py").read_text()
    return written if has_bubblewrap() else f"{written}\nc.Sandbox.required = False\n"


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a notebook's JSON."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
