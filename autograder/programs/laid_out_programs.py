"""Run exported programs whose arguments a learner laid out; only compile large ones.

A large program is never run, so what it computes is known only because small ones were run, and
because they are the same program but for their sizes (`same_program.py` looks at that).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from autograder.programs.arguments import current
from autograder.programs.compile_and_report import CommunicationError, communication
from autograder.programs.hidden_sizes import hide_sizes
from autograder.programs.program_errors import ProgramError
from autograder.programs.report import Report
from autograder.programs.running import Inputs, Ran, compile_lowered, execute, load, lower
from autograder.programs.same_program import refuse_another_program
from autograder.programs.scaled_arguments import in_bfloat16


@dataclass(frozen=True)
class LaidOut:
    """An exported program, and how what it takes and gives is laid out.

    Attributes:
        artifact: what was exported; it may be forged.
        shapes: the shapes of its arguments, in elements; all are of float32.
        takes: the shardings of these.
        gives: the shardings of its results, which are moved there, if they are elsewhere.
    """

    artifact: bytes
    shapes: tuple[tuple[int, ...], ...]
    takes: tuple[jax.NamedSharding, ...]
    gives: tuple[jax.NamedSharding, ...]

    @property
    def mesh(self) -> jax.sharding.Mesh:
        """The mesh of them all."""
        mesh = self.takes[0].mesh
        assert isinstance(mesh, jax.sharding.Mesh)
        return mesh

    @property
    def structs(self) -> list[jax.ShapeDtypeStruct]:
        """Its arguments, without their data."""
        return [
            jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
            for shape, sharding in zip(self.shapes, self.takes, strict=True)
        ]

    def function(self) -> Any:
        """What it computes, with its results where they are to be.

        Raises:
            ProgramError: it is malformed, too large, or made for other arguments.
        """
        program = load(self.artifact, self.structs)
        if len(program.out_avals) != len(self.gives):
            raise ProgramError("malformed", "The exported program gives other results than asked.")

        def flat(*arguments: Any) -> tuple[Any, ...]:
            return tuple(jax.tree.leaves(program.call(*arguments)))

        return jax.jit(flat, out_shardings=self.gives)


def run_laid_out(program: LaidOut, draws: Sequence[Inputs]) -> Ran:
    """Compile a program here and run it.

    Raises:
        ProgramError: it is malformed, made for other arguments, calls out, or fails.
    """
    return execute(program.function(), program.takes, draws, program.mesh)


def report_laid_out(program: LaidOut, smaller: Sequence[LaidOut], machine: str) -> Report:
    """What a program takes that is too large to be run, its numbers counted as bfloat16.

    Args:
        program: the program.
        smaller: the same for smaller sizes, which can be run.
        machine: what to reckon seconds for, by its name.

    Raises:
        ProgramError: they are not the same program; or see `run_laid_out`.
    """
    with current(program.mesh):
        lowered, module = lower(program.function(), program.structs)
        beside = [lower(each.function(), each.structs)[1] for each in smaller]
        sizes = [
            size
            for shapes in zip(program.shapes, *(each.shapes for each in smaller), strict=True)
            for size in zip(*shapes, strict=True)
        ]
        refuse_another_program([module, *beside], program.mesh, sizes)
        hide_sizes(module)
        compiled = compile_lowered(lowered)
        try:
            report = communication(compiled, mesh=program.mesh, machine=machine)
        except CommunicationError as error:
            raise ProgramError("fails", str(error)) from error
    return in_bfloat16(report, {})
