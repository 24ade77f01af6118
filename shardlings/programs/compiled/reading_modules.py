"""Turn XLA's serialised module into instructions; refuse what is not understood."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from shardlings.collective_kinds import CollectiveKind
from shardlings.programs.collective import Frame, Groups, groups_along
from shardlings.programs.compiled.hlo import (
    CompiledProgram,
    Computation,
    Convolution,
    Instruction,
    WindowDimension,
    collective_kind,
)
from shardlings.programs.compiled.module_proto import (
    LAST_DESCRIBED_FIELD,
    decode_dump,
    decode_meshes,
    decode_module,
    nested_unknown_fields,
    serialise_other_fields,
    unknown_fields,
)

ELEMENT_TYPES: Final = {
    1: "pred", 30: "s1", 26: "s2", 21: "s4", 2: "s8", 3: "s16", 4: "s32", 5: "s64",
    31: "u1", 27: "u2", 22: "u4", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 16: "bf16", 12: "f64", 15: "c64", 18: "c128", 14: "opaque", 17: "token",
    32: "f4e2m1fn", 29: "f8e3m4", 28: "f8e4m3", 20: "f8e4m3fn", 25: "f8e4m3fnuz",
    23: "f8e4m3b11fnuz", 19: "f8e5m2", 24: "f8e5m2fnuz", 33: "f8e8m0fnu",
}  # fmt: skip
"""The types of elements, by XLA's numbers."""

TUPLE_TYPES: Final = (13, 34)
"""XLA's numbers of the types that hold others: a tuple, and a buffer."""

MAX_CONSTANT_ELEMENTS: Final = 4096
"""Larger constants are not read. Only tables with one number for each partition are needed."""

MAX_PARTITIONS: Final = 1 << 16
"""More devices than anybody compiles for."""

FFT: Final = b"fft"

NAMED: Final = ("convert", "get-tuple-element")
"""The opcodes whose paths of names are kept, and those of collectives."""

CUBLAS: Final = b"__cublas$"
"""The first letters of the custom calls by which a GPU's matmuls are computed."""

WITH_GLOBAL_IDS: Final = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER,
)  # fmt: skip
"""The kinds that can list devices by ids of their own, over replicas and partitions."""


class UnreadableProgramError(ValueError):
    """A compiled program is not understood, most likely because its compiler is too new."""


def read_executable(executable: Any) -> CompiledProgram:
    """Read the instructions of a compiled program.

    Args:
        executable: what `compiled.runtime_executable()` returns.

    Raises:
        UnreadableProgramError: something in it is not understood.
    """
    modules = executable.hlo_modules()
    if len(modules) != 1:
        raise UnreadableProgramError(f"A program of one module was expected, not {len(modules)}.")
    return read_module(modules[0].as_serialized_hlo_module_proto())


def read_module(serialised: bytes) -> CompiledProgram:
    """Read the instructions of a serialised program.

    Args:
        serialised: an `HloModuleProto`.

    Raises:
        UnreadableProgramError: something in it is not understood.
    """
    from google.protobuf.message import DecodeError

    try:
        return _read_program(decode_module(serialised))
    except UnreadableProgramError:
        raise
    except (DecodeError, LookupError, ValueError, OverflowError) as error:
        raise UnreadableProgramError(f"The module is not in order: {error}") from error


class DumpedModule(NamedTuple):
    """A program that XLA has dumped.

    Attributes:
        allocated: the bytes that each device allocates for it; 0 if it does not say.
        meshes: the meshes that it names, whose devices are in order: axes' sizes by their names.
    """

    program: CompiledProgram
    allocated: int
    meshes: tuple[Mapping[str, int], ...]


def read_dumped_module(serialised: bytes, partitions: int = 0) -> DumpedModule:
    """Read the instructions of a program that XLA has dumped.

    Args:
        serialised: an `HloProto` or an `HloModuleProto`.
        partitions: the number of its partitions; 0 if it says so itself.

    Raises:
        UnreadableProgramError: something in it is not understood.
    """
    from google.protobuf.message import DecodeError

    try:
        module, sizes = decode_dump(serialised)
        if partitions:
            module.device_assignment.computation_count = partitions
        meshes = sorted(decode_meshes(module))  # reading the program clears what it does not need
        program = _read_program(module)
    except UnreadableProgramError:
        raise
    except (DecodeError, LookupError, ValueError, OverflowError) as error:
        raise UnreadableProgramError(f"The module is not in order: {error}") from error
    named = ({_decode_name(name): size for name, size in axes} for axes in meshes)
    return DumpedModule(program, sum(sizes), tuple(named))


def _read_program(module: Any) -> CompiledProgram:
    partitions, is_replicated = _count_partitions(module.device_assignment)
    find_stack = _stack_finder(module.stack_frame_index)
    orders = {entry.key: entry.value.instruction_ids for entry in module.schedule.sequences}
    program = CompiledProgram(
        {
            computation.id: _read_computation(
                computation, partitions, is_replicated, find_stack, orders.get(computation.id, ())
            )
            for computation in module.computations
        },
        module.entry_computation_id,
        partitions,
    )
    if len(program.computations) != len(module.computations):
        raise UnreadableProgramError("Two computations have the same id.")
    called = (c for body in program.computations.values() for i in body.values() for c in i.called)
    missing = {program.entry, *called} - program.computations.keys()
    if missing:
        raise UnreadableProgramError(f"Computation {min(missing)} is called, and is missing.")
    return program


def _count_partitions(assignment: Any) -> tuple[int, bool]:
    """Count the devices of a program, and check whether they are replicas of one partition.

    JAX writes one replica of many partitions, or nothing; `pmap` used to write many replicas.
    """
    partitions, replicas = int(assignment.computation_count), int(assignment.replica_count)
    if min(partitions, replicas) > 1:
        raise UnreadableProgramError(
            "The program has several partitions, and several replicas of each."
        )
    if max(partitions, replicas) > MAX_PARTITIONS:
        raise UnreadableProgramError(f"The program has more than {MAX_PARTITIONS:,} partitions.")
    return max(partitions, replicas, 1), replicas > 1


_StackFinder = Callable[[Any], tuple[Frame, ...]]


def _read_computation(
    computation: Any,
    partitions: int,
    is_replicated: bool,
    find_stack: _StackFinder,
    order: Sequence[int],
) -> Computation:
    """Read the instructions of a computation in the order in which they run, the root last."""
    instructions: dict[int, Instruction] = {}
    positions = {number: position for position, number in enumerate(order)}
    for proto in sorted(computation.instructions, key=lambda proto: positions.get(proto.id, 0)):
        instruction = _read_instruction(proto, partitions, is_replicated, find_stack)
        unknown = [number for number in instruction.operands if number not in instructions]
        if unknown or instruction.number in instructions:
            raise UnreadableProgramError(
                f"Instruction {instruction.number} has an operand that does not stand before it, "
                f"or has the same id as another instruction."
            )
        instructions[instruction.number] = instruction
    if computation.root_id not in instructions:
        raise UnreadableProgramError("A computation has no root.")
    instructions[computation.root_id] = instructions.pop(computation.root_id)
    return instructions


def _read_instruction(
    proto: Any, partitions: int, is_replicated: bool, find_stack: _StackFinder
) -> Instruction:
    opcode, operands = proto.opcode.decode(), tuple(proto.operand_ids)
    sends = _read_transfers(proto) if opcode == "send" else ()
    if sends:  # a transfer is a permutation; its other operand only orders it
        opcode, operands = f"{CollectiveKind.COLLECTIVE_PERMUTE}-start", operands[:1]
    elif opcode == CollectiveKind.RAGGED_ALL_TO_ALL:
        operands = operands[:1]  # the others say where the pieces are, and where they go
    is_collective = collective_kind(opcode) is not None
    if not is_collective and _has_groups(proto):
        raise UnreadableProgramError(
            f"A {opcode!r} has groups of partitions, but no known collective has this name."
        )
    newer = [n for n in unknown_fields(proto) if n > LAST_DESCRIBED_FIELD] if is_collective else []
    if newer:
        raise UnreadableProgramError(f"The {opcode} has unknown fields: {newer}.")
    return Instruction(
        number=proto.id,
        opcode=opcode,
        arrays=tuple(_read_arrays(proto.shape)),
        operands=operands,
        called=tuple(proto.called_computation_ids),
        index=proto.parameter_number if opcode == "parameter" else proto.tuple_index,
        constant=_read_integers(proto.literal) if opcode == "constant" else None,
        groups=sends or (_read_groups(proto, partitions, is_replicated) if is_collective else ()),
        comparison=proto.comparison_direction.decode(),
        is_unsigned=proto.comparison_type == b"UNSIGNED",
        contracting=_read_contracting(proto),
        convolution=_read_convolution(proto) if opcode == "convolution" else None,
        window=_read_window_sizes(proto) if opcode == "reduce-window" else (),
        sorted_along=tuple(proto.dimensions) if opcode == "sort" else (),
        custom_call_target=_decode_name(proto.custom_call_target),
        fft_lengths=tuple(proto.fft_length),
        known_trip_count=_read_trip_count(proto.backend_config) if opcode == "while" else None,
        stack=find_stack(proto.metadata),
        name=_read_parameter_name(proto.metadata) if opcode == "parameter" else "",
        is_synchronous=is_collective and _is_synchronous(proto.backend_config),
        op_name=_decode_name(proto.metadata.op_name) if is_collective or opcode in NAMED else "",
        other_fields=serialise_other_fields(proto),  # the last, because it clears what was read
    )


def _read_parameter_name(metadata: Any) -> str:
    """Read JAX's name of a parameter, without the backslashes before quotation marks."""
    return _decode_name(metadata.op_name).replace("\\'", "'")


def _read_convolution(proto: Any) -> Convolution:
    """Read a convolution's dimensions. XLA omits a group count of one."""
    numbers = proto.convolution_dimension_numbers
    window = tuple(
        WindowDimension(d.size, d.stride, d.padding_low, d.window_dilation, d.base_dilation)
        for d in proto.window.dimensions
    )
    if any(min(d.size, d.stride, d.window_dilation, d.base_dilation) < 1 for d in window):
        raise UnreadableProgramError(f"A size in a convolution's window is below 1: {window}.")
    return Convolution(
        window,
        tuple(numbers.input_spatial_dimensions),
        tuple(numbers.output_spatial_dimensions),
        numbers.input_batch_dimension,
        numbers.input_feature_dimension,
        numbers.output_feature_dimension,
        max(proto.feature_group_count, 1),
        max(proto.batch_group_count, 1),
    )


def _read_contracting(proto: Any) -> tuple[int, ...]:
    """Read the contracting dimensions of a product, which a GPU's may have cuBLAS compute."""
    if not proto.custom_call_target.startswith(CUBLAS):
        return tuple(proto.dot_dimension_numbers.lhs_contracting_dimensions)
    try:
        config = json.loads(proto.backend_config)
        numbers = config.get("gemm_backend_config", config)["dot_dimension_numbers"]
        return tuple(map(int, numbers["lhs_contracting_dimensions"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def _read_window_sizes(proto: Any) -> tuple[int, ...]:
    return tuple(dimension.size for dimension in proto.window.dimensions)


def _read_arrays(shape: Any) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Yield the type and the dimensions of each array in a shape, which may be a nested tuple."""
    if shape.element_type in TUPLE_TYPES:
        for part in shape.tuple_shapes:
            yield from _read_arrays(part)
    elif shape.element_type in ELEMENT_TYPES:
        yield ELEMENT_TYPES[shape.element_type], tuple(shape.dimensions)
    else:
        raise UnreadableProgramError(f"XLA's type {shape.element_type} is unknown.")


def _read_integers(literal: Any) -> tuple[int, ...] | None:
    """Read the integers of a constant; None if it has other numbers, or very many."""
    for numbers in (literal.s32s, literal.u32s, literal.s64s, literal.u64s, literal.u8s):
        if 0 < len(numbers) <= MAX_CONSTANT_ELEMENTS:
            return tuple(numbers)
    if 0 < len(literal.s8s) <= MAX_CONSTANT_ELEMENTS:
        return tuple(byte - 256 if byte > 127 else byte for byte in literal.s8s)
    return None


def _read_trip_count(backend_config: bytes) -> int | None:
    """Read the trip count that the compiler has noted beside a loop, if it has."""
    try:
        return int(json.loads(backend_config)["known_trip_count"]["n"])
    except (KeyError, TypeError, ValueError):
        return None


def _is_synchronous(backend_config: bytes) -> bool:
    try:
        return bool(json.loads(backend_config)["collective_backend_config"]["is_sync"])
    except (KeyError, TypeError, ValueError):
        return False


def _has_groups(proto: Any) -> bool:
    """Check whether an instruction has groups of partitions in any of its fields."""
    return bool(
        proto.replica_groups
        or proto.source_target_pairs
        or proto.HasField("collective_device_list")
        or proto.HasField("iota_replica_group_list")
        or proto.HasField("mesh_axes_replica_groups")
    )


TRANSFERS: Final = re.compile(rb"_xla_send_recv_source_target_pairs\W+?(\{\{[\d,{}\s]+\}\})")
"""Matches the pairs of source and target that XLA writes beside a `send` and a `recv`."""


def _read_transfers(proto: Any) -> Groups:
    """Read the pairs of source and target of a `send`; empty if it sends to the host.

    Raises:
        UnreadableProgramError: it sends to another device, and does not say to which.
    """
    if proto.is_host_transfer:
        return ()
    written = TRANSFERS.search(proto.frontend_attributes)
    if written is None:
        raise UnreadableProgramError("A send does not say from which device to which it is.")
    numbers = [int(number) for number in re.findall(rb"\d+", written[1])]
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _read_groups(proto: Any, partitions: int, is_replicated: bool) -> Groups:
    """Read a collective's groups of partitions, or a permutation's pairs.

    XLA writes them as a list, as the rows of a transposed grid of numbers, or as axes of a mesh.
    Without any of these, all partitions are one group.

    In a program of partitions, what has no channel is between replicas, of which there is one. A
    collective that can have global ids, and has none, lists replicas, and runs between all
    partitions of those (`GetCollectiveOpGroupMode` in XLA's `collective_ops_utils.cc`).

    Raises:
        ValueError: the groups are in another form.
        UnreadableProgramError: they have unknown fields, or partitions that do not exist.
    """
    opcode = proto.opcode.decode()
    kind = collective_kind(opcode)
    if not is_replicated and partitions > 1:
        if not proto.channel_id:
            has_pairs = kind == CollectiveKind.COLLECTIVE_PERMUTE
            return () if has_pairs else tuple((partition,) for partition in range(partitions))
        if kind in WITH_GLOBAL_IDS and not proto.use_global_device_ids:
            return (tuple(range(partitions)),)
    if kind == CollectiveKind.COLLECTIVE_PERMUTE:
        groups: Groups = tuple((pair.source, pair.target) for pair in proto.source_target_pairs)
    else:
        groups = _read_group_list(proto, partitions) or (tuple(range(partitions)),)
    if not {partition for group in groups for partition in group} <= set(range(partitions)):
        raise UnreadableProgramError(
            f"The {opcode} names partitions that do not exist; the program has {partitions}."
        )
    return groups


def _read_group_list(proto: Any, partitions: int) -> Groups:
    """Read a collective's groups; empty if it names none."""
    devices, axes = proto.collective_device_list, proto.mesh_axes_replica_groups
    iota = proto.iota_replica_group_list
    unknown = [n for message in (devices, axes, iota) for n in nested_unknown_fields(message)]
    if unknown:
        raise UnreadableProgramError(f"A collective's groups have unknown fields: {unknown}.")
    if proto.HasField("mesh_axes_replica_groups"):
        return _groups_along_axes(axes.mesh, axes.axes, partitions)
    if proto.HasField("iota_replica_group_list"):
        return _groups_in_rows(iota, partitions)
    if devices.HasField("iota_replica_group_list"):
        return _groups_in_rows(devices.iota_replica_group_list, partitions)
    # `replica_groups` is where XLA used to list them, and may repeat them
    listed = devices.replica_groups or proto.replica_groups
    return tuple(tuple(group.replica_ids) for group in listed)


def _groups_along_axes(mesh: Any, axes: Any, partitions: int) -> Groups:
    """Return the groups along some axes of a mesh, or along parts of axes.

    A part has a `pre_size` and a `size`: the axis is split into `pre_size` × `size` × the rest, and
    the group lies along the middle one.
    """
    if mesh.HasField("iota_device_ids"):
        iota = mesh.iota_device_ids
        devices = _transposed_grid(iota.reshape_dims, iota.transpose_perm, partitions)
    else:
        devices = np.array(mesh.device_ids or range(partitions))
    dimensions: list[int] = []
    chosen: dict[int, int] = {}  # for each of the axes, its dimension of the grid
    for number, mesh_axis in enumerate(mesh.axes):
        parts = [
            (axis.sub_axis_info.pre_size, axis.sub_axis_info.size, place)
            if axis.HasField("sub_axis_info")
            else (1, mesh_axis.size, place)
            for place, axis in enumerate(axes)
            if axis.mesh_axis_index == number
        ]
        if any(size < 1 for part in parts for size in part[:2]):
            raise UnreadableProgramError(f"A part of a mesh axis has a size below 1: {parts}.")
        done = 1
        for pre_size, size, place in sorted(parts):
            dimensions += [pre_size // done, size]
            chosen[place] = len(dimensions) - 1
            done = pre_size * size
        dimensions.append(mesh_axis.size // done)
    return groups_along(devices.reshape(dimensions), [chosen[place] for place in sorted(chosen)])


def _groups_in_rows(iota: Any, partitions: int) -> Groups:
    grid = _transposed_grid(iota.iota_reshape_dims, iota.iota_transpose_perm, partitions)
    rows = grid.reshape(iota.num_replica_groups, iota.num_devices_per_group)
    return tuple(tuple(row) for row in rows.tolist())


def _transposed_grid(
    shape: Sequence[int], order: Sequence[int], partitions: int
) -> npt.NDArray[np.int_]:
    """Return the numbers of all partitions in a grid, transposed."""
    return np.arange(partitions).reshape(tuple(shape)).transpose(tuple(order) or None)


def _stack_finder(index: Any) -> _StackFinder:
    """Return a function that finds the stack frames of an instruction from its metadata."""

    @cache
    def find_frames(number: int) -> tuple[Frame, ...]:
        rows: dict[int, Any] = {}
        while number and number not in rows:
            rows[number] = index.stack_frames[number - 1]
            number = rows[number].parent_frame_id
        return tuple(f for row in rows.values() for f in _read_frame(index, row.file_location_id))

    def find_stack(metadata: Any) -> tuple[Frame, ...]:
        if metadata.stack_frame_id:
            return find_frames(metadata.stack_frame_id)
        file = _decode_name(metadata.source_file)
        return (Frame(file, metadata.source_line, ""),) if file else ()

    return find_stack


def _read_frame(index: Any, location_id: int) -> tuple[Frame, ...]:
    if not location_id:
        return ()
    location = index.file_locations[location_id - 1]
    file = index.file_names[location.file_name_id - 1]
    function = index.function_names[location.function_name_id - 1]
    return (Frame(_decode_name(file), location.line, _decode_name(function)),)


def _decode_name(name: bytes) -> str:
    """Decode a name that a learner may have chosen, whatever bytes it has."""
    return name.decode(errors="backslashreplace")


def has_unrunnable_fft(executable: Any) -> bool:
    """Check for a Fourier transform that XLA has compiled for a CPU and cannot run there.

    XLA's transform on a CPU reads and writes row-major arrays only. But its compiler may choose
    another order for the result, for instance because an all-gather along a dimension other than
    the first wants it. Such a program compiles, and fails when it runs: each device prints a stack
    trace, and the error is `RET_CHECK failure … IsMonotonicWithDim0Major`.

    Args:
        executable: what `compiled.runtime_executable()` returns.
    """
    for module in executable.hlo_modules():
        serialised = module.as_serialized_hlo_module_proto()
        if FFT not in serialised:
            continue  # most programs have none, and need not be decoded
        for computation in decode_module(serialised).computations:
            shapes = {proto.id: proto.shape for proto in computation.instructions}
            for proto in computation.instructions:
                if proto.opcode == FFT:
                    operands = [shapes[number] for number in proto.operand_ids]
                    if not all(map(_is_row_major, [proto.shape, *operands])):
                        return True
    return False


def _is_row_major(shape: Any) -> bool:
    order = list(shape.layout.minor_to_major)
    return order == sorted(order, reverse=True)
