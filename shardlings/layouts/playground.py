"""`playground`: a link to the page of the website on which a layout can be changed.

The page reads its state from the link (`website/_static/playground/state.js`). It is a link, not a
frame: `show` already draws the layout in the notebook, and a frame would be too narrow for the
page, empty without a network, and load a website whenever somebody opens the saved notebook.
"""

import html
import math
import re
from typing import Any, Final
from urllib.parse import quote

import jax

from shardlings.errors import UsageError
from shardlings.layouts.layout import Layout, LayoutError, spec_as_code, spec_entries
from shardlings.pictures import display

PLAYGROUND: Final = "https://shardlings.github.io/shardlings/playground.html"

MAX_RANK: Final = 3
MAX_AXES: Final = 4
MAX_DEVICES: Final = 512


def playground(thing: object, shape: tuple[int, ...] | int | None = None) -> None:
    """Display a link to the playground on the course's website, with a layout to change there.

    Args:
        thing: an array, or a sharding with a mesh and a spec.
        shape: the global shape, in elements, for a sharding. By default, each block has four
            elements along each dimension in the spec.

    Raises:
        UsageError: it has no mesh and spec, JAX refuses the shape, or the page cannot draw it.
    """
    sharding = thing.sharding if isinstance(thing, jax.Array) else thing
    if not isinstance(sharding, jax.NamedSharding):
        raise UsageError(
            f"playground expects an array or a NamedSharding, but got {type(sharding).__name__}."
        )
    entries = [_names(entry) for entry in spec_entries(sharding.spec)]
    if isinstance(thing, jax.Array):
        shape = thing.shape
    elif shape is None:
        shards = [math.prod(sharding.mesh.shape[name] for name in names) for names in entries]
        shape = tuple(4 * count for count in shards)
    elif isinstance(shape, int):
        shape = (shape,)
    try:
        # JAX lists no blocks for an unreduced sharding; they are those of the sum.
        Layout.of(jax.NamedSharding(sharding.mesh, jax.P(*spec_entries(sharding.spec))), shape)
    except LayoutError as error:
        raise UsageError(str(error)) from None
    link = f"{PLAYGROUND}{_fragment(sharding, entries, tuple(shape))}"
    words = f"{spec_as_code(sharding.spec)} in the playground"
    page = f'<a href="{html.escape(link)}" target="_blank" rel="noopener">{html.escape(words)}</a>'
    display(page, f"{words}: {link}", lambda: f"{words}: {link}")


def _fragment(sharding: jax.NamedSharding, entries: list[list[str]], shape: tuple[int, ...]) -> str:
    """Return the part of the link that holds the state: `#v1/layout?shape=8,4&mesh=x:2&spec=x,-`.

    Raises:
        UsageError: the page cannot draw it.
    """
    mesh: Any = sharding.mesh
    ids = [device.id for device in mesh.devices.flat]
    odd = [name for name in mesh.axis_names if not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.A)]
    if odd:
        raise UsageError(
            f"The playground expects axis names that are names in Python, too, but got {odd[0]!r}."
        )
    if len(shape) > MAX_RANK or len(mesh.axis_names) > MAX_AXES or len(ids) > MAX_DEVICES:
        raise UsageError(
            f"The playground draws up to {MAX_RANK} dimensions, {MAX_AXES} mesh axes and "
            f"{MAX_DEVICES} devices."
        )
    parts = [".".join(names) or "-" for names in entries]
    unreduced = sorted(getattr(sharding.spec, "unreduced", None) or ())
    if unreduced:
        parts.append(f"unreduced={'.'.join(unreduced)}")
    fields = {
        "shape": ",".join(map(str, shape)),
        "mesh": ",".join(f"{name}:{size}" for name, size in mesh.shape.items()),
        **({} if ids == list(range(len(ids))) else {"devices": ",".join(map(str, ids))}),
        "spec": ",".join(parts),
    }
    return "#v1/layout?" + "&".join(f"{name}={quote(v, ',:=')}" for name, v in fields.items())


def _names(entry: Any) -> list[str]:
    """Return the mesh axes in an entry of a spec."""
    if isinstance(entry, tuple):
        return list(entry)
    return [entry] if isinstance(entry, str) else []
