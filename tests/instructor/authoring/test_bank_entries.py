"""An entry of a bank says which verdicts it accepts."""

import pytest

from autograder.explanations import Fault
from autograder.instructor.authoring.bank import KnownAnswer
from autograder.judge import Finding, Verdict

WRONG = Finding("f", False, "rows", "columns", diagnosis="transposed")
NOT_OURS = Fault("ZeroDivisionError", "planted", "somewhere, line 1")


def known(score, *diagnoses):
    return KnownAnswer("1.1", "an answer", "x = 1", score, diagnoses)


@pytest.mark.parametrize(
    ("entry", "verdict", "agrees"),
    [
        (known(0.6667, "transposed"), Verdict("1.1", "T", (WRONG,), earned=2 / 3), True),
        (known(0.667, "transposed"), Verdict("1.1", "T", (WRONG,), earned=2 / 3), True),
        (known(0.66, "transposed"), Verdict("1.1", "T", (WRONG,), earned=2 / 3), False),
        (known(0.6667, "replicated"), Verdict("1.1", "T", (WRONG,), earned=2 / 3), False),
        (known(0), Verdict("1.1", "T", (), NOT_OURS), False),
    ],
)
def test_a_verdict_has_the_diagnoses_and_the_score_of_its_entry(entry, verdict, agrees):
    assert entry.agrees_with(verdict) is agrees
