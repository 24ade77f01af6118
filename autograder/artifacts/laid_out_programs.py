"""Programs with the shardings that a learner chose for their arguments and results.

They run at small sizes; at the real size, which no machine here could hold, they are only compiled,
and their costs are reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from autograder.artifacts.arguments import override_mesh
from autograder.artifacts.loading import load
from autograder.artifacts.program_checks import MALFORMED, ProgramError
from autograder.artifacts.program_sizes import hide_sizes, refuse_another_program
from autograder.artifacts.running import (
    Inputs,
    ProgramRun,
    compile_and_run,
    compile_lowered,
    lower,
    report_as_compiled,
)
from shardlings.programs import CommunicationError, Report, count_in_bfloat16


@dataclass(frozen=True)
class LaidOutProgram:
    """An exported program with the shardings that a learner chose for its arguments and results.

    Attributes:
        artifact: the exported program; it may be forged.
        shapes: the shapes of its arguments, in elements; all are float32.
        argument_shardings: the shardings of its arguments.
        result_shardings: the shardings of its results; results with other shardings are resharded.
    """

    artifact: bytes
    shapes: tuple[tuple[int, ...], ...]
    argument_shardings: tuple[jax.NamedSharding, ...]
    result_shardings: tuple[jax.NamedSharding, ...]

    @property
    def mesh(self) -> jax.sharding.Mesh:
        """The mesh of all shardings."""
        mesh = self.argument_shardings[0].mesh
        assert isinstance(mesh, jax.sharding.Mesh)
        return mesh

    @property
    def structs(self) -> list[jax.ShapeDtypeStruct]:
        """The shapes, dtypes and shardings of its arguments."""
        return [
            jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
            for shape, sharding in zip(self.shapes, self.argument_shardings, strict=True)
        ]

    def function(self) -> Any:
        """Return a jitted function that computes the flattened results, with their shardings.

        Raises:
            ProgramError: it is malformed, too large, or was exported for other arguments.
        """
        program = load(self.artifact, self.structs)
        if len(program.out_avals) != len(self.result_shardings):
            raise ProgramError(MALFORMED, "The exported program gives other results than asked.")

        def flat(*arguments: Any) -> tuple[Any, ...]:
            return tuple(jax.tree.leaves(program.call(*arguments)))

        return jax.jit(flat, out_shardings=self.result_shardings)


def run_laid_out(program: LaidOutProgram, samples: Sequence[Inputs]) -> ProgramRun:
    """Compile a program with its shardings, and run it.

    Args:
        program: the program.
        samples: one or several lists of inputs.

    Raises:
        ProgramError: see `run`.
    """
    return compile_and_run(program.function(), program.argument_shardings, samples, program.mesh)


def report_laid_out(
    program: LaidOutProgram, smaller: Sequence[LaidOutProgram], machine: str
) -> Report:
    """Compile a program that is too large to run, and report its costs in bfloat16.

    Args:
        program: the program at its real size.
        smaller: the same program at smaller sizes, at which it can be run.
        machine: the name of the machine to estimate times for.

    Raises:
        ProgramError: they are not the same program; or see `run`.
    """
    with override_mesh(program.mesh):
        lowered, module = lower(program.function(), program.structs)
        small_modules = [lower(small.function(), small.structs)[1] for small in smaller]
        sizes = [
            size
            for shapes in zip(program.shapes, *(small.shapes for small in smaller), strict=True)
            for size in zip(*shapes, strict=True)
        ]
        refuse_another_program([module, *small_modules], program.mesh, sizes)
        hide_sizes(module)
        compiled = compile_lowered(lowered)
        try:
            report = report_as_compiled(compiled, program.mesh, machine)
        except CommunicationError as error:
            raise ProgramError("fails", str(error)) from error
    return count_in_bfloat16(report, {})
