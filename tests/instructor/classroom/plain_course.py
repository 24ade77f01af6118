"""A course of two assignments that need no JAX: each a sum, and an assert on it."""

import shutil

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from tests.conftest import ROOT
from tests.instructor.room import UNCALIBRATED, Classroom, configuration

FIRST, SECOND = "01_sums", "02_products"

TEST = {
    "grade_id": "sum", "grade": True, "solution": False, "locked": True, "task": False,
    "points": 10, "schema_version": 3,
}  # fmt: skip


def plain_course(root, assignments=(FIRST, SECOND)):
    """Make it; nothing is handed in, and grading does not calibrate, which takes four seconds."""
    for assignment in assignments:
        folder = root / "solutions" / assignment
        folder.mkdir(parents=True)
        cells = [
            new_code_cell("total = 1 + 2", id="total"),
            new_code_cell("assert total == 3", id="test", metadata={"nbgrader": TEST}),
        ]
        kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}
        nbformat.write(new_notebook(cells=cells, metadata=kernel), folder / f"{assignment}.ipynb")
    (root / "nbgrader_config.py").write_text(configuration() + UNCALIBRATED)
    shutil.copy(ROOT / "pyproject.toml", root)
    return Classroom(root, assignments[0])


ESSAY = {
    "grade_id": "essay", "grade": True, "solution": True, "locked": False, "task": False,
    "points": 5, "schema_version": 3,
}  # fmt: skip


def add_an_essay(room):
    """Have the first assignment end with a cell that somebody has to grade and comment on."""
    path = room.root / "solutions" / FIRST / f"{FIRST}.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells.append(new_code_cell("# Why?", id="essay", metadata={"nbgrader": ESSAY}))
    nbformat.write(notebook, path)


def hand_in(room, student, assignment=FIRST, total="1 + 2"):
    """Hand in an answer; only its sum need be right."""
    source = room.root / "solutions" / assignment / f"{assignment}.ipynb"
    notebook = nbformat.read(source, 4)
    notebook.cells[0].source = f"total = {total}"
    folder = room.root / "grading" / "submitted" / student / assignment
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / f"{assignment}.ipynb")


def grades(room):
    """The lines of `grades.csv`, by student and assignment."""
    import csv

    with (room.root / "grading" / "grades.csv").open(newline="", encoding="utf-8-sig") as lines:
        return {(row["student"], row["assignment"]): row for row in csv.DictReader(lines)}
