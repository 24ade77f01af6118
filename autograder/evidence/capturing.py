"""Capture a learner's answers as evidence, in their kernel."""

from collections.abc import Mapping

from autograder.errors import Fault, TheirError, theirs
from autograder.evidence.data import Evidence, NotCaptured, Piece
from autograder.evidence.plans import AnswerPlan, Plan
from autograder.evidence.unfinished_cells import unfinished
from autograder.evidence.unsuitable_answers import a_type, nothing


def capture(plan: Plan, answers: Mapping[str, object]) -> Evidence:
    """Turn answers into evidence. Never raises for what an answer is or does.

    Nor is an answer blamed for what it is not: where an error is ours, its evidence is a `Fault`.

    Args:
        plan: what each answer becomes.
        answers: the answers by name.
    """
    return Evidence(
        plan.exercise,
        {
            name: _captured(name, wanted, answers.get(name, ...))
            for name, wanted in plan.answers.items()
        },
    )


def _captured(name: str, plan: AnswerPlan, answer: object) -> Piece:
    try:
        stopped = unfinished(name, answer)
        if stopped:
            return NotCaptured("did-not-finish", stopped)
        with theirs():  # to look at an answer can run code of the learner's: a property, a repr
            return nothing(answer) or plan.capture(name, answer)
    except TheirError as raised:
        return NotCaptured("strange", f"Got {a_type(answer)}, and looking at it raised {raised}.")
    except Exception as error:
        return Fault.of(error)
