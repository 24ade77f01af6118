"""Verdicts on the known answers of a bank."""

import warnings
from typing import Any

from autograder import evidence
from autograder.instructor.authoring import NotebookSession
from autograder.instructor.authoring.bank import KnownAnswer
from autograder.judge import Verdict


def sit(sitting: NotebookSession, known: KnownAnswer, seed: int) -> tuple[Verdict, Any]:
    """Return `check`'s verdict on a known answer, and the evidence that it would submit."""
    with warnings.catch_warnings():
        # what an answer is warned of is no error of the tests
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        tried = sitting.answer(known.exercise, known.code, seed)
    assert tried.raised is None or "raises" in known.title, f"{known.title!r} raised"
    return tried.verdict, evidence.to_json(tried.evidence)
