"""Scaling: what a collective takes, made larger, to see whether the result rests on it.

A program can ask for a collective and add what comes of it, being zeros, to a result that it has
without. Such a result stays as it is when all that goes into the collective is multiplied.
"""

from collections.abc import Sequence
from typing import Any, Final

import jax

from autograder.programs.requested.collectives import occurrences

FACTOR: Final = 3
"""What is multiplied by: small enough for any type of number, and no power of two."""


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
    for operation in dict.fromkeys(found):
        with module.context, ir.Location.unknown(), ir.InsertionPoint(operation):
            for place, operand in enumerate(operation.operands):
                operation.operands[place] = multiplied(operand)


def multiplied(value: Any) -> Any:
    """A value times FACTOR, where operations are being written; of a truth, the other one."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    element = ir.RankedTensorType(value.type).element_type
    if str(element) == "i1":
        return stablehlo.not_(value)
    if isinstance(element, ir.ComplexType):
        parts = (stablehlo.real(value), stablehlo.imag(value))
        return stablehlo.complex(*map(multiplied, parts))
    whole = isinstance(element, ir.IntegerType)
    number = (ir.IntegerAttr if whole else ir.FloatAttr).get(element, FACTOR)
    splat = ir.DenseElementsAttr.get_splat(value.type, number)
    return stablehlo.multiply(value, stablehlo.constant(splat))
