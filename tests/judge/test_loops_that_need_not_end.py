"""A while loop never runs with changed numbers, with which it might never end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument
from autograder.exercises import Computes, Exercise, Requests
from autograder.judge import Finding, judge
from autograder.judge.requirements_on_requests import check_excluded_kinds
from shardlings.programs import Collective
from tests.helpers import capture

X = (("x", 8),)


def exercise(reference, kind):
    """An exercise that requires at least one of these collectives, with two lengths."""
    arguments = tuple((Argument((n,), X, ("x",), mode="auto", shift=3.0),) for n in (16, 32))
    return Exercise(
        "10.9",
        "By hand",
        (
            Computes("answer", "It must be right.", reference, arguments, under_mesh=True),
            Requests("answer", never=("all-to-all",), at_least={kind: 1}),
        ),
        ("Count.",),
    )


TOTAL = exercise(lambda x: x.sum(), "all-reduce")
BEFORE = exercise(lambda x: sums_before(x.reshape(8, -1).sum(1)), "all-gather")


def sums_before(sums):
    """Return, on each device, the sum of the blocks before it."""
    return np.cumsum(sums) - sums


def total(a):
    return lax.psum(a.sum(), "x")


def gap(a):
    """Return zero, unless one of the two sums is scaled and the other is not."""
    return jnp.abs(total(a) / total(2 * a) - 0.5)


def until_it_is_small(a):
    """Run forever if the inputs of the all-reduces are scaled."""
    start = total(a), jnp.float32(1)
    return lax.while_loop(lambda c: c[1] > 1e-3, lambda _: (total(a), gap(a)), start)[0]


def waits_beside(a):
    """Run forever, too, although no collective is in the loop."""
    whole, far = total(a), gap(a)
    return lax.while_loop(lambda c: c[1] > 1e-3, lambda _: (whole, far), (0 * whole, 1 + far))[0]


def a_while_loop_that_counts(a):
    def step(c):
        return c[0] + 1, c[1] + total(a) / 4

    return lax.while_loop(lambda c: c[0] < 4, step, (0, jnp.float32(0)))[1]


def judged(exercise, body, out):
    def answer(x):
        return jax.shard_map(body, in_specs=jax.P("x"), out_specs=out)(x)

    return judge(exercise, capture(exercise, {"answer": answer}, 1), 1)


@pytest.mark.timeout(120, method="thread")  # a signal would wait for XLA, which would never end
@pytest.mark.parametrize("body", [until_it_is_small, waits_beside])
def test_a_loop_that_might_never_end_is_told_and_not_run_again(body):
    verdict = judged(TOTAL, body, jax.P())
    assert verdict.fault is None
    assert verdict.diagnoses == ("unknown-times",)
    assert "length is known only when it runs" in verdict.findings[1].difference


def test_a_loop_that_counts_is_judged_as_any_other():
    assert judged(TOTAL, a_while_loop_that_counts, jax.P()).state == "right"


def test_a_loop_up_to_a_devices_own_number_is_sure_to_end():
    def body(a):
        sums = lax.all_gather(a.sum(), "x")
        place = lax.axis_index("x")
        mine = lax.fori_loop(0, place, lambda i, so_far: so_far + sums[i], 0 * a.sum())
        return mine[None]

    def answer(x):
        return jax.shard_map(body, in_specs=jax.P("x"), out_specs=jax.P("x"))(x)

    assert judge(BEFORE, capture(BEFORE, {"answer": answer}, 1), 1).state == "right"


@pytest.mark.parametrize(
    ("times", "diagnosis"), [(None, "unknown-times"), (2, "too-seldom"), (3, "")]
)
def test_a_loop_of_unknown_length_meets_no_minimum(times, diagnosis):
    requirement = Requests("answer", never=("all-to-all",), at_least={"all-reduce": 3})
    reduce = Collective("all-reduce", ("x",), (tuple(range(8)),), 4, 4, times)
    found = check_excluded_kinds([reduce], requirement, Finding("answer", False, "", ""))
    assert (found.diagnosis, found.met) == (diagnosis, not diagnosis)
