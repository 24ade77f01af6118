"""Turn XLA's serialised module into instructions; refuse what is not understood."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from autograder.collective_kinds import KINDS
from autograder.programs.collective import Frame
from autograder.programs.compiled.convolutions import Convolution, Span
from autograder.programs.compiled.hlo import CompiledProgram, Computation, Instruction
from autograder.programs.compiled.module_proto import LAST_LOOKED_AT, decoded, form, unknown_fields
from autograder.programs.compiled.replica_groups import replica_groups

TYPES: Final = {
    1: "pred", 30: "s1", 26: "s2", 21: "s4", 2: "s8", 3: "s16", 4: "s32", 5: "s64",
    31: "u1", 27: "u2", 22: "u4", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 16: "bf16", 12: "f64", 15: "c64", 18: "c128", 14: "opaque", 17: "token",
    32: "f4e2m1fn", 29: "f8e3m4", 28: "f8e4m3", 20: "f8e4m3fn", 25: "f8e4m3fnuz",
    23: "f8e4m3b11fnuz", 19: "f8e5m2", 24: "f8e5m2fnuz", 33: "f8e8m0fnu",
}  # fmt: skip
"""XLA's numbers of types."""

TUPLES: Final = (13, 34)
"""Its numbers for what holds others: a tuple, and a buffer."""

LONGEST_CONSTANT: Final = 4096
"""The most numbers of a constant that are read: a table of one for each partition is short."""

MAX_PARTITIONS: Final = 1 << 16
"""More devices than anybody compiles for."""


class UnreadableProgramError(ValueError):
    """A compiled program is not understood: its compiler is newer than this reader, most likely."""


def program_of(executable: Any) -> CompiledProgram:
    """The instructions of a compiled program.

    Args:
        executable: what `compiled.runtime_executable()` gives.

    Raises:
        UnreadableProgramError: it holds what is not understood.
    """
    modules = executable.hlo_modules()
    if len(modules) != 1:
        raise UnreadableProgramError(f"A program of one module was expected, not {len(modules)}.")
    return read_module(modules[0].as_serialized_hlo_module_proto())


def read_module(serialised: bytes) -> CompiledProgram:
    """The instructions of a program in XLA's serialised form, in time that grows with its length.

    Args:
        serialised: an `HloModuleProto`.

    Raises:
        UnreadableProgramError: it holds what is not understood.
    """
    from google.protobuf.message import DecodeError

    try:
        return _program(decoded(serialised))
    except UnreadableProgramError:
        raise
    except (DecodeError, LookupError, ValueError, OverflowError) as error:
        raise UnreadableProgramError(f"The module is not in order: {error}") from error


def _program(module: Any) -> CompiledProgram:
    partitions = _partitions(module.device_assignment)
    stack = _stacks(module.stack_frame_index)
    orders = {entry.key: entry.value.instruction_ids for entry in module.schedule.sequences}
    program = CompiledProgram(
        {
            c.id: _computation(c, partitions, stack, orders.get(c.id, ()))
            for c in module.computations
        },
        module.entry_computation_id,
        partitions,
    )
    if len(program.computations) != len(module.computations):
        raise UnreadableProgramError("Two computations have one number.")
    called = (c for body in program.computations.values() for i in body.values() for c in i.called)
    missing = {program.entry, *called} - program.computations.keys()
    if missing:
        raise UnreadableProgramError(f"Computation {min(missing)} is called, and is not there.")
    return program


def _partitions(assignment: Any) -> int:
    """How many devices a program runs on; JAX's has one replica and many partitions, or neither."""
    partitions, replicas = int(assignment.computation_count), int(assignment.replica_count)
    if min(partitions, replicas) > 1:
        raise UnreadableProgramError("It has several partitions, and several replicas of each.")
    if max(partitions, replicas) > MAX_PARTITIONS:
        raise UnreadableProgramError(f"It has more than {MAX_PARTITIONS:,} partitions.")
    return max(partitions, replicas, 1)


Stacks = Callable[[Any], tuple[Frame, ...]]


def _computation(
    computation: Any, partitions: int, stack: Stacks, order: Sequence[int]
) -> Computation:
    """The instructions of a computation in the order in which they run, and its root last."""
    found: dict[int, Instruction] = {}
    place = {number: place for place, number in enumerate(order)}
    for each in sorted(computation.instructions, key=lambda each: place.get(each.id, 0)):
        instruction = _instruction(each, partitions, stack)
        unknown = [number for number in instruction.operands if number not in found]
        if unknown or instruction.number in found:
            raise UnreadableProgramError(
                f"Instruction {instruction.number} takes what does not stand before it, or has "
                f"the number of another."
            )
        found[instruction.number] = instruction
    if computation.root_id not in found:
        raise UnreadableProgramError("A computation has no root.")
    found[computation.root_id] = found.pop(computation.root_id)
    return found


def _instruction(each: Any, partitions: int, stack: Stacks) -> Instruction:
    opcode = each.opcode.decode()
    collective = opcode.removesuffix("-start") in KINDS
    if not collective and _has_groups(each):
        raise UnreadableProgramError(f"There are groups in a {opcode!r}, which is not known here.")
    newer = [n for n in unknown_fields(each) if n > LAST_LOOKED_AT] if collective else []
    if newer:
        raise UnreadableProgramError(f"The {opcode} has fields that are not known here: {newer}.")
    return Instruction(
        number=each.id,
        opcode=opcode,
        arrays=tuple(_arrays(each.shape)),
        operands=tuple(each.operand_ids),
        called=tuple(each.called_computation_ids),
        index=each.parameter_number if opcode == "parameter" else each.tuple_index,
        constant=_constant(each.literal) if opcode == "constant" else None,
        groups=replica_groups(each, partitions) if collective else (),
        comparison=each.comparison_direction.decode(),
        unsigned=each.comparison_type == b"UNSIGNED",
        contracting=tuple(each.dot_dimension_numbers.lhs_contracting_dimensions),
        convolution=_convolution(each) if opcode == "convolution" else None,
        target=_text(each.custom_call_target),
        lengths=tuple(each.fft_length),
        form=form(each),
        trips=_noted_trips(each.backend_config) if opcode == "while" else None,
        stack=stack(each.metadata),
    )


def _convolution(each: Any) -> Convolution:
    """A convolution's dimensions; XLA leaves out what is nothing, and writes one for no groups."""
    numbers = each.convolution_dimension_numbers
    spans = tuple(
        Span(d.size, d.stride, d.padding_low, d.window_dilation, d.base_dilation)
        for d in each.window.dimensions
    )
    if any(min(s.size, s.stride, s.dilation, s.apart) < 1 for s in spans):
        raise UnreadableProgramError(f"The window of a convolution has no places: {spans}.")
    return Convolution(
        spans,
        tuple(numbers.input_spatial_dimensions),
        tuple(numbers.output_spatial_dimensions),
        numbers.input_batch_dimension,
        numbers.input_feature_dimension,
        numbers.output_feature_dimension,
        max(each.feature_group_count, 1),
        max(each.batch_group_count, 1),
    )


def _has_groups(each: Any) -> bool:
    """Whether an instruction says who talks to whom."""
    return bool(
        each.replica_groups
        or each.source_target_pairs
        or each.HasField("collective_device_list")
        or each.HasField("iota_replica_group_list")
        or each.HasField("mesh_axes_replica_groups")
    )


def _arrays(shape: Any) -> Iterable[tuple[str, tuple[int, ...]]]:
    """The type and the dimensions of each array in a shape, which may be a tuple of others."""
    if shape.element_type in TUPLES:
        for part in shape.tuple_shapes:
            yield from _arrays(part)
    elif shape.element_type in TYPES:
        yield TYPES[shape.element_type], tuple(shape.dimensions)
    else:
        raise UnreadableProgramError(f"Arrays of type {shape.element_type} are not known here.")


def _constant(literal: Any) -> tuple[int, ...] | None:
    """A constant's whole numbers; None where it has others, or very many."""
    for numbers in (literal.s32s, literal.u32s, literal.s64s, literal.u64s, literal.u8s):
        if 0 < len(numbers) <= LONGEST_CONSTANT:
            return tuple(numbers)
    if 0 < len(literal.s8s) <= LONGEST_CONSTANT:
        return tuple(byte - 256 if byte > 127 else byte for byte in literal.s8s)
    return None


def _noted_trips(configuration: bytes) -> int | None:
    """What the compiler itself says of how often a loop runs."""
    try:
        return int(json.loads(configuration)["known_trip_count"]["n"])
    except (KeyError, TypeError, ValueError):
        return None


def _stacks(index: Any) -> Stacks:
    """What finds the lines of source that an instruction's metadata leads to."""
    found: dict[int, tuple[Frame, ...]] = {0: ()}

    def frames(number: int) -> tuple[Frame, ...]:
        waiting = []
        while number not in found and number not in waiting:
            waiting.append(number)
            number = index.stack_frames[number - 1].parent_frame_id
        for each in reversed(waiting):
            row = index.stack_frames[each - 1]
            around = found.get(row.parent_frame_id, ())
            found[each] = (*_frame(index, row.file_location_id), *around)
        return found[waiting[0]] if waiting else found[number]

    def stack(metadata: Any) -> tuple[Frame, ...]:
        if metadata.stack_frame_id:
            return frames(metadata.stack_frame_id)
        file = _text(metadata.source_file)
        return (Frame(file, metadata.source_line, ""),) if file else ()

    return stack


def _frame(index: Any, location: int) -> tuple[Frame, ...]:
    if not location:
        return ()
    place = index.file_locations[location - 1]
    file, function = (
        index.file_names[place.file_name_id - 1],
        index.function_names[place.function_name_id - 1],
    )
    return (Frame(_text(file), place.line, _text(function)),)


def _text(name: bytes) -> str:
    """A name of the learner's, whatever bytes it has."""
    return name.decode(errors="backslashreplace")
