"""Find out what a program does inside `shard_map`, and what outside of it.

A program can have a `shard_map` that does nothing, and leave its work to be cut up by the compiler.
So the work is counted that stands outside of every body: two operations for each pair of numbers
that a product multiplies and adds, one for each number that anything else gives or takes. What is
made of no argument is not counted: it is the same in every run, such as a table of wave numbers,
and could as well have been written down.
"""

import math
from typing import Any, Final

from autograder.programs.requested.collectives import kind_of, live_operations
from autograder.programs.requested.liveness import Liveness

MOVES: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert", "broadcast", "broadcast_in_dim", "concatenate", "constant", "convert",
        "dynamic_slice", "dynamic_update_slice", "gather", "iota", "optimization_barrier", "pad",
        "reshape", "reverse", "slice", "transpose",
        # and what only stands around others
        "case", "composite", "if", "return", "while",
    )
)  # fmt: skip
"""Operations that bring numbers elsewhere, and compute none."""

UNCOUNTED: Final = frozenset(
    f"stablehlo.{name}"
    for name in ("cholesky", "convolution", "custom_call", "dot", "fft", "sort", "triangular_solve")
)
"""Operations that do more work than their shapes tell."""


def is_mapped(module: Any) -> bool:
    """Whether a part of the module is written for one device, as `shard_map` has it."""
    return any(each.operation.name == "sdy.manual_computation" for each in live_operations(module))


def work_outside(module: Any) -> float:
    """The operations on its arguments that a module does outside of what is for one device.

    Returns:
        Their number; infinity where it cannot be known.
    """
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    arguments = symbols["main"].operation.regions[0].blocks[0].arguments
    made = Liveness(symbols).rest_on(arguments)
    total = 0.0
    for each in live_operations(module):
        given = any(result in made for result in each.operation.results)
        work = 0.0 if each.of_one or not given else _operations(each.operation)
        if work:
            total += math.inf if each.times is None else work * each.times
    return total


def _operations(operation: Any) -> float:
    """The operations of one instruction, without those of the regions that it has."""
    dialect, _, name = operation.name.partition(".")
    if dialect not in ("stablehlo", "chlo") or operation.name in MOVES:
        return 0.0
    if operation.name in UNCOUNTED or kind_of(operation):
        return math.inf if operation.name in UNCOUNTED else 0.0
    given = float(sum(_size(result) for result in operation.results))
    if name == "dot_general":
        return 2.0 * given * _added_up(operation)
    if name == "reduce_window":
        return given * float(math.prod(operation.attributes["window_dimensions"]))
    if name == "scatter":  # what it puts there, if it does more than to put it there
        inside = operation.regions[0].blocks[0].operations
        return 0.0 if len(inside) == 1 else float(_size(operation.operands[2]))
    taken = float(sum(_size(operand) for operand in operation.operands))
    return max(given, taken) if operation.regions else given


def _added_up(product: Any) -> int:
    """Over how many pairs of numbers a product adds up for each of its results."""
    from jax.extend.mlir.dialects import stablehlo

    numbers: Any = stablehlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    shape = _shape(product.operands[0])
    return math.prod(shape[d] for d in numbers.lhs_contracting_dimensions)


def _size(value: Any) -> int:
    return math.prod(_shape(value))


def _shape(value: Any) -> list[int]:
    from jax.extend.mlir import ir

    return list(ir.RankedTensorType(value.type).shape)
