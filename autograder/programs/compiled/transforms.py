"""Fourier transforms that XLA compiles for a CPU and then cannot run.

XLA's transform on a CPU reads and writes arrays in row-major order alone. Its compiler may choose
another order for the result of a transform, for instance because an all-gather along another
dimension than the first wants it. Such a program compiles, and fails when it runs: each device
prints a stack trace, and the error is `RET_CHECK failure … IsMonotonicWithDim0Major`.
"""

from collections.abc import Iterable
from typing import Any, Final

from autograder.programs.compiled.module_proto import decoded

OPCODE: Final = b"fft"


def has_transform_in_other_order(executable: Any) -> bool:
    """Whether a compiled program has a transform of which an array is not in row-major order.

    Args:
        executable: what `compiled.runtime_executable()` gives.
    """
    for each in executable.hlo_modules():
        serialised = each.as_serialized_hlo_module_proto()
        if OPCODE not in serialised:
            continue  # most programs have none
        for computation in decoded(serialised).computations:
            if _transforms_in_other_order(computation.instructions):
                return True
    return False


def _transforms_in_other_order(instructions: Iterable[Any]) -> bool:
    shapes = {each.id: each.shape for each in instructions}
    return any(
        not _is_row_major(shape)
        for each in instructions
        if each.opcode == OPCODE
        for shape in (each.shape, *(shapes[number] for number in each.operand_ids))
    )


def _is_row_major(shape: Any) -> bool:
    order = list(shape.layout.minor_to_major)
    return order == sorted(order, reverse=True)
