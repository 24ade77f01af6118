"""Show what one device holds inside the body of `jax.shard_map`."""

import re
from itertools import product
from typing import Any

import jax

from autograder.layouts.specs import shown
from autograder.pictures import Edge, Picture


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
