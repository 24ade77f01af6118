"""Count a program's work outside of `shard_map`.

A program can have a `shard_map` that does nothing, and leave its work to the compiler. So the
operations outside of every `shard_map` are counted: two for each pair of numbers that a matmul
multiplies and adds, and one for each number that anything else takes or returns. Operations that
depend on no argument do not count: their results are the same in every run, such as a table of wave
numbers, and could as well be constants.
"""

import math
from typing import Any, Final

from shardlings.programs.requested.live_operations import (
    Liveness,
    collective_kind,
    live_operations,
    shape_of,
)

MOVES: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert", "broadcast", "broadcast_in_dim", "concatenate", "constant", "convert",
        "dynamic_slice", "dynamic_update_slice", "gather", "iota", "optimization_barrier", "pad",
        "reshape", "reverse", "slice", "transpose",
        # and those that only contain others
        "case", "composite", "if", "return", "while",
    )
)  # fmt: skip
"""Operations that only move numbers."""

UNCOUNTED: Final = frozenset(
    f"stablehlo.{name}"
    for name in ("cholesky", "convolution", "custom_call", "dot", "fft", "sort", "triangular_solve")
)
"""Operations that do more work than their shapes tell."""


def has_shard_map(module: Any) -> bool:
    """Check whether a result depends on a `shard_map`."""
    return any(live.operation.name == "sdy.manual_computation" for live in live_operations(module))


def count_flops_outside_shard_map(module: Any) -> float:
    """Count the operations on a module's arguments that are outside of every `shard_map`.

    Returns:
        Their number; infinity where it cannot be known.
    """
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    arguments = symbols["main"].operation.regions[0].blocks[0].arguments
    made_of_arguments = Liveness(symbols).dependents(arguments)
    total = 0.0
    for live in live_operations(module):
        counts = any(result in made_of_arguments for result in live.operation.results)
        work = 0.0 if live.is_per_device or not counts else _count_operations(live.operation)
        if work:
            total += math.inf if live.times is None else work * live.times
    return total


def _count_operations(operation: Any) -> float:
    """Count what one operation does, without the operations in its regions."""
    dialect, _, name = operation.name.partition(".")
    if dialect not in ("stablehlo", "chlo") or operation.name in MOVES:
        return 0.0
    if operation.name in UNCOUNTED or collective_kind(operation):
        return math.inf if operation.name in UNCOUNTED else 0.0
    output_size = float(sum(_size(result) for result in operation.results))
    if name == "dot_general":
        return 2.0 * output_size * _contracted_size(operation)
    if name == "reduce_window":
        return output_size * float(math.prod(operation.attributes["window_dimensions"]))
    if name == "scatter":  # a region of one operation only returns the new number
        combine = operation.regions[0].blocks[0].operations
        return 0.0 if len(combine) == 1 else float(_size(operation.operands[2]))
    input_size = float(sum(_size(operand) for operand in operation.operands))
    return max(output_size, input_size) if operation.regions else output_size


def _contracted_size(matmul: Any) -> int:
    """Return how many products are added up for each number of a matmul's result."""
    from jax.extend.mlir.dialects import stablehlo

    numbers: Any = stablehlo.DotDimensionNumbers(matmul.attributes["dot_dimension_numbers"])
    shape = shape_of(matmul.operands[0])
    return math.prod(shape[d] for d in numbers.lhs_contracting_dimensions)


def _size(value: Any) -> int:
    return math.prod(shape_of(value))
