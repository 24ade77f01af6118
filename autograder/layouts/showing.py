"""`show`: draw which device holds which block, or a mesh with specs on it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import numpy as np

from autograder.errors import UsageError
from autograder.layouts.layout import Layout, LayoutError
from autograder.layouts.specs import as_typed
from autograder.pictures import Picture, blocks_as_figure, display_blocks, display_holdings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
import re
from itertools import product
from typing import Final

from autograder.layouts.layout import by_counts, devices_in_words, not_of_devices
from autograder.layouts.specs import entries, shown
from autograder.pictures import Edge

Mesh = jax.sharding.Mesh | jax.sharding.AbstractMesh

MAX_AXES: Final = 4
MESHES = (jax.sharding.Mesh, jax.sharding.AbstractMesh)


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


def device_local_picture(title: str, array: Any) -> Picture | None:
    """The picture of an array in a `shard_map` body; None for a tracer that is in none.

    The devices stand as the mesh lays them out. Devices along an axis over which the array does not
    vary hold the same, and share a tile.
    """
    mesh = jax.sharding.get_abstract_mesh()
    manual = [n for n, kind in zip(mesh.axis_names, mesh.axis_types or (), strict=False)
              if kind == jax.sharding.AxisType.Manual]  # fmt: skip
    if not manual:
        return None
    varying = _varying(array)
    sizes = [mesh.shape[name] for name in manual]
    counts = [size if name in varying else 1 for name, size in zip(manual, sizes, strict=True)]
    holders: dict[tuple[int, ...], tuple[int, ...]] = {}
    for device, place in enumerate(product(*map(range, sizes))):
        tile = tuple(i if n in varying else 0 for i, n in zip(place, manual, strict=True))
        holders[tile] = (*holders.get(tile, ()), device)
    kind = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
    same = [name for name in manual if name not in varying]
    caption = f"each device: {kind}" + (f", the same along {', '.join(same)}" if same else "")
    return Picture(
        title=title,
        caption=caption,
        shape=tuple(sizes),
        cuts=tuple(tuple((i, i + 1) for i in range(count)) for count in counts),
        labels=holders,
        description=f"{title}: {caption}" if title else caption,
        edges=tuple(
            Edge(axis=shown(name), size=size) for name, size in zip(manual, sizes, strict=True)
        ),
    )


def _varying(array: Any) -> set[str]:
    """The axes along which an array may differ, as its type says: `float32[2]{V:(x,y)}`."""
    found = re.search(r"\{V:\(?([^)}]*)\)?\}", str(jax.typeof(array)))
    return {name.strip(" '") for name in found[1].split(",")} if found else set()


@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[True],
    values: bool = False,
    **named: object,
) -> "Figure": ...
@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[False] = False,
    values: bool = False,
    **named: object,
) -> None: ...
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: bool = False,
    values: bool = False,
    **named: object,
) -> "Figure | None":
    """Draw which device holds which block; several things side by side.

    A mesh alone is drawn as the grid of its devices. Where specs come after a mesh, each is drawn
    as a sharding on that mesh: `show(mesh, P("x"), P("y"), shape=(16, 16))`.

    In the body of `jax.shard_map`, an array is what one device holds of it, and is drawn so: its
    shape, and which devices hold the same.

    Args:
        *things: arrays, shardings, or layouts, of rank 0 to 4; meshes; and, after a mesh, specs,
            or a list of specs, or a dictionary of specs with a title each.
        shape: the global shape, in elements, that shardings and specs are drawn for.
        figure: return a matplotlib figure instead of showing.
        values: write the numbers that each device holds, of small arrays, in place of a picture.
        **named: more of them, with a title each.

    Raises:
        UsageError: nothing was given, or something that has no layout.
    """
    if not things and not named:
        raise UsageError("show draws an array, a mesh, or a sharding and a shape; nothing came.")
    if values:
        titled = (*(("", thing) for thing in things), *named.items())
        display_holdings([(title, _held(thing)) for title, thing in titled])
        return None
    pictures = pictured(*things, shape=shape, **named)
    if figure:
        return blocks_as_figure(pictures)
    display_blocks(pictures)
    return None


def pictured(
    *things: object, shape: tuple[int, ...] | None = None, **named: object
) -> list[Picture]:
    """The pictures that `show` shows: see there."""
    titled = [*(("", thing) for thing in things), *named.items()]
    return [_picture(title, thing, shape) for title, thing in _on_meshes(titled)]


def _on_meshes(titled: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """What is to be drawn: specs after a mesh become shardings, and the mesh is not drawn then."""
    mesh: Any = None
    alone: tuple[str, object] | None = None
    for title, thing in titled:
        specs = list(_specs(title, thing)) if mesh is not None else []
        if not specs and alone is not None:
            yield alone
        alone = None
        if isinstance(thing, MESHES):
            mesh, alone = thing, (title, thing)
        elif specs:
            for name, spec in specs:
                try:
                    yield name, joined(mesh, spec)
                except LayoutError as error:
                    raise UsageError(f"{name}: {error}" if name else str(error)) from None
        else:
            yield title, thing
    if alone is not None:
        yield alone


def _specs(title: str, thing: object) -> Iterator[tuple[str, jax.P]]:
    """The specs in one argument, with their titles; none where it is something else.

    What JAX takes for a spec is a tuple to some of its versions, so that is asked first.
    """
    if isinstance(thing, jax.P):
        yield title, thing
    elif isinstance(thing, Mapping):
        for name, spec in thing.items():
            yield str(name), _spec(spec)
    elif isinstance(thing, list | tuple):
        for spec in thing:
            yield title, _spec(spec)


def _spec(thing: object) -> jax.P:
    if isinstance(thing, jax.P):
        return thing
    raise UsageError(
        f"After a mesh, show takes partition specs such as P('x', None); "
        f"{type(thing).__name__} came."
    )


def _picture(title: str, thing: object, shape: tuple[int, ...] | None) -> Picture:
    """The picture of one thing to show; what is wrong with it is said of its title."""
    if isinstance(thing, jax.core.Tracer):
        drawn = device_local_picture(title, thing)
        if drawn is None:
            raise UsageError(
                "This is an array inside of jit, which is on no device yet: show it after the "
                "program ran. (In the body of shard_map, show draws what a device holds of it.)"
            )
        return drawn
    try:
        if isinstance(thing, MESHES):
            return mesh_picture(title, thing)
        layout = Layout.of(thing, shape)
    except LayoutError as error:
        raise UsageError(f"{title}: {error}" if title else str(error)) from None
    if len(layout.shape) > 4:
        raise UsageError(f"show draws up to rank 4; an array of shape {layout.shape} came.")
    return layout.picture(title, _typed(thing))


def _typed(thing: object) -> str:
    """The spec of an array or a sharding as one types it, where it has one."""
    sharding = thing.sharding if isinstance(thing, jax.Array) else thing
    return as_typed(sharding.spec) if isinstance(sharding, jax.NamedSharding) else ""


def _held(thing: object) -> dict[int, np.ndarray]:
    """What each device holds of an array, by the device's id."""
    if not isinstance(thing, jax.Array) or isinstance(thing, jax.core.Tracer):
        kind = type(thing).__name__
        raise UsageError(f"show(…, values=True) writes the numbers that arrays hold; {kind} came.")
    return {shard.device.id: np.asarray(shard.data) for shard in thing.addressable_shards}
