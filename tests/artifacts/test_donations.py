"""The arguments that an exported program donates are read from it."""

from functools import partial

import jax
import numpy as np
import pytest

from autograder import artifacts
from autograder.artifacts import Argument

W = Argument((6,), (("x", 8),), mode="auto")
X = Argument((16, 6), (("x", 8),), ("x",), mode="auto")


def step(w, mean, x):
    return w + x.mean(0), 2 * mean


def donated(function):
    artifact = artifacts.export(function, (W, W, X))
    inputs = [np.ones(argument.shape, np.float32) for argument in (W, W, X)]
    return artifacts.run(artifact, (W, W, X), [inputs]).donated


@pytest.mark.parametrize("numbers", [(), (0,), (0, 1), (1,)])
def test_donated_arguments_are_found_by_their_numbers(numbers):
    assert donated(jax.jit(step, donate_argnums=numbers)) == set(numbers)


def test_a_jit_within_a_function_donates_nothing():
    inner = jax.jit(step, donate_argnums=(0, 1))
    assert donated(lambda w, mean, x: inner(w, mean, x)) == set()


def test_a_donated_argument_with_the_layout_of_its_result_is_found():
    placed = artifacts.sharding_of(W)
    same = partial(jax.jit, out_shardings=(placed, placed), donate_argnums=(0, 1))
    assert donated(same(step)) == {0, 1}


@pytest.mark.parametrize("given", [{}, {"out_shardings": artifacts.sharding_of(W)}])
def test_a_donation_is_found_even_if_no_result_fits_into_it(given):
    """With shardings of its results, a program does not have it any more."""
    jitted = jax.jit(step, donate_argnums=(0, 1, 2), **given)
    assert artifacts.find_donated_arguments(jitted, (W, W, X)) == (0, 1, 2)
    assert artifacts.find_donated_arguments(step, (W, W, X)) == ()


def test_arguments_are_counted_with_those_that_the_function_does_not_use():
    without_mean = jax.jit(lambda w, mean, x: (w + 1, x.sum(1)), donate_argnums=(0, 2))
    assert donated(without_mean) == {0, 2}
    assert donated(jax.jit(lambda w, mean, x: 2 * x, donate_argnums=2)) == {2}
