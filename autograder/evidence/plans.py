"""Plans: what a student's kernel needs to know to capture answers; and capturing them.

A plan says for each answer of an exercise which kind of evidence it becomes, and what that takes:
arguments to export a function for, cases to call one with. It says nothing of what is right, and
it is plain data, so that a kernel that grades can be sent it. Each kind of it stands beside what
captures it.
"""

from collections.abc import Mapping
from typing import Any

from autograder.errors import Fault, TheirError, theirs
from autograder.evidence.data import Evidence, NotCaptured, Piece, Struct, Unanswered
from autograder.evidence.exported_functions import DesignPlan, ProgramPlan
from autograder.evidence.placements import PlacementPlan, PlacementsPlan
from autograder.evidence.process_results import ProcessesPlan, runs
from autograder.evidence.results import ResultsPlan, TablePlan
from autograder.evidence.unfinished_cells import unfinished
from autograder.evidence.unsuitable_answers import a_type, nothing
from autograder.processes import PackedFunction

AnswerPlan = (
    PlacementPlan
    | PlacementsPlan
    | ProcessesPlan
    | ProgramPlan
    | DesignPlan
    | ResultsPlan
    | TablePlan
)


class Plan(Struct, frozen=True):
    """What capturing has to know of an exercise.

    Attributes:
        exercise: its id.
        answers: for the name of each answer, what it becomes.
    """

    exercise: str
    answers: dict[str, AnswerPlan]


def without_process_cases(plan: Plan) -> Plan:
    """A plan for a kernel that grades: it calls no function in several processes."""
    answers = {
        name: ProcessesPlan(()) if isinstance(wanted, ProcessesPlan) else wanted
        for name, wanted in plan.answers.items()
    }
    return Plan(plan.exercise, answers)


_given: dict[str, Plan] | None = None


def give(plans: list[Plan]) -> None:
    """Tell this process what to capture: it is a kernel that grades."""
    global _given
    _given = {plan.exercise: plan for plan in plans}


def is_grading() -> bool:
    """Check whether this process is a kernel that grades."""
    return _given is not None


def told() -> dict[str, Plan] | None:
    """The plans, by exercise, that this kernel was told of; None where it was told of none."""
    return _given


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


class Call(Struct, frozen=True):
    """Evidence with functions that processes are to call.

    Attributes:
        plan: has the cases to call them in, which no kernel knows.
        evidence: as it came from a kernel; it may be anything.
    """

    plan: Plan
    evidence: Any


def observe(plan: Plan, evidence: Evidence) -> Evidence:
    """Have processes call the functions in evidence that are to be called so.

    Never raises for what a function is or does; an error of ours becomes a `Fault`.

    Args:
        plan: with the cases to call them in.
        evidence: it may be forged.
    """
    answers = dict(evidence.answers)
    for name, wanted in plan.answers.items():
        if isinstance(wanted, ProcessesPlan) and name in answers:
            answers[name] = _observed(wanted, answers[name])
    return Evidence(evidence.exercise, answers)


def _observed(plan: ProcessesPlan, piece: Piece) -> Piece:
    if not isinstance(piece, PackedFunction):
        told = isinstance(piece, Unanswered | NotCaptured | Fault)
        return piece if told else NotCaptured("malformed", "A function was expected.")
    try:
        return runs(plan, piece)
    except Exception as error:
        return Fault.of(error)
