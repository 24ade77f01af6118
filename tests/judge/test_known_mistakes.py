"""A known mistake is recognised if it explains the result, unless nearly anything would."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from autograder.artifacts import Argument
from autograder.judge.explaining_places import explain_misplaced
from autograder.judge.explaining_shapes import explain_reshape
from autograder.judge.recognising_mistakes import recognise_known_mistake
from autograder.judge.running_programs import SampledRun

DIAGONAL = np.diag(np.full(4, 1e6, np.float32))
SMALL = np.triu(np.full((4, 4), 0.5, np.float32), 1)


def named(came, mistakes, right=lambda x: 2 * x, given=None):
    """Return the diagnosis of a result."""
    given = np.ones((2, 2), np.float32) if given is None else given
    ran: Any = SimpleNamespace(outputs=([jnp.asarray(came)],))
    found = recognise_known_mistake(right, mistakes, [SampledRun([[given]], ran)])
    return found and found[0]


def test_the_mistake_that_gives_what_came_is_named():
    ones = np.ones((2, 2), np.float32)
    mistakes = {"three-times": lambda x: 3 * x, "as-it-came": lambda x: x}
    assert named(ones, mistakes) == "as-it-came"
    assert named(5 * ones, mistakes) is None


def test_an_exact_likeness_goes_before_a_rough_one():
    ones = np.ones((2, 2), np.float32)
    mistakes = {"nearly": lambda x: x * np.float32(1 + 5e-5), "exactly": lambda x: x}
    assert named(ones, {"nearly": mistakes["nearly"]}) == "nearly"
    assert named(ones, mistakes) == "exactly"


def test_what_could_as_well_be_right_explains_nothing():
    """Beside a large diagonal, small numbers are lost in a rough comparison."""
    came = DIAGONAL + 3 * SMALL
    mistakes = {"as-it-came": lambda x: x}
    assert named(came, mistakes, lambda x: DIAGONAL + 7 * SMALL, DIAGONAL + 200 * SMALL) is None
    assert named(came, mistakes, lambda x: 2 * x, DIAGONAL + 200 * SMALL) == "as-it-came"


def test_a_mistake_that_is_about_as_far_away_as_the_right_result_explains_nothing():
    ones = np.ones((2, 2), np.float32)
    mistakes = {"less": lambda x: x * np.float32(1.999)}
    assert named(1.9991 * ones, mistakes) == "less"
    assert named(1.9995 * ones, mistakes) is None


def test_a_mistake_of_another_shape_than_the_right_result_is_recognised_roughly():
    made = np.full(16, 1 + 5e-5, np.float32)
    mistakes = {"as-often": lambda x: np.ones(16, np.float32), "other": lambda x: np.ones(4)}
    assert named(made, mistakes, lambda x: np.full(64, 2, np.float32)) == "as-often"
    assert named(made, {"other": mistakes["other"]}, lambda x: np.full(64, 2)) is None


def test_a_mistake_that_makes_rounding_errors_grow_is_recognised():
    def inverted(x):
        return np.linalg.inv(x.astype(np.float64)).astype(np.float32)

    given = np.array([[1, 1], [1, 1 + 3e-4]], np.float32)
    came = jnp.linalg.inv(given * np.float32(1 + 2e-7) + np.float32(2e-7) * np.eye(2))
    assert not np.allclose(came, inverted(given), rtol=3e-4)
    assert named(came, {"inverted": inverted}, given=given) == "inverted"
    # where errors do not grow, as much is something else
    kept = inverted(given)
    assert named(came, {"kept": lambda x: kept}, given=given) is None


def test_places_are_found_although_two_numbers_are_nearly_equal():
    line = np.arange(1, 9, dtype=np.float32)
    line[3] = line[5] * np.float32(1 + 1e-6)
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    output = jax.device_put(line[::-1].copy(), NamedSharding(mesh, P("x")))
    argument = Argument((8,), (("x", 8),), ("x",), mode="auto")
    said = explain_misplaced(output, line, [argument])
    assert "in the opposite order" in said
    line[5] = 20
    output = jax.device_put(line[::-1].copy(), NamedSharding(mesh, P("x")))
    assert explain_misplaced(output, line, [argument]) == said


def test_a_reshaped_result_is_compared_with_the_array_in_the_references_tuple():
    given = np.arange(4, dtype=np.float32)
    ran: Any = SimpleNamespace(outputs=([jnp.asarray(given[:, None])],))
    found = explain_reshape(lambda x: (x,), [SampledRun([[given]], ran)])
    assert found is not None
    assert "expected float32[4]." in found[1]
    assert "there is a dimension of length 1 too many" in found[1]
