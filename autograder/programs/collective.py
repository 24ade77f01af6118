"""A collective: which devices of a program talk to each other, and about how many bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Final

import jax
import numpy as np

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
            outer = [d for d in range(len(shape)) if d not in chosen]
            rows = grid.transpose(*outer, *chosen).reshape(-1, math.prod(shape[d] for d in chosen))
            if {frozenset(row) for row in rows.tolist()} == wanted:
                return tuple(names[d] for d in chosen)
    return ()


def _axes_moved(pairs: Groups, shape: tuple[int, ...], names: Sequence[str]) -> tuple[str, ...]:
    """The axes along which a permutation moves anything."""
    moved: set[int] = set()
    for source, target in pairs:
        one, other = np.unravel_index(source, shape), np.unravel_index(target, shape)
        moved |= {d for d in range(len(shape)) if one[d] != other[d]}
    return tuple(names[d] for d in sorted(moved))
