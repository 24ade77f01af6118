"""Read a requested collective's replica groups.

A program says so in one of two ways: as a table of partition numbers, or, from JAX 0.12 on, as the
axes of a mesh that the attribute holds, or that an operation of the module declares.
"""

import math
from typing import Any

import numpy as np

Groups = tuple[tuple[int, ...], ...]


def read(attribute: Any, symbols: Any) -> Groups:
    """The groups of partition numbers that an attribute of a collective means.

    Args:
        attribute: the collective's `replica_groups` or `source_target_pairs`.
        symbols: what the program declares, by name.

    Raises:
        ValueError: the attribute is in neither form.
    """
    from jax.extend.mlir import ir

    if isinstance(attribute, ir.DenseIntElementsAttr):
        # a group that is shorter than the others is filled up with -1
        return tuple(tuple(int(i) for i in group if i >= 0) for group in np.array(attribute))
    return _along_axes(attribute, symbols)


def _along_axes(attribute: Any, symbols: Any) -> Groups:
    """The groups that differ along axes of a mesh."""
    from jax.extend.mlir.dialects import stablehlo

    along: Any = stablehlo.ReplicaGroupMeshAxesAttr(attribute)
    names, positions = _mesh(along.mesh, symbols)
    chosen = []
    for part in along.axes:
        axis = stablehlo.AxisRefAttr(part)
        if axis.sub_axis_info is not None:  # nothing that JAX offers asks for a part of an axis
            raise ValueError(f"A collective runs along a part of the axis {axis.name!r}.")
        chosen.append(names.index(axis.name))
    others = [d for d in range(positions.ndim) if d not in chosen]
    size = math.prod(positions.shape[d] for d in chosen)
    groups = positions.transpose(*others, *chosen).reshape(-1, size)
    return tuple(tuple(map(int, group)) for group in groups)


def _mesh(attribute: Any, symbols: Any) -> tuple[list[str], np.ndarray]:
    """A mesh's names of axes, and the partition numbers that stand in its grid."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import sdy, stablehlo

    if isinstance(attribute, ir.FlatSymbolRefAttr):
        mesh: Any = sdy.MeshAttr(symbols[attribute.value].attributes["mesh"])
        axes: list[Any] = [sdy.MeshAxisAttr(a) for a in mesh.axes]
        ids = list(mesh.device_ids)
    else:
        mesh = stablehlo.MeshAttr(attribute)
        axes = [stablehlo.MeshAxisAttr(a) for a in mesh.axes]
        ids = [] if mesh.device_ids is None else np.array(mesh.device_ids).tolist()
    shape = [a.size for a in axes]
    return [a.name for a in axes], np.array(ids or range(math.prod(shape))).reshape(shape)
