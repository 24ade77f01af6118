"""A class whose notebook asks for nothing of JAX: what is about grading many is quick with it."""

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.api import Gradebook

from tests.conftest import ROOT
from tests.instructor.room import UNCALIBRATED, configuration

ASSIGNMENT = "tiny"
SOURCE = "### BEGIN SOLUTION\ndouble = 2\n### END SOLUTION"


def about(name: str, **kinds: Any) -> dict[str, Any]:
    """Nbgrader's metadata of a cell."""
    flags = {"grade": False, "solution": False, "locked": False, "task": False}
    return {"nbgrader": {"grade_id": name, "schema_version": 3, **flags, **kinds}}


def notebook(answer: str) -> Any:
    """The notebook, with an answer in it."""
    graded = about("test", grade=True, locked=True, points=2)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(
        cells=[
            new_code_cell(answer, metadata=about("double", solution=True), id="double"),
            new_code_cell("assert double == 2", metadata=graded, id="test"),
        ],
        metadata={"kernelspec": kernel},
    )


def tiny_class(root: Path, students: int) -> Path:
    """Make a course of one assignment; every third is wrong, and no two hand in the same."""
    folder = root / "solutions" / ASSIGNMENT
    folder.mkdir(parents=True)
    nbformat.write(notebook(SOURCE), folder / f"{ASSIGNMENT}.ipynb")
    (root / "nbgrader_config.py").write_text(configuration() + UNCALIBRATED)
    shutil.copy(ROOT / "pyproject.toml", root)
    for number in range(students):
        answer = "double = 3" if number % 3 == 0 else "double = 2"
        hand_in(root, f"student-{number:02}", f"{answer}  # {number}")
    return root


def hand_in(root: Path, student: str, answer: str) -> Path:
    """Submit the notebook with an answer."""
    folder = root / "grading" / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True)
    path = folder / f"{ASSIGNMENT}.ipynb"
    nbformat.write(notebook(answer), path)
    return path


def wanted(students: int) -> dict[str, float]:
    """Return the scores that such a class should get."""
    return {f"student-{number:02}": 2.0 * (number % 3 != 0) for number in range(students)}


def scores(root: Path) -> dict[str, float | None]:
    """Return each student's score in the gradebook."""
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as gradebook:
        return {
            submission.student.id: grade.auto_score
            for submission in gradebook.assignment_submissions(ASSIGNMENT)
            for book in submission.notebooks
            for grade in book.grades
        }


def log(root: Path) -> list[dict[str, Any]]:
    """Return the logs of all gradings, in order."""
    files = sorted((root / "grading" / "logs").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
