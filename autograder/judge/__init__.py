"""The judge: exercise + evidence → verdict, in words and pictures.

In: an exercise, and evidence that may be forged. Out: a `Verdict`, with a finding for each
requirement, or a `Fault` of ours and no score. There is one module for each kind of requirement.
What a learner has been told is remembered here too, in a small file of their own.
"""

from autograder.judge.feedback import (
    HEADLINES,
    Parts,
    headline,
    sentences,
    show_verdict,
    verdict_as_html,
    verdict_as_text,
    verdict_for_terminal,
    verdict_in_lines,
    verdict_in_parts,
)
from autograder.judge.judging import failed, judge, lesson_on, no_evidence
from autograder.judge.progress import remember, remembered
from autograder.judge.rendering import COLOURS, words
from autograder.judge.report import MARKS
from autograder.judge.verdict import Finding, NoScoreError, Trade, Verdict
from autograder.judge.way_on import show_hint, show_progress

__all__ = [
    "COLOURS",
    "HEADLINES",
    "MARKS",
    "Finding",
    "NoScoreError",
    "Parts",
    "Trade",
    "Verdict",
    "failed",
    "headline",
    "judge",
    "lesson_on",
    "no_evidence",
    "remember",
    "remembered",
    "sentences",
    "show_hint",
    "show_progress",
    "show_verdict",
    "verdict_as_html",
    "verdict_as_text",
    "verdict_for_terminal",
    "verdict_in_lines",
    "verdict_in_parts",
    "words",
]
