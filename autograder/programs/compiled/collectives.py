"""Read the collectives of a compiled program.

Read from the program's instructions, whatever their names. Kinds are canonical: an all-reduce of
which each device goes on to use only its own slice is a reduce-scatter, however the backend spells
it (XLA's CPU compiler never emits one by itself); a pair of `-start` and `-done` is one collective,
and so is what a TPU's compiler begins, goes on with and ends in several fusions.

A TPU's compiler begins a large collective in one fusion, with a custom call beside it, goes on with
it in fusions that compute something else, and ends it in another, with a custom call again. Each of
them names the collective, with the same operand handed from one to the next.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import jax

from autograder.collective_kinds import KINDS, CollectiveKind
from autograder.programs.collective import Collective, Frame, named
from autograder.programs.compiled.hlo import CompiledProgram, Computation, Instruction, root
from autograder.programs.compiled.reading_modules import UnreadableProgramError
from autograder.programs.compiled.reduce_scatters import MOVES, Scope, keeps_own_slice
from autograder.programs.compiled.trip_counts import trip_count

BEGINS: Final = "AsyncCollectiveStart"
GATHERING = tuple(kind for kind in CollectiveKind if not kind.reduces)
MOVING = (
    *MOVES, *GATHERING, *(f"{kind}-start" for kind in GATHERING),
    *(f"{kind}-done" for kind in GATHERING), "transpose", "slice", "optimization-barrier",
)  # fmt: skip
CALLS: Final = ("fusion", "call", "conditional", "async-start")
"""What runs the computations that it names, once or not at all."""

SAYS_AGAIN: Final = ("async-update", "async-done")
"""What names again the computation that an `async-start` runs."""


def goes_on(program: CompiledProgram, computation: Computation) -> dict[int, int]:
    """For each collective that goes on in a fusion of a computation, the one that it began as.

    Both by their numbers; what begins is there as well, as itself. That it is the same is seen by
    its operand: the second of the fusions takes it from the first, which hands it on as it came.

    Args:
        program: the compiled program.
        computation: the one whose fusions are asked about.
    """
    found: dict[int, int] = {}
    handed_on: dict[tuple[int, int], Instruction] = {}
    for fusion in computation.values():
        if fusion.opcode != "fusion":
            continue
        steps = program.called(fusion)
        for each in steps.values():
            if each.opcode not in KINDS or len(each.operands) != 1:
                continue
            taken = steps[each.operands[0]]
            if _is_begun(steps, each):
                found[each.number] = each.number
                handed_on[fusion.number, 0] = each
            elif taken.opcode == "parameter":
                source = computation[fusion.operands[taken.index]]
                if source.opcode != "get-tuple-element":
                    continue
                earlier = handed_on.get((source.operands[0], source.index))
                if earlier is not None and _alike(earlier, each):
                    found[each.number] = found[earlier.number]
                    for place, number in enumerate(root(steps).operands):
                        if number == taken.number:
                            handed_on[fusion.number, place] = each
    return found


def _is_begun(steps: Computation, collective: Instruction) -> bool:
    """Whether a collective begins where it stands: what begins it hands its operand on, first."""
    last = root(steps)
    return last.target == BEGINS and collective.number in last.operands


def _alike(one: Instruction, other: Instruction) -> bool:
    return (one.opcode, one.arrays, one.groups) == (other.opcode, other.arrays, other.groups)


def arguments_of(program: CompiledProgram, computation: int) -> dict[int, int | None]:
    """For each instruction, the number of the parameter whose data it gives as it came, if any.

    Parameters are those of the compiled program, from which unused arguments may be gone. Each
    instruction is looked at once: operands stand before what takes them.

    Args:
        program: the compiled program.
        computation: the number of the computation whose instructions are asked about.
    """
    found: dict[int, int | None] = {}
    if computation != program.entry:
        return found
    for number, instruction in program.computations[computation].items():
        if instruction.opcode == "parameter":
            found[number] = instruction.index
        elif len(instruction.operands) == 1 and _only_moves(program, instruction):
            found[number] = found.get(instruction.operands[0])
    return found


def _only_moves(program: CompiledProgram, instruction: Instruction) -> bool:
    """Whether an instruction gives on what it takes, and computes nothing."""
    if instruction.opcode != "fusion":
        return instruction.opcode in MOVING
    steps = [i for i in program.called(instruction).values() if i.opcode != "parameter"]
    return len(instruction.operands) == 1 and all(step.opcode in MOVING for step in steps)


def read(program: CompiledProgram, mesh: jax.sharding.Mesh | None = None) -> list[Collective]:
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


def runs(program: CompiledProgram) -> Iterator[tuple[int, int | None, bool]]:
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


def _talks(program: CompiledProgram, instruction: Instruction) -> bool:
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
