"""Values, gradients and the costs of a backward pass."""

import jax.numpy as jnp
import pytest

from autograder.artifacts import Argument
from autograder.exercises import Differentiates, Exercise, RecomputesAtMost, SavesAtMost
from autograder.judge import judge, verdict_as_text
from tests.helpers import capture

SHORT, LONG = (((Argument((length,), (("x", 1),), mode="auto")),) for length in (4, 8))

SINE = Differentiates("wave", "wave(x) must be sin(x).", jnp.sin, (SHORT, LONG))


def verdict_on(answer, *others):
    exercise = Exercise("9.9", "Something", (SINE, *others), ("Think.",))
    return judge(exercise, capture(exercise, {"wave": answer}, 1), 1)


@pytest.mark.parametrize(
    ("answer", "diagnosis", "says"),
    [
        (lambda x: jnp.sin(x), (), "the right values on every input tried"),
        (lambda x: jnp.cos(x), ("values",), "The values are wrong"),
        (lambda x: jnp.sin(x).sum(), ("shape",), "returned float32[]; expected float32[4]."),
        (
            lambda x: jnp.sin(x)[: 4 if len(x) == 4 else 7],
            ("shape",),
            "the function returned float32[7]; expected float32[8].",
        ),
        (lambda x: jnp.sin(x) + 1j, ("dtype",), "dtype is complex64; expected float32."),
        (
            lambda x: jnp.sin(x).astype(jnp.bfloat16),
            ("dtype",),
            "right up to rounding, but the dtype is bfloat16; expected float32.",
        ),
    ],
)
def test_a_value_of_another_type_is_wrong_and_has_no_gradients_to_compare(answer, diagnosis, says):
    judged = verdict_on(answer)
    assert judged.fault is None
    assert judged.diagnoses == diagnosis
    assert says in verdict_as_text(judged)


def test_operations_that_would_be_written_like_their_limit_are_in_full():
    judged = verdict_on(lambda x: jnp.sin(x), RecomputesAtMost("wave", (0, 0)))
    words = verdict_as_text(judged)
    assert judged.diagnoses == ("recomputes-too-much",)
    assert "operations; at most 0 are allowed" in words
    assert "0.0 million" not in words


def test_arrays_that_would_be_written_like_their_limit_are_in_full():
    long = ((Argument((1024,), (("x", 1),), mode="auto"),),)
    wave = Differentiates("wave", "wave(x) must be sin(x).", jnp.sin, long)
    exercise = Exercise("9.9", "Something", (wave, SavesAtMost("wave", (4095,))), ("Think.",))
    judged = judge(exercise, capture(exercise, {"wave": lambda x: jnp.sin(x)}, 1), 1)
    assert "1 are kept and 0.999755859 allowed" in verdict_as_text(judged)
