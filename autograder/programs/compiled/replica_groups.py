"""Read a compiled collective's replica groups, in each form that XLA has for them."""

import math
from typing import Any

import numpy as np

from autograder.collective_kinds import CollectiveKind
from autograder.programs.collective import Groups
from autograder.programs.compiled.module_proto import unknown_fields_within

Numbers = np.ndarray[Any, Any]


def replica_groups(instruction: Any, partitions: int) -> Groups:
    """The groups of partitions that talk to each other; of a permutation, its pairs.

    XLA lists them, or counts through a transposed grid, or names the axes of a mesh along which
    they lie. Where it says nothing, all talk to all.

    Args:
        instruction: a collective, as an `HloInstructionProto`.
        partitions: how many partitions there are.

    Raises:
        ValueError: the groups are in a form that is not known here.
    """
    if instruction.opcode.decode().removesuffix("-start") == CollectiveKind.COLLECTIVE_PERMUTE:
        return tuple((pair.source, pair.target) for pair in instruction.source_target_pairs)
    devices, axes = instruction.collective_device_list, instruction.mesh_axes_replica_groups
    counted = instruction.iota_replica_group_list
    strange = [n for message in (devices, axes, counted) for n in unknown_fields_within(message)]
    if strange:
        raise ValueError(f"there are fields {strange}")
    if instruction.HasField("mesh_axes_replica_groups"):
        groups = _along_axes(axes.mesh, axes.axes, partitions)
    elif instruction.HasField("iota_replica_group_list"):
        groups = _counted(counted, partitions)
    elif devices.HasField("iota_replica_group_list"):
        groups = _counted(devices.iota_replica_group_list, partitions)
    else:  # the second place is where XLA used to list them, and may repeat them
        listed = devices.replica_groups or instruction.replica_groups
        groups = tuple(tuple(group.replica_ids) for group in listed)
    groups = groups or (tuple(range(partitions)),)
    if not {partition for group in groups for partition in group} <= set(range(partitions)):
        raise ValueError(f"there are others than {partitions} partitions in them")
    return groups


def _along_axes(mesh: Any, chosen: Any, partitions: int) -> Groups:
    """The groups along axes of a mesh, or along parts of axes.

    A part is the `size` steps of an axis that has `pre_size` larger ones before them.
    """
    sizes = [axis.size for axis in mesh.axes]
    if mesh.HasField("iota_device_ids"):
        counted = mesh.iota_device_ids
        devices = _iota(counted.reshape_dims, counted.transpose_perm, partitions)
    else:
        devices = np.array(mesh.device_ids or range(partitions))
    dimensions: list[int] = []
    inner: dict[int, int] = {}  # for each of the chosen, the dimension of the grid that it is
    for number, size in enumerate(sizes):
        parts = [
            (ref.sub_axis_info.pre_size, ref.sub_axis_info.size, place)
            if ref.HasField("sub_axis_info")
            else (1, size, place)
            for place, ref in enumerate(chosen)
            if ref.mesh_axis_index == number
        ]
        if any(step < 1 for part in parts for step in part[:2]):
            raise ValueError(f"a part of an axis has no steps: {parts}")
        done = 1
        for before, own, place in sorted(parts):
            dimensions += [before // done, own]
            inner[place] = len(dimensions) - 1
            done = before * own
        dimensions.append(size // done)
    grid = devices.reshape(dimensions)
    members = [inner[place] for place in sorted(inner)]  # in the order in which axes are named
    outer = [d for d in range(grid.ndim) if d not in members]
    count = math.prod(dimensions[d] for d in members)
    return _rows(grid.transpose(*outer, *members).reshape(-1, count))


def _counted(counted: Any, partitions: int) -> Groups:
    """Groups that are the rows of a grid of numbers."""
    turned = _iota(counted.iota_reshape_dims, counted.iota_transpose_perm, partitions)
    return _rows(turned.reshape(counted.num_replica_groups, counted.num_devices_per_group))


def _iota(shape: Any, order: Any, partitions: int) -> Numbers:
    """The numbers of all partitions in a grid, transposed."""
    grid = np.arange(partitions).reshape(tuple(shape))
    return grid.transpose(tuple(order) or None)


def _rows(grid: Numbers) -> Groups:
    return tuple(tuple(int(i) for i in row) for row in grid)
