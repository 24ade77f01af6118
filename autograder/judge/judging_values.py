"""Judge programs by what they compute and where, after compiling and running them here.

Each of these raises `programs.ProgramError` for a program that cannot be judged.
"""

import inspect
from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from autograder import programs
from autograder.evidence import Program
from autograder.exercises import Computes, Designs, Exercise, PlacedLike
from autograder.judge.added_products import added_products
from autograder.judge.comparing_values import (
    Wrong,
    compare,
    is_close_throughout,
    is_right_to_few_digits,
    typed,
    worst_place,
)
from autograder.judge.general_mistakes import general_mistake
from autograder.judge.judging_layouts import judge_layout
from autograder.judge.known_mistakes import is_finite, known_mistake
from autograder.judge.misplaced_values import misplaced, where_wrong
from autograder.judge.naming import given
from autograder.judge.running_programs import Run, asked_of, run_all
from autograder.judge.scaled_values import off_by_a_constant, off_by_a_factor
from autograder.judge.verdict import Finding
from autograder.layouts import Layout
from autograder.programs import Argument, Ran, described


def judge_values(
    requirement: Computes, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a program computes."""
    runs = run_all(exercise, requirement.answer, piece, seed)
    asked = asked_of(exercise, requirement.answer)
    arguments = [described(each) for each in asked]
    called = parameters(exercise, requirement.answer)
    return judge_runs(requirement, runs, arguments, basis, asked=asked, called=called)


def judge_runs(
    requirement: Computes | Designs,
    runs: Sequence[Run],
    arguments: Sequence[str],
    basis: Finding,
    names: Sequence[str] = (),
    asked: Sequence[Sequence[Argument]] = (),
    called: Sequence[str] = (),
) -> Finding:
    """The finding for what programs computed.

    Args:
        requirement: what was asked.
        runs: what each program made of what it was given.
        arguments: for each, what it was given, in words.
        basis: what is known of the finding.
        names: what the results are called, where they have names.
        asked: for each program its arguments, as the exercise has them.
        called: what the arguments are called.
    """
    wrongs = [
        next(filter(None, map(partial(compare, requirement.reference), draws, ran.outputs)), None)
        for draws, ran in runs
    ]
    number = next((number for number, wrong in enumerate(wrongs) if wrong), None)
    if number is None and isinstance(requirement, Computes):
        container = _needless_container(requirement, runs)
        if container:
            return basis.but(came=f"the right values in a {container}").problem(
                "in-a-container",
                f"The values are right, but the function returns them in a {container}; expected "
                f"the array itself.",
            )
    if number is None:
        return basis.but(met=True, came="the right values on every input tried")
    draws, ran = runs[number]
    basis = basis.but(came=_shown(requirement, draws, ran, arguments[number], names))
    wrong = wrongs[number] or ("values", "")
    if wrong[0] in ("values", "shape", "copies-disagree"):
        known = known_mistake(requirement, runs)
        if known and wrong[0] == "shape":  # values of another shape are not called wrong
            known = known[0], wrong[1]
        wrong = known or wrong
    if wrong[0] == "values":
        wrong = _of_any_program(ran) or wrong
        if number and wrong[0] != "values":
            wrong = wrong[0], given(arguments[number], wrong[1])
    if wrong[0] == "values":
        wrong = (
            off_by_a_factor(requirement, arguments, runs, asked, called)
            or off_by_a_constant(requirement, arguments, runs)
            or wrong
        )
    if wrong[0] == "values" and asked:
        wrong = _of_places(requirement, draws, ran, asked[number]) or wrong
    if wrong[0] == "values" and not number and isinstance(requirement, Computes):
        wrong = added_products(requirement, asked, runs) or wrong
    if wrong[0] in ("values", "shape") and isinstance(requirement, Computes):
        wrong = general_mistake(requirement, asked, called, runs) or wrong
    if number and wrong[0] in ("values", "misplaced", "shape"):
        if wrong[0] == "values":
            one = off_by_a_factor(
                requirement, arguments[number:][:1], runs[number:][:1],
                asked[number:][:1], called,
            )  # fmt: skip
            wrong = one or wrong
        if not all(
            is_close_throughout(outputs, jax.tree.leaves(requirement.reference(*inputs)))
            for inputs, outputs in zip(runs[0][0], runs[0][1].outputs, strict=True)
        ):
            return basis.problem(
                wrong[0],
                f"{given(arguments[number], wrong[1])} For {arguments[0]}, they are off as well, "
                f"but by too little to count.",
            )
        shown = isinstance(requirement, Computes)
        first = "in the case that the notebook shows" if shown else f"for {arguments[0]}"
        return basis.problem(
            "only-the-first",
            f"The values are right {first}. "
            f"{given(arguments[number], wrong[1])} "
            f"Does the code contain something that holds in the first case only, such as a size?",
        )
    if wrong[0] == "values":
        wrong = _of_fewer_digits(requirement, runs) or _of_a_coarser_type(draws, ran) or wrong
    return basis.problem(*wrong)


def _needless_container(requirement: Computes, runs: Sequence[Run]) -> str:
    """The type that one array was returned in, where the array itself is asked for."""
    draws, ran = runs[0]
    asked = programs.container_of(jax.tree.structure(requirement.reference(*draws[0])))
    return "" if asked else ran.container


def _shown(
    requirement: Computes | Designs,
    draws: list[list[np.ndarray]],
    ran: Ran,
    arguments: str,
    names: Sequence[str],
) -> str:
    """One place where a program's values are wrong, and for which arguments; else its types."""
    count = len(ran.outputs[0])
    if not names and count > 1:
        names = [f"array {i} of the {count} returned" for i in range(1, count + 1)]
    random = arguments if isinstance(requirement, Designs) else f"random {arguments}"
    for inputs, outputs in zip(draws, ran.outputs, strict=True):
        place = worst_place(outputs, jax.tree.leaves(requirement.reference(*inputs)), names)
        if place:
            return f"{place}, for {random}"
    return ", ".join(map(typed, ran.outputs[0]))


def _of_any_program(ran: Ran) -> Wrong | None:
    """What is wrong with values that are wrong whatever was asked for."""
    if not all(map(is_finite, ran.outputs[0])):
        return "not-finite", (
            "The result has infinities or NaNs in it: somewhere a number became too large for its "
            "type, or something was divided by zero."
        )
    if not any(np.asarray(output).any() for output in ran.outputs[0]):
        return "nothing-but-zeros", (
            "The result is all zeros. A device to which a ppermute sends nothing gets zeros, and "
            "an array that was never filled in holds zeros too."
        )
    if all(map(_identical, *ran.outputs)):
        return "ignores-inputs", (
            "The function returned the same for two different inputs. Does it use its arguments? "
            "(A result that was computed beforehand is a constant in the program.)"
        )
    return None


def _of_places(
    requirement: Computes | Designs,
    draws: list[list[np.ndarray]],
    ran: Ran,
    arguments: Sequence[Argument],
) -> Wrong | None:
    """What is said of values that are right elsewhere, or wrong in some places only."""
    said: list[Wrong] = []
    for inputs, outputs in zip(draws, ran.outputs, strict=True):
        wanted = jax.tree.leaves(requirement.reference(*inputs))
        if len(outputs) != 1 or len(wanted) != 1:
            return None
        moved = misplaced(outputs[0], wanted[0], arguments)
        found = moved or where_wrong(outputs[0], wanted[0])
        if not found:
            return None
        said.append(("misplaced" if moved else "values", found))
    return said[0] if len(set(said)) == 1 else None


def _of_fewer_digits(requirement: Computes | Designs, runs: Sequence[Run]) -> Wrong | None:
    """What is said where every value is right, but for its last digits."""
    if all(
        is_right_to_few_digits(outputs, jax.tree.leaves(requirement.reference(*inputs)))
        for draws, ran in runs
        for inputs, outputs in zip(draws, ran.outputs, strict=True)
    ):
        if not any(ran.coarser_types for _, ran in runs):
            return "values", "The values are right in their first two digits, and wrong after that."
        return "fewer-digits", (
            "The values are right to two or three digits only. Is something converted to a "
            "coarser type on the way?"
        )
    return None


def _of_a_coarser_type(draws: list[list[np.ndarray]], ran: Ran) -> Wrong | None:
    """What is said of wrong values where a program turns to less than 32 bits by itself."""
    has = {array.dtype.name for arrays in (draws[0], ran.outputs[0]) for array in arrays}
    more = [name for name in ran.coarser_types if name not in has]
    if not more:
        return None
    return "coarser-type", (
        f"The values are wrong, and some of the program computes in {' and '.join(more)}. Is that "
        f"why? Such numbers keep three digits or so, and values are compared in more."
    )


def judge_output_layout(
    requirement: PlacedLike, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for where a program leaves its result."""
    first: Finding | None = None
    runs = run_all(exercise, requirement.answer, piece, seed)
    asked = asked_of(exercise, requirement.answer)
    for number, ((_, ran), arguments) in enumerate(zip(runs, asked, strict=True)):
        if len(ran.outputs[0]) != 1:
            return basis.problem("shape", "The function has to return one array.")
        made = Layout.of(ran.outputs[0][0])
        wanted = requirement.of_program(number)
        found = judge_layout(wanted, made, basis, number)
        came = [Layout.of(programs.placed(a), a.shape) for a in arguments]
        if not found.met and made in came and not ran.report.collectives:
            return found.problem(
                "nothing-moved", "The result is laid out as the argument was: nothing moved."
            )
        if not found.met and first is not None and requirement.elsewhere:
            return found.problem(
                "only-the-first",
                f"The result is where it should be in the case that the notebook shows. "
                f"{given(arguments, found.difference)}",
            )
        if not found.met:
            return found
        if requirement.stays and ran.other_meshes:
            mine = ", ".join(f"{name}={size}" for name, size in arguments[0].axes)
            return found.but(met=False).problem(
                "another-mesh",
                f"The blocks are where they should be, but the function names a mesh of "
                f"{ran.other_meshes[0]}, and its argument is on a mesh of {mine}.",
            )
        first = first or found
    return first or basis


def parameters(exercise: Exercise, answer: str) -> list[str]:
    """What the arguments of a function are called, where its reference has names for them."""
    computes = (r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer)
    arguments = asked_of(exercise, answer)[0]
    try:
        known = inspect.signature(next(computes).reference).parameters.values()
        names = [each.name for each in known if each.default is each.empty]
    except ValueError:  # NumPy's own have none
        names = []
    return (
        names
        if len(names) == len(arguments)
        else [f"argument {i}" for i in range(1, len(arguments) + 1)]
    )


def _identical(one: jax.Array, other: jax.Array) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=False)
