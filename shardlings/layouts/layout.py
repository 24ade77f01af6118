"""Layout: which device holds which block of an array; and partition specs in every supported JAX.

Two layouts are equal if every device holds the same block. Nothing else about a sharding matters:
not the names or the order of its mesh axes, and not its spec. (`NamedSharding` compares all of
these, so `P('x') == P('x', None)` is False. `is_equivalent_to` is False for meshes whose devices
are in another order, even if every block is on the same device.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Final, Self

import jax
import numpy as np
from humanize import natural_list

from shardlings.pictures import Edge, Picture, blocks_as_html, blocks_as_text

MAX_NAME_CHARACTERS: Final = 16
"""Longer axis names are shortened in pictures."""

Block = tuple[tuple[int, int], ...]
"""A block: for each dimension, its first index and the one past its last, in elements."""

Shape = tuple[int, ...]


class LayoutError(ValueError):
    """A layout cannot be made from an argument. The message says why, and what to do."""


@dataclass(frozen=True)
class Layout:
    """The block that each device holds of an array of a given shape.

    Attributes:
        shape: the array's global shape, in elements.
        blocks: pairs of a device's id and the block it holds, in order of ids.
        axes: for each dimension, the names of the mesh axes it is sharded over, if they are known.
            They are only used in pictures, because names do not say where a block is.
    """

    shape: Shape
    blocks: tuple[tuple[int, Block], ...]
    axes: tuple[tuple[str, ...], ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, thing: object, shape: Shape | int | None = None) -> Self:
        """Return the layout of an array, or of a sharding for an array of a given shape.

        Args:
            thing: a `jax.Array`, a `jax.ShapeDtypeStruct` with a sharding, a
                `jax.sharding.Sharding`, or a `Layout`.
            shape: the global shape in elements; needed for a sharding, which has none of its own.

        Raises:
            LayoutError: `thing` has no layout, has no shape, does not divide the shape, or is
                unreduced.
        """
        if isinstance(thing, cls):
            return thing
        if unplaced := _explain_unplaced(thing):
            raise LayoutError(unplaced)
        if isinstance(thing, jax.Array | jax.ShapeDtypeStruct):
            return cls.of(thing.sharding, thing.shape)
        assert isinstance(thing, jax.sharding.Sharding)
        if isinstance(shape, int):
            shape = (shape,)
        refused = why_no_layout(thing)
        if refused:
            raise LayoutError(refused)
        unreduced = _unreduced_axes(thing)
        if unreduced:
            raise LayoutError(_explain_partial_sums(thing, unreduced))
        if shape is None:
            raise LayoutError(
                "A sharding has no shape of its own, and how large the blocks are depends on it. "
                "Give the array's shape too, as in show(sharding, shape=(16, 16))."
            )
        if len(getattr(thing, "spec", ())) > len(tuple(shape)):  # even if the rest is None
            raise LayoutError(_explain_misfit(thing, tuple(shape)))
        try:
            indices = thing.devices_indices_map(tuple(shape))
        except (ValueError, IndexError) as error:
            raise LayoutError(_explain_misfit(thing, tuple(shape))) from error
        layout = cls.from_blocks(
            shape,
            {
                device.id: tuple(  # type: ignore[attr-defined]
                    part.indices(size)[:2] for part, size in zip(index, shape, strict=True)
                )
                for device, index in indices.items()
            },
        )
        if isinstance(thing, jax.NamedSharding):
            return replace(layout, axes=_axes_by_dimension(thing.spec, len(layout.shape)))
        return layout

    @classmethod
    def from_blocks(cls, shape: Shape, blocks: Mapping[int, Block]) -> Self:
        """Return the layout in which the device with each id holds the given block."""
        return cls(tuple(map(int, shape)), tuple(sorted(blocks.items())))

    @classmethod
    def parse(cls, picture: str, shape: Shape | None = None) -> Self:
        r"""Return the layout that a picture in text shows.

        Each word is a block: the ids of the devices that hold it, separated by commas. Each line is
        a row of blocks, and an empty line begins the next plane of a picture of rank 3.

        Args:
            picture: such as `"0 1 2 3 4 5 6 7"` (sharded by columns over eight devices),
                `"0 2 \n 4 6"` (four blocks on four devices), or `"0,1,2,3  4,5,6,7"` (two blocks,
                each on four devices).
            shape: the array's shape in elements; by default, one element per block.

        Raises:
            LayoutError: the picture is ragged, names a device twice, or does not fit the shape.
        """
        grid = _parse_grid(picture)
        while shape is not None and grid.ndim > len(shape) and 1 in grid.shape:
            grid = grid.squeeze(axis=grid.shape.index(1))
        while shape is not None and grid.ndim < len(shape):
            grid = grid[None]
        blocks: dict[int, Block] = {}
        for index, holders in np.ndenumerate(grid):
            for device in holders:
                if device in blocks:
                    raise LayoutError(f"The picture gives device {device} two blocks.")
                blocks[device] = tuple((i, i + 1) for i in index)
        layout = cls.from_blocks(grid.shape, blocks)
        return layout if shape is None else layout.on(shape)

    def on(self, shape: Shape) -> Self:
        """Return the same grid of blocks on an array of another shape with the same rank.

        Raises:
            LayoutError: the blocks do not divide the shape.
        """
        if len(shape) != len(self.shape) or any(
            size % count for size, count in zip(shape, self.counts, strict=False)
        ):
            raise LayoutError(
                f"{counts_in_words(self.counts)} blocks do not divide an array of shape {shape} "
                f"evenly."
            )
        block_shape = [size // count for size, count in zip(shape, self.counts, strict=True)]
        layout = type(self).from_blocks(
            shape,
            {
                device: tuple((i * b, (i + 1) * b) for i, b in zip(index, block_shape, strict=True))
                for index, holders in self.grid.items()
                for device in holders
            },
        )
        return replace(layout, axes=self.axes)

    @property
    def devices(self) -> tuple[int, ...]:
        """The ids of the devices that hold a block, in order."""
        return tuple(device for device, _ in self.blocks)

    @cached_property
    def intervals(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The distinct intervals into which each dimension is partitioned, in order."""
        return tuple(
            tuple(sorted({block[dimension] for _, block in self.blocks}))
            for dimension in range(len(self.shape))
        )

    @property
    def counts(self) -> Shape:
        """The number of blocks along each dimension."""
        return tuple(map(len, self.intervals))

    @property
    def copies(self) -> int:
        """The number of devices that hold each block."""
        return len(self.blocks) // max(1, math.prod(self.counts))

    @cached_property
    def grid(self) -> dict[Shape, tuple[int, ...]]:
        """The ids of the devices that hold each block, by the block's indices in the grid."""
        holders: dict[Block, list[int]] = {}
        for device, block in self.blocks:
            holders.setdefault(block, []).append(device)
        return {
            index: tuple(holders.get(self.block_at(index), ()))
            for index in product(*map(range, self.counts))
        }

    def block_at(self, index: Shape) -> Block:
        """Return the block with these indices in the grid of blocks."""
        return tuple(parts[i] for i, parts in zip(index, self.intervals, strict=True))

    def transpose(self, order: tuple[int, ...]) -> Self:
        """Return the layout with its dimensions in another order, as `numpy.transpose` does."""
        layout = type(self).from_blocks(
            tuple(self.shape[d] for d in order),
            {device: tuple(block[d] for d in order) for device, block in self.blocks},
        )
        return replace(layout, axes=tuple(self.axes[d] for d in order) if self.axes else ())

    @property
    def block_shape(self) -> Shape:
        """The shape, in elements, of the block that each device holds."""
        return tuple(stop - start for start, stop in self.blocks[0][1])

    def describe(self) -> str:
        """Return a description: `shape (16, 16) in 1 × 8 blocks of (16, 2), on devices 0 to 7`."""
        if not self.blocks:
            return f"shape {self.shape}, on no device"
        if not self.shape:
            return f"a scalar on {devices_in_words(self.devices)}"
        if math.prod(self.counts) == 1:
            return f"shape {self.shape}, whole on {devices_in_words(self.devices)}"
        blocks = (
            f"shape {self.shape} in {counts_in_words(self.counts)} blocks of {self.block_shape}"
        )
        if self.copies > 1:
            return f"{blocks}, {self.copies} copies of each, on {devices_in_words(self.devices)}"
        in_order = tuple(device for holders in self.grid.values() for device in holders)
        return f"{blocks}, on {devices_in_words(in_order)}"

    def __str__(self) -> str:
        """Return the picture in text, which `parse` reads."""
        return blocks_as_text(self.picture())

    def _repr_html_(self) -> str:
        return blocks_as_html([self.picture()])

    def picture(self, title: str = "", code: str = "") -> Picture:
        """Return a picture of the layout; see `shardlings.pictures`.

        Args:
            title: the text above it.
            code: code beside the title, such as the partition spec.
        """
        axes = self.axes or ((),) * len(self.shape)
        return Picture(
            title=title,
            caption=self._caption(),
            shape=self.shape,
            intervals=self.intervals,
            labels=self.grid,
            description=f"{title + ': ' if title else ''}{self.describe()}. "
            + "; ".join(
                f"block {index_in_words(index)} on {devices_in_words(holders)}"
                for index, holders in self.grid.items()
            )
            + ".",
            edges=tuple(Edge(f"dim {d}", _join_names(names)) for d, names in enumerate(axes)),
            code=code,
        )

    def _caption(self) -> str:
        if not self.shape:
            return "a scalar"
        is_one_block = math.prod(self.counts) <= 1
        blocks = "not sharded" if is_one_block else f"blocks of {self.block_shape}"
        copies = f", {self.copies} copies{' of each' * (not is_one_block)}" * (self.copies > 1)
        return f"shape {self.shape}, {blocks}{copies}"


def devices_in_words(devices: tuple[int, ...]) -> str:
    """Return `device 3`, `devices 0 to 7`, or `devices 0, 2, 4 and 6`."""
    if len(devices) == 1:
        return f"device {devices[0]}"
    if len(devices) > 2 and devices == tuple(range(devices[0], devices[-1] + 1)):
        return f"devices {devices[0]} to {devices[-1]}"
    return f"devices {natural_list([*map(str, devices)])}"


def index_in_words(index: Shape) -> str:
    """Return a block's indices in the grid of blocks: `(0, 3)`, or `3` in one dimension."""
    return str(index[0]) if len(index) == 1 else str(index)


def counts_in_words(counts: Shape) -> str:
    """Return the sizes of a grid: `2 × 4`."""
    return " × ".join(map(str, counts)) if counts else "1"


def _parse_grid(picture: str) -> np.ndarray:
    """Return the ids of the devices that hold each block of a picture in text."""
    planes: list[list[list[tuple[int, ...]]]] = [[]]
    for line in picture.strip().splitlines():
        if not line.strip():
            planes.append([])
            continue
        try:
            row = [tuple(int(device) for device in word.split(",")) for word in line.split()]
        except ValueError:
            raise LayoutError(
                f"A picture is made of device ids, as in '0,1  2,3'; the line {line.strip()!r} "
                f"holds something else."
            ) from None
        planes[-1].append(row)
    planes = [plane for plane in planes if plane]
    if not planes:
        raise LayoutError("A picture needs at least one block, such as '0 1'.")
    widths = {len(row) for plane in planes for row in plane}
    heights = {len(plane) for plane in planes}
    if len(widths) != 1 or len(heights) != 1:
        raise LayoutError("The rows of a picture, and its planes, must be of equal length.")
    grid = np.empty((len(planes), *heights, *widths), dtype=object)
    for index in np.ndindex(grid.shape):
        plane, row, column = index
        grid[index] = planes[plane][row][column]
    return grid[0] if len(planes) == 1 else grid


def why_no_layout(sharding: jax.sharding.Sharding) -> str:
    """Return why a sharding has no layout for any shape, or nothing if it has one."""
    mesh = sharding.mesh if isinstance(sharding, jax.NamedSharding) else None
    if isinstance(mesh, jax.sharding.AbstractMesh):
        return (
            "The sharding's mesh is abstract: it has axis names and no devices. "
            "Use one that jax.make_mesh made."
        )
    return refuse_mesh(mesh)


def refuse_mesh(mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None) -> str:
    """Return what a mesh contains that is not a device, or nothing if there are only devices."""
    devices = mesh.devices.flat if isinstance(mesh, jax.sharding.Mesh) else ()
    other = next((device for device in devices if not isinstance(device, jax.Device)), None)
    if other is None:
        return ""
    return (
        f"The mesh holds {type(other).__name__} in place of devices. The "
        f"numbers in pictures are the devices' ids: index np.array(jax.devices()) with them."
    )


def _explain_unplaced(thing: object) -> str:
    """Return why something is neither an array on devices nor a sharding; empty if it is."""
    if isinstance(thing, jax.core.Tracer):
        return (
            "Inside jit an array is a tracer: it has a type (jax.typeof) but is on no device yet. "
            "Return it, and look at what comes back."
        )
    if isinstance(thing, np.ndarray | np.generic):
        return (
            "This is a NumPy array: it lives in the host's memory, and no device holds it. "
            "jax.device_put(array, sharding) puts it on devices."
        )
    if isinstance(thing, jax.P):
        return (
            f"{spec_as_code(thing)} is a partition spec: it names mesh axes, but says nothing of "
            f"devices. jax.NamedSharding(mesh, spec) joins it to a mesh; to draw it, "
            f"show(mesh, spec, shape=…) will do."
        )
    if isinstance(thing, jax.ShapeDtypeStruct) and thing.sharding is None:
        return (
            "This describes an array by its shape and type alone. Give it a sharding, too: "
            "jax.ShapeDtypeStruct(shape, dtype, sharding=…)."
        )
    if not isinstance(thing, jax.Array | jax.ShapeDtypeStruct | jax.sharding.Sharding):
        return (
            f"A layout needs a jax.Array, or a sharding and a shape, but got "
            f"{type(thing).__name__}."
        )
    return ""


def _unreduced_axes(sharding: jax.sharding.Sharding) -> list[str]:
    """Return the names of the mesh axes over which a sharding is unreduced."""
    spec = sharding.spec if isinstance(sharding, jax.NamedSharding) else None
    return sorted(map(str, getattr(spec, "unreduced", None) or ()))


def _explain_partial_sums(sharding: jax.sharding.Sharding, unreduced: list[str]) -> str:
    """Return why an unreduced sharding has no layout, and what gives it one."""
    spec: jax.P = sharding.spec  # type: ignore[attr-defined]
    reduced = spec_as_code(jax.P(*spec_entries(spec)))
    return (
        f"{spec_as_code(spec)} is unreduced over {natural_list(unreduced)}: each device holds a "
        f"partial sum, so no device holds a block of the array yet. "
        f"jax.reshard(array, jax.NamedSharding(mesh, {reduced})) adds them up. "
        f"show(array, values=True) writes what each device holds, and playground(array) draws it."
    )


def _explain_misfit(sharding: jax.sharding.Sharding, shape: Shape) -> str:
    """Return why JAX refuses a sharding for a shape: too many entries, or unequal blocks."""
    if not isinstance(sharding, jax.NamedSharding):
        return f"{sharding} does not fit an array of shape {shape}."
    spec, sizes = sharding.spec, dict(sharding.mesh.shape)
    if len(spec) > len(shape):
        return (
            f"The spec {spec_as_code(spec)} has {len(spec)} entries, "
            f"and an array of shape {shape} has {len(shape)}."
        )
    for dimension, (size, names) in enumerate(zip(shape, spec_entries(spec), strict=False)):
        axes = names if isinstance(names, tuple) else (names,)
        count = math.prod(sizes.get(name, 1) for name in axes)
        if size % count:
            return (
                f"{spec_as_code(spec)} makes {count} shards of dimension {dimension}, but its "
                f"size, {size}, is not a multiple of {count}. An array's shards have equal sizes "
                f"in JAX."
            )
    return f"{spec_as_code(spec)} on a mesh of {sizes} does not fit an array of shape {shape}."


# Partition specs


def spec_entries(spec: jax.P) -> tuple[Any, ...]:
    """Return the entries of a partition spec, one per dimension that it covers.

    Newer versions of JAX refuse to iterate over a spec that also has unreduced axes.
    """
    partitions: tuple[Any, ...] | None = getattr(spec, "partitions", None)
    return tuple(spec) if partitions is None else partitions


def spec_as_code(spec: jax.P) -> str:
    """Return a spec as a person would type it: `P("x", None)`, and not `P('x',)`."""
    parts = [_entry_as_code(entry) for entry in spec_entries(spec)]
    for kind in ("unreduced", "reduced"):
        names = getattr(spec, kind, None)
        if names:
            parts.append(f"{kind}={{{', '.join(sorted(_entry_as_code(name) for name in names))}}}")
    return f"P({', '.join(parts)})"


def _entry_as_code(entry: object) -> str:
    if isinstance(entry, tuple):
        inside = ", ".join(map(_entry_as_code, entry))
        return f"({inside},)" if len(entry) == 1 else f"({inside})"
    if isinstance(entry, str):
        return '"' + entry.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "P.UNCONSTRAINED" if entry is jax.P.UNCONSTRAINED else repr(entry)


def _axes_by_dimension(spec: jax.P, rank: int) -> tuple[tuple[str, ...], ...]:
    """Return, for each dimension, the names of the mesh axes that it is sharded over."""
    named = tuple(
        tuple(map(str, entry)) if isinstance(entry, tuple) else (entry,) * isinstance(entry, str)
        for entry in spec_entries(spec)
    )
    return (*named, *((),) * (rank - len(named)))[:rank]


def _join_names(names: Sequence[str]) -> str:
    """Return the mesh axes of one dimension: `x`, or `(x, y)`."""
    joined = ", ".join(map(shorten_name, names))
    return f"({joined})" if len(names) > 1 else joined


def shorten_name(name: object) -> str:
    """Return a mesh axis's name in printable characters, shortened if it is too long to draw."""
    text = "".join(c if c.isprintable() else "·" for c in str(name))
    return text if len(text) <= MAX_NAME_CHARACTERS else f"{text[: MAX_NAME_CHARACTERS - 1]}…"
