"""A known mistake is recognised if it explains the result, unless nearly anything would."""

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

from autograder.judge.recognising_mistakes import recognise_known_mistake

DIAGONAL = np.diag(np.full(4, 1e6, np.float32))
SMALL = np.triu(np.full((4, 4), 0.5, np.float32), 1)


def named(came, mistakes, right=lambda x: 2 * x, given=None):
    """Return the diagnosis of a result."""
    given = np.ones((2, 2), np.float32) if given is None else given
    ran: Any = SimpleNamespace(outputs=([jnp.asarray(came)],))
    found = recognise_known_mistake(right, mistakes, [([[given]], ran)])
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
