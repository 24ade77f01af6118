"""The custom calls that a program may contain: two routines of LAPACK.

A routine is told by attributes how large its matrices are and where they lie, and believes it: a
call with operands of another size reads and writes memory that is not its own. So a call is taken
only where it is, to the letter, what JAX itself writes for those operands.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import product
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.lax import linalg

from autograder.programs.program_errors import ProgramError

WRITERS: Final[Mapping[str, tuple[Callable[..., Any], ...]]] = {
    "lapack_sgetrf_ffi": (linalg.lu,),
    "lapack_strsm_ffi": tuple(
        partial(
            linalg.triangular_solve,
            left_side=left,
            lower=lower,
            transpose_a=turned,
            unit_diagonal=unit,
        )
        for left, turned, lower, unit in product(
            (True, False), (False, True), (True, False), (True, False)
        )
    ),
}
"""The routines that an exercise needs, for `jnp.linalg.solve`, and what of JAX's writes calls."""

DEFAULTS: Final = {
    ("api_version", "1 : i32"),
    ("backend_config", '""'),
    ("called_computations", "[]"),
    ("has_side_effect", "false"),
}
"""What an exported program says where another leaves it unsaid."""


MATRICES: Final = re.compile(r"tensor<(?P<sizes>(\d{1,6}x){2,8})f32>")
"""The type of an operand as MLIR writes it: nobody chooses a name in it."""


class CustomCall(NamedTuple):
    """A custom call as it is written in StableHLO: two that are equal do the same."""

    target: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: frozenset[tuple[str, str]]


def refuse_custom_calls(module: Any) -> None:
    """Refuse a program that calls what it may not, or not as JAX would call it.

    Raises:
        ProgramError: it does.
    """
    for call in custom_calls(module):
        if call.target not in WRITERS:
            raise ProgramError(
                "custom-call",
                f"The program calls {call.target!r}, which is outside of what a program may call "
                f"here: it must compute its result with operations of jax.numpy and jax.lax. (Of "
                f"linear algebra, only jnp.linalg.solve is taken, in float32.)",
            )
        ways = range(len(WRITERS[call.target]))
        if call not in (_written(call.target, way, call.operands) for way in ways):
            raise ProgramError(
                "custom-call",
                f"The program calls {call.target!r}, and not as JAX would for such operands.",
            )


def custom_calls(module: Any) -> list[CustomCall]:
    """The custom calls in a StableHLO module, read from its operations."""
    from jax.extend.mlir import ir

    found: list[CustomCall] = []

    def visit(operation: Any) -> Any:
        if operation.name.endswith("custom_call"):
            found.append(_read(operation))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _read(operation: Any) -> CustomCall:
    from jax.extend.mlir import ir

    attributes = {
        (name, str(operation.attributes[name]))
        for name in map(_name, operation.attributes)
        if name != "call_target_name"
    }
    return CustomCall(
        ir.StringAttr(operation.attributes["call_target_name"]).value,
        tuple(str(operand.type) for operand in operation.operands),
        tuple(str(result.type) for result in operation.results),
        frozenset(attributes - DEFAULTS),
    )


def _name(attribute: Any) -> str:
    """An attribute's name; to go through a dictionary gives pairs on some versions only."""
    return str(getattr(attribute, "name", attribute))


@cache
def _written(target: str, way: int, operands: tuple[str, ...]) -> CustomCall | None:
    """What JAX writes for a routine on operands of these types; None where it does not call it.

    Where a program was exported elsewhere, this is also what has JAX look for the routine here: to
    call one that was never found kills the process.
    """
    matrices = [MATRICES.fullmatch(operand) for operand in operands]
    shapes = [tuple(map(int, re.findall(r"\d+", m["sizes"]))) for m in matrices if m is not None]
    try:
        lowered = jax.jit(WRITERS[target][way]).lower(
            *(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes)
        )
    except Exception:  # they come in many types, and all say that these are no such matrices
        return None
    calls = custom_calls(lowered.compiler_ir("stablehlo"))
    return next((call for call in calls if call.target == target), None)
