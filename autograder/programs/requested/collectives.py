"""Requested collectives: what a program asks for by hand, before any compiler has seen it.

Read from the operations of a StableHLO module, such as an exported program holds. What the compiler
adds, to make layouts fit, is not among them; what it drops or merges still is.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import jax

from autograder.programs.collective import Collective, named
from autograder.programs.requested import replica_groups
from autograder.programs.requested.trip_counts import trip_count

KINDS: Final = {
    "stablehlo.all_reduce": "all-reduce",
    "stablehlo.all_gather": "all-gather",
    "stablehlo.reduce_scatter": "reduce-scatter",
    "stablehlo.all_to_all": "all-to-all",
    "stablehlo.collective_permute": "collective-permute",
    "stablehlo.collective_broadcast": "collective-broadcast",
}


def read(module: Any, mesh: jax.sharding.Mesh) -> list[Collective]:
    """The collectives that a StableHLO module asks for, in the order in which they stand.

    Args:
        module: the module, with a public function `main`.
        mesh: what names the axes; its devices in order are the program's partitions.
    """
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    return [
        named(collective, mesh, [device.id for device in mesh.devices.flat])
        for collective in _within(symbols["main"].operation, symbols, 1, False)
    ]


def is_mapped(module: Any) -> bool:
    """Whether a part of the module is written for one device, as `shard_map` has it."""
    from jax.extend.mlir import ir

    found = []

    def visit(operation: Any) -> Any:
        if operation.name == "sdy.manual_computation":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return bool(found)


def _within(
    operation: Any, symbols: Any, times: int | None, sometimes: bool
) -> Iterator[Collective]:
    """The collectives within an operation that runs so many times."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _of(inner.operation, symbols, times, sometimes)


def _of(operation: Any, symbols: Any, times: int | None, sometimes: bool) -> Iterator[Collective]:
    """The collectives that one operation is, or has in it."""
    if operation.name in KINDS:
        yield _collective(operation, symbols, times, sometimes)
    elif operation.name == "func.call":
        callee = operation.attributes["callee"].value
        yield from _within(symbols[callee].operation, symbols, times, sometimes)
    elif operation.name == "stablehlo.while":
        count = trip_count(operation)
        inner = None if times is None or count is None else times * count
        yield from _within(operation, symbols, inner, sometimes)
    else:
        branches = operation.name in ("stablehlo.case", "stablehlo.if")
        yield from _within(operation, symbols, times, sometimes or branches)


def _collective(operation: Any, symbols: Any, times: int | None, sometimes: bool) -> Collective:
    kind = KINDS[operation.name]
    pairs = kind == "collective-permute"
    groups = operation.attributes["source_target_pairs" if pairs else "replica_groups"]
    return Collective(
        kind,
        (),
        replica_groups.read(groups, symbols),
        sum(_bytes(operand.type) for operand in operation.operands),
        sum(_bytes(result.type) for result in operation.results),
        times,
        sometimes,
    )


def _bytes(kind: Any) -> int:
    from jax.extend.mlir import ir

    tensor: Any = ir.RankedTensorType(kind)
    element, parts = tensor.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    return int(math.prod(tensor.shape)) * parts * max(int(element.width), 8) // 8
