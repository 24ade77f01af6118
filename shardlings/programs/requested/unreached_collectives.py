"""Find collectives that some devices need not reach, before a program runs.

A collective waits for all of its devices. If each device decides for itself how often a loop runs,
or which branch to take, some of them can reach a collective that others never come to: the program
hangs, and after a while XLA ends the process. JAX does not refuse such programs.

So this module follows, through the StableHLO of each `shard_map`, on which devices a value is sure
to be the same. The shards of an argument differ between devices, and so does `lax.axis_index`. A
sum over devices is the same on all of them, even where its type in JAX says that it varies.
Integers that depend on `lax.axis_index` and constants alone are computed, for each device.

It is wrong in two rare cases. Values that travel round a ring until all devices have all of them
count as different, so a loop that they end is refused. Branches with equal lists of collectives
count as harmless, although one of them could hang in a loop of unknown length.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from shardlings.collective_kinds import CollectiveKind
from shardlings.programs.collective import Collective
from shardlings.programs.requested.collectives import read_mesh, read_with_operations
from shardlings.programs.requested.live_operations import (
    CALLS,
    find_mesh,
    live_operations,
    shape_of,
    trip_count,
)

MAX_DEVICES: Final = 1024
"""Programs for more devices are not searched."""

MAX_STEPS: Final = 200_000
"""The number of operations after which the search gives up; a loop's body counts a few times."""

MAX_LISTED: Final = 1000
"""The most collectives of a branch that are compared with those of another."""

CHOICES: Final = ("stablehlo.case", "stablehlo.if")


class Source(Enum):
    """Why a value differs between devices."""

    INDEX = "lax.axis_index"
    SHARDS = "shards"


@dataclass(frozen=True)
class UnreachedCollective:
    """A collective that some devices need not reach.

    Attributes:
        collective: the collective.
        is_in_loop: whether each device decides how often a loop runs; else which branch it takes.
        sources: of what each device computes that decision.
    """

    collective: Collective
    is_in_loop: bool
    sources: frozenset[Source]


Classes = tuple[int, ...]
"""A number for each device; the first device has 0."""


class Spread(NamedTuple):
    """On which devices a value is sure to be the same: those with equal numbers in both tuples.

    Attributes:
        by_index: numbers that differ where the value may differ because of `lax.axis_index`.
        by_shards: numbers that differ where it may differ because the devices' shards do.
        values: the value on each device, if it is an integer that is known; else None.
    """

    by_index: Classes
    by_shards: Classes
    values: tuple[int, ...] | None = None

    @property
    def is_uniform(self) -> bool:
        """True if the value is sure to be the same on all devices."""
        return not any(self.by_index) and not any(self.by_shards)

    def sources_within(self, groups: Iterable[Sequence[int]]) -> frozenset[Source]:
        """Return why the value may differ within some group of devices; empty if it does not."""
        classes = {Source.INDEX: self.by_index, Source.SHARDS: self.by_shards}
        groups = list(groups)
        return frozenset(
            source
            for source, numbers in classes.items()
            if any(len({numbers[i] for i in group}) > 1 for group in groups)
        )


def find_unreached_collective(module: Any, mesh: jax.sharding.Mesh) -> UnreachedCollective | None:
    """Find a collective that some devices need not reach.

    Args:
        module: a StableHLO module, with a public function `main`, which can be compiled.
        mesh: the mesh that names the axes; its devices, in order, are the program's partitions.

    Returns:
        The first such collective; None if there is none, or if the program is too long to say.
    """
    from jax.extend.mlir import ir

    if not 1 < mesh.size <= MAX_DEVICES:
        return None
    collectives = dict(read_with_operations(module, mesh))
    decisions = ("stablehlo.while", *CHOICES)
    if not collectives or all(
        live.operation.name not in decisions for live in live_operations(module)
    ):
        return None
    search = _Search(ir.SymbolTable(module.operation), mesh, collectives)
    try:
        search.run_main()
    except _TooLongError:
        return None
    return search.unreached


class _TooLongError(Exception):
    """The program has too many operations to be searched."""


class _Search:
    """Follows a module's values, from its arguments to its collectives.

    Attributes:
        unreached: the first collective that some devices need not reach.
    """

    def __init__(
        self, symbols: Any, mesh: jax.sharding.Mesh, collectives: dict[Any, Collective]
    ) -> None:
        self.unreached: UnreachedCollective | None = None
        self._symbols = symbols
        self._collectives = collectives
        self._partitions = {device.id: i for i, device in enumerate(mesh.devices.flat)}
        self._same = Spread((0,) * mesh.size, (0,) * mesh.size)
        self._all = range(mesh.size)
        self._spreads: dict[Any, Spread] = {}
        self._decisions: list[tuple[bool, Spread]] = []  # of loops (True) and branches around
        self._steps = 0

    def run_main(self) -> None:
        """Follow the values of the function `main`, whose arguments are global arrays."""
        block = self._symbols["main"].operation.regions[0].blocks[0]
        self._run(block, [self._same] * len(block.arguments))

    def _run(self, block: Any, arguments: Sequence[Spread]) -> list[Spread]:
        """Follow the values of a block; return the spreads of those that it returns."""
        self._spreads.update(zip(block.arguments, arguments, strict=True))
        operation = None
        for each in block.operations:
            self._count_step()
            operation = each.operation
            results = list(operation.results)
            if results:
                operands = self._operands(operation)
                self._spreads.update(
                    zip(results, self._follow(operation, operands, results), strict=True)
                )
        return [] if operation is None else self._operands(operation)

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooLongError

    def _operands(self, operation: Any) -> list[Spread]:
        return [self._spreads.get(operand, self._same) for operand in operation.operands]

    def _follow(
        self, operation: Any, operands: list[Spread], results: list[Any]
    ) -> Iterable[Spread]:
        """Return the spread of each result of an operation."""
        name = operation.name
        if operation in self._collectives:
            collective = self._collectives[operation]
            self._check(collective)
            return self._communicate(collective, operands, len(results))
        if name in CALLS:
            function = self._symbols[operation.attributes[CALLS[name]].value]
            return self._run(function.operation.regions[0].blocks[0], operands)
        if name == "stablehlo.while":
            return self._follow_loop(operation, operands)
        if name in CHOICES:
            return self._follow_choice(operation, operands[0])
        if name == "sdy.manual_computation":
            return self._follow_shard_map(operation, operands)
        if name == "stablehlo.optimization_barrier":
            return operands
        if name == "stablehlo.partition_id":
            values = tuple(self._all)
            return [Spread(values, self._same.by_shards, values)]
        known = _compute(operation, operands, results, len(self._all))
        if known is not None:
            return [Spread(_number(known), self._same.by_shards, known)]
        return [self._join(operands)] * len(results)

    def _join(self, spreads: Sequence[Spread]) -> Spread:
        """Return the spread of what is computed of several values."""
        by_index = [self._same.by_index, *(each.by_index for each in spreads)]
        by_shards = [self._same.by_shards, *(each.by_shards for each in spreads)]
        return Spread(
            _number([*zip(*set(by_index), strict=True)]),
            _number([*zip(*set(by_shards), strict=True)]),
        )

    def _list_groups(self, collective: Collective) -> list[list[int]]:
        return [[self._partitions.get(i, 0) for i in group] for group in collective.groups]

    def _check(self, collective: Collective) -> None:
        """Note if not all devices of a collective's group reach it equally often."""
        groups: list[Sequence[int]] = [*self._list_groups(collective)]
        if collective.traits.has_pairs:  # XLA lets all devices wait for each other
            groups = [self._all]
        for is_in_loop, decision in reversed(self._decisions):
            sources = decision.sources_within(groups)
            if sources and self.unreached is None:
                self.unreached = UnreachedCollective(collective, is_in_loop, sources)

    def _communicate(
        self, collective: Collective, operands: list[Spread], results: int
    ) -> list[Spread]:
        """Return the spreads of a collective's results."""
        if collective.kind == CollectiveKind.RAGGED_ALL_TO_ALL:
            operands = [self._join(operands)] * results
        groups = self._list_groups(collective)
        return [
            Spread(
                _number(_list_sent(collective, groups, operand.by_index, False)),
                _number(_list_sent(collective, groups, operand.by_shards, True)),
            )
            for operand in operands
        ]

    def _follow_loop(self, loop: Any, carried: list[Spread]) -> list[Spread]:
        condition, body = (region.blocks[0] for region in loop.regions)
        while True:
            (decision,) = self._run(condition, carried)
            self._decisions.append((True, decision))
            if not decision.is_uniform:  # the condition's own collectives
                self._run(condition, carried)
            updated = self._run(body, carried)
            self._decisions.pop()
            merged = [self._merge(*pair) for pair in zip(carried, updated, strict=True)]
            if merged == carried:
                return [self._join([spread, decision]) for spread in carried]
            carried = merged

    def _merge(self, *spreads: Spread) -> Spread:
        """Return the spread of a value that is one of several, the same one on all devices."""
        if len({spread.values for spread in spreads}) == 1 and spreads[0].values:
            return spreads[0]
        return self._join(spreads)

    def _follow_choice(self, choice: Any, decision: Spread) -> list[Spread]:
        blocks = [region.blocks[0] for region in choice.regions]
        # devices meet in the same collective of two branches, because JAX gives all one channel
        listed = [self._list_collectives(block) for block in blocks]
        differs = any(each != listed[0] for each in listed)
        if differs:
            self._decisions.append((False, decision))
        returned = [self._run(block, []) for block in blocks]
        if differs:
            self._decisions.pop()
        return [
            self._merge(*ways) if decision.is_uniform else self._join([*ways, decision])
            for ways in zip(*returned, strict=True)
        ]

    def _list_collectives(self, block: Any) -> list[Any]:
        """List the collectives that a block requests, in order, without their values."""
        listed: list[Any] = []
        for each in block.operations:
            self._count_step()
            operation = each.operation
            if operation in self._collectives:
                collective = self._collectives[operation]
                is_among_all = collective.traits.has_pairs
                listed.append((collective.kind, () if is_among_all else collective.groups))
                continue
            blocks = [block for region in operation.regions for block in region.blocks]
            if operation.name in CALLS:
                function = self._symbols[operation.attributes[CALLS[operation.name]].value]
                blocks = list(function.operation.regions[0].blocks)
            inner = [item for block in blocks for item in self._list_collectives(block)]
            if operation.name != "stablehlo.while":
                listed += inner
            elif inner:
                times = trip_count(operation)
                if times is None or times * len(inner) > MAX_LISTED:
                    listed.append((times, inner))
                else:
                    listed += inner * times
        return listed

    def _follow_shard_map(self, shard_map: Any, operands: list[Spread]) -> list[Spread]:
        from jax.extend.mlir.dialects import sdy

        axes: Any = sdy.ManualAxesAttr(shard_map.attributes["manual_axes"])
        manual = {str(name).strip('"') for name in axes}
        per_value: Any = sdy.TensorShardingPerValueAttr(shard_map.attributes["in_shardings"])
        shardings = [sdy.TensorShardingAttr(each) for each in per_value.shardings]
        shards = []
        for operand, sharding in zip(operands, shardings, strict=True):
            numbers = self._number_shards(sharding, manual)
            shards.append(self._join([operand, Spread(self._same.by_index, numbers)]))
        returned = self._run(shard_map.regions[0].blocks[0], shards)
        if all(operand.is_uniform for operand in operands):  # the results are global arrays
            return [self._same] * len(returned)
        return [self._join([*operands, each]) for each in returned]

    def _number_shards(self, sharding: Any, manual: set[str]) -> Classes:
        """Return a number for each device, by the shard of an argument that it has."""
        from jax.extend.mlir.dialects import sdy

        names, partitions = read_mesh(find_mesh(sharding, self._symbols), self._symbols)
        dimensions: list[Any] = [
            sdy.DimensionShardingAttr(each) for each in sharding.dimension_shardings
        ]
        named = [axis for dimension in dimensions for axis in dimension.axes]
        named += list(getattr(sharding, "unreduced_axes", ()))
        used = {sdy.AxisRefAttr(axis).name for axis in named} & manual
        count = len(self._all)
        places: list[Any] = [()] * count
        for place in np.ndindex(partitions.shape):
            if partitions[place] < count:
                places[partitions[place]] = tuple(
                    i for i, name in zip(place, names, strict=True) if name in used
                )
        return _number(places)


def _number(values: Sequence[Any]) -> Classes:
    """Number values by their first appearance, so that equal ones have equal numbers, from 0."""
    numbers: dict[Any, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in values)


def _list_sent(
    collective: Collective, groups: Sequence[Sequence[int]], classes: Classes, has_pieces: bool
) -> list[Any]:
    """List what each device's result of a collective is made of.

    Args:
        collective: the collective.
        groups: the partitions of its groups.
        classes: the classes of its operand.
        has_pieces: whether devices that get pieces of one array have different results.
    """
    sent: list[Any] = [()] * len(classes)
    for group in groups:
        of_group = tuple(classes[i] for i in group)
        if collective.traits.has_pairs:
            sent[group[1]] = of_group[:1]
            continue
        if collective.kind == CollectiveKind.COLLECTIVE_BROADCAST:
            of_group = of_group[:1]
        for position, i in enumerate(group):
            is_piece = has_pieces and collective.kind not in SAME_FOR_ALL
            sent[i] = (of_group, position if is_piece else 0)
    return sent


SAME_FOR_ALL: Final = (
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_GATHER,
    CollectiveKind.COLLECTIVE_BROADCAST,
)
"""The collectives after which all devices of a group have the same."""

DTYPES: Final = {
    "i1": np.bool_,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
}
"""The types of integers that are computed here."""


def _divide(left: Any, right: Any) -> Any:
    """Divide integers, and round towards zero."""
    return np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _divide,
    "remainder": lambda left, right: left - right * _divide(left, right),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "negate": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "convert": lambda value: value,
    "select": np.where,
    "clamp": lambda low, value, high: np.minimum(np.maximum(value, low), high),
}

COMPARISONS: Final = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt,
    "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def _compute(
    operation: Any, operands: Sequence[Spread], results: Sequence[Any], devices: int
) -> tuple[int, ...] | None:
    """Compute an integer on each device; return None for anything else."""
    dialect, _, name = operation.name.partition(".")
    if dialect != "stablehlo" or len(results) != 1 or shape_of(results[0]):
        return None
    dtype = _dtype(results[0])
    if dtype is None:
        return None
    if name == "constant":
        return (int(np.array(operation.attributes["value"])),) * devices
    if any(spread.values is None for spread in operands):
        return None
    inputs = [
        np.array(spread.values).astype(_dtype(value))
        for spread, value in zip(operands, operation.operands, strict=True)
    ]
    if name == "compare":
        direction = str(operation.attributes["comparison_direction"])
        compare = next(f for key, f in COMPARISONS.items() if key in direction)
        return tuple(map(int, compare(*inputs)))
    if name not in OPERATIONS or (name in ("divide", "remainder") and not inputs[1].all()):
        return None
    with np.errstate(all="ignore"):
        return tuple(map(int, OPERATIONS[name](*inputs).astype(dtype)))


def _dtype(value: Any) -> Any:
    """Return the NumPy type of an integer or Boolean value; None for other types."""
    from jax.extend.mlir import ir

    return DTYPES.get(str(ir.RankedTensorType(value.type).element_type))
