"""Capture a learner's answers as evidence, in their kernel."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autograder import programs
from autograder.errors import Fault, TheirError, their_error, theirs, under_its_name
from autograder.evidence.data import Evidence, NotCaptured, Piece, Unanswered, Value
from autograder.evidence.designs import design
from autograder.evidence.exported_functions import Export, calling, exported, is_stub
from autograder.evidence.placements import placement, placements
from autograder.evidence.plain_values import plain
from autograder.evidence.plans import (
    AnswerPlan,
    DesignPlan,
    PlacementPlan,
    PlacementsPlan,
    Plan,
    ProcessesPlan,
    ProgramPlan,
    ResultsPlan,
    TablePlan,
)
from autograder.evidence.process_results import packed, runs
from autograder.evidence.time_limits import (
    DoesNotEndError,
    announced,
    does_not_end,
    limited,
)
from autograder.evidence.unfinished_cells import unfinished
from autograder.evidence.unsuitable_answers import a_type, not_a_function, nothing
from autograder.processes import PackedFunction
from autograder.programs import described


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
            return nothing(answer) or _as_planned(name, plan, answer)
    except TheirError as raised:
        return NotCaptured("strange", f"Got {a_type(answer)}, and looking at it raised {raised}.")
    except Exception as error:
        return Fault.of(error)


def _as_planned(name: str, plan: AnswerPlan, answer: object) -> Piece:
    match plan:
        case PlacementPlan():
            with announced(f"JAX has not computed {name} yet"):
                return placement(plan, answer)
        case PlacementsPlan():
            return placements(plan, answer)
        case ProcessesPlan():
            return _of_processes(plan, answer)
        case ProgramPlan():
            return _program(name, plan, answer)
        case DesignPlan():
            return design(plan, answer)
        case ResultsPlan():
            return _results(name, plan, answer)
        case TablePlan():
            return _table(answer)


def _of_processes(plan: ProcessesPlan, answer: object) -> Piece:
    """Call a function in several processes, or hand it in where the grader is to call it."""
    function = packed(answer)
    if plan.cases and isinstance(function, PackedFunction):
        return runs(plan, function)
    return function


def _results(name: str, plan: ResultsPlan, answer: object) -> Piece:
    if not callable(answer):
        return not_a_function(answer)
    results = []
    for case in plan.cases:
        call = f"{name}({_in_short(', '.join(map(repr, case)))})"
        try:
            results.append(_call(answer, case, call))
        except DoesNotEndError as error:
            return does_not_end(error, answer, f"{call} did not come to an end")
    if all(result.get("came", 0) is ... for result in results):
        return Unanswered()
    return Value([{key: plain(value) for key, value in result.items()} for result in results])


def _call(function: Callable[..., object], case: tuple[Any, ...], call: str) -> dict[str, Any]:
    def came() -> object:
        with theirs():
            return function(*case)

    try:
        return {"came": limited(came, f"{call} has not returned yet")}
    except TheirError as raised:
        if is_stub(raised.error):
            return {"came": ...}
        return {"error": their_error(raised.error, function)}


def _in_short(arguments: str) -> str:
    """The arguments of a call, or both ends of them."""
    return arguments if len(arguments) <= 100 else f"{arguments[:60]} … {arguments[-30:]}"


def _table(answer: object) -> Piece:
    if not isinstance(answer, dict):
        return NotCaptured(
            "not-a-table",
            f"Got {a_type(answer)}; expected the table, which is a dictionary.",
        )
    if all(value is ... for value in answer.values()):
        return Unanswered()
    return Value({str(plain(key)): plain(value) for key, value in answer.items()})


def _program(name: str, plan: ProgramPlan, answer: object) -> Piece:
    if not callable(answer):
        return not_a_function(answer)
    # To jit what is jitted again would undo its out_shardings.
    traced = answer if hasattr(answer, "lower") else under_its_name(calling(answer), answer)
    return exported(
        answer,
        [
            Export(
                described(arguments),
                tuple(name for name, _ in arguments[0].axes),
                partial(programs.export, traced, arguments, plan.under_mesh),
            )
            for arguments in plan.arguments
        ],
        name,
    )
