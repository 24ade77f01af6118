"""A program that knows of an exercise only its plan earns little.

These answer the same to everything, without a thought. A person's program that was written for one
exercise can still do better; see the threat model.
"""

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import pytest

from autograder.evidence import PlacementPlan, PlacementsPlan, ProgramPlan, ResultsPlan
from autograder.exercises import NOTEBOOKS, Predicts
from autograder.judge import judge
from tests.conftest import ROOT, some_of
from tests.helpers import capture

FUNCTIONS = {
    "gives back": lambda *given: given[0],
    "multiplies": lambda *given: given[0] @ given[-1],
    "adds": lambda *given: sum(given[1:], start=given[0]),
    "sums up": lambda *given: jnp.sum(given[0]),
}
CONSTANTS = {"zero": 0, "one": 1, "true": True, "false": False, "copies": jax.P(), "words": "none"}


def points(notebook):
    """The points of each exercise, by its grade id."""
    cells = nbformat.read(ROOT / "solutions" / notebook / f"{notebook}.ipynb", 4).cells
    graded = (cell.metadata.get("nbgrader", {}) for cell in cells)
    return {about["grade_id"]: about["points"] for about in graded if about.get("grade")}


def strips(shape):
    """The obvious layout: the first dimension that is divisible, in eight blocks."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    cut = next((d for d, size in enumerate(shape) if size % 8 == 0), None)
    spec = [] if cut is None else [None] * cut + ["x"]
    return jax.NamedSharding(mesh, jax.P(*spec))


def answers(exercise, function, constant):
    """Return the same for any exercise."""
    made = {}
    for name, plan in exercise.plan(1).answers.items():
        match plan:
            case PlacementPlan(shape, array):
                x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
                made[name] = jax.device_put(x, strips(shape)) if array else strips(shape)
            case PlacementsPlan(_, shapes):
                made[name] = [strips(shape) for shape in shapes]
            case ProgramPlan():
                made[name] = function
            case ResultsPlan():
                made[name] = lambda *_: constant
            case _:
                asked = [r for r in exercise.requirements if isinstance(r, Predicts)]
                made[name] = {r.cell: constant for r in asked if r.answer == name}
    return made


ALIKE = [
    (notebook, function, constant)
    for function, constant in zip([*FUNCTIONS, *FUNCTIONS], CONSTANTS, strict=False)
    for notebook in NOTEBOOKS
]


@pytest.mark.parametrize(("notebook", "function", "constant"), some_of(ALIKE))
def test_who_answers_the_same_to_everything_earns_less_than_a_fifth(notebook, function, constant):
    worth, earned = points(notebook), 0.0
    for exercise in NOTEBOOKS[notebook]:
        given = answers(exercise, FUNCTIONS[function], CONSTANTS[constant])
        verdict = judge(exercise, capture(exercise, given, seed=1), 1)
        assert verdict.fault is None
        earned += verdict.score * worth[exercise.grade_id]
    assert earned < sum(worth.values()) / 5
