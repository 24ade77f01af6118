"""Requested collectives are told from the compiler's, and from those without an effect."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument
from autograder.exercises import Computes, Exercise, RequestedCollective, Requests
from autograder.judge import judge
from tests.helpers import capture

X = ("x",)


REDUCED = Exercise(
    "9.6",
    "By hand",
    (
        Computes(
            "answer", "It must return 2 * x.sum().", lambda x: x.sum() + x.sum(),
            ((Argument((16,), (("x", 8),), ("x",), mode="auto"),),), under_mesh=True,
        ),
        Requests("answer", ((RequestedCollective("all-reduce", 1, X, 4),),)),
    ),
    ("Ask once.",),
)  # fmt: skip


def by_hand(x):
    return jax.shard_map(lambda a: lax.psum(a.sum(), "x"), in_specs=jax.P("x"), out_specs=jax.P())(
        x
    )


@pytest.mark.parametrize(
    ("function", "diagnoses"),
    [
        (lambda x: 2 * by_hand(x), ()),
        (lambda x: by_hand(x) + x.sum(), ("added-by-the-compiler",)),  # of the same kind
        (lambda x: 2 * x.sum(), ("not-counted-yet", "no-shard-map")),
    ],
)
def test_collectives_outside_the_body_are_not_requested(function, diagnoses):
    found = judge(REDUCED, capture(REDUCED, {"answer": function}, 1), 1)
    assert found.diagnoses == diagnoses


@pytest.mark.parametrize(
    ("function", "diagnosis", "says"),
    [
        (
            # every device adds up all of x, so that the sum over devices is 8 times too large
            lambda x: jax.shard_map(
                lambda a: lax.psum(a.sum() / 4, "x"), in_specs=jax.P(), out_specs=jax.P()
            )(x),
            "other-blocks-enter",
            ": in_specs give the body other blocks of x than a device has.",
        ),
        (
            lambda x: by_hand(x) + x.sum(),
            "added-by-the-compiler",
            ": an argument or the result is not laid out as in_specs",
        ),
    ],
)
def test_arguments_that_in_specs_lay_out_anew_are_named(function, diagnosis, says):
    found = judge(REDUCED, capture(REDUCED, {"answer": function}, 1), 1)
    assert found.diagnoses == (diagnosis,)
    assert says in found.findings[-1].difference


def shares(x):
    return np.array([(x * x).sum() / (x + 2).sum(), 0], np.float32)


RATIO = Exercise(
    "9.7",
    "A ratio of two sums",
    (
        Computes(
            "answer", "It must return (x * x).sum() / (x + 2).sum(), and 0.", shares,
            ((Argument((16,), (("x", 8),), ("x",), mode="auto", shift=3.0),),), under_mesh=True,
        ),
        Requests("answer", never=("all-gather",), at_least={"all-reduce": 1}),
    ),
    ("Add up twice.",),
)  # fmt: skip


def by_two_sums(a):
    return jnp.stack([lax.psum((a * a).sum(), "x") / lax.psum((a + 2).sum(), "x"), 0])


def by_one_sum(a):
    sums = lax.psum(jnp.stack([(a * a).sum(), (a + 2).sum()]), "x")
    return jnp.stack([sums[0] / sums[1], 0])


@pytest.mark.parametrize("body", [by_two_sums, by_one_sum])
def test_a_ratio_of_sums_depends_on_them_though_scaling_both_does_not_change_it(body):
    def answer(x):
        return jax.shard_map(body, in_specs=jax.P("x"), out_specs=jax.P())(x)

    assert judge(RATIO, capture(RATIO, {"answer": answer}, 1), 1).state == "right"


def test_a_sum_of_zeros_makes_no_difference():
    def answer(x):
        def body(a):
            return lax.psum(0 * a.sum(), "x")

        nothing = jax.shard_map(body, in_specs=jax.P("x"), out_specs=jax.P())(x)
        whole = jax.shard_map(lambda a: a, in_specs=jax.P(), out_specs=jax.P())
        ratio = whole((x * x).sum() / (x + 2).sum())
        return jnp.stack([ratio + nothing, nothing])

    diagnoses = judge(RATIO, capture(RATIO, {"answer": answer}, 1), 1).diagnoses
    assert diagnoses == ("not-counted-yet", "makes-no-difference")
