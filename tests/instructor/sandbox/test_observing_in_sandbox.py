"""Functions that several processes call are called by the grader: results cannot be made up."""

import os

import jax
import numpy as np
import pytest

from autograder import evidence
from autograder.exercises import EXERCISES
from autograder.instructor.sandbox import is_observed, observe_in_sandbox
from autograder.judge import judge
from tests.exercises.solutions import sitting_for, solution_of

pytestmark = pytest.mark.bubblewrap

SEED, FRESH = 3, 2**100 + 7
"""The seed that a kernel is told, and the one that the grader keeps to itself."""


def handed_in(exercise, **answers):
    """The evidence that a grading kernel hands in, as plain data."""
    plan = evidence.without_process_cases(EXERCISES[exercise].plan(SEED))
    return evidence.to_json(evidence.capture(plan, answers))


def graded(exercise, found):
    """The verdict on evidence from a kernel."""
    (observed,) = observe_in_sandbox([(EXERCISES[exercise].plan(FRESH), found)])
    return judge(EXERCISES[exercise], evidence.from_json(observed), SEED, FRESH)


def said(verdict):
    return " ".join(finding.difference for finding in verdict.findings)


@pytest.mark.slow
def test_what_processes_made_of_a_solution_earns_its_points():
    names = dict(sitting_for("11.4").names)
    exec(solution_of("11.4"), names)
    assert graded("11.4", handed_in("11.4", to_host=names["to_host"])).score == 1


def test_a_kernel_is_told_no_data_and_calls_nothing():
    plan = evidence.without_process_cases(EXERCISES["11.3"].plan(SEED))
    assert is_observed(plan)
    assert list(plan.answers.values()) == [evidence.ProcessesPlan(())]


@pytest.mark.parametrize("seed", [SEED, FRESH])
def test_results_that_a_kernel_hands_in_count_nothing(seed):
    """Not even those of the right data, which it would have to guess."""
    names = dict(sitting_for("11.4").names)
    exec(solution_of("11.4"), names)
    made_up = evidence.capture(EXERCISES["11.4"].plan(seed), {"to_host": names["to_host"]})
    verdict = graded("11.4", evidence.to_json(made_up))
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


@pytest.mark.parametrize(
    "attack",
    [computes_from_what_it_finds, samples_by_the_seed, writes_down_results_of_another_seed],
)
def test_a_function_that_makes_up_what_is_elsewhere_earns_nothing(attack):
    assert graded("11.4", handed_in("11.4", to_host=attack)).score == 0


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


def test_a_function_reads_no_other_process():
    assert "opened: []" in said(
        graded("11.4", handed_in("11.4", to_host=looks_into_other_processes))
    )


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
    names = dict(sitting_for("11.4").names)
    exec(solution_of("11.4"), names)
    plan = EXERCISES["11.4"].plan(FRESH)
    calls = [(plan, handed_in("11.4", to_host=f)) for f in (ends_all, names["to_host"])]
    first, second = (
        judge(EXERCISES["11.4"], evidence.from_json(each), SEED, FRESH)
        for each in observe_in_sandbox(calls)
    )
    assert (first.score, second.score) == (0, 1)
    assert "were ended" in said(first)


def test_what_is_no_evidence_is_left_to_the_judge():
    (left,) = observe_in_sandbox([(EXERCISES["11.4"].plan(FRESH), {"strange": jax.__version__})])
    assert left == {"strange": jax.__version__}
