"""Notebook 01: which device holds which block.

These checks read only where blocks are. They do not depend on JAX's compiler.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np

from autograder.judge import Exercise, Mistake, PlacedLike, Returns
from shardlings.layouts import Layout, Shape

Axes = dict[str, int]
Spec = tuple[str | tuple[str, ...] | None, ...]


def numbers() -> np.ndarray:
    """The array that the notebook calls `x`."""
    return np.arange(256, dtype=np.float32).reshape(16, 16)


SQUARE: Final = ((16, 16), (8, 64), (40, 24))
VECTOR: Final = ((16,), (64,))

REPLICATED: Final = (
    "A dimension without an entry, or with None, is not sharded. The array is replicated over "
    "every mesh axis that the spec does not name."
)
ONE_DEVICE: Final = "`jax.device_put` with a sharding distributes an array."
SHARDS: Final = (
    "The number of shards along a dimension is the product of the sizes of the mesh axes in its "
    "entry."
)
FASTEST: Final = "In a tuple, the last axis changes fastest from block to block."

COLUMN_STRIPS: Final = Exercise(
    id="1.1",
    title="Column strips",
    afterwards="Tensor parallelism (notebook 08) shards a layer's first weight matrix like this: "
    "each device computes some of the features, for every example.",
    requirements=(PlacedLike("columns", "0 1 2 3 4 5 6 7", SQUARE, values=numbers),),
    hints=(
        "A spec has one entry for each dimension of the array, in order. Which dimension has to "
        "be sharded to get columns?",
        "Sharding dimension 0 gives blocks of rows, as in the example above. A dimension with the "
        "entry None is not sharded.",
        "Use the mesh of eight from the example, and a spec with two entries, the first of which "
        "is None.",
    ),
    diagnoses={
        "transposed": "The first entry of a spec is for dimension 0, which counts rows. (A spec "
        "shards an array, and does not transpose it.)",
        "replicated": REPLICATED,
        "replicated-dimension": REPLICATED,
        "one-device": ONE_DEVICE,
        "grid": "Only one dimension is sharded, over all eight devices.",
        "values": "Moving an array to other devices changes no values: use x itself.",
    },
)

BLOCKS: Final = Exercise(
    id="1.2",
    title="Blocks on a grid",
    afterwards="Large models are trained on meshes like this: the batch is sharded over one axis, "
    "the weights over the other.",
    requirements=(PlacedLike("blocks", "0 1 2 3 \n 4 5 6 7", SQUARE),),
    hints=(
        "Read the picture as a table: how many rows of blocks, and how many columns?",
        "A mesh is a table of devices, too, filled row by row. With a spec that names its axes in "
        "order, the blocks have the same order as the devices.",
        "So the mesh needs as many rows and columns as the picture: two axes, the first of size 2.",
    ),
    diagnoses={
        "grid": "Both dimensions are sharded here, so the mesh needs two axes. The size of an axis "
        "is the number of shards along the dimension whose entry names it.",
        "transposed": "Are the mesh's sizes swapped, or the names in the spec?",
        "device-order": "`jax.make_mesh` fills a mesh row by row. Which mesh axis shards which "
        "dimension, and what is its size?",
        "replicated-dimension": REPLICATED,
        "one-device": ONE_DEVICE,
    },
)

BLOCKS_TURNED: Final = Exercise(
    id="1.3",
    title="The same mesh, another spec",
    afterwards="Only the spec changed. It is the same on real machines: the network between the "
    "chips determines the mesh, and you choose the specs.",
    requirements=(PlacedLike("turned", "0 4 \n 1 5 \n 2 6 \n 3 7", SQUARE),),
    hints=(
        "In the picture of 1.2, device 1 is to the right of device 0; here it is below. The mesh "
        "can stay the same.",
        "The spec's first entry names the mesh axis that shards dimension 0. It may be any axis.",
        "Devices 0, 1, 2 and 3 follow each other along dimension 0. Along which axis of your mesh "
        "do they follow each other?",
    ),
    diagnoses={
        "transposed": "This is still the layout of 1.2. The first name in the spec is that of the "
        "mesh axis that shards dimension 0.",
        "device-order": "Four rows and two columns are right. Keep the mesh of 1.2, with its "
        "devices in their usual order, and change only the spec.",
        "grid": "Both dimensions are sharded, each over one axis of the mesh of 1.2.",
        "replicated-dimension": REPLICATED,
    },
)

HALF_THE_DEVICES: Final = Exercise(
    id="1.4",
    title="Every second device",
    afterwards="With meshes of different devices, one machine can run two programs at once, each "
    "compiled for its own devices.",
    requirements=(PlacedLike("spread", "0 2 \n 4 6", SQUARE, values=numbers),),
    hints=(
        "A mesh may contain only some of the devices: `jax.make_mesh` takes `devices=`.",
        "`jax.devices()` is a list. Which slice of it contains devices 0, 2, 4 and 6?",
        "The picture has two rows and two columns, so the mesh's shape is (2, 2).",
    ),
    diagnoses={
        "devices-extra": "Without `devices=`, `jax.make_mesh` uses all devices.",
        "other-devices": "The picture has every second device, beginning with device 0.",
        "device-order": "These are the right four devices, in another order.",
        "transposed": "In the picture, devices 0 and 2 are side by side. Along which mesh axis do "
        "they differ, and which dimension does the spec shard over that axis?",
        "grid": "The picture has two rows and two columns of blocks. A mesh axis can shard one "
        "dimension only, so how many axes does the mesh need?",
        "one-device": ONE_DEVICE,
        "values": "Use x itself: the array must have the same values.",
    },
)

MYSTERY: Final = Exercise(
    id="1.5",
    title="The mysterious mesh",
    afterwards="`jax.make_mesh` chooses an order of devices, too: on TPUs, one in which neighbours "
    "in the mesh are neighbours on the network.",
    requirements=(
        PlacedLike(
            "mystery",
            "0 2 \n 4 6 \n 1 3 \n 5 7",
            SQUARE,
            mistakes={
                "pairs-exchanged": Mistake(
                    "0 2 \n 1 3 \n 4 6 \n 5 7",
                    says="The pairs of devices are right, and their order is not: the pairs of "
                    "even ids come first. " + FASTEST,
                ),
                "rows-in-plain-order": Mistake(
                    "0\n1\n2\n3\n4\n5\n6\n7",
                    says="The picture has four rows of two blocks, and its devices are not in the "
                    "usual order from 0 to 7.",
                ),
            },
        ),
    ),
    hints=(
        "A mesh of two axes with its devices in the usual order cannot do this. Either the devices "
        "are in another order, or the mesh has more axes.",
        "Read the picture row by row: 0 2 4 6 1 3 5 7. `jax.sharding.Mesh` takes an array of "
        "devices in any order and of any shape; start from `np.array(jax.devices())`.",
        "Make that array of devices, with four rows of two, and give it to Mesh with a name for "
        "each axis. Another way is a mesh of three axes of size 2, and a spec with an entry that "
        "is a tuple of two of them; the next section has such tuples.",
    ),
    diagnoses={
        "device-order": "In the picture, first the even device ids follow each other, then the "
        "odd ones.",
        "grid": "The picture has four rows of two blocks.",
        "transposed": "The picture has four rows of two blocks.",
        "replicated-dimension": REPLICATED,
    },
)

IN_ONES: Final = "0 1 2 3 4 5 6 7"
IN_TWOS: Final = "0 2 4 6 1 3 5 7"

TWO_AXES: Final = Exercise(
    id="1.6",
    title="Two mesh axes on one dimension",
    afterwards="This is the order of NumPy's reshape: in P(('x', 'y')) the last axis changes "
    "fastest, so the blocks follow the mesh row by row.",
    requirements=(
        PlacedLike("first", IN_ONES, VECTOR, mistakes={"the-other-one": IN_TWOS}),
        PlacedLike("second", IN_TWOS, VECTOR, mistakes={"the-other-one": IN_ONES}),
    ),
    hints=(
        "An entry of a spec may be a tuple of mesh axes, which shards the dimension over all of "
        "them. P(('a', 'b')) has one entry, not two.",
        "The order in the tuple matters. The last axis changes fastest from block to block, like "
        "the last digit of a number.",
        "In the second picture, device 2 follows device 0. Along which axis of this mesh is "
        "device 2 one step from device 0? That axis changes fastest.",
    ),
    diagnoses={
        "the-other-one": "This is the layout of the other picture. " + FASTEST,
        "device-order": "From block to block, does the device id grow by one or by two? " + FASTEST,
        "replicated-dimension": "On `grid`, one axis alone gives a vector four shards or two, "
        "replicated over the other axis.",
        "replicated": REPLICATED,
        "does-not-fit": "To shard one dimension over two axes, write one entry: a tuple.",
    },
    # the order within a tuple is the point, and the same spec twice gets one of them right
    weights={"second": 2},
)


def _layout(shape: Shape, spec: Spec, axes: Axes) -> Layout:
    """Return the layout according to JAX, from which the right results of 1.7 are read."""
    devices = np.array(jax.devices()[: math.prod(axes.values())]).reshape(*axes.values())
    mesh = jax.sharding.Mesh(devices, tuple(axes))
    return Layout.of(jax.NamedSharding(mesh, jax.P(*spec)), shape)


def shard_shape(shape: Shape, spec: Spec, axes: Axes) -> Shape:
    """Return the shape of one shard."""
    return tuple(stop - start for start, stop in _layout(shape, spec, axes).blocks[0][1])


def bytes_total(shape: Shape, itemsize: int, spec: Spec, axes: Axes) -> int:
    """Return the bytes on all devices together, replicas included."""
    return math.prod(axes.values()) * math.prod(shard_shape(shape, spec, axes)) * itemsize


def holders(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """Return the devices that hold the element at `index`."""
    return [
        device
        for device, block in _layout(shape, spec, axes).blocks
        if all(start <= i < stop for i, (start, stop) in zip(index, block, strict=True))
    ]


def _by_first_names(spec: Spec) -> Spec:
    """Keep only the first name of each tuple: a mistake."""
    return tuple(entry[0] if isinstance(entry, tuple) else entry for entry in spec)


def _tuples_left_out(spec: Spec) -> Spec:
    """Replace each tuple by None: a mistake."""
    return tuple(None if isinstance(entry, tuple) else entry for entry in spec)


def _names(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the mesh axes in an entry of a spec."""
    return (entry,) if isinstance(entry, str) else entry or ()


def _cut_by_sums(shape: Shape, spec: Spec, axes: Axes) -> Shape:
    """Return the shard's shape if a tuple's sizes were added and not multiplied: a mistake."""
    counts = [sum(axes[name] for name in _names(entry)) or 1 for entry in spec]
    return tuple(size // count for size, count in zip(shape, counts, strict=True))


def _holders_by_sums(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """Return the devices for the blocks of `_cut_by_sums`, numbered correctly."""
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place, strict=True))
        numbers = [
            int(np.ravel_multi_index([at[n] for n in names], [axes[n] for n in names]))
            if names
            else 0
            for names in map(_names, spec)
        ]
        block = _cut_by_sums(shape, spec, axes)
        if all(i // size == n for i, size, n in zip(index, block, numbers, strict=True)):
            found.append(device)
    return found


def _numbered_by_the_spec(devices: list[int], spec: Spec, axes: Axes) -> list[int]:
    """Number the devices with the spec's axes first and the others after them: a mistake."""
    order = dict.fromkeys([*(name for entry in spec for name in _names(entry)), *axes])
    places = np.arange(math.prod(axes.values())).reshape(*axes.values())
    counted = places.transpose([list(axes).index(name) for name in order]).ravel().tolist()
    return sorted(counted.index(device) for device in devices)


def _by_last_names(spec: Spec) -> Spec:
    """Keep only the last name of each tuple: a mistake."""
    return tuple(entry[-1] if isinstance(entry, tuple) else entry for entry in spec)


def _in_the_meshs_order(spec: Spec, axes: Axes) -> Spec:
    """Sort the names of each tuple in the order of the mesh: a mistake."""
    return tuple(
        tuple(sorted(entry, key=list(axes).index)) if isinstance(entry, tuple) else entry
        for entry in spec
    )


def _by_two_names(spec: Spec) -> Spec:
    """Keep only the first two names of each tuple: a mistake."""
    return tuple(entry[:2] if isinstance(entry, tuple) else entry for entry in spec)


def _unnamed(spec: Spec, axes: Axes) -> list[int]:
    """Return the sizes of the axes that a spec does not name."""
    named = {name for entry in spec for name in _names(entry)}
    return [size for name, size in axes.items() if name not in named]


def _block_number(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> int:
    """Return the number of an element's block, counting blocks row by row."""
    return int(np.ravel_multi_index(_place_of_block(index, shape, spec, axes), _counts(spec, axes)))


def _place_of_block(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """Return the coordinates of an element's block."""
    return [i // n for i, n in zip(index, shard_shape(shape, spec, axes), strict=True)]


def _holders_far_apart(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """Give one replica of every block to the first devices, then the next replica: a mistake."""
    block = _block_number(index, shape, spec, axes)
    return list(range(block, math.prod(axes.values()), math.prod(_counts(spec, axes))))


def _counts(spec: Spec, axes: Axes) -> tuple[int, ...]:
    """Return the number of shards along each dimension."""
    names = ((entry,) if isinstance(entry, str) else entry or () for entry in spec)
    return tuple(math.prod(axes[name] for name in each) for each in names)


def _holders_by(
    index: Shape,
    shape: Shape,
    spec: Spec,
    axes: Axes,
    block: Callable[[int, int], int],
    number: Callable[[int, int, int], int] = lambda so_far, size, at: so_far * size + at,
) -> list[int]:
    """Return the devices that hold an element, with other rules for numbering blocks.

    Args:
        index: the element's index.
        shape: the array's shape.
        spec: its partition spec.
        axes: the mesh's axis sizes.
        block: returns a block's number from an index and the block's length.
        number: returns the number of a device's block, axis by axis.
    """
    sizes = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place, strict=True))
        mine = []
        for entry in spec:
            so_far = 0
            for name in (entry,) if isinstance(entry, str) else entry or ():
                so_far = number(so_far, axes[name], at[name])
            mine.append(so_far)
        if all(block(i, n) == own for i, n, own in zip(index, sizes, mine, strict=True)):
            found.append(device)
    return found


def _places(axes: Axes, devices: list[int]) -> list[list[int]]:
    """Return the coordinates of devices in the mesh."""
    sizes = tuple(axes.values())
    return [[int(i) for i in np.unravel_index(device, sizes)] for device in devices]


CASES: Final[tuple[tuple[Axes, Spec], ...]] = (
    # One case for each thing that can be forgotten: an axis that is not named, the order within a
    # tuple, ranks other than two, meshes with other sizes than eight.
    ({"x": 4, "y": 2}, ("x", None)),
    ({"x": 2, "y": 4}, (None, "y")),
    ({"x": 4, "y": 2}, ("y", "x")),
    ({"x": 4, "y": 2}, (None, None)),  # 4 times 2 replicas, not 4 plus 2
    ({"x": 4, "y": 2}, (("x", "y"), None)),
    ({"x": 4, "y": 2}, (None, ("y", "x"))),
    ({"x": 2, "y": 3}, (("y", "x"),)),
    ({"a": 2, "b": 2, "c": 2}, ("c", None, ("b", "a"))),
    ({"a": 1, "b": 4, "c": 2}, (None, "a")),  # 8 replicas, not 6
    ({"a": 2, "b": 2, "c": 2}, (("c", "a", "b"), None)),
    ({"x": 6}, ("x", None, None)),
)


def _sample_shapes(generator: np.random.Generator) -> list[tuple[Shape, Spec, Axes]]:
    """Sample a shape for each case, with sizes that divide."""
    return [
        (tuple(24 * int(generator.integers(1, 4)) for _ in spec), spec, dict(axes))
        for axes, spec in CASES
    ]


def _sample_sized(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (shape, int(generator.choice([2, 4, 8])), spec, axes)
        for shape, spec, axes in _sample_shapes(generator)
    ]


def _cut(shape: Shape, spec: Spec, axes: Axes) -> Shape:
    """Compute `shard_shape` without devices, because the sampling process may have only one."""
    names = ((entry,) if isinstance(entry, str) else entry or () for entry in spec)
    counts = [math.prod(axes[name] for name in each) for each in names]
    return tuple(size // count for size, count in zip(shape, counts, strict=True))


def _sample_indexed(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample two elements for each case: the first of the second block, and any other.

    If the order of a tuple is reversed, another device holds its second block. So the first element
    tells the two orders apart, whatever the seed.
    """
    cases = []
    for shape, spec, axes in _sample_shapes(generator):
        block = _cut(shape, spec, axes)
        second = tuple(min(n, size - 1) for n, size in zip(block, shape, strict=True))
        anywhere = tuple(int(generator.integers(size)) for size in shape)
        cases += [(index, shape, spec, axes) for index in (second, anywhere)]
    return cases


COUNTING: Final = Exercise(
    id="1.7",
    title="Counting replicas",
    afterwards="JAX can do this for you: `sharding.shard_shape(shape)` returns the shape of a "
    "shard, and `sharding.devices_indices_map(shape)` the part that each device holds.",
    requirements=(
        Returns(
            "shard_shape",
            "shard_shape must return the shape of one shard.",
            cases=_sample_shapes,
            reference=shard_shape,
            mistakes={
                "whole-shape": Mistake(
                    lambda shape, spec, axes: shape,
                    says="This is the shape of the whole array. Each dimension that the spec "
                    "shards is shorter in a shard.",
                ),
                "every-axis": Mistake(
                    lambda shape, spec, axes: tuple(
                        size // n for size, n in zip(shape, axes.values(), strict=False)
                    ),
                    says="Each dimension is divided by a mesh axis in order. The spec says which "
                    "axis shards which dimension.",
                ),
                "true-division": lambda *case: tuple(float(n) for n in shard_shape(*case)),
                "first-name-only": lambda shape, spec, axes: shard_shape(
                    shape, _by_first_names(spec), axes
                ),
                "tuples-left-out": lambda shape, spec, axes: shard_shape(
                    shape, _tuples_left_out(spec), axes
                ),
                "sizes-added": _cut_by_sums,
                "the-example": lambda *case: (4, 16),
                "last-name-only": lambda shape, spec, axes: shard_shape(
                    shape, _by_last_names(spec), axes
                ),
                "two-names-only": lambda shape, spec, axes: shard_shape(
                    shape, _by_two_names(spec), axes
                ),
                "all-in-the-first": Mistake(
                    lambda shape, spec, axes: (
                        shape[0] // math.prod(_counts(spec, axes)),
                        *shape[1:],
                    ),
                    says="Dimension 0 is divided by the sizes of all axes in the spec. Each entry "
                    "shards only its own dimension.",
                ),
                "first-dimension-only": Mistake(
                    lambda shape, spec, axes: (
                        *shard_shape(shape, spec, axes)[:1],
                        *shape[1:],
                    ),
                    says="Only dimension 0 is divided. Every entry of the spec shards its own "
                    "dimension.",
                ),
                "multiplied": Mistake(
                    lambda shape, spec, axes: tuple(
                        size * count for size, count in zip(shape, _counts(spec, axes), strict=True)
                    ),
                    says="The sizes are multiplied by the number of shards. A shard is smaller "
                    "than the array: divide.",
                ),
                "number-of-blocks": Mistake(
                    lambda shape, spec, axes: _counts(spec, axes),
                    says="This is the number of shards along each dimension. How long is one of "
                    "them?",
                ),
                "one-too-few": Mistake(
                    lambda *case: tuple(n - 1 for n in shard_shape(*case)),
                    says="Every number is 1 too small.",
                ),
                "every-name-everywhere": Mistake(
                    lambda shape, spec, axes: tuple(
                        size // math.prod(_counts(spec, axes)) for size in shape
                    ),
                    says="Every dimension is divided by the sizes of all axes in the spec. An "
                    "entry shards only its own dimension.",
                ),
                "elements-of-a-block": Mistake(
                    lambda *case: math.prod(shard_shape(*case)),
                    says="This is the number of elements in a shard. A shape has one number for "
                    "each dimension.",
                ),
                "backwards": Mistake(
                    lambda *case: shard_shape(*case)[::-1],
                    says="The numbers are right, but the dimensions are in the opposite order.",
                ),
                "first-axis-for-all": Mistake(
                    lambda shape, spec, axes: _cut(
                        shape, spec, dict.fromkeys(axes, next(iter(axes.values())))
                    ),
                    says="The size of the mesh's first axis is used for every axis. Look up the "
                    "size of the axis that the entry names.",
                ),
                "all-devices": Mistake(
                    lambda shape, spec, axes: tuple(
                        size // math.prod(axes.values()) if entry else size
                        for size, entry in zip(shape, spec, strict=True)
                    ),
                    says="A dimension is sharded over the axes in its entry, not over all.",
                ),
            },
        ),
        Returns(
            "bytes_total",
            "bytes_total must return the bytes on all devices together, replicas included.",
            cases=_sample_sized,
            reference=bytes_total,
            mistakes={
                "forgot-copies": Mistake(
                    lambda shape, itemsize, spec, axes: math.prod(shape) * itemsize,
                    says="This is the array's own size. The array is replicated over every axis "
                    "that the spec does not name, and replicas take memory, too.",
                ),
                "forgot-itemsize": Mistake(
                    lambda shape, itemsize, spec, axes: bytes_total(shape, 1, spec, axes),
                    says="These are elements. Each takes itemsize bytes.",
                ),
                "one-device-only": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shard_shape(shape, spec, axes)) * itemsize
                    ),
                    says="This is what one device holds. Expected: all devices together.",
                ),
                "true-division": lambda *case: float(bytes_total(*case)),
                "eight-devices": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        8 * math.prod(shard_shape(shape, spec, axes)) * itemsize
                    ),
                    says="The mesh is taken to have eight devices. Their number is the product of "
                    "its sizes.",
                ),
                "first-name-only": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, itemsize, _by_first_names(spec), axes
                ),
                "tuples-left-out": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, itemsize, _tuples_left_out(spec), axes
                ),
                "sizes-added": lambda shape, itemsize, spec, axes: (
                    math.prod(axes.values()) * math.prod(_cut_by_sums(shape, spec, axes)) * itemsize
                ),
                "the-example": lambda *case: 2048,
                "always-copied": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shape) * itemsize * math.prod(axes.values())
                    ),
                    says="Every device holds the whole array only if the spec names no axis.",
                ),
                "copied-along-named-axes": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shape) * itemsize * math.prod(_counts(spec, axes))
                    ),
                    says="The array's bytes are multiplied by the sizes of the axes that the spec "
                    "names. The array is sharded over these, and replicated over the others.",
                ),
                "blocks-counted": Mistake(
                    lambda shape, itemsize, spec, axes: math.prod(_counts(spec, axes)) * itemsize,
                    says="This is the number of shards times the bytes of one element. A shard has "
                    "more than one element.",
                ),
                "sizes-of-the-mesh-added": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shard_shape(shape, spec, axes)) * itemsize * sum(axes.values())
                    ),
                    says="The sizes of the mesh's axes are added. Their product is the number of "
                    "devices.",
                ),
                "axes-counted": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shard_shape(shape, spec, axes)) * itemsize * len(axes)
                    ),
                    says="The bytes of a shard are multiplied by the number of mesh axes. Multiply "
                    "by the number of devices.",
                ),
                "bits": Mistake(
                    lambda *case: 8 * bytes_total(*case),
                    says="These are bits. itemsize is in bytes.",
                ),
                "always-four-bytes": Mistake(
                    lambda shape, itemsize, spec, axes: bytes_total(shape, 4, spec, axes),
                    says="An element is taken to have 4 bytes. itemsize is an argument.",
                ),
                "largest-unnamed-axis": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shape) * itemsize * max(_unnamed(spec, axes), default=1)
                    ),
                    says="Of the axes that the spec does not name, only the largest is used. The "
                    "array is replicated over all of them.",
                ),
                "copies-added": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shape) * itemsize * (sum(_unnamed(spec, axes)) or 1)
                    ),
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shape) * itemsize * sum(_unnamed(spec, axes))
                    ),
                    says="The sizes of the axes that the spec does not name are added. The number "
                    "of replicas is their product.",
                ),
                "last-name-only": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, itemsize, _by_last_names(spec), axes
                ),
                "two-names-only": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, itemsize, _by_two_names(spec), axes
                ),
                "elements": Mistake(
                    lambda shape, itemsize, spec, axes: math.prod(shape),
                    says="This is the number of elements in the array.",
                ),
                "largest-axis": Mistake(
                    lambda shape, itemsize, spec, axes: (
                        math.prod(shard_shape(shape, spec, axes)) * itemsize * max(axes.values())
                    ),
                    says="The bytes of a shard are multiplied by the size of the largest mesh "
                    "axis. The number of devices is the product of all sizes.",
                ),
            },
        ),
        Returns(
            "holders",
            "holders must return the devices that hold the element at index, in increasing order. "
            "A device's number is its position in the mesh, counted row by row.",
            cases=_sample_indexed,
            reference=holders,
            mistakes={
                "first-holder-only": Mistake(
                    lambda *case: holders(*case)[:1],
                    says="Only one device is listed. If the spec leaves out an axis, several "
                    "devices hold the same block.",
                ),
                "one-number": Mistake(
                    lambda *case: holders(*case)[0],
                    says="The result must be a list, even if only one device holds the element.",
                ),
                "how-many": Mistake(
                    lambda *case: len(holders(*case)),
                    says="This is the number of devices that hold the element. Which ones are "
                    "they?",
                ),
                "all-holders": Mistake(
                    lambda index, shape, spec, axes: list(range(math.prod(axes.values()))),
                    says="This is every device of the mesh, whatever the spec and the index are.",
                ),
                "first-dimension-alone": Mistake(
                    lambda index, shape, spec, axes: holders(index[:1], shape[:1], spec[:1], axes),
                    says="Only the first dimension is checked. A device holds the element if its "
                    "block contains the index in every dimension.",
                ),
                "any-dimension": Mistake(
                    lambda index, shape, spec, axes: sorted(
                        {
                            device
                            for i, size, entry in zip(index, shape, spec, strict=True)
                            for device in holders((i,), (size,), (entry,), axes)
                        }
                    ),
                    says="A device counts here if its block contains the index in any dimension. "
                    "It must in every dimension.",
                ),
                "block-number": Mistake(
                    lambda index, shape, spec, axes: [
                        index[0] // shard_shape(shape, spec, axes)[0]
                    ],
                    lambda *case: [_block_number(*case)],
                    says="This is the number of the element's block. Which devices hold that "
                    "block? The spec says over which mesh axes the blocks are distributed.",
                ),
                "block-coordinates": Mistake(
                    _place_of_block,
                    lambda *case: _place_of_block(*case)[::-1],
                    says="These are the coordinates of the element's block in the array. Which "
                    "devices hold that block?",
                ),
                "place-in-the-block": Mistake(
                    lambda index, shape, spec, axes: _holders_by(
                        index, shape, spec, axes, lambda i, n: i % n
                    ),
                    lambda index, shape, spec, axes: _holders_by(
                        # a dimension that is not sharded is passed over
                        tuple(i if e else 0 for i, e in zip(index, spec, strict=True)),
                        shape,
                        spec,
                        axes,
                        lambda i, n: i % n,
                    ),
                    says="The index is taken modulo the length of a block, which gives the "
                    "position in the block. Dividing by that length gives the block's number.",
                ),
                "tuple-in-the-meshs-order": Mistake(
                    lambda index, shape, spec, axes: holders(
                        index, shape, _in_the_meshs_order(spec, axes), axes
                    ),
                    says="The axes of a tuple are used in the order of the mesh. The tuple's own "
                    "order counts: ('y', 'x') numbers the blocks differently from ('x', 'y').",
                ),
                "dealt-out": Mistake(
                    lambda index, shape, spec, axes: holders(
                        tuple(
                            i % count * n
                            for i, count, n in zip(
                                index,
                                _counts(spec, axes),
                                shard_shape(shape, spec, axes),
                                strict=True,
                            )
                        ),
                        shape,
                        spec,
                        axes,
                    ),
                    says="The index is taken modulo the number of shards, as if elements were "
                    "dealt out like cards. A block has neighbouring elements: divide the index by "
                    "its length.",
                ),
                "copies-far-apart": Mistake(
                    _holders_far_apart,
                    says="The first devices get the blocks in order, the next ones their replicas, "
                    "and so on. A device's position in the mesh decides which block it holds.",
                ),
                "two-names-only": lambda index, shape, spec, axes: holders(
                    index, shape, _by_two_names(spec), axes
                ),
                "last-name-only": lambda index, shape, spec, axes: holders(
                    index, shape, _by_last_names(spec), axes
                ),
                "counted-off-by-one": Mistake(
                    lambda index, shape, spec, axes: _holders_by(
                        index, shape, spec, axes, lambda i, n: (i - 1) // n
                    ),
                    says="The block's number is wrong at the beginning of a block: indices count "
                    "from 0.",
                ),
                "numbers-added": Mistake(
                    lambda index, shape, spec, axes: _holders_by(
                        index,
                        shape,
                        spec,
                        axes,
                        lambda i, n: i // n,
                        lambda so_far, size, at: so_far + at,
                    ),
                    says="For a tuple, your function adds the device's positions along the axes. "
                    "The number of its block is the first position times the size of the second "
                    "axis, plus the second position.",
                ),
                "counted-from-one": Mistake(
                    lambda *case: [device + 1 for device in holders(*case)],
                    says="The first device of the mesh has number 0.",
                ),
                "last-first": Mistake(
                    lambda *case: holders(*case)[::-1],
                    says="These are the right devices in decreasing order. Expected: increasing.",
                ),
                "by-coordinates": Mistake(
                    lambda index, shape, spec, axes: _places(
                        axes, holders(index, shape, spec, axes)
                    ),
                    says="These are the right devices as coordinates in the mesh. Expected: "
                    "numbers, counted row by row.",
                ),
                "first-name-only": lambda index, shape, spec, axes: holders(
                    index, shape, _by_first_names(spec), axes
                ),
                "tuples-left-out": lambda index, shape, spec, axes: holders(
                    index, shape, _tuples_left_out(spec), axes
                ),
                "sizes-added": _holders_by_sums,
                "numbered-by-the-spec": Mistake(
                    lambda index, shape, spec, axes: _numbered_by_the_spec(
                        holders(index, shape, spec, axes), spec, axes
                    ),
                    says="Devices are numbered with the spec's axes first. A device's number is "
                    "its position in the mesh, row by row, whatever the spec names first.",
                ),
                "the-example": lambda *case: [2, 3],
                "names-reversed": Mistake(
                    lambda index, shape, spec, axes: holders(
                        index,
                        shape,
                        tuple(e[::-1] if isinstance(e, tuple) else e for e in spec),
                        axes,
                    ),
                    says="The order of a tuple is reversed. " + FASTEST,
                ),
                "mesh-by-columns": Mistake(
                    lambda index, shape, spec, axes: sorted(
                        int(
                            np.ravel_multi_index(
                                np.unravel_index(d, tuple(axes.values())),
                                tuple(axes.values()),
                                order="F",
                            )
                        )
                        for d in holders(index, shape, spec, axes)
                    ),
                    says="Devices fill the mesh row by row: the last axis changes fastest.",
                ),
            },
        ),
    ),
    hints=(
        "Work on one dimension at a time. Its entry in the spec names the axes that shard it: None "
        "is no axis, a string is one, a tuple is several.",
        "Every device holds one block, replica or not. So all devices together hold as many blocks "
        "as there are devices.",
        "For holders: go through the devices, and find out whether each one's block contains the "
        "element. `np.ndindex(4, 2)` lists the positions in a 4 × 2 mesh in order. Along a tuple "
        "such as ('x', 'y'), the block's number is `x * size_of_y + y`.",
    ),
    diagnoses={
        "last-name-only": "Only the last axis of a tuple is used. All of them shard the dimension.",
        "two-names-only": "Only the first two of three axes in a tuple are used. A tuple may have "
        "any number.",
        "true-division": "Sizes are integers, and these are floats. Divide with //, and note that "
        "np.prod of an empty list is 1.0.",
        "first-name-only": "Only the first axis of a tuple is used. All of them shard the "
        "dimension.",
        "tuples-left-out": "An entry that is a tuple is treated like None. It shards its dimension "
        "over each of its axes.",
        "sizes-added": "The sizes of a tuple's axes are added. They multiply: axes of four and two "
        "give eight shards.",
        "the-example": "This is the result of the example in the prompt, whatever the arguments.",
    },
)

SLABS: Final = "0\n\n1\n\n2\n\n3\n\n4\n\n5\n\n6\n\n7"
PENCILS: Final = "0\n1\n\n2\n3\n\n4\n5\n\n6\n7"

CUBES: Final = Exercise(
    id="1.8",
    title="Slabs and pencils",
    afterwards="Libraries for 3-D Fourier transforms use these words. Pencils keep more devices "
    "busy, because two dimensions are sharded.",
    requirements=(
        PlacedLike(
            "slabs",
            SLABS,
            ((16, 16, 16), (8, 4, 2)),
            mistakes={
                "pencils": Mistake(PENCILS, says="These are the pencils. Expected: the slabs.")
            },
        ),
        PlacedLike(
            "pencils",
            PENCILS,
            ((16, 16, 16), (4, 8, 2)),
            mistakes={"slabs": Mistake(SLABS, says="These are the slabs. Expected: the pencils.")},
        ),
    ),
    hints=(
        "The spec has three entries now. Dimension 2, along which the transform runs, must not be "
        "sharded.",
        "For slabs, one dimension has eight shards. For pencils, two dimensions have four and two.",
        "Slabs: a mesh of one axis, on dimension 0. Pencils: a 4 × 2 mesh, on dimensions 0 and 1.",
    ),
    diagnoses={
        "transposed": "Compare the number of shards dimension by dimension. In both pictures "
        "dimension 2, along which the transform runs, is not sharded.",
        "grid": SHARDS,
        "replicated": REPLICATED,
        "replicated-dimension": REPLICATED,
        "device-order": "Which mesh axis shards which dimension, and in which order are the "
        "devices in the mesh? " + FASTEST,
    },
)

EXERCISES: Final = (
    COLUMN_STRIPS,
    BLOCKS,
    BLOCKS_TURNED,
    HALF_THE_DEVICES,
    MYSTERY,
    TWO_AXES,
    COUNTING,
    CUBES,
)
