"""A learner's answer is judged as JAX is by default, whatever they have set."""

import jax
import pytest

from autograder.judge import verdict_as_text
from tests.exercises.solutions import sitting_for, solution_of


@pytest.mark.parametrize(
    ("setting", "exercise", "seed"),  # a seed of its own, since runs of a program are remembered
    [
        ("jax_disable_jit", "13.7", 101),
        ("jax_disable_jit", "13.10", 102),
        ("jax_debug_nans", "13.3", 103),
    ],
)
def test_a_right_answer_is_right_while_jax_debugs(setting, exercise, seed):
    sitting = sitting_for(exercise)
    jax.config.update(setting, True)
    try:
        verdict = sitting.answer(exercise, solution_of(exercise), seed).verdict
    finally:
        jax.config.update(setting, False)
    assert verdict.score == 1, verdict_as_text(verdict)
