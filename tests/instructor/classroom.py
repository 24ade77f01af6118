"""A course of one's own in a temporary folder, graded by nbgrader's commands, unmodified."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook

from autograder.instructor import bank
from tests.conftest import ROOT

ASSIGNMENT = "01_sharding_basics"
RIGHT = {entry.exercise: entry.code
         for entry in reversed(bank.load(ROOT / "solutions" / ASSIGNMENT / "bank.py"))
         if entry.score == 1}  # fmt: skip
"""A right answer to each exercise."""


@dataclass
class Classroom:
    """A checkout with submissions and a gradebook."""

    root: Path

    @classmethod
    def at(cls, root: Path) -> "Classroom":
        """Copy what a checkout has; nothing of a class."""
        for folder in ("course", "solutions"):
            shutil.copytree(ROOT / folder, root / folder)
        for file in ("nbgrader_config.py", "pyproject.toml"):
            shutil.copy(ROOT / file, root / file)
        (root / "grading").mkdir()
        return cls(root)

    def nbgrader(self, *arguments: str, check: bool = True) -> str:
        """Run one of nbgrader's commands, as an instructor types it; what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.root,
            # without the environment's own scripts, as where nobody has activated it
            env={**os.environ, "PATH": os.defpath, "SHARDLINGS_STATE": str(self.root / "state")},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        said = done.stdout + done.stderr
        assert not check or done.returncode == 0, said
        return said

    def released(self) -> Any:
        """The notebook that students get."""
        return nbformat.read(self.root / "course" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", 4)

    def hand_in(self, student: str, answers: dict[str, str], *, first: str = "") -> Path:
        """Submit the released notebook with answers, and code in a cell of its own at the top."""
        notebook = bank.answered(self.released(), answers)
        if first:
            notebook.cells.insert(2, nbformat.v4.new_code_cell(first))
        return self.hand_in_notebook(student, notebook)

    def hand_in_notebook(self, student: str, notebook: Any) -> Path:
        """Submit a notebook as it is."""
        folder = self.root / "grading" / "submitted" / student / ASSIGNMENT
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{ASSIGNMENT}.ipynb"
        nbformat.write(notebook, path)
        return path

    def scores(self) -> dict[str, dict[str, float]]:
        """What the gradebook holds: for each student, the score of each exercise."""
        names = {f"ex-{i.replace('.', '-')}-check": i for i in RIGHT}
        with Gradebook(f"sqlite:///{self.root / 'grading' / 'gradebook.db'}") as gradebook:
            return {
                submission.student.id: {
                    names[grade.name]: grade.auto_score
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                }
                for submission in gradebook.assignment_submissions(ASSIGNMENT)
            }

    def verdicts(self, student: str) -> dict[str, str]:
        """What a graded notebook says below each check, as plain text."""
        path = self.root / "grading" / "autograded" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        said = {}
        for cell in nbformat.read(path, 4).cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if grade_id.endswith("-check"):
                texts = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
                said[grade_id] = "\n".join(texts)
        return said


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a notebook's JSON."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
