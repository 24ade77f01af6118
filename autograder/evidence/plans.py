"""Capture a learner's answers as evidence, by a plan.

For each answer of an exercise, a plan says which kind of evidence it becomes and what capturing
needs: arguments to export a function for, or cases to call one with. It does not say what is right,
and it is plain data, so it can be sent to a grading kernel. The class of each kind of plan is in
the module that captures it.

`observe` completes the evidence of functions that several processes call: a grading kernel only
captures the function, and the grader calls it with inputs that the kernel does not know.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from autograder.artifacts import MALFORMED, override_debugging
from autograder.evidence.data import Evidence, NotCaptured, Piece, Struct, Unanswered
from autograder.evidence.exported_functions import DesignPlan, GradientPlan, ProgramPlan
from autograder.evidence.placements import PlacementPlan, PlacementsPlan
from autograder.evidence.process_results import ProcessesPlan, capture_runs
from autograder.evidence.results import ResultsPlan, TablePlan
from autograder.evidence.unfinished_cells import explain_unfinished
from autograder.evidence.unsuitable_answers import describe_type, missing_answer
from autograder.explanations import Fault
from autograder.processes import PackedFunction
from shardlings.errors import TheirError, theirs

STRANGE: Final = "strange"
"""The diagnosis of an answer that raises an error when it is looked at."""

DID_NOT_FINISH: Final = "did-not-finish"
"""The diagnosis of an answer whose cell raised an error, or was interrupted."""

AnswerPlan = (
    PlacementPlan
    | PlacementsPlan
    | ProcessesPlan
    | ProgramPlan
    | DesignPlan
    | GradientPlan
    | ResultsPlan
    | TablePlan
)


class Plan(Struct, frozen=True):
    """A plan for capturing the answers to one exercise.

    Attributes:
        exercise: the exercise's id.
        answers: the plan for each answer, by the answer's name.
    """

    exercise: str
    answers: dict[str, AnswerPlan]


def without_process_cases(plan: Plan) -> Plan:
    """Return the plan for a grading kernel, which calls no function in several processes."""
    answers = {
        name: ProcessesPlan(()) if isinstance(answer_plan, ProcessesPlan) else answer_plan
        for name, answer_plan in plan.answers.items()
    }
    return msgspec.structs.replace(plan, answers=answers)


_given: dict[str, Plan] | None = None


def give_plans(plans: list[Plan]) -> None:
    """Make this process a grading kernel, which captures by these plans."""
    global _given
    _given = {plan.exercise: plan for plan in plans}


def is_grading() -> bool:
    """Check whether this process is a grading kernel."""
    return _given is not None


def known_plans() -> dict[str, Plan] | None:
    """Return a grading kernel's plans, by exercise; None in any other process."""
    return _given


def capture(plan: Plan, answers: Mapping[str, object]) -> Evidence:
    """Turn answers into evidence.

    It never raises, whatever an answer is or does. If capturing an answer fails with an error of
    ours, its evidence is a `Fault`.

    Args:
        plan: the exercise's plan.
        answers: the answers, by name.
    """
    with override_debugging():
        return Evidence(
            plan.exercise,
            {
                # a stub is an Ellipsis, too: not answered
                name: _capture_answer(name, answer_plan, answers.get(name, Ellipsis))
                for name, answer_plan in plan.answers.items()
            },
        )


def _capture_answer(name: str, plan: AnswerPlan, answer: object) -> Piece:
    try:
        sentence = explain_unfinished(name, answer)
        if sentence:
            return NotCaptured(DID_NOT_FINISH, sentence)
        with theirs():  # Looking at an answer can run the learner's code: a property, a __repr__.
            return missing_answer(answer) or plan.capture(name, answer)
    except TheirError as raised:
        return NotCaptured(
            STRANGE, f"Got {describe_type(answer)}, and looking at it raised {raised}."
        )
    except Exception as error:
        return Fault.of(error)


class ObserveRequest(Struct, frozen=True):
    """A request to call, in several processes, the functions that evidence contains.

    Attributes:
        plan: has the cases to call them in, which no kernel knows.
        evidence: the evidence from a kernel, as plain objects; it may be forged.
    """

    plan: Plan
    evidence: Any


def observe(plan: Plan, evidence: Evidence) -> Evidence:
    """Replace each function that is for several processes by what it returned there.

    It never raises, whatever a function is or does; an error of ours becomes a `Fault`.

    Args:
        plan: has the cases to call the functions in.
        evidence: the evidence from a kernel; it may be forged.

    Returns:
        The evidence, with `Runs` in place of these functions.
    """
    answers = dict(evidence.answers)
    for name, answer_plan in plan.answers.items():
        if isinstance(answer_plan, ProcessesPlan) and name in answers:
            answers[name] = _observe_answer(answer_plan, answers[name])
    return Evidence(evidence.exercise, answers)


def _observe_answer(plan: ProcessesPlan, piece: Piece) -> Piece:
    if isinstance(piece, Unanswered | NotCaptured | Fault):
        return piece
    if not isinstance(piece, PackedFunction):
        return NotCaptured(MALFORMED, "A function was expected.")
    try:
        return capture_runs(plan, piece)
    except Exception as error:
        return Fault.of(error)
