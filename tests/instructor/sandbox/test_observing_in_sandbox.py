"""Functions that several processes call are called by the grader: results cannot be made up."""

import os
from collections import Counter

import jax
import numpy as np
import pytest

from autograder import evidence
from autograder.exercises import EXERCISES
from autograder.instructor.sandbox import (
    NotObservedError,
    is_observed,
    observe_in_sandbox,
    observing_in_sandbox,
)
from autograder.judge import judge
from tests.conftest import some_of
from tests.exercises.solutions import solution_of

pytestmark = pytest.mark.bubblewrap

SEED, FRESH = 3, 2**100 + 7
"""The seed that a kernel is told, and the one that the grader keeps to itself."""


def handed_in(exercise, **answers):
    """The evidence that a grading kernel hands in, as plain data."""
    plan = evidence.without_process_cases(EXERCISES[exercise].plan(SEED))
    return evidence.to_json(evidence.capture(plan, answers))


def graded(exercise, *found):
    """The verdicts on evidence from kernels."""
    observed = observe_in_sandbox([(EXERCISES[exercise].plan(FRESH), each) for each in found])
    return [judge(EXERCISES[exercise], evidence.from_json(each), SEED, FRESH) for each in observed]


def solution():
    """The function that solves 11.4."""
    names = {"jax": jax, "np": np, "P": jax.P, "NamedSharding": jax.NamedSharding}
    exec(solution_of("11.4"), names)
    return names["to_host"]


def said(verdict):
    return " ".join(finding.difference for finding in verdict.findings)


@pytest.mark.slow
def test_what_processes_made_of_a_solution_earns_its_points():
    (verdict,) = graded("11.4", handed_in("11.4", to_host=solution()))
    assert verdict.score == 1


def test_a_kernel_is_told_no_data_and_calls_nothing():
    plan = evidence.without_process_cases(EXERCISES["11.3"].plan(SEED))
    assert is_observed(plan)
    assert list(plan.answers.values()) == [evidence.ProcessesPlan(())]


def test_results_that_a_kernel_hands_in_count_nothing():
    """Not even those of the right data, which it would have to guess."""
    made_up = evidence.capture(EXERCISES["11.4"].plan(FRESH), {"to_host": solution()})
    (verdict,) = graded("11.4", evidence.to_json(made_up))
    assert verdict.score == 0
    assert "A function was expected" in said(verdict)


def computes_from_what_it_finds(x):
    """The right result, if a worker had what the values are made of."""
    import inspect

    import cloudpickle

    (job,) = [f.frame.f_locals["job"] for f in inspect.stack() if f.function == "_done"]
    share = cloudpickle.loads(job.arguments).func.__self__
    return share.held[0]


def samples_by_the_seed(x):
    import inspect

    import cloudpickle

    (job,) = [f.frame.f_locals["job"] for f in inspect.stack() if f.function == "_done"]
    (given,) = cloudpickle.loads(job.arguments).func.__self__.case.given
    return given.values()


def writes_down_results_of_another_seed(x):
    return np.zeros(x.shape, x.dtype)


def looks_into_other_processes(x):
    import psutil

    opened = []
    for each in psutil.process_iter():
        if "python" not in each.name() or each.pid == os.getpid():
            continue
        for what in ("mem", "fd/0", "fd/1"):
            try:
                os.close(os.open(f"/proc/{each.pid}/{what}", os.O_RDWR))
            except OSError:
                continue
            opened.append(f"{what} of {' '.join(each.cmdline())}")
    raise RuntimeError(f"opened: {[each for each in opened if 'resource_tracker' not in each]}")


MAKES_UP = [computes_from_what_it_finds, samples_by_the_seed, writes_down_results_of_another_seed]


def test_a_function_finds_and_makes_up_nothing_of_what_is_elsewhere():
    attacks = [looks_into_other_processes, *some_of(MAKES_UP, at_least=2)]
    looks, *makes_up = graded("11.4", *(handed_in("11.4", to_host=f) for f in attacks))
    assert "opened: []" in said(looks)
    assert [verdict.score for verdict in makes_up] == [0] * len(makes_up)


def test_calls_on_a_machine_that_runs_short_are_tried_again(monkeypatch):
    shortages = [Counter({"it ran short": n}) for n in (0, 1, 1, 1, 1, 2, 2, 3)]
    results = [["first"], ["second"], ["third"], ["fourth"]]
    monkeypatch.setattr(observing_in_sandbox, "read_shortages", lambda: shortages.pop(0))
    monkeypatch.setattr(observing_in_sandbox, "_observe", lambda *_: results.pop(0))
    assert observe_in_sandbox([]) == ["second"]
    with pytest.raises(NotObservedError, match=r"was called, it ran short\. Grade it again"):
        observe_in_sandbox([])


def ends_all(x):
    import signal

    for pid in range(2, 100):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


@pytest.mark.slow
def test_a_function_that_ends_all_processes_costs_its_own_points_alone():
    first, second = graded("11.4", *(handed_in("11.4", to_host=f) for f in (ends_all, solution())))
    assert (first.score, second.score) == (0, 1)
    assert "were ended" in said(first)


def test_what_is_no_evidence_is_left_to_the_judge():
    (left,) = observe_in_sandbox([(EXERCISES["11.4"].plan(FRESH), {"strange": jax.__version__})])
    assert left == {"strange": jax.__version__}
