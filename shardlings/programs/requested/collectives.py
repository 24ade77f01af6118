"""Read, scale and take out the collectives that a program requests, before any compiler.

They are read from the operations of a StableHLO module, such as an exported program contains. What
the compiler adds to make layouts fit is not among them; collectives that it would merge still are.
Only collectives that a result depends on count.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from shardlings.collective_kinds import CollectiveKind
from shardlings.programs.collective import Collective, Groups, groups_along, name_axes
from shardlings.programs.requested.live_operations import (
    LiveOperation,
    collective_kind,
    live_operations,
    shape_of,
)

FACTOR: Final = 3
"""The factor for data: small enough for any type of number, and no power of two."""

FACTORS: Final = 3
"""The number of different factors for several collectives; all of them are odd."""


def read_collectives(module: Any, mesh: jax.sharding.Mesh) -> list[Collective]:
    """Return the collectives that a StableHLO module requests, in order.

    Args:
        module: the module, with a public function `main`.
        mesh: the mesh that names the axes; its devices, in order, are the program's partitions.
    """
    return [collective for _, collective in read_with_operations(module, mesh)]


def read_with_operations(module: Any, mesh: jax.sharding.Mesh) -> list[tuple[Any, Collective]]:
    """Return each collective that a module requests, after the operation that requests it."""
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    device_ids = [device.id for device in mesh.devices.flat]
    return [
        (live.operation, name_axes(_read_collective(live, kind, symbols), mesh, device_ids))
        for live in live_operations(module)
        if (kind := collective_kind(live.operation))
    ]


def _read_collective(live: LiveOperation, kind: CollectiveKind, symbols: Any) -> Collective:
    attributes, operands = live.operation.attributes, list(live.operation.operands)
    if kind is CollectiveKind.RAGGED_ALL_TO_ALL:  # its other operands say where pieces begin
        attributes, operands = attributes["backend_config"], operands[:1]
    groups = attributes["source_target_pairs" if kind.has_pairs else "replica_groups"]
    return Collective(
        kind,
        (),
        _read_groups(groups, symbols),
        sum(_bytes(operand.type) for operand in operands),
        sum(_bytes(result.type) for result in live.operation.results),
        live.times,
        live.is_conditional,
        dtypes=tuple(_element_type(operand.type) for operand in operands),
    )


def _element_type(tensor_type: Any) -> str:
    from jax.extend.mlir import ir

    return str(ir.RankedTensorType(tensor_type).element_type)


def _bytes(tensor_type: Any) -> int:
    from jax.extend.mlir import ir

    tensor: Any = ir.RankedTensorType(tensor_type)
    element, parts = tensor.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    width = int(element.width)
    bits = 8 if width == 1 else width  # a bool has a byte; two 4-bit integers share one
    return -(-int(math.prod(tensor.shape)) * parts * bits // 8)


def _read_groups(attribute: Any, symbols: Any) -> Groups:
    """Read the groups of partitions of a collective; the pairs of a permutation.

    They are a table of partition numbers or, from JAX 0.12 on, axes of a mesh.

    Args:
        attribute: the collective's `replica_groups` or `source_target_pairs`.
        symbols: the module's symbol table, which may declare the mesh.

    Raises:
        ValueError: the attribute is in neither form, or names a part of an axis.
    """
    from jax.extend.mlir import ir

    if isinstance(attribute, ir.DenseIntElementsAttr):
        # a group that is shorter than the others is padded with -1
        return tuple(tuple(int(i) for i in group if i >= 0) for group in np.array(attribute))
    from jax.extend.mlir.dialects import stablehlo

    mesh_axes: Any = stablehlo.ReplicaGroupMeshAxesAttr(attribute)
    names, partitions = read_mesh(mesh_axes.mesh, symbols)
    dimensions = []
    for axis in map(stablehlo.AxisRefAttr, mesh_axes.axes):
        if axis.sub_axis_info is not None:  # nothing that JAX offers requests a part of an axis
            raise ValueError(f"A collective runs along a part of the axis {axis.name!r}.")
        dimensions.append(names.index(axis.name))
    return groups_along(partitions, dimensions)


def read_mesh(attribute: Any, symbols: Any) -> tuple[list[str], np.ndarray]:
    """Return the names of a mesh's axes, and the partition number at each of its places.

    Args:
        attribute: a mesh of the dialect `sdy` or `stablehlo`, or the name of one.
        symbols: the module's symbol table, which may declare the mesh.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy, stablehlo

    if isinstance(attribute, ir.FlatSymbolRefAttr):
        attribute = sdy.MeshAttr(symbols[attribute.value].attributes["mesh"])
    if isinstance(attribute, sdy.MeshAttr):
        mesh: Any = attribute
        axes: list[Any] = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
        ids = list(mesh.device_ids)
    else:
        mesh = stablehlo.MeshAttr(attribute)
        axes = [stablehlo.MeshAxisAttr(axis) for axis in mesh.axes]
        ids = [] if mesh.device_ids is None else np.array(mesh.device_ids).tolist()
    shape = [axis.size for axis in axes]
    partitions = np.array(ids or range(math.prod(shape))).reshape(shape)
    return [axis.name for axis in axes], partitions


def remove_collectives(module: Any, mesh: jax.sharding.Mesh) -> None:
    """Replace each requested collective by something that every device can compute alone.

    What replaces it has the same shape and depends on the same numbers. The values are wrong then,
    but every collective that the compiled program still has was added by the compiler.

    Args:
        module: a StableHLO module, which is changed.
        mesh: the mesh that names the axes.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    operations = [operation for operation, _ in read_with_operations(module, mesh)]
    for operation in dict.fromkeys(operations):
        with module.context, ir.Location.unknown(), ir.InsertionPoint(operation):
            for operand, result in zip(operation.operands, operation.results, strict=True):
                # The barrier keeps the compiler from evaluating constants here. Their values could
                # otherwise let it drop its own collectives, too.
                local = stablehlo.optimization_barrier([_reshape(_multiply(operand), result)])
                result.replace_all_uses_with(getattr(local, "result", local))
        operation.erase()


def _reshape(operand: Any, result: Any) -> Any:
    """Repeat or slice an operand along each dimension, so that it has the result's shape."""
    from jax.extend.mlir.dialects import stablehlo

    for d, size in enumerate(shape_of(result)):
        shape = shape_of(operand)
        if size > shape[d]:  # an all-gather, and one dimension of an all-to-all
            operand = stablehlo.concatenate([operand] * (size // shape[d]), d)
        elif size < shape[d]:  # a reduce-scatter, and the other dimension
            shape[d] = size
            operand = stablehlo.slice(operand, [0] * len(shape), shape, [1] * len(shape))
    return operand


def scale_collectives(
    module: Any, mesh: jax.sharding.Mesh, kind: str, axes: Sequence[str] | None
) -> None:
    """Multiply the data that goes into requested collectives, to see if the results depend on it.

    A program can request a collective and add zeros that it makes of it to a result that it has
    anyway. Such a result does not change. A ratio of two sums does not change either, if both are
    multiplied by the same number. So each collective gets another factor, and within each one every
    second number gets another factor than the rest.

    Args:
        module: a StableHLO module, which is changed.
        mesh: the mesh that names the axes.
        kind: the canonical kind of the collectives.
        axes: the mesh axes that they run over; None for any.
    """
    from jax.extend.mlir import ir

    operations = [
        operation
        for operation, collective in read_with_operations(module, mesh)
        if collective.kind == kind and axes in (None, collective.axes)
    ]
    for number, operation in enumerate(dict.fromkeys(operations)):
        factor = FACTOR + 2 * (number % FACTORS)
        with module.context, ir.Location.unknown(), ir.InsertionPoint(operation):
            for position, operand in enumerate(operation.operands):
                operation.operands[position] = _multiply(operand, factor)


def _multiply(value: Any, factor: int = FACTOR) -> Any:
    """Multiply a value by a factor, and every second number by two more; negate Booleans.

    The operations are inserted at MLIR's current insertion point.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    element = ir.RankedTensorType(value.type).element_type
    if str(element) == "i1":
        return stablehlo.not_(value)
    if isinstance(element, ir.ComplexType):
        parts = (stablehlo.real(value), stablehlo.imag(value))
        return stablehlo.complex(*(_multiply(part, factor) for part in parts))

    def full(number: int) -> Any:
        is_integer = isinstance(element, ir.IntegerType)
        scalar = (ir.IntegerAttr if is_integer else ir.FloatAttr).get(element, number)
        return stablehlo.constant(ir.DenseElementsAttr.get_splat(value.type, scalar))

    product = stablehlo.multiply(value, full(factor))
    rank = ir.RankedTensorType(value.type).rank
    if not rank:
        return product
    last_dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), rank - 1)
    is_odd = stablehlo.remainder(stablehlo.iota(value.type, last_dimension), full(2))
    return stablehlo.add(product, stablehlo.multiply(value, stablehlo.add(is_odd, is_odd)))
