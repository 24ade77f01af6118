"""A convolution has as many operations as XLA counts."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from shardlings.programs.compiled import read_executable
from shardlings.programs.compiled.hlo import WindowDimension
from tests.conftest import fewer


@settings(max_examples=fewer(300))
@given(
    st.integers(1, 5), st.integers(1, 4), st.integers(-3, 4), st.integers(1, 3), st.integers(1, 4),
    st.integers(1, 9), st.integers(1, 9),
)  # fmt: skip
def test_pairs_are_counted_as_by_listing_them(size, stride, before, dilation, apart, taken, given):
    places = [
        o * stride - before + k * dilation for o in range(given) for k in range(size)
    ]  # fmt: skip
    inside = [p for p in places if 0 <= p <= (taken - 1) * apart and p % apart == 0]
    window = WindowDimension(size, stride, before, dilation, apart)
    assert window.count_pairs(taken, given) == len(inside)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "an image": ((2, 3, 9, 8), (4, 3, 3, 2), {}),
    "strides, padding and holes": (
        (2, 3, 9, 8),
        (4, 3, 3, 2),
        {"window_strides": (2, 3), "padding": ((1, 2), (0, 3)), "lhs_dilation": (2, 1),
         "rhs_dilation": (1, 2)},
    ),
    "groups of features": ((2, 6, 9), (4, 3, 3), {"feature_group_count": 2}),
    "a matmul": ((5, 7), (3, 7), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_convolutions_count_as_in_xla(case):
    image, kernel, options = CASES[case]
    how: dict[str, Any] = {"window_strides": (1,) * (len(image) - 2), "padding": "VALID", **options}
    compiled = (
        jax.jit(lambda x, w: lax.conv_general_dilated(x, w, **how))
        .lower(jnp.ones(image), jnp.ones(kernel))
        .compile()
    )
    program = read_executable(compiled.runtime_executable())
    ours = [
        2 * i.convolution.count_products(body[i.operands[0]].arrays[0][1], i.arrays[0][1])
        for body in program.computations.values()
        for i in body.values()
        if i.convolution is not None
    ]
    if ours:  # XLA may write a matmul as a `dot`
        assert sum(ours) == (compiled.cost_analysis() or {})["flops"]
    else:
        assert case == "a matmul"
