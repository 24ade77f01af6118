"""The judge's eye for programs: what they compute and where, by compiling and running them here.

Each of these raises `programs.ProgramError` for a program that cannot be judged.
"""

import inspect
import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from autograder import programs
from autograder.evidence import Program
from autograder.exercises import Computes, Exercise, PlacedLike
from autograder.judge.judging_layouts import judge_layout
from autograder.judge.verdict import Finding
from autograder.layouts import Layout
from autograder.programs import Argument, described

Run = tuple[list[list[np.ndarray]], programs.Ran]
"""The inputs of a program, drawn more than once, and what it made of them."""

Names = tuple[str, ...] | None
"""Names of mesh axes; None for any."""

DRAWS = 2
"""How often inputs are drawn: what ignores them gives itself away."""

ROUNDING = 16
"""How many units in the last place, scaled by the largest value, a computation may be off."""

LENIENT = 100 * ROUNDING
"""The same, where a mistake is to be recognised: it may be the difference of two large numbers."""


def judge_values(
    requirement: Computes, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a program computes."""
    runs = run_all(exercise, requirement.answer, piece, seed)
    for draws, ran in runs:
        wanted = [jax.tree.leaves(requirement.reference(*inputs)) for inputs in draws]
        wrong = next(filter(None, map(_compare_outputs, ran.outputs, wanted)), None)
        if wrong is None:
            continue
        came = ", ".join(map(_typed, ran.outputs[0])) or "nothing"
        if wrong[0] in ("values", "shape"):
            wrong = _known_mistake(requirement, runs) or wrong
        if wrong[0] == "values" and not all(map(_finite, ran.outputs[0])):
            return basis.problem(
                "not-finite",
                "There are infinities or NaNs in it: on the way, a number became too large for its "
                "type, or zero was divided by.",
                came=came,
            )
        if wrong[0] == "values" and not any(np.asarray(o).any() for o in ran.outputs[0]):
            return basis.problem(
                "nothing-but-zeros",
                "Nothing but zeros came back. Who is sent nothing by a ppermute holds zeros, and "
                "so does what was never filled in.",
                came=came,
            )
        if wrong[0] == "values" and all(map(_identical, *ran.outputs)):
            return basis.problem(
                "ignores-inputs",
                "It returned the same for two different inputs. A result that was worked out "
                "before is part of the program; its arguments are not used.",
                came=came,
            )
        return basis.problem(*wrong, came=came)
    return basis.but(met=True, came="the right values on every input tried")


def _known_mistake(requirement: Computes, runs: list[Run]) -> tuple[str, str] | None:
    """The known mistake that explains what every program gave."""
    for diagnosis, mistaken in requirement.mistakes.items():
        if all(
            _compare_outputs(outputs, jax.tree.leaves(mistaken(*inputs)), LENIENT) is None
            for draws, ran in runs
            for inputs, outputs in zip(draws, ran.outputs, strict=True)
        ):
            return diagnosis, "The values are not those asked for, but those of a known mistake."
    return None


def judge_output_layout(
    requirement: PlacedLike, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for where a program leaves its result."""
    first: Finding | None = None
    runs = run_all(exercise, requirement.answer, piece, seed)
    asked = asked_of(exercise, requirement.answer)
    for number, ((_, ran), arguments) in enumerate(zip(runs, asked, strict=True)):
        if len(ran.outputs[0]) != 1:
            return basis.problem("shape", "One array was to be returned.")
        made = Layout.of(ran.outputs[0][0])
        found = judge_layout(requirement.of_program(number), made, basis)
        came = [Layout.of(programs.placed(a), a.shape) for a in arguments]
        if not found.met and made in came and not ran.report.collectives:
            return found.problem(
                "nothing-moved", "The result is where the argument was: nothing moved."
            )
        if not found.met and first is not None and requirement.elsewhere:
            return found.problem(
                "only-the-first",
                f"It serves the case in the prompt. Given {described(arguments)}: "
                f"{found.difference}",
            )
        if not found.met:
            return found
        first = first or found
    return first or basis


def parameters(exercise: Exercise, answer: str) -> list[str]:
    """What the arguments of a function are called, where its reference has names for them."""
    computes = (r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer)
    arguments = asked_of(exercise, answer)[0]
    try:
        names = list(inspect.signature(next(computes).reference).parameters)
    except ValueError:  # NumPy's own have none
        names = []
    return (
        names
        if len(names) == len(arguments)
        else [f"argument {i}" for i in range(1, len(arguments) + 1)]
    )


def asked_of(exercise: Exercise, answer: str) -> tuple[tuple[Argument, ...], ...]:
    """The lists of arguments that a function is to be exported for; none where it is not."""
    computes = (r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer)
    return next((r.arguments for r in computes), ())


def _finite(output: jax.Array) -> bool:
    return bool(np.isfinite(np.asarray(output, np.float64)).all())


def _identical(one: jax.Array, other: jax.Array) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=False)


def run_all(exercise: Exercise, answer: str, piece: Program, seed: int) -> list[Run]:
    """What each program that was handed in made of fresh inputs: pairs of inputs and outputs.

    Raises:
        ProgramError: they cannot be judged.
    """
    arguments = asked_of(exercise, answer)
    if not arguments or len(piece.artifacts) != len(arguments):
        raise programs.ProgramError(
            "malformed", "A program for each list of arguments was needed, and something else came."
        )
    return [_run(*pair, seed) for pair in zip(piece.artifacts, arguments, strict=True)]


@lru_cache(maxsize=16)  # several requirements look at the same run
def _run(artifact: bytes, arguments: tuple[Argument, ...], seed: int) -> Run:
    generator = np.random.default_rng(seed)
    draws = [[argument.draw(generator) for argument in arguments] for _ in range(DRAWS)]
    return draws, programs.run(artifact, arguments, draws)


def rests_on(
    exercise: Exercise, answer: str, piece: Program, kind: str, axes: Names, seed: int
) -> bool:
    """Whether a result would be another if more went into a collective that is asked for by hand.

    A program can ask for a collective and make nothing of it: its values are right all the same.

    Args:
        exercise: what was asked.
        answer: the name of the program's answer.
        piece: the programs, of which the first is tried.
        kind: the kind of the collectives.
        axes: the axes that they run over; None for any.
        seed: what the inputs are drawn from.
    """
    computes = (r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer)
    arguments, reference = asked_of(exercise, answer)[0], next(computes).reference
    inputs, ran = _run_with_more(piece.artifacts[0], arguments, kind, axes, seed)
    wanted = jax.tree.leaves(reference(*inputs))
    return ran is None or _compare_outputs(ran.outputs[0], wanted) is not None


@lru_cache(maxsize=16)
def _run_with_more(
    artifact: bytes, arguments: tuple[Argument, ...], kind: str, axes: Names, seed: int
) -> tuple[list[np.ndarray], programs.Ran | None]:
    """What a program makes of its inputs if more goes into a collective; None where it fails."""
    generator = np.random.default_rng(seed)
    inputs = [argument.draw(generator) for argument in arguments]
    more = partial(programs.scale, kind=kind, axes=axes)
    try:
        return inputs, programs.run(artifact, arguments, [inputs], more)
    except programs.ProgramError:
        return inputs, None


def _compare_outputs(
    outputs: list[jax.Array], wanted: list[Any], rounding: float = ROUNDING
) -> tuple[str, str] | None:
    """What is wrong with outputs, as a short name and in words; every copy is looked at."""
    if [o.shape for o in outputs] != [w.shape for w in wanted]:
        return "shape", f"{', '.join(map(_typed, wanted))} was asked for."
    for output, value in zip(outputs, wanted, strict=True):
        # A coarser type would be let off with coarser values.
        if output.dtype != value.dtype:
            return "dtype", f"The dtype is {output.dtype.name}; {value.dtype.name} was asked for."
        inexact = jnp.issubdtype(value.dtype, jnp.inexact)
        scale = float(np.max(np.abs(value), initial=1)) * math.sqrt(max(value.size, 1))
        eps = float(np.finfo(value.dtype).eps) if inexact else 0.0
        off = [
            float(np.max(np.abs(np.asarray(shard.data) - value[shard.index]), initial=0))
            for shard in output.addressable_shards
        ]
        right = [each <= rounding * eps * scale for each in off]  # so that NaN is off
        if not any(right):
            return "values", f"On fresh inputs the values are off by up to {max(off):.3g}."
        if not all(right):
            number = right.count(False)
            return "values", (
                f"On fresh inputs the values are off by up to {max(off):.3g}, on {number} of "
                f"{len(right)} devices."
            )
    return None


def _typed(array: Any) -> str:
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
