"""The tolerance for rounding, and the explanations of wrong values."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument
from autograder.exercises import Computes, Exercise
from autograder.judge import judge, verdict_as_text
from autograder.judge.comparing_values import (
    compare,
    compare_outputs,
    find_worst_element,
    is_alike_where_finite,
    is_close_throughout,
)
from autograder.judge.explaining_factors import describe_factor, find_factor
from tests.helpers import capture

ON = (("x", 8),), (("x", 4),)
DOUBLED = Exercise(
    "9.9",
    "Twice",
    (
        Computes(
            "answer", "It must return 2 * x.", lambda x: np.float32(2) * x,
            tuple((Argument((size,), axes, ("x",), mode="auto"),)
                  for size, axes in zip((16, 24), ON, strict=True)),
            under_mesh=True,
        ),
    ),
    ("Think.",),
)  # fmt: skip


CUT, WHOLE = jax.P("x"), jax.P()


def by_device(body, out=CUT, check=True):
    return lambda x: jax.shard_map(body, in_specs=CUT, out_specs=out, check_vma=check)(x)


def everywhere(a):
    return lax.all_gather(2 * a, "x", tiled=True) + lax.axis_index("x") % 2


@pytest.mark.parametrize(
    ("function", "diagnosis", "says"),
    [
        (lambda x: x, "off-by-a-factor", "Every value is 1/2 of what it should be."),
        (lambda x: -2 * x, "off-by-a-factor", "Every value is minus what it should be."),
        (lambda x: -3 * x, "off-by-a-factor", "Every value is minus 1.5 times what it should be."),
        (
            by_device(lambda a: 2 * a * lax.axis_size("x")),
            "off-by-a-factor",
            "Every value is 8 times what it should be; for float32[24] on a mesh of x=4, it is "
            "4 times what it should be.",
        ),
        (
            lambda x: x * 16 / len(x) * 2,
            "only-the-first",
            "The values are right for float32[16] on a mesh of x=8. For float32[24] on a",
        ),
        (
            lambda x: 2 * x[:16],
            "only-the-first",
            "the function returned float32[16]; expected float32[24].",
        ),
        (lambda x: (2 * x).astype(jnp.bfloat16), "dtype", "right up to rounding, but the dtype is"),
        (lambda x: x.astype(jnp.bfloat16), "dtype", "The dtype is bfloat16; expected float32."),
        (
            lambda x: (2 * x).astype(jnp.bfloat16).astype(jnp.float32),
            "fewer-digits",
            "right to two or three digits",
        ),
        (by_device(everywhere, WHOLE, check=False), "copies-disagree", "hold different numbers"),
        (lambda x: None, "nothing-returned", "The function returned None"),
        (lambda x: (2 * x, x), "too-many-results", "returned 2 arrays; expected 1. Result 1 is"),
        (lambda x: lambda: 2 * x, "returns-a-function", "Your function returns another function."),
    ],
)
def test_what_is_wrong_is_said_where_it_was_looked_for(function, diagnosis, says):
    found = judge(DOUBLED, capture(DOUBLED, {"answer": function}, 1), 1)
    assert found.diagnoses == (diagnosis,)
    assert says in verdict_as_text(found)


def test_a_sum_that_cancels_is_off_by_what_is_added():
    generator = np.random.default_rng(3)
    half = generator.standard_normal(2048)
    added = generator.permutation(np.concatenate([half, -half])).astype(np.float32)
    one_order, other_order = added.sum(), added[::-1].cumsum()[-1]
    assert abs(one_order - other_order) > 16 * np.finfo(np.float32).eps
    assert compare(np.sum, [added], [jnp.asarray(other_order)]) is None
    assert compare(np.sum, [added], [jnp.asarray(other_order + 1e-2)]) is not None


HALVES = Exercise(
    "9.8",
    "Complex",
    (
        Computes(
            "answer", "It must return the transform of x.", np.fft.fft,
            ((Argument((16,), (("x", 8),), (), "complex64", "auto"),),), under_mesh=True,
        ),
    ),
    ("Think.",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("function", "diagnoses", "says"),
    [
        (jnp.fft.fft, (), "right"),
        (lambda x: jnp.fft.fft(x) / 4, ("off-by-a-factor",), "1/4 of what it should be"),
        (lambda x: 1j * jnp.fft.fft(x), ("values",), "j at ["),
        (lambda x: jnp.fft.fft(x).real, ("dtype",), "The dtype is float32; expected complex64."),
        (lambda x: jnp.fft.fft(x) / 0, ("not-a-number",), "NaNs"),
    ],
)
def test_complex_numbers_are_compared_as_such(function, diagnoses, says):
    found = judge(HALVES, capture(HALVES, {"answer": function}, 1), 1)
    assert found.state == ("right" if not diagnoses else "wrong")
    assert found.diagnoses == diagnoses
    assert says in verdict_as_text(found)


def test_of_a_wrong_dtype_the_types_are_shown_and_no_number():
    def coarser(x):
        return jnp.fft.fft(x), x.real

    asks: Any = HALVES.requirements[0]
    both = replace(asks, reference=lambda x: (np.fft.fft(x), x.real.astype(np.float64)))
    exercise = replace(HALVES, requirements=(both,))
    (found,) = judge(exercise, capture(exercise, {"answer": coarser}, 1), 1).findings
    assert "the dtype of result 2 is float32; expected float64" in found.difference
    assert found.got == "complex64[16], float32[16]"


COUNTED = Exercise(
    "12.9",
    "Count",
    (
        Computes(
            "answer", "It must count the positive numbers.", lambda x: (x > 0).sum(dtype=np.int32),
            ((Argument((64,), (("x", 8),), ("x",), mode="auto"),),),
        ),
    ),
    ("Think.",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("function", "is_constant"),
    [(lambda x: jnp.int32(3), False), (lambda x: 0 * x + 0.5, True)],
)
def test_equal_counts_of_two_inputs_prove_nothing(function, is_constant):
    exercise = DOUBLED if is_constant else COUNTED
    text = verdict_as_text(judge(exercise, capture(exercise, {"answer": function}, 1), 1))
    assert ("the same for two different inputs" in " ".join(text.split())) == is_constant


@pytest.mark.parametrize("condition", [10.0, 1000.0])
@pytest.mark.parametrize("matrix", ["positive-definite", "dominant"])
def test_matrices_are_drawn_as_badly_conditioned_as_is_said(matrix, condition):
    given = Argument((6, 4, 24), ON[1], (None, "x"), matrix=matrix, condition=condition)
    drawn = given.sample(np.random.default_rng(0)).reshape(24, 24).astype(np.float64)
    rough = 1 if matrix == "dominant" else 0.2
    assert np.linalg.cond(drawn) == pytest.approx(condition, rel=rough)
    if matrix == "dominant":
        sizes = np.abs(drawn)
        assert (2 * sizes.diagonal() > sizes.sum(1)).all()
    else:
        assert np.allclose(drawn, drawn.T)
        assert (np.linalg.eigvalsh(drawn) > 0.9).all()


@pytest.mark.parametrize(
    ("times", "words"),
    [(8, "8 times"), (0.125, "1/8 of"), (-1, "minus"), (-8, "minus 8 times"), (1.7, "1.7 times")],
)
def test_a_factor_is_found_and_said(times, words):
    values = np.linspace(-1, 2, 7, dtype=np.float32)
    found = find_factor([jnp.asarray(times * values)], [values])
    assert found is not None
    assert describe_factor(found) == words
    assert find_factor([jnp.asarray(times * values + values**2)], [values]) is None


@pytest.mark.parametrize(("off", "is_close"), [(0, True), (1e-7, True), (1e-3, False)])
def test_small_values_are_compared_with_the_largest_of_them(off, is_close):
    small = np.linspace(0, 1e-5, 16, dtype=np.float32)
    outputs = [jnp.asarray(small * (1 + off))]
    assert compare(lambda: small, (), outputs) is None  # as close as values near 1 have to be
    assert is_close_throughout(lambda: small, (), outputs) == is_close


def test_a_small_sum_of_larger_numbers_is_as_exact_as_these():
    numbers = np.array([1000.25, -1000.125, 3.5, -3.5], np.float32)
    outputs = [jnp.asarray(np.float32(0.125 + 2e-5))]
    assert is_close_throughout(lambda x: x.sum(), [numbers], outputs)
    assert not is_close_throughout(lambda x: x.max() / 8000, [numbers], outputs)


def overflowing(many=0, once=0, divided=0, other=0):
    """Return numbers of which many are infinite, one more row overflows, or others are wrong."""
    values = np.linspace(1, 2, 400, dtype=np.float32).reshape(40, 10)
    values[:many] = np.inf
    values[many : many + once] = np.nan
    values[many : many + divided] = 0  # a number divided by an infinity
    values[39, :other] *= 1.5
    return values


@pytest.mark.parametrize(
    ("one", "another", "is_alike"),
    [
        ({}, {}, True),
        ({"many": 4}, {"many": 4}, True),
        ({"many": 4}, {"once": 4}, True),  # an infinity in one is a NaN in the other
        ({"many": 39}, {"many": 39}, True),
        ({"many": 4, "once": 1}, {"many": 4}, True),
        ({"many": 4}, {"many": 4, "once": 2}, True),
        ({"many": 4, "divided": 2}, {"many": 4}, True),
        ({"many": 4, "once": 3}, {"many": 4}, False),  # more than a few
        ({"many": 1, "once": 2}, {"many": 1}, False),  # more than in both
        ({"many": 21, "once": 1}, {"many": 21}, False),  # too little is left to compare
        ({"once": 1}, {}, False),
        ({"divided": 1}, {}, False),
        ({"many": 4, "other": 1}, {"many": 4}, False),
        ({"many": 4, "once": 1, "other": 1}, {"many": 4}, False),
    ],
)
def test_what_just_overflows_may_do_so_in_one_array_only(one, another, is_alike):
    ours, others = overflowing(**one), overflowing(**another)
    assert is_alike_where_finite([jnp.asarray(ours)], [others]) == is_alike
    assert is_alike_where_finite([jnp.asarray(others)], [ours]) == is_alike


def test_quotients_of_denormal_numbers_overflow():
    huge, values = overflowing(many=4), overflowing(many=4)
    huge[4], values[4] = 1e37, 2e37
    assert is_alike_where_finite([jnp.asarray(huge)], [values])
    huge[5], values[5] = 1.0, 1.5  # next to 1e37, this would be little
    assert not is_alike_where_finite([jnp.asarray(huge)], [values])


def test_a_coarser_type_does_not_hide_that_another_result_is_wrong():
    wanted = [np.linspace(1, 2, 8, dtype=np.float32), np.arange(8, dtype=np.int32)]
    coarse = jnp.asarray(wanted[0], jnp.bfloat16)
    alone = compare_outputs([coarse, jnp.asarray(wanted[1])], wanted) or ("", "")
    assert "right up to rounding" in alone[1]
    both = compare_outputs([coarse, jnp.asarray(wanted[1][::-1])], wanted) or ("", "")
    assert both[1] == "The dtype of result 1 is bfloat16; expected float32."


DTYPES = [
    jnp.dtype(f"{kind}{bits}")
    for kind, all_bits in (
        ("int", (2, 4, 8, 16, 32, 64)),
        ("uint", (2, 4, 8, 16, 32, 64)),
        ("float4_", ("e2m1fn",)),
        ("float8_", ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")),
        ("float8_", ("e8m0fnu",)),
        ("bfloat", (16,)),
        ("float", (16, 32, 64)),
        ("complex", (64, 128)),
        ("bool", ("",)),
    )
    for bits in all_bits
]
"""All types of arrays on the CPU, except for those of 1 or 6 bits, which XLA cannot compute with
there."""


def values_of(dtype):
    """Return values of a type that are easily confused: ends of its range, infinities and NaN."""
    if dtype.kind == "b":
        return [False, True]
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return [info.min, info.min // 2, 0, 1, info.max // 2, info.max - 1, info.max]
    given = np.array([0, 1, 6, np.inf, -np.inf, np.nan]).astype(dtype)
    unequal: dict[str, Any] = {}
    for value in given:  # not every type has a zero, infinities or NaNs
        unequal.setdefault(str(value), value)
    return [*unequal.values()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_arrays_are_right_and_changed_ones_wrong_in_every_type(dtype):
    with jax.enable_x64(dtype.itemsize > 4):
        values = np.array([dtype.type(value) for value in values_of(dtype)], dtype)
        output = jnp.asarray(values)
        assert output.dtype == dtype
        assert compare(lambda: values, (), [output]) is None
        assert find_worst_element([output], [values]) == ""
        assert is_close_throughout(lambda: values, (), [output])
        for right in values:
            for other in values:
                if right == other or str(right) == str(other):
                    continue
                expected, got = np.array([right, values[0]]), jnp.array([other, values[0]], dtype)
                found = compare(lambda expected=expected: expected, (), [got])
                assert found == ("values", "The values are wrong."), (right, other)
                assert " at [0]; it should be " in find_worst_element([got], [expected])


POSITIVE = Exercise(
    "9.7",
    "Masks",
    (
        Computes(
            "masked", "It must return x where x > 0, else -inf.",
            lambda x: np.where(x > 0, x, -np.inf).astype(np.float32),
            ((Argument((16,), (("x", 8),), ("x",), mode="auto"),),),
        ),
        Computes(
            "mask", "It must return whether x > 0.", lambda x: x > 0,
            ((Argument((16,), (("x", 8),), ("x",), mode="auto"),),),
        ),
    ),
    ("Think.",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("masked", "mask", "says"),
    [
        (lambda x: jnp.where(x > 0, x, -jnp.inf), lambda x: x > 0, ()),
        (lambda x: jnp.where(x > 0, 2 * x, -jnp.inf), lambda x: x < 0, ("values", "values")),
        (lambda x: jnp.log(x), lambda x: x > x, ("not-a-number", "nothing-but-zeros")),
        (lambda x: x / 0 + 1, lambda x: x >= x, ("not-finite", "ignores-inputs")),
    ],
)
def test_right_infinities_and_booleans_are_right(masked, mask, says):
    found = judge(POSITIVE, capture(POSITIVE, {"masked": masked, "mask": mask}, 1), 1)
    assert found.fault is None
    assert tuple(f.diagnosis for f in found.findings if not f.met) == says
