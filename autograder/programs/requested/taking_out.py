"""Take the requested collectives out, to see which ones the compiler adds by itself.

What is left in place of each is of the same shape and rests on the same numbers, and no device
learns of it from another. The values are wrong then; but each collective that the compiled program
still has is the compiler's own.
"""

from typing import Any

import jax

from autograder.programs.requested.collectives import occurrences
from autograder.programs.requested.scaling import multiplied


def take_out(module: Any, mesh: jax.sharding.Mesh) -> None:
    """Put something that every device can do alone in the place of each collective.

    Args:
        module: a StableHLO module, which is changed.
        mesh: what names the axes.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    for operation in dict.fromkeys(operation for operation, _ in occurrences(module, mesh)):
        with module.context, ir.Location.unknown(), ir.InsertionPoint(operation):
            for operand, result in zip(operation.operands, operation.results, strict=True):
                # Behind a barrier nothing is worked out while compiling: else what a constant
                # becomes here could decide that the compiler's own collectives are left out, too.
                made = stablehlo.optimization_barrier([alone(multiplied(operand), result)])
                result.replace_all_uses_with(getattr(made, "result", made))
        operation.erase()


def alone(operand: Any, result: Any) -> Any:
    """A value of the result's shape, made of the operand where both are."""
    from jax.extend.mlir.dialects import stablehlo

    for d, wanted in enumerate(_shape(result)):
        shape = _shape(operand)
        if wanted > shape[d]:  # an all-gather, and one half of an all-to-all
            operand = stablehlo.concatenate([operand] * (wanted // shape[d]), d)
        elif wanted < shape[d]:  # a reduce-scatter, and the other half
            shape[d] = wanted
            operand = stablehlo.slice(operand, [0] * len(shape), shape, [1] * len(shape))
    return operand


def _shape(value: Any) -> list[int]:
    from jax.extend.mlir import ir

    return list(ir.RankedTensorType(value.type).shape)
