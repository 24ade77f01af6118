"""Read the collectives of a compiled program.

Read from the program's instructions, whatever their names. Kinds are canonical: an all-reduce of
which each device goes on to use only its own slice is a reduce-scatter, however the backend spells
it (XLA's CPU compiler never emits one by itself); a pair of `-start` and `-done` is one collective,
and so is what a TPU's compiler begins, goes on with and ends in several fusions.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import jax

from autograder.collective_kinds import KINDS, CollectiveKind
from autograder.programs.collective import Collective, Frame, named
from autograder.programs.compiled.argument_origins import arguments_of
from autograder.programs.compiled.async_fusions import goes_on
from autograder.programs.compiled.hlo import Instruction, Program
from autograder.programs.compiled.reading_modules import UnreadableProgramError
from autograder.programs.compiled.reduce_scatters import Scope, keeps_own_slice
from autograder.programs.compiled.trip_counts import trip_count

CALLS: Final = ("fusion", "call", "conditional", "async-start")
"""What runs the computations that it names, once or not at all."""

SAYS_AGAIN: Final = ("async-update", "async-done")
"""What names again the computation that an `async-start` runs."""


def read(program: Program, mesh: jax.sharding.Mesh | None = None) -> list[Collective]:
    """The collectives of a compiled program, in the order in which they stand.

    Args:
        program: the compiled program.
        mesh: the mesh that names the axes; its devices in order are the program's partitions.
            Without it, groups are of partition numbers, and axes have no names.
    """
    ids = [device.id for device in mesh.devices.flat] if mesh is not None else []
    if len(ids) != program.partitions:
        mesh, ids = None, list(range(program.partitions))
    begun = {
        number: first
        for computation in program.computations.values()
        for number, first in goes_on(program, computation).items()
    }
    apart = {
        called
        for computation in program.computations.values()
        for instruction in computation.values()
        if instruction.opcode == "async-start"
        for called in instruction.called
    }
    found = []
    for number, times, sometimes in runs(program):
        scope = Scope(program, program.computations[number])
        arguments = arguments_of(program, number)
        for instruction in scope.computation.values():
            if begun.get(instruction.number, instruction.number) != instruction.number:
                continue  # it was counted where it began
            kind = _kind(instruction)
            collective = _collective(scope, instruction, kind) if kind is not None else None
            if collective is not None:
                alone = len(instruction.operands) == 1
                argument = arguments.get(instruction.operands[0]) if alone else None
                halves = instruction.opcode.endswith("-start") or instruction.number in begun
                collective = replace(
                    collective,
                    times=times,
                    sometimes=sometimes,
                    argument=argument,
                    asynchronous=halves or number in apart,
                )
                found.append(named(collective, mesh, ids))
    return found


def runs(program: Program) -> Iterator[tuple[int, int | None, bool]]:
    """Each computation that runs, by its number, how often, and whether it may be left out.

    Raises:
        UnreadableProgramError: what is not known here to call computations calls a collective.
    """
    waiting: list[tuple[int, int | None, bool]] = [(program.entry, 1, False)]
    while waiting:
        number, times, sometimes = waiting.pop(0)
        yield number, times, sometimes
        for instruction in program.computations[number].values():
            if instruction.opcode == "while":
                count = trip_count(program, program.computations[number], instruction)
                for called, extra in zip(instruction.called, (0, 1), strict=True):
                    inner = None if times is None or count is None else times * (count + extra)
                    waiting.append((called, inner, sometimes))
            elif instruction.opcode in CALLS:
                maybe = sometimes or instruction.opcode == "conditional"
                waiting += [(called, times, maybe) for called in instruction.called]
            elif instruction.opcode not in SAYS_AGAIN and _talks(program, instruction):
                raise UnreadableProgramError(f"A {instruction.opcode!r} calls a collective.")


def _talks(program: Program, instruction: Instruction) -> bool:
    """Whether there is a collective in what an instruction calls, or in what that calls."""
    waiting, seen = list(instruction.called), set[int]()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            for step in program.computations[number].values():
                if _kind(step) is not None:
                    return True
                waiting += step.called
    return False


def _kind(instruction: Instruction) -> str | None:
    """The kind of collective that an instruction is or begins, if it is one."""
    kind = instruction.opcode.removesuffix("-start")
    return kind if kind in KINDS else None


def _collective(scope: Scope, instruction: Instruction, kind: str) -> Collective | None:
    """What one instruction says, between partitions; None where each talks to itself alone."""
    groups = instruction.groups
    if KINDS[kind].in_pairs:
        talk = any(source != target for source, target in groups)
    else:
        talk = max(map(len, groups), default=1) > 1
    if not talk:
        return None
    bytes_in = sum(sum(scope.computation[o].sizes) for o in instruction.operands)
    bytes_out = sum(instruction.sizes)
    if instruction.opcode.endswith("-start"):
        # The result holds the operands too, and whatever the backend needs to wait for.
        bytes_out = _size_of_start(kind, bytes_in, max(map(len, groups)))
    if kind == CollectiveKind.ALL_REDUCE and keeps_own_slice(scope, instruction, groups):
        kind, bytes_out = CollectiveKind.REDUCE_SCATTER, bytes_out // max(map(len, groups))
    return Collective(
        kind,
        (),
        groups,
        bytes_in,
        bytes_out,
        stack=_stack(scope, instruction),
        operation=_operation(scope, instruction),
        dtypes=tuple(d for o in instruction.operands for d, _ in scope.computation[o].arrays),
    )


def _operation(scope: Scope, instruction: Instruction) -> str:
    """How a reduction combines two numbers; some backends convert them before and after."""
    steps = [step.opcode for step in scope.program.called(instruction).values()]
    return next((s for s in reversed(steps) if s not in ("parameter", "convert", "tuple")), "add")


def _stack(scope: Scope, instruction: Instruction) -> tuple[Frame, ...]:
    """The lines of source that caused a collective: its own, or else of who first uses its result.

    Of what moves an argument before anything was computed, XLA may keep the argument's name alone.
    """
    steps = iter(scope.computation.items())
    given = {next(number for number, step in steps if step is instruction)}
    stack = instruction.stack
    while not stack and (following := next(steps, None)) is not None:  # users stand further down
        number, step = following
        if given.intersection(step.operands):
            stack = step.stack
            given.add(number)
    return stack


def _size_of_start(kind: str, bytes_in: int, parts: int) -> int:
    growth = KINDS[kind].growth
    return bytes_in * parts if growth > 0 else bytes_in // parts if growth else bytes_in
