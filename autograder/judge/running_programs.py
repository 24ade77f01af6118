"""Run submitted programs: as they are, and changed, to see what their results depend on.

Several requirements judge the same run, so the last few runs are cached.
"""

from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np
from humanize import natural_list

from autograder import artifacts
from autograder.artifacts import Argument
from autograder.evidence import Program, announce_steps
from autograder.judge.diagnoses import MALFORMED
from autograder.judge.exercise import Exercise
from shardlings import programs
from shardlings.programs import Collective

Names = tuple[str, ...] | None
"""Names of mesh axes; None for any."""

SAMPLES: Final = 2
"""Inputs are sampled twice, which shows whether a program ignores them."""


class SampledRun(NamedTuple):
    """A program's inputs, sampled `SAMPLES` times, and its results.

    Attributes:
        samples: for each sample, an array for each argument.
        ran: the results; its `outputs` has a list of arrays for each sample.
    """

    samples: list[list[np.ndarray]]
    ran: artifacts.ProgramRun


def argument_lists_of(exercise: Exercise, answer: str) -> tuple[tuple[Argument, ...], ...]:
    """Return the lists of arguments that an answer is exported for; empty if it is not."""
    requirements = (r for r in exercise.requirements if r.answer == answer)
    return next((r.exported_for for r in requirements if r.exported_for), ())


def run_all(exercise: Exercise, answer: str, piece: Program, seed: int) -> list[SampledRun]:
    """Run each submitted program on sampled inputs.

    Returns:
        The run of each program, in the order of the lists of arguments.

    Raises:
        ProgramError: the programs cannot be judged.
    """
    arguments = argument_lists_of(exercise, answer)
    if not arguments or len(piece.artifacts) != len(arguments):
        raise artifacts.ProgramError(
            MALFORMED, "The submission does not have a program for each list of arguments."
        )
    pairs = announce_steps(zip(piece.artifacts, arguments, strict=True), _describe_step)
    return [_run(*pair, seed) for pair in pairs]


def _describe_step(pair: tuple[bytes, tuple[Argument, ...]]) -> str:
    meshes = dict.fromkeys(" × ".join(str(n) for _, n in each.axes) for each in pair[1])
    return f"compiling the program for a mesh of {natural_list([*meshes])}, and running it"


def _run(artifact: bytes, arguments: tuple[Argument, ...], seed: int) -> SampledRun:
    run = _run_or_error(artifact, arguments, seed)
    if isinstance(run, artifacts.ProgramError):
        raise run
    return run


@lru_cache(maxsize=16)  # of errors, too: several requirements report the same one
def _run_or_error(
    artifact: bytes, arguments: tuple[Argument, ...], seed: int
) -> SampledRun | artifacts.ProgramError:
    generator = np.random.default_rng(seed)
    samples = [[argument.sample(generator) for argument in arguments] for _ in range(SAMPLES)]
    try:
        ran = artifacts.run(artifact, arguments, samples)
    except artifacts.ProgramError as refused:
        return refused
    if not ran.outputs[0]:
        return artifacts.ProgramError(
            "nothing-returned",
            "The function returned None or an empty tuple, and no array. Does each function in the "
            "cell end with a return of its result?",
        )
    return SampledRun(samples, ran)


@lru_cache(maxsize=16)
def run_with_scaled_collective(
    artifact: bytes, arguments: tuple[Argument, ...], kind: str, axes: Names, seed: int
) -> artifacts.ProgramRun | None:
    """Run a program with the input of its collectives of a kind scaled; None if it fails."""
    generator = np.random.default_rng(seed)
    inputs = [argument.sample(generator) for argument in arguments]
    scale = partial(programs.scale_collectives, kind=kind, axes=axes)
    try:
        return artifacts.run(artifact, arguments, [inputs], scale)
    except artifacts.ProgramError:
        return None


def find_added_collectives(
    exercise: Exercise, answer: str, piece: Program, number: int, seed: int
) -> tuple[Collective, ...]:
    """Return the collectives that the compiler adds to the requested ones.

    They are those that remain when the requested ones are removed from the program.

    Args:
        exercise: the exercise.
        answer: the name of the answer.
        piece: the exported programs.
        number: the number of the program.
        seed: the seed for the inputs.

    Raises:
        ProgramError: the program does not run without the requested collectives.
    """
    arguments = argument_lists_of(exercise, answer)[number]
    (_, ran) = _run(piece.artifacts[number], arguments, seed)
    if not ran.requested or not ran.report.collectives:
        return ran.report.collectives
    generator = np.random.default_rng(seed)
    inputs = [argument.sample(generator) for argument in arguments]
    try:
        ran_without = artifacts.run(
            piece.artifacts[number], arguments, [inputs], programs.remove_collectives
        )
    except artifacts.ProgramError as error:
        raise artifacts.ProgramError(
            "nobody-can-tell",
            "The collectives that the compiler added cannot be told apart from those that your "
            "function requests.",
        ) from error
    return ran_without.report.collectives
