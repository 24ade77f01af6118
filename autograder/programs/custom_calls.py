"""What a program may call that is no operation of StableHLO's own."""

from functools import cache
from typing import Any, Final

import jax
import numpy as np

from autograder.programs.program_errors import ProgramError

ALLOWED_CUSTOM_CALLS: Final = frozenset(
    {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "shape_assertion",
        "cu_threefry2x32",
        "cu_threefry2x32_ffi",
        "cpu_threefry2x32",
        "mhlo.topk",
        "stablehlo.dynamic_top_k",
        "lapack_sgetrf_ffi",
        "lapack_dgetrf_ffi",
        "lapack_strsm_ffi",
        "lapack_dtrsm_ffi",
        "lapack_spotrf_ffi",
        "lapack_dpotrf_ffi",
        "lapack_sgeqrf_ffi",
        "lapack_dgeqrf_ffi",
        "lapack_sorgqr_ffi",
        "lapack_dorgqr_ffi",
        "lapack_ssyevd_ffi",
        "lapack_dsyevd_ffi",
        "lapack_sgesdd_ffi",
        "lapack_dgesdd_ffi",
    }
)
"""Custom calls that JAX's own functions make and that reach nothing outside the program."""


def refuse_custom_calls(module: Any) -> None:
    """Refuse a program that calls what it may not.

    Raises:
        ProgramError: it does.
    """
    strange = custom_calls(module) - ALLOWED_CUSTOM_CALLS
    if strange:
        raise ProgramError(
            "custom-call",
            f"The program calls {min(strange)!r}, which is outside of what a program may call "
            f"here: it must compute its result with JAX's own operations.",
        )


def custom_calls(module: Any) -> set[str]:
    """The targets of the custom calls in a StableHLO module, read from its operations."""
    from jax.extend.mlir import ir

    targets: set[str] = set()

    def visit(operation: Any) -> Any:
        if operation.name.endswith("custom_call"):
            targets.add(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return targets


@cache
def prepare_linear_algebra() -> None:
    """Have JAX find LAPACK, which it does when a program that needs it is lowered here.

    One that was exported elsewhere is not, and to call what was never found kills the process.
    """
    jax.jit(jax.numpy.linalg.inv).lower(jax.ShapeDtypeStruct((1, 1), np.float32))
