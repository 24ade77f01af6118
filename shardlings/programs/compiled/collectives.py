"""Read the collectives of a compiled program.

Kinds are canonical, however the backend spells them. An all-reduce of which each device goes on to
use only its own slice is a reduce-scatter (`reduce_scatters`), and a pair of `-start` and `-done`
is one collective.

XLA combines collectives of one kind into one instruction, such as the all-reduces of all gradients
and of the loss. Such an instruction is read as its parts: those that are of the same kind, and come
from the same line, are one collective. What a part is does not depend on what it is combined with.

An asynchronous collective of a TPU is one collective, too. Its compiler starts a large one in a
fusion, with a custom call beside it, continues it in fusions that compute something else, and ends
it in another one, again with a custom call. Each of these fusions contains the collective, and
hands its operand on to the next.
"""

from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from shardlings.collective_kinds import KINDS, CollectiveKind
from shardlings.programs.collective import Collective, Frame, Groups, MeshLike, name_axes
from shardlings.programs.compiled.flop_counts import find_work_before
from shardlings.programs.compiled.hlo import (
    CompiledProgram,
    Computation,
    Instruction,
    count_bytes,
    find_root,
)
from shardlings.programs.compiled.reduce_scatters import MOVES, Scope, keeps_own_slice
from shardlings.programs.compiled.run_counts import count_runs
from shardlings.programs.compiled.widened_types import find_requested_type

IN_PIECES: Final = (CollectiveKind.ALL_TO_ALL, CollectiveKind.RAGGED_ALL_TO_ALL)
"""The kinds whose operands may be the pieces of one array."""

ASYNC_START: Final = "AsyncCollectiveStart"
"""The custom call by which a TPU's compiler starts a collective in a fusion."""

NOT_REDUCING: Final = tuple(kind for kind in CollectiveKind if not kind.reduces)
MOVES_OR_SENDS: Final = (
    *MOVES, "transpose", "slice", "optimization-barrier", *NOT_REDUCING,
    *(f"{kind}-{half}" for kind in NOT_REDUCING for half in ("start", "done")),
)  # fmt: skip
"""The opcodes whose result is data of their operand, rearranged or exchanged between devices."""


def read_collectives(
    program: CompiledProgram, mesh: MeshLike | None = None, *, is_emulated: bool = False
) -> list[Collective]:
    """Return the collectives of a compiled program, in order.

    Args:
        program: the compiled program.
        mesh: the mesh that names the axes; its devices, in order, are the program's partitions.
            Without it, groups are of partition numbers, and axes have no names.
        is_emulated: whether it was compiled for CPUs that stand for other machines. Bytes are then
            those of the types that it requests, and not of the wider ones that a CPU needs.

    Raises:
        UnreadableProgramError: an instruction of an unknown kind calls a collective.
    """
    device_ids = [device.id for device in mesh.devices.flat] if mesh is not None else []
    if len(device_ids) != program.partitions:
        mesh, device_ids = None, list(range(program.partitions))
    starts = {
        number: start
        for computation in program.computations.values()
        for number, start in find_starts(program, computation).items()
    }
    asynchronous = {
        called
        for computation in program.computations.values()
        for instruction in computation.values()
        if instruction.opcode == "async-start"
        for called in instruction.called
    }
    work_before = find_work_before(program)
    parameters = {
        step.index: step.name
        for step in program.computations[program.entry].values()
        if step.opcode == "parameter"
    }
    collectives = []
    for runs in count_runs(program):
        scope = Scope.of(program, runs.computation)
        arguments = find_arguments(program, runs.computation)
        names = {n: parameters[index] for n, index in arguments.items() if index is not None}
        for instruction in scope.computation.values():
            if starts.get(instruction.number, instruction.number) != instruction.number:
                continue  # it was counted where it started
            is_split = instruction.opcode.endswith("-start") or instruction.number in starts
            is_asynchronous = is_split and not instruction.is_synchronous
            for part in _find_parts(scope, instruction, is_emulated):
                collective = replace(
                    _read_part(scope, instruction, part),
                    times=runs.times,
                    is_conditional=bool(runs.branches),
                    branches=runs.branches,
                    argument=arguments.get(part.operands[0]) if len(part.operands) == 1 else None,
                    names=tuple(names.get(operand, "") for operand in part.operands),
                    work_before=work_before.get(instruction.number),
                    is_asynchronous=is_asynchronous or runs.computation in asynchronous,
                )
                collectives.append(name_axes(collective, mesh, device_ids))
    return collectives


class Part(NamedTuple):
    """Operands and results of an instruction that are one collective.

    Attributes:
        kind: the kind of collective.
        stack: the lines of source that it comes from.
        operands: the numbers of its operands.
        arrays: the type and the shape of each of its results, if the instruction has them.
        dtypes: the type of each array in its operands, as it is counted.
        op_names: for each of its operands, the path of JAX's names to what it comes from.
    """

    kind: str
    stack: tuple[Frame, ...]
    operands: tuple[int, ...]
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    dtypes: tuple[str, ...]
    op_names: tuple[str, ...]


def _find_parts(scope: Scope, instruction: Instruction, is_emulated: bool) -> list[Part]:
    """Return the collectives that an instruction is; none if no two partitions exchange anything.

    An all-to-all is one, because its operands may be the pieces of one array.
    """
    kind, groups = instruction.collective_kind, instruction.groups
    if kind is None or not _communicates(kind, groups):
        return []
    operands, arrays = instruction.operands, instruction.arrays
    stack = _find_stack(scope.computation, instruction)
    is_combined = len(operands) > 1 and kind not in IN_PIECES
    if not is_combined:
        its_kind = _canonical(scope, instruction, groups, kind)
        dtypes = [_find_dtypes(scope, each, instruction, is_emulated) for each in operands]
        op_names = (instruction.op_name,) * len(operands)
        return [Part(its_kind, stack, operands, arrays, tuple(chain(*dtypes)), op_names)]
    starts = instruction.opcode.endswith("-start")
    elements = _find_elements(scope, instruction)
    places: dict[tuple[str, tuple[Frame, ...]], list[int]] = {}
    named = {place: element.op_name for place, element in elements.items() if element.stack}
    for place in range(len(operands)):
        element = elements.get(place)
        its_kind = kind if element is None else _canonical(scope, element, groups, kind)
        its_stack = element.stack if element is not None and element.stack else stack
        places.setdefault((its_kind, its_stack), []).append(place)
    return [
        Part(
            its_kind,
            its_stack,
            tuple(operands[place] for place in its),
            () if starts else tuple(arrays[place] for place in its),
            tuple(
                dtype
                for place in its
                for dtype in _find_dtypes(scope, operands[place], elements.get(place), is_emulated)
            ),
            tuple(named.get(place, instruction.op_name) for place in its),
        )
        for (its_kind, its_stack), its in places.items()
    ]


def _find_dtypes(
    scope: Scope, operand: int, result: Instruction | None, is_emulated: bool
) -> tuple[str, ...]:
    """Return the types of an operand's arrays, as they are counted; most are one array."""
    arrays = scope.computation[operand].arrays
    if is_emulated and len(arrays) == 1:
        return (find_requested_type(scope, operand, result),)
    return tuple(dtype for dtype, _ in arrays)


def _communicates(kind: str, groups: Groups) -> bool:
    if KINDS[kind].has_pairs:
        return any(source != target for source, target in groups)
    return max(map(len, groups), default=1) > 1


def _canonical(scope: Scope, result: Instruction, groups: Groups, kind: str) -> str:
    """Return a collective's kind, given its result."""
    if kind == CollectiveKind.ALL_REDUCE and keeps_own_slice(scope, result, groups):
        return CollectiveKind.REDUCE_SCATTER
    return kind


def _find_elements(scope: Scope, instruction: Instruction) -> dict[int, Instruction]:
    """Return the results of a combined collective, as they are taken from its tuple."""
    users = scope.users(instruction.number)
    ends = [user for user in users if user.opcode == f"{instruction.collective_kind}-done"]
    taken = [*users, *(user for end in ends for user in scope.users(end.number))]
    return {user.index: user for user in taken if user.opcode == "get-tuple-element"}


def _read_part(scope: Scope, instruction: Instruction, part: Part) -> Collective:
    """Read a collective, in terms of partitions."""
    operands = [scope.computation[number] for number in part.operands]
    size = max(map(len, instruction.groups))
    arrays = [array for operand in operands for array in operand.arrays]
    compiled, shapes = tuple(dtype for dtype, _ in arrays), tuple(shape for _, shape in arrays)
    bytes_in = sum(map(count_bytes, part.dtypes, shapes))
    # each result has the type of its operand, or all the same one
    is_paired = len(part.arrays) == len(part.dtypes)
    counted = part.dtypes if is_paired else part.dtypes[:1] * len(part.arrays)
    bytes_out = sum(map(count_bytes, counted, (shape for _, shape in part.arrays)))
    if instruction.opcode.endswith("-start"):
        # its result contains the operands, and whatever the backend needs in order to wait
        bytes_out = _bytes_after(str(instruction.collective_kind), bytes_in, size)
    if part.kind != instruction.collective_kind:
        bytes_out //= size
    return Collective(
        part.kind,
        (),
        instruction.groups,
        bytes_in,
        bytes_out,
        stack=part.stack,
        shapes=shapes,
        results=tuple(shape for _, shape in part.arrays) if part.kind == instruction.opcode else (),
        operation=_find_reduction(scope.program, instruction),
        dtypes=part.dtypes,
        op_names=part.op_names,
        widened=compiled if compiled != part.dtypes else (),
    )


def _bytes_after(kind: str, bytes_in: int, group_size: int) -> int:
    growth = KINDS[kind].growth
    return bytes_in * group_size if growth > 0 else bytes_in // group_size if growth else bytes_in


def _find_reduction(program: CompiledProgram, instruction: Instruction) -> str:
    """Return the opcode that combines two numbers; some backends convert them before and after."""
    opcodes = [step.opcode for step in program.called(instruction).values()]
    ignored = ("parameter", "convert", "tuple")
    return next((opcode for opcode in reversed(opcodes) if opcode not in ignored), "add")


def _find_stack(computation: Computation, instruction: Instruction) -> tuple[Frame, ...]:
    """Return the stack frames of a collective, or else of the first instruction that uses it.

    A collective that moves an argument before anything is computed may have none itself.
    """
    steps = iter(computation.values())
    moved = {next(step.number for step in steps if step is instruction)}
    stack = instruction.stack
    for step in steps:  # users of a value come after it
        if stack:
            break
        if moved.intersection(step.operands):
            stack = step.stack
            moved.add(step.number)
    return stack


def find_starts(program: CompiledProgram, computation: Computation) -> dict[int, int]:
    """Map each collective that fusions start or continue to the collective that it started as.

    A fusion continues a collective if it takes the collective's operand from the fusion before,
    which returns it unchanged.

    Args:
        program: the compiled program.
        computation: the computation that contains the fusions.

    Returns:
        Numbers of instructions. A collective that starts is mapped to itself.
    """
    starts: dict[int, int] = {}
    handed_on: dict[tuple[int, int], Instruction] = {}  # by fusion and element of its result
    for fusion in computation.values():
        if fusion.opcode != "fusion":
            continue
        steps = program.called(fusion)
        for step in steps.values():
            if step.opcode not in KINDS or len(step.operands) != 1:
                continue
            operand = steps[step.operands[0]]
            if _starts_here(steps, step):
                starts[step.number] = step.number
                handed_on[fusion.number, 0] = step
            elif operand.opcode == "parameter":
                source = computation[fusion.operands[operand.index]]
                if source.opcode != "get-tuple-element":
                    continue
                earlier = handed_on.get((source.operands[0], source.index))
                if earlier is not None and _is_same_collective(earlier, step):
                    starts[step.number] = starts[earlier.number]
                    for place, number in enumerate(find_root(steps).operands):
                        if number == operand.number:
                            handed_on[fusion.number, place] = step
    return starts


def _starts_here(steps: Computation, collective: Instruction) -> bool:
    last = find_root(steps)
    return last.custom_call_target == ASYNC_START and collective.number in last.operands


def _is_same_collective(one: Instruction, other: Instruction) -> bool:
    return (one.opcode, one.arrays, one.groups) == (other.opcode, other.arrays, other.groups)


def find_arguments(program: CompiledProgram, computation: int) -> dict[int, int | None]:
    """Map the instructions whose result is an argument's data, unchanged, to the argument's number.

    Arguments are those of the compiled program, from which unused ones may have been removed.

    Args:
        program: the compiled program.
        computation: the number of the computation that contains the instructions.
    """
    arguments: dict[int, int | None] = {}
    if computation != program.entry:
        return arguments
    for number, instruction in program.computations[computation].items():
        if instruction.opcode == "parameter":
            arguments[number] = instruction.index
        elif len(instruction.operands) == 1 and _only_moves(program, instruction):
            arguments[number] = arguments.get(instruction.operands[0])
    return arguments


def _only_moves(program: CompiledProgram, instruction: Instruction) -> bool:
    """Check whether an instruction returns its operand's data and computes nothing."""
    if instruction.opcode != "fusion":
        return instruction.opcode in MOVES_OR_SENDS
    steps = [i for i in program.called(instruction).values() if i.opcode != "parameter"]
    return len(instruction.operands) == 1 and all(step.opcode in MOVES_OR_SENDS for step in steps)
