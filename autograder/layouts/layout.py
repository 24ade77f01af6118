"""Layout: which device holds which block of an array.

Two layouts are equal when every device holds the same block. Nothing else about a sharding counts:
not its mesh's names, not its spec, not the order of its axes. (`NamedSharding` compares those, so
`P('x') == P('x', None)` is False; and `is_equivalent_to` is False between meshes whose devices are
ordered differently, even where every block is on the same device.)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Self

import jax
import numpy as np

from autograder.layouts.specs import as_typed, axes_along, entries, together
from autograder.pictures import Edge, Picture, blocks_as_html, blocks_as_text

Block = tuple[tuple[int, int], ...]
"""For each dimension, the first index and the one past the last, in elements."""

Shape = tuple[int, ...]


class LayoutError(ValueError):
    """A layout cannot be made from what came; the message says why and what to do."""


def devices_in_words(devices: tuple[int, ...]) -> str:
    """`device 3`, `devices 0 to 7`, `devices 0, 2, 4 and 6`."""
    if len(devices) == 1:
        return f"device {devices[0]}"
    if len(devices) > 2 and devices == tuple(range(devices[0], devices[-1] + 1)):
        return f"devices {devices[0]} to {devices[-1]}"
    return f"devices {' and '.join(', '.join(map(str, devices)).rsplit(', ', 1))}"


def grid_from_text(picture: str) -> np.ndarray:
    """The devices that hold each block of a picture in text: see `Layout.parse`."""
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
    widths = {len(row) for plane in planes for row in plane}
    heights = {len(plane) for plane in planes}
    if len(widths) != 1 or len(heights) != 1:
        raise LayoutError("The rows of a picture, and its planes, must be of equal length.")
    grid = np.empty((len(planes), *heights, *widths), dtype=object)
    for index in np.ndindex(grid.shape):
        plane, row, column = index
        grid[index] = planes[plane][row][column]
    return grid[0] if len(planes) == 1 else grid


def by_counts(counts: Shape) -> str:
    """`2 × 4`."""
    return " × ".join(map(str, counts)) if counts else "1"


def refusal(sharding: jax.sharding.Sharding) -> str:
    """Why a sharding has no layout, whatever the shape; empty where it has one."""
    mesh = sharding.mesh if isinstance(sharding, jax.NamedSharding) else None
    if isinstance(mesh, jax.sharding.AbstractMesh):
        return (
            "The sharding's mesh is abstract: it has axis names and no devices. "
            "Use one that jax.make_mesh made."
        )
    return not_of_devices(mesh)


def not_of_devices(mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None) -> str:
    """What a mesh holds that is no device; empty where there is nothing such."""
    devices = mesh.devices.flat if isinstance(mesh, jax.sharding.Mesh) else ()
    other = next((device for device in devices if not isinstance(device, jax.Device)), None)
    if other is None:
        return ""
    return (
        f"The mesh holds {type(other).__name__} in place of devices. The "
        f"numbers in pictures are the devices' ids: index np.array(jax.devices()) with them."
    )


def does_not_fit(sharding: jax.sharding.Sharding, shape: Shape) -> str:
    """Why a sharding refuses a shape: too many dimensions named, or sizes that do not divide."""
    if not isinstance(sharding, jax.NamedSharding):
        return f"{sharding} does not fit an array of shape {shape}."
    spec, sizes = sharding.spec, dict(sharding.mesh.shape)
    if len(spec) > len(shape):
        return (
            f"The spec {as_typed(spec)} has {len(spec)} entries, "
            f"and an array of shape {shape} has {len(shape)}."
        )
    for dimension, (size, names) in enumerate(zip(shape, entries(spec), strict=False)):
        axes = names if isinstance(names, tuple) else (names,)
        count = math.prod(sizes.get(name, 1) for name in axes)
        if size % count:
            return (
                f"{as_typed(spec)} cuts dimension {dimension} into {count} blocks, and its size, "
                f"{size}, is not a multiple of {count}: JAX wants equal blocks."
            )
    return f"{as_typed(spec)} on a mesh of {sizes} does not fit an array of shape {shape}."


@dataclass(frozen=True)
class Layout:
    """Which block of an array of one shape each device holds.

    Attributes:
        shape: the array's global shape, in elements.
        blocks: pairs of a device's id and the block it holds, in order of ids.
        axes: for each dimension the names of the mesh axes that cut it, where they are known; for
            pictures alone, since names do not say where anything is.
    """

    shape: Shape
    blocks: tuple[tuple[int, Block], ...]
    axes: tuple[tuple[str, ...], ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, thing: object, shape: Shape | int | None = None) -> Self:
        """The layout of an array, or of a sharding for an array of a given shape.

        Args:
            thing: a `jax.Array`, a `jax.sharding.Sharding`, or a `Layout`.
            shape: the global shape in elements; needed for a sharding, which has none of its own.

        Raises:
            LayoutError: `thing` has no layout, has no shape, or does not divide the shape.
        """
        if isinstance(thing, cls):
            return thing
        if isinstance(thing, jax.core.Tracer):
            raise LayoutError(
                "Inside jit an array is a tracer: it has a type (jax.typeof) but is on no device "
                "yet. Return it, and look at what comes back."
            )
        if isinstance(thing, jax.Array):
            return cls.of(thing.sharding, thing.shape)
        if isinstance(thing, np.ndarray | np.generic):
            raise LayoutError(
                "This is a NumPy array: it lives in the host's memory, and no device holds it. "
                "jax.device_put(array, sharding) puts it on devices."
            )
        if isinstance(thing, jax.P):
            raise LayoutError(
                f"{as_typed(thing)} is a partition spec: it names mesh axes, but says nothing of "
                f"devices. jax.NamedSharding(mesh, spec) joins it to a mesh; to draw it, "
                f"show(mesh, spec, shape=…) will do."
            )
        if not isinstance(thing, jax.sharding.Sharding):
            raise LayoutError(
                f"A layout belongs to a jax.Array, or to a sharding and a shape; "
                f"{type(thing).__name__} came."
            )
        if isinstance(shape, int):
            shape = (shape,)
        refused = refusal(thing)
        if refused:
            raise LayoutError(refused)
        if shape is None:
            raise LayoutError(
                "A sharding has no shape of its own, and how large the blocks are depends on it. "
                "Give the array's shape too, as in show(sharding, shape=(16, 16))."
            )
        if len(getattr(thing, "spec", ())) > len(tuple(shape)):  # even where the rest is None
            raise LayoutError(does_not_fit(thing, tuple(shape)))
        try:
            indices = thing.devices_indices_map(tuple(shape))
        except (ValueError, IndexError) as error:
            raise LayoutError(does_not_fit(thing, tuple(shape))) from error
        made = cls.from_blocks(
            shape,
            {
                device.id: tuple(  # type: ignore[attr-defined]
                    part.indices(size)[:2] for part, size in zip(index, shape, strict=True)
                )
                for device, index in indices.items()
            },
        )
        if isinstance(thing, jax.NamedSharding):
            return replace(made, axes=axes_along(thing.spec, len(made.shape)))
        return made

    @classmethod
    def from_blocks(cls, shape: Shape, blocks: Mapping[int, Block]) -> Self:
        """A layout from a mapping of device ids to blocks."""
        return cls(tuple(map(int, shape)), tuple(sorted(blocks.items())))

    @classmethod
    def parse(cls, picture: str, shape: Shape | None = None) -> Self:
        r"""A layout from a picture in text.

        Each word is a block, named by the ids of the devices that hold it, separated by commas. A
        line is a row of blocks; an empty line starts the next plane of a picture of rank 3.

        Args:
            picture: such as `"0 1 2 3 4 5 6 7"` (eight column strips), `"0 2 \n 4 6"` (four
                blocks on four devices), `"0,1,2,3  4,5,6,7"` (two blocks, four holders each).
            shape: the array's shape in elements; by default one element for each block.

        Raises:
            LayoutError: the picture is ragged or names a device twice, or does not fit the shape.
        """
        grid = grid_from_text(picture)
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
        """The same picture on an array of another shape of the same rank.

        Raises:
            LayoutError: the blocks do not divide the shape.
        """
        if len(shape) != len(self.shape) or any(
            size % count for size, count in zip(shape, self.counts, strict=False)
        ):
            raise LayoutError(
                f"{by_counts(self.counts)} blocks do not divide an array of shape {shape} evenly."
            )
        step = [size // count for size, count in zip(shape, self.counts, strict=True)]
        made = type(self).from_blocks(
            shape,
            {
                device: tuple((i * s, (i + 1) * s) for i, s in zip(index, step, strict=True))
                for index, holders in self.grid.items()
                for device in holders
            },
        )
        return replace(made, axes=self.axes)

    @property
    def devices(self) -> tuple[int, ...]:
        """The ids of the devices that hold a block, in order."""
        return tuple(device for device, _ in self.blocks)

    @cached_property
    def cuts(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each dimension, the distinct intervals that it is cut into, in order."""
        return tuple(
            tuple(sorted({block[axis] for _, block in self.blocks}))
            for axis in range(len(self.shape))
        )

    @property
    def counts(self) -> Shape:
        """How many blocks each dimension is cut into."""
        return tuple(map(len, self.cuts))

    @property
    def copies(self) -> int:
        """How many devices hold each block."""
        return len(self.blocks) // max(1, math.prod(self.counts))

    @cached_property
    def grid(self) -> dict[Shape, tuple[int, ...]]:
        """The ids of the devices that hold the block at each place in the grid of blocks."""
        holders: dict[Block, list[int]] = {}
        for device, block in self.blocks:
            holders.setdefault(block, []).append(device)
        return {
            index: tuple(
                holders.get(tuple(cuts[i] for i, cuts in zip(index, self.cuts, strict=True)), ())
            )
            for index in product(*map(range, self.counts))
        }

    def transpose(self, order: tuple[int, ...]) -> Self:
        """The layout of the array with its dimensions in another order, as `numpy.transpose`."""
        made = type(self).from_blocks(
            tuple(self.shape[axis] for axis in order),
            {device: tuple(block[axis] for axis in order) for device, block in self.blocks},
        )
        return replace(made, axes=tuple(self.axes[axis] for axis in order) if self.axes else ())

    @property
    def block_shape(self) -> Shape:
        """The shape, in elements, of the block that each device holds."""
        return tuple(stop - start for start, stop in self.blocks[0][1])

    def describe(self) -> str:
        """The layout in words: `shape (16, 16) in 1 × 8 blocks of (16, 2)`, and who holds them."""
        if not self.blocks:
            return f"shape {self.shape}, on no device"
        if not self.shape:
            return f"a scalar on {devices_in_words(self.devices)}"
        if math.prod(self.counts) == 1:
            return f"shape {self.shape}, whole on {devices_in_words(self.devices)}"
        cut = f"shape {self.shape} in {by_counts(self.counts)} blocks of {self.block_shape}"
        if self.copies > 1:
            return f"{cut}, {self.copies} copies of each, on {devices_in_words(self.devices)}"
        in_order = tuple(device for holders in self.grid.values() for device in holders)
        return f"{cut}, on {devices_in_words(in_order)}"

    def __str__(self) -> str:
        """The picture in text, as `parse` reads it."""
        return blocks_as_text(self.picture())

    def _repr_html_(self) -> str:
        return blocks_as_html([self.picture()])

    def picture(self, title: str = "", code: str = "") -> Picture:
        """The layout as a picture to draw: see `autograder.pictures`.

        Args:
            title: stands above it.
            code: stands beside the title, as code; the spec, for example.
        """
        known = self.axes or ((),) * len(self.shape)
        return Picture(
            title=title,
            caption=self._caption(),
            shape=self.shape,
            cuts=self.cuts,
            labels=self.grid,
            description=f"{title + ': ' if title else ''}{self.describe()}. "
            + "; ".join(
                f"block {index} on {devices_in_words(holders)}"
                for index, holders in self.grid.items()
            ),
            edges=tuple(Edge(f"dim {d}", together(names)) for d, names in enumerate(known)),
            code=code,
        )

    def _caption(self) -> str:
        """`shape (16, 16), blocks of (4, 8)`."""
        if not self.shape:
            return "a scalar"
        whole = math.prod(self.counts) <= 1
        return f"shape {self.shape}, {'not cut' if whole else f'blocks of {self.block_shape}'}"
