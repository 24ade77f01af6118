"""From answers to evidence, in the student's kernel."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from autograder import programs
from autograder.errors import (
    Fault,
    TheirError,
    before_jaxs_words,
    their_error,
    theirs,
    under_its_name,
    what_it_raised,
    wordless_of_jax,
)
from autograder.evidence.data import Evidence, NotCaptured, Piece, Program, Unanswered, Value
from autograder.evidence.placements import placement, placements
from autograder.evidence.plain_values import plain
from autograder.evidence.plans import (
    AnswerPlan,
    PlacementPlan,
    PlacementsPlan,
    Plan,
    ProgramPlan,
    ResultsPlan,
    TablePlan,
)
from autograder.evidence.unfinished_cells import unfinished
from autograder.evidence.unsuitable_answers import a_type, not_a_function, nothing
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
            return nothing(answer) or _as_planned(plan, answer)
    except TheirError as raised:
        return NotCaptured("strange", f"Got {a_type(answer)}, and looking at it raised {raised}.")
    except Exception as error:
        return Fault.of(error)


def _as_planned(plan: AnswerPlan, answer: object) -> Piece:
    match plan:
        case PlacementPlan():
            return placement(plan, answer)
        case PlacementsPlan():
            return placements(plan, answer)
        case ProgramPlan():
            return _program(plan, answer)
        case ResultsPlan():
            return _results(plan, answer)
        case TablePlan():
            return _table(answer)


def _results(plan: ResultsPlan, answer: object) -> Piece:
    if not callable(answer):
        return not_a_function(answer)
    results = [_call(answer, case) for case in plan.cases]
    if all(result.get("came", 0) is ... for result in results):
        return Unanswered()
    return Value([{key: plain(value) for key, value in result.items()} for result in results])


def _call(function: Callable[..., object], case: tuple[Any, ...]) -> dict[str, Any]:
    try:
        with theirs():
            return {"came": function(*case)}
    except TheirError as raised:
        if _is_stub(raised.error):
            return {"came": ...}
        return {"error": their_error(raised.error, function)}


def _table(answer: object) -> Piece:
    if not isinstance(answer, dict):
        return NotCaptured(
            "not-a-table",
            f"Got {a_type(answer)}; expected the table, which is a dictionary.",
        )
    if all(value is ... for value in answer.values()):
        return Unanswered()
    return Value({str(plain(key)): plain(value) for key, value in answer.items()})


def _program(plan: ProgramPlan, answer: object) -> Piece:
    if not callable(answer):
        return not_a_function(answer)

    def called(*arguments: object) -> object:
        with theirs():
            result = answer(*arguments)
            if result is ...:
                raise NotImplementedError
            if callable(result) and not isinstance(result, jax.Array):
                raise ReturnsAFunctionError
        return result

    # To jit what is jitted again would undo its out_shardings.
    traced = answer if hasattr(answer, "lower") else under_its_name(called, answer)
    artifacts: list[bytes] = []
    try:
        for arguments in plan.arguments:
            artifacts.append(programs.export(traced, arguments, plan.under_mesh))
    except programs.ProgramError as error:
        return NotCaptured(error.diagnosis, str(error))
    except TheirError as raised:
        if _is_stub(raised.error):
            return Unanswered()
        if isinstance(raised.error, ReturnsAFunctionError):
            return NotCaptured(
                "returns-a-function",
                "Your function returns another function. Call that one with its arguments, and "
                "return its result.",
            )
        arguments = plan.arguments[len(artifacts)]
        why, said = what_it_raised(raised.error, answer, [name for name, _ in arguments[0].axes])
        why_it_raised = why
        if artifacts:
            why = "only-the-first"
            given = f"For {described(arguments)}, {_going_on(said)}"
            said = f"It compiles in the case that the notebook shows. {given}"
            if why_it_raised in ("raised", "does-not-reshape"):
                said = before_jaxs_words(
                    said, "Is a size, or a number of devices, written into it?"
                )
        return NotCaptured(why, said)
    return Program(tuple(artifacts))


def _going_on(sentence: str) -> str:
    """A sentence that goes on where another word has begun it; `JAX` stays what it is."""
    return sentence if sentence[:2].isupper() else f"{sentence[0].lower()}{sentence[1:]}"


class ReturnsAFunctionError(TypeError):
    """What a learner's function returns is to be called first."""


def _is_stub(error: BaseException) -> bool:
    """Whether it is what a function that is still to be written raises, and not JAX's own."""
    if not isinstance(error, NotImplementedError) or str(error):
        return False
    return not wordless_of_jax(error)
