"""A right answer is judged twice, whoever hands it in, and then taken for right."""

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
from autograder.instructor.sandbox.judging_in_sandbox import JudgedAnswer
from autograder.judge import verdict_without_evidence
from tests.exercises.solutions import BANKS, session_at, try_known_answer


@pytest.fixture
def judged(monkeypatch):
    """Return the answers that were judged: none at first."""
    known = OrderedDict[str, JudgedAnswer]()
    monkeypatch.setattr(judging_in_sandbox, "JUDGED", known)
    return known


MARKED = verdict_without_evidence(find("3.1"), "marked", "It was not judged.")


RIGHT_ANSWER = next(e for e in BANKS["03_constraints"] if (e.exercise, e.score) == ("3.1", 1))
WRONG_ANSWER = next(e for e in BANKS["03_constraints"] if (e.exercise, e.score) == ("3.1", 0))


def case(known, seed):
    """Return a known answer's case."""
    _, data = try_known_answer(session_at("03_constraints"), known, seed)
    return Case(known.exercise, data, seed, seed + 1)


def test_a_right_answer_is_judged_twice(judged):
    verdicts = [judge_in_sandbox([case(RIGHT_ANSWER, seed)])[0] for seed in (1, 2)]
    ((fingerprint, known),) = judged.items()
    assert (known.verdict, known.times_right) == (verdicts[1], 2)
    judged[fingerprint] = JudgedAnswer(MARKED, 1)
    assert judge_in_sandbox([case(RIGHT_ANSWER, 3)]) == [verdicts[1]]
    judged[fingerprint] = JudgedAnswer(MARKED, 2)
    assert judge_in_sandbox([case(RIGHT_ANSWER, 4)]) == [MARKED]


def test_a_wrong_answer_is_judged_each_time(judged):
    for seed in (1, 2, 3):
        (verdict,) = judge_in_sandbox([case(WRONG_ANSWER, seed)])
        assert verdict.score < 1
        assert [known.times_right for known in judged.values()] == [0]


def test_an_answer_that_is_right_by_luck_is_not_taken_for_right(judged):
    (right,), (wrong,) = (judge_in_sandbox([case(e, 1)]) for e in (RIGHT_ANSWER, WRONG_ANSWER))
    for verdict, times in ((right, 1), (wrong, 0), (right, 0), (right, 0)):
        judging_in_sandbox._verdict_of(Reply(verdict, 0, "lucky"), {})
        assert judged["lucky"].times_right == times


def test_a_judge_cannot_take_for_known_what_is_not(judged):
    with pytest.raises(JudgeFailedError, match="takes for known"):
        judging_in_sandbox._verdict_of(Reply(None, 0, "3.1 abc"), {})


def test_an_error_of_ours_in_the_fingerprint_is_no_score(monkeypatch):
    monkeypatch.setattr(judge_process, "fingerprint_answer", lambda *_: 1 / 0)
    (reply,) = judge_process.judge_cases(msgspec.json.encode(Work([case(RIGHT_ANSWER, 1)])))
    verdict = msgspec.json.decode(reply, type=Reply).verdict
    assert verdict is not None
    assert verdict.state == "failed"


def test_what_was_not_used_for_longest_is_forgotten(judged, monkeypatch):
    monkeypatch.setattr(judging_in_sandbox, "MAX_JUDGED", 2)
    for name in ("a", "b", "a", "c"):
        judging_in_sandbox._verdict_of(Reply(MARKED, 0, name), {})
    assert [*judged] == ["a", "c"]


def test_what_a_judge_was_told_of_is_known_even_if_it_is_forgotten_meanwhile(judged):
    assert judging_in_sandbox._verdict_of(Reply(None, 0, "right"), {"right": MARKED}) == MARKED


def test_a_calibration_judges_everything(judged):
    judge_in_sandbox([case(RIGHT_ANSWER, 1)])
    judged.update(dict.fromkeys(judged, JudgedAnswer(MARKED, 2)))
    (verdict,) = judge_in_sandbox([case(RIGHT_ANSWER, 2)], sandbox=Sandbox(fills_compiled=True))
    assert verdict.score == 1
