"""Draw a mesh, and specs on it."""

from typing import Final

import jax
import numpy as np

from autograder.layouts.blocks import LayoutError, by_counts, devices_in_words
from autograder.layouts.specs import as_typed, entries, shown
from autograder.layouts.unfit_shardings import not_of_devices
from autograder.pictures import Edge, Picture

Mesh = jax.sharding.Mesh | jax.sharding.AbstractMesh

MAX_AXES: Final = 4


def mesh_picture(title: str, mesh: Mesh) -> Picture:
    """The grid of a mesh's devices, with its axes' names, sizes and modes.

    An abstract mesh has axes and no devices, so its places are left blank.

    Args:
        title: stands above it.
        mesh: of one axis to four.

    Raises:
        LayoutError: it has no axes, or too many, or holds something else than devices.
    """
    sizes = tuple(mesh.shape.values())
    if not 1 <= len(sizes) <= MAX_AXES:
        many = f"{len(sizes)} axes" if sizes else "no axes"
        raise LayoutError(f"show draws meshes of one to {MAX_AXES} axes; this one has {many}.")
    refused = not_of_devices(mesh)
    if refused:
        raise LayoutError(refused)
    labels: dict[tuple[int, ...], tuple[int, ...]] = dict.fromkeys(np.ndindex(sizes), ())
    caption = "abstract: axes and no devices"
    if isinstance(mesh, jax.sharding.Mesh):
        labels = {place: (device.id,) for place, device in np.ndenumerate(mesh.devices)}
        count = len(labels)
        caption = f"a mesh of {count} device{'s' * (count != 1)}"
    names, modes = [shown(name) for name in mesh.axis_names], [k.name for k in mesh.axis_types]
    along = ", ".join(
        f"{name} of size {size} ({mode})"
        for name, size, mode in zip(names, sizes, modes, strict=True)
    )
    ids = tuple(device for held in labels.values() for device in held)
    where = f" of {devices_in_words(ids)}" if ids else ", abstract, of no devices"
    return Picture(
        title=title,
        caption=caption,
        shape=sizes,
        cuts=tuple(tuple((i, i + 1) for i in range(size)) for size in sizes),
        labels=labels,
        description=f"{title + ': ' if title else ''}a mesh of {by_counts(sizes)}{where}. "
        f"Its axes: {along}.",
        edges=tuple(
            Edge(note=mode, axis=name, size=size)
            for name, size, mode in zip(names, sizes, modes, strict=True)
        ),
        devices=True,
    )


def joined(mesh: Mesh, spec: jax.P) -> jax.NamedSharding:
    """The sharding that a mesh and a spec make.

    Raises:
        LayoutError: the spec names an axis that the mesh does not have, or one axis twice.
    """
    named = [
        name
        for entry in entries(spec)
        for name in (entry if isinstance(entry, tuple) else (entry,))
        if isinstance(name, str)
    ]
    unknown = next((name for name in named if name not in mesh.axis_names), None)
    if unknown is not None:
        raise LayoutError(
            f"{as_typed(spec)} names the axis {unknown!r}, which this mesh does not have: its "
            f"axes are {', '.join(map(repr, mesh.axis_names))}."
        )
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise LayoutError(
            f"{as_typed(spec)} names the axis {twice!r} twice: an axis can cut only one dimension."
        )
    try:
        return jax.NamedSharding(mesh, spec)
    except Exception as error:  # JAX has an error type for each way in which they can differ
        raise LayoutError(f"{as_typed(spec)} does not go with this mesh: {error}") from error
