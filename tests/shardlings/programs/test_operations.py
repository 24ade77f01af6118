"""Each value's operations count once, or once in each round of a loop, on any version of JAX."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.programs.compiled import count_flops, count_flops_xla_omits, read_executable
from tests.shardlings.programs.hlo_text import program_of_text

A = np.ones((16, 16), np.float32)
PRODUCT = 2 * 16**3

ON_A_GPU = """\
HloModule jit_matmul

ENTRY %main (a: f32[64,64]) -> f32[64,64] {
  %a = f32[64,64]{1,0} parameter(0)
  %call = (f32[64,64]{1,0}, s8[33554432]{0}) custom-call(%a, %a), \
custom_call_target="__cublas$lt$matmul"
  ROOT %product = f32[64,64]{1,0} get-tuple-element(%call), index=0
}
"""
"""A matmul in the form in which XLA compiled a larger one for an H200, with JAX 0.11.2."""


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
def test_a_loop_counts_as_if_unrolled(times):
    assert flops(again(times)) == pytest.approx(flops(unrolled(times)), rel=0.02)
    assert flops(again(times)) == pytest.approx(times * PRODUCT, rel=0.02)


def test_a_complex_matmul_counts_as_the_four_real_ones_that_it_does():
    assert flops(lambda a: ((a + 1j * a) @ (a + 1j * a)).real) >= 4 * PRODUCT


def test_loops_in_loops_multiply():
    def nested(a):
        return lax.fori_loop(0, 3, lambda _, c: again(5)(c) @ a, a)

    assert flops(nested) == pytest.approx(3 * 6 * PRODUCT, rel=0.02)


def test_arithmetic_and_reductions_count_too():
    def spread(a):
        return lax.fori_loop(0, 9, lambda _, c: (a[:, :, None] * c[None]).sum(1), a)

    assert flops(spread) == pytest.approx(9 * PRODUCT, rel=0.1)


def test_a_loop_of_unknown_length_has_unknown_work():
    def until(a):
        return lax.while_loop(lambda c: c.sum() < 1e9, lambda c: c @ a, a)

    report = communication(until, jnp.asarray(A))
    assert report.flops == math.inf
    assert "an unknown number of floating-point operations" in str(report)


def test_lapack_counts_in_every_round():
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


def rows_one_by_one(a):
    """Subtract from each row half of those before it; compilers fuse this in many ways."""
    rows: list[jax.Array] = []
    for i in range(16):
        row = a[i]
        for before in rows:
            row = row - before * 0.5
        rows.append(row * 2 + 1)
    return jnp.stack(rows)


def test_what_a_compiler_duplicates_counts_once():
    halves, differences, last = 15 * 16, 120 * 16, 16 * 16 * 2
    assert flops(rows_one_by_one) == halves + differences + last


def test_the_same_operation_on_other_values_counts_again():
    assert flops(lambda a: (a[:8] * a[:8]).sum(0) + (a[8:] * a[8:]).sum(0)) == pytest.approx(
        2 * (8 * 16 + 8 * 16) + 16, rel=0.02
    )
    assert flops(lambda a: a @ a + a @ a.T) == pytest.approx(2 * PRODUCT, rel=0.05)
    assert flops(lambda a: (a @ a) * (a @ a)) == pytest.approx(PRODUCT, rel=0.05)


def test_reductions_of_one_array_in_two_ways_count_twice():
    once = flops(lambda a: a.max(0))
    assert flops(lambda a: a.max(0) + a.min(0)) == pytest.approx(2 * once + 16, rel=0.02)


def as_windows(a):
    """Multiply a by itself, in a reduction over windows that multiplies and adds."""

    def multiply_and_add(so_far, more):
        return so_far[0], so_far[1], so_far[2] + more[0] * more[1]

    left, right = jnp.broadcast_arrays(a[:, :, None], a[None])
    operands, starts = (left, right, jnp.zeros_like(left)), (0.0, 0.0, 0.0)
    return lax.reduce_window(operands, starts, multiply_and_add, (1, 16, 1), (1, 1, 1), "VALID")[2]


def test_a_matmul_that_is_written_as_a_reduction_over_windows_counts_as_one():
    assert flops(as_windows) >= PRODUCT
    compiled = jax.jit(as_windows).lower(A).compile()
    by_text = count_flops(program_of_text(str(compiled.as_text())))
    assert count_flops(read_executable(compiled.runtime_executable())) == by_text


@pytest.mark.parametrize(
    ("ordered", "along"),
    [(lambda a: jnp.sort(a, 1), 16), (lambda a: jnp.sort(a, 0), 8), (lambda a: jnp.argsort(a), 16)],
)
def test_a_sort_counts_a_comparison_for_each_number_and_factor_of_two(ordered, along):
    a = jnp.ones((8, 16))
    compiled = jax.jit(ordered).lower(a).compile()
    counted = count_flops(read_executable(compiled.runtime_executable()))
    assert counted == count_flops(program_of_text(str(compiled.as_text())))
    assert counted == 8 * 16 * math.log2(along)


def test_the_branch_with_more_work_counts():
    def either(a):
        return lax.cond(a[0, 0] > 0, lambda: a @ a @ a, lambda: a @ a)

    assert flops(either) == pytest.approx(2 * PRODUCT, rel=0.05)


def test_a_fourier_transform_counts_as_in_textbooks():
    assert flops(jnp.fft.fft) == pytest.approx(8 * 256 * 4, rel=0.1)
    assert flops(jnp.fft.fft2) == pytest.approx(8 * 256 * 4 * 4, rel=0.1)


def test_what_a_library_computes_is_unknown_and_not_nothing():
    assert count_flops(program_of_text(ON_A_GPU)) is None
    report = communication(jnp.linalg.cholesky, jnp.eye(16))
    assert "an unknown number of floating-point operations" in report.summary()
    assert math.isfinite(flops(lambda a: jnp.linalg.solve(a, a)))


@pytest.mark.parametrize("times", [1, 5])
def test_xla_counts_the_body_of_a_loop_once_and_the_rest_is_known(times):
    """A TPU's compiler reports its own count, to which the report adds what it leaves out."""
    program = read_executable(jax.jit(again(times)).lower(A).compile().runtime_executable())
    assert count_flops_xla_omits(program) == pytest.approx((times - 1) * PRODUCT, rel=0.02)


def test_what_xla_omits_is_unknown_if_the_length_of_a_loop_is():
    def until_large(a):
        return lax.while_loop(lambda c: c.sum() < 1e9, lambda c: c @ a, a)

    program = read_executable(jax.jit(until_large).lower(A).compile().runtime_executable())
    assert count_flops_xla_omits(program) is None
