"""The judge's eye for programs: what they compute and where, by compiling and running them here.

Each of these raises `programs.ProgramError` for a program that cannot be judged.
"""

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from autograder import programs
from autograder.evidence import Program
from autograder.exercise import Argument, Computes, Exercise, PlacedLike
from autograder.judge_layouts import judge_layout
from autograder.layout import Layout
from autograder.verdict import Finding

Run = tuple[list[np.ndarray], programs.Ran]
"""The inputs of a program, and what it made of them."""

ROUNDING = 16
"""How many units in the last place, scaled by the largest value, a computation may be off."""


def judge_values(
    requirement: Computes, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a program computes."""
    runs = run_all(exercise, requirement.answer, piece, seed)
    for i, (inputs, ran) in enumerate(runs):
        wrong = _compare_outputs(ran.outputs, jax.tree.leaves(requirement.reference(*inputs)))
        if wrong is None:
            continue
        came = ", ".join(map(_typed, ran.outputs)) or "nothing"
        _, other = run_all(exercise, requirement.answer, piece, seed + 1)[i]
        if wrong[0] == "values" and all(map(_identical, ran.outputs, other.outputs)):
            return basis.problem(
                "ignores-inputs",
                "It returns the same whatever it is given: a result that was worked out before is "
                "part of the program, and its arguments are not used.",
                came=came,
            )
        if wrong[0] == "values":
            wrong = _known_mistake(requirement, runs) or wrong
        return basis.problem(*wrong, came=came)
    return basis.but(met=True, came="the right values on every input tried")


def _known_mistake(requirement: Computes, runs: list[Run]) -> tuple[str, str] | None:
    """The known mistake that explains what every program gave."""
    for diagnosis, mistaken in requirement.mistakes.items():
        if all(
            _compare_outputs(ran.outputs, jax.tree.leaves(mistaken(*inputs))) is None
            for inputs, ran in runs
        ):
            return diagnosis, "The values are not those asked for, but those of a known mistake."
    return None


def judge_output_layout(
    requirement: PlacedLike, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for where a program leaves its result."""
    first: Finding | None = None
    runs = run_all(exercise, requirement.answer, piece, seed)
    for (_, ran), arguments in zip(runs, asked_of(exercise, requirement.answer), strict=True):
        if len(ran.outputs) != 1:
            return basis.problem("shape", "One array was to be returned.")
        made = Layout.of(ran.outputs[0])
        found = judge_layout(requirement, made, basis)
        came = [Layout.of(programs.placed(a), a.shape) for a in arguments]
        if not found.met and made in came and not ran.report.collectives:
            return found.problem(
                "nothing-moved", "The result is where the argument was: nothing moved."
            )
        if not found.met:
            return found
        first = first or found
    return first or basis


def asked_of(exercise: Exercise, answer: str) -> tuple[tuple[Argument, ...], ...]:
    """The lists of arguments that a function is to be exported for; none where it is not."""
    computes = (r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer)
    return next((r.arguments for r in computes), ())


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
    inputs = [generator.standard_normal(a.shape).astype(a.dtype) for a in arguments]
    return inputs, programs.run(artifact, arguments, inputs)


def _compare_outputs(outputs: list[jax.Array], wanted: list[Any]) -> tuple[str, str] | None:
    if [o.shape for o in outputs] != [w.shape for w in wanted]:
        return "shape", f"{', '.join(map(_typed, wanted))} was asked for."
    for output, value in zip(outputs, wanted, strict=True):
        if jnp.issubdtype(output.dtype, jnp.inexact) != jnp.issubdtype(value.dtype, jnp.inexact):
            return "dtype", f"The dtype is {output.dtype.name}; {value.dtype.name} was asked for."
        came = np.asarray(output)
        inexact = jnp.issubdtype(came.dtype, jnp.inexact)
        scale = float(np.max(np.abs(value), initial=1)) * math.sqrt(max(value.size, 1))
        eps = float(jnp.finfo(came.dtype).eps) if inexact else 0.0  # type: ignore[no-untyped-call]
        allowed = ROUNDING * eps * scale
        off = float(np.max(np.abs(came.astype(value.dtype) - value), initial=0))
        if not off <= allowed:  # so that NaN is off
            return "values", f"On fresh inputs the values are off by up to {off:.3g}."
    return None


def _typed(array: Any) -> str:
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
