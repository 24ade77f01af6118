"""Find the arrays that a function closes over, which JAX makes constants of its program.

A constant has no sharding, whatever sharding the array has: every device holds all of it, and does
all of the work on it.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp

from shardlings.errors import is_own_file
from shardlings.layouts import spec_entries
from shardlings.programs.code_lines import is_library
from shardlings.programs.collective import Frame
from shardlings.programs.compiled import Array, CompiledProgram, Instruction

LARGE_BYTES: Final = 2**20
"""An array that is on one device, or on all, is worth a sentence from this size on."""


@dataclass(frozen=True)
class ClosedOver:
    """An array that a function closes over.

    Attributes:
        dtype: the name of its type.
        bytes: its size, all of which each device holds.
        axes: the mesh axes over which it is sharded outside of the program.
        where: the first line of the function that uses it; None if unknown.
    """

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    axes: tuple[str, ...]
    where: Frame | None


def find_closed_over(jaxpr: Any, program: CompiledProgram) -> list[ClosedOver]:
    """Return the arrays that a function closes over, if they are sharded or large.

    An array that the compiler needs only in part, or not at all, is left out.

    Args:
        jaxpr: the function's closed jaxpr, as `jax.jit(f).trace(x).jaxpr` is.
        program: the compiled function.
    """
    largest = max(_constant_sizes(program), default=0)
    closed_over: dict[int, ClosedOver] = {}
    for array, where in _constants(jaxpr):
        size = math.prod(array.shape) * array.dtype.itemsize
        axes = _axes_of(array)
        if size <= largest and (axes or size >= LARGE_BYTES) and id(array) not in closed_over:
            closed_over[id(array)] = ClosedOver(array.shape, str(array.dtype), size, axes, where)
    return list(closed_over.values())


def count_constant_bytes(program: CompiledProgram) -> int:
    """Return the bytes of a compiled program's constants, of which each device has a copy."""
    return sum(_constant_sizes(program))


def find_constants(program: CompiledProgram) -> list[Array]:
    """Return the type and the shape of each array among a compiled program's constants."""
    return [array for step in _constant_steps(program) for array in step.arrays]


def _constant_sizes(program: CompiledProgram) -> list[int]:
    return [sum(step.array_bytes) for step in _constant_steps(program)]


def _constant_steps(program: CompiledProgram) -> Collection[Instruction]:
    """Return the instructions of different constants."""
    constants = {
        (step.arrays, step.other_fields): step
        for computation in program.computations.values()
        for step in computation.values()
        if step.opcode == "constant"
    }
    return constants.values()


def _constants(closed: Any) -> Iterator[tuple[Any, Frame | None]]:
    """Yield the arrays among a closed jaxpr's constants, and where they are first used."""
    jaxpr = closed.jaxpr
    for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
        if not jnp.issubdtype(value.dtype, jax.dtypes.extended):  # a key is no array of numbers
            users = (each for each in jaxpr.eqns if any(v is variable for v in each.invars))
            yield value, next(map(_find_line, users), None)
    for equation in jaxpr.eqns:
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                if hasattr(inner, "jaxpr") and hasattr(inner, "consts"):
                    yield from _constants(inner)


def _find_line(equation: Any) -> Frame | None:
    """Return the innermost line of an equation that is neither ours nor a library's."""
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        line = Frame(frame.file_name, frame.line_num, frame.function_name)
        if not is_own_file(line.file) and not is_library(line):
            return line
    return None


def _axes_of(array: Any) -> tuple[str, ...]:
    """Return the mesh axes over which an array is sharded; none for one of NumPy's."""
    sharding = getattr(array, "sharding", None)
    spec = getattr(sharding, "spec", None)
    if sharding is None or spec is None or sharding.is_fully_replicated:
        return ()
    return tuple(
        axis
        for entry in spec_entries(spec)
        for axis in (entry if isinstance(entry, tuple) else (entry,))
        if isinstance(axis, str)
    )
