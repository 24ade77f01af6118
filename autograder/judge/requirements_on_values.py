"""Ask for a program, and judge what it computes after compiling and running it here.

What judges a program raises `programs.ProgramError` where it cannot be judged.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import jax
import numpy as np

from autograder import programs
from autograder.evidence import (
    Program,
    ProgramPlan,
)
from autograder.judge.comparing_values import (
    Arrays,
    Wrong,
    compare,
    is_close_throughout,
    is_right_to_few_digits,
    typed,
    worst_place,
)
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.explaining_values import (
    explain_added_products,
    explain_constant,
    explain_factor,
    explain_misplaced,
    explain_wrong_places,
)
from autograder.judge.recognising_mistakes import (
    is_finite,
    recognise_general_mistake,
    recognise_known_mistake,
)
from autograder.judge.running_programs import Run, asked_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import given
from autograder.programs import Argument, Ran, described


class HasReference(Protocol):
    """What is asked of values: a function that gives the right ones, and known mistakes."""

    @property
    def reference(self) -> Arrays: ...
    @property
    def mistakes(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Computes(Requirement):
    """A function computes what a NumPy reference does, on inputs drawn when judging.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must compute, in a sentence.
        reference: the same on NumPy arrays.
        arguments: one list of arguments for each program that is to be judged.
        mistakes: for each diagnosis, a function that makes that mistake and no other, or `AnyOf`
            several: then each program's values are those of one of them.
        under_mesh: whether the arguments' mesh is the current one (`jax.set_mesh`) while the
            function is traced, so that it may leave the mesh unsaid and serve several.
        blocks: for each program that is a matmul, into how many blocks A's rows, the contracted
            dimension and B's columns are cut; nothing where no one cuts them so.
    """

    about: ClassVar = "values"
    evidence: ClassVar = (Program,)

    answer: str
    asks: str
    reference: Arrays
    arguments: tuple[tuple[Argument, ...], ...]
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    under_mesh: bool = False
    blocks: tuple[tuple[int, int, int], ...] = ()

    @property
    def exported_for(self) -> tuple[tuple[Argument, ...], ...]:
        """All of them."""
        return self.arguments

    def plan_capture(self, generator: np.random.Generator) -> ProgramPlan:
        """The function, exported for each list of arguments."""
        return ProgramPlan(self.arguments, self.under_mesh)

    def judge(self, piece: Program, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what a program computes."""
        runs = run_all(exercise, self.answer, piece, seed)
        arguments = [described(each) for each in self.arguments]
        called = parameters(exercise, self.answer)
        return judge_runs(self, runs, arguments, basis, asked=self.arguments, called=called)


def judge_runs(
    requirement: HasReference,
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
        known = recognise_known_mistake(requirement.reference, requirement.mistakes, runs)
        if known and wrong[0] == "shape":  # values of another shape are not called wrong
            known = known[0], wrong[1]
        wrong = known or wrong
    if wrong[0] == "values":
        wrong = _of_any_program(ran) or wrong
        if number and wrong[0] != "values":
            wrong = wrong[0], given(arguments[number], wrong[1])
    if wrong[0] == "values":
        wrong = (
            explain_factor(requirement.reference, arguments, runs, asked, called)
            or explain_constant(requirement.reference, arguments, runs)
            or wrong
        )
    if wrong[0] == "values" and asked:
        wrong = _of_places(requirement, draws, ran, asked[number]) or wrong
    if wrong[0] == "values" and not number and isinstance(requirement, Computes):
        wrong = explain_added_products(requirement.blocks, asked, runs) or wrong
    if wrong[0] in ("values", "shape") and isinstance(requirement, Computes):
        wrong = recognise_general_mistake(requirement.reference, asked, called, runs) or wrong
    if number and wrong[0] in ("values", "misplaced", "shape"):
        if wrong[0] == "values":
            one = explain_factor(
                requirement.reference, arguments[number:][:1], runs[number:][:1],
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
    requirement: HasReference,
    draws: list[list[np.ndarray]],
    ran: Ran,
    arguments: str,
    names: Sequence[str],
) -> str:
    """One place where a program's values are wrong, and for which arguments; else its types."""
    count = len(ran.outputs[0])
    if not names and count > 1:
        names = [f"array {i} of the {count} returned" for i in range(1, count + 1)]
    random = f"random {arguments}" if isinstance(requirement, Computes) else arguments
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
    requirement: HasReference,
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
        moved = explain_misplaced(outputs[0], wanted[0], arguments)
        found = moved or explain_wrong_places(outputs[0], wanted[0])
        if not found:
            return None
        said.append(("misplaced" if moved else "values", found))
    return said[0] if len(set(said)) == 1 else None


def _of_fewer_digits(requirement: HasReference, runs: Sequence[Run]) -> Wrong | None:
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
        f"why? Such numbers have about three digits, and values are compared to more."
    )


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
