"""Permutations that have to send to neighbours in a ring, along one mesh axis or along two."""

import jax
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument
from autograder.exercises import Computes, Exercise, RequestedCollective, Requests
from autograder.judge import judge
from tests.helpers import capture

GRID = (("x", 4), ("y", 2))
BOTH = ("x", "y")


def ring(size, shift):
    return [(i, (i + shift) % size) for i in range(size)]


def verdict(over, pairs, asked):
    """The verdict on a permutation of eight numbers, for an exercise that asks for these axes."""
    shifts = {(i, j) for i, j in pairs}

    def permuted(x):
        grid = np.asarray(x).reshape(4, 2)
        moved = grid if over == BOTH else np.moveaxis(grid, BOTH.index(over), 0)
        rows = moved.reshape(-1) if over == BOTH else moved
        sent = np.zeros_like(rows)
        for source, target in shifts:
            sent[target] = rows[source]
        return (sent if over == BOTH else np.moveaxis(sent, 0, BOTH.index(over))).reshape(-1)

    def answer(x):
        def body(mine):
            return lax.ppermute(mine, over, pairs)

        return jax.shard_map(body, in_specs=jax.P(BOTH), out_specs=jax.P(BOTH))(x)

    wanted = RequestedCollective("collective-permute", axes=asked, neighbours=True)
    exercise = Exercise(
        "9.9",
        "A ring",
        (
            Computes(
                "answer", "It must.", permuted,
                ((Argument((8,), GRID, (BOTH,)),),), under_mesh=True,
            ),
            Requests("answer", ((wanted,),)),
        ),
        ("Think.",),
    )  # fmt: skip
    return judge(exercise, capture(exercise, {"answer": answer}, 1), 1)


@pytest.mark.parametrize("asked", [None, BOTH])
def test_a_ring_along_two_axes_sends_to_neighbours_and_nowhere_else(asked):
    assert verdict(BOTH, ring(8, 1), asked).state == "right"
    assert verdict(BOTH, ring(8, -1), asked).state == "right"
    assert verdict(BOTH, ring(8, 3), asked).diagnoses == ("not-to-the-neighbour",)


@pytest.mark.parametrize("asked", [None, ("x",)])
def test_a_ring_along_one_of_two_axes_sends_to_neighbours_and_nowhere_else(asked):
    assert verdict("x", ring(4, 1), asked).state == "right"
    assert verdict("x", ring(4, 2), asked).diagnoses == ("not-to-the-neighbour",)


def test_a_permutation_in_which_no_device_sends_to_another_is_no_ring():
    assert verdict("x", ring(4, 0), None).diagnoses == ("not-to-the-neighbour",)
