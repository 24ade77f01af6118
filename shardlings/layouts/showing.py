"""`show`: draw which device holds which block, a mesh, or partition specs on a mesh."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import jax
import numpy as np

from shardlings.documents import with_noun
from shardlings.errors import UsageError
from shardlings.layouts.layout import (
    Layout,
    LayoutError,
    counts_in_words,
    devices_in_words,
    refuse_mesh,
    shorten_name,
    spec_as_code,
    spec_entries,
)
from shardlings.layouts.process_pictures import share_picture
from shardlings.pictures import Edge, Picture, blocks_as_figure, display_blocks, display_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Mesh = jax.sharding.Mesh | jax.sharding.AbstractMesh

MAX_MESH_AXES: Final = 4


@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[True],
    values: bool = False,
    processes: int = 1,
    **named: object,
) -> "Figure": ...
@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[False] = False,
    values: bool = False,
    processes: int = 1,
    **named: object,
) -> None: ...
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: bool = False,
    values: bool = False,
    processes: int = 1,
    **named: object,
) -> "Figure | None":
    """Draw which device holds which block, for one or more arrays, side by side.

    A mesh by itself is drawn as the grid of its devices. Partition specs after a mesh are drawn as
    shardings on that mesh: `show(mesh, P("x"), P("y"), shape=(16, 16))`.

    In the body of `jax.shard_map`, an array is one device's block. The picture has its shape, and
    shows which devices hold the same block.

    Args:
        *things: arrays, shardings or layouts, of rank 0 to 4; meshes; and, after a mesh, specs, a
            list of specs, or a dictionary of titles and specs.
        shape: the global shape, in elements, for which to draw shardings and specs.
        figure: whether to return a matplotlib figure instead of displaying pictures.
        values: whether to write the numbers on each device, for small arrays, instead of a picture.
        processes: the number of processes that share the devices; with several, there is a picture
            for each of them.
        **named: more things to draw, each with its name as the title.

    Raises:
        UsageError: there is nothing to draw, something has no layout or more than four dimensions,
            so many processes cannot share the devices, or values are asked for in a figure.
        ModuleNotFoundError: a figure is asked for, and matplotlib is not installed.
    """
    if not things and not named:
        raise UsageError(
            "show draws an array, a mesh, or a sharding and a shape, and was given nothing."
        )
    if values and (figure or processes != 1):
        raise UsageError(
            "show writes values as a table, so values=True goes with neither figure=True nor "
            "processes."
        )
    if values:
        titled = (*(("", thing) for thing in things), *named.items())
        display_values([(title, _device_blocks(thing)) for title, thing in titled])
        return None
    pictures = pictures_to_show(*things, shape=shape, **named)
    if processes != 1:
        pictures = [part for each in pictures for part in share_picture(each, processes)]
    if figure:
        return blocks_as_figure(pictures)
    display_blocks(pictures)
    return None


def pictures_to_show(
    *things: object, shape: tuple[int, ...] | None = None, **named: object
) -> list[Picture]:
    """Return the pictures that `show` displays; its arguments mean the same."""
    titled = [*(("", thing) for thing in things), *named.items()]
    return [_picture(title, thing, shape) for title, thing in _join_specs_to_meshes(titled)]


def _join_specs_to_meshes(titled: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Replace specs after a mesh by shardings, and leave out the mesh before them."""
    mesh: Any = None
    unused_mesh: tuple[str, object] | None = None
    for title, thing in titled:
        specs = list(_specs_in(title, thing)) if mesh is not None else []
        if not specs and unused_mesh is not None:
            yield unused_mesh
        unused_mesh = None
        if isinstance(thing, Mesh):
            mesh, unused_mesh = thing, (title, thing)
        elif specs:
            for name, spec in specs:
                try:
                    yield name, _sharding(mesh, spec)
                except LayoutError as error:
                    raise UsageError(f"{name}: {error}" if name else str(error)) from None
        else:
            yield title, thing
    if unused_mesh is not None:
        yield unused_mesh


def _specs_in(title: str, thing: object) -> Iterator[tuple[str, jax.P]]:
    """Yield the specs in one argument, with their titles; nothing if it is something else."""
    if isinstance(thing, jax.P):  # in some versions of JAX, a spec is a tuple too
        yield title, thing
    elif isinstance(thing, Mapping):
        for name, spec in thing.items():
            yield str(name), _check_spec(spec)
    elif isinstance(thing, list | tuple):
        for spec in thing:
            yield title, _check_spec(spec)


def _check_spec(thing: object) -> jax.P:
    if isinstance(thing, jax.P):
        return thing
    raise UsageError(
        f"After a mesh, show expects partition specs such as P('x', None), but got "
        f"{type(thing).__name__}."
    )


def _sharding(mesh: Mesh, spec: jax.P) -> jax.NamedSharding:
    """Return the sharding of a mesh and a spec.

    Raises:
        LayoutError: the spec names an axis that the mesh does not have, or one axis twice.
    """
    names = [
        name
        for entry in spec_entries(spec)
        for name in (entry if isinstance(entry, tuple) else (entry,))
        if isinstance(name, str)
    ]
    unknown = next((name for name in names if name not in mesh.axis_names), None)
    if unknown is not None:
        raise LayoutError(
            f"{spec_as_code(spec)} names the axis {unknown!r}, which this mesh does not have: its "
            f"axes are {', '.join(map(repr, mesh.axis_names))}."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LayoutError(
            f"{spec_as_code(spec)} names the axis {twice!r} twice. An axis can shard only "
            f"one dimension."
        )
    try:
        return jax.NamedSharding(mesh, spec)
    except Exception as error:  # JAX has a separate error type for each reason
        message = f"{spec_as_code(spec)} does not go with this mesh: {error}"
        raise LayoutError(message) from error


def _picture(title: str, thing: object, shape: tuple[int, ...] | None) -> Picture:
    """Return the picture of one thing.

    Raises:
        UsageError: it has no picture. The message begins with the title.
    """
    start = f"{title}: " if title else ""
    if isinstance(thing, jax.core.Tracer):
        picture = device_local_picture(title, thing)
        if picture is None:
            raise UsageError(
                f"{start}This is an array inside of jit, which is on no device yet: show it after "
                "the program ran. (In the body of shard_map, show draws what a device holds of it.)"
            )
        return picture
    try:
        if isinstance(thing, Mesh):
            return mesh_picture(title, thing)
        layout = Layout.of(thing, shape)
    except LayoutError as error:
        raise UsageError(f"{start}{error}") from None
    if len(layout.shape) > 4:
        raise UsageError(f"{start}show draws arrays up to rank 4, but got shape {layout.shape}.")
    sharding = thing.sharding if isinstance(thing, jax.Array) else thing
    code = spec_as_code(sharding.spec) if isinstance(sharding, jax.NamedSharding) else ""
    return layout.picture(title, code)


def mesh_picture(title: str, mesh: Mesh) -> Picture:
    """Return a picture of a mesh's devices, with the names, sizes and types of its axes.

    An abstract mesh has axes but no devices, so its places are blank.

    Args:
        title: the text above it.
        mesh: a mesh with one to four axes.

    Raises:
        LayoutError: the mesh has no axes or too many, or contains something other than devices.
    """
    sizes = tuple(mesh.shape.values())
    if not 1 <= len(sizes) <= MAX_MESH_AXES:
        many = f"{len(sizes)} axes" if sizes else "no axes"
        raise LayoutError(f"show draws meshes of one to {MAX_MESH_AXES} axes; this one has {many}.")
    refused = refuse_mesh(mesh)
    if refused:
        raise LayoutError(refused)
    labels: dict[tuple[int, ...], tuple[int, ...]] = dict.fromkeys(np.ndindex(sizes), ())
    caption = "abstract: axes and no devices"
    if isinstance(mesh, jax.sharding.Mesh):
        labels = {place: (device.id,) for place, device in np.ndenumerate(mesh.devices)}
        caption = f"a mesh of {with_noun(len(labels), 'device')}"
    names = [shorten_name(name) for name in mesh.axis_names]
    types = [axis_type.name for axis_type in mesh.axis_types]
    axes = ", ".join(
        f"{name} of size {size} ({axis_type})"
        for name, size, axis_type in zip(names, sizes, types, strict=True)
    )
    ids = tuple(device for holders in labels.values() for device in holders)
    devices = f" of {devices_in_words(ids)}" if ids else ", abstract, of no devices"
    return Picture(
        title=title,
        caption=caption,
        shape=sizes,
        intervals=tuple(tuple((i, i + 1) for i in range(size)) for size in sizes),
        labels=labels,
        description=f"{title + ': ' if title else ''}a mesh of {counts_in_words(sizes)}{devices}. "
        f"Its axes: {axes}.",
        edges=tuple(
            Edge(note=axis_type, axis=name, size=size)
            for name, size, axis_type in zip(names, sizes, types, strict=True)
        ),
        is_mesh=True,
    )


def device_local_picture(title: str, array: Any) -> Picture | None:
    """Return a picture of an array in the body of `shard_map`, or None outside of one.

    Tiles are arranged as in the mesh. Devices along an axis over which the array does not vary hold
    the same block, and share a tile. A number is a device's position along the manual axes, the
    last axis fastest: the mesh is abstract there. That is the device's id if all axes are manual
    and the mesh has its devices in the order of their ids.

    Args:
        title: the text above it.
        array: a tracer.
    """
    mesh = jax.sharding.get_abstract_mesh()
    manual = [
        name
        for name, axis_type in zip(mesh.axis_names, mesh.axis_types or (), strict=False)
        if axis_type == jax.sharding.AxisType.Manual
    ]
    if not manual:
        return None
    # with check_vma=False, a type does not say over which axes its array varies
    is_known = bool(_varying_axes(jax.lax.axis_index(manual[0])))
    varying = _varying_axes(array) if is_known else set(manual)
    sizes = [mesh.shape[name] for name in manual]
    counts = [size if name in varying else 1 for name, size in zip(manual, sizes, strict=True)]
    holders: dict[tuple[int, ...], tuple[int, ...]] = {}
    for device, place in enumerate(product(*map(range, sizes))):
        tile = tuple(i if n in varying else 0 for i, n in zip(place, manual, strict=True))
        holders[tile] = (*holders.get(tile, ()), device)
    kind = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
    same = [name for name in manual if name not in varying]
    caption = f"each device: {kind}" + (f", the same along {', '.join(same)}" if same else "")
    if len(manual) < len(mesh.axis_names):
        caption += f"; numbers are positions along {', '.join(manual)}"
    return Picture(
        title=title,
        caption=caption,
        shape=tuple(sizes),
        intervals=tuple(tuple((i, i + 1) for i in range(count)) for count in counts),
        labels=holders,
        description=f"{title}: {caption}." if title else f"{caption}.",
        edges=tuple(
            Edge(axis=shorten_name(name), size=size)
            for name, size in zip(manual, sizes, strict=True)
        ),
    )


def _varying_axes(array: Any) -> set[str]:
    """Return the mesh axes over which an array may vary, from its type: `float32[2]{V:(x,y)}`."""
    match = re.search(r"\{V:\(?([^)}]*)\)?\}", str(jax.typeof(array)))
    return {name.strip(" '") for name in match[1].split(",")} if match else set()


def _device_blocks(thing: object) -> dict[int, np.ndarray]:
    """Return the block that each device holds of an array, by the device's id.

    Raises:
        UsageError: it is not an array with values.
    """
    if not isinstance(thing, jax.Array) or isinstance(thing, jax.core.Tracer):
        raise UsageError(
            f"show(…, values=True) expects arrays, whose numbers it writes, but got "
            f"{type(thing).__name__}."
        )
    return {shard.device.id: np.asarray(shard.data) for shard in thing.addressable_shards}
