"""A learner's answer is judged as JAX is by default, whatever they have set."""

import jax
import pytest

from autograder.judge import verdict_as_text
from tests.exercises.solutions import session_for, solution_of

ASSIGNMENT = "13_a_real_trainer"


@pytest.mark.parametrize(
    ("setting", "exercise", "seed"),  # a seed of its own, since runs of a program are remembered
    [
        ("jax_disable_jit", "13.7", 101),
        ("jax_disable_jit", "13.10", 102),
        ("jax_debug_nans", "13.3", 103),
    ],
)
def test_a_right_answer_is_right_while_jax_debugs(setting, exercise, seed):
    session = session_for(exercise)
    jax.config.update(setting, True)
    try:
        verdict = session.answer(exercise, solution_of(exercise), seed).verdict
    finally:
        jax.config.update(setting, False)
    assert verdict.score == 1, verdict_as_text(verdict)


@pytest.mark.bubblewrap
@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_disable_jit"])
def test_so_it_is_in_a_class(setting, tmp_path):
    """Its kernel has the setting, and the process that judges has not."""
    pytest.importorskip("nbgrader")
    from autograder.instructor.pipeline import Records
    from tests.instructor.room import Classroom

    room = Classroom.at(tmp_path / "class", ASSIGNMENT, calibrated=False)
    room.grade_uncalibrated()
    room.nbgrader("generate_assignment", ASSIGNMENT, "--create", "--force")
    answers = {exercise: solution_of(exercise) for exercise in ("13.3", "13.6", "13.7", "13.10")}
    answers["13.3"] = f"jax.config.update({setting!r}, True)\n{answers['13.3']}"
    room.hand_in("ann", answers)
    room.nbgrader("autograde", ASSIGNMENT, "--force")
    record = Records(room.root / "grading" / "records").read("ann", ASSIGNMENT)
    assert record is not None
    verdicts = record.notebooks[ASSIGNMENT].verdicts_by_exercise()
    assert {exercise: verdicts[exercise].score for exercise in answers} == dict.fromkeys(answers, 1)
