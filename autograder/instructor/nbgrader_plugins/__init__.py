"""Plugins for nbgrader: each module replaces or adds one of its steps.

In: nbgrader's notebooks and resources. Out: releases (`publishing.py`, `release.py`); notebooks
with evidence (`capture_evidence.py`) and verdicts (`judge_evidence.py`); grades and penalties in
the gradebook (`entering.py`, `lateness.py`); feedback pages (`feedback.py`). `autograde.py` is
`nbgrader autograde`, and `configuration.py` installs all of them.
"""

from autograder.instructor.nbgrader_plugins.capture_evidence import (
    CaptureEvidence,
)
from autograder.instructor.nbgrader_plugins.configuration import configure
from autograder.instructor.nbgrader_plugins.entering import (
    enter,
    enter_failure,
    enter_regraded,
    reenter_record,
    transaction,
    withdraw_scores,
)
from autograder.instructor.nbgrader_plugins.feedback import (
    explain_missing_exchange,
    list_unreleased_students,
)
from autograder.instructor.nbgrader_plugins.judge_evidence import (
    JudgeEvidence,
    NotGradedError,
)
from autograder.instructor.nbgrader_plugins.lateness import (
    Times,
    load_times,
    settle_lateness,
)

__all__ = [
    "CaptureEvidence",
    "JudgeEvidence",
    "NotGradedError",
    "Times",
    "configure",
    "enter",
    "enter_failure",
    "enter_regraded",
    "explain_missing_exchange",
    "list_unreleased_students",
    "load_times",
    "reenter_record",
    "settle_lateness",
    "transaction",
    "withdraw_scores",
]
