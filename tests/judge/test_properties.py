"""A property of results, where several are right."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from autograder.evidence import capture
from autograder.evidence.data import Evidence, Value
from autograder.judge import Exercise, Satisfies, judge
from shardlings.pictures import GanttChart


def explain(result, n):
    if not isinstance(result, int) or isinstance(result, bool):
        return "no-number", "Expected: a number."
    if n % result:
        return "no-divisor", f"{result} does not divide {n}."
    return None


DIVISOR = Satisfies("divisor", "divisor(n) must divide n.", lambda rng: [(6,), (35,)], explain)
EXERCISE = Exercise(
    "t.1",
    "a divisor",
    (DIVISOR,),
    hints=("a", "b", "c"),
    diagnoses={"no-divisor": "Try all numbers."},
)
SEED = 7


def verdict_on(answer):
    return judge(EXERCISE, capture(EXERCISE.plan(SEED), {"divisor": answer}), SEED)


@pytest.mark.parametrize("right", [lambda n: 1, lambda n: n, lambda n: 3 if n == 6 else 7])
def test_every_result_with_the_property_is_right(right):
    assert verdict_on(right).score == 1


def test_the_first_result_without_it_is_explained():
    (finding,) = verdict_on(lambda n: 2).findings
    assert finding.diagnosis == "no-divisor"
    assert "2 does not divide 35. Try all numbers." in finding.difference
    assert "2 from divisor(35), one of 2 cases" in finding.got


@pytest.mark.parametrize(
    ("shown_as", "shown"),
    [(tuple, "('x', ('y', None))"), (list, "['x', ['y', None]]"), (jax.P, "P('x', ('y', None))")],
)
def test_a_result_is_shown_as_the_type_that_is_right_even_if_it_is_drawn(shown_as, shown):
    requirement = replace(
        DIVISOR, shown_as=shown_as, draw=lambda result, n: (GanttChart.of("yours", {}),)
    )
    exercise = replace(EXERCISE, requirements=(requirement,))
    answer = {"divisor": lambda n: ["x", ["y", None]]}
    (finding,) = judge(exercise, capture(exercise.plan(SEED), answer), SEED).findings
    assert finding.got == f"{shown} from divisor(6), one of 2 cases"
    assert finding.charts


@pytest.mark.parametrize("large", [[0] * 10_001, np.zeros((101, 101)), range(10**15)], ids=type)
def test_a_result_that_is_too_large_is_not_converted(large):
    (finding,) = verdict_on(lambda n: large).findings
    assert finding.diagnosis == "no-number"
    assert finding.got.startswith("something of type")


def test_an_error_is_quoted_with_its_call():
    (finding,) = verdict_on(lambda n: n // 0).findings
    assert finding.diagnosis == "raised"
    assert "divisor(6)" in finding.difference


@pytest.mark.parametrize("forged", [None, 3, [], [1, 2], [{}], [{"returned": 1}, 2]])
def test_forged_evidence_earns_nothing(forged):
    verdict = judge(EXERCISE, Evidence("t.1", {"divisor": Value(forged)}), SEED)
    assert verdict.fault is None
    assert verdict.score == 0
