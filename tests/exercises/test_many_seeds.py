"""Answers come back the same whatever the inputs are: a right one is judged on a thousand seeds.

Rounding is a matter of the reference and of XLA's arithmetic, which differ little between versions
of JAX: on the oldest and on the newest, fifty will do, for the solutions. Where time is short,
fifty will do everywhere, for some of the answers.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest

from autograder import artifacts
from autograder.evidence import Program, capture
from autograder.exercises import EXERCISES, NOTEBOOKS, Computes, Returns
from autograder.instructor.authoring.exercise_stubs import find_cell
from autograder.judge import judge
from autograder.judge.comparing_values import compare
from shardlings.errors import TESTED_JAX_VERSIONS
from tests.conftest import SHARE, some_of
from tests.exercises.solutions import BANKS, session_at, session_for, solution_of, try_known_answer

WHOLE = jax.__version__ == TESTED_JAX_VERSIONS[1]
SEEDS = range(1000 if WHOLE and SHARE == 1 else 50)
ENTRIES = [entry for known in BANKS.values() for entry in known if entry.score == 1 and WHOLE]
ANSWERS = [
    *((exercise.id, "the solution", solution_of(exercise.id)) for exercise in EXERCISES.values()),
    *((entry.exercise, entry.title, entry.code) for entry in ENTRIES),
]


def asking(kind):
    """The right answers to exercises that have a requirement of some kind."""
    asked = [
        pytest.param(exercise, code, id=f"{exercise} {title}")
        for exercise, title, code in ANSWERS
        if any(isinstance(r, kind) for r in EXERCISES[exercise].requirements)
    ]
    return some_of(asked)


@pytest.mark.slow
@pytest.mark.parametrize(("exercise_id", "code"), asking(Computes))
def test_programs_compute_the_right_values(exercise_id, code):
    handed_in = session_for(exercise_id).answer(exercise_id, code, 1).evidence
    computes = [r for r in EXERCISES[exercise_id].requirements if isinstance(r, Computes)]
    wrong = []
    for requirement in computes:
        piece = handed_in.answers[requirement.answer]
        assert isinstance(piece, Program)
        for artifact, arguments in zip(piece.artifacts, requirement.arguments, strict=True):
            samples = []
            for seed in SEEDS:
                generator = np.random.default_rng(seed)
                samples.append([argument.sample(generator) for argument in arguments])
            outputs = artifacts.run(artifact, arguments, samples).outputs
            for seed, inputs, output in zip(SEEDS, samples, outputs, strict=True):
                found = compare(requirement.reference, inputs, output)
                if found is not None:
                    wrong.append((requirement.answer, seed, found))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(("exercise_id", "code"), asking(Returns))
def test_functions_return_the_right_results(exercise_id, code):
    returns = tuple(r for r in EXERCISES[exercise_id].requirements if isinstance(r, Returns))
    # without its programs, which the test above runs: compiling them for each seed takes an hour
    exercise, found = replace(EXERCISES[exercise_id], requirements=returns, about=()), {}
    session = session_for(exercise_id)
    names = session.names.copy()
    given = find_cell(session.notebook, exercise_id).source
    with session.restored():
        exec(compile(f"{given}\n{code}", f"<{exercise_id}>", "exec"), names)
    answers = {answer: names[answer] for answer in exercise.answers}
    for seed in SEEDS:
        verdict = judge(exercise, capture(exercise.plan(seed), answers), seed)
        if verdict.state != "right":
            found[seed] = verdict
    assert not found


OTHER_SEEDS = (5, 77, 20261127)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_mistake_has_the_same_diagnosis_on_other_inputs(name):
    """A diagnosis that is true by chance, of one draw, is seen in no other test."""
    session, found = session_at(name), []
    for entry in some_of(BANKS[name]):
        for seed in OTHER_SEEDS:
            verdict, _ = try_known_answer(session, entry, seed)
            if not entry.agrees_with(verdict):
                found.append((entry.exercise, entry.title, seed, verdict.diagnoses))
    assert not found
