"""Collectives: what a compiled program says to whom.

Read from the program's instructions, whatever their names. Kinds are canonical: an all-reduce of
which each device goes on to use only its own slice is a reduce-scatter, however the backend spells
it (XLA's CPU compiler never emits one by itself); a pair of `-start` and `-done` is one collective.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from autograder import hlo
from autograder.loops import trip_count
from autograder.origins import arguments_of
from autograder.reduce_scatter import Scope, keeps_own_slice

KINDS: Final = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast",
)  # fmt: skip
"""The canonical kinds, as HLO spells them."""

PACKAGE: Final = str(Path(__file__).parent)
"""Where this package's own lines are, which are none of the learner's."""

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Collective:
    """One collective of a compiled program.

    Attributes:
        kind: one of `KINDS`.
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
    """

    kind: str
    axes: tuple[str, ...]
    groups: Groups
    bytes_in: int
    bytes_out: int
    times: int | None = 1
    sometimes: bool = False
    stack: tuple[hlo.Frame, ...] = ()
    argument: int | None = None

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
    def where(self) -> hlo.Frame | None:
        """The line of the learner's code that caused it, if the program says so."""
        return next((f for f in self.stack if not f.file.startswith(PACKAGE)), None)


def read(text: str, mesh: jax.sharding.Mesh | None = None) -> list[Collective]:
    """The collectives of a compiled program, in the order in which they stand.

    Args:
        text: what `compiled.as_text()` gives.
        mesh: the mesh that names the axes; its devices in order are the program's partitions.
            Without it, groups are of partition numbers, and axes have no names.
    """
    program = hlo.parse(text)
    partitions = _partitions(text)
    ids = [device.id for device in mesh.devices.flat] if mesh is not None else []
    if len(ids) != partitions:
        mesh, ids = None, list(range(partitions))
    found = []
    for name, times, sometimes in _runs(program):
        scope = Scope(program, program.computations[name])
        arguments = arguments_of(program, name)
        for instruction in scope.computation.values():
            kind = instruction.opcode.removesuffix("-start")
            if kind not in KINDS:
                continue
            collective = _collective(scope, instruction, kind, partitions)
            if collective is not None:
                alone = len(instruction.operands) == 1
                argument = arguments.get(instruction.operands[0]) if alone else None
                collective = replace(
                    collective, times=times, sometimes=sometimes, argument=argument
                )
                found.append(named(collective, mesh, ids))
    return found


def _partitions(text: str) -> int:
    header = text.split("\n", 1)[0]
    for name in ("num_partitions", "replica_count"):
        number = re.search(rf"\b{name}=(\d+)", header)
        if number:
            return int(number[1])
    return 1


def _runs(program: hlo.Program) -> Iterator[tuple[str, int | None, bool]]:
    """Each computation that runs, how often, and whether it may be left out."""
    waiting: list[tuple[str, int | None, bool]] = [(program.entry, 1, False)]
    while waiting:
        name, times, sometimes = waiting.pop(0)
        if name not in program.computations:
            continue
        yield name, times, sometimes
        for instruction in program.computations[name].values():
            if instruction.opcode == "while":
                count = trip_count(program, name, instruction)
                for key, extra in (("body", 0), ("condition", 1)):
                    inner = None if times is None or count is None else times * (count + extra)
                    called = instruction.attributes.get(key, "").removeprefix("%")
                    waiting.append((called, inner, sometimes))
            elif instruction.opcode == "conditional":
                waiting += [(called, times, True) for called in instruction.called]
            elif instruction.opcode in ("fusion", "call", "async-start"):
                waiting += [(called, times, sometimes) for called in instruction.called]


def _collective(
    scope: Scope, instruction: hlo.Instruction, kind: str, partitions: int
) -> Collective | None:
    """What one instruction says, between partitions; None where each talks to itself alone."""
    if "source_target_pairs" in instruction.attributes:
        groups = _braces(instruction.attributes["source_target_pairs"])
        talk = any(source != target for source, target in groups)
    else:
        groups = replica_groups(instruction.attributes.get("replica_groups", "{}"), partitions)
        talk = max(map(len, groups), default=1) > 1
    if not talk:
        return None
    bytes_in = sum(
        sum(scope.computation[o].sizes) for o in instruction.operands if o in scope.computation
    )
    bytes_out = sum(instruction.sizes)
    if instruction.opcode.endswith("-start"):
        # The result holds the operands too, and whatever the backend needs to wait for.
        bytes_out = _size_of_start(kind, bytes_in, max(map(len, groups)))
    if kind == "all-reduce" and keeps_own_slice(scope, instruction, groups):
        kind, bytes_out = "reduce-scatter", bytes_out // max(map(len, groups))
    return Collective(kind, (), groups, bytes_in, bytes_out, stack=_stack(scope, instruction))


def _stack(scope: Scope, instruction: hlo.Instruction) -> tuple[hlo.Frame, ...]:
    """The lines of source that caused a collective: its own, or else of who first uses its result.

    Of what moves an argument before anything was computed, XLA may keep the argument's name alone.
    """
    steps = iter(scope.computation.items())
    given = {next(name for name, step in steps if step is instruction)}
    stack = scope.program.stack(instruction)
    while not stack and (following := next(steps, None)) is not None:  # users stand further down
        name, step = following
        if given.intersection(step.operands):
            stack = scope.program.stack(step)
            given.add(name)
    return stack


def _size_of_start(kind: str, bytes_in: int, parts: int) -> int:
    return {"all-gather": bytes_in * parts, "reduce-scatter": bytes_in // parts}.get(kind, bytes_in)


def replica_groups(text: str, partitions: int) -> Groups:
    """The groups of partitions that talk to each other, from any of the forms HLO writes.

    `{{0,1},{2,3}}` lists them; `[2,4]<=[4,2]T(1,0)` counts through a transposed grid;
    `mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a':(2)2}` names axes of a mesh, or parts of one:
    `(2)2` is the two steps of an axis that has two larger ones before them.
    """
    text = text.strip()
    if text.startswith("mesh"):
        return _mesh_groups(text)
    if text.startswith("["):
        shape, _, source = text.partition("<=")
        return _rows(_counted(source).reshape(_numbers(shape)))
    groups = _braces(text)
    return groups or (tuple(range(partitions)),)


def _mesh_groups(text: str) -> Groups:
    head, _, rest = text.partition("]")
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", head)}
    order = re.search(r"device_ids=\((.*?)\) ", f"{rest} ")
    chosen = re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", rest.rpartition("{")[2])
    devices = np.arange(math.prod(sizes.values()))
    if order:
        devices = _counted(order[1]).reshape(-1)
    dimensions: list[int] = []
    inner: list[int] = []
    for name, size in sizes.items():
        parts = [(int(before), int(own)) for n, before, own in chosen if n == name and own]
        if any(n == name and not own for n, _, own in chosen):
            parts = [(1, size)]
        done = 1
        for before, own in sorted(parts):
            dimensions += [before // done, own]
            inner.append(len(dimensions) - 1)
            done = before * own
        dimensions.append(size // done)
    grid = devices.reshape(dimensions)
    outer = [d for d in range(grid.ndim) if d not in inner]
    count = math.prod(dimensions[d] for d in inner)
    return _rows(grid.transpose(*outer, *inner).reshape(-1, count))


def _counted(text: str) -> np.ndarray[Any, Any]:
    """`[4,2]T(1,0)`: the numbers from 0 on in a grid, transposed."""
    shape, _, order = text.partition("T")
    grid = np.arange(math.prod(_numbers(shape))).reshape(_numbers(shape))
    return grid.transpose(_numbers(order)) if order else grid


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _braces(text: str) -> Groups:
    return tuple(_numbers(group) for group in re.findall(r"\{([\d, ]+)\}", text))


def _rows(grid: np.ndarray[Any, Any]) -> Groups:
    return tuple(tuple(int(i) for i in row) for row in grid)


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
        if collective.kind == "collective-permute":
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
