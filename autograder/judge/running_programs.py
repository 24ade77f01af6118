"""Run submitted programs: as they are, and changed to see what their results rest on.

Several requirements look at one run, so the last few are kept.
"""

from functools import lru_cache, partial

import numpy as np

from autograder import programs
from autograder.evidence import Program
from autograder.judge.exercise import Exercise
from autograder.programs import Argument, Collective

Run = tuple[list[list[np.ndarray]], programs.Ran]
"""The inputs of a program, drawn more than once, and what it made of them."""

Names = tuple[str, ...] | None
"""Names of mesh axes; None for any."""

SAMPLES = 2
"""How often inputs are sampled: a program that ignores them gives itself away."""


def asked_of(exercise: Exercise, answer: str) -> tuple[tuple[Argument, ...], ...]:
    """The lists of arguments that a function is to be exported for; none where it is not."""
    asked = (r for r in exercise.requirements if r.answer == answer)
    return next((r.exported_for for r in asked if r.exported_for), ())


def run_all(exercise: Exercise, answer: str, piece: Program, seed: int) -> list[Run]:
    """What each program that was handed in made of fresh inputs: pairs of inputs and outputs.

    Inputs are drawn more than once. Of a pair, the first is a list of these draws, each a list of
    arrays, one for each argument; the second has as many `outputs`, each a list of arrays.

    Raises:
        ProgramError: they cannot be judged.
    """
    arguments = asked_of(exercise, answer)
    if not arguments or len(piece.artifacts) != len(arguments):
        raise programs.ProgramError(
            "malformed", "The submission does not have a program for each list of arguments."
        )
    return [_run(*pair, seed) for pair in zip(piece.artifacts, arguments, strict=True)]


def _run(artifact: bytes, arguments: tuple[Argument, ...], seed: int) -> Run:
    made = _tried(artifact, arguments, seed)
    if isinstance(made, programs.ProgramError):
        raise made
    return made


@lru_cache(maxsize=16)  # several requirements look at the same run, or at why there is none
def _tried(
    artifact: bytes, arguments: tuple[Argument, ...], seed: int
) -> Run | programs.ProgramError:
    generator = np.random.default_rng(seed)
    draws = [[argument.draw(generator) for argument in arguments] for _ in range(SAMPLES)]
    try:
        ran = programs.run(artifact, arguments, draws)
    except programs.ProgramError as refused:
        return refused
    if not ran.outputs[0]:
        return programs.ProgramError(
            "nothing-returned",
            "The function returns nothing. Does each function in the cell end with a return?",
        )
    return draws, ran


@lru_cache(maxsize=16)
def run_with_more(
    artifact: bytes, arguments: tuple[Argument, ...], kind: str, axes: Names, seed: int
) -> programs.Ran | None:
    """What a program makes of its first inputs if more goes into a collective; None if it fails."""
    generator = np.random.default_rng(seed)
    inputs = [argument.draw(generator) for argument in arguments]
    more = partial(programs.scale, kind=kind, axes=axes)
    try:
        return programs.run(artifact, arguments, [inputs], more)
    except programs.ProgramError:
        return None


def added_to(
    exercise: Exercise, answer: str, piece: Program, number: int, seed: int
) -> tuple[Collective, ...]:
    """The collectives that the compiler adds to a program by itself.

    Args:
        exercise: what was asked.
        answer: the name of the program's answer.
        piece: the programs.
        number: which of them.
        seed: what the inputs are drawn from.

    Raises:
        ProgramError: nobody can tell.
    """
    arguments = asked_of(exercise, answer)[number]
    (_, ran) = _run(piece.artifacts[number], arguments, seed)
    if not ran.requested or not ran.report.collectives:
        return ran.report.collectives
    generator = np.random.default_rng(seed)
    inputs = [argument.draw(generator) for argument in arguments]
    try:
        alone = programs.run(piece.artifacts[number], arguments, [inputs], programs.take_out)
    except programs.ProgramError as error:
        raise programs.ProgramError(
            "nobody-can-tell",
            "The collectives that the compiler added cannot be told apart from those that your "
            "function requests.",
        ) from error
    return alone.report.collectives
