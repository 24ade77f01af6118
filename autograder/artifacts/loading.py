"""Load programs that were exported in another process, and tell the same ones from others.

An exported program is StableHLO: data, not Python. Loading one runs none of its author's code.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts.arguments import Argument
from autograder.artifacts.program_checks import MALFORMED, ProgramError, refuse_unknown_operations

MAX_ARTIFACT_BYTES: Final = 1 << 20
"""An exported exercise takes a few kilobytes; a much larger one contains its results."""


def load(artifact: bytes, arguments: Sequence[Argument | jax.ShapeDtypeStruct]) -> Any:
    """Load an exported program, which may be forged, and check that it takes these arguments.

    Raises:
        ProgramError: it is malformed, too large, or was exported for other arguments.
    """
    program, parameters = _load(artifact)
    if parameters != [(a.shape, np.dtype(a.dtype)) for a in arguments]:
        raise ProgramError(
            "arguments", "The program was exported for other arguments than those of the exercise."
        )
    return program


def _load(artifact: bytes) -> tuple[Any, list[tuple[tuple[int | None, ...], Any]]]:
    """Load an exported program; return it with the shape and dtype of each of its parameters.

    A symbolic size is returned as None, because symbols cannot be compared with all integers.
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
    except Exception as error:  # flatbuffers and MLIR raise any type for malformed bytes
        raise ProgramError(MALFORMED, "The exported program cannot be read.") from error


NOT_FINGERPRINTED: Final = ("fun_name", "mlir_module_serialized", "_get_vjp")
"""The fields of an exported program that have names, lines of code, and no more than that."""


def fingerprint_program(artifact: bytes) -> str:
    """Return a hash of what an exported program does: two with other names and lines have the same.

    Raises:
        ProgramError: it is malformed, too large, or contains what JAX does not write.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy, stablehlo

    program, _ = _load(artifact)
    interface = [(f.name, repr(getattr(program, f.name))) for f in fields(program)
                 if f.name not in NOT_FINGERPRINTED]  # fmt: skip
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        sdy.register_dialect(context)
        try:
            parsed = stablehlo.deserialize_portable_artifact(
                context, program.mlir_module_serialized
            )
        except Exception as error:  # MLIR raises any type for malformed bytes
            raise ProgramError(MALFORMED, "The exported program cannot be read.") from error
        refuse_unknown_operations(parsed)  # attributes of exponential size would never be written
        module = parsed.operation
        module.attributes["sym_name"] = ir.StringAttr.get("program")  # in place of the function's
        text = module.get_asm(enable_debug_info=False)
    return hashlib.sha256(repr((interface, text)).encode()).hexdigest()
