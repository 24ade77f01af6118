"""Requested collectives: what a program asks for by hand, before any compiler has seen it.

Read from the operations of a StableHLO module, such as an exported program holds. What the compiler
adds, to make layouts fit, is not among them; what it merges still is. What no result rests on is
not asked for, and what stands in a composite is.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import jax

from autograder.programs.collective import Collective, named
from autograder.programs.requested import replica_groups
from autograder.programs.requested.liveness import CALLS, Liveness
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
    return [collective for _, collective in occurrences(module, mesh)]


def occurrences(module: Any, mesh: jax.sharding.Mesh) -> list[tuple[Any, Collective]]:
    """The same, each with the operation that asks for it."""
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    ids = [device.id for device in mesh.devices.flat]
    return [
        (
            each.operation,
            named(_collective(each.operation, symbols, each.times, each.sometimes), mesh, ids),
        )
        for each in _live(module)
        if each.operation.name in KINDS
    ]


def is_mapped(module: Any) -> bool:
    """Whether a part of the module is written for one device, as `shard_map` has it."""
    return any(each.operation.name == "sdy.manual_computation" for each in _live(module))


class Occurrence(NamedTuple):
    """An operation, how often it runs, and whether it may be left out."""

    operation: Any
    times: int | None
    sometimes: bool


def _live(module: Any) -> Iterator[Occurrence]:
    """Each operation that a result rests on, once for each way that leads to it."""
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    live = Liveness(symbols)

    def within(operation: Any, times: int | None, sometimes: bool) -> Iterator[Occurrence]:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    if inner in live:
                        yield from of(inner.operation, times, sometimes)

    def of(operation: Any, times: int | None, sometimes: bool) -> Iterator[Occurrence]:
        yield Occurrence(operation, times, sometimes)
        if operation.name in CALLS:
            called = symbols[operation.attributes[CALLS[operation.name]].value]
            yield from within(called.operation, times, sometimes)
        elif operation.name == "stablehlo.while":
            count = trip_count(operation)
            yield from within(
                operation, None if times is None or count is None else times * count, sometimes
            )
        elif operation.name not in KINDS:
            branches = operation.name in ("stablehlo.case", "stablehlo.if")
            yield from within(operation, times, sometimes or branches)

    return within(symbols["main"].operation, 1, False)


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
