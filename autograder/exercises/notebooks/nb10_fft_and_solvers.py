"""Notebook 10: transforms and solvers.

A note for maintainers: the solvers' references compute in double precision, and how far off a
right program may be follows from moving their inputs by last places (`judge/comparing_values.py`):
that moves the solution of a badly conditioned system further. Until JAX 0.12, XLA ends the whole
process where a transform runs along a dimension that is cut over all devices and whose blocks do
not divide by their number; so what is cut over a line is as long as the square of its devices.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any, Final

import jax
import numpy as np

from autograder.judge import (
    AnyOf,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    PlacedLike,
    Predicts,
    RequestedCollective,
    Requests,
    WorksAtMost,
)
from autograder.programs import Argument

LINES: Final = (8, 4)
"""How many devices there are in a line: functions are judged on both."""

COMPLEX: Final = 8
"""The bytes of a complex number."""

AUDIT: Final = Exercise(
    id="10.1",
    title="An audit of fftn",
    afterwards="The compiler has to have a way for any layout and any size, and to collect "
    "everything always works. Whoever knows the transform can do better, and you will.",
    requirements=(
        Predicts(
            "audit", "spec", "the spec of the transform", jax.P("x", "y"),
            {
                "no-copies-left": AnyOf((jax.P(), jax.P(None), jax.P(None, None))),
                "transposed-layout": AnyOf((jax.P(None, "x", "y"), jax.P("y", None, "x"))),
            },
        ),
        Predicts(
            "audit", "kind", "the kind of all its collectives", "all-gather",
            {"as-it-should-be": "all-to-all"},
            words=("all-reduce", "reduce-scatter", "collective-permute"),
        ),
        Predicts(
            "audit", "bytes", "the bytes that it moves on each device", 40_960,
            {
                "trusts-the-layout": 0,
                "the-last-gather": 32_768,
                "the-first-gather": 8192,
                "sent": 28_672,
                "on-all-devices": 8 * 40_960,
                "own-block": AnyOf((2048, 4096)),
                "of-real-numbers": 20_480,
                "of-the-box": 16_384,
                "what-goes-in": 10_240,
            },
        ),
        Predicts(
            "audit", "share", "how much of the whole work each device does", 1.0,
            {"fair-share": 1 / 8, "of-all-devices": 8.0, "per-cent": 100.0},
            tolerance=0.01,
        ),
        Predicts(
            "audit", "larger", "the GiB that it moves on each of 4,096 devices", 8 * (1 + 1 / 64),
            {
                "the-last-gather": 8.0,
                "the-first-gather": 8 / 64,
                "of-this-mesh": AnyOf((8 * (1 + 1 / 4), 8 * (1 + 1 / 2))),
                "of-real-numbers": 4 * (1 + 1 / 64),
                "of-the-box": 4.0,
                "in-gb": 8 * (1 + 1 / 64) * 1.024**3,
                "in-bytes": 8 * (1 + 1 / 64) * 2**30,
                "in-mib": 8 * (1024 + 1024 / 64),
                "what-goes-in": 8 * (1 / 64 + 1 / 64**2),
                "trusts-the-layout": 0,
                "as-in-the-small": AnyOf((40_960, 40_960 / 2**30)),
            },
            tolerance=0.002,
        ),
        Predicts(
            "audit", "enough", "the MiB that two exchanges move on each of 4,096 devices", 4.0,
            {
                "one-exchange": 2.0,
                "real-exchange": 1.0,
                "sent": 4 * 63 / 64,
                "one-axis": AnyOf((256.0, 128.0)),
                "sent-and-received": 8.0,
                "whole-box": AnyOf((8192.0, 16_384.0, 8320.0)),
                "in-gib": AnyOf((4 / 1024, 2 / 1024)),
                "in-bytes": AnyOf((4 * 2.0**20, 2 * 2.0**20)),
            },
            tolerance=0.002,
        ),
        Predicts(
            "audit", "helps", "what lets a box through that does not fit", "more memory",
            {"more-devices": "more devices", "faster-network": "a faster network"},
        ),
    ),
    hints=(
        "For the layout: jax.jit(jnp.fft.fftn)(cube).sharding.spec. For the rest: "
        "communication(jnp.fft.fftn, cube).",
        "A report has .collectives (each with its .kind), .bytes and .flops.",
        "share compares the .flops of two reports: that of cube, which is sharded, and that of "
        "alone, which is not.",
        "For the large machine: cube has 16³ numbers, 8 bytes each as complex ones, on a mesh of "
        "4 × 2. Which part of that does each of the two all-gathers bring to a device, and which "
        "size of the mesh decides it?",
    ),
    diagnoses={
        "no-copies-left": "Every device had all of the cube on the way, but its result is cut "
        "again. Ask the result for its sharding.",
        "transposed-layout": "That is where a distributed transform would like to leave it. Ask "
        "the result for its sharding.",
        "as-it-should-be": "That is the kind that is enough, and not the kind that is there.",
        "trusts-the-layout": "The result is laid out as the argument was, and in between there is "
        "more than the layout tells.",
        "the-last-gather": "That is the largest of the collectives, and there is another one.",
        "the-first-gather": "That is the smallest of the collectives, and there is another one.",
        "sent": "That is what a device puts on its wires, the report's `.sent`; expected its "
        "`.bytes`.",
        "on-all-devices": "That is what all devices move together. Expected what each moves.",
        "own-block": "That is the size of a device's own block.",
        "of-real-numbers": "Its input is real, and what is gathered is complex: 8 bytes for each "
        "number.",
        "of-the-box": "That is the size of the box of real numbers. What is gathered is complex, "
        "and more than one collective gathers it.",
        "what-goes-in": "That is what each device puts into the gathers. The report's `.bytes` "
        "are those of what comes out of them.",
        "per-cent": "That is in per cent; expected a fraction of one.",
        "fair-share": "That would be a device's fair share. What does the report say it does?",
        "of-all-devices": "That is what all eight devices do together, compared with `alone`. A "
        "report's `.flops` are those of one device already.",
        "of-this-mesh": "That is what this box would take on the mesh of 4 × 2. How much the "
        "smaller gather brings depends on the mesh: here it is 64 × 64.",
        "in-gb": "That is in GB, 10⁹ bytes; expected GiB, 2³⁰ bytes.",
        "in-gib": "That is in GiB; expected MiB.",
        "in-mib": "That is in MiB; expected GiB, of 1,024 MiB each.",
        "in-bytes": "That is in bytes; the prompt asks for a larger unit.",
        "as-in-the-small": "That is what cube takes. This box has 64³ times as many numbers.",
        "one-exchange": "That is what one exchange of a block of complex numbers takes, or two of "
        "real ones. Asked for are two exchanges of complex numbers.",
        "real-exchange": "That is what one exchange takes if its numbers are real, of 4 bytes. "
        "Asked for are two exchanges of complex numbers.",
        "one-axis": "That is so where the box is cut into 64 blocks. The mesh is 64 × 64: how many "
        "blocks is that?",
        "sent-and-received": "That is twice as much as it should be. Is a block counted when it is "
        "sent, and again when it comes? Or has each number 16 bytes?",
        "whole-box": "That is about what fftn moves. An exchange moves each device's own block "
        "alone, which is 1/4,096 of the box.",
        "more-devices": "Each device holds the whole box on the way. Does a device get less of it "
        "when there are more of them?",
        "faster-network": "Where memory is short, it does not help that the numbers come sooner.",
        "other-prediction": "The first four can be measured: communication(jnp.fft.fftn, cube), "
        "and jax.jit(jnp.fft.fftn)(cube).sharding. For the large machine: which part of the box "
        "does each gather bring to a device, and how large is a device's own block?",
    },
)  # fmt: skip

GRIDS: Final = ((("x", 4), ("y", 2)), (("x", 2), ("y", 2)))
"""The meshes that pencils are judged on."""

BOXES: Final = ((8, 12, 4), (6, 4, 10))
"""The box that is cut into pencils, on each of them."""

PENCILS: Final = ("0\n1\n\n2\n3\n\n4\n5\n\n6\n7", "0\n1\n\n2\n3")
"""Cut in dimensions 0 and 1, on each of them."""

TURNED_PENCILS: Final = ("0 1\n2 3\n4 5\n6 7", "0 1\n2 3")
"""Cut in dimensions 1 and 2."""


def _pencils(dtype: str) -> tuple[tuple[Argument, ...], ...]:
    return tuple(
        (Argument(shape, axes, ("x", "y", None), dtype, mode="auto"),)
        for shape, axes in zip(BOXES, GRIDS, strict=True)
    )


def _cuts(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Into how many parts a box is cut as it comes."""
    if shape in BOXES:
        axes = GRIDS[BOXES.index(shape)]
        return axes[0][1], axes[1][1], 1
    return LINES[SLABS.index(shape)], 1, 1


def _in_the_end(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Into how many parts a box is cut after the exchanges."""
    first, second, _ = _cuts(shape)
    return 1, first, second


def _in_parts(x: Any, cuts: tuple[int, ...], *axes: int) -> Any:
    """A box that is cut into parts along its dimensions, and each part transformed by itself."""
    made = x.astype(np.complex64)
    lengths = [size // parts for size, parts in zip(x.shape, cuts, strict=True)]
    for start in np.ndindex(cuts):
        block = tuple(
            slice(i * length, (i + 1) * length) for i, length in zip(start, lengths, strict=True)
        )
        made[block] = np.fft.fftn(made[block], axes=axes)
    return made


def _in_blocks(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to each device's block, as the box comes."""
    first, second, _ = _cuts(x.shape)
    rows = [np.split(strip, second, axis=1) for strip in np.split(x, first)]
    return np.concatenate([np.concatenate([function(b) for b in row], axis=1) for row in rows])


def _alone(x: Any) -> Any:
    """Each device's block transformed by itself, as the box comes."""
    return _in_parts(x, _cuts(x.shape), 0, 1, 2)


def _in_stages(
    cuts: Callable[[tuple[int, ...]], tuple[tuple[int, ...], ...]], *stages: tuple[int, ...]
) -> Callable[[Any], Any]:
    """The mistake of transforming along other dimensions than are whole.

    Args:
        cuts: gives, for a box's shape, into how many parts it is cut before each of the exchanges
            and after the last.
        stages: the dimensions along which blocks are transformed at each of these times.
    """

    def mistaken(x: Any) -> Any:
        made = x.astype(np.complex64)
        for parts, axes in zip(cuts(x.shape), stages, strict=True):
            made = _in_parts(made, parts, *axes) if axes else made
        return made

    return mistaken


def _of_slabs(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Into how many parts slabs are cut: before the exchange and after it."""
    return _cuts(shape), _in_the_end(shape)


def _of_pencils(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Into how many parts pencils are cut: before, between and after two exchanges."""
    first, second, _ = _cuts(shape)
    return (first, second, 1), (first, 1, second), (1, first, second)


def _other_stages(
    cuts: Callable[[tuple[int, ...]], tuple[tuple[int, ...], ...]], number: int
) -> AnyOf:
    """The mistakes of transforming along any dimensions at so many times."""
    some = [axes for size in range(4) for axes in combinations(range(3), size)]
    return AnyOf(_in_stages(cuts, *stages) for stages in product(some, repeat=number))


def _backwards_along(*axes: int) -> Callable[[Any], Any]:
    """The mistake of an inverse transform along some dimensions."""
    others = tuple(axis for axis in range(3) if axis not in axes)
    return lambda x: np.fft.ifftn(np.fft.fftn(x, axes=others), axes=axes)


def _along(*axes: int) -> Callable[[Any], Any]:
    return lambda x: np.fft.fftn(x, axes=axes)


def _backwards(*axes: int) -> Callable[[Any], Any]:
    return lambda x: np.fft.ifftn(x, axes=axes)


def _too_much_in_it(*axes: int) -> Callable[[Any], Any]:
    """The inverse, without its factor: the sign in the exponent is turned."""
    return lambda x: np.fft.ifftn(x, axes=axes, norm="forward")


LOCAL: Final = Exercise(
    id="10.2",
    title="Along a whole dimension",
    afterwards="Before JAX 0.12, jnp.fft.fft alone gathers the whole array here, though no device "
    "needs anything of another (jax-ml/jax#15680).",
    requirements=(
        Computes(
            "fft_last",
            "fft_last(x) must be jnp.fft.fft(x), the transform along the last dimension.",
            lambda x: np.fft.fft(x),
            _pencils("complex64"),
            {
                "first-dimension": _along(0),
                "middle-dimension": _along(1),
                "part-of-dimension-0": lambda x: _in_parts(x, _cuts(x.shape), 0),
                "part-of-dimension-1": lambda x: _in_parts(x, _cuts(x.shape), 1),
                "part-of-dimension-2": lambda x: _in_parts(x, _in_the_end(x.shape), 2),
                "part-of-another-too": AnyOf(
                    (
                        lambda x: _in_parts(x, _cuts(x.shape), 1, 2),
                        lambda x: _in_parts(x, _cuts(x.shape), 0, 2),
                    )
                ),
                "all-dimensions": _along(0, 1, 2),
                "shifted": AnyOf(
                    (
                        lambda x: np.fft.fftshift(np.fft.fft(x), axes=2),
                        lambda x: _in_blocks(x, lambda b: np.fft.fftshift(np.fft.fft(b))),
                    )
                ),
                "block-by-block": _alone,
                "inverse": _backwards(2),
                "sign-turned": _too_much_in_it(2),
                "half-of-the-waves": lambda x: np.fft.rfft(x.real),
                "real-part-alone": lambda x: np.fft.fft(x.real),
                "nothing-transformed": lambda x: x,
            },
            under_mesh=True,
        ),
        PlacedLike("fft_last", PENCILS[0], BOXES, elsewhere=PENCILS[1:]),
        Requests("fft_last", ((), ())),
    ),
    hints=(
        "What does a device need that it does not have, if it transforms its own pencils?",
        "In the body of a shard_map, jnp.fft.fft of the block is the answer.",
        "in_specs and out_specs are both the layout that x has: P('x', 'y').",
    ),
    diagnoses={
        "no-shard-map": "On JAX 0.12 the compiler leaves such a transform where it is, and before "
        "that it gathers everything. A body of your own is right on each of them.",
        "added-by-the-compiler": "Do in_specs and out_specs say how x is laid out?",
        "replicated": "Each device is to have its own pencils in the end, and no others.",
        "first-dimension": "That is the transform along dimension 0; expected the last.",
        "middle-dimension": "That is the transform along dimension 1; expected the last.",
        "part-of-dimension-0": "You transformed along dimension 0, of which each device has only a "
        "part. The dimension that is whole, and asked for, is the last.",
        "part-of-dimension-1": "You transformed along dimension 1, of which each device has only a "
        "part. The dimension that is whole, and asked for, is the last.",
        "part-of-dimension-2": "You transformed along dimension 2 while each device had only a "
        "part of it. Do in_specs say how x is laid out?",
        "part-of-another-too": "You transformed along two dimensions: the last, and one of which "
        "each device has only a part. Only the last is asked for, and fft2 takes two.",
        "shifted": "The transform is right, and shifted by fftshift: the waves are to stay in the "
        "order in which fft gives them.",
        "all-dimensions": "That is the transform along all three dimensions.",
        "block-by-block": "Each device transforms its block along all of its dimensions. Only the "
        "last is whole, and asked for.",
        "inverse": "That is the inverse transform.",
        "sign-turned": "The sign in the exponent is turned: that is the inverse transform, without "
        "its factor.",
        "half-of-the-waves": "That is the real transform of x.real: rfft leaves out the waves "
        "with negative numbers, and x.real leaves out the imaginary part.",
        "real-part-alone": "That is the transform of x.real. x is complex, and its imaginary part "
        "counts too.",
        "nothing-transformed": "That is x, as it came.",
    },
    about=(Requests,),
)

SLABS: Final = ((64, 64, 4), (16, 16, 6))
"""The box that is cut into slabs, on each of the lines."""

TURNED_SLABS: Final = ("0\n1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3")
"""Cut in dimension 1."""

SLAB: Final = Exercise(
    id="10.3",
    title="Slabs, and one exchange",
    afterwards="An all-to-all moves each number once. Of n devices each sends (n - 1)/n of its "
    "block, whatever n is; an all-gather brings n - 1 blocks to each.",
    requirements=(
        Computes(
            "slab_fft",
            "slab_fft(x) must be jnp.fft.fftn(x).",
            lambda x: np.fft.fftn(x),
            tuple(
                (Argument(shape, (("x", n),), ("x", None, None), "complex64", mode="auto"),)
                for n, shape in zip(LINES, SLABS, strict=True)
            ),
            {
                "dimension-0-missing": _along(1, 2),
                "dimension-1-missing": _along(0, 2),
                "dimension-2-missing": _along(0, 1),
                "only-dimension-0": _along(0),
                "block-by-block": _alone,
                "part-of-dimension-0": lambda x: np.fft.fft(_alone(x), axis=0),
                "part-of-dimension-1": lambda x: _in_parts(x, _in_the_end(x.shape), 0, 1, 2),
                "dimension-1-again": _in_stages(_of_slabs, (1, 2), (1,)),
                "dimension-2-again": _in_stages(_of_slabs, (1, 2), (2,)),
                "dimension-2-twice": lambda x: np.fft.fft(np.fft.fftn(x, axes=(0, 2)), axis=2),
                "planes-too-late": _in_stages(_of_slabs, (0,), (1, 2)),
                "inverse": _backwards(0, 1, 2),
                "inverse-along-0": _backwards_along(0),
                "inverse-along-1": _backwards_along(1),
                "inverse-along-2": _backwards_along(2),
                "inverse-in-the-planes": _backwards_along(1, 2),
                "sign-turned": _too_much_in_it(0, 1, 2),
                "real-part-alone": lambda x: np.fft.fftn(x.real),
                "other-dimensions": _other_stages(_of_slabs, 2),
            },
            under_mesh=True,
        ),
        PlacedLike("slab_fft", TURNED_SLABS[0], SLABS, elsewhere=TURNED_SLABS[1:]),
        Requests(
            "slab_fft",
            tuple(
                (RequestedCollective("all-to-all", 1, ("x",), COMPLEX * int(np.prod(shape)) // n),)
                for n, shape in zip(LINES, SLABS, strict=True)
            ),
        ),
    ),
    hints=(
        "A transform in three dimensions is three transforms in one, in any order. Which two can a "
        "device do at once, with what it has?",
        "After the planes, lax.all_to_all(a, 'x', split_axis=1, concat_axis=0, tiled=True) gives "
        "each device all of dimension 0, for its part of dimension 1.",
        "Then the transform along dimension 0. The result leaves the body as P(None, 'x').",
    ),
    diagnoses={
        "dimension-0-missing": "The planes are transformed; the transform along dimension 0 is "
        "missing.",
        "dimension-1-missing": "The transform along dimension 1 is missing. It has to be done "
        "while that dimension is whole.",
        "dimension-2-missing": "The transform along dimension 2 is missing.",
        "only-dimension-0": "Only dimension 0 is transformed.",
        "block-by-block": "Each slab is transformed by itself: along dimension 0, which is cut, "
        "before the parts of it have come together.",
        "part-of-dimension-0": "You transformed along dimension 0 while each device had only a "
        "part of it, and once more when it was whole. fftn transforms along all dimensions.",
        "part-of-dimension-1": "You transformed along dimension 1 while each device had only a "
        "part of it: after the exchange it is cut. It has to be done before.",
        "dimension-2-twice": "Dimension 2 is transformed twice, and dimension 1 not at all.",
        "planes-too-late": "You transformed along dimension 0 before the exchange and along 1 "
        "after it. At both times a device had only a part of that dimension: x is sharded in "
        "dimension 0 first, and in dimension 1 afterwards.",
        "dimension-1-again": "After the exchange you transformed along dimension 1 once more, of "
        "which each device then has only a part. Which dimension is still to be transformed?",
        "dimension-2-again": "After the exchange you transformed along dimension 2 once more: "
        "jnp.fft.fft takes the last dimension unless `axis` says otherwise. Which dimension is "
        "still to be transformed?",
        "inverse": "That is the inverse transform.",
        "inverse-along-0": "Along dimension 0 that is the inverse transform, and along the others "
        "the transform.",
        "inverse-along-1": "Along dimension 1 that is the inverse transform, and along the others "
        "the transform.",
        "inverse-along-2": "Along dimension 2 that is the inverse transform, and along the others "
        "the transform.",
        "inverse-in-the-planes": "Along dimensions 1 and 2 that is the inverse transform, and "
        "along dimension 0 the transform.",
        "sign-turned": "The sign in the exponent is turned: that is the inverse transform, without "
        "its factor.",
        "real-part-alone": "That is the transform of x.real. x is complex, and its imaginary part "
        "counts too.",
        "other-dimensions": "You transformed along other dimensions than are whole at the time, or "
        "along one of them twice. Before the exchange dimensions 1 and 2 are whole, and after it 0 "
        "and 2: transform along each once, while it is whole.",
        "shape": "A block of the result has all of dimension 0, and a part of dimension 1. What do "
        "split_axis and concat_axis say, and out_specs?",
        "too-often": "After one exchange every device has all that it still needs.",
        "one-too-many": "After one exchange every device has all that it still needs. Is the "
        "result exchanged back? It may stay where it is.",
        "in-pieces": "Are the real and the imaginary parts, or slices of the block, exchanged one "
        "by one? A block of complex numbers can go at once.",
        "all-gather by hand": "No device needs everything: what it has to get is a part of each "
        "other device's slab.",
        "no all-to-all": "Each device has to get a part of what each other one has: that is an "
        "all-to-all.",
        "no-shard-map": "Left to the compiler, the transform gathers the whole array.",
        "added-by-the-compiler": "Do in_specs say how x is laid out, and out_specs how the blocks "
        "of the result are to be put together?",
    },
    about=(Requests,),
)


def _each_pencil(*axes: str) -> tuple[tuple[RequestedCollective, ...], ...]:
    """For each mesh, an exchange of one block over each of these axes, which may be twice there."""
    return tuple(
        tuple(
            RequestedCollective("all-to-all", axes.count(axis), (axis,), COMPLEX * _block(shape))
            for axis in dict.fromkeys(axes)
        )
        for shape in BOXES
    )


def _block(shape: tuple[int, ...]) -> int:
    """How many numbers a device has of a box."""
    return int(np.prod(shape)) // int(np.prod(_cuts(shape)))


PENCIL: Final = Exercise(
    id="10.4",
    title="Pencils, and two exchanges",
    afterwards="A box of n × n × n can be cut into n slabs at most, and into n × n pencils: that "
    "is why the largest simulations use pencils.",
    requirements=(
        Computes(
            "pencil_fft",
            "pencil_fft(x) must be jnp.fft.fftn(x).",
            lambda x: np.fft.fftn(x),
            _pencils("complex64"),
            {
                "dimension-0-missing": _along(1, 2),
                "dimension-1-missing": _along(0, 2),
                "dimension-2-missing": _along(0, 1),
                "only-dimension-2": _along(2),
                "block-by-block": _alone,
                "part-of-dimension-1": lambda x: np.fft.fft(
                    _in_parts(x, _cuts(x.shape), 1, 2), axis=0
                ),
                "parts-of-dimensions-1-and-2": lambda x: _in_parts(
                    x, _in_the_end(x.shape), 0, 1, 2
                ),
                "part-of-dimension-1-at-the-end": _in_stages(_of_pencils, (2,), (), (0, 1)),
                "part-of-dimension-2": _in_stages(_of_pencils, (), (1, 2), (0,)),
                "dimension-0-first": _in_stages(_of_pencils, (0,), (1,), (0,)),
                "dimension-1-first": _in_stages(_of_pencils, (1,), (1,), (0,)),
                "dimension-0-between": _in_stages(_of_pencils, (2,), (0,), (0,)),
                "dimension-2-between": _in_stages(_of_pencils, (2,), (2,), (0,)),
                "dimensions-exchanged": _in_stages(_of_pencils, (2,), (0,), (1,)),
                "dimension-1-last": _in_stages(_of_pencils, (2,), (1,), (1,)),
                "dimension-2-last": _in_stages(_of_pencils, (2,), (1,), (2,)),
                "dimension-2-always": _in_stages(_of_pencils, (2,), (2,), (2,)),
                "inverse": _backwards(0, 1, 2),
                "inverse-along-0": _backwards_along(0),
                "inverse-along-1": _backwards_along(1),
                "inverse-along-2": _backwards_along(2),
                "sign-turned": _too_much_in_it(0, 1, 2),
                "real-part-alone": lambda x: np.fft.fftn(x.real),
                "other-dimensions": _other_stages(_of_pencils, 3),
            },
            under_mesh=True,
        ),
        PlacedLike("pencil_fft", TURNED_PENCILS[0], BOXES, elsewhere=TURNED_PENCILS[1:]),
        Requests("pencil_fft", _each_pencil("y", "x")),
    ),
    hints=(
        "Write down, after each step, which dimension is cut along which axis. It begins with "
        "x, y, none; the picture is none, x, y.",
        "One exchange over y makes dimension 1 whole and cuts dimension 2. What does one over x "
        "make of that?",
        "Transform along 2; lax.all_to_all(a, 'y', 2, 1, tiled=True); transform along 1; then the "
        "same over x, with split 1 and concat 0; and transform along 0.",
    ),
    diagnoses={
        "dimension-0-missing": "The transform along dimension 0 is missing: it comes after the "
        "last exchange.",
        "dimension-1-missing": "The transform along dimension 1 is missing: it comes between the "
        "exchanges.",
        "dimension-2-missing": "The transform along dimension 2 is missing.",
        "dimensions-exchanged": "You transformed along dimension 0 between the exchanges and along "
        "1 after them, each while a device had only a part of it. Which is whole when?",
        "only-dimension-2": "Only dimension 2 is transformed.",
        "block-by-block": "Each block is transformed by itself, before the parts of its dimensions "
        "have come together.",
        "part-of-dimension-1": "You transformed along dimension 1 while each device had only a "
        "part of it. It is whole between the two exchanges.",
        "parts-of-dimensions-1-and-2": "You transformed along dimensions 1 and 2 while each device "
        "had only a part of them. After both exchanges, dimension 0 alone is whole.",
        "part-of-dimension-1-at-the-end": "You transformed along dimension 1 after both "
        "exchanges, when each device has only a part of it again.",
        "part-of-dimension-2": "You transformed along dimension 2 after the first exchange, when "
        "each device has only a part of it.",
        "dimension-0-first": "Before the first exchange you transformed along dimension 0, of "
        "which each device has only a part. Which dimension is whole there?",
        "dimension-1-first": "Before the first exchange you transformed along dimension 1, of "
        "which each device has only a part. Which dimension is whole there?",
        "dimension-0-between": "Between the exchanges you transformed along dimension 0, of which "
        "each device has only a part. Which dimension has the first exchange made whole?",
        "dimension-2-between": "Between the exchanges you transformed along dimension 2, of which "
        "each device has only a part there. Which dimension has the first exchange made whole?",
        "dimension-1-last": "After the second exchange you transformed along dimension 1, of which "
        "each device has only a part there. Which dimension has that exchange made whole?",
        "dimension-2-last": "After the second exchange you transformed along dimension 2, of which "
        "each device has only a part there. Which dimension has that exchange made whole?",
        "dimension-2-always": "All three times you transformed along dimension 2: jnp.fft.fft "
        "takes the last dimension unless `axis` says otherwise. Which dimension is whole each "
        "time?",
        "split-over-several-axes": "This exercise asks for two exchanges, each among the devices "
        "along one axis. Which axis cuts the dimension that you need next?",
        "split-does-not-divide": "Which dimension is whole at that time, so that the exchange can "
        "cut it?",
        "error-of-xla": "This exercise asks for all-to-alls, and for no all-gather.",
        "inverse": "That is the inverse transform.",
        "inverse-along-0": "Along dimension 0 that is the inverse transform, and along the others "
        "the transform.",
        "inverse-along-1": "Along dimension 1 that is the inverse transform, and along the others "
        "the transform.",
        "inverse-along-2": "Along dimension 2 that is the inverse transform, and along the others "
        "the transform.",
        "sign-turned": "The sign in the exponent is turned: that is the inverse transform, without "
        "its factor.",
        "real-part-alone": "That is the transform of x.real. x is complex, and its imaginary part "
        "counts too.",
        "other-dimensions": "You transformed along other dimensions than are whole at the time, or "
        "along one of them twice. Before the exchanges only dimension 2 is whole, between them "
        "only 1, and after them only 0: transform along each once, while it is whole.",
        "shape": "Dimension 1 is cut along y and dimension 0 along x: is each made whole "
        "(concat_axis) by an exchange over its own axis? And do out_specs say what is cut in the "
        "end?",
        "one-too-many": "One exchange over each axis is enough. Is the result exchanged back? It "
        "may stay where it is.",
        "too-often": "One exchange over each axis is enough.",
        "one-missing": "Each axis cuts a dimension, and an exchange over that axis makes it whole.",
        "transposed": "The result is cut along other dimensions than in the picture, or over "
        "other axes of the mesh. Which dimension does the exchange over x cut, and which the one "
        "over y?",
        "all-gather by hand": "An exchange over one axis brings a device all that it needs next.",
        "no all-to-all": "Each device has to get a part of what each other one of its group has: "
        "that is an all-to-all.",
        "no-shard-map": "Left to the compiler, the transform gathers the whole array.",
        "added-by-the-compiler": "Do in_specs say how x is laid out, and out_specs how the blocks "
        "of the result are to be put together?",
    },
    about=(Requests,),
)


def _numbers(n: int) -> Any:
    """The wave numbers of a transform of n points."""
    return np.rint(np.fft.fftfreq(n) * n)


def _poisson(
    f: Any,
    numbers: Callable[[int], Any] = _numbers,
    power: float = 1,
    mean: float = 0,
    sign: float = 1,
    own: bool = True,
    blocks: bool = False,
    exponent: int = 2,
    corners: bool = False,
    back: Callable[[Any], Any] = np.fft.ifftn,
    added: float = 0,
    divided: bool = True,
    without: int = 3,
    whole: int = 1,
    any_zero: bool = False,
) -> Any:
    """The solution of Poisson's equation in a periodic box.

    Args:
        f: the right side.
        numbers: makes the wave numbers of a dimension.
        power: of the sum of their squares, which is divided by.
        mean: what is made of the mean of f.
        sign: what all is multiplied by.
        own: whether each device takes the wave numbers of its own part, or all the first ones.
        blocks: whether each device numbers the waves of its block, as if there were no others.
        exponent: of each wave number, in the sum.
        corners: whether each device makes zero of the first wave that it has.
        back: the transform by which the waves go back.
        added: a small number that is added to each sum of squares.
        divided: whether the waves are divided at all.
        without: the dimension whose wave numbers are left out of the sum.
        whole: the exponent of the whole sum.
        any_zero: whether all waves become zero of which one number is.
    """
    k = [numbers(n) * (d != without) for d, n in enumerate(f.shape)]
    if not own:
        parts = _cuts(f.shape)
        k = [k[0], np.tile(np.split(k[1], parts[0])[0], parts[0]),
             np.tile(np.split(k[2], parts[1])[0], parts[1])]  # fmt: skip
    lengths = [n // parts for n, parts in zip(f.shape, _in_the_end(f.shape), strict=True)]
    if blocks:
        k = [np.tile(numbers(size), n // size) for n, size in zip(f.shape, lengths, strict=True)]
    sums = k[0][:, None, None] ** exponent + k[1][:, None] ** exponent + k[2] ** exponent + added
    sums = sums**whole
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(sums == 0, mean, sign * np.power(sums, -float(power)))
    if not divided:
        factors = np.ones_like(factors)
    if any_zero:
        factors[(k[0][:, None, None] * k[1][:, None] * k[2]) == 0] = 0
    if corners:
        factors[:: lengths[0], :: lengths[1], :: lengths[2]] = 0
    return back(np.fft.fftn(f.astype(np.float64)) * factors).real.astype(np.float32)


def _there_and_back(
    f: Any,
    there: Sequence[tuple[int, ...]] = ((2,), (1,), (0,)),
    back: Sequence[tuple[int, ...]] = ((0,), (1,), (2,)),
) -> Any:
    """Poisson's equation, with transforms of blocks along these dimensions at each time.

    Args:
        f: the right side.
        there: the dimensions before, between and after the exchanges there.
        back: the same on the way back.
    """
    cuts = _of_pencils(f.shape)
    waves = f.astype(np.complex64)
    for parts, axes in zip(cuts, there, strict=True):
        waves = _in_parts(waves, parts, *axes) if axes else waves
    k = [_numbers(n) for n in f.shape]
    sums = k[0][:, None, None] ** 2 + k[1][:, None] ** 2 + k[2] ** 2
    waves = np.where(sums == 0, 0, waves / np.where(sums == 0, 1, sums))
    for parts, axes in zip(cuts[::-1], back, strict=True):
        if axes:  # an inverse is the conjugate of the conjugate's transform, divided by its points
            points = np.prod([f.shape[axis] // parts[axis] for axis in axes])
            waves = np.conj(_in_parts(np.conj(waves), parts, *axes)) / points
    return waves.real.astype(np.float32)


def _other_stages_there_or_back() -> AnyOf:
    """The mistakes of transforming along other dimensions at some time, there or back."""
    some = [axes for size in range(4) for axes in combinations(range(3), size)]
    stages = [*product(some, repeat=3)]
    return AnyOf(
        (
            *(partial(_there_and_back, there=each) for each in stages),
            *(partial(_there_and_back, back=each) for each in stages),
        )
    )


def _without_own_mean(f: Any, first: bool) -> Any:
    """The solution where each device takes off the mean of its own block, of f or of u."""
    kept = _poisson(_less_its_mean(f) if first else f, mean=1)
    return kept if first else _less_its_mean(kept)


def _less_its_mean(u: Any) -> Any:
    made, (first, second, _) = u.copy(), _cuts(u.shape)
    for rows in np.split(made, first):
        for block in np.split(rows, second, axis=1):
            block -= block.mean()
    return made


def _of_real_waves(f: Any) -> Any:
    """The solution where the waves lose their imaginary parts: those of f's mirror image added."""
    mirrored = f[np.ix_(*(-np.arange(n) % n for n in f.shape))]
    return _poisson((f + mirrored) / 2)


def _there_again_along(dimension: int, waves: Any) -> Any:
    """Transform waves back, one dimension by the transform and not by its inverse."""
    others = [axis for axis in range(3) if axis != dimension]
    return np.fft.ifftn(np.fft.fft(waves, axis=dimension), axes=others)


POISSON: Final = Exercise(
    id="10.5",
    title="Poisson's equation",
    afterwards="Whatever is pointwise among the waves (derivatives, filters, convolutions) can be "
    "done where the transform leaves them. That saves half of all exchanges.",
    requirements=(
        Computes(
            "poisson",
            "poisson(f) must be the solution u of -(u_00 + u_11 + u_22) = f of mean zero, in a "
            "periodic box of side 2π.",
            lambda f: _poisson(f),
            _pencils("float32"),
            {
                "other-sign": lambda f: _poisson(f, sign=-1),
                "mean-kept": lambda f: _poisson(f, mean=1),
                "no-negative-waves": lambda f: _poisson(f, np.arange),
                "fractions-for-numbers": lambda f: _poisson(f, np.fft.fftfreq),
                "turns-for-numbers": lambda f: _poisson(f, lambda n: 2 * np.pi * np.fft.fftfreq(n)),
                "with-2-pi": lambda f: _poisson(f, lambda n: 2 * np.pi * _numbers(n)),
                "not-squared": lambda f: _poisson(f, power=0.5),
                "multiplied": lambda f: _poisson(f, power=-1),
                "others-numbers": lambda f: _poisson(f, own=False),
                "numbers-of-the-block": lambda f: _poisson(f, blocks=True),
                "sum-of-numbers": lambda f: _poisson(f, exponent=1),
                "sum-of-sizes": lambda f: _poisson(f, lambda n: np.abs(_numbers(n)), exponent=1),
                "two-directions": AnyOf(partial(_poisson, without=d) for d in range(3)),
                "every-corner": lambda f: _poisson(f, corners=True),
                "there-again": lambda f: _poisson(f, back=np.fft.fftn),
                "not-divided": partial(_poisson, divided=False),
                "back-without-1": partial(_poisson, back=partial(np.fft.ifftn, axes=(0, 2))),
                "back-without-2": partial(_poisson, back=partial(np.fft.ifftn, axes=(0, 1))),
                "real-too-soon": partial(
                    _poisson,
                    back=lambda waves: np.fft.ifftn(np.fft.ifft(waves, axis=0).real, axes=(1, 2)),
                ),
                "there-again-along-one": AnyOf(
                    partial(_poisson, back=partial(_there_again_along, d)) for d in range(3)
                ),
                "square-of-the-sum": partial(_poisson, exponent=1, whole=2),
                "any-number-zero": partial(_poisson, any_zero=True),
                "squared-again": partial(_poisson, power=2),
                "numbers-shifted": AnyOf(
                    (
                        partial(_poisson, numbers=lambda n: np.abs(np.arange(n) - n // 2)),
                        partial(_poisson, numbers=lambda n: np.fft.fftshift(_numbers(n))),
                    )
                ),
                "mean-of-the-block": AnyOf(
                    (
                        partial(_without_own_mean, first=True),
                        partial(_without_own_mean, first=False),
                    )
                ),
                "real-waves": _of_real_waves,
                "other-dimensions": _other_stages_there_or_back(),
                "divided-by-almost-zero": AnyOf(
                    partial(_poisson, added=10.0**-digits) for digits in range(2, 16)
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("poisson", PENCILS[0], BOXES, elsewhere=PENCILS[1:]),
        Requests("poisson", _each_pencil("y", "x", "x", "y")),
    ),
    hints=(
        "Two exchanges there, as in 10.4, and two back. What stands in between is done on each "
        "number by itself, wherever that is.",
        "In between, dimension 0 is whole, dimension 1 is cut along x and dimension 2 along y, and "
        "each device needs the wave numbers of its part. A vector of them, handed to the shard_map "
        "with in_specs P('x') or P('y'), comes to the body cut in just this way.",
        "Back: the inverse transform along 0, lax.all_to_all(a, 'x', 0, 1, tiled=True), the "
        "inverse along 1, the same over y with 1 and 2, the inverse along 2, and .real. For the "
        "wave of number zero, divide by 1 and multiply by 0 (jnp.where).",
    ),
    diagnoses={
        "other-sign": "The sign is turned: a second derivative multiplies a wave by minus the "
        "square of its number, and the equation has a minus, too.",
        "mean-kept": "u has the mean of f; its mean is to be zero.",
        "no-negative-waves": "From the middle on, the numbers of the waves are negative: n - 1 "
        "stands for -1. wave_numbers has them so.",
        "fractions-for-numbers": "These are fftfreq's fractions. Times n they are wave numbers.",
        "turns-for-numbers": "The wave numbers of a box of side 2π are whole: fftfreq(n) times n.",
        "with-2-pi": "That is the solution in a box of side 1. Here the side is 2π, and the wave "
        "numbers are whole.",
        "not-squared": "The root of the sum of squares is divided by; expected the sum itself.",
        "multiplied": "The waves are multiplied by the squares of their numbers, which is the "
        "equation itself; to solve it, divide.",
        "others-numbers": "All devices divide by the first wave numbers, and each has other waves. "
        "Which part of each dimension does a device have, after the exchanges?",
        "numbers-of-the-block": "The waves are numbered as if a device's block were all of them. "
        "Their numbers follow from the size of the whole box.",
        "sum-of-numbers": "The sum of the wave numbers is divided by; expected that of their "
        "squares.",
        "sum-of-sizes": "The waves are divided by the sum of their numbers' absolute values; "
        "expected the sum of their squares.",
        "two-directions": "The wave numbers of one dimension are left out of the sum of squares: "
        "there are three derivatives.",
        "every-corner": "Each device makes zero of the first wave that it has. The wave of number "
        "zero is on one device only.",
        "there-again": "The way back is a transform as the way there; expected its inverse.",
        "there-again-along-one": "On the way back, along one dimension, there is the transform "
        "once more; expected its inverse.",
        "square-of-the-sum": "The waves are divided by the square of the sum of their numbers; "
        "expected the sum of the squares.",
        "any-number-zero": "All waves became zero that have the number zero along some dimension. "
        "Only the wave with zero along all three is the mean.",
        "squared-again": "The waves are divided by the square of the sum of squares; expected the "
        "sum itself.",
        "numbers-shifted": "The wave numbers are in another order than the waves: number 0 comes "
        "first, and from the middle on they are negative. wave_numbers has them so.",
        "mean-of-the-block": "Each device takes off the mean of its own block. The mean of the "
        "whole box is the wave of number zero.",
        "real-waves": "The imaginary parts of the waves are thrown away. Only the result is real.",
        "other-dimensions": "There or back, you transformed along other dimensions than are whole "
        "at the time, or left one out. There it is dimension 2, then 1, then 0, with an exchange "
        "before 1 and before 0; back it is 0, then 1, then 2.",
        "not-divided": "That is f, there and back: the waves are not divided.",
        "back-without-1": "On the way back the inverse along dimension 1 is missing.",
        "back-without-2": "On the way back the inverse along dimension 2 is missing.",
        "real-too-soon": "The real part is taken after the first inverse. The numbers are complex "
        "until the last one is done.",
        "divided-by-almost-zero": "A small number is added to the sum of squares, so the wave of "
        "number zero is divided by almost zero and swamps all others. u has mean zero: that wave "
        "is to be multiplied by 0.",
        "shapes-do-not-fit": "Between the way there and the way back, the waves are laid out as "
        "P(None, 'x', 'y'), and a vector of numbers has to be as long as its dimension, and cut as "
        "that is there.",
        "not-finite": "The wave of number zero is divided by zero.",
        "dtype": "u is real, in float32. An inverse transform gives complex numbers: does the body "
        "return their real part?",
        "too-often": "Is the transform brought back to where f was, in between? What is done to "
        "each wave by itself can be done where it is.",
        "one-too-many": "Two exchanges over each axis are enough.",
        "too-seldom": "There and back, it is two exchanges over each axis.",
        "no all-to-all": "The transform of a box that is cut has to be written by hand, as in "
        "10.4.",
        "no-shard-map": "Left to the compiler, the transform gathers the whole array.",
    },
    about=(Requests,),
)

STEPS: Final = 12

SYSTEMS: Final = {8: (64, 10.0), 4: (48, 1000.0)}
"""On each line: the size of a system, and how badly conditioned it is."""


def _cg(
    A: Any,  # noqa: N803
    b: Any,
    steps: int = STEPS,
    from_b: bool = False,
    follows: Callable[[Any, Any], Any] = lambda new, old: new / old,
    gives: int = 0,
) -> Any:
    """Steps of conjugate gradients in double precision.

    Args:
        A: the matrix.
        b: the right side.
        steps: how many.
        from_b: whether the first guess is b, and not zero.
        follows: how much of the last direction is kept, by the new and the old square.
        gives: what is returned: the guess, its residual or the next direction.
    """
    A, b = A.astype(np.float64), b.astype(np.float64)  # noqa: N806
    x = b.copy() if from_b else np.zeros_like(b)
    r = b - A @ x
    p, square = r, r @ r
    for _ in range(steps):
        q = A @ p
        step = square / (p @ q)
        x, r = x + step * p, r - step * q
        old, square = square, r @ r
        p = r + follows(square, old) * p
    return (x, r, p)[gives].astype(np.float32)


def _cg_with(slip: str, A: Any, b: Any) -> Any:  # noqa: N803
    """Steps of conjugate gradients with a slip, in double precision.

    Args:
        slip: "grows": the residual grows by what is to be taken off it; "product": A is multiplied
            by the residual; "along": x moves along it; "kept": the next direction keeps some of it
            in place of the last direction; "stale": the first square is used in every step;
            "roots": of all products of two vectors; "length": the step is divided by direction
            times direction; "whole": all of the last direction is kept; "itself": the direction is
            taken off the residual.
        A: the matrix.
        b: the right side.
    """

    def dot(u: Any, v: Any) -> Any:
        return np.sqrt(u @ v) if slip == "roots" else u @ v

    A, r = A.astype(np.float64), b.astype(np.float64)  # noqa: N806
    x, d, square = np.zeros_like(r), r, dot(r, r)
    for _ in range(STEPS):
        q = A @ (r if slip == "product" else d)
        step = square / dot(d, d if slip == "length" else q)
        x = x + step * (r if slip == "along" else d)
        q = d if slip == "itself" else q
        r = r + step * q if slip == "grows" else r - step * q
        new = dot(r, r)
        d = r + (1 if slip == "whole" else new / square) * (r if slip == "kept" else d)
        square = square if slip == "stale" else new
    return x.astype(np.float32)


def _cg_by_devices(
    A: Any,  # noqa: N803
    b: Any,
    own: str = "",
    averaged: str = "",
    own_block: bool = False,
    early: bool = False,
) -> Any:
    """Steps of conjugate gradients, with a mistake in what the devices have to add up.

    Args:
        A: the matrix.
        b: the right side.
        own: what each device makes of its own part alone: of "first", the square before the first
            step, "product", that of the direction with A times it, and "square".
        averaged: what is averaged over the devices, of the same.
        own_block: whether A times the direction is made with a device's own square block of A.
        early: whether x takes the next direction in each step.
    """
    p = next(devices for devices, (size, _) in SYSTEMS.items() if size == len(b))
    A, b = A.astype(np.float64), b.astype(np.float64).reshape(p, -1)  # noqa: N806
    blocks = A.reshape(p, b.shape[1], p, b.shape[1])

    def total(name: str, left: Any, right: Any) -> Any:
        parts = (left * right).sum(1, keepdims=True)
        if name in own.split():
            return parts
        return np.full_like(parts, parts.mean() if name in averaged.split() else parts.sum())

    x, r, d, square = np.zeros_like(b), b, b, total("first", b, b)
    for _ in range(STEPS):
        q = (A @ d.ravel()).reshape(b.shape)
        if own_block:
            q = np.einsum("iaib,ib->ia", blocks, d)
        step = square / total("product", d, q)
        r = r - step * q
        old, square = square, total("square", r, r)
        following = r + square / old * d
        x, d = x + step * (following if early else d), following
    return x.ravel().astype(np.float32)


GRADIENTS: Final = Exercise(
    id="10.6",
    title="Conjugate gradients",
    afterwards="On many devices the two all-reduces can cost more than all else, since everybody "
    "waits for them. There are variants with one all-reduce in a step, and some that overlap it "
    "with the product.",
    requirements=(
        Computes(
            "cg",
            f"cg(A, b) must be what {STEPS} steps of conjugate gradients make of zero.",
            lambda A, b: _cg(A, b),  # noqa: N803
            tuple(
                (
                    Argument(
                        (size, size),
                        (("x", n),),
                        ("x", None),
                        mode="auto",
                        matrix="positive-definite",
                        condition=condition,
                    ),
                    Argument((size,), (("x", n),), ("x",), mode="auto"),
                )
                for n, (size, condition) in SYSTEMS.items()
            ),
            {
                "once-too-often": lambda A, b: _cg(A, b, STEPS + 1),  # noqa: N803
                "once-too-seldom": lambda A, b: _cg(A, b, STEPS - 1),  # noqa: N803
                "from-b": lambda A, b: _cg(A, b, from_b=True),  # noqa: N803
                "steepest-descent": lambda A, b: _cg(A, b, follows=lambda new, old: 0),  # noqa: N803
                "ratio-turned": lambda A, b: _cg(  # noqa: N803
                    A, b, follows=lambda new, old: old / new
                ),
                "away-from-it": lambda A, b: _cg(  # noqa: N803
                    A, b, follows=lambda new, old: -new / old
                ),
                "solved-outright": lambda A, b: np.linalg.solve(A, b),  # noqa: N803
                "the-residual": lambda A, b: _cg(A, b, gives=1),  # noqa: N803
                "the-direction": lambda A, b: _cg(A, b, gives=2),  # noqa: N803
                "first-square-of-its-own": partial(_cg_by_devices, own="first"),
                "own-sums": AnyOf(
                    partial(_cg_by_devices, own=own)
                    for own in ("product", "square", "first square")
                ),
                "averaged": AnyOf(
                    partial(_cg_by_devices, averaged=averaged)
                    for averaged in ("first", "product", "square", "first square", "product square")
                ),
                "own-block-of-A": partial(_cg_by_devices, own_block=True),
                "next-direction": partial(_cg_by_devices, early=True),
                "residual-grows": partial(_cg_with, "grows"),
                "product-of-the-residual": partial(_cg_with, "product"),
                "along-the-residual": partial(_cg_with, "along"),
                "residual-kept": partial(_cg_with, "kept"),
                "square-not-renewed": partial(_cg_with, "stale"),
                "roots": partial(_cg_with, "roots"),
                "divided-by-the-direction": partial(_cg_with, "length"),
                "all-of-the-last-direction": partial(_cg_with, "whole"),
                "direction-taken-off": partial(_cg_with, "itself"),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "cg",
            "0 1 2 3 4 5 6 7",
            tuple((size,) for size, _ in SYSTEMS.values()),
            elsewhere=("0 1 2 3",),
        ),
        Requests(
            "cg",
            never=("all-to-all", "reduce-scatter", "collective-permute"),
            some=("all-gather", "all-reduce"),
            least=(STEPS - 1, 1),  # of the last step's product, a number would do
        ),
        CommunicatesAtMost(
            "cg",
            tuple(
                (
                    Budget("all-gather", ("x",), 4 * size * STEPS),
                    Budget("all-reduce", ("x",), 4 * (2 * STEPS + 2)),
                )
                for size, _ in SYSTEMS.values()
            ),
        ),
    ),
    hints=(
        "All vectors stay cut as b is. Where does a step need more than a device's own part?",
        "A @ direction for a device's rows needs all of direction: lax.all_gather(direction, 'x', "
        "tiled=True). A product of two vectors is a sum over all devices: lax.psum(jnp.dot(u, v), "
        "'x').",
        "lax.fori_loop, with x, residual, direction and the square of the residual carried. "
        "jnp.zeros_like(b) is a vector of zeros that varies from device to device as b does; one "
        "made from nothing, jnp.zeros(b.shape), is the same on all devices.",
    ),
    diagnoses={
        "not-finite": "A step divides by direction @ A @ direction, and by the square of the "
        "residual before it: is one of them zero? The first direction is b.",
        "once-too-often": f"That is what comes of {STEPS + 1} steps.",
        "once-too-seldom": f"That is what comes of {STEPS - 1} steps.",
        "from-b": "Its first guess is b; expected zero.",
        "steepest-descent": "Each direction is the residual alone, which is steepest descent. "
        "Some of the last direction is to be added.",
        "ratio-turned": "The share of the last direction is turned over: the new square, divided "
        "by the old.",
        "away-from-it": "The share of the last direction is to be added, and it is taken away.",
        "solved-outright": f"That is the solution itself; expected what {STEPS} steps make of "
        f"zero.",
        "too-seldom": "Each step multiplies A by a new direction. Is one gathered before the loop? "
        "It is out of date after the first step.",
        "the-residual": "That is the residual, and not x.",
        "the-direction": "That is the next direction, and not x.",
        "values": "Is each product of two vectors a sum over all devices, two in each step and one "
        "before the first, and A times a vector none? When x has been moved along the direction, "
        "what does that take off the residual?",
        "first-square-of-its-own": "The square before the first step is each device's own: "
        "residual times residual is to be added up over the devices there, too.",
        "averaged": "One product of two vectors is an average over the devices (pmean), and "
        "another is a sum. Every one has to be a sum.",
        "own-sums": "In some product of two vectors, each device uses the sum over its own part: "
        "expected the sum over all devices, in each step.",
        "blocks-do-not-fit": "A device's rows of A are as long as the whole vector: does the body "
        "have all of it there, as a vector?",
        "own-block-of-A": "Each device multiplies its own part of direction by a square block of "
        "A. Its rows of the product need all of direction.",
        "next-direction": "x moves along the next direction. It is to move along the one that the "
        "step was found for, before the direction changes.",
        "residual-grows": "The multiple of A @ direction is added to the residual; expected it to "
        "be subtracted.",
        "product-of-the-residual": "A is multiplied by the residual; expected A @ direction.",
        "along-the-residual": "x moves along the residual; expected it to move along direction.",
        "residual-kept": "The next direction is made of the residual alone, which is added to a "
        "multiple of itself. Expected a multiple of the last direction to be added.",
        "square-not-renewed": "Every step uses the square of the first residual. It has to be that "
        "of the step before: is the new one carried on?",
        "divided-by-the-direction": "The length of a step is divided by direction @ direction; "
        "expected direction @ A @ direction.",
        "all-of-the-last-direction": "The last direction is added whole; expected the new square, "
        "divided by the old, times it.",
        "direction-taken-off": "A multiple of direction is taken off the residual; expected one of "
        "A @ direction.",
        "roots": "The root is taken of the products of two vectors. They are used as they are.",
        "not-replicated": "What every device is to have alike has to come from an all-reduce.",
        "too-many-bytes": "In a step, direction alone has to come to every device, and two single "
        "numbers are added up. A square of the residual is known from the step before, and can be "
        "carried; A, and what does not change from step to step, need not be gathered in it. And a "
        "device has its rows of A @ direction without any all-reduce.",
        "no all-gather": "A device's rows of A need all of direction.",
        "no all-reduce": "A product of two vectors is a sum over all devices.",
        "no-shard-map": "Left to the compiler, it may be good or not: here you decide.",
        "unknown-times": "Do a fixed number of steps, with lax.fori_loop, lax.scan or Python's "
        "for.",
    },
    about=(Requests, CommunicatesAtMost),
)

ROWS: Final = ("\n".join(map(str, range(8))), "\n".join(map(str, range(4))))

FACTORED: Final = {8: (32, 10.0), 4: (24, 1000.0)}
"""On each line: the size of a matrix to be factorised, and how badly conditioned it is."""


def _factored(
    A: Any,  # noqa: N803
    below: float = 1,
    rows: int = 0,
    steps: int | None = None,
    itself: bool = False,
    above: float | None = None,
) -> Any:
    """A matrix factorised into L and U, both in one, in double precision.

    Args:
        A: the matrix.
        below: what the numbers of L are multiplied by where they are kept.
        rows: if not 0, each so many rows are factorised without those above them.
        steps: after how many it ends.
        itself: whether row k is taken off itself, too.
        above: if not None, rows above row k are changed, too, and their multiples kept so many
            times as large.
    """
    made, n = A.astype(np.float64), len(A)
    for k in range(n)[:steps]:
        end = (k // rows + 1) * rows if rows else n
        row, others = made[k].copy(), slice(k if itself else k + 1, end)
        made[others, k] /= row[k]
        made[others, k + 1 :] -= np.outer(made[others, k], row[k + 1 :])
        if above is not None:
            multiples = made[:k, k] / row[k]
            made[:k, k + 1 :] -= np.outer(multiples, row[k + 1 :])
            made[:k, k] = above * multiples
    return (np.triu(made) + below * np.tril(made, -1)).astype(np.float32)


def _devices_of(n: int) -> int:
    """How many devices a matrix of this size is laid out over."""
    return next(devices for devices, (size, _) in FACTORED.items() if size == n)


def _rows_of(n: int) -> int:
    """How many rows a device has of a matrix of this size."""
    return n // _devices_of(n)


def _masked_by_place(A: Any, in_turn: bool) -> Any:  # noqa: N803
    """The factorisation where the right row is sent, and each device masks by places in its block.

    Args:
        A: the matrix.
        in_turn: whether places are compared with that of row k in its block, or with k itself.
    """
    made = A.astype(np.float64)
    rows = _rows_of(len(A))
    places = np.arange(len(A)) % rows
    for k in range(len(A)):
        row = made[k].copy()
        below = places > (k % rows if in_turn else k)
        made[below, k] /= row[k]
        made[below, k + 1 :] -= np.outer(made[below, k], row[k + 1 :])
    return made.astype(np.float32)


def _stored_undivided(A: Any) -> Any:  # noqa: N803
    """The factorisation where the numbers below the diagonal stay as they are before a division."""
    factors = _factored(A).astype(np.float64)
    below = np.tril(factors, -1) * np.diag(factors)
    return (np.triu(factors) + below).astype(np.float32)


def _never_divided(A: Any) -> Any:  # noqa: N803
    """The factorisation where the multiples are not divided by the number on the diagonal."""
    made = A.astype(np.float64)
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made.astype(np.float32)


def _factored_in_all_columns(A: Any) -> Any:  # noqa: N803
    """The factorisation where each step changes all columns but its own."""
    made = A.astype(np.float64)
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            multiples = made[k + 1 :, k] / made[k, k]
            made[k + 1 :] -= np.outer(multiples, made[k])
            made[k + 1 :, k] = multiples
    return made.astype(np.float32)


def _by_own_pivots(A: Any) -> Any:  # noqa: N803
    """The factorisation where each device divides by the number in column k of a row of its own."""
    made = A.astype(np.float64)
    rows = _rows_of(len(A))
    first = np.arange(len(A)) // rows * rows
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            row, pivots = made[k].copy(), made[first + k % rows, k]
            made[k + 1 :, k] /= pivots[k + 1 :]
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], row[k + 1 :])
    return made.astype(np.float32)


def _all_at_once(A: Any) -> Any:  # noqa: N803
    """The factorisation where each device numbers its rows from 0: in step k they all send one."""
    made = A.astype(np.float64).reshape(-1, _rows_of(len(A)), len(A))
    for k in range(made.shape[1]):
        row = made[:, k].sum(0)
        made[:, k + 1 :, k] /= row[k]
        made[:, k + 1 :, k + 1 :] -= made[:, k + 1 :, k, None] * row[k + 1 :]
    return made.reshape(A.shape).astype(np.float32)


def _added(A: Any) -> Any:  # noqa: N803
    """The factorisation where multiples of row k are added to the rows below it."""
    made = A.astype(np.float64)
    for k in range(len(A)):
        made[k + 1 :, k] /= made[k, k]
        made[k + 1 :, k + 1 :] += np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made.astype(np.float32)


def _positive(numbers: Any) -> Any:
    """The maximum over devices of which all but one have zeros."""
    return np.maximum(numbers, 0)


def _in_turn(n: int) -> list[int]:
    """The rows of a matrix that is cut into blocks, in the order of being dealt out."""
    devices, rows = _devices_of(n), _rows_of(n)
    return [k % devices * rows + k // devices for k in range(n)]


def _numbered_in_turn(A: Any) -> Any:  # noqa: N803
    """The factorisation where rows are numbered as if they were dealt out."""
    order, made = _in_turn(len(A)), np.empty_like(A)
    with np.errstate(all="ignore"):
        made[order] = _factored(A[order])
    return made


def _solved_in_turn(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where rows are numbered as if they were dealt out."""
    order, x = _in_turn(len(b)), np.empty_like(b)
    with np.errstate(all="ignore"):
        x[order] = _by_factors(LU[order], b[order])
    return x


def _itself_but_the_pivot(A: Any) -> Any:  # noqa: N803
    """The factorisation where row k is taken off itself, and its number in column k is kept."""
    return np.tril(_factored(A))


def _crout(A: Any) -> Any:  # noqa: N803
    """Both factors in one, where it is U that has ones on its diagonal."""
    return np.ascontiguousarray(_factored(A.T).T)


def _with_rows_divided(A: Any) -> Any:  # noqa: N803
    """The right factors, but each row of U divided by its pivot, to the right of it."""
    factors = _factored(A)
    divided = factors / np.diag(factors)[:, None]
    return np.where(np.triu(np.ones(A.shape, bool), 1), divided, factors)


def _by_factors(LU: Any, b: Any, forward: bool = True, back: bool = True, unit: bool = True) -> Any:  # noqa: N803
    """The solution by factors, or one half of the way to it.

    Args:
        LU: both factors in one.
        b: the right side.
        forward: whether L is solved with.
        back: whether U is solved with.
        unit: whether L has ones on its diagonal; else it has that of U.
    """
    packed, x = LU.astype(np.float64), b.astype(np.float64)
    lower = np.tril(packed, -1) + (np.eye(len(b)) if unit else np.diag(np.diag(packed)))
    x = np.linalg.solve(lower, x) if forward else x
    x = np.linalg.solve(np.triu(packed), x) if back else x
    return x.astype(np.float32)


def _divided_on_the_way(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where the forward pass takes numbers off that U's diagonal has divided."""
    packed = LU.astype(np.float64)
    lower = np.tril(packed, -1) / np.diag(packed) + np.eye(len(b))
    return np.linalg.solve(np.triu(packed), np.linalg.solve(lower, b)).astype(np.float32)


def _passes(
    LU: Any,  # noqa: N803
    b: Any,
    signs: tuple[int, int] = (-1, -1),
    forward: Callable[[int, int], tuple[int, Any]] = lambda i, n: (i, slice(i + 1, n)),
    back: Callable[[int, int], tuple[int, Any]] = lambda i, n: (n - 1 - i, slice(n - 1 - i)),
    sent: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (float, float),
) -> Any:
    """The solution by two passes, with a mistake in one of them.

    Args:
        LU: both factors in one.
        b: the right side.
        signs: 1 for each pass that adds multiples, and -1 where it subtracts them.
        forward: the number whose turn it is in a step of the first pass, and those that change.
        back: the same for the second.
        sent: what the devices get of a number in each pass.
    """
    packed, x, n = LU.astype(np.float64), b.astype(np.float64), len(b)
    for k, changed in (forward(i, n) for i in range(n)):
        x[changed] += signs[0] * packed[changed, k] * sent[0](x[k])
    for k, changed in (back(i, n) for i in range(n)):
        x[k] = sent[1](x[k] / packed[k, k])
        x[changed] += signs[1] * packed[changed, k] * x[k]
    return x.astype(np.float32)


def _back_from_the_first(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where the back pass, too, runs from the first number to the last."""
    packed, x = LU.astype(np.float64), _by_factors(LU, b, back=False).astype(np.float64)
    for k in range(len(b)):
        x[k] /= packed[k, k]
        x[:k] -= packed[:k, k] * x[k]
    return x.astype(np.float32)


def _u_before_l(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution of U L x = b."""
    return _by_factors(LU, _by_factors(LU, b, forward=False), back=False)


def _averaged(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where each number comes from an average over the devices, and not a sum."""
    packed, x, p = LU.astype(np.float64), b.astype(np.float64), _devices_of(len(b))
    for k in range(len(b)):
        x[k + 1 :] -= packed[k + 1 :, k] * x[k] / p
    for k in reversed(range(len(b))):
        x[k] /= packed[k, k] * p
        x[:k] -= packed[:k, k] * x[k]
    return x.astype(np.float32)


def _by_places(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where each device numbers its rows from 0."""
    rows = _rows_of(len(b))
    packed = LU.astype(np.float64).reshape(-1, rows, len(b))
    x = b.astype(np.float64).reshape(-1, rows)
    for k in range(rows):
        x[:, k + 1 :] -= packed[:, k + 1 :, k] * x[:, k].sum()
    for k in reversed(range(rows)):
        known = (x[:, k] / packed[:, k, k]).sum()
        x[:, :k] -= packed[:, :k, k] * known
        x[:, k] = known
    return x.reshape(b.shape).astype(np.float32)


def _number_itself_too(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where the forward pass takes number k's multiple off number k, too."""
    packed, x = LU.astype(np.float64), b.astype(np.float64)
    for k in range(len(b)):
        x[k:] -= packed[k:, k] * x[k]
    return _by_factors(LU, x, forward=False)


def _divided_twice(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution, each number divided by U's diagonal once more when it is stored."""
    return (_by_factors(LU, b) / np.diag(LU)).astype(np.float32)


def _without_the_first(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where the back pass ends before number 0."""
    x = _by_factors(LU, b)
    x[0] *= LU[0, 0]
    return x


def _ones_in_u(LU: Any, b: Any) -> Any:  # noqa: N803
    """The solution where U is taken to have ones on its diagonal, too."""
    packed = LU.astype(np.float64)
    np.fill_diagonal(packed, 1)
    return _by_factors(packed, b)


def _matrix_argument(n: int, cyclic: bool = False) -> Argument:
    """A matrix for a line of so many devices, in blocks of rows or with rows dealt out in turn."""
    size, condition = FACTORED[n]
    shape = (size // n, n, size) if cyclic else (size, size)
    spec = (None, "x", None) if cyclic else ("x", None)
    return Argument(shape, (("x", n),), spec, mode="auto", matrix="dominant", condition=condition)


def _broadcasts(answer: str) -> Requests:
    """That it is written by hand, and that all-reduces are all it asks for."""
    others = ("all-gather", "all-to-all", "reduce-scatter", "collective-permute")
    return Requests(answer, never=others, some=("all-reduce",))


ELIMINATION: Final = Exercise(
    id="10.7",
    title="Gauss, on several devices",
    afterwards="In each step all devices wait for the one that has the row. Libraries such as "
    "ScaLAPACK broadcast whole blocks of rows, so that they wait less often.",
    requirements=(
        Computes(
            "lu",
            "lu(A) must be the factors of A without exchanging rows: U on and above the diagonal, "
            "and L below it, without its ones.",
            lambda A: _factored(A),  # noqa: N803
            tuple((_matrix_argument(n),) for n in FACTORED),
            {
                "multipliers-missing": lambda A: _factored(A, below=0),  # noqa: N803
                "multipliers-negative": lambda A: _factored(A, below=-1),  # noqa: N803
                "each-for-itself": lambda A: _factored(A, rows=_rows_of(len(A))),  # noqa: N803
                "first-rows-alone": lambda A: _factored(A, steps=_rows_of(len(A))),  # noqa: N803
                "itself-too": lambda A: _factored(A, itself=True),  # noqa: N803
                "last-step-missing": lambda A: _factored(A, steps=-2),  # noqa: N803
                "numbers-of-the-block": _all_at_once,
                "mask-of-the-block": lambda A: _masked_by_place(A, in_turn=True),  # noqa: N803
                "mask-by-place": lambda A: _masked_by_place(A, in_turn=False),  # noqa: N803
                "rows-above-too": lambda A: _factored(A, steps=-1, above=1),  # noqa: N803
                "rows-above-n-times": lambda A: _factored(A, above=1),  # noqa: N803
                "gauss-jordan": lambda A: _factored(A, steps=-1, above=0),  # noqa: N803
                "gauss-jordan-n-times": lambda A: _factored(A, above=0),  # noqa: N803
                "averaged": lambda A: _factored(A, below=_devices_of(len(A))),  # noqa: N803
                "averaged-over-rows": lambda A: _factored(A, below=_rows_of(len(A))),  # noqa: N803
                "numbered-in-turn": _numbered_in_turn,
                "upper-part-of-the-block": lambda A: np.concatenate(  # noqa: N803
                    [np.triu(block) for block in np.split(_factored(A), _devices_of(len(A)))]
                ),
                "ones-in-u": _crout,
                "rows-divided": _with_rows_divided,
                "own-pivots": _by_own_pivots,
                "stored-undivided": _stored_undivided,
                "columns-before-too": lambda A: _factored_in_all_columns(A),  # noqa: N803
                "multiples-undivided": _never_divided,
                "added": _added,
                "nothing-done": lambda A: A,  # noqa: N803
            },
            under_mesh=True,
        ),
        PlacedLike(
            "lu", ROWS[0], tuple((size, size) for size, _ in FACTORED.values()), elsewhere=ROWS[1:]
        ),
        _broadcasts("lu"),
        CommunicatesAtMost(
            "lu",
            tuple(
                (Budget("all-reduce", ("x",), 4 * size * size),) for size, _ in FACTORED.values()
            ),
        ),
        Computes(
            "substitute",
            "substitute(LU, b) must be the solution x of L U x = b.",
            lambda LU, b: _by_factors(LU, b),  # noqa: N803
            tuple(
                (_matrix_argument(n), Argument((size,), (("x", n),), ("x",), mode="auto"))
                for n, (size, _) in FACTORED.items()
            ),
            {
                "only-forward": lambda LU, b: _by_factors(LU, b, back=False),  # noqa: N803
                "only-back": lambda LU, b: _by_factors(LU, b, forward=False),  # noqa: N803
                "l-not-of-ones": lambda LU, b: _by_factors(LU, b, unit=False),  # noqa: N803
                "divided-on-the-way": _divided_on_the_way,
                "back-from-the-first": _back_from_the_first,
                "added": AnyOf(
                    partial(_passes, signs=signs) for signs in ((1, -1), (-1, 1), (1, 1))
                ),
                "forward-from-the-last": partial(
                    _passes, forward=lambda i, n: (n - 1 - i, slice(n - i, n))
                ),
                "numbers-above": partial(_passes, forward=lambda i, n: (i, slice(i))),
                "numbers-below": partial(_passes, back=lambda i, n: (n - 1 - i, slice(n - i, n))),
                "never-divided": _ones_in_u,
                "numbered-in-turn": _solved_in_turn,
                "largest-for-sum": AnyOf(
                    partial(_passes, sent=sent)
                    for sent in ((_positive, float), (float, _positive), (_positive, _positive))
                ),
                "all-change-back": partial(
                    _passes, back=lambda i, n: (n - 1 - i, np.delete(np.arange(n), n - 1 - i))
                ),
                "all-change-forward": partial(_passes, forward=lambda i, n: (i, slice(n))),
                "nothing-taken-off-back": partial(_passes, back=lambda i, n: (n - 1 - i, slice(0))),
                "kept-undivided": lambda LU, b: (  # noqa: N803
                    (_by_factors(LU, b) * np.diag(LU)).astype(np.float32)
                ),
                "u-before-l": _u_before_l,
                "averaged": _averaged,
                "numbers-of-the-block": _by_places,
                "number-itself-too": _number_itself_too,
                "divided-twice": _divided_twice,
                "first-left-out": _without_the_first,
                "nothing-solved": lambda LU, b: b,  # noqa: N803
                "one-matrix": lambda LU, b: np.linalg.solve(LU, b),  # noqa: N803
            },
            under_mesh=True,
        ),
        PlacedLike(
            "substitute",
            "0 1 2 3 4 5 6 7",
            tuple((size,) for size, _ in FACTORED.values()),
            elsewhere=("0 1 2 3",),
        ),
        _broadcasts("substitute"),
        CommunicatesAtMost(
            "substitute",
            tuple((Budget("all-reduce", ("x",), 8 * size),) for size, _ in FACTORED.values()),
        ),
    ),
    hints=(
        "All devices do the same in step k: they get row k from the device that has it, and take "
        "a multiple of it off those of their rows that stand below it. Which of their rows do?",
        "numbers = lax.axis_index('x') * rows + jnp.arange(rows) are the numbers of a device's "
        "rows in the whole matrix. With these, lax.psum of a row that is zero on all devices but "
        "one is a broadcast, and jnp.where(numbers > k, …, …) changes the rows below alone.",
        "A row's multiple is its number in column k, divided by row[k]; this is also what L keeps "
        "there. To substitute, work by columns: as soon as a number of x is known everywhere, all "
        "rows can take their part of it off at once.",
    ),
    diagnoses={
        "rows-divided": "L and the pivots are right, but each row of U is divided by its pivot. "
        "Nothing of row k changes in step k.",
        "multipliers-missing": "U is right, and below the diagonal there are zeros: L's numbers, "
        "the multiples, belong there.",
        "multipliers-negative": "The numbers below the diagonal have the other sign: A is L times "
        "U.",
        "each-for-itself": "Each device eliminates with its own rows alone. The rows of the "
        "devices before it come first.",
        "first-rows-alone": "The elimination ends after as many steps as a device has rows. Each "
        "row of the matrix has its step.",
        "itself-too": "Row k is taken off itself, too. Only the rows below it change in step k.",
        "numbers-of-the-block": "Each device numbers its rows from 0 on, so that several of them "
        "take row k for theirs. Which rows of the whole matrix does a device have?",
        "last-step-missing": "The last step is missing: there are n - 1 of them, and it is the "
        "last row that the last one changes.",
        "mask-of-the-block": "Row k is right, but which rows change is decided by their place in a "
        "device's block: those after the place that row k has in its own. Which rows of the whole "
        "matrix does a device have?",
        "mask-by-place": "Row k is right, but which rows change is decided by comparing k with a "
        "row's place in its block, counted from 0. Which rows of the whole matrix does a device "
        "have?",
        "rows-above-too": "Rows above row k are changed, too. Only those below it change in step "
        "k.",
        "rows-above-n-times": "Rows above row k are changed, too. Only those below it change in "
        "step k.",
        "gauss-jordan": "Rows that are done change again, as in Gauss–Jordan elimination: row k "
        "itself, or those above it. Only the rows below it change in step k.",
        "gauss-jordan-n-times": "Rows that are done change again, as in Gauss–Jordan elimination: "
        "row k itself, or those above it. Only the rows below it change in step k.",
        "lu: averaged": "U is right, and each number of L is as many times too large as there are "
        "devices. That comes of an average over the devices (pmean) of a row that all but one "
        "have as zeros: only their sum is the row.",
        "substitute: averaged": "Each number that is sent is divided by the number of devices. An "
        "average over the devices (pmean), of which all but one bring zeros, is not the number; "
        "their sum is.",
        "averaged-over-rows": "U is right, and each number of L is as many times too large as a "
        "device has rows. That comes of an average over these rows (mean), of which all but one "
        "are zeros: only their sum is the row.",
        "largest-for-sum": "What is negative arrives as zero: the largest number over the devices "
        "(pmax) is taken where all but one have zeros. Their sum is what the one has.",
        "numbered-in-turn": "Rows are numbered as if they were dealt out, one to each device in "
        "turn. They are in blocks: device d has those from d times the rows of a block on.",
        "all-change-back": "In the back pass all other numbers change, also those that are known "
        "already. Only those above it do.",
        "all-change-forward": "In the forward pass all numbers change, also those that are known "
        "already. Only those below it do.",
        "nothing-taken-off-back": "In the back pass each number is divided, and nothing is taken "
        "off the numbers above it.",
        "upper-part-of-the-block": "Each device keeps the upper part of its own block, counted "
        "from the block's first row. L belongs to the result, too.",
        "kept-undivided": "Each number of x is divided by U's diagonal where it is sent, and kept "
        "without that.",
        "u-before-l": "That is the solution of U L x = b: U is solved with before L.",
        "ones-in-u": "That is a factorisation in which U has ones on its diagonal; expected L to "
        "have them.",
        "nothing-done": "That is A, as it came.",
        "only-forward": "That is the solution of L y = b: U is still to be solved with.",
        "only-back": "That is the solution of U x = b: L has to be solved with first.",
        "l-not-of-ones": "L's diagonal has ones, which are not kept. The diagonal that is kept is "
        "that of U.",
        "divided-on-the-way": "In the forward pass, numbers are divided by the diagonal before "
        "they are taken off. The diagonal that is kept is that of U; L's has ones.",
        "back-from-the-first": "The back pass runs from the first number to the last. U x = y is "
        "solved from the last to the first.",
        "lu: added": "In each step, multiples of row k are added to the rows below; expected them "
        "to be subtracted.",
        "substitute: added": "In the forward pass, the back pass or both, multiples of the known "
        "number are added; expected them to be subtracted.",
        "forward-from-the-last": "The forward pass runs from the last number to the first. L y = b "
        "is solved from the first to the last.",
        "numbers-above": "In the forward pass, the numbers above number k change; expected those "
        "below it.",
        "numbers-below": "In the back pass, the numbers below number k change; expected those "
        "above it.",
        "stored-undivided": "U is right. Below the diagonal are the numbers before they are "
        "divided by row[k]; L's are the multiples.",
        "multiples-undivided": "Rows are taken off by multiples that are not divided by row[k].",
        "columns-before-too": "Columns before column k are changed, too. They hold L by then, and "
        "only those after column k change.",
        "own-pivots": "Each device divides column k by the number in a row of its own block; "
        "expected row[k], of the row that all devices got.",
        "number-itself-too": "In step k of the forward pass, number k changes, too. Only those "
        "below it do.",
        "divided-twice": "Each number is divided by U's diagonal twice.",
        "first-left-out": "The back pass ends before number 0: it runs from n - 1 to 0.",
        "never-divided": "U's diagonal has no ones: each number of x is divided by its own.",
        "nothing-solved": "That is b, as it came.",
        "one-matrix": "That is the solution for LU as if it were one matrix.",
        "not-replicated": "What every device is to have alike has to come from an all-reduce.",
        "too-many-bytes": "For lu a row in each step is enough, for substitute a number in each of "
        "2n.",
        "all-gather by hand": "No device needs all rows, or all of b: one row, or one number, at a "
        "time.",
        "no all-reduce": "Only one device has row k, or number k, and has to tell all others.",
        "no-shard-map": "Left to the compiler, a step may be cheap or not, and jnp.linalg.solve "
        "gathers A: here you decide.",
        "not-finite": "Has every device the number on the diagonal that it divides by, or is that "
        "masked too early? Or does what is negative arrive as zero, as with a maximum (pmax) over "
        "devices of which all but one have zeros?",
    },
    about=(Requests, CommunicatesAtMost),
)


def _dealt(factor: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A factorisation of a matrix whose rows are dealt out: rounds of one row for each device."""
    return lambda A: factor(A.reshape(-1, A.shape[-1])).reshape(A.shape)  # noqa: N803


def _by_blocks(A: Any) -> Any:  # noqa: N803
    """The factorisation where rows are taken to be in blocks: all of a device, then the next."""
    rows = A.swapaxes(0, 1)
    factors = _factored(rows.reshape(-1, A.shape[-1]))
    return np.ascontiguousarray(factors.reshape(rows.shape).swapaxes(0, 1))


def _by_rounds(A: Any, number: Callable[[Any, Any, int, int], Any]) -> Any:  # noqa: N803
    """The factorisation in rounds, with numbers for the rows that are left in a round.

    Args:
        A: the matrix, its rows dealt out.
        number: makes the numbers, of places, devices, the number of these and of rounds to come.
    """
    made = A.astype(np.float64)
    rounds, p, _ = A.shape
    with np.errstate(all="ignore"):
        for k in range(rounds * p):
            left = made[k // p :]
            row = left[0, k % p].copy()
            place, device = np.indices(left.shape[:2])
            below = number(place, device, p, len(left)) > k % p
            factors = left[below, k] / row[k]
            left[below, k + 1 :] -= np.outer(factors, row[k + 1 :])
            left[below, k] = factors
    return made.astype(np.float32)


def _masked_in_blocks(A: Any) -> Any:  # noqa: N803
    """The factorisation where the right rows are sent, and masks number rows in blocks."""
    made = A.astype(np.float64)
    rounds, p, _ = A.shape
    place, device = np.indices((rounds, p))
    with np.errstate(all="ignore"):
        for k in range(rounds * p):
            row = made[k // p, k % p].copy()
            below = device * rounds + place > k
            multiples = made[below, k] / row[k]
            made[below, k + 1 :] -= np.outer(multiples, row[k + 1 :])
            made[below, k] = multiples
    return made.astype(np.float32)


def _with_row(
    A: Any,  # noqa: N803
    sent: Callable[[int, int, int], tuple[int, int]],
    from_row: Callable[[int, int, int], int] = lambda k, p, rounds: k // p,
    columns_masked: bool = True,
) -> Any:
    """The factorisation of rows that are dealt out, with a mistake in what is sent or changed.

    Args:
        A: the matrix, its rows dealt out.
        sent: the place and the device of the row that is sent, by the step, the number of devices
            and that of rounds.
        from_row: the first place whose rows change.
        columns_masked: whether the columns before the step's own are left as they are.
    """
    made = A.astype(np.float64)
    rounds, p, n = A.shape
    place, device = np.indices((rounds, p))
    with np.errstate(all="ignore"):
        for k in range(n):
            row = made[sent(k, p, rounds)].copy()
            below = (place * p + device > k) & (place >= from_row(k, p, rounds))
            multiples = made[below, k] / row[k]
            first = k + 1 if columns_masked else 0
            made[below, first:] -= np.outer(multiples, row[first:])
            made[below, k] = multiples
    return made.astype(np.float32)


def _first_rows_kept(A: Any) -> Any:  # noqa: N803
    """The factorisation where of each round's slice only the first row of each device is kept."""
    made = A.astype(np.float64)
    p = A.shape[1]
    with np.errstate(all="ignore"):
        for g in range(len(A)):
            slab = made[g:].copy()
            _eliminate(slab.reshape(-1, A.shape[-1]), p, g * p)
            made[g] = slab[0]
    return made.astype(np.float32)


def _without_its_round(A: Any) -> Any:  # noqa: N803
    """The factorisation where the rows of a round do not change each other."""
    made = A.astype(np.float64)
    p = A.shape[1]
    with np.errstate(all="ignore"):
        for g in range(len(A)):
            for k in range(p):
                row, below = made[g, k].copy(), made[g + 1 :].reshape(-1, A.shape[-1])
                below[:, g * p + k] /= row[g * p + k]
                below[:, g * p + k + 1 :] -= np.outer(below[:, g * p + k], row[g * p + k + 1 :])
    return made.astype(np.float32)


def _eliminate(rows: Any, number: int, first: int) -> None:
    """Eliminate with the first so many rows, the first of which has its pivot in column `first`."""
    for k in range(number):
        column = first + k
        rows[k + 1 :, column] /= rows[k, column]
        rows[k + 1 :, column + 1 :] -= np.outer(rows[k + 1 :, column], rows[k, column + 1 :])


def _without_steps(A: Any, left_out: Callable[[int, int], bool]) -> Any:  # noqa: N803
    """The factorisation without some of its steps.

    Args:
        A: the matrix, its rows dealt out.
        left_out: whether a step is left out, by its number and that of the devices.
    """
    made = A.astype(np.float64).reshape(-1, A.shape[-1])
    for k in range(len(made)):
        if not left_out(k, A.shape[1]):
            made[k + 1 :, k] /= made[k, k]
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made.reshape(A.shape).astype(np.float32)


DEALT: Final = Exercise(
    id="10.8",
    title="Everybody has work",
    afterwards="ScaLAPACK and HPL, by which the largest computers are compared, deal out blocks "
    "in both dimensions, and exchange rows: that asks for one more small reduction in each step.",
    requirements=(
        Computes(
            "cyclic_lu",
            "cyclic_lu(A) must be the factors of A without exchanging rows, with row i of the "
            "matrix at [i // p, i % p], for p devices.",
            lambda A: _dealt(_factored)(A),  # noqa: N803
            tuple((_matrix_argument(n, cyclic=True),) for n in FACTORED),
            {
                "multipliers-missing": _dealt(lambda A: _factored(A, below=0)),  # noqa: N803
                "multipliers-negative": _dealt(lambda A: _factored(A, below=-1)),  # noqa: N803
                "averaged": lambda A: _dealt(  # noqa: N803
                    lambda rows: _factored(rows, below=A.shape[1])
                )(A),
                "last-step-missing": _dealt(lambda A: _factored(A, steps=-2)),  # noqa: N803
                "last-round-missing": lambda A: _without_steps(  # noqa: N803
                    A, lambda k, p: k >= A.shape[-1] - p
                ),
                "last-of-each-round": lambda A: _without_steps(  # noqa: N803
                    A, lambda k, p: k % p == p - 1
                ),
                "multiples-undivided": _dealt(_never_divided),
                "itself-too": AnyOf(
                    (
                        _dealt(lambda A: _factored(A, itself=True)),  # noqa: N803
                        _dealt(_itself_but_the_pivot),
                    )
                ),
                "stored-undivided": _dealt(_stored_undivided),
                "added": _dealt(_added),
                "rest-not-kept": _first_rows_kept,
                "round-left-out": _without_its_round,
                "numbers-of-the-slice": lambda A: _by_rounds(  # noqa: N803
                    A, lambda i, d, p, left: i * p + d - (len(A) - left) * p
                ),
                "middle-dimension-dropped": lambda A: _dealt(_factored)(A).reshape(  # noqa: N803
                    len(A), -1
                ),
                "in-blocks": _by_blocks,
                "mask-in-blocks": _masked_in_blocks,
                "numbers-turned": lambda A: _by_rounds(A, lambda i, d, p, _: i + p * d),  # noqa: N803
                "numbers-in-blocks": lambda A: _by_rounds(  # noqa: N803
                    A, lambda i, d, _, left: i + left * d
                ),
                "nothing-done": lambda A: A,  # noqa: N803
                "slice-a-row-late": lambda A: _with_row(  # noqa: N803
                    A,
                    lambda k, p, rounds: (min((k + 1) // p, rounds - 1), k % p),
                    lambda k, p, rounds: min((k + 1) // p, rounds - 1),
                ),
                "columns-before-too": lambda A: _with_row(  # noqa: N803
                    A, lambda k, p, rounds: (k // p, k % p), columns_masked=False
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "cyclic_lu",
            TURNED_SLABS[0],
            tuple((size // n, n, size) for n, (size, _) in FACTORED.items()),
            elsewhere=TURNED_SLABS[1:],
        ),
        _broadcasts("cyclic_lu"),
        CommunicatesAtMost(
            "cyclic_lu",
            tuple(
                (Budget("all-reduce", ("x",), 4 * size * size),) for size, _ in FACTORED.values()
            ),
        ),
        WorksAtMost(
            "cyclic_lu", tuple(7 * size**3 // (4 * n) for n, (size, _) in FACTORED.items())
        ),
    ),
    hints=(
        "In a round every device has one row whose turn it is. When the round is over, all devices "
        "are done with one row each, and with as many columns as there are devices.",
        "A Python loop over the rounds: in round r take mine[r:, 0, r * p:], which has the rows "
        "and columns that are left, for p devices. The slice has the same shape on all of them.",
        "In a round the row of device k is the first of what it has left, for k from 0 to p - 1: a "
        "fori_loop over these, which does what a step of 10.7 does. A row of the slice, in place i "
        "of device d, has the number i * p + d in it. Put what comes out back with .at[…].set.",
    ),
    diagnoses={
        "multipliers-missing": "U is right, and below the diagonal there are zeros: L's numbers, "
        "the multiples, belong there.",
        "multipliers-negative": "The numbers below the diagonal have the other sign: A is L times "
        "U.",
        "averaged": "U is right, and each number of L is as many times too large as there are "
        "devices. That comes of an average over the devices (pmean) of a row that all but one "
        "have as zeros: only their sum is the row.",
        "last-step-missing": "The last step is missing: there are n - 1 of them, and it is the "
        "last row that the last one changes.",
        "last-round-missing": "The last round is missing: its rows are not eliminated with one "
        "another.",
        "last-of-each-round": "In each round the last device's row has no turn: each round has as "
        "many steps as there are devices.",
        "middle-dimension-dropped": "The numbers are right, but the result has two dimensions. "
        "A device's block comes with a middle dimension of length 1, and has to leave with it.",
        "multiples-undivided": "Rows are taken off by multiples that are not divided by row[k].",
        "itself-too": "Rows that are done change again: row k itself, or those before it. Only the "
        "rows after it change in step k.",
        "mask-in-blocks": "The right rows are sent, but which rows change is decided as if they "
        "were numbered in blocks, all of the first device's and then all of the next one's. Which "
        "row of the whole matrix is in place i of device d?",
        "stored-undivided": "U is right. Below the diagonal are the numbers before they are "
        "divided by row[k]; L's are the multiples.",
        "added": "In each step, multiples of row k are added to the rows below; expected them to "
        "be subtracted.",
        "rest-not-kept": "Of the slice that a round works on, only the first row is put back, and "
        "what was done to the other rows is lost.",
        "round-left-out": "In a round, only the rows of later rounds change. The rows of the round "
        "itself come one after another, too.",
        "numbers-of-the-slice": "The rows that are left in a round are numbered from 0. In round r "
        "the first of them has number r p + d.",
        "in-blocks": "The rows are taken in blocks: all of the first device, then all of the next. "
        "Row i is at [i // p, i % p]: they are dealt out in turn.",
        "numbers-turned": "Rows are numbered as if device d had those from p d on. From one row of "
        "a device to its next, it is p rows.",
        "numbers-in-blocks": "What is left is numbered in blocks, all of the first device's and "
        "then all of the next one's. From one row of a device to its next, it is p rows.",
        "nothing-done": "That is A, as it came.",
        "slice-a-row-late": "In the last step of each round the slice begins a row too late: the "
        "row that is sent is then the last device's next one, and not row k.",
        "not-finite": "Is the row that is sent in step k really row k, of [k // p, k % p]? Another "
        "one may have a zero in column k by then. And does it arrive whole? A maximum (pmax) over "
        "devices of which all but one have zeros loses what is negative.",
        "columns-before-too": "Columns before column k are changed, too. They hold L by then, and "
        "only those after column k change.",
        "unknown-times": "The bounds of a loop have to be the same Python numbers on all devices; "
        "what lax.axis_index gives is not.",
        "added-by-the-compiler": "Is A reshaped outside the body, or cut otherwise than it came? A "
        "reshape to (n, n) puts the rows back in order, and so moves them from device to device.",
        "too-much-work": "Are rows that are done, and columns that are, still worked on, if only "
        "to change nothing? A mask saves no work. A smaller slice does.",
        "too-many-bytes": "A row in each step is enough.",
        "all-gather by hand": "No device needs all rows: one at a time.",
        "no all-reduce": "Who has the row has to tell all others.",
        "no-shard-map": "Left to the compiler, every device may do all of the work.",
    },
    about=(Requests, CommunicatesAtMost, WorksAtMost),
    together=True,
)

EXERCISES: Final = (
    AUDIT, LOCAL, SLAB, PENCIL, POISSON, GRADIENTS, ELIMINATION, DEALT,
)  # fmt: skip
