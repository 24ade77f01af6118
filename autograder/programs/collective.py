"""A collective: which devices talk to each other, about how many bytes, and what it costs.

In a ring of `n` devices each passes on, `n - 1` times, one `n`-th of the whole buffer `V`. An
all-gather, a reduce-scatter and an all-to-all therefore send `(n - 1) / n * V` from each device; an
all-reduce is a reduce-scatter and then an all-gather, so twice that; a permutation and a broadcast
send the buffer once. (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH", 2005, section 4.) Latency is left out: these are times of large buffers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from autograder.collective_kinds import KINDS, CollectiveKind

PACKAGE: Final = str(Path(__file__).parents[1])
"""Where this package's own lines are, which are none of the learner's."""

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Frame:
    """A line of source that an instruction comes from."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Collective:
    """One collective of a compiled program.

    Attributes:
        kind: HLO's name of its kind, one of `KINDS`.
        axes: the mesh axes it runs over, in the mesh's order; empty where no axes of the mesh
            make its groups.
        groups: the ids of the devices that talk to each other; for a permutation, pairs of source
            and target.
        bytes_in: bytes that it takes on each device.
        bytes_out: bytes that it gives on each device.
        times: how often it runs; None where a loop's count is unknown.
        sometimes: whether it stands in a branch that need not be taken.
        stack: the lines of source that caused it, the innermost first.
        argument: the number of the compiled program's parameter that it takes as it came, moved at
            most; None where it takes what was computed.
        operation: how a reduction combines data, as HLO names it.
        dtypes: the types of what it takes, as HLO names them.
        asynchronous: whether it has a beginning and an end, between which there is something else
            to be done.
    """

    kind: str
    axes: tuple[str, ...]
    groups: Groups
    bytes_in: int
    bytes_out: int
    times: int | None = 1
    sometimes: bool = False
    stack: tuple[Frame, ...] = ()
    argument: int | None = None
    operation: str = "add"
    dtypes: tuple[str, ...] = ()
    asynchronous: bool = False

    @property
    def traits(self) -> CollectiveKind:
        """What is known of its kind."""
        return KINDS[self.kind]

    @property
    def bytes(self) -> int:
        """The bytes of the whole buffer on each device: what was gathered, or is scattered."""
        return max(self.bytes_in, self.bytes_out)

    @property
    def total_bytes(self) -> int:
        """`bytes` times the number of runs; a loop whose count is unknown counts once."""
        return self.bytes * (1 if self.times is None else self.times)

    @property
    def size(self) -> int:
        """How many devices talk to each other."""
        return max(map(len, self.groups), default=1)

    @property
    def where(self) -> Frame | None:
        """The line of the learner's code that caused it, if the program says so."""
        return next((f for f in self.stack if not f.file.startswith(PACKAGE)), None)


def named(collective: Collective, mesh: jax.sharding.Mesh | None, ids: Sequence[int]) -> Collective:
    """The same, with devices in place of partitions, and the axes by name.

    Args:
        collective: one whose groups are of partition numbers.
        mesh: the mesh that has the names, if there is one.
        ids: the device of each partition.
    """
    axes: tuple[str, ...] = ()
    if mesh is not None:
        shape = mesh.devices.shape
        if collective.traits.in_pairs:
            axes = _axes_moved(collective.groups, shape, mesh.axis_names)
        else:
            axes = _axes_of(collective.groups, shape, mesh.axis_names)
    groups = tuple(tuple(ids[i] for i in group) for group in collective.groups)
    return replace(collective, axes=axes, groups=groups)


def _axes_of(groups: Groups, shape: tuple[int, ...], names: Sequence[str]) -> tuple[str, ...]:
    """The axes along which the members of each group differ, if those make just these groups."""
    wanted = {frozenset(group) for group in groups}
    grid = np.arange(math.prod(shape)).reshape(shape)
    real = [d for d, size in enumerate(shape) if size > 1]
    for count in range(1, len(real) + 1):
        for chosen in combinations(real, count):
            if {frozenset(group) for group in groups_along(grid, chosen)} == wanted:
                return tuple(names[d] for d in chosen)
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


def _axes_moved(pairs: Groups, shape: tuple[int, ...], names: Sequence[str]) -> tuple[str, ...]:
    """The axes along which a permutation moves anything."""
    moved: set[int] = set()
    for source, target in pairs:
        one, other = np.unravel_index(source, shape), np.unravel_index(target, shape)
        moved |= {d for d in range(len(shape)) if one[d] != other[d]}
    return tuple(names[d] for d in sorted(moved))


@dataclass(frozen=True)
class Machine:
    """A machine, by its published speeds, each for one chip.

    Attributes:
        name: what it is called.
        link: bytes a second that a chip sends while it passes a buffer round a ring along one
            mesh axis.
        flops: floating-point operations a second, bfloat16, dense.
        memory: bytes a second from its own memory.
        source: where the numbers are published.
    """

    name: str
    link: float
    flops: float
    memory: float
    source: str


MACHINES: Final = {
    machine.name: machine
    for machine in (
        # 400 GB/s between chips, both ways together, over four ports: 50 GB/s out of each. A ring
        # along one axis of the torus goes both ways round, out of two ports.
        Machine("TPU v5e", 100e9, 197e12, 819e9, "https://docs.cloud.google.com/tpu/docs/v5e"),
        # 1,200 GB/s, both ways together, over six ports: 100 GB/s out of each, two of them used.
        Machine("TPU v5p", 200e9, 459e12, 2765e9, "https://docs.cloud.google.com/tpu/docs/v5p"),
        # NVLink's 900 GB/s are both ways together; the operations are without sparsity.
        Machine(
            "H100 NVLink", 450e9, 989e12, 3350e9, "https://www.nvidia.com/en-us/data-center/h100/"
        ),
        # The same chip where all that leaves it goes through one port of 100 Gbit/s.
        Machine("H100 100G Ethernet", 12.5e9, 989e12, 3350e9, "IEEE 802.3bj-2014: 100 Gbit/s"),
    )
}
"""Machines by name. A test says for each that its numbers follow from what its source publishes."""


def no_such_machine(name: object) -> str:
    """What is said where a machine is asked for that there is none of."""
    listed = ", ".join(map(repr, MACHINES))
    if not isinstance(name, str):
        return f"A machine is asked for by its name, one of {listed}; {type(name).__name__} came."
    known = {each.lower(): each for each in MACHINES}
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    meant = f" Did you mean {known[near[0]]!r}?" if near else ""
    return f"There is no machine {name!r} here; there are {listed}.{meant}"


def wire_bytes(collective: Collective) -> float:
    """The bytes that one device sends in one run of a collective, by the ring formulas above.

    What a ragged all-to-all sends is decided when it runs; this is the most that it can.
    """
    passes, n = collective.traits.ring_passes, collective.size
    return passes * (n - 1) / n * collective.bytes if passes else float(collective.bytes)


def seconds(collective: Collective, machine: Machine) -> float:
    """The time that all runs of a collective take on a machine, its links busy with nothing else.

    Args:
        collective: what is sent; a loop whose count is unknown counts once.
        machine: one of `MACHINES`, or one of your own.
    """
    times = 1 if collective.times is None else collective.times
    return times * wire_bytes(collective) / machine.link
