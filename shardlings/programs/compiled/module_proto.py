"""Decode a compiled program from XLA's serialised form, an `HloModuleProto`.

The program's text could be parsed instead, but learners choose names in it, and XLA does not escape
all of them: a name can end a computation in the eyes of a parser. In the serialised form each name
has its length before it.

Google's protobuf library decodes it, from a description of only those fields that are read, or
left out when two computations are compared (`READ_SEPARATELY`).
Names and numbers of fields are those of `xla/service/hlo.proto` and `xla/xla_data.proto` in
https://github.com/openxla/xla, and never change.
"""

import re
from functools import cache
from typing import Any, Final

MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "HloModuleProto": {
        "entry_computation_id": (6, "int64"),
        "computations": (3, "HloComputationProto*"),
        "device_assignment": (15, "DeviceAssignmentProto"),
        "schedule": (7, "HloScheduleProto"),
        "stack_frame_index": (17, "StackFrameIndexProto"),
        "frontend_attributes": (19, "bytes"),
    },
    "HloProto": {
        "hlo_module": (1, "HloModuleProto"),
        "buffer_assignment": (3, "BufferAssignmentProto"),
    },
    "BufferAssignmentProto": {"buffer_allocations": (3, "BufferAllocationProto*")},
    "BufferAllocationProto": {"size": (2, "int64"), "is_thread_local": (3, "bool")},
    "HloScheduleProto": {"sequences": (1, "SequenceEntry*")},
    "SequenceEntry": {"key": (1, "int64"), "value": (2, "InstructionSequence")},
    "InstructionSequence": {"instruction_ids": (1, "int64*")},
    "DeviceAssignmentProto": {"replica_count": (1, "int32"), "computation_count": (2, "int32")},
    "HloComputationProto": {
        "instructions": (2, "HloInstructionProto*"),
        "id": (5, "int64"),
        "root_id": (6, "int64"),
    },
    "HloInstructionProto": {
        "name": (1, "bytes"),
        "opcode": (2, "bytes"),
        "shape": (3, "ShapeProto"),
        "metadata": (7, "OpMetadata"),
        "literal": (8, "LiteralProto"),
        "parameter_number": (9, "int64"),
        "tuple_index": (13, "int64"),
        "channel_id": (26, "int64"),
        "use_global_device_ids": (71, "bool"),
        "is_host_transfer": (47, "bool"),
        "dimensions": (14, "int64*"),
        "dot_dimension_numbers": (30, "DotDimensionNumbers"),
        "window": (15, "Window"),
        "convolution_dimension_numbers": (16, "ConvolutionDimensionNumbers"),
        "feature_group_count": (50, "int64"),
        "batch_group_count": (61, "int64"),
        "id": (35, "int64"),
        "operand_ids": (36, "int64*"),
        "called_computation_ids": (38, "int64*"),
        "backend_config": (43, "bytes"),
        "replica_groups": (49, "ReplicaGroup*"),
        "source_target_pairs": (52, "SourceTarget*"),
        "custom_call_target": (28, "bytes"),
        "comparison_direction": (63, "bytes"),
        "comparison_type": (72, "bytes"),
        "fft_length": (32, "int64*"),
        "fusion_kind": (11, "bytes"),
        "sharding": (40, "bytes"),
        "frontend_attributes": (68, "bytes"),
        "statistics": (82, "bytes"),
        "collective_device_list": (87, "CollectiveDeviceListProto"),
        "iota_replica_group_list": (92, "IotaReplicaGroupListProto"),
        "mesh_axes_replica_groups": (93, "MeshAxesReplicaGroupListProto"),
    },
    "OpSharding": {"named_sharding": (14, "NamedShardingProto")},
    "NamedShardingProto": {"mesh": (2, "MeshProto")},
    "ShapeProto": {
        "element_type": (2, "int32"),
        "dimensions": (3, "int64*"),
        "tuple_shapes": (4, "ShapeProto*"),
        "layout": (5, "LayoutProto"),
    },
    "LayoutProto": {"minor_to_major": (1, "int64*")},
    "LiteralProto": {
        "u8s": (3, "bytes"),
        "s8s": (15, "bytes"),
        "s32s": (4, "int32*"),
        "s64s": (5, "int64*"),
        "u32s": (6, "uint32*"),
        "u64s": (7, "uint64*"),
    },
    "DotDimensionNumbers": {"lhs_contracting_dimensions": (1, "int64*")},
    "Window": {"dimensions": (1, "WindowDimension*")},
    "WindowDimension": {
        "size": (1, "int64"),
        "stride": (2, "int64"),
        "padding_low": (3, "int64"),
        "window_dilation": (5, "int64"),
        "base_dilation": (6, "int64"),
    },
    "ConvolutionDimensionNumbers": {
        "input_batch_dimension": (7, "int64"),
        "input_feature_dimension": (8, "int64"),
        "input_spatial_dimensions": (11, "int64*"),
        "output_feature_dimension": (10, "int64"),
        "output_spatial_dimensions": (12, "int64*"),
    },
    "ReplicaGroup": {"replica_ids": (1, "int64*")},
    "SourceTarget": {"source": (1, "int64"), "target": (2, "int64")},
    "CollectiveDeviceListProto": {
        "replica_groups": (1, "ReplicaGroup*"),
        "iota_replica_group_list": (2, "IotaReplicaGroupListProto"),
    },
    "IotaReplicaGroupListProto": {
        "num_replica_groups": (1, "int64"),
        "num_devices_per_group": (2, "int64"),
        "iota_reshape_dims": (3, "int64*"),
        "iota_transpose_perm": (4, "int32*"),
    },
    "MeshAxesReplicaGroupListProto": {"mesh": (1, "MeshProto"), "axes": (2, "AxisRefProto*")},
    "MeshProto": {
        "axes": (1, "MeshAxis*"),
        "device_ids": (2, "int64*"),
        "iota_device_ids": (3, "IotaDeviceIds"),
    },
    "IotaDeviceIds": {"reshape_dims": (1, "int64*"), "transpose_perm": (2, "int32*")},
    "MeshAxis": {"name": (1, "bytes"), "size": (2, "int64")},
    "AxisRefProto": {"mesh_axis_index": (1, "int64"), "sub_axis_info": (2, "SubAxis")},
    "SubAxis": {"pre_size": (1, "int64"), "size": (2, "int64")},
    "OpMetadata": {
        "op_name": (2, "bytes"),
        "source_file": (3, "bytes"),
        "source_line": (4, "int32"),
        "stack_frame_id": (15, "int32"),
    },
    "StackFrameIndexProto": {
        "file_names": (1, "bytes*"),
        "function_names": (2, "bytes*"),
        "file_locations": (3, "FileLocation*"),
        "stack_frames": (4, "StackFrame*"),
    },
    "FileLocation": {
        "file_name_id": (1, "int32"),
        "function_name_id": (2, "int32"),
        "line": (3, "int32"),
    },
    "StackFrame": {"file_location_id": (1, "int32"), "parent_frame_id": (2, "int32")},
}
"""The fields of each message: number and type; a star marks repeated fields.

Names are bytes, because what a learner wrote need not be UTF-8.
"""

MESH: Final = re.compile(rb"#sdy\.mesh<\[([^\]]+)\]>")
"""Matches the axes of a mesh for which Shardy writes no other order of devices."""

MESH_AXIS: Final = re.compile(rb'"([^"]+)"=(\d+)')

READ_SEPARATELY: Final = (
    "name", "opcode", "shape", "metadata", "id", "operand_ids", "called_computation_ids",
    "backend_config", "fusion_kind", "sharding", "frontend_attributes", "statistics",
    "parameter_number", "tuple_index",
)  # fmt: skip
"""The fields of an instruction that are not in `Instruction.other_fields`.

They are read separately, or do not decide what the instruction computes.
"""

LAST_DESCRIBED_FIELD: Final = 93
"""Up to this number, all fields that can hold a collective's groups are described above.

XLA has twice moved the groups of collectives to a field with another number. So a later field could
hold them, and a collective that has one is refused.
"""


def decode_module(serialised: bytes) -> Any:
    """Decode a serialised `HloModuleProto`.

    Raises:
        google.protobuf.message.DecodeError: it is not one.
    """
    return _message_class("HloModuleProto").FromString(serialised)


def decode_dump(serialised: bytes) -> tuple[Any, list[int]]:
    """Decode what XLA dumps: an `HloProto`, or the `HloModuleProto` by itself.

    Returns:
        The module, and the sizes in bytes of what a device allocates, if it says.

    Raises:
        google.protobuf.message.DecodeError: it is neither.
    """
    from google.protobuf.message import DecodeError

    try:
        whole = _message_class("HloProto").FromString(serialised)
    except DecodeError:
        return decode_module(serialised), []
    if not whole.hlo_module.computations:
        return decode_module(serialised), []
    allocations = whole.buffer_assignment.buffer_allocations
    return whole.hlo_module, [each.size for each in allocations if not each.is_thread_local]


def decode_meshes(module: Any) -> set[tuple[tuple[bytes, int], ...]]:
    """Return the meshes that a module names: of each, the names and sizes of its axes.

    Up to JAX 0.10 they are attributes of the module, in Shardy's text. Since then, they are part of
    each sharding. A mesh with another order of devices than the partitions' is left out.
    """
    meshes = {
        tuple((name, int(size)) for name, size in MESH_AXIS.findall(axes))
        for axes in MESH.findall(module.frontend_attributes)
    }
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode != b"parameter" or not instruction.sharding:
                continue
            mesh = _message_class("OpSharding").FromString(instruction.sharding).named_sharding.mesh
            is_in_order = not mesh.device_ids and not mesh.HasField("iota_device_ids")
            if mesh.axes and is_in_order:
                meshes.add(tuple((axis.name, axis.size) for axis in mesh.axes))
    return meshes


def unknown_fields(message: Any) -> list[int]:
    """Return the numbers of a message's fields that are not described."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    fields: Any = UnknownFieldSet(message)
    return sorted({field.field_number for field in fields})


def nested_unknown_fields(message: Any) -> list[int]:
    """Return the numbers of undescribed fields of a message and of all messages within it."""
    from google.protobuf.message import Message

    unknown = unknown_fields(message)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                unknown += nested_unknown_fields(inner)
    return unknown


def serialise_other_fields(instruction: Any) -> bytes:
    """Serialise an instruction's fields, even undescribed ones, but for `READ_SEPARATELY`.

    Those are cleared, because a copy of a large program takes long.
    """
    for name in READ_SEPARATELY:
        instruction.ClearField(name)
    return bytes(instruction.SerializeToString(deterministic=True))


@cache
def _message_class(message_name: str) -> Any:
    """Make the class of a message, and those of its parts, from the description."""
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    file = FileDescriptorProto(name="shardlings/hlo.proto", package="shardlings", syntax="proto3")
    for message, fields in MESSAGES.items():
        description = file.message_type.add(name=message)
        for name, (number, written_type) in fields.items():
            field = description.field.add(name=name, number=number)
            field_type = written_type.removesuffix("*")
            field.label = (
                FieldDescriptorProto.LABEL_REPEATED
                if written_type.endswith("*")
                else FieldDescriptorProto.LABEL_OPTIONAL
            )
            if field_type in MESSAGES:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".shardlings.{field_type}"
            else:
                field.type = FieldDescriptorProto.Type.Value(f"TYPE_{field_type.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shardlings.{message_name}"))
