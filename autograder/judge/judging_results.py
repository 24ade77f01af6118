"""The judge's eye for plain functions: do they give the right results on fresh cases?"""

import math
from typing import Any

import jax

from autograder.evidence import Value, plain
from autograder.exercises import Exercise, Predicts, Returns
from autograder.judge.verdict import Finding


def judge_results(
    requirement: Returns, piece: Value, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the results that a function gave on the cases drawn from `seed`."""
    cases = requirement.cases(exercise.generator(seed))
    results = piece.value
    if not isinstance(results, list) or len(results) != len(cases):
        return basis.problem("malformed", "A result for each case was needed.")
    if not all(isinstance(result, dict) for result in results):
        return basis.problem("malformed", "A result for each case was needed.")
    for case, result in zip(cases, results, strict=True):
        call = f"{requirement.answer}({', '.join(map(repr, case))})"
        if "error" in result:
            return basis.problem(
                "raised", f"{call} raised it.", came=f"an error of yours: {result['error']}"
            )
        wanted = requirement.reference(*case)
        if not _same(result.get("came"), wanted):
            return basis.problem(
                _which_mistake(requirement, cases, results),
                f"This is the first that is wrong of {len(cases)} cases, drawn afresh each time.",
                asked=f"{basis.asked} Here: {call} is {_shown(wanted)}",
                came=_shown(result.get("came")),
            )
    return basis.but(met=True, came=f"the right result in all of {len(cases)} cases")


def judge_prediction(requirement: Predicts, piece: Value, basis: Finding) -> Finding:
    """The finding for one cell of a table of predictions."""
    table = piece.value if isinstance(piece.value, dict) else {}
    if requirement.cell not in table:
        return basis.problem("malformed", f"The table has no cell {requirement.cell!r}.")
    came = table[requirement.cell]
    if came == plain(...):
        return basis.problem(
            "unanswered", f"The cell {requirement.cell!r} is still as it was handed out."
        )
    basis = basis.but(came=_shown(came))
    if _predicted(came, requirement.right, requirement.tolerance):
        return basis.but(met=True)
    for diagnosis, mistake in requirement.mistakes.items():
        if _predicted(came, mistake, requirement.tolerance):
            return basis.problem(diagnosis, "That is not what happens.")
    wanted = _form(requirement, came)
    if wanted:
        return basis.problem("other-form", f"{wanted} was asked for: what came is of another kind.")
    return basis.problem("other-prediction", "That is not what happens.")


def _predicted(came: Any, wanted: Any, tolerance: float) -> bool:
    if _is_number(came) and _is_number(wanted):
        return math.isclose(came, wanted, rel_tol=max(tolerance, 1e-9))
    if isinstance(came, str) and isinstance(wanted, str):
        return _letters(came) == _letters(wanted)
    return _same(came, plain(wanted))


def _form(requirement: Predicts, came: Any) -> str:
    """What kind of thing is to be predicted, where something of another kind came."""
    right = requirement.right
    if isinstance(right, bool):
        return "" if isinstance(came, bool) else "True or False, without quotes,"
    if _is_number(right):
        return "" if _is_number(came) else "A number, without quotes,"
    if isinstance(right, str):
        words = dict.fromkeys([right, *map(str, requirement.mistakes.values()), *requirement.words])
        known = isinstance(came, str) and _letters(came) in map(_letters, words)
        return "" if known else f"One of {', '.join(sorted(map(repr, words)))}"
    if isinstance(right, jax.P):
        entries = came if isinstance(came, list) else [0]
        names = all(e is None or isinstance(e, str | list) for e in entries)
        return "" if names else "A spec such as P('x', None), without quotes,"
    return "" if isinstance(came, list) else "A tuple"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _letters(word: str) -> str:
    """A word without its hyphens and capitals."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def _which_mistake(requirement: Returns, cases: Any, results: Any) -> str:
    """The known mistake that explains every result, or `other-result`."""
    for diagnosis, mistaken in requirement.mistakes.items():
        if all(
            _same(result.get("came"), mistaken(*case))
            for case, result in zip(cases, results, strict=True)
        ):
            return diagnosis
    return "other-result"


def _same(came: Any, wanted: Any) -> bool:
    """Equal, as plain data: numbers by value, tuples and lists alike."""
    if isinstance(wanted, tuple | list):
        return (
            isinstance(came, tuple | list)
            and len(came) == len(wanted)
            and all(_same(c, w) for c, w in zip(came, wanted, strict=True))
        )
    if isinstance(wanted, float) and isinstance(came, int | float):
        return math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-12)
    return type(came) is type(wanted) and bool(came == wanted)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"something of type {value.get('of type')}"
    text = repr(tuple(value)) if isinstance(value, list) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
