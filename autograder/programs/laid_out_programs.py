"""Run exported programs whose arguments a learner laid out; only compile large ones.

A large program is never run, so what it computes is known only because small ones were run, and
because they are the same program but for their sizes (`same_program.py` looks at that).

A compiler evaluates what rests on no argument: `jnp.ones(tokens).sum() > 500` becomes true or
false, and what the other choice would have needed is dropped, its collectives included. A program
that is compiled at a size at which it is never run could thus leave out there what it does where
its values are checked.

Such a number begins as a constant, as an iota, or as a whole number or truth value that is known
whatever the arguments are (`i == i`). So each of these goes through an `optimization_barrier`,
behind which a compiler knows nothing of it. A loop that counts from a constant to a constant still
sees these, or nobody would know how often it runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from autograder.programs import requested
from autograder.programs.arguments import current
from autograder.programs.compile_and_report import CommunicationError, communication
from autograder.programs.program_errors import ProgramError
from autograder.programs.report import Report
from autograder.programs.running import Inputs, Ran, compile_lowered, execute, load, lower
from autograder.programs.same_program import refuse_another_program
from autograder.programs.scaled_arguments import in_bfloat16

PARTS_OF_A_PROGRAM: Final = frozenset(
    {"builtin.module", "func.func", "sdy.manual_computation",
     "stablehlo.while", "stablehlo.case", "stablehlo.if"}
)  # fmt: skip
"""Operations whose regions hold more of the program, and not what is done to two numbers."""

PASS_ON: Final = PARTS_OF_A_PROGRAM | {"func.call", "stablehlo.composite"}
"""Operations whose results are made elsewhere in the program, and are hidden there."""


def hide_sizes(module: Any) -> None:
    """Put all that could tell a compiler a size behind an `optimization_barrier`.

    Args:
        module: a StableHLO module, which is changed.
    """
    operations = list(_operations(module.operation))
    counting = [
        use
        for operation in operations
        if operation.name == "stablehlo.while"
        for use in requested.counting(operation)
    ]
    for operation in operations:
        for value in _known(operation):
            _hide(value)
    for operation, place, value in counting:
        operation.operands[place] = value


def _operations(operation: Any) -> Iterator[Any]:
    """Yield an operation and all parts of the program in it."""
    yield operation
    if operation.name in PARTS_OF_A_PROGRAM:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield from _operations(inner.operation)


def _known(operation: Any) -> Iterator[Any]:
    """Yield the values of an operation that a compiler might know whatever the arguments are."""
    if operation.name == "stablehlo.while":
        for region in operation.regions:
            yield from (each for each in region.blocks[0].arguments if not _is_float(each))
    of_floats = operation.name in PASS_ON or any(map(_is_float, operation.operands))
    yield from (each for each in operation.results if not (of_floats and _is_float(each)))


def _is_float(value: Any) -> bool:
    """Whether a value is an array of floating-point numbers."""
    from jax.extend.mlir import ir

    try:
        element = str(ir.RankedTensorType(value.type).element_type)
    except ValueError:  # it is no array
        return False
    return element.startswith(("f", "bf"))


def _hide(value: Any) -> None:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    if isinstance(value.owner, ir.Block):
        place = ir.InsertionPoint.at_block_begin(value.owner)
    else:
        place = ir.InsertionPoint.after(value.owner)
    with value.context, ir.Location.unknown(), place:
        barrier: Any = stablehlo.optimization_barrier([value])
        hidden = getattr(barrier, "result", barrier)
    value.replace_all_uses_except(hidden, hidden.owner.operation)


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
