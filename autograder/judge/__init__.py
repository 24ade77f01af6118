"""Judge the evidence for an exercise, and render the verdict in words and pictures.

In: an exercise, and evidence that may be forged. Out: a `Verdict`, with a finding for each
requirement, or with a `Fault` of our own code and no score. The kinds of requirement that exercises
are composed of are here, in the modules `requirements_on_…`: each is a class that plans what is
captured, and judges it. `remember` saves a learner's progress in a file of theirs.
"""

from autograder.judge.comparing_results import AnyOrder
from autograder.judge.comparing_values import ArrayFunction
from autograder.judge.diagnoses import (
    KERNEL_DIED,
    MALFORMED,
    NO_EVIDENCE,
    NOT_COUNTED,
    OTHER_EXERCISE,
    UNANSWERED,
)
from autograder.judge.exercise import Exercise, Mistake, Order, Requirement, name_cell, ways_of
from autograder.judge.explaining_results import Terms
from autograder.judge.judging import failed_verdict, judge, lesson_on, verdict_without_evidence
from autograder.judge.progress import recall_progress, remember, show_hint, show_progress
from autograder.judge.prose import mark_up
from autograder.judge.report import COLOURS, MARKS
from autograder.judge.requirements_on_costs import (
    Budget,
    CommunicatesAtMost,
    FitsIn,
    WorksAtMost,
)
from autograder.judge.requirements_on_given_functions import MovesFewBytes, RunsWithinBudgets
from autograder.judge.requirements_on_gradients import (
    Differentiates,
    RecomputesAtMost,
    SavesAtMost,
)
from autograder.judge.requirements_on_layouts import PlacedLike
from autograder.judge.requirements_on_processes import Expected, OnProcesses
from autograder.judge.requirements_on_properties import Satisfies
from autograder.judge.requirements_on_requests import RequestedCollective, Requests
from autograder.judge.requirements_on_results import Predicts, Returns
from autograder.judge.requirements_on_resuming import (
    Continued,
    Resumes,
    ResumesAfterTornWrites,
)
from autograder.judge.requirements_on_states import Donates, KeepsLayouts
from autograder.judge.requirements_on_times import RunsFast, TrainsFast
from autograder.judge.requirements_on_values import Computes
from autograder.judge.right_answers import fingerprint_answer
from autograder.judge.running_programs import run_all
from autograder.judge.showing_verdicts import (
    HEADLINES,
    VerdictParts,
    headline,
    list_sentences,
    show_verdict,
    verdict_as_html,
    verdict_as_text,
    verdict_for_terminal,
    verdict_in_lines,
    verdict_in_parts,
)
from autograder.judge.trade_charts import class_tradeoff_as_html
from autograder.judge.verdict import Finding, NoScoreError, Trade, Verdict

__all__ = [
    "COLOURS",
    "HEADLINES",
    "KERNEL_DIED",
    "MALFORMED",
    "MARKS",
    "NOT_COUNTED",
    "NO_EVIDENCE",
    "OTHER_EXERCISE",
    "UNANSWERED",
    "AnyOrder",
    "ArrayFunction",
    "Budget",
    "CommunicatesAtMost",
    "Computes",
    "Continued",
    "Differentiates",
    "Donates",
    "Exercise",
    "Expected",
    "Finding",
    "FitsIn",
    "KeepsLayouts",
    "Mistake",
    "MovesFewBytes",
    "NoScoreError",
    "OnProcesses",
    "Order",
    "PlacedLike",
    "Predicts",
    "RecomputesAtMost",
    "RequestedCollective",
    "Requests",
    "Requirement",
    "Resumes",
    "ResumesAfterTornWrites",
    "Returns",
    "RunsFast",
    "RunsWithinBudgets",
    "Satisfies",
    "SavesAtMost",
    "Terms",
    "Trade",
    "TrainsFast",
    "Verdict",
    "VerdictParts",
    "WorksAtMost",
    "class_tradeoff_as_html",
    "failed_verdict",
    "fingerprint_answer",
    "headline",
    "judge",
    "lesson_on",
    "list_sentences",
    "mark_up",
    "name_cell",
    "recall_progress",
    "remember",
    "run_all",
    "show_hint",
    "show_progress",
    "show_verdict",
    "verdict_as_html",
    "verdict_as_text",
    "verdict_for_terminal",
    "verdict_in_lines",
    "verdict_in_parts",
    "verdict_without_evidence",
    "ways_of",
]
