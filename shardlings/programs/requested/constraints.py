"""Read the sharding constraints of a program, and the meshes that they name.

Where an exported function is called, JAX adds constraints that give its arguments the layouts for
which it was exported. They are in `main`, which calls the function. The function's author did not
write them, so they do not count.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax

from shardlings.programs.requested.live_operations import Liveness, find_mesh, live_operations

Spec = tuple[tuple[str, ...], ...]
"""The mesh axes along each dimension of an array."""


def is_constrained(module: Any) -> bool:
    """Check whether a result of an exported function depends on a sharding constraint.

    A constraint on an unchanged argument does not count, because it requests nothing for the
    values that are computed from it.
    """
    from jax.extend.mlir import ir

    return any(
        not isinstance(constraint.operands[0].owner, ir.Block)
        for constraint in _constraints(module)
    )


def find_arguments_of_replicated_values(module: Any) -> tuple[frozenset[int], ...]:
    """Return, for each constraint that replicates a value, the arguments that the value depends on.

    Only constraints that a result depends on count. Arguments are numbered from 0.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy

    symbols = ir.SymbolTable(module.operation)
    liveness = Liveness(symbols)
    arguments = symbols["main"].operation.regions[0].blocks[0].arguments
    dependents = [liveness.dependents([argument]) for argument in arguments]
    replicated = []
    for constraint in _constraints(module):
        sharding = sdy.TensorShardingAttr(constraint.attributes["sharding"])
        dimensions: Any = map(sdy.DimensionShardingAttr, sharding.dimension_shardings)
        if all(dimension.is_closed and not len(dimension.axes) for dimension in dimensions):
            value = constraint.operands[0]
            replicated.append(
                frozenset(i for i, values in enumerate(dependents) if value in values)
            )
    return tuple(replicated)


def find_specs_of_arguments(module: Any) -> tuple[tuple[int, Spec], ...]:
    """Return with which spec each `shard_map` takes an argument of the program.

    Only `shard_map`s over all axes that a result depends on count, and arguments that enter them
    unchanged.

    Returns:
        Pairs of an argument's number, from 0, and the mesh axes along each of its dimensions.
    """
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    liveness = Liveness(symbols)

    def walk(block: Any, numbers: dict[Any, int]) -> Iterator[tuple[int, Spec]]:
        """Yield the specs in a function, given which of its values are which arguments."""
        for operation in (each.operation for each in block.operations):
            if operation not in liveness:
                continue
            if operation.name == "sdy.sharding_constraint" and _is_main(operation.parent):
                if operation.operands[0] in numbers:
                    numbers[operation.results[0]] = numbers[operation.operands[0]]
            elif operation.name == "func.call":
                function = symbols[operation.attributes["callee"].value]
                inner = function.regions[0].blocks[0]
                passed = zip(inner.arguments, operation.operands, strict=True)
                yield from walk(inner, {one: numbers[o] for one, o in passed if o in numbers})
            elif operation.name == "sdy.manual_computation":
                taken = zip(operation.operands, _specs(operation), strict=True)
                yield from ((numbers[o], spec) for o, spec in taken if o in numbers and spec)

    main = symbols["main"].operation.regions[0].blocks[0]
    return tuple(walk(main, {argument: i for i, argument in enumerate(main.arguments)}))


def _specs(shard_map: Any) -> Iterator[Spec | None]:
    """Yield the spec of each operand of a `shard_map`; None if it leaves axes to the compiler."""
    from jax.extend.mlir.dialects import sdy

    per_value: Any = sdy.TensorShardingPerValueAttr(shard_map.attributes["in_shardings"])
    for sharding in map(sdy.TensorShardingAttr, per_value.shardings):
        dimensions: Any = [*map(sdy.DimensionShardingAttr, sharding.dimension_shardings)]
        axes = [[*map(sdy.AxisRefAttr, dimension.axes)] for dimension in dimensions]
        is_all = all(dimension.is_closed for dimension in dimensions) and all(
            axis.sub_axis_info is None for each in axes for axis in each
        )
        yield tuple(tuple(axis.name for axis in each) for each in axes) if is_all else None


def other_meshes(module: Any, mesh: jax.sharding.Mesh) -> list[str]:
    """Describe the meshes of the constraints and `shard_map`s in a program, except a given one.

    Only those that a result depends on count.

    Two meshes are equal here if they have the same axes and devices, whatever their axis types.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy

    given = (list(mesh.shape.items()), [device.id for device in mesh.devices.flat])
    symbols = ir.SymbolTable(module.operation)
    others: dict[str, None] = {}  # an ordered set
    for sharding in _shardings(module):
        named_mesh = find_mesh(sharding, symbols)
        axes = [(axis.name, axis.size) for axis in map(sdy.MeshAxisAttr, named_mesh.axes)]
        ids = list(named_mesh.device_ids) or list(range(math.prod(size for _, size in axes)))
        if (axes, ids) != given:
            others[", ".join(f"{name}={size}" for name, size in axes) or "one device"] = None
    return list(others)


def _shardings(module: Any) -> Iterator[Any]:
    """Yield the shardings of constraints, and of each `shard_map`'s arguments and results."""
    from jax.extend.mlir.dialects import sdy

    for constraint in _constraints(module):
        yield sdy.TensorShardingAttr(constraint.attributes["sharding"])
    for live in live_operations(module):
        if live.operation.name == "sdy.manual_computation":
            for name in ("in_shardings", "out_shardings"):
                per_value: Any = sdy.TensorShardingPerValueAttr(live.operation.attributes[name])
                yield from map(sdy.TensorShardingAttr, per_value.shardings)


def _constraints(module: Any) -> Iterator[Any]:
    """Yield the constraints that a result depends on, except those in `main`."""
    for live in live_operations(module):
        operation = live.operation
        if operation.name == "sdy.sharding_constraint" and not _is_main(operation.parent):
            yield operation


def _is_main(operation: Any) -> bool:
    return operation.name == "func.func" and str(operation.attributes["sym_name"]) == '"main"'
