"""Collectives: what a compiled program says to whom.

Read from the program's instructions, whatever their names. Kinds are canonical: an all-reduce of
which each device goes on to use only its own slice is a reduce-scatter, however the backend spells
it (XLA's CPU compiler never emits one by itself); a pair of `-start` and `-done` is one collective.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import jax

from autograder.programs.collective import KINDS, Collective, Frame, named
from autograder.programs.compiled import hlo
from autograder.programs.compiled.argument_origins import arguments_of
from autograder.programs.compiled.reduce_scatters import Scope, keeps_own_slice
from autograder.programs.compiled.replica_groups import listed_groups, replica_groups
from autograder.programs.compiled.trip_counts import trip_count


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
    for name, times, sometimes in runs(program):
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


def runs(program: hlo.Program) -> Iterator[tuple[str, int | None, bool]]:
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
        groups = listed_groups(instruction.attributes["source_target_pairs"])
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


def _stack(scope: Scope, instruction: hlo.Instruction) -> tuple[Frame, ...]:
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
