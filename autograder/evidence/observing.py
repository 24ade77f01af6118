"""Have several processes call functions that were handed in, where no kernel knows what with."""

from typing import Any

from autograder.errors import Fault
from autograder.evidence.data import Evidence, NotCaptured, Piece, Struct, Unanswered
from autograder.evidence.plans import Plan
from autograder.evidence.process_results import ProcessesPlan, runs
from autograder.processes import PackedFunction


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
