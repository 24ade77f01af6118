"""Plugins for nbgrader: each module replaces or adds one of its steps.

In: nbgrader's notebooks and resources. Out: the same, with evidence captured, verdicts written,
cells restored, releases made whole. `configuration.py` puts them where nbgrader looks.
"""

from autograder.instructor.nbgrader_plugins.autograde import CarefulAutograde, keep_printable
from autograder.instructor.nbgrader_plugins.capture_evidence import (
    CaptureEvidence,
    Died,
    MachineError,
    published,
)
from autograder.instructor.nbgrader_plugins.configuration import configure
from autograder.instructor.nbgrader_plugins.entering import (
    enter,
    enter_again,
    enter_failure,
    enter_judged,
    transaction,
    withdraw_scores,
)
from autograder.instructor.nbgrader_plugins.feedback import cannot_fetch, no_exchange
from autograder.instructor.nbgrader_plugins.judge_evidence import (
    JudgeEvidence,
    NotGradedError,
    write_verdict,
)
from autograder.instructor.nbgrader_plugins.lateness import (
    Times,
    settle_lateness,
    times_of,
)
from autograder.instructor.nbgrader_plugins.release import (
    CarefulGenerateAssignment,
    Publish,
    RestoreCells,
)

__all__ = [
    "CaptureEvidence",
    "CarefulAutograde",
    "CarefulGenerateAssignment",
    "Died",
    "JudgeEvidence",
    "MachineError",
    "NotGradedError",
    "Publish",
    "RestoreCells",
    "Times",
    "cannot_fetch",
    "configure",
    "enter",
    "enter_again",
    "enter_failure",
    "enter_judged",
    "keep_printable",
    "no_exchange",
    "published",
    "settle_lateness",
    "times_of",
    "transaction",
    "withdraw_scores",
    "write_verdict",
]
