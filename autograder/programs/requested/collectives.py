"""Read the requested collectives of a program, before any compiler.

Read from the operations of a StableHLO module, such as an exported program holds. What the compiler
adds, to make layouts fit, is not among them; what it merges still is. What no result rests on is
not asked for, and what stands in a composite is.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import jax

from autograder.collective_kinds import CollectiveKind
from autograder.programs.collective import Collective, named
from autograder.programs.requested import replica_groups
from autograder.programs.requested.liveness import CALLS, Liveness
from autograder.programs.requested.trip_counts import is_counted, trip_count

BY_STABLEHLO: Final = {kind.stablehlo: kind for kind in CollectiveKind}


def kind_of(operation: Any) -> CollectiveKind | None:
    """Return the kind of collective that an operation requests; None if it requests none."""
    name = operation.name
    if name == "stablehlo.custom_call":
        name = operation.attributes["call_target_name"].value
    return BY_STABLEHLO.get(name)


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
        for each in live_operations(module)
        if kind_of(each.operation)
    ]


class Occurrence(NamedTuple):
    """A live operation.

    Attributes:
        operation: the operation.
        times: how often it runs; None where nobody knows before it does.
        sometimes: whether it may be left out.
        of_one: whether it is written for one device, within a `shard_map`.
    """

    operation: Any
    times: int | None
    sometimes: bool
    of_one: bool


def live_operations(module: Any) -> Iterator[Occurrence]:
    """Each operation that a result rests on, once for each way that leads to it."""
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    live = Liveness(symbols)

    def within(where: Occurrence, operation: Any) -> Iterator[Occurrence]:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    if inner in live:
                        yield from of(where._replace(operation=inner.operation))

    def of(each: Occurrence) -> Iterator[Occurrence]:
        yield each
        operation, times = each.operation, each.times
        if operation.name in CALLS:
            called = symbols[operation.attributes[CALLS[operation.name]].value]
            yield from within(each, called.operation)
        elif operation.name == "stablehlo.while":
            count = trip_count(operation)
            rounds = None if times is None or count is None else times * count
            yield from within(each._replace(times=rounds), operation)
        elif operation.name in ("stablehlo.case", "stablehlo.if"):
            yield from within(each._replace(sometimes=True), operation)
        elif operation.name == "sdy.manual_computation":
            left = left_to_the_compiler(operation, symbols)
            yield from within(each._replace(of_one=each.of_one or not left), operation)
        elif kind_of(operation) is None:
            yield from within(each, operation)

    main = symbols["main"].operation
    return within(Occurrence(main, 1, False, False), main)


def is_sure_to_end(module: Any) -> bool:
    """Whether each loop that a result rests on ends, whatever numbers it is given."""
    loops = (each.operation for each in live_operations(module))
    return all(is_counted(loop) for loop in loops if loop.name == "stablehlo.while")


def left_to_the_compiler(body: Any, symbols: Any) -> set[str]:
    """The axes of its mesh that a `shard_map` leaves to the compiler, as `axis_names` says."""
    from jax.extend.mlir.dialects import sdy

    there: set[str] = set()
    for name in ("in_shardings", "out_shardings"):
        shardings: Any = sdy.TensorShardingPerValueAttr(body.attributes[name])
        for each in shardings.shardings:
            mesh = declared_mesh(sdy.TensorShardingAttr(each), symbols)
            axes: list[Any] = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
            there |= {axis.name for axis in axes if axis.size > 1}
    manual: Any = sdy.ManualAxesAttr(body.attributes["manual_axes"])
    return there - {str(name).strip('"') for name in manual}


def declared_mesh(sharding: Any, symbols: Any) -> Any:
    """The mesh of a sharding, which has it, or the name of one that the module declares."""
    from jax.extend.mlir.dialects import sdy

    name = getattr(sharding.mesh_or_ref, "value", None)
    return sdy.MeshAttr(sharding.mesh_or_ref if name is None else symbols[name].attributes["mesh"])


def _collective(operation: Any, symbols: Any, times: int | None, sometimes: bool) -> Collective:
    kind = kind_of(operation)
    assert kind is not None
    attributes, operands = operation.attributes, list(operation.operands)
    if kind is CollectiveKind.RAGGED_ALL_TO_ALL:  # beside the data it takes where pieces begin
        attributes, operands = attributes["backend_config"], operands[:1]
    groups = attributes["source_target_pairs" if kind.in_pairs else "replica_groups"]
    return Collective(
        kind,
        (),
        replica_groups.read(groups, symbols),
        sum(_bytes(operand.type) for operand in operands),
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
