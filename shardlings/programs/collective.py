"""A collective of a program: which devices communicate, how many bytes, and how long it takes.

The *buffer* of a collective is the larger of its input and its output on one device, `V` bytes. In
a ring of `n` devices, an all-gather or a reduce-scatter takes `n - 1` steps, and in each step a
device sends `V / n` bytes: `(n - 1) / n * V` in all. An all-to-all sends as much. An all-reduce is
a reduce-scatter followed by an all-gather, so it sends twice that. A permutation and a broadcast
send the buffer once. (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH", 2005, section 4.)

How long this takes depends on the network. Behind a switch, a device sends all of it at its full
bandwidth. In a torus, each mesh axis is a ring whose links carry data in both directions: two axes
have twice the bandwidth of one, and what is not for a neighbour occupies every link on its way.
(Austin et al., "How to Scale Your Model", "Sharded matrices and how to multiply them":
https://jax-ml.github.io/scaling-book/sharding/.) Latency is neglected, so times hold for large
buffers.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from shardlings.collective_kinds import KINDS, CollectiveKind
from shardlings.errors import is_own_file

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Frame:
    """A line of source code that an instruction comes from."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Collective:
    """One collective of a program.

    Attributes:
        kind: HLO's name for its kind, one of `KINDS`.
        axes: the mesh axes that it runs over, in the mesh's order; empty if its groups do not
            correspond to axes of the mesh.
        groups: the ids of the devices that communicate; for a permutation, (source, target) pairs.
        bytes_in: size of its input on each device, in bytes.
        bytes_out: size of its output on each device, in bytes.
        times: how often it runs; None if it is in a loop whose trip count is unknown.
        is_conditional: whether it is in a branch that may not be taken.
        branches: the branches that it is in, the outermost first: of each, a number of the
            conditional, and the branch's own.
        stack: the lines of source code that caused it, the innermost first.
        argument: the number of the program's parameter that is its input, possibly rearranged;
            None if its input is computed.
        names: for each of its inputs, the name of the program's parameter that it is, such as
            `params['w']`; empty if it is computed.
        shapes: the shapes of its inputs on one device.
        results: the shapes of its outputs on one device; empty if the compiler does not say.
        work_before: the share of the program's floating-point operations that come before it, from
            0 to 1; None if the length of a loop is unknown.
        operation: how a reduction combines data, as HLO names it.
        dtypes: the types of its inputs, as HLO names them.
        widened: the wider types that are sent in their place where CPUs stand for other machines;
            empty if they are sent as they are. Bytes are those of `dtypes`.
        op_names: for each of its inputs, the path of JAX's names to what it comes from, such as
            `jit(step)/transpose(jvp(Decoder))/dot_general`.
        is_asynchronous: whether other work is scheduled between its start and its end.
        axis_sizes: the sizes of its mesh axes; empty if it has none.
        torus_passes: how often a permutation's buffer passes the busiest link of a torus, in the
            time that both directions take: twice if each device sends to the next one, which uses
            one direction.
    """

    kind: str
    axes: tuple[str, ...]
    groups: Groups
    bytes_in: int
    bytes_out: int
    times: int | None = 1
    is_conditional: bool = False
    stack: tuple[Frame, ...] = ()
    argument: int | None = None
    names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    results: tuple[tuple[int, ...], ...] = ()
    work_before: float | None = None
    operation: str = "add"
    dtypes: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    is_asynchronous: bool = False
    branches: tuple[tuple[int, int], ...] = ()
    op_names: tuple[str, ...] = ()
    axis_sizes: tuple[int, ...] = ()
    torus_passes: float = 2

    @property
    def traits(self) -> CollectiveKind:
        """The description of its kind."""
        return KINDS[self.kind]

    @property
    def bytes(self) -> int:
        """The size of its buffer in bytes: the larger of input and output on one device."""
        return max(self.bytes_in, self.bytes_out)

    @property
    def counted_times(self) -> int:
        """The number of runs; an unknown number counts as one."""
        return 1 if self.times is None else self.times

    @property
    def total_bytes(self) -> int:
        """`bytes` times the number of runs; an unknown number of runs counts as one."""
        return self.bytes * self.counted_times

    @property
    def size(self) -> int:
        """The number of devices in a group."""
        return max(map(len, self.groups), default=1)

    @property
    def where(self) -> Frame | None:
        """The line of the user's code that caused it; None if unknown."""
        return next((f for f in self.stack if not is_own_file(f.file)), None)


class MeshLike(Protocol):
    """A mesh as reports read it: one of JAX's, or one that a dumped program names."""

    @property
    def devices(self) -> npt.NDArray[Any]:
        """Its devices, each with an `id`."""

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of its axes, in order."""


def name_axes(collective: Collective, mesh: MeshLike | None, ids: Sequence[int]) -> Collective:
    """Return a collective with device ids in its groups, and with the names of its mesh axes.

    Args:
        collective: one whose groups contain partition numbers, and that has no axes yet.
        mesh: the mesh whose axes are looked for; None if the program has none.
        ids: the id of each partition's device.
    """
    dimensions, passes = tuple[int, ...](), 2.0
    names, shape = (mesh.axis_names, mesh.devices.shape) if mesh is not None else ((), ())
    if mesh is not None and collective.traits.has_pairs:
        dimensions, passes = _dimensions_moved(collective.groups, shape)
    elif mesh is not None:
        dimensions = _dimensions_of(collective.groups, shape)
    return replace(
        collective,
        axes=tuple(names[d] for d in dimensions),
        axis_sizes=tuple(shape[d] for d in dimensions),
        torus_passes=passes,
        groups=tuple(tuple(ids[i] for i in group) for group in collective.groups),
    )


@lru_cache(maxsize=256)  # a program has many collectives, and few kinds of groups
def _dimensions_of(groups: Groups, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the mesh's dimensions whose groups are exactly these; none if there are no such."""
    wanted = {frozenset(group) for group in groups}
    grid = np.arange(math.prod(shape)).reshape(shape)
    larger_than_one = [d for d, size in enumerate(shape) if size > 1]
    for count in range(1, len(larger_than_one) + 1):
        for chosen in combinations(larger_than_one, count):
            if {frozenset(group) for group in groups_along(grid, chosen)} == wanted:
                return chosen
    return ()


def groups_along(mesh: npt.NDArray[Any], dimensions: Sequence[int]) -> Groups:
    """Return the groups of a mesh whose members differ only along some of its dimensions.

    Args:
        mesh: the number of the device, or of the partition, at each place of the mesh.
        dimensions: the dimensions, the one that changes fastest within a group last.
    """
    others = [d for d in range(mesh.ndim) if d not in dimensions]
    size = math.prod(mesh.shape[d] for d in dimensions)
    rows = mesh.transpose(*others, *dimensions).reshape(-1, size)
    return tuple(tuple(row) for row in rows.tolist())


@lru_cache(maxsize=256)
def _dimensions_moved(pairs: Groups, shape: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
    """Return the dimensions along which a permutation moves data, and its `torus_passes`.

    A block goes along one dimension after the other, the shorter way round each ring, and half of
    it each way if both are as long.
    """
    moved, carried = set[int](), defaultdict[tuple[int, tuple[int, ...], int], float](float)
    for source, target in pairs:
        position, goal = (list(map(int, np.unravel_index(i, shape))) for i in (source, target))
        for d, size in enumerate(shape):
            there = (goal[d] - position[d]) % size
            for direction, steps in ((1, there), (-1, (size - there) % size)):
                if 0 < 2 * steps <= size:
                    moved.add(d)
                    for step in range(steps):
                        link = position.copy()
                        link[d] = (position[d] + direction * step) % size
                        carried[d, tuple(link), direction] += 0.5 if 2 * steps == size else 1
            position[d] = goal[d]
    return tuple(sorted(moved)), 2 * max(carried.values(), default=0)


@dataclass(frozen=True)
class Machine:
    """A machine, with the published speeds of one chip.

    Attributes:
        link: bandwidth in bytes per second with which a chip sends in a ring along one mesh axis,
            in both directions together.
        flops: dense bfloat16 floating-point operations per second.
        memory: bandwidth of its own memory in bytes per second.
        source: where these numbers are published.
        torus: the dimensions of the torus that its chips form; 0 if they are behind a switch. In
            a torus, each mesh axis is assumed to be a ring with wraparound links. Along an open row
            of chips, an all-gather takes twice as long.
    """

    name: str
    link: float
    flops: float
    memory: float
    source: str
    torus: int = 0


INT8_SPEED: Final = 2
"""The number of 8-bit integer products that a chip does in the time of one in bfloat16.

It is 393 to 197 trillion a second for TPU v5e, 918 to 459 for TPU v5p and 1,979 to 989 for H100.
"""

MACHINES: Final = {
    machine.name: machine
    for machine in (
        # 400 GB/s between chips in both directions together, over four ports: 50 GB/s out of each
        # port. A ring along one axis of the torus runs in both directions, out of two ports.
        Machine("TPU v5e", 100e9, 197e12, 819e9, "https://docs.cloud.google.com/tpu/docs/v5e", 2),
        # 1,200 GB/s in both directions, over six ports: 100 GB/s out of each, two of them used.
        Machine("TPU v5p", 200e9, 459e12, 2765e9, "https://docs.cloud.google.com/tpu/docs/v5p", 3),
        # NVLink's 900 GB/s are both directions together; the operations are without sparsity.
        Machine(
            "H100 NVLink", 450e9, 989e12, 3350e9, "https://www.nvidia.com/en-us/data-center/h100/"
        ),
        # The same chip if it can send only through one port of 100 Gbit/s.
        Machine("H100 100G Ethernet", 12.5e9, 989e12, 3350e9, "IEEE 802.3bj-2014: 100 Gbit/s"),
    )
}
"""Machines by name. A test derives each number from what its source publishes."""


def explain_unknown_machine(name: object) -> str:
    """Return the error message for an unknown machine."""
    listed = ", ".join(map(repr, MACHINES))
    if not isinstance(name, str):
        return f"A machine is a name, one of {listed}, but got {type(name).__name__}."
    known = {each.lower(): each for each in MACHINES}
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    meant = f" Did you mean {known[near[0]]!r}?" if near else ""
    return f"There is no machine {name!r} here; there are {listed}.{meant}"


def take_costliest_branches(
    collectives: Iterable[Collective], cost: Callable[[Collective], float]
) -> list[Collective]:
    """Return the collectives that run if each conditional takes its dearest branch, in order.

    Args:
        collectives: collectives of one program.
        cost: what all runs of a collective cost.
    """
    given = list(collectives)
    taken = {id(c) for c in _take_dearest(given, cost, 0)}
    return [c for c in given if id(c) in taken]


def _take_dearest(
    collectives: Sequence[Collective], cost: Callable[[Collective], float], depth: int
) -> list[Collective]:
    taken, branches = list[Collective](), dict[int, dict[int, list[Collective]]]()
    for c in collectives:
        if len(c.branches) == depth:
            taken.append(c)
        else:
            conditional, branch = c.branches[depth]
            branches.setdefault(conditional, {}).setdefault(branch, []).append(c)
    for each in branches.values():
        choices = [_take_dearest(inside, cost, depth + 1) for inside in each.values()]
        taken += max(choices, key=lambda chosen: sum(map(cost, chosen)))
    return taken


def wire_bytes(collective: Collective) -> float:
    """Return the bytes that each device sends in one run of a collective, by the formulas above.

    A ragged all-to-all decides at run time how much of its input it sends. This is what it sends if
    all pieces are equal; its output has room for more.
    """
    passes, n = collective.traits.ring_passes, collective.size
    return passes * (n - 1) / n * _buffer(collective) if passes else float(collective.bytes)


def count_sent_bytes(collective: Collective) -> float:
    """Return the bytes that each device sends in all runs of a collective.

    An unknown number of runs counts as one.
    """
    return collective.counted_times * wire_bytes(collective)


def _buffer(collective: Collective) -> int:
    is_ragged = collective.kind == CollectiveKind.RAGGED_ALL_TO_ALL
    return collective.bytes_in if is_ragged else collective.bytes


def communication_seconds(collective: Collective, machine: Machine) -> float:
    """Return the time of all runs of a collective on a machine whose links are otherwise idle.

    Args:
        collective: the collective; an unknown number of runs counts as one.
        machine: one of `MACHINES`, or one of your own.
    """
    load = _torus_load(collective, machine.torus) if machine.torus else wire_bytes(collective)
    return collective.counted_times * load / machine.link


def _torus_load(collective: Collective, dimensions: int) -> float:
    """Return the bytes that a chip's links along one axis carry, in both directions together.

    In a ring of `n`, a piece of an all-to-all travels `n / 4` hops in the mean: `n² / 4` of them,
    rounded down, for the `n` pieces of a device.
    """
    sizes = sorted(collective.axis_sizes or (collective.size,))
    while len(sizes) > dimensions:  # two mesh axes are one of the torus
        sizes = sorted([sizes[0] * sizes[1], *sizes[2:]])
    match collective.kind:
        case CollectiveKind.ALL_TO_ALL | CollectiveKind.RAGGED_ALL_TO_ALL:
            longest = sizes[-1]
            return _buffer(collective) * (longest**2 // 4) / longest
        case CollectiveKind.COLLECTIVE_PERMUTE:
            return collective.bytes * collective.torus_passes
        case CollectiveKind.COLLECTIVE_BROADCAST:
            return collective.bytes
        case _:
            return wire_bytes(collective) / len(sizes)
