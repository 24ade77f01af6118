"""`show`: draw which device holds which block."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import numpy as np

from autograder.errors import UsageError
from autograder.layouts.blocks import LayoutError
from autograder.layouts.device_local import device_local_picture
from autograder.layouts.layout import Layout
from autograder.layouts.mesh_pictures import joined, mesh_picture
from autograder.layouts.specs import as_typed
from autograder.pictures import Picture, blocks_as_figure, display_blocks, display_holdings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MESHES = (jax.sharding.Mesh, jax.sharding.AbstractMesh)


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
