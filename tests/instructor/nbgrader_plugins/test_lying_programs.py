"""Programs that lie about what they do, through `nbgrader autograde`: they earn nothing by it."""

from typing import NamedTuple

import pytest

from autograder.instructor.authoring import bank
from tests.conftest import ROOT
from tests.instructor.room import Classroom, right_answers

pytestmark = pytest.mark.slow

READS_AND_WRITES_ELSEWHERE = """
def turned(x):
    sizes = ((900, 900), jnp.float32), ((900,), jnp.int32), ((), jnp.int32)
    factor = jax.ffi.ffi_call(
        "lapack_sgetrf_ffi", [jax.ShapeDtypeStruct(*size) for size in sizes]
    )
    factors, _, _ = factor(jnp.sin(x))
    y = jnp.sin(x) + 0 * factors[: x.shape[0], : x.shape[1]]
    return with_sharding_constraint(y, on(grid, "y", "x"))
"""


class Lie(NamedTuple):
    """An answer whose program is not what it looks like; what it earns, and what is said."""

    exercise: str
    code: str
    score: float
    points: float
    says: str


def lie(assignment, exercise, title, points, says):
    """Return an answer of a bank, found by a part of its title; it earns what the bank says."""
    known = bank.load(ROOT / "solutions" / assignment / "bank.py")
    (entry,) = [e for e in known if e.exercise == exercise and title in e.title]
    return Lie(exercise, entry.code, entry.score * points, points, says)


CONSTRAINTS, SHARD_MAP, MATMUL = "03_constraints", "05_shard_map", "06_shard_map_matmul"
LIES = {
    CONSTRAINTS: {
        "ends_the_text": lie(
            CONSTRAINTS, "3.1", "a name that ends the program", 1, "The program cannot be judged",
        ),
        "tells_lapack_another_size": Lie(
            "3.1", READS_AND_WRITES_ELSEWHERE, 0, 1, "in a way in which JAX would not call it",
        ),
    },
    SHARD_MAP: {
        "hides_a_sum_in_a_composite": lie(
            SHARD_MAP, "5.4", "psum in a composite", 2, "which the exercise does not need",
        ),
    },
    MATMUL: {
        "adds_zeros_up": lie(MATMUL, "6.2", "zeros for show", 2, "done outside the body"),
        "multiplies_fifty_times": lie(MATMUL, "6.7", "fifty times", 2, "operations; at most"),
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=LIES)
def room(request, tmp_path_factory):
    """Those who lie in a notebook, and an honest student among them."""
    lies = LIES[request.param]
    last = max(lie.exercise for lie in lies.values())
    room = Classroom.at(tmp_path_factory.mktemp("course"), request.param, until=last)
    room.nbgrader("generate_assignment", request.param, "--force")
    for student, lie in lies.items():
        room.hand_in(student, {lie.exercise: lie.code})
    right = right_answers(request.param)
    room.hand_in("honest", {lie.exercise: right[lie.exercise] for lie in lies.values()})
    room.nbgrader("autograde", request.param)
    return room


def test_a_program_that_lies_earns_no_more_than_it_does(room):
    scores = room.scores()
    for student, lie in LIES[room.assignment].items():
        assert scores[student][lie.exercise] == pytest.approx(lie.score, abs=1e-3), student
        said = "\n".join(room.verdicts(student).values())
        assert lie.says in " ".join(said.split()), said
        assert scores["honest"][lie.exercise] == lie.points
