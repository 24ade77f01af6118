"""The solutions in the notebooks, the banks of known answers, and learners that try answers."""

from functools import cache

import nbformat

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import NotebookSession, bank
from autograder.instructor.authoring.exercise_stubs import extract_solution, find_cell
from tests.conftest import ROOT

BANKS = {name: bank.load(ROOT / "solutions" / name / "bank.py") for name in NOTEBOOKS}


def notebook_of(exercise_id):
    """Return the name of an exercise's notebook."""
    return next(name for name, asked in NOTEBOOKS.items() if exercise_id in {e.id for e in asked})


def solution_of(exercise_id):
    """Return the solution in an exercise's cell."""
    notebook = _read_solutions(notebook_of(exercise_id))
    return extract_solution(find_cell(notebook, exercise_id).source)


@cache
def _read_solutions(name):
    return nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", 4)


def sitting_for(exercise_id):
    """A learner at the released notebook that an exercise is in; each notebook is run once."""
    return _sitting_at(notebook_of(exercise_id))


@cache
def _sitting_at(name):
    return NotebookSession.at(ROOT / "course" / name / f"{name}.ipynb")
