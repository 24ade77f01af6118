"""Work counts as often as it is done."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import communication

A = np.ones((16, 16), np.float32)
PRODUCT = 2 * 16**3


def flops(function):
    return communication(function, jnp.asarray(A)).flops


def again(times):
    return lambda a: lax.fori_loop(0, times, lambda _, c: c @ a, a)


def unrolled(times):
    def function(a):
        c = a
        for _ in range(times):
            c = c @ a
        return c

    return function


@pytest.mark.parametrize("times", [1, 2, 7, 50])
def test_a_loop_is_as_much_work_as_its_rounds(times):
    assert flops(again(times)) == pytest.approx(flops(unrolled(times)), rel=0.02)
    assert flops(again(times)) == pytest.approx(times * PRODUCT, rel=0.02)


def test_loops_in_loops_multiply():
    def nested(a):
        return lax.fori_loop(0, 3, lambda _, c: again(5)(c) @ a, a)

    assert flops(nested) == pytest.approx(3 * 6 * PRODUCT, rel=0.02)


def test_arithmetic_and_reductions_count_too():
    def spread(a):
        return lax.fori_loop(0, 9, lambda _, c: (a[:, :, None] * c[None]).sum(1), a)

    assert flops(spread) == pytest.approx(9 * PRODUCT, rel=0.1)


def test_a_loop_that_ends_nobody_knows_when_is_without_end():
    def until(a):
        return lax.while_loop(lambda c: c.sum() < 1e9, lambda c: c @ a, a)

    report = communication(until, jnp.asarray(A))
    assert report.flops == math.inf
    assert "an unknown number of floating-point operations" in str(report)


def test_without_a_loop_it_is_xlas_own_count():
    compiled = jax.jit(lambda a: jnp.tanh(a @ a) + 1).lower(A).compile()
    assert communication(compiled).flops == (compiled.cost_analysis() or {})["flops"]


def test_what_lapack_does_counts_in_every_round():
    triangle = np.tril(A) + 4 * np.eye(16, dtype=np.float32)

    def solved(c):
        return lax.linalg.triangular_solve(jnp.asarray(triangle), c, left_side=True, lower=True)

    once = 16 * 16 * 16
    assert flops(solved) == pytest.approx(once, rel=0.02)
    assert flops(lambda a: lax.fori_loop(0, 5, lambda _, c: solved(c), a)) == pytest.approx(
        5 * once, rel=0.02
    )


def test_a_factorisation_counts_too():
    def factored(a):
        return lax.linalg.lu(jnp.stack([a, a]))[0]

    assert flops(factored) >= 2 * 2 / 3 * 16**3
