"""The solutions in the notebooks, the banks of known answers, and learners that try answers."""

import ast
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from autograder import evidence
from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import NotebookSession, bank
from autograder.instructor.authoring.exercise_stubs import (
    extract_solution,
    find_cell,
    get_grade_id,
)
from autograder.judge import Verdict
from tests.conftest import ROOT

BANKS = {name: bank.load(ROOT / "solutions" / name / "bank.py") for name in NOTEBOOKS}


def notebook_of(exercise_id: str) -> str:
    """Return the name of an exercise's notebook."""
    return next(name for name, asked in NOTEBOOKS.items() if exercise_id in {e.id for e in asked})


def solution_of(exercise_id: str) -> str:
    """Return the solution in an exercise's cell."""
    notebook = _read_solutions(notebook_of(exercise_id))
    return extract_solution(find_cell(notebook, exercise_id).source)


@cache
def _read_solutions(name):
    return nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", 4)


def session_for(exercise_id: str) -> NotebookSession:
    """A learner at the released notebook that an exercise is in; each notebook is run once."""
    return session_at(notebook_of(exercise_id))


DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


@cache
def session_at(name: str) -> NotebookSession:
    """A learner at a released notebook, of which only definitions have run, and no demonstration.

    Those can take long, such as processes that wait for each other.
    """
    notebook = nbformat.read(ROOT / "course" / name / f"{name}.ipynb", 4)
    for cell in notebook.cells:
        if cell.cell_type == "code" and not get_grade_id(cell) and "%pip" not in cell.source:
            tree = ast.parse(cell.source)
            tree.body = [statement for statement in tree.body if isinstance(statement, DEFINES)]
            cell.source = ast.unparse(tree)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.ipynb")
        nbformat.write(notebook, path)
        return NotebookSession.at(path)


def try_known_answer(
    session: NotebookSession, known: bank.KnownAnswer, seed: int
) -> tuple[Verdict, Any]:
    """Return `check`'s verdict on a known answer, and the evidence that it would submit."""
    with warnings.catch_warnings():
        # what an answer is warned of is no error of the tests
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        tried = session.answer(known.exercise, known.code, seed)
    assert tried.raised is None or "raises" in known.title, f"{known.title!r} raised"
    return tried.verdict, evidence.to_json(tried.evidence)
