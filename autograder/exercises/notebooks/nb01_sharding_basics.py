"""Notebook 01: which device holds which block.

A note for maintainers: every check here reads where blocks are, and nothing that JAX's compiler
decides, so these exercises have no reason to change with JAX.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np

from autograder.judge import AnyOf, Exercise, PlacedLike, Returns
from autograder.layouts import Layout, Shape

Axes = dict[str, int]
Spec = tuple[str | tuple[str, ...] | None, ...]


def numbers() -> np.ndarray:
    """The array that the notebook calls `x`."""
    return np.arange(256, dtype=np.float32).reshape(16, 16)


SQUARE: Final = ((16, 16), (8, 64), (40, 24))
VECTOR: Final = ((16,), (64,))

REPLICATED: Final = (
    "A dimension that the spec leaves out, or gives None, is not cut: every device along an axis "
    "that the spec does not name gets a copy."
)
ONE_DEVICE: Final = "An array that you do not place is on one device; a sharding spreads it."
CUTS: Final = (
    "A dimension is cut into as many blocks as the sizes of the mesh axes that its entry names "
    "make, multiplied."
)
FASTEST: Final = "Where an entry is a tuple, its last name changes fastest from block to block."

COLUMN_STRIPS: Final = Exercise(
    id="1.1",
    title="Column strips",
    afterwards="Tensor parallelism, which notebook 08 is about, keeps a layer's first weight "
    "matrix in column strips: each device computes features of its own, for all examples.",
    requirements=(PlacedLike("columns", "0 1 2 3 4 5 6 7", SQUARE, values=numbers),),
    hints=(
        "A spec has one entry for each dimension of the array, in order. Which dimension has to "
        "be cut to make columns?",
        "Cutting dimension 0 makes rows, as in the example above. To leave a dimension whole, its "
        "entry in the spec is None.",
        "You need the same mesh of eight as in the example and a spec of two entries, of which "
        "the first is None.",
    ),
    diagnoses={
        "transposed": "The first entry of a spec is for dimension 0, which counts rows. The "
        "array itself stays as it is.",
        "replicated": REPLICATED,
        "replicated-dimension": REPLICATED,
        "one-device": ONE_DEVICE,
        "grid": "All eight devices must stand along the one dimension that is cut.",
        "values": "Placing an array changes none of its values: place x itself, as it is.",
    },
)

BLOCKS: Final = Exercise(
    id="1.2",
    title="Blocks on a grid",
    afterwards="Meshes of two axes are what large models are trained on: one axis cuts the batch, "
    "the other cuts the weights.",
    requirements=(PlacedLike("blocks", "0 1 2 3 \n 4 5 6 7", SQUARE),),
    hints=(
        "Read the picture as a table: how many rows of blocks, and how many columns?",
        "A mesh is a table of devices too, filled row by row. A spec that names its axes in order "
        "lays the array over the mesh as it stands.",
        "So the mesh must have as many rows and columns as the picture: two axes, the first of "
        "them of size 2.",
    ),
    diagnoses={
        "grid": CUTS,
        "transposed": "Are the mesh's sizes swapped, or the names in the spec?",
        "device-order": "jax.make_mesh fills a mesh with devices row by row. Which of its axes "
        "lies along which dimension, and how long is it?",
        "replicated-dimension": REPLICATED,
        "one-device": ONE_DEVICE,
    },
)

BLOCKS_TURNED: Final = Exercise(
    id="1.3",
    title="The same mesh, turned",
    afterwards="The mesh stayed as it was, and the spec did the turning. On real machines that is "
    "the rule: the wiring decides the mesh, and you may choose the specs.",
    requirements=(PlacedLike("turned", "0 4 \n 1 5 \n 2 6 \n 3 7", SQUARE),),
    hints=(
        "Follow device 1: in the picture before it stood right of device 0, and here it stands "
        "below. The mesh can stay as it is.",
        "The spec's first entry says along which mesh axis dimension 0 is cut. It may be any axis.",
        "Along dimension 0 lie devices 0, 1, 2, 3: which axis of your mesh do these lie along?",
    ),
    diagnoses={
        "transposed": "The order of the names in the spec decides which mesh axis lies along "
        "which dimension. Is the mesh still that of the exercise before? If its axes are "
        "exchanged as well, nothing changes in the end.",
        "device-order": "Four rows and two columns are right. Keep the mesh of the exercise "
        "before, with its devices in plain order, and change the spec alone.",
        "grid": "The mesh is that of the exercise before, and the picture cuts both dimensions, "
        "each along one of its axes.",
        "replicated-dimension": REPLICATED,
    },
)

HALF_THE_DEVICES: Final = Exercise(
    id="1.4",
    title="Every second device",
    afterwards="With a mesh of some of the devices, one machine can run two programs side by side: "
    "each is compiled for its own devices.",
    requirements=(PlacedLike("spread", "0 2 \n 4 6", SQUARE, values=numbers),),
    hints=(
        "A mesh need not have all the devices: `jax.make_mesh` takes `devices=`.",
        "`jax.devices()` is a list, so a slice of it is a list of devices. Which slice has 0, 2, 4 "
        "and 6?",
        "Four devices in a picture of two rows and two columns: the mesh's sizes are (2, 2).",
    ),
    diagnoses={
        "devices-extra": "jax.make_mesh takes from all the devices, unless it is told which.",
        "other-devices": "The picture takes every second device, from device 0 on.",
        "device-order": "The right four devices; now look at which stands where.",
        "transposed": "In the picture devices 0 and 2 stand side by side. Which mesh axis do they "
        "lie along, and which dimension does the spec cut along it?",
        "grid": "The picture has two rows and two columns of blocks.",
        "one-device": ONE_DEVICE,
        "values": "Place x itself: the array should have the same numbers.",
    },
)

MYSTERY: Final = Exercise(
    id="1.5",
    title="The mysterious mesh",
    afterwards="`jax.make_mesh` chooses an order of devices too: on TPUs it looks for one in which "
    "neighbours in the mesh are neighbours in the wiring.",
    requirements=(
        PlacedLike(
            "mystery",
            "0 2 \n 4 6 \n 1 3 \n 5 7",
            SQUARE,
            mistakes={
                "pairs-exchanged": "0 2 \n 1 3 \n 4 6 \n 5 7",
                "rows-in-plain-order": "0\n1\n2\n3\n4\n5\n6\n7",
            },
        ),
    ),
    hints=(
        "No mesh with its devices in plain order does this with two axes. Either the devices "
        "stand in another order, or the mesh has more axes.",
        "Read the picture row by row: 0 2 4 6 1 3 5 7. `jax.sharding.Mesh` takes an array of "
        "devices of any order and form; `np.array(jax.devices())` is one to start from.",
        "So make that array of devices, four rows of two, and give it to Mesh with a name for each "
        "of its axes. Another way is a mesh of three axes of size 2, and an entry of the spec that "
        "is a tuple of two of them; the next section has such tuples.",
    ),
    diagnoses={
        "device-order": "The picture goes on in steps of two, first the even ids, then the odd.",
        "pairs-exchanged": "These are the right pairs, in another order: in the picture the pairs "
        "of even ids come first. " + FASTEST,
        "rows-in-plain-order": "The picture has four rows of two blocks, and it has its devices in "
        "another order: yours stand in their plain order, from 0 to 7.",
        "grid": "The picture has four rows of two blocks.",
        "transposed": "The picture has four rows of two blocks.",
        "replicated-dimension": REPLICATED,
    },
)

IN_ONES: Final = "0 1 2 3 4 5 6 7"
IN_TWOS: Final = "0 2 4 6 1 3 5 7"

TWO_AXES: Final = Exercise(
    id="1.6",
    title="Two axes along one dimension",
    afterwards="It is the order of NumPy's reshape: in P(('x', 'y')) the last name changes "
    "fastest, so the mesh is read row by row.",
    requirements=(
        PlacedLike("first", IN_ONES, VECTOR, mistakes={"the-other-one": IN_TWOS}),
        PlacedLike("second", IN_TWOS, VECTOR, mistakes={"the-other-one": IN_ONES}),
    ),
    hints=(
        "An entry of a spec may be a tuple of axis names: the dimension is then cut along all of "
        "them, and P(('x', 'y')) has one entry, not two.",
        "The order within the tuple matters. The last name changes fastest from block to block, "
        "as the last digit of a number does.",
        "In the second picture device 2 follows device 0. On this mesh, moving one step along "
        "which axis leads from device 0 to device 2? That axis changes fastest.",
    ),
    diagnoses={
        "the-other-one": "This is the layout of the other of the two pictures. " + FASTEST,
        "device-order": "From block to block, do the devices go on in ones or in twos? " + FASTEST,
        "replicated-dimension": "On grid, one axis alone cuts a vector into four blocks or into "
        "two, and the devices along the other axis hold copies.",
        "replicated": REPLICATED,
        "does-not-fit": "Two axes on one dimension make one entry of the spec: a tuple.",
    },
    # which comes last within a tuple is the point, and the same spec twice has one of them right
    weights={"second": 2},
)


def _layout(shape: Shape, spec: Spec, axes: Axes) -> Layout:
    """JAX's own answer, from which the exercise on counting reads the right results."""
    devices = np.array(jax.devices()[: math.prod(axes.values())]).reshape(*axes.values())
    mesh = jax.sharding.Mesh(devices, tuple(axes))
    return Layout.of(jax.NamedSharding(mesh, jax.P(*spec)), shape)


def shard_shape(shape: Shape, spec: Spec, axes: Axes) -> Shape:
    """The shape of the block that one device holds."""
    return tuple(stop - start for start, stop in _layout(shape, spec, axes).blocks[0][1])


def bytes_total(shape: Shape, itemsize: int, spec: Spec, axes: Axes) -> int:
    """The bytes that all devices together hold, copies included."""
    return math.prod(axes.values()) * math.prod(shard_shape(shape, spec, axes)) * itemsize


def holders(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """The devices that hold the element at `index`."""
    return [
        device
        for device, block in _layout(shape, spec, axes).blocks
        if all(start <= i < stop for i, (start, stop) in zip(index, block, strict=True))
    ]


def _by_first_names(spec: Spec) -> Spec:
    """The mistake of taking, of each tuple of names, the first alone."""
    return tuple(entry[0] if isinstance(entry, tuple) else entry for entry in spec)


def _tuples_left_out(spec: Spec) -> Spec:
    """The mistake of taking a tuple of names for none."""
    return tuple(None if isinstance(entry, tuple) else entry for entry in spec)


def _names(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The axes that an entry of a spec names."""
    return (entry,) if isinstance(entry, str) else entry or ()


def _cut_by_sums(shape: Shape, spec: Spec, axes: Axes) -> Shape:
    """The mistake of adding up the sizes of a tuple's axes, where they multiply."""
    counts = [sum(axes[name] for name in _names(entry)) or 1 for entry in spec]
    return tuple(size // count for size, count in zip(shape, counts, strict=True))


def _holders_by_sums(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """The same mistake: blocks that are too long, numbered as they should be."""
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
    """The mistake of counting places with the axes in the spec's order, the others after them."""
    order = dict.fromkeys([*(name for entry in spec for name in _names(entry)), *axes])
    places = np.arange(math.prod(axes.values())).reshape(*axes.values())
    counted = places.transpose([list(axes).index(name) for name in order]).ravel().tolist()
    return sorted(counted.index(device) for device in devices)


def _by_last_names(spec: Spec) -> Spec:
    """A spec with the last name of each tuple."""
    return tuple(entry[-1] if isinstance(entry, tuple) else entry for entry in spec)


def _in_the_meshs_order(spec: Spec, axes: Axes) -> Spec:
    """A spec with the names of each tuple in the order that they have in the mesh."""
    return tuple(
        tuple(sorted(entry, key=list(axes).index)) if isinstance(entry, tuple) else entry
        for entry in spec
    )


def _by_two_names(spec: Spec) -> Spec:
    """A spec with the first two names of each tuple."""
    return tuple(entry[:2] if isinstance(entry, tuple) else entry for entry in spec)


def _unnamed(spec: Spec, axes: Axes) -> list[int]:
    """The sizes of the axes that a spec does not name."""
    named = {name for entry in spec for name in _names(entry)}
    return [size for name, size in axes.items() if name not in named]


def _block_number(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> int:
    """The number of an element's block, where blocks are counted row by row."""
    places = [i // n for i, n in zip(index, shard_shape(shape, spec, axes), strict=True)]
    return int(np.ravel_multi_index(places, _counts(spec, axes)))


def _holders_far_apart(index: Shape, shape: Shape, spec: Spec, axes: Axes) -> list[int]:
    """The mistake of numbering all blocks, then all of their first copies, and so on."""
    block = _block_number(index, shape, spec, axes)
    return list(range(block, math.prod(axes.values()), math.prod(_counts(spec, axes))))


def _counts(spec: Spec, axes: Axes) -> tuple[int, ...]:
    """In how many blocks each dimension is cut."""
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
    """The devices whose block has a number, in a way of one's own.

    Args:
        index: the element's place.
        shape: the array's.
        spec: how it is cut.
        axes: the mesh's.
        block: the number of a block, from an index and the length of a block.
        number: the number of a device's block, from axis to axis.
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
    """The places of devices in the mesh, by coordinates."""
    sizes = tuple(axes.values())
    return [[int(i) for i in np.unravel_index(device, sizes)] for device in devices]


CASES: Final[tuple[tuple[Axes, Spec], ...]] = (
    # One case for each thing that can be forgotten: an axis not named, the order within a tuple,
    # more or fewer dimensions than two, meshes of other sizes than eight.
    ({"x": 4, "y": 2}, ("x", None)),
    ({"x": 2, "y": 4}, (None, "y")),
    ({"x": 4, "y": 2}, ("y", "x")),
    ({"x": 4, "y": 2}, (None, None)),  # 4 times 2 copies, and not 4 and 2
    ({"x": 4, "y": 2}, (("x", "y"), None)),
    ({"x": 4, "y": 2}, (None, ("y", "x"))),
    ({"x": 2, "y": 3}, (("y", "x"),)),
    ({"a": 2, "b": 2, "c": 2}, ("c", None, ("b", "a"))),
    ({"a": 1, "b": 4, "c": 2}, (None, "a")),  # 8 copies of it, and not 6
    ({"a": 2, "b": 2, "c": 2}, (("c", "a", "b"), None)),
    ({"x": 6}, ("x", None, None)),
)


def _draw(generator: np.random.Generator) -> list[tuple[Shape, Spec, Axes]]:
    """Each case with a shape of its own, which it divides."""
    return [
        (tuple(24 * int(generator.integers(1, 4)) for _ in spec), spec, dict(axes))
        for axes, spec in CASES
    ]


def _draw_sized(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (shape, int(generator.choice([2, 4, 8])), spec, axes)
        for shape, spec, axes in _draw(generator)
    ]


def _cut(shape: Shape, spec: Spec, axes: Axes) -> Shape:
    """What `shard_shape` gives, by division: cases are drawn where there are no eight devices."""
    names = ((entry,) if isinstance(entry, str) else entry or () for entry in spec)
    counts = [math.prod(axes[name] for name in each) for each in names]
    return tuple(size // count for size, count in zip(shape, counts, strict=True))


def _draw_indexed(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    """Each case with an element near the start and one that is anywhere.

    The second block along a tuple of axes belongs to another device when the tuple is turned, so
    the first of the two tells the orders apart whatever is drawn.
    """
    cases = []
    for shape, spec, axes in _draw(generator):
        block = _cut(shape, spec, axes)
        second = tuple(min(n, size - 1) for n, size in zip(block, shape, strict=True))
        anywhere = tuple(int(generator.integers(size)) for size in shape)
        cases += [(index, shape, spec, axes) for index in (second, anywhere)]
    return cases


COUNTING: Final = Exercise(
    id="1.7",
    title="Counting copies",
    afterwards="JAX can count for you: `sharding.shard_shape(shape)` is the shape of a block, and "
    "`sharding.devices_indices_map(shape)` says who holds what.",
    requirements=(
        Returns(
            "shard_shape",
            "shard_shape must return the shape of the block that one device holds.",
            cases=_draw,
            reference=shard_shape,
            mistakes={
                "whole-shape": lambda shape, spec, axes: shape,
                "every-axis": lambda shape, spec, axes: tuple(
                    size // n for size, n in zip(shape, axes.values(), strict=False)
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
                "all-in-the-first": lambda shape, spec, axes: (
                    shape[0] // math.prod(_counts(spec, axes)),
                    *shape[1:],
                ),
                "first-dimension-only": lambda shape, spec, axes: (
                    *shard_shape(shape, spec, axes)[:1],
                    *shape[1:],
                ),
                "multiplied": lambda shape, spec, axes: tuple(
                    size * count for size, count in zip(shape, _counts(spec, axes), strict=True)
                ),
                "number-of-blocks": lambda shape, spec, axes: _counts(spec, axes),
                "one-too-few": lambda *case: tuple(n - 1 for n in shard_shape(*case)),
                "every-name-everywhere": lambda shape, spec, axes: tuple(
                    size // math.prod(_counts(spec, axes)) for size in shape
                ),
                "elements-of-a-block": lambda *case: math.prod(shard_shape(*case)),
                "backwards": lambda *case: shard_shape(*case)[::-1],
                "first-axis-for-all": lambda shape, spec, axes: _cut(
                    shape, spec, dict.fromkeys(axes, next(iter(axes.values())))
                ),
                "all-devices": lambda shape, spec, axes: tuple(
                    size // math.prod(axes.values()) if entry else size
                    for size, entry in zip(shape, spec, strict=True)
                ),
            },
        ),
        Returns(
            "bytes_total",
            "bytes_total must return the bytes that all devices together hold, copies included.",
            cases=_draw_sized,
            reference=bytes_total,
            mistakes={
                "forgot-copies": lambda shape, itemsize, spec, axes: math.prod(shape) * itemsize,
                "forgot-itemsize": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, 1, spec, axes
                ),
                "one-device-only": lambda shape, itemsize, spec, axes: (
                    math.prod(shard_shape(shape, spec, axes)) * itemsize
                ),
                "true-division": lambda *case: float(bytes_total(*case)),
                "eight-devices": lambda shape, itemsize, spec, axes: (
                    8 * math.prod(shard_shape(shape, spec, axes)) * itemsize
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
                "always-copied": lambda shape, itemsize, spec, axes: (
                    math.prod(shape) * itemsize * math.prod(axes.values())
                ),
                "copied-along-named-axes": lambda shape, itemsize, spec, axes: (
                    math.prod(shape) * itemsize * math.prod(_counts(spec, axes))
                ),
                "blocks-counted": lambda shape, itemsize, spec, axes: (
                    math.prod(_counts(spec, axes)) * itemsize
                ),
                "sizes-of-the-mesh-added": lambda shape, itemsize, spec, axes: (
                    math.prod(shard_shape(shape, spec, axes)) * itemsize * sum(axes.values())
                ),
                "axes-counted": lambda shape, itemsize, spec, axes: (
                    math.prod(shard_shape(shape, spec, axes)) * itemsize * len(axes)
                ),
                "bits": lambda *case: 8 * bytes_total(*case),
                "always-four-bytes": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, 4, spec, axes
                ),
                "largest-unnamed-axis": lambda shape, itemsize, spec, axes: (
                    math.prod(shape) * itemsize * max(_unnamed(spec, axes), default=1)
                ),
                "copies-added": AnyOf(
                    (
                        lambda shape, itemsize, spec, axes: (
                            math.prod(shape) * itemsize * (sum(_unnamed(spec, axes)) or 1)
                        ),
                        lambda shape, itemsize, spec, axes: (
                            math.prod(shape) * itemsize * sum(_unnamed(spec, axes))
                        ),
                    )
                ),
                "last-name-only": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, itemsize, _by_last_names(spec), axes
                ),
                "two-names-only": lambda shape, itemsize, spec, axes: bytes_total(
                    shape, itemsize, _by_two_names(spec), axes
                ),
                "elements": lambda shape, itemsize, spec, axes: math.prod(shape),
                "largest-axis": lambda shape, itemsize, spec, axes: (
                    math.prod(shard_shape(shape, spec, axes)) * itemsize * max(axes.values())
                ),
            },
        ),
        Returns(
            "holders",
            "holders must return the devices that hold the element at index, each by its place in "
            "the mesh, counted row by row, in increasing order.",
            cases=_draw_indexed,
            reference=holders,
            mistakes={
                "first-holder-only": lambda *case: holders(*case)[:1],
                "one-number": lambda *case: holders(*case)[0],
                "how-many": lambda *case: len(holders(*case)),
                "all-holders": lambda index, shape, spec, axes: list(
                    range(math.prod(axes.values()))
                ),
                "first-dimension-alone": lambda index, shape, spec, axes: holders(
                    index[:1], shape[:1], spec[:1], axes
                ),
                "any-dimension": lambda index, shape, spec, axes: sorted(
                    {
                        device
                        for i, size, entry in zip(index, shape, spec, strict=True)
                        for device in holders((i,), (size,), (entry,), axes)
                    }
                ),
                "block-number": AnyOf(
                    (
                        lambda index, shape, spec, axes: [
                            index[0] // shard_shape(shape, spec, axes)[0]
                        ],
                        lambda *case: [_block_number(*case)],
                        lambda index, shape, spec, axes: [
                            i // n
                            for i, n in zip(index, shard_shape(shape, spec, axes), strict=True)
                        ],
                    )
                ),
                "place-in-the-block": AnyOf(
                    (
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
                    )
                ),
                "tuple-in-the-meshs-order": lambda index, shape, spec, axes: holders(
                    index, shape, _in_the_meshs_order(spec, axes), axes
                ),
                "dealt-out": lambda index, shape, spec, axes: holders(
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
                "copies-far-apart": _holders_far_apart,
                "two-names-only": lambda index, shape, spec, axes: holders(
                    index, shape, _by_two_names(spec), axes
                ),
                "last-name-only": lambda index, shape, spec, axes: holders(
                    index, shape, _by_last_names(spec), axes
                ),
                "counted-off-by-one": lambda index, shape, spec, axes: _holders_by(
                    index, shape, spec, axes, lambda i, n: (i - 1) // n
                ),
                "numbers-added": lambda index, shape, spec, axes: _holders_by(
                    index,
                    shape,
                    spec,
                    axes,
                    lambda i, n: i // n,
                    lambda so_far, size, at: so_far + at,
                ),
                "counted-from-one": lambda *case: [device + 1 for device in holders(*case)],
                "last-first": lambda *case: holders(*case)[::-1],
                "by-coordinates": lambda index, shape, spec, axes: _places(
                    axes, holders(index, shape, spec, axes)
                ),
                "first-name-only": lambda index, shape, spec, axes: holders(
                    index, shape, _by_first_names(spec), axes
                ),
                "tuples-left-out": lambda index, shape, spec, axes: holders(
                    index, shape, _tuples_left_out(spec), axes
                ),
                "sizes-added": _holders_by_sums,
                "numbered-by-the-spec": lambda index, shape, spec, axes: _numbered_by_the_spec(
                    holders(index, shape, spec, axes), spec, axes
                ),
                "the-example": lambda *case: [2, 3],
                "names-reversed": lambda index, shape, spec, axes: holders(
                    index,
                    shape,
                    tuple(e[::-1] if isinstance(e, tuple) else e for e in spec),
                    axes,
                ),
                "mesh-by-columns": lambda index, shape, spec, axes: sorted(
                    int(np.ravel_multi_index(
                        np.unravel_index(d, tuple(axes.values())), tuple(axes.values()), order="F"
                    ))
                    for d in holders(index, shape, spec, axes)
                ),
            },
        ),
    ),
    hints=(
        "Do one dimension at a time. Its entry in the spec names the axes it is cut along: None "
        "is no axis, a string is one, a tuple is several.",
        "Every device holds one block, copies or not; so all devices together hold as many blocks "
        "as there are devices.",
        "For holders: go through the devices and ask each whether its block has the element. "
        "`np.ndindex(4, 2)` gives the places of a 4 × 2 mesh in order, and along a tuple such as "
        "('x', 'y') the number of the block is `x * size_of_y + y`.",
    ),
    diagnoses={
        "last-name-only": "Where an entry is a tuple, all of its axes cut the dimension, and not "
        "just the last.",
        "multiplied": "The sizes are multiplied by the number of blocks. A block is smaller than "
        "the array: divide.",
        "number-of-blocks": "That is how many blocks there are along each dimension. How long is "
        "one of them?",
        "one-too-few": "Every number is 1 too small.",
        "every-name-everywhere": "Every dimension is divided by the sizes of all axes in the spec. "
        "An entry cuts its own dimension only.",
        "elements-of-a-block": "That is how many elements a block has. A shape has a number for "
        "each dimension.",
        "backwards": "The shape is right, but its dimensions are in the opposite order.",
        "first-axis-for-all": "The size of the mesh's first axis is taken for every axis. Look up "
        "the size of the axis that the entry names.",
        "copied-along-named-axes": "The array's bytes are multiplied by the sizes of the axes that "
        "the spec names. These cut it; along the others there are copies.",
        "blocks-counted": "That is the number of blocks, times the bytes of one element. A block "
        "has more elements than one.",
        "sizes-of-the-mesh-added": "The sizes of the mesh's axes are added up. They multiply to "
        "the number of devices.",
        "axes-counted": "The bytes of a block are multiplied by the number of axes, and not by the "
        "number of devices.",
        "always-four-bytes": "itemsize is taken to be 4, and it is an argument.",
        "largest-unnamed-axis": "Of the axes that the spec does not name, only the largest is "
        "counted. The copies along all of them take memory.",
        "copies-added": "The sizes of the axes that the spec does not name are added up. The "
        "number of copies is their product.",
        "two-names-only": "Of an entry with three names, only the first two are used. A tuple may "
        "have any number of names.",
        "tuple-in-the-meshs-order": "The axes of a tuple are taken in the order that they have in "
        "the mesh. They count in the order in which the tuple names them: ('y', 'x') numbers the "
        "blocks in another order than ('x', 'y').",
        "all-in-the-first": "Dimension 0 is divided by the sizes of all axes that the spec names. "
        "Each entry of the spec shards its own dimension.",
        "first-dimension-only": "Only dimension 0 is divided. Every entry of the spec shards its "
        "own dimension.",
        "dealt-out": "The index is taken modulo the number of blocks, as if elements were dealt "
        "out like cards. A block has neighbouring elements: divide the index by its length.",
        "copies-far-apart": "The first devices get the blocks in order, row by row, the next ones "
        "their copies, and so on. A device's place in the mesh decides which block it has.",
        "bits": "These are bits, eight for each byte. itemsize is in bytes.",
        "elements": "That is how many elements the array has.",
        "largest-axis": "The bytes of a block are multiplied by the size of the longest axis. "
        "The sizes of all axes multiply to the number of devices.",
        "how-many": "That is how many devices hold the element. Which are they?",
        "all-holders": "That is every device of the mesh, whatever the spec and the index are.",
        "first-dimension-alone": "Only the first dimension is looked at. A device holds the "
        "element if its block has the index in every dimension.",
        "any-dimension": "A device is counted if its block has the index in any dimension. It must "
        "in every one.",
        "block-number": "That says which block the element is in. Which devices hold this block? "
        "The spec says along which axes of the mesh the blocks lie.",
        "place-in-the-block": "The index is taken modulo the length of a block, which gives the "
        "place within it. Divided by that length it gives the number of the block.",
        "counted-off-by-one": "The number of the block is off where the index is at its beginning: "
        "indices count from 0.",
        "numbers-added": "In a tuple of axes, the device's places along them are added. The number "
        "of its block is the first place times the size of the second axis, plus the second place.",
        "whole-shape": "This is the global shape. Each device holds a part of every dimension "
        "that the spec cuts.",
        "true-division": "Sizes are integers, and these are floats: divide with //, and mind that "
        "np.prod of nothing is 1.0.",
        "every-axis": "The spec decides which dimension is cut along which axis; the mesh's sizes "
        "alone do not.",
        "all-devices": "A dimension is cut along the axes that its entry names, not along all.",
        "forgot-copies": "This is the array's own size. A device along an axis that the spec does "
        "not name holds a copy, and copies take memory too.",
        "forgot-itemsize": "These are elements; each takes itemsize bytes.",
        "one-device-only": "This is what one device holds; expected what all devices hold "
        "together.",
        "always-copied": "Only where the spec names no axis at all does every device hold the "
        "whole array.",
        "first-holder-only": "Where an axis is not named, several devices hold the same block.",
        "names-reversed": "Within a tuple, the last name changes fastest.",
        "first-name-only": "A tuple cuts a dimension along all of the axes that it names, and "
        "these are the results for its first name alone.",
        "tuples-left-out": "These are the results if an entry that is a tuple cut nothing; it "
        "cuts its dimension along each of the axes that it names.",
        "sizes-added": "These are the results if the sizes of a tuple's axes were added. They "
        "multiply: axes of four and of two cut a dimension into eight.",
        "numbered-by-the-spec": "Devices are counted with the spec's axes first, so that the "
        "copies of a block have consecutive numbers. A device's number goes by the mesh, row by "
        "row in the order of axes, whatever the spec names first.",
        "the-example": "That is the result of the example in the prompt, whatever the arguments.",
        "eight-devices": "The mesh has as many devices as its sizes make, multiplied; it is not "
        "always eight.",
        "one-number": "The result has to be a list, even if only one device holds the element. "
        "Where an axis is not named, several do.",
        "counted-from-one": "The first device of the mesh is number 0.",
        "last-first": "These are the right devices in decreasing order; expected increasing order.",
        "by-coordinates": "These are the right places, as coordinates in the mesh; expected "
        "numbers. Count the places row by row.",
        "mesh-by-columns": "Devices fill the mesh row by row: the last axis changes fastest.",
    },
)  # fmt: skip

SLABS: Final = "0\n\n1\n\n2\n\n3\n\n4\n\n5\n\n6\n\n7"
PENCILS: Final = "0\n1\n\n2\n3\n\n4\n5\n\n6\n7"

CUBES: Final = Exercise(
    id="1.8",
    title="Slabs and pencils",
    afterwards="Slabs and pencils are the words of those who compute Fourier transforms in three "
    "dimensions: pencils keep more devices busy, since two dimensions are cut.",
    requirements=(
        PlacedLike("slabs", SLABS, ((16, 16, 16), (8, 4, 2)), mistakes={"pencils": PENCILS}),
        PlacedLike("pencils", PENCILS, ((16, 16, 16), (4, 8, 2)), mistakes={"slabs": SLABS}),
    ),
    hints=(
        "The spec has three entries now. Dimension 2, the one that the transform runs along, must "
        "be whole on every device.",
        "For slabs, one dimension is cut into eight. For pencils, two dimensions are cut: into "
        "four and into two.",
        "Slabs: a mesh of one axis, on dimension 0. Pencils: a 4 × 2 mesh, on dimensions 0 and 1.",
    ),
    diagnoses={
        "transposed": "Compare, dimension by dimension, into how many blocks it is cut. In both "
        "pictures dimension 2, which the transform runs along, is whole.",
        "pencils": "These are the pencils; expected the slabs.",
        "slabs": "These are the slabs; expected the pencils.",
        "grid": CUTS,
        "replicated": REPLICATED,
        "replicated-dimension": REPLICATED,
        "device-order": "Which mesh axis lies along which dimension, and in which order do the "
        "devices stand in the mesh? " + FASTEST,
    },
)  # fmt: skip

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
