"""A right answer is judged once, whoever hands it in."""

from collections import OrderedDict

import msgspec
import pytest

from autograder.exercises import find
from autograder.instructor.sandbox import (
    Case,
    JudgeFailedError,
    Sandbox,
    judge_in_sandbox,
    judge_process,
    judging_in_sandbox,
)
from autograder.instructor.sandbox.judge_process import Reply, Work
from autograder.judge import Verdict, verdict_without_evidence
from tests.exercises.solutions import BANKS, sitting_at
from tests.sitting import sit


@pytest.fixture
def right(monkeypatch):
    """Return the answers that are known to be right: none at first."""
    known = OrderedDict[str, Verdict]()
    monkeypatch.setattr(judging_in_sandbox, "RIGHT", known)
    return known


RIGHT_ANSWER = next(e for e in BANKS["03_constraints"] if (e.exercise, e.score) == ("3.1", 1))
WRONG_ANSWER = next(e for e in BANKS["03_constraints"] if (e.exercise, e.score) == ("3.1", 0))


def case(known, seed):
    """Return a known answer's case."""
    _, data = sit(sitting_at("03_constraints"), known, seed)
    return Case(known.exercise, data, seed, seed + 1)


def test_a_right_answer_is_judged_once(right):
    (verdict,) = judge_in_sandbox([case(RIGHT_ANSWER, 1)])
    ((fingerprint, known),) = right.items()
    assert verdict == known
    marked = verdict_without_evidence(find("3.1"), "marked", "It was not judged.")
    right[fingerprint] = marked
    assert judge_in_sandbox([case(RIGHT_ANSWER, 2)]) == [marked]


def test_a_wrong_answer_is_judged_each_time(right):
    for seed in (1, 2):
        (verdict,) = judge_in_sandbox([case(WRONG_ANSWER, seed)])
        assert verdict.score < 1
        assert not right


def test_a_judge_cannot_take_for_known_what_is_not(right):
    with pytest.raises(JudgeFailedError, match="takes for known"):
        judging_in_sandbox._verdict_of(Reply(None, 0, "3.1 abc"), right)


def test_an_error_of_ours_in_the_fingerprint_is_no_score(monkeypatch):
    monkeypatch.setattr(judge_process, "fingerprint_answer", lambda *_: 1 / 0)
    (reply,) = judge_process.judge_cases(msgspec.json.encode(Work([case(RIGHT_ANSWER, 1)])))
    verdict = msgspec.json.decode(reply, type=Reply).verdict
    assert verdict is not None
    assert verdict.state == "failed"


def test_what_was_not_used_for_longest_is_forgotten(right, monkeypatch):
    monkeypatch.setattr(judging_in_sandbox, "MAX_RIGHT", 2)
    (verdict,) = judge_in_sandbox([case(RIGHT_ANSWER, 1)])
    right.clear()
    for name in ("a", "b", "a", "c"):
        judging_in_sandbox._verdict_of(Reply(verdict, 0, name), {})
    assert [*right] == ["a", "c"]


def test_what_a_judge_was_told_of_is_known_even_if_it_is_forgotten_meanwhile(right):
    (verdict,) = judge_in_sandbox([case(RIGHT_ANSWER, 1)])
    told = dict(right)
    right.clear()
    ((fingerprint, _),) = told.items()
    assert judging_in_sandbox._verdict_of(Reply(None, 0, fingerprint), told) == verdict


def test_a_calibration_judges_everything(right):
    judge_in_sandbox([case(RIGHT_ANSWER, 1)])
    marked = verdict_without_evidence(find("3.1"), "marked", "It was not judged.")
    right.update(dict.fromkeys(right, marked))
    (verdict,) = judge_in_sandbox([case(RIGHT_ANSWER, 2)], sandbox=Sandbox(filled_by=["judges"]))
    assert verdict.score == 1
