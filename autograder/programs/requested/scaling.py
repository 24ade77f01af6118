"""Change the requested collectives, to see what rests on them and what a compiler adds.

A program can ask for a collective and add what comes of it, being zeros, to a result that it has
without. Such a result stays as it is when all that goes into the collective is multiplied. So does
one that rests on the ratio of two sums, if both are multiplied alike: so each collective, and each
second number in it, is multiplied by another factor.

They can be taken out, too. What is left in place of each is of the same shape and rests on the same
numbers, and no device learns of it from another. The values are wrong then; but each collective
that the compiled program still has is the compiler's own.
"""

from collections.abc import Sequence
from typing import Any, Final

import jax

from autograder.programs.requested.collectives import occurrences

FACTOR: Final = 3
"""What is multiplied by: small enough for any type of number, and no power of two."""

FACTORS: Final = 3
"""How many odd factors there are, for collectives that stand one after the other."""


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


def scale(module: Any, mesh: jax.sharding.Mesh, kind: str, axes: Sequence[str] | None) -> None:
    """Multiply what goes into those collectives that a program asks for by hand.

    Args:
        module: a StableHLO module, which is changed.
        mesh: what names the axes.
        kind: the canonical kind of the collectives.
        axes: the mesh axes that they run over; None for any.
    """
    from jax.extend.mlir import ir

    found = [
        operation
        for operation, collective in occurrences(module, mesh)
        if collective.kind == kind and axes in (None, collective.axes)
    ]
    for number, operation in enumerate(dict.fromkeys(found)):
        with module.context, ir.Location.unknown(), ir.InsertionPoint(operation):
            for place, operand in enumerate(operation.operands):
                operation.operands[place] = multiplied(operand, FACTOR + 2 * (number % FACTORS))


def multiplied(value: Any, factor: int = FACTOR) -> Any:
    """A value times a factor, where operations are being written, each second number twice more.

    Of a truth, the other one.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    element = ir.RankedTensorType(value.type).element_type
    if str(element) == "i1":
        return stablehlo.not_(value)
    if isinstance(element, ir.ComplexType):
        parts = (stablehlo.real(value), stablehlo.imag(value))
        return stablehlo.complex(*(multiplied(part, factor) for part in parts))

    def everywhere(number: int) -> Any:
        whole = isinstance(element, ir.IntegerType)
        made = (ir.IntegerAttr if whole else ir.FloatAttr).get(element, number)
        return stablehlo.constant(ir.DenseElementsAttr.get_splat(value.type, made))

    made = stablehlo.multiply(value, everywhere(factor))
    rank = ir.RankedTensorType(value.type).rank
    if not rank:
        return made
    place = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), rank - 1)
    odd = stablehlo.remainder(stablehlo.iota(value.type, place), everywhere(2))
    return stablehlo.add(made, stablehlo.multiply(value, stablehlo.add(odd, odd)))
