"""Find the operations of a StableHLO module that its results depend on, and how often each runs.

Whatever else a program's author writes stays in the module until a compiler removes it. An
operation is live if a result of `main` depends on it, through calls and composites, branches, the
bodies of `shard_map`, and loops (where a value that the loop only carries for itself is dead, too).
Compiled programs need none of this, because XLA removes what is dead.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from shardlings.collective_kinds import CollectiveKind
from shardlings.programs.counting_loops import LoopCounter, LoopValue, find_counter

CALLS: Final = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Operations that run another function, and the attribute that names it."""

KINDS_BY_NAME: Final = {kind.stablehlo: kind for kind in CollectiveKind}


class LiveOperation(NamedTuple):
    """A live operation, on one of the ways that lead to it.

    Attributes:
        times: how often it runs; None where only the running program knows.
        is_conditional: whether it is in a branch that need not be taken.
        is_per_device: whether it is in a `shard_map` over all axes, so that each device runs it
            on its own shards.
    """

    operation: Any
    times: int | None
    is_conditional: bool
    is_per_device: bool


def live_operations(module: Any) -> Iterator[LiveOperation]:
    """Yield each operation that a result depends on, once for each way that leads to it."""
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    liveness = Liveness(symbols)

    def walk_regions(parent: LiveOperation, operation: Any) -> Iterator[LiveOperation]:
        """Yield the live operations in an operation's regions; all else is as for the parent."""
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    if inner in liveness:
                        yield from walk(parent._replace(operation=inner.operation))

    def walk(live: LiveOperation) -> Iterator[LiveOperation]:
        yield live
        operation, times = live.operation, live.times
        if operation.name in CALLS:
            function = symbols[operation.attributes[CALLS[operation.name]].value]
            yield from walk_regions(live, function.operation)
        elif operation.name == "stablehlo.while":
            count = trip_count(operation)
            rounds = None if times is None or count is None else times * count
            yield from walk_regions(live._replace(times=rounds), operation)
        elif operation.name in ("stablehlo.case", "stablehlo.if"):
            yield from walk_regions(live._replace(is_conditional=True), operation)
        elif operation.name == "sdy.manual_computation":
            is_manual = not auto_axes(operation, symbols)
            is_per_device = live.is_per_device or is_manual
            yield from walk_regions(live._replace(is_per_device=is_per_device), operation)
        elif collective_kind(operation) is None:
            yield from walk_regions(live, operation)

    main = symbols["main"].operation
    return walk_regions(LiveOperation(main, 1, False, False), main)


def collective_kind(operation: Any) -> CollectiveKind | None:
    """Return the kind of collective that an operation requests; None if it requests none."""
    name = operation.name
    if name == "stablehlo.custom_call":
        name = operation.attributes["call_target_name"].value
    return KINDS_BY_NAME.get(name)


class Liveness:
    """The live operations and values of a module.

    Args:
        symbols: the module's symbol table, with a function `main`.
    """

    def __init__(self, symbols: Any) -> None:
        self._symbols = symbols
        self._operations: set[Any] = set()
        self._values: set[Any] = set()
        self._callers: dict[str, list[Any]] = {}
        self._users: dict[Any, list[Any]] = {}
        waiting = list(_returned(_body(symbols["main"])))
        while waiting:
            value = waiting.pop()
            if value not in self._values:
                self._values.add(value)
                for source in self._sources(value):
                    waiting.append(source)
                    self._users.setdefault(source, []).append(value)

    def __contains__(self, operation: Any) -> bool:
        """Check whether a result of the program depends on an operation."""
        return operation.operation in self._operations

    def dependents(self, values: Iterable[Any]) -> set[Any]:
        """Return these values and the live values that depend on any of them."""
        dependents: set[Any] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value not in dependents:
                dependents.add(value)
                waiting += self._users.get(value, ())
        return dependents

    def _sources(self, value: Any) -> Iterator[Any]:
        """Yield the values that one depends on directly, and mark its operation as live."""
        from jax.extend.mlir import ir

        if isinstance(value.owner, ir.Block):
            yield from self._sources_of_argument(ir.BlockArgument(value))
            return
        operation, number = value.owner.operation, ir.OpResult(value).result_number
        self._operations.add(operation)
        if operation.name in CALLS:
            name = operation.attributes[CALLS[operation.name]].value
            function = _body(self._symbols[name])
            self._callers.setdefault(name, []).append(operation)
            yield _returned(function)[number]
            for position, argument in enumerate(function.arguments):
                if argument in self._values:
                    yield operation.operands[position]
        elif operation.name == "stablehlo.while":
            yield from self._sources_of_carried(operation, number)
        elif operation.name in ("stablehlo.case", "stablehlo.if"):
            yield from operation.operands
            for region in operation.regions:
                yield _returned(region.blocks[0])[number]
        elif operation.name == "sdy.manual_computation":
            yield _returned(operation.regions[0].blocks[0])[number]
        else:
            yield from operation.operands

    def _sources_of_argument(self, argument: Any) -> Iterator[Any]:
        """Yield the values that are passed as a block's argument."""
        operation, position = argument.owner.owner.operation, argument.arg_number
        if operation.name == "func.func":
            for call in self._callers.get(operation.attributes["sym_name"].value, []):
                yield call.operands[position]
        elif operation.name == "stablehlo.while":
            yield from self._sources_of_carried(operation, position)
        elif operation.name == "sdy.manual_computation":
            yield operation.operands[position]

    def _sources_of_carried(self, loop: Any, position: int) -> Iterator[Any]:
        """Yield the sources of a carried value: before the loop, after a round, and the condition.

        Everything in a loop depends on the condition that ends it.
        """
        self._operations.add(loop)
        condition, body = (region.blocks[0] for region in loop.regions)
        yield loop.operands[position]
        yield _returned(body)[position]
        yield from _returned(condition)


def is_sure_to_end(module: Any) -> bool:
    """Check that each loop that a result depends on ends, whatever the arguments are.

    A `fori_loop` does, even between bounds that are computed. A `while_loop` that waits for
    something to become small may not.
    """
    return not list_loops_that_may_not_end(module)


def list_loops_that_may_not_end(module: Any) -> list[Any]:
    """List the `while` operations that a result depends on, and that do not count up to a limit."""
    loops: list[Any] = []
    for live in live_operations(module):
        loop = live.operation
        if loop.name == "stablehlo.while" and loop not in loops and _find_counter(loop) is None:
            loops.append(loop)
    return loops


def trip_count(loop: Any) -> int | None:
    """Return how often the body of a `while` runs; None where only the running program knows."""
    counter = _find_counter(loop)
    return None if counter is None else counter.trip_count


def list_counter_operands(loop: Any) -> list[tuple[Any, int, Any]]:
    """List the operands by which a loop counts.

    Args:
        loop: a `while` operation.

    Returns:
        Each operand as an operation, the operand's position in it, and the operand. Empty if the
        loop's trip count is unknown.
    """
    counter = _find_counter(loop)
    if counter is None or counter.trip_count is None:
        return []
    uses = [(loop, counter.position)]
    for region, position in zip(loop.regions, (0, counter.position), strict=True):
        terminator = _terminator(region.blocks[0])
        computed_by = terminator.operands[position].owner
        uses += [(terminator, position), (computed_by, 0), (computed_by, 1)]
    return [(operation, position, operation.operands[position]) for operation, position in uses]


def _find_counter(loop: Any) -> LoopCounter | None:
    """Find the value by which a `while` counts up to a limit; None if it does not count."""
    condition, body = (region.blocks[0] for region in loop.regions)
    test = _returned(condition)[0].owner
    if getattr(test, "name", "") != "stablehlo.compare":
        return None
    if "LT" not in str(test.attributes["comparison_direction"]):
        return None
    counter = find_counter(
        partial(_describe, loop),
        compared=test.operands,
        initial=loop.operands,
        updated=_returned(body),
    )
    if counter is None or _may_wrap_around(counter, loop):
        return None
    if counter.limit is None and not _is_invariant(test.operands[1], loop):
        return None
    return counter


def _may_wrap_around(counter: LoopCounter, loop: Any) -> bool:
    """Check whether a counter may step over the largest number of its type, and begin anew.

    In steps of 2, an 8-bit integer goes from 126 to -128, and is never 127 or more.
    """
    from jax.extend.mlir import ir

    element = ir.IntegerType(ir.RankedTensorType(loop.operands[counter.position].type).element_type)
    smallest = 0 if element.is_unsigned else -(2 ** (element.width - 1))
    largest = smallest + 2**element.width - 1
    if counter.step > 0:
        last = (largest if counter.limit is None else counter.limit) - 1 + counter.step
    else:
        last = (smallest if counter.limit is None else counter.limit) + 1 + counter.step
    return not smallest <= last <= largest


def _describe(loop: Any, value: Any) -> LoopValue:
    """Describe a value for `find_counter`."""
    position = _argument_position(loop, value)
    if position is not None:
        return LoopValue(carried=position)
    owner_name = getattr(value.owner, "name", "")  # a block has none
    if owner_name == "stablehlo.add":
        return LoopValue(addends=list(value.owner.operands))
    if owner_name == "stablehlo.constant":
        return LoopValue(constant=_read_integer(value.owner))
    return LoopValue()


def _is_invariant(value: Any, loop: Any) -> bool:
    """Check whether a value in a loop's condition is the same in each round."""
    from jax.extend.mlir import ir

    condition, body = (region.blocks[0] for region in loop.regions)
    position = _argument_position(loop, value)
    if position is not None:
        return bool(_returned(body)[position] == body.arguments[position])
    # whatever is computed outside of the loop does not change
    return isinstance(value.owner, ir.Block) or value.owner.operation.block != condition


def _argument_position(loop: Any, value: Any) -> int | None:
    """Return the position of a value among those that a loop carries, within the loop."""
    for region in loop.regions:
        for position, argument in enumerate(region.blocks[0].arguments):
            if argument == value:
                return position
    return None


def _read_integer(constant: Any) -> int | None:
    try:
        numbers = np.array(constant.attributes["value"])
    except TypeError:  # NumPy lacks the type: bfloat16, or four-bit integers
        return None
    return int(numbers.reshape(-1)[0]) if numbers.size and numbers.dtype.kind in "iu" else None


def _body(function: Any) -> Any:
    return function.operation.regions[0].blocks[0]


def _terminator(block: Any) -> Any:
    return block.operations[len(block.operations) - 1]


def _returned(block: Any) -> Any:
    """Return the values that a block returns: the operands of its last operation."""
    return _terminator(block).operands


def auto_axes(shard_map: Any, symbols: Any) -> set[str]:
    """Return the mesh axes that a `shard_map` leaves to the compiler (see its `axis_names`)."""
    from jax.extend.mlir.dialects import sdy

    axes: set[str] = set()
    for name in ("in_shardings", "out_shardings"):
        shardings: Any = sdy.TensorShardingPerValueAttr(shard_map.attributes[name])
        for sharding in shardings.shardings:
            mesh = find_mesh(sdy.TensorShardingAttr(sharding), symbols)
            mesh_axes: list[Any] = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
            axes |= {axis.name for axis in mesh_axes if axis.size > 1}
    manual: Any = sdy.ManualAxesAttr(shard_map.attributes["manual_axes"])
    return axes - {str(name).strip('"') for name in manual}


def find_mesh(sharding: Any, symbols: Any) -> Any:
    """Return the mesh of a sharding, which contains it or names one that the module declares."""
    from jax.extend.mlir.dialects import sdy

    name = getattr(sharding.mesh_or_ref, "value", None)
    return sdy.MeshAttr(sharding.mesh_or_ref if name is None else symbols[name].attributes["mesh"])


def shape_of(value: Any) -> list[int]:
    """Return the shape of a value of a StableHLO module."""
    from jax.extend.mlir import ir

    return list(ir.RankedTensorType(value.type).shape)
