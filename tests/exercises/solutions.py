"""The solutions as their notebooks have them, and learners to try answers as."""

from functools import cache

import nbformat

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import Sitting
from autograder.instructor.authoring.exercise_stubs import cell_of, solution
from tests.conftest import ROOT


def notebook_of(exercise_id):
    """The name of the notebook that an exercise is in."""
    return next(name for name, asked in NOTEBOOKS.items() if exercise_id in {e.id for e in asked})


def solution_of(exercise_id):
    """The code between the marks of an exercise's cell."""
    name = notebook_of(exercise_id)
    notebook = nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", 4)
    return solution(cell_of(notebook, exercise_id).source)


def sitting_for(exercise_id):
    """A learner at the released notebook that an exercise is in; each notebook is run once."""
    return _sitting_at(notebook_of(exercise_id))


@cache
def _sitting_at(name):
    return Sitting.at(ROOT / "course" / name / f"{name}.ipynb")
