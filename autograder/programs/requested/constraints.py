"""Read the constraints of a program: which value is to be laid out how, on which mesh.

Whoever calls an exported function constrains its arguments to be where they were then. Those
constraints stand in `main`, from where the function is called, and are not its author's.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax

from autograder.programs.requested.collectives import declared_mesh, live_operations
from autograder.programs.requested.liveness import Liveness


def is_constrained(module: Any) -> bool:
    """Whether a result of a function that was exported rests on a sharding constraint.

    One on an argument, as it came, says nothing of what is made of it, and does not count.
    """
    from jax.extend.mlir import ir

    return any(not isinstance(each.operands[0].owner, ir.Block) for each in _constraints(module))


def replicated_values(module: Any) -> tuple[frozenset[int], ...]:
    """Return, for each replicating constraint, the numbers of the arguments its value is made of.

    Only constraints that a result rests on count.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy

    symbols = ir.SymbolTable(module.operation)
    live = Liveness(symbols)
    arguments = symbols["main"].operation.regions[0].blocks[0].arguments
    made_of = [live.rest_on([argument]) for argument in arguments]
    found = []
    for constraint in _constraints(module):
        sharding = sdy.TensorShardingAttr(constraint.attributes["sharding"])
        dimensions: Any = map(sdy.DimensionShardingAttr, sharding.dimension_shardings)
        replicated = all(each.is_closed and not len(each.axes) for each in dimensions)
        if replicated:
            value = constraint.operands[0]
            found.append(frozenset(i for i, made in enumerate(made_of) if value in made))
    return tuple(found)


def other_meshes(module: Any, mesh: jax.sharding.Mesh) -> list[str]:
    """The meshes, in words, that a result rests on, but for the one that is given.

    Two meshes are the same here if their axes and their devices are, whatever their modes.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy

    mine = (list(mesh.shape.items()), [device.id for device in mesh.devices.flat])
    symbols = ir.SymbolTable(module.operation)
    found: dict[str, None] = {}
    for sharding in _shardings(module):
        other = declared_mesh(sharding, symbols)
        axes = [(axis.name, axis.size) for axis in map(sdy.MeshAxisAttr, other.axes)]
        ids = list(other.device_ids) or list(range(math.prod(size for _, size in axes)))
        if (axes, ids) != mine:
            found[", ".join(f"{name}={size}" for name, size in axes) or "one device"] = None
    return list(found)


def _shardings(module: Any) -> Iterator[Any]:
    """The shardings of constraints, and of the arguments and results of each `shard_map`."""
    from jax.extend.mlir.dialects import sdy

    for constraint in _constraints(module):
        yield sdy.TensorShardingAttr(constraint.attributes["sharding"])
    for each in live_operations(module):
        if each.operation.name == "sdy.manual_computation":
            for name in ("in_shardings", "out_shardings"):
                per_value: Any = sdy.TensorShardingPerValueAttr(each.operation.attributes[name])
                yield from map(sdy.TensorShardingAttr, per_value.shardings)


def _constraints(module: Any) -> Iterator[Any]:
    """The constraints that a result rests on."""
    for each in live_operations(module):
        if each.operation.name == "sdy.sharding_constraint" and not _is_main(each.operation.parent):
            yield each.operation


def _is_main(operation: Any) -> bool:
    return operation.name == "func.func" and str(operation.attributes["sym_name"]) == '"main"'
