"""Run exported functions: compile and run here what was exported in another process.

An exported program is StableHLO: data, not Python. Loading one runs nothing of its author's, and
what it may do when it runs is limited to StableHLO's own operations and an allow-list of custom
calls; a call back into Python is not on the list.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from autograder.errors import SAYS, first_line
from autograder.programs import requested
from autograder.programs.arguments import Argument, current, finely_placed, mesh_of, placed
from autograder.programs.collective import Collective
from autograder.programs.compile_and_report import communication
from autograder.programs.compiled import has_transform_in_other_order
from autograder.programs.program_errors import (
    TRANSFORM_IN_OTHER_ORDER,
    ProgramError,
    refuse_unreduced,
)
from autograder.programs.report import Report
from autograder.programs.same_program import coarser_types
from autograder.programs.understood import refuse_custom_calls, refuse_what_is_not_understood

Inputs = Sequence[np.ndarray]
Change = Callable[[Any, jax.sharding.Mesh], None]

MAX_ARTIFACT_BYTES: Final = 1 << 20
"""An exported exercise takes a few kilobytes; what is much larger carries its answer in it."""


@dataclass(frozen=True)
class Ran:
    """What an exported program did when it was compiled and run here.

    Attributes:
        outputs: what it returned for each draw of its inputs, flattened.
        container: the type that it returned them in, such as `tuple`; empty for one array alone.
        report: what it communicates, and what it takes on each device.
        requested: the collectives that it asks for by hand.
        mapped: whether there is a `shard_map` in it.
        constrained: whether its result rests on a sharding constraint.
        replicated: for each constraint that replicates a value and that the result rests on, the
            numbers of the arguments that the value is made of.
        other_meshes: the meshes, in words, of constraints on another mesh than the arguments'.
        outside: the operations that it does outside of a `shard_map`; infinity if unknown.
        sure_to_end: whether its loops end whatever numbers they are given; one that does not must
            not be run with others than its own.
        coarser_types: the types of floating-point numbers of less than 32 bits in it.
    """

    outputs: tuple[list[jax.Array], ...]
    container: str
    report: Report
    requested: tuple[Collective, ...]
    mapped: bool
    constrained: bool
    replicated: tuple[frozenset[int], ...]
    other_meshes: tuple[str, ...]
    outside: float
    sure_to_end: bool
    coarser_types: tuple[str, ...]


def run(
    artifact: bytes,
    arguments: Sequence[Argument],
    draws: Sequence[Inputs],
    change: Change | None = None,
) -> Ran:
    """Compile an exported program here and run it.

    Args:
        artifact: what `export` made; it may be forged, and is checked first.
        arguments: what the exercise gives the program.
        draws: their values, once or several times.
        change: what is to be done to its StableHLO before it is compiled.

    Raises:
        ProgramError: it is malformed, too large, made for other arguments, calls out, or fails.
    """
    program = load(artifact, arguments)
    mesh = mesh_of(arguments[0])
    try:
        return execute(program.call, [placed(a) for a in arguments], draws, mesh, change)
    except ProgramError as refused:
        if refused.diagnosis != "fails":
            raise
        # JAX describes the result's layout by the arguments' mesh, and not every layout can be
        # described so: blocks of 2 by 4 have no name on a mesh of 4 by 2. (A constraint on a mesh
        # of its own is how it comes about; where the function itself is run, JAX looks there.)
        with suppress(ProgramError):
            return execute(program.call, [finely_placed(a) for a in arguments], draws, mesh, change)
        raise


def execute(
    function: Callable[..., Any],
    shardings: Sequence[jax.sharding.Sharding],
    draws: Sequence[Inputs],
    mesh: jax.sharding.Mesh,
    change: Change | None = None,
) -> Ran:
    """Compile a function for arrays as they are laid out, and run it.

    Args:
        function: what to run: an exported program's `call`, or a function of an exercise, of which
            it is known that it compiles where its arguments are laid out well.
        shardings: how its arguments are laid out.
        draws: their values, once or several times.
        mesh: what to name axes by.
        change: what is to be done to its StableHLO, in which axes are named by the mesh.

    Raises:
        ProgramError: it calls out, or fails.
    """
    laid_out = [list(zip(inputs, shardings, strict=True)) for inputs in draws]
    with current(mesh):
        with _refused():
            values = [[jax.device_put(v, s) for v, s in pairs] for pairs in laid_out]
        lowered, module = lower(function, values[0])
        if change is not None:
            change(module, mesh)
        mapped = requested.is_mapped(module)
        compiled = compile_lowered(lowered, mapped)
        if has_transform_in_other_order(compiled.runtime_executable()):
            raise ProgramError(*TRANSFORM_IN_OTHER_ORDER, mapped)
        with _refused(mapped):
            outputs = tuple(jax.tree.leaves(jax.block_until_ready(compiled(*v))) for v in values)
        refuse_unreduced(outputs[0])
        report = communication(compiled, mesh=mesh)
        by_hand = tuple(requested.read(module, mesh))
        return Ran(
            outputs,
            container_of(lowered.out_tree),
            report,
            by_hand,
            mapped,
            requested.is_constrained(module),
            requested.replicated_values(module),
            tuple(requested.other_meshes(module, mesh)),
            requested.work_outside(module),
            requested.is_sure_to_end(module),
            coarser_types(module),
        )


def container_of(structure: Any) -> str:
    """The type of the outermost container of a tree's structure; empty where it is one leaf."""
    about = structure.node_data()
    return "" if about is None else str(about[0].__name__)


def lower(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
    """A function, lowered for its arguments, and its StableHLO, of which all is understood.

    Raises:
        ProgramError: JAX refuses it, or it calls out.
    """
    with _refused():
        jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
        lowered = jitted.lower(*arguments)
    module = lowered.compiler_ir("stablehlo")
    refuse_what_is_not_understood(module)
    refuse_custom_calls(module)
    return lowered, module


def compile_lowered(lowered: Any, mapped: bool = True) -> jax.stages.Compiled:
    """Compile a lowered program.

    Args:
        lowered: the program.
        mapped: whether there is a `shard_map` in it, as far as is known.

    Raises:
        ProgramError: the compiler refuses it.
    """
    with _refused(mapped):
        compiled: jax.stages.Compiled = lowered.compile()
    return compiled


@contextmanager
def _refused(mapped: bool = True) -> Iterator[None]:
    """A place in which nothing but JAX is at work on a program, so that its errors are refusals.

    Nothing else is to be done there: an error in what is ours would be told as one of the program.

    Args:
        mapped: whether there is a `shard_map` in the program, as far as is known.
    """
    try:
        yield
    except Exception as error:  # they come in many types
        raise ProgramError(
            "fails", f"JAX refuses the program. {SAYS}{first_line(error)}.", mapped
        ) from error


def load(artifact: bytes, arguments: Sequence[Argument | jax.ShapeDtypeStruct]) -> Any:
    """An exported program, which may be forged, and takes such arguments.

    Raises:
        ProgramError: it is malformed, too large, or made for other arguments.
    """
    program, takes = _load(artifact)
    if takes != [(a.shape, np.dtype(a.dtype)) for a in arguments]:
        raise ProgramError(
            "arguments", "The program was exported for other arguments than those of the exercise."
        )
    return program


def _load(artifact: bytes) -> tuple[Any, list[tuple[tuple[int | None, ...], Any]]]:
    """An exported program, and the shape and dtype of each argument that it says it takes.

    Where a size is a symbol it is None, for symbols cannot be compared with every number.
    """
    from jax import export as jax_export

    if len(artifact) > MAX_ARTIFACT_BYTES:
        raise ProgramError(
            "too-large",
            f"The exported program takes {len(artifact):,} bytes; at most {MAX_ARTIFACT_BYTES:,} "
            f"are taken. Arrays from outside the function are part of it: pass them as arguments.",
        )
    try:
        program = jax_export.deserialize(bytearray(artifact))
        return program, [
            (tuple(size if isinstance(size, int) else None for size in aval.shape), aval.dtype)
            for aval in program.in_avals
        ]
    except Exception as error:  # flatbuffers and MLIR raise what they like on malformed bytes
        raise ProgramError("malformed", "The exported program cannot be read.") from error
