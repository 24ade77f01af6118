"""A program with a loop that does not end is refused, and not run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument, ProgramError, endless_loops, export, run

X = (("x", 8),)
NUMBERS = Argument((16,), X, ("x",), "int32", mode="auto")
SAMPLE = np.arange(16, dtype=np.int32)


def run_body(body, sample=SAMPLE, **kept):
    @jax.jit(**kept)
    def function(x):
        return jax.shard_map(body, in_specs=jax.P("x"), out_specs=jax.P("x"))(x)

    (ran,) = run(export(function, [NUMBERS], under_mesh=True), [NUMBERS], [[sample]]).outputs
    return ran[0]


def halve_until(is_done, x, step=lambda n: n // 2):
    return lax.while_loop(lambda n: ~is_done(n), step, x)


def on_its_own(x):
    return halve_until(lambda n: jnp.all(n <= 1), x, lambda n: jnp.where(n > 7, n, n // 2))


def together(x):
    return halve_until(lambda n: lax.psum(n.sum(), "x") < -1, x)


def with_a_bool_and_a_float(x):
    def step(carry):
        return carry[0] + 0.5, carry[1], carry[2]

    start = x.astype(jnp.float32), x[0] < 100, x
    made = lax.while_loop(lambda carry: carry[1], step, start)
    return made[0].astype(jnp.int32) + made[2]


def inside_a_scan(x):
    return lax.map(lambda n: halve_until(lambda n: n < 0, n), x)


@pytest.mark.timeout(120, method="thread")  # a signal would wait for XLA, which would never end
@pytest.mark.parametrize(
    "body", [on_its_own, together, with_a_bool_and_a_float, inside_a_scan], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("kept", [{}, {"donate_argnums": 0}], ids=["kept", "donated"])
def test_a_loop_that_does_not_end_is_refused(body, kept):
    with pytest.raises(ProgramError, match="still running after 5,000 turns") as refused:
        run_body(body, **kept)
    assert refused.value.diagnosis == "endless-loop"


@pytest.mark.parametrize("kept", [{}, {"donate_argnums": 0}], ids=["kept", "donated"])
def test_a_loop_that_ends_for_the_inputs_is_run(kept):
    assert np.array_equal(run_body(on_its_own, SAMPLE % 8, **kept), np.minimum(SAMPLE % 8, 1))


def test_a_loop_may_take_almost_as_many_turns(monkeypatch):
    def count_down(x):
        return lax.while_loop(lambda n: jnp.any(n > 0), lambda n: jnp.maximum(n - 1, 0), x)

    monkeypatch.setattr(endless_loops, "MAX_TURNS", 16)
    assert not run_body(count_down).any()
    monkeypatch.setattr(endless_loops, "MAX_TURNS", 15)
    with pytest.raises(ProgramError):
        run_body(count_down)
