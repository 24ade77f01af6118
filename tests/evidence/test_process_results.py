"""Failures that may be the machine's fault are tried again before they become evidence."""

import pytest

from autograder.evidence import process_results
from autograder.evidence.data import ProcessResult, Run, Runs, Value
from autograder.evidence.process_results import ProcessesPlan, capture_runs
from autograder.processes import PackedFunction, ProcessCase

RIGHT = Run((ProcessResult((Value(3),)),))


def failed(why):
    return Run((ProcessResult(why=why, sentence="It did not return."),))


def not_killed(why):
    """A run whose first call was to be killed, and was not."""
    return Run((), interrupted=failed(why).results)


def captured(monkeypatch, *runs):
    """Return the evidence if a function's calls in one case end like this, and the unused calls."""
    left = list(runs)
    monkeypatch.setattr(process_results, "_run_case", lambda *_: left.pop(0))
    plan = ProcessesPlan((ProcessCase(1, (), ()),))
    return capture_runs(plan, PackedFunction(b"", "<cell>", {})), left


@pytest.mark.parametrize("first", [failed("died"), failed("waits"), not_killed("waits")])
def test_a_call_that_died_or_waited_is_tried_once_more(monkeypatch, first):
    assert captured(monkeypatch, first, RIGHT) == (Runs((RIGHT,)), [])


@pytest.mark.parametrize("why", ["died", "waits"])
def test_a_call_that_fails_twice_is_evidence(monkeypatch, why):
    assert captured(monkeypatch, failed(why), failed(why), RIGHT) == (Runs((failed(why),)), [RIGHT])


def test_a_call_that_raised_is_not_tried_again(monkeypatch):
    assert captured(monkeypatch, failed("raised"), RIGHT) == (Runs((failed("raised"),)), [RIGHT])
