"""The frontier of exercise 6.8 is right for the installed JAX."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from autograder.exercises import EXERCISES, MovesFewBytes
from shardlings import communication
from tests.helpers import sharding

REACHED: dict[tuple[int, int], list[Any]] = {
    # bytes held and moved: the layouts of A, B, C and D, found by compiling nine layouts of each
    (8192, 24576): [(None, ("x", "y")), ("x", "y"), ("y", "x"), ("x", "y")],
    (10240, 20480): [(None, "x"), ("x", "y"), ("y", "x"), ("x", "y")],
    (14336, 16384): [(None, "y"), ("y", "x"), ("x", "y"), ("y", "x")],
    (18432, 12288): [("y",), (None, "x"), ("x",), ("y", "x")],
    (20480, 8192): [("y",), (None, "x"), ("x",), (None, "x")],
    (28672, 4096): [("x",), (None, "y"), ("y",), (None, "y")],
    (45056, 0): [("x",), (), (), (None, "y")],
}
ROOMY, TIGHT = EXERCISES["6.8"].requirements


@pytest.mark.parametrize("point", REACHED)
def test_each_point_is_reached(point):
    shardings = [sharding(*spec, x=4, y=2) for spec in REACHED[point]]
    arguments = [jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=s) for s in shardings]
    assert isinstance(ROOMY, MovesFewBytes)
    held = sum(4 * math.prod(s.shard_shape((64, 64))) for s in shardings)
    assert (held, communication(ROOMY.function, *arguments).bytes) == point


def test_the_points_are_those_of_the_exercise():
    assert isinstance(ROOMY, MovesFewBytes)
    assert isinstance(TIGHT, MovesFewBytes)
    assert set(ROOMY.frontier) == set(TIGHT.frontier) == set(REACHED)
    assert ROOMY.best == 4096
    assert TIGHT.best == 20480
