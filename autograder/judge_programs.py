"""The judge's eye for programs: what they do, by compiling and running them here.

Each of these raises `programs.ProgramError` for a program that cannot be judged.
"""

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from autograder import programs
from autograder.communication import Report
from autograder.evidence import Program
from autograder.exercise import (
    Argument,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    PlacedLike,
)
from autograder.judge_layouts import judge_layout
from autograder.layout import Layout
from autograder.verdict import Finding

ROUNDING = 16
"""How many units in the last place, scaled by the largest value, a computation may be off."""


def judge_values(
    requirement: Computes, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a program computes."""
    runs = _runs(exercise, requirement.answer, piece, seed)
    for i, (inputs, ran) in enumerate(runs):
        wrong = _compare_outputs(ran.outputs, jax.tree.leaves(requirement.reference(*inputs)))
        if wrong is None:
            continue
        came = ", ".join(map(_typed, ran.outputs)) or "nothing"
        _, other = _runs(exercise, requirement.answer, piece, seed + 1)[i]
        if wrong[0] == "values" and all(map(_identical, ran.outputs, other.outputs)):
            return basis.problem(
                "ignores-inputs",
                "It returns the same whatever it is given: a result that was worked out before is "
                "part of the program, and its arguments are not used.",
                came=came,
            )
        return basis.problem(*wrong, came=came)
    return basis.but(met=True, came="the right values on every input tried")


def judge_communication(
    requirement: CommunicatesAtMost, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a program communicates, against its budgets."""
    runs = _runs(exercise, requirement.answer, piece, seed)
    for (_, ran), budgets in zip(runs, requirement.budgets, strict=True):
        basis = basis.but(came=_communicated(ran.report))
        left_over = _spent(ran.report)
        too_much = None
        for budget in budgets:
            matching = [
                pair
                for pair in left_over
                if pair[0] == budget.kind and budget.axes in (None, pair[1])
            ]
            total = sum(left_over.pop(pair) for pair in matching)
            if budget.bytes is not None and total > budget.bytes and too_much is None:
                too_much = basis.problem(
                    "too-many-bytes",
                    f"{_a(_name(*matching[0]))} may move {budget.bytes:,} bytes at most, "
                    f"and it moves {total:,}.",
                )
        if left_over:  # what nobody asked for says more than how much there is of the rest
            name = _name(*next(iter(left_over)))
            moved = next(iter(left_over.values()))
            return basis.problem(name, f"{_a(name)} of {moved:,} bytes was not asked for.")
        if too_much is not None:
            return too_much
    return basis.but(met=True)


def judge_memory(
    requirement: FitsIn, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the memory that a program takes on each device."""
    runs = _runs(exercise, requirement.answer, piece, seed)
    for (_, ran), most in zip(runs, requirement.bytes, strict=True):
        basis = basis.but(came=f"a program that holds {ran.report.peak_bytes:,} bytes")
        if ran.report.peak_bytes > most:
            over = ran.report.peak_bytes / most
            return basis.problem(
                "too-much-memory", f"It holds {over:.3g} times what each device has room for."
            )
    return basis.but(met=True)


def _spent(report: Report) -> dict[tuple[str, tuple[str, ...]], int]:
    """The bytes of each kind of collective over each set of axes, the most first."""
    total: dict[tuple[str, tuple[str, ...]], int] = {}
    for c in report.collectives:
        total[c.kind, c.axes] = total.get((c.kind, c.axes), 0) + c.total_bytes
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _communicated(report: Report) -> str:
    """What a program communicates, in words."""
    said = [f"{_name(*pair)}, {count:,} bytes" for pair, count in _spent(report).items()]
    return "; ".join(said) or "a program that communicates nothing"


def _name(kind: str, axes: tuple[str, ...]) -> str:
    return f"{kind} over {', '.join(axes) or 'parts of axes'}"


def _a(name: str) -> str:
    return f"{'An' if name[0] == 'a' else 'A'} {name}"


def _identical(one: jax.Array, other: jax.Array) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=False)


Run = tuple[list[np.ndarray], programs.Ran]


def _runs(exercise: Exercise, answer: str, piece: Program, seed: int) -> list[Run]:
    """What each program that was handed in made of fresh inputs: pairs of inputs and outputs."""
    asked_for = [r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer]
    arguments = asked_for[0].arguments if asked_for else ()
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


def judge_output_layout(
    requirement: PlacedLike, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for where a program leaves its result."""
    runs = _runs(exercise, requirement.answer, piece, seed)
    found = basis
    for _, ran in runs:
        if len(ran.outputs) != 1:
            return basis.problem("shape", "One array was to be returned.")
        found = judge_layout(requirement, Layout.of(ran.outputs[0]), basis)
        if not found.met:
            break
    return found
