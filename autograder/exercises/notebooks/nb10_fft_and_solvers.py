"""Notebook 10: transforms and solvers.

The references of the solvers compute in double precision. The tolerance follows from moving their
inputs by their last digits (`judge/comparing_values.py`), which moves the solution of a badly
conditioned system further. Before JAX 0.12, XLA ends the whole process if a transform runs along a
dimension that is sharded over all n devices and the size of a block is not a multiple of n. So the
size of a dimension that is sharded over a line is a multiple of n².
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts import Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    Mistake,
    PlacedLike,
    Predicts,
    RequestedCollective,
    Requests,
    Returns,
    WorksAtMost,
)

LINES: Final = (8, 4)
"""The numbers of devices in a line. Functions are judged on both."""

COMPLEX_BYTES: Final = 8
"""Bytes of a complex number."""

AUDIT: Final = Exercise(
    id="10.1",
    title="An audit of fftn",
    afterwards="The compiler needs a way that works for every layout and every size, and "
    "gathering everything always works. If you know the transform you can do better.",
    requirements=(
        Predicts(
            "audit",
            "spec",
            "the spec of the transform",
            jax.P("x", "y"),
            {
                "no-copies-left": Mistake(
                    jax.P(),
                    jax.P(None),
                    jax.P(None, None),
                    says="The result is sharded, whatever each device had on the way. Ask the "
                    "result for its sharding.",
                ),
                "transposed-layout": Mistake(
                    jax.P(None, "x", "y"),
                    jax.P("y", None, "x"),
                    says="A distributed transform would like to leave its result in this layout. "
                    "Ask the result for its sharding.",
                ),
            },
        ),
        Predicts(
            "audit",
            "kind",
            "the kind of its collectives",
            "all-gather",
            {
                "as-it-should-be": Mistake(
                    "all-to-all",
                    says="This kind would be enough. Is it the kind that the report lists?",
                )
            },
            words=("all-reduce", "reduce-scatter", "collective-permute"),
        ),
        Predicts(
            "audit",
            "bytes",
            "the bytes that it moves on each device",
            40_960,
            {
                "trusts-the-layout": 0,
                "the-last-gather": 32_768,
                "the-first-gather": 8192,
                "sent": 28_672,
                "on-all-devices": Mistake(
                    8 * 40_960,
                    says="This is the total over all devices. Expected: what each of them moves.",
                ),
                "own-block": Mistake(2048, 4096, says="This is the size of a device's own block."),
                "of-real-numbers": 20_480,
                "of-the-box": 16_384,
                "what-goes-in": 10_240,
            },
        ),
        Predicts(
            "audit",
            "share",
            "the share of the whole work that each device does",
            1.0,
            {
                "fair-share": Mistake(
                    1 / 8, says="This would be a device's fair share. What does the report show?"
                ),
                "of-all-devices": Mistake(
                    8.0,
                    says="This is the work of all eight devices, divided by that of one. A "
                    "report's `.flops` are already those of one device.",
                ),
                "per-cent": Mistake(
                    100.0, says="This is a percentage. Expected: a fraction of one."
                ),
            },
            tolerance=0.01,
        ),
        Predicts(
            "audit",
            "larger",
            "the GiB that it moves on each of 4,096 devices",
            8 * (1 + 1 / 64),
            {
                "about-the-larger": Mistake(
                    8.0,
                    says="This is about what the larger collective brings alone, and about what a "
                    "device sends in both. Expected: what both bring. How much is the smaller one, "
                    "on 64 × 64 devices?",
                ),
                "the-first-gather": 8 / 64,
                "of-this-mesh": Mistake(
                    8 * (1 + 1 / 4),
                    8 * (1 + 1 / 2),
                    says="This is what the volume would take on the mesh of 4 × 2. How much the "
                    "smaller collective brings depends on the mesh, which is 64 × 64 here.",
                ),
                "of-real-numbers": 4 * (1 + 1 / 64),
                "of-the-box": 4.0,
                "in-gb": Mistake(
                    8 * (1 + 1 / 64) * 1.024**3,
                    says="This is in GB, of 10⁹ bytes. Expected: GiB, of 2³⁰ bytes.",
                ),
                "in-bytes": 8 * (1 + 1 / 64) * 2**30,
                "in-mib": Mistake(
                    8 * (1024 + 1024 / 64), says="This is in MiB. Expected: GiB, of 1,024 MiB each."
                ),
                "what-goes-in": 8 * (1 / 64 + 1 / 64**2),
                "trusts-the-layout": 0,
                "as-in-the-small": Mistake(
                    40_960,
                    40_960 / 2**30,
                    says="This is what the small volume takes. The large one has 64³ times as many "
                    "numbers.",
                ),
            },
            tolerance=0.002,
        ),
        Predicts(
            "audit",
            "enough",
            "the MiB that two exchanges move on each of 4,096 devices",
            4.0,
            {
                "one-exchange": Mistake(
                    2.0,
                    says="This is one exchange of a block of complex numbers, or two of real ones. "
                    "Expected: two exchanges of complex numbers.",
                ),
                "real-exchange": Mistake(
                    1.0,
                    says="This is one exchange of real numbers, of 4 bytes each. Expected: two "
                    "exchanges of complex numbers.",
                ),
                "sent": 4 * 63 / 64,
                "one-axis": Mistake(
                    256.0,
                    128.0,
                    says="This is right for a volume in 64 blocks. The mesh is 64 × 64: how many "
                    "blocks is that?",
                ),
                "sent-and-received": Mistake(
                    8.0,
                    says="This is twice too much. Do you count a block when it is sent, and again "
                    "when it arrives? Or does each number have 16 bytes?",
                ),
                "whole-box": Mistake(
                    8192.0,
                    16_384.0,
                    8320.0,
                    says="This is about what fftn moves. In an exchange a device moves only its "
                    "own block, which is 1/4,096 of the volume.",
                ),
                "in-gib": Mistake(4 / 1024, 2 / 1024, says="This is in GiB. Expected: MiB."),
                "in-mb": Mistake(
                    4 * 1.024**2,
                    says="This is in MB, of 10⁶ bytes. Expected: MiB, of 2²⁰ bytes.",
                ),
                "in-bytes": Mistake(4 * 2.0**20, 2 * 2.0**20),
            },
            tolerance=0.002,
        ),
        Predicts(
            "audit",
            "helps",
            "what would help if the volume did not fit",
            "more memory",
            {
                "more-devices": Mistake(
                    "more devices",
                    says="On the way each device holds the complete volume. Does a device hold "
                    "less of it if there are more devices?",
                ),
                "faster-network": Mistake(
                    "a faster network",
                    says="If the memory is too small, it does not help that the numbers arrive "
                    "sooner.",
                ),
            },
        ),
    ),
    hints=(
        "For the spec: `jax.jit(jnp.fft.fftn)(volume).sharding.spec`. For the rest: "
        "`communication(jnp.fft.fftn, volume)`.",
        "A report has .collectives (each with its .kind), .bytes and .flops.",
        "share divides the .flops of two reports: that of volume, which is sharded, by that of "
        "unsharded, which is not.",
        "For the large machine: volume has 16³ numbers, of 8 bytes each once they are complex, on "
        "a mesh of 4 × 2. Which part of it does each of the two collectives bring to a device, "
        "and which axis of the mesh decides that?",
    ),
    diagnoses={
        "trusts-the-layout": "The result has the layout of the argument. That does not tell what "
        "happens in between.",
        "the-last-gather": "These are the bytes of the largest collective. There is another one.",
        "the-first-gather": "These are the bytes of the smallest collective. There is another one.",
        "sent": "This is what a device sends, the report's `.sent`. Expected: its `.bytes`.",
        "of-real-numbers": "The input is real, but the collectives move complex numbers, of 8 "
        "bytes each.",
        "of-the-box": "This is the size of the volume of real numbers. What is moved is complex, "
        "and by more than one collective.",
        "what-goes-in": "This is what each device contributes to the collectives. The report's "
        "`.bytes` count what it has afterwards.",
        "in-bytes": "This is in bytes. The prompt asks for a larger unit.",
        "other-prediction": "You can measure the first four: `communication(jnp.fft.fftn, "
        "volume)` and `jax.jit(jnp.fft.fftn)(volume).sharding`. For the large machine: which part "
        "of the volume does each collective bring to a device, and how large is a device's own "
        "block?",
    },
)

GRIDS: Final = ((("x", 4), ("y", 2)), (("x", 2), ("y", 2)))
"""The meshes on which pencils are judged."""

VOLUMES: Final = ((8, 12, 4), (6, 4, 10))
"""The shape of the volume in pencils, for each mesh of GRIDS."""

PENCILS: Final = ("0\n1\n\n2\n3\n\n4\n5\n\n6\n7", "0\n1\n\n2\n3")
"""The layout sharded along dimensions 0 and 1, on each mesh of GRIDS."""

TURNED_PENCILS: Final = ("0 1\n2 3\n4 5\n6 7", "0 1\n2 3")
"""The layout sharded along dimensions 1 and 2, on each mesh of GRIDS."""


def _pencils(dtype: str) -> tuple[tuple[Argument, ...], ...]:
    return tuple(
        (Argument(shape, axes, ("x", "y", None), dtype, mode="auto"),)
        for shape, axes in zip(VOLUMES, GRIDS, strict=True)
    )


def _shards(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the number of shards along each dimension of an argument of this shape."""
    if shape in VOLUMES:
        axes = GRIDS[VOLUMES.index(shape)]
        return axes[0][1], axes[1][1], 1
    return LINES[SLABS.index(shape)], 1, 1


def _shards_at_the_end(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the number of shards along each dimension after the all-to-alls."""
    first, second, _ = _shards(shape)
    return 1, first, second


def _transform_parts(x: Any, cuts: tuple[int, ...], *axes: int) -> Any:
    """Split a volume into parts along its dimensions, and transform each part by itself."""
    made = x.astype(np.complex64)
    lengths = [size // parts for size, parts in zip(x.shape, cuts, strict=True)]
    for start in np.ndindex(cuts):
        block = tuple(
            slice(i * length, (i + 1) * length) for i, length in zip(start, lengths, strict=True)
        )
        made[block] = np.fft.fftn(made[block], axes=axes)
    return made


def _apply_to_blocks(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to each device's block, in the layout of the argument."""
    first, second, _ = _shards(x.shape)
    rows = [np.split(strip, second, axis=1) for strip in np.split(x, first)]
    return np.concatenate([np.concatenate([function(b) for b in row], axis=1) for row in rows])


def _transform_blocks(x: Any) -> Any:
    """Transform each device's block by itself, in the layout of the argument."""
    return _transform_parts(x, _shards(x.shape), 0, 1, 2)


def _in_stages(
    cuts: Callable[[tuple[int, ...]], tuple[tuple[int, ...], ...]], *stages: tuple[int, ...]
) -> Callable[[Any], Any]:
    """Make the mistake of transforming along dimensions that are sharded at the time.

    Args:
        cuts: returns, for the shape of a volume, the numbers of shards along its dimensions before
            each all-to-all and after the last one.
        stages: the dimensions along which blocks are transformed at each of these times.
    """

    def mistaken(x: Any) -> Any:
        made = x.astype(np.complex64)
        for parts, axes in zip(cuts(x.shape), stages, strict=True):
            made = _transform_parts(made, parts, *axes) if axes else made
        return made

    return mistaken


def _slab_stages(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of shards of slabs before and after the all-to-all."""
    return _shards(shape), _shards_at_the_end(shape)


def _pencil_stages(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of shards of pencils before, between and after the two all-to-alls."""
    first, second, _ = _shards(shape)
    return (first, second, 1), (first, 1, second), (1, first, second)


def _other_stages(
    cuts: Callable[[tuple[int, ...]], tuple[tuple[int, ...], ...]], number: int
) -> Mistake:
    """Make all mistakes of transforming along any dimensions at each of `number` times."""
    some = [axes for size in range(4) for axes in combinations(range(3), size)]
    return Mistake(*(_in_stages(cuts, *stages) for stages in product(some, repeat=number)))


def _inverse_only_along(*axes: int) -> Callable[[Any], Any]:
    """Make the mistake of an inverse transform along some dimensions."""
    others = tuple(axis for axis in range(3) if axis not in axes)
    return lambda x: np.fft.ifftn(np.fft.fftn(x, axes=others), axes=axes)


def _transform_along(*axes: int) -> Callable[[Any], Any]:
    return lambda x: np.fft.fftn(x, axes=axes)


def _inverse_along(*axes: int) -> Callable[[Any], Any]:
    return lambda x: np.fft.ifftn(x, axes=axes)


def _inverse_without_factor(*axes: int) -> Callable[[Any], Any]:
    """Make the mistake of the wrong sign in the exponent: the inverse without its factor."""
    return lambda x: np.fft.ifftn(x, axes=axes, norm="forward")


def _other_transforms(*axes: int) -> dict[str, Mistake]:
    """Return the mistakes of transforming otherwise along some dimensions, or along one of them."""
    along_one = {
        f"inverse-along-{axis}": Mistake(
            _inverse_only_along(axis),
            says=f"Along dimension {axis} this is the inverse transform, and along the others the "
            f"transform.",
        )
        for axis in axes
    }
    return {
        "inverse": Mistake(_inverse_along(*axes), says="This is the inverse transform."),
        **(along_one if len(axes) > 1 else {}),
        "sign-turned": Mistake(
            _inverse_without_factor(*axes),
            says="The exponent has the wrong sign: this is the inverse transform without its "
            "factor.",
        ),
        "real-part-alone": Mistake(
            lambda x: np.fft.fftn(x.real, axes=axes),
            says="This is the transform of x.real. x is complex, and its imaginary part counts, "
            "too.",
        ),
    }


LOCAL: Final = Exercise(
    id="10.2",
    title="Along a dimension that is not sharded",
    afterwards="Before JAX 0.12, jnp.fft.fft under plain jit gathers the whole array here, though "
    "no device needs data from another (jax-ml/jax#15680). In a shard_map body this cannot happen.",
    requirements=(
        Computes(
            "fft_last",
            "fft_last(x) must be jnp.fft.fft(x), the transform along the last dimension.",
            lambda x: np.fft.fft(x),
            _pencils("complex64"),
            {
                "first-dimension": Mistake(
                    _transform_along(0),
                    says="This is the transform along dimension 0. Expected: the last.",
                ),
                "middle-dimension": Mistake(
                    _transform_along(1),
                    says="This is the transform along dimension 1. Expected: the last.",
                ),
                "part-of-dimension-0": Mistake(
                    lambda x: _transform_parts(x, _shards(x.shape), 0),
                    says="You transformed along dimension 0, of whose lines each device has only "
                    "pieces. Expected: the transform along the last dimension.",
                ),
                "part-of-dimension-1": Mistake(
                    lambda x: _transform_parts(x, _shards(x.shape), 1),
                    says="You transformed along dimension 1, of whose lines each device has only "
                    "pieces. Expected: the transform along the last dimension.",
                ),
                "part-of-dimension-2": Mistake(
                    lambda x: _transform_parts(x, _shards_at_the_end(x.shape), 2),
                    says="You transformed along dimension 2 while each device had only pieces of "
                    "its lines. Are in_specs the layout of x?",
                ),
                "part-of-another-too": Mistake(
                    lambda x: _transform_parts(x, _shards(x.shape), 1, 2),
                    lambda x: _transform_parts(x, _shards(x.shape), 0, 2),
                    says="You transformed along two dimensions: the last, and one of whose lines "
                    "each device has only pieces. Only the last is needed, and fft2 takes two.",
                ),
                "all-dimensions": Mistake(
                    _transform_along(0, 1, 2),
                    says="This is the transform along all three dimensions.",
                ),
                "shifted": Mistake(
                    lambda x: np.fft.fftshift(np.fft.fft(x), axes=2),
                    lambda x: _apply_to_blocks(x, lambda b: np.fft.fftshift(np.fft.fft(b))),
                    says="The transform is right, but fftshift has moved it. Keep the order in "
                    "which fft returns the coefficients.",
                ),
                "block-by-block": Mistake(
                    _transform_blocks,
                    says="Each device transforms its block along all dimensions. Its lines are "
                    "complete only along the last.",
                ),
                **_other_transforms(2),
                "half-of-the-waves": Mistake(
                    lambda x: np.fft.rfft(x.real),
                    says="This is the real transform of x.real: rfft leaves out the negative wave "
                    "numbers, and x.real leaves out the imaginary part.",
                ),
                "nothing-transformed": Mistake(lambda x: x, says="This is x, unchanged."),
            },
            under_mesh=True,
        ),
        PlacedLike("fft_last", PENCILS[0], VOLUMES, elsewhere=PENCILS[1:]),
        Requests("fft_last", ((), ())),
    ),
    hints=(
        "To transform its own pencils, does a device need anything that it does not have?",
        "In the body, apply jnp.fft.fft to the block.",
        "in_specs and out_specs are both the layout of x: P('x', 'y').",
    ),
    diagnoses={
        "no-shard-map": "Since JAX 0.12 the compiler leaves such a transform where it is, and "
        "before that it gathers everything. A shard_map body communicates nothing on any version.",
        "added-by-the-compiler": "Are in_specs and out_specs the layout of x?",
        "replicated": "In the end, each device must have its own pencils and no others.",
    },
    about=(Requests,),
)

SLABS: Final = ((64, 64, 4), (16, 16, 6))
"""The shape of the volume in slabs, for each line of LINES."""

TURNED_SLABS: Final = ("0\n1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3")
"""The layout sharded along dimension 1, for each line of LINES."""

SLAB: Final = Exercise(
    id="10.3",
    title="Slabs, one all-to-all",
    afterwards="In an all-to-all each of n devices sends (n - 1)/n of its block, however large n "
    "is. An all-gather brings n - 1 blocks to each of them.",
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
                "dimension-0-missing": Mistake(
                    _transform_along(1, 2),
                    says="The planes are transformed. The transform along dimension 0 is missing.",
                ),
                "dimension-1-missing": Mistake(
                    _transform_along(0, 2),
                    says="The transform along dimension 1 is missing. Do it while the lines along "
                    "that dimension are complete.",
                ),
                "dimension-2-missing": Mistake(
                    _transform_along(0, 1), says="The transform along dimension 2 is missing."
                ),
                "only-dimension-0": Mistake(
                    _transform_along(0), says="Only dimension 0 is transformed."
                ),
                "block-by-block": Mistake(
                    _transform_blocks,
                    says="Each slab is transformed by itself, along dimension 0, too, before the "
                    "pieces of these lines are put together.",
                ),
                "part-of-dimension-0": Mistake(
                    lambda x: np.fft.fft(_transform_blocks(x), axis=0),
                    says="You transformed along dimension 0 while each device had only pieces of "
                    "its lines, and once more when they were complete. fftn transforms along each "
                    "dimension once.",
                ),
                "part-of-dimension-1": Mistake(
                    lambda x: _transform_parts(x, _shards_at_the_end(x.shape), 0, 1, 2),
                    says="You transformed along dimension 1 while each device had only pieces of "
                    "its lines: the all-to-all shards it. When are they complete?",
                ),
                "dimension-1-again": Mistake(
                    _in_stages(_slab_stages, (1, 2), (1,)),
                    says="After the all-to-all you transformed along dimension 1 once more, of "
                    "whose lines each device then has only pieces. Which dimension is still to be "
                    "transformed?",
                ),
                "dimension-2-again": Mistake(
                    _in_stages(_slab_stages, (1, 2), (2,)),
                    says="After the all-to-all you transformed along dimension 2 once more: "
                    "jnp.fft.fft takes the last dimension unless `axis` names another. Which "
                    "dimension is still to be transformed?",
                ),
                "dimension-2-twice": Mistake(
                    lambda x: np.fft.fft(np.fft.fftn(x, axes=(0, 2)), axis=2),
                    says="Dimension 2 is transformed twice, and dimension 1 not at all.",
                ),
                "planes-too-late": Mistake(
                    _in_stages(_slab_stages, (0,), (1, 2)),
                    says="You transformed along dimension 0 before the all-to-all and along 1 "
                    "after it. Both times a device had only pieces of these lines: dimension 0 is "
                    "sharded first, and dimension 1 afterwards.",
                ),
                **_other_transforms(0, 1, 2),
                "inverse-in-the-planes": Mistake(
                    _inverse_only_along(1, 2),
                    says="Along dimensions 1 and 2 this is the inverse transform, and along "
                    "dimension 0 the transform.",
                ),
                "other-dimensions": Mistake(
                    _other_stages(_slab_stages, 2),
                    says="You transformed along a dimension without complete lines, or along one "
                    "of them twice. Before the all-to-all, lines are complete along dimensions 1 "
                    "and 2, and after it along 0 and 2. Transform along each dimension once, while "
                    "its lines are complete.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("slab_fft", TURNED_SLABS[0], SLABS, elsewhere=TURNED_SLABS[1:]),
        Requests(
            "slab_fft",
            tuple(
                (
                    RequestedCollective(
                        "all-to-all", 1, ("x",), COMPLEX_BYTES * int(np.prod(shape)) // n
                    ),
                )
                for n, shape in zip(LINES, SLABS, strict=True)
            ),
        ),
    ),
    hints=(
        "A transform in three dimensions is three transforms in one dimension each, in any order. "
        "Which two can a device do at once, with what it has?",
        "After these two, lax.all_to_all(a, 'x', split_axis=1, concat_axis=0, tiled=True) gives "
        "each device complete lines along dimension 0, for its part of dimension 1.",
        "Then transform along dimension 0. out_specs is P(None, 'x').",
    ),
    diagnoses={
        "shape": "A block of the result has all of dimension 0 and a part of dimension 1. Are "
        "split_axis, concat_axis and out_specs right?",
        "too-often": "After one all-to-all every device has everything that it still needs.",
        "one-too-many": "After one all-to-all every device has everything that it still needs. Do "
        "you move the result back? It may stay where it is.",
        "in-pieces": "Do you exchange the real and imaginary parts, or slices of the block, one "
        "by one? One all-to-all can move a block of complex numbers.",
        "explicit all-gather": "No device needs everything. It needs a piece of each other "
        "device's slab.",
        "no all-to-all": "Each device needs a piece of what each other device has. Which "
        "collective does that?",
        "no-shard-map": "If you leave the transform to the compiler, it gathers the whole array.",
        "added-by-the-compiler": "Are in_specs the layout of x, and out_specs that of the result?",
    },
    about=(Requests,),
)


def _each_pencil(*axes: str) -> tuple[tuple[RequestedCollective, ...], ...]:
    """Return, for each mesh, an all-to-all of one block for each of these axes."""
    return tuple(
        tuple(
            RequestedCollective(
                "all-to-all", axes.count(axis), (axis,), COMPLEX_BYTES * _block(shape)
            )
            for axis in dict.fromkeys(axes)
        )
        for shape in VOLUMES
    )


def _block(shape: tuple[int, ...]) -> int:
    """Return the number of elements in a device's block."""
    return int(np.prod(shape)) // int(np.prod(_shards(shape)))


PENCIL: Final = Exercise(
    id="10.4",
    title="Pencils, two all-to-alls",
    afterwards="A volume of n × n × n makes at most n slabs, but n × n pencils. That is why the "
    "largest simulations use pencils.",
    requirements=(
        Computes(
            "pencil_fft",
            "pencil_fft(x) must be jnp.fft.fftn(x).",
            lambda x: np.fft.fftn(x),
            _pencils("complex64"),
            {
                "dimension-0-missing": Mistake(
                    _transform_along(1, 2),
                    says="The transform along dimension 0 is missing. Its lines are complete after "
                    "the last all-to-all.",
                ),
                "dimension-1-missing": Mistake(
                    _transform_along(0, 2),
                    says="The transform along dimension 1 is missing. Its lines are complete "
                    "between the all-to-alls.",
                ),
                "dimension-2-missing": Mistake(
                    _transform_along(0, 1), says="The transform along dimension 2 is missing."
                ),
                "only-dimension-2": Mistake(
                    _transform_along(2), says="Only dimension 2 is transformed."
                ),
                "block-by-block": Mistake(
                    _transform_blocks,
                    says="Each block is transformed by itself, before the pieces of its lines are "
                    "put together.",
                ),
                "part-of-dimension-1": Mistake(
                    lambda x: np.fft.fft(_transform_parts(x, _shards(x.shape), 1, 2), axis=0),
                    says="You transformed along dimension 1 while each device had only pieces of "
                    "its lines. They are complete between the two all-to-alls.",
                ),
                "parts-of-dimensions-1-and-2": Mistake(
                    lambda x: _transform_parts(x, _shards_at_the_end(x.shape), 0, 1, 2),
                    says="You transformed along dimensions 1 and 2 while each device had only "
                    "pieces of their lines. After both all-to-alls, only the lines along dimension "
                    "0 are complete.",
                ),
                "part-of-dimension-1-at-the-end": Mistake(
                    _in_stages(_pencil_stages, (2,), (), (0, 1)),
                    says="You transformed along dimension 1 after both all-to-alls, when each "
                    "device has only pieces of its lines again.",
                ),
                "part-of-dimension-2": Mistake(
                    _in_stages(_pencil_stages, (), (1, 2), (0,)),
                    says="You transformed along dimension 2 after the first all-to-all, when each "
                    "device has only pieces of its lines.",
                ),
                "dimension-0-first": Mistake(
                    _in_stages(_pencil_stages, (0,), (1,), (0,)),
                    says="Before the first all-to-all you transformed along dimension 0, of whose "
                    "lines each device has only pieces. Which lines are complete there?",
                ),
                "dimension-1-first": Mistake(
                    _in_stages(_pencil_stages, (1,), (1,), (0,)),
                    says="Before the first all-to-all you transformed along dimension 1, of whose "
                    "lines each device has only pieces. Which lines are complete there?",
                ),
                "dimension-0-between": Mistake(
                    _in_stages(_pencil_stages, (2,), (0,), (0,)),
                    says="Between the all-to-alls you transformed along dimension 0, of whose "
                    "lines each device has only pieces. Which lines has the first all-to-all "
                    "completed?",
                ),
                "dimension-2-between": Mistake(
                    _in_stages(_pencil_stages, (2,), (2,), (0,)),
                    says="Between the all-to-alls you transformed along dimension 2, of whose "
                    "lines each device has only pieces there. Which lines has the first all-to-all "
                    "completed?",
                ),
                "dimensions-exchanged": Mistake(
                    _in_stages(_pencil_stages, (2,), (0,), (1,)),
                    says="You transformed along dimension 0 between the all-to-alls and along 1 "
                    "after them, each while a device had only pieces of its lines. Which lines are "
                    "complete when?",
                ),
                "dimension-1-last": Mistake(
                    _in_stages(_pencil_stages, (2,), (1,), (1,)),
                    says="After the second all-to-all you transformed along dimension 1, of whose "
                    "lines each device has only pieces there. Which lines has that all-to-all "
                    "completed?",
                ),
                "dimension-2-last": Mistake(
                    _in_stages(_pencil_stages, (2,), (1,), (2,)),
                    says="After the second all-to-all you transformed along dimension 2, of whose "
                    "lines each device has only pieces there. Which lines has that all-to-all "
                    "completed?",
                ),
                "dimension-2-always": Mistake(
                    _in_stages(_pencil_stages, (2,), (2,), (2,)),
                    says="All three times you transformed along dimension 2: jnp.fft.fft takes the "
                    "last dimension unless `axis` names another. Which lines are complete each "
                    "time?",
                ),
                **_other_transforms(0, 1, 2),
                "other-dimensions": Mistake(
                    _other_stages(_pencil_stages, 3),
                    says="You transformed along a dimension without complete lines, or along one "
                    "of them twice. Lines are complete along dimension 2 before the all-to-alls, "
                    "along 1 between them, and along 0 after them. Transform along each dimension "
                    "once, while its lines are complete.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("pencil_fft", TURNED_PENCILS[0], VOLUMES, elsewhere=TURNED_PENCILS[1:]),
        Requests("pencil_fft", _each_pencil("y", "x")),
    ),
    hints=(
        "Write down, after each step, which axis shards which dimension. It begins with x, y, "
        "none; the picture is none, x, y.",
        "One all-to-all over y completes the lines along dimension 1 and shards dimension 2. What "
        "does one over x do next?",
        "Transform along 2; `lax.all_to_all(a, 'y', 2, 1, tiled=True)`; transform along 1; then "
        "the same over x, with split 1 and concat 0; and transform along 0.",
    ),
    diagnoses={
        "split-over-several-axes": "Use two all-to-alls, each over one axis of the mesh. Which "
        "axis shards the dimension that you need next?",
        "split-does-not-divide": "Which dimension is not sharded at that time, so that the "
        "all-to-all can split it?",
        "error-of-xla": "This exercise needs all-to-alls, and no all-gather.",
        "shape": "y shards dimension 1, and x shards dimension 0. Is each put together "
        "(concat_axis) by an all-to-all over its own axis? And are out_specs the layout in the "
        "end?",
        "one-too-many": "One all-to-all over each axis is enough. Do you move the result back? It "
        "may stay where it is.",
        "too-often": "One all-to-all over each axis is enough.",
        "one-missing": "Each axis shards a dimension, and an all-to-all over that axis completes "
        "its lines.",
        "transposed": "The result is sharded along other dimensions than in the picture, or over "
        "other axes. Which dimension does the all-to-all over x shard, and which one the "
        "all-to-all over y?",
        "explicit all-gather": "An all-to-all over one axis brings a device everything that it "
        "needs next.",
        "no all-to-all": "Each device needs a piece of what each other device of its group has. "
        "Which collective does that?",
        "no-shard-map": "If you leave the transform to the compiler, it gathers the whole array.",
        "added-by-the-compiler": "Are in_specs the layout of x, and out_specs that of the result?",
    },
    about=(Requests,),
)


def _wave_numbers(n: int) -> Any:
    """Return the wave numbers of a transform of n points."""
    return np.rint(np.fft.fftfreq(n) * n)


HUGE: Final = 1e30
"""Larger than all values of a program that does not divide by zero."""


def _poisson(
    f: Any,
    numbers: Callable[[int], Any] = _wave_numbers,
    power: float = 1,
    mean: float = 0,
    sign: float = 1,
    own: bool = True,
    blocks: bool = False,
    exponent: int = 2,
    corners: Sequence[int] = (),
    back: Callable[[Any], Any] = np.fft.ifftn,
    added: float = 0,
    divided: bool = True,
    without: int = 3,
    whole: int = 1,
    any_zero: bool = False,
    zero_along: int = 3,
) -> Any:
    """Solve Poisson's equation in a periodic box; each option makes a mistake.

    Args:
        f: the right side.
        numbers: returns the wave numbers of a dimension of this size.
        power: divide by this power of the sum of squares.
        mean: the factor of the mean of f.
        sign: the factor of all other coefficients.
        own: whether each device uses its own wave numbers, or all devices the first ones.
        blocks: whether each device uses the wave numbers of a transform of its block's size.
        exponent: the exponent of each wave number in the sum.
        corners: the dimensions along which each device sets its first coefficient to zero; along
            the others, only the first device does.
        back: the transform on the way back.
        added: a small number that is added to each sum of squares.
        divided: whether the coefficients are divided at all.
        without: the dimension whose wave numbers are left out of the sum.
        whole: the exponent of the whole sum.
        any_zero: whether a coefficient becomes zero if any of its wave numbers is zero.
        zero_along: the dimension along which a wave number of zero makes a coefficient zero.
    """
    k = [numbers(n) * (d != without) for d, n in enumerate(f.shape)]
    if not own:
        parts = _shards(f.shape)
        k = [k[0], np.tile(np.split(k[1], parts[0])[0], parts[0]),
             np.tile(np.split(k[2], parts[1])[0], parts[1])]  # fmt: skip
    lengths = [n // parts for n, parts in zip(f.shape, _shards_at_the_end(f.shape), strict=True)]
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
    if zero_along < len(k):
        np.moveaxis(factors, zero_along, 0)[k[zero_along] == 0] = 0
    if corners:
        first = (slice(0, None, size if d in corners else None) for d, size in enumerate(lengths))
        factors[*(each if each.step else slice(1) for each in first)] = 0
    return back(np.fft.fftn(f.astype(np.float64)) * factors).real.astype(np.float32)


def _there_and_back(
    f: Any,
    there: Sequence[tuple[int, ...]] = ((2,), (1,), (0,)),
    back: Sequence[tuple[int, ...]] = ((0,), (1,), (2,)),
) -> Any:
    """Solve Poisson's equation, transforming blocks along the given dimensions at each time.

    Args:
        f: the right side.
        there: the dimensions before, between and after the all-to-alls on the way there.
        back: the same on the way back.
    """
    cuts = _pencil_stages(f.shape)
    waves = f.astype(np.complex64)
    for parts, axes in zip(cuts, there, strict=True):
        waves = _transform_parts(waves, parts, *axes) if axes else waves
    k = [_wave_numbers(n) for n in f.shape]
    sums = k[0][:, None, None] ** 2 + k[1][:, None] ** 2 + k[2] ** 2
    waves = np.where(sums == 0, 0, waves / np.where(sums == 0, 1, sums))
    for parts, axes in zip(cuts[::-1], back, strict=True):
        if axes:  # an inverse is the conjugate of the conjugate's transform, divided by its points
            points = np.prod([f.shape[axis] // parts[axis] for axis in axes])
            waves = np.conj(_transform_parts(np.conj(waves), parts, *axes)) / points
    return waves.real.astype(np.float32)


def _other_stages_there_or_back() -> Mistake:
    """Make all mistakes of transforming along other dimensions, on the way there or back."""
    some = [axes for size in range(4) for axes in combinations(range(3), size)]
    stages = [*product(some, repeat=3)]
    return Mistake(
        *(partial(_there_and_back, there=each) for each in stages),
        *(partial(_there_and_back, back=each) for each in stages),
    )


def _without_own_mean(f: Any, first: bool) -> Any:
    """Solve with each device subtracting the mean of its own block, of f or of u."""
    kept = _poisson(_less_its_mean(f) if first else f, mean=1)
    return kept if first else _less_its_mean(kept)


def _less_its_mean(u: Any) -> Any:
    made, (first, second, _) = u.copy(), _shards(u.shape)
    for rows in np.split(made, first):
        for block in np.split(rows, second, axis=1):
            block -= block.mean()
    return made


def _of_real_waves(f: Any) -> Any:
    """Solve with the real parts of the coefficients, which are those of f and its mirror image."""
    mirrored = f[np.ix_(*(-np.arange(n) % n for n in f.shape))]
    return _poisson((f + mirrored) / 2)


def _there_again_along(dimension: int, waves: Any) -> Any:
    """Transform back, but along one dimension by the transform instead of its inverse."""
    others = [axis for axis in range(3) if axis != dimension]
    return np.fft.ifftn(np.fft.fft(waves, axis=dimension), axes=others)


POISSON: Final = Exercise(
    id="10.5",
    title="Poisson's equation",
    afterwards="Everything that is pointwise in Fourier space (derivatives, filters, "
    "convolutions) can be done in the layout in which the transform ends. That saves half of the "
    "all-to-alls.",
    requirements=(
        Computes(
            "poisson",
            "poisson(f) must be the solution u of -(u_00 + u_11 + u_22) = f of mean zero, in a "
            "periodic box of side 2π.",
            lambda f: _poisson(f),
            _pencils("float32"),
            {
                "other-sign": Mistake(
                    lambda f: _poisson(f, sign=-1),
                    says="The sign is wrong. A second derivative multiplies a wave by minus the "
                    "square of its number, and the equation has a minus, too.",
                ),
                "mean-kept": Mistake(
                    lambda f: _poisson(f, mean=1),
                    says="u has the mean of f. Its mean must be zero.",
                ),
                "no-negative-waves": Mistake(
                    lambda f: _poisson(f, np.arange),
                    says="The second half of the wave numbers is negative: n - 1 stands for -1. "
                    "`wave_numbers` returns them this way.",
                ),
                "fractions-for-numbers": Mistake(
                    lambda f: _poisson(f, np.fft.fftfreq),
                    says="These are fftfreq's fractions. Multiplied by n, they are wave numbers.",
                ),
                "turns-for-numbers": Mistake(
                    lambda f: _poisson(f, lambda n: 2 * np.pi * np.fft.fftfreq(n)),
                    says="The wave numbers of a box of side 2π are integers: fftfreq(n) times n.",
                ),
                "with-2-pi": Mistake(
                    lambda f: _poisson(f, lambda n: 2 * np.pi * _wave_numbers(n)),
                    says="This is the solution in a box of side 1. Here the side is 2π, and the "
                    "wave numbers are integers.",
                ),
                "not-squared": Mistake(
                    lambda f: _poisson(f, power=0.5),
                    says="You divide by the root of the sum of squares. Expected: the sum itself.",
                ),
                "multiplied": Mistake(
                    lambda f: _poisson(f, power=-1),
                    says="The coefficients are multiplied by the squares of their wave numbers. "
                    "This is the equation itself; what solves it?",
                ),
                "others-numbers": Mistake(
                    lambda f: _poisson(f, own=False),
                    says="All devices divide by the first wave numbers, but their coefficients "
                    "have others. Which part of each dimension does a device have after the "
                    "all-to-alls?",
                ),
                "numbers-of-the-block": Mistake(
                    lambda f: _poisson(f, blocks=True),
                    says="The wave numbers are those of a block, as if there were no others. They "
                    "follow from the size of the whole volume.",
                ),
                "sum-of-numbers": Mistake(
                    lambda f: _poisson(f, exponent=1),
                    says="You divide by the sum of the wave numbers. Expected: the sum of their "
                    "squares.",
                ),
                "sum-of-sizes": Mistake(
                    lambda f: _poisson(f, lambda n: np.abs(_wave_numbers(n)), exponent=1),
                    says="You divide by the sum of the absolute wave numbers. Expected: the sum of "
                    "their squares.",
                ),
                "two-directions": Mistake(
                    *(partial(_poisson, without=d) for d in range(3)),
                    says="The sum of squares lacks the wave numbers of one dimension. The equation "
                    "has three derivatives.",
                ),
                "every-corner": Mistake(
                    lambda f: _poisson(f, corners=(1, 2)),
                    says="Each device sets its first coefficient to zero. The coefficient with "
                    "wave number zero is on only one device.",
                ),
                "some-corners": Mistake(
                    *(partial(_poisson, corners=(d,)) for d in (1, 2)),
                    says="All devices that are first along one axis of the mesh set their first "
                    "coefficient to zero. Only the device that is first along both has the one "
                    "with wave number zero.",
                ),
                "there-again": Mistake(
                    lambda f: _poisson(f, back=np.fft.fftn),
                    says="The way back is a transform like the way there. Expected: its inverse.",
                ),
                "not-divided": Mistake(
                    partial(_poisson, divided=False),
                    says="This is f, there and back: the coefficients are not divided.",
                ),
                "back-without-1": Mistake(
                    partial(_poisson, back=partial(np.fft.ifftn, axes=(0, 2))),
                    says="On the way back, the inverse along dimension 1 is missing.",
                ),
                "back-without-2": Mistake(
                    partial(_poisson, back=partial(np.fft.ifftn, axes=(0, 1))),
                    says="On the way back, the inverse along dimension 2 is missing.",
                ),
                "real-too-soon": Mistake(
                    partial(
                        _poisson,
                        back=lambda waves: np.fft.ifftn(
                            np.fft.ifft(waves, axis=0).real, axes=(1, 2)
                        ),
                    ),
                    says="The real part is taken after the first inverse. The numbers are complex "
                    "until the last inverse is done.",
                ),
                "there-again-along-one": Mistake(
                    *(partial(_poisson, back=partial(_there_again_along, d)) for d in range(3)),
                    says="On the way back, one dimension has the transform once more. Expected: "
                    "its inverse.",
                ),
                "square-of-the-sum": Mistake(
                    partial(_poisson, exponent=1, whole=2),
                    says="You divide by the square of the sum of the wave numbers. Expected: the "
                    "sum of their squares.",
                ),
                "any-number-zero": Mistake(
                    partial(_poisson, any_zero=True),
                    says="Every coefficient with wave number zero along some dimension became "
                    "zero. Only the one with zero along all three is the mean.",
                ),
                "imaginary-part": Mistake(
                    partial(_poisson, back=lambda waves: -1j * np.fft.ifftn(waves)),
                    says="The values are zero up to rounding. Is this the imaginary part? f is "
                    "real, so u is the real part.",
                ),
                "one-number-zero": Mistake(
                    *(partial(_poisson, zero_along=d) for d in range(3)),
                    says="Every coefficient with wave number zero along one dimension became "
                    "zero. Only the one with zero along all three is the mean.",
                ),
                "differences": Mistake(
                    partial(_poisson, numbers=lambda n: 2 * np.sin(np.pi * np.fft.fftfreq(n))),
                    partial(
                        _poisson,
                        numbers=lambda n: n / np.pi * np.sin(np.pi * np.fft.fftfreq(n)),
                    ),
                    says="You divide by what a second difference of neighbours does to a wave. "
                    "Expected: what the second derivative does to it.",
                ),
                "squared-again": Mistake(
                    partial(_poisson, power=2),
                    says="You divide by the square of the sum of squares. Expected: the sum "
                    "itself.",
                ),
                "numbers-shifted": Mistake(
                    partial(_poisson, numbers=lambda n: np.abs(np.arange(n) - n // 2)),
                    partial(_poisson, numbers=lambda n: np.fft.fftshift(_wave_numbers(n))),
                    says="The wave numbers are in another order than the coefficients: number 0 "
                    "comes first, and the second half is negative. `wave_numbers` returns them "
                    "this way.",
                ),
                "mean-of-the-block": Mistake(
                    partial(_without_own_mean, first=True),
                    partial(_without_own_mean, first=False),
                    says="Each device subtracts the mean of its own block. The mean of the whole "
                    "volume is the coefficient with wave number zero.",
                ),
                "real-waves": Mistake(
                    _of_real_waves,
                    says="The imaginary parts of the coefficients are dropped. Only the result is "
                    "real.",
                ),
                "other-dimensions": Mistake(
                    _other_stages_there_or_back(),
                    says="On the way there or back, you transformed along a dimension without "
                    "complete lines, or left one out. On the way there the order is 2, 1, 0, with "
                    "an all-to-all before 1 and before 0; on the way back it is 0, 1, 2.",
                ),
                "divided-by-almost-zero": Mistake(
                    *(partial(_poisson, added=10.0**-digits) for digits in range(2, 16)),
                    says="A small number is added to the sum of squares, so the coefficient with "
                    "wave number zero is divided by almost zero and dominates all others. What "
                    "must this coefficient be if u has mean zero?",
                ),
            },
            patterns={
                "divided-by-zero": Mistake(
                    lambda inputs, u: bool(HUGE < np.max(np.abs(u)) < np.inf),
                    says="The values are almost as large as float32 allows. Is the coefficient "
                    "with wave number zero divided by zero, and the infinity replaced by a large "
                    "number, as by nan_to_num? That coefficient has to be zero.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("poisson", PENCILS[0], VOLUMES, elsewhere=PENCILS[1:]),
        Requests("poisson", _each_pencil("y", "x", "x", "y")),
    ),
    hints=(
        "Two all-to-alls on the way there, as in 10.4, and two on the way back. The division in "
        "between treats each coefficient by itself, wherever it is.",
        "In between, dimension 0 is not sharded, x shards dimension 1 and y dimension 2, and each "
        "device needs the wave numbers of its part. Pass them to the shard_map as vectors with "
        "in_specs P('x') or P('y'), and the body gets the right parts.",
        "Back: the inverse transform along 0, `lax.all_to_all(a, 'x', 0, 1, tiled=True)`, the "
        "inverse along 1, the same over y with 1 and 2, the inverse along 2, and .real. For the "
        "coefficient with wave number zero, divide by 1 and multiply by 0 (jnp.where).",
    ),
    diagnoses={
        "shapes-do-not-fit": "Between the way there and the way back, the layout is P(None, 'x', "
        "'y'). A vector of wave numbers must be as long as its dimension, and sharded in the same "
        "way.",
        "not-finite": "The coefficient with wave number zero is divided by zero.",
        "dtype": "u is real, in float32. An inverse transform returns complex numbers. Does the "
        "body return their real part?",
        "too-often": "Do you move the transform back to the layout of f in between? The division "
        "can be done where the coefficients are.",
        "one-too-many": "Two all-to-alls over each axis are enough.",
        "too-seldom": "There and back takes two all-to-alls over each axis.",
        "no all-to-all": "The transform of a sharded volume needs explicit collectives, as in "
        "10.4.",
        "no-shard-map": "If you leave the transform to the compiler, it gathers the whole array.",
    },
    about=(Requests,),
)

STEPS: Final = 12

SYSTEMS: Final = {8: (64, 10.0), 4: (48, 1000.0)}
"""For each line: the size of a system and its condition number."""


def _cg(
    A: Any,
    b: Any,
    steps: int = STEPS,
    from_b: bool = False,
    follows: Callable[[Any, Any], Any] = lambda new, old: new / old,
    gives: int = 0,
) -> Any:
    """Do steps of conjugate gradients in double precision.

    Args:
        A: the matrix.
        b: the right side.
        steps: the number of steps.
        from_b: whether to start from b instead of zeros.
        follows: returns the factor of the last direction, from the new and the old square.
        gives: what to return: 0 for x, 1 for the residual, 2 for the next direction.
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


def _cg_with(slip: str, A: Any, b: Any) -> Any:
    """Do steps of conjugate gradients with a mistake, in double precision.

    Args:
        slip: "grows": the residual's update is added, not subtracted; "product": A is multiplied by
            the residual; "along": x moves along the residual; "kept": a multiple of the residual
            replaces that of the last direction; "stale": every step uses the first square; "roots":
            every inner product has its root taken; "length": the step is divided by direction @
            direction; "whole": the last direction has the factor 1; "itself": the direction is
            subtracted from the residual.
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
    A: Any,
    b: Any,
    own: str = "",
    averaged: str = "",
    own_block: bool = False,
    early: bool = False,
) -> Any:
    """Do steps of conjugate gradients with a mistake in the sums over devices.

    Args:
        A: the matrix.
        b: the right side.
        own: the inner products that each device computes from its own part only, separated by
            spaces: "first" (the square before the first step), "product" (direction @ A @
            direction) and "square".
        averaged: the inner products that are averaged over the devices, in the same way.
        own_block: whether A @ direction uses only a device's own square block of A.
        early: whether x moves along the next direction in each step.
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
    afterwards="On many devices the two all-reduces can cost more than everything else, because "
    "all devices wait for them. Some variants have only one all-reduce in a step, and some "
    "overlap it with the matrix-vector product.",
    requirements=(
        Computes(
            "cg",
            f"cg(A, b) must be the x of {STEPS} steps of conjugate gradients from zeros.",
            lambda A, b: _cg(A, b),
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
                "once-too-often": Mistake(
                    lambda A, b: _cg(A, b, STEPS + 1), says=f"This is the x of {STEPS + 1} steps."
                ),
                "once-too-seldom": Mistake(
                    lambda A, b: _cg(A, b, STEPS - 1), says=f"This is the x of {STEPS - 1} steps."
                ),
                "from-b": Mistake(
                    lambda A, b: _cg(A, b, from_b=True), says="It starts from b. Expected: zeros."
                ),
                "steepest-descent": Mistake(
                    lambda A, b: _cg(A, b, follows=lambda new, old: 0),
                    says="Each direction is the residual alone, which is steepest descent. Some of "
                    "the last direction must be added.",
                ),
                "ratio-turned": Mistake(
                    lambda A, b: _cg(A, b, follows=lambda new, old: old / new),
                    says="The factor of the last direction is upside down. Expected: the new "
                    "square divided by the old one.",
                ),
                "away-from-it": Mistake(
                    lambda A, b: _cg(A, b, follows=lambda new, old: -new / old),
                    says="A multiple of the last direction is subtracted. Expected: added.",
                ),
                "solved-outright": Mistake(
                    lambda A, b: np.linalg.solve(A, b),
                    says=f"This is the solution itself. Expected: the x of {STEPS} steps from "
                    f"zeros.",
                ),
                "the-residual": Mistake(
                    lambda A, b: _cg(A, b, gives=1), says="This is the residual, not x."
                ),
                "the-direction": Mistake(
                    lambda A, b: _cg(A, b, gives=2), says="This is the next direction, not x."
                ),
                "first-square-of-its-own": Mistake(
                    partial(_cg_by_devices, own="first"),
                    says="Before the first step, each device uses its own square. There, too, "
                    "residual @ residual must be added up over the devices.",
                ),
                "own-sums": Mistake(
                    *(
                        partial(_cg_by_devices, own=own)
                        for own in ("product", "square", "first square")
                    ),
                    says="In some inner product, each device uses the sum over its own part. "
                    "Expected: the sum over all devices, in each step.",
                ),
                "averaged": Mistake(
                    *(
                        partial(_cg_by_devices, averaged=averaged)
                        for averaged in (
                            "first",
                            "product",
                            "square",
                            "first square",
                            "product square",
                        )
                    ),
                    says="One inner product is an average over the devices (pmean), and another "
                    "one is a sum. Each must be a sum.",
                ),
                "own-block-of-A": Mistake(
                    partial(_cg_by_devices, own_block=True),
                    says="Each device multiplies its own part of direction by a square block of A. "
                    "Its rows of the product need all of direction.",
                ),
                "next-direction": Mistake(
                    partial(_cg_by_devices, early=True),
                    says="x moves along the next direction. Move it along the direction for which "
                    "the step was computed, before that changes.",
                ),
                "residual-grows": Mistake(
                    partial(_cg_with, "grows"),
                    says="The multiple of A @ direction is added to the residual. Expected: "
                    "subtracted.",
                ),
                "product-of-the-residual": Mistake(
                    partial(_cg_with, "product"),
                    says="A is multiplied by the residual. Expected: A @ direction.",
                ),
                "along-the-residual": Mistake(
                    partial(_cg_with, "along"),
                    says="x moves along the residual. Expected: along direction.",
                ),
                "residual-kept": Mistake(
                    partial(_cg_with, "kept"),
                    says="The next direction is the residual plus a multiple of the residual. "
                    "Expected: plus a multiple of the last direction.",
                ),
                "square-not-renewed": Mistake(
                    partial(_cg_with, "stale"),
                    says="Every step uses the square of the first residual. It must be that of the "
                    "step before. Do you carry the new one?",
                ),
                "roots": Mistake(
                    partial(_cg_with, "roots"),
                    says="You take the root of the inner products. Use them as they are.",
                ),
                "divided-by-the-direction": Mistake(
                    partial(_cg_with, "length"),
                    says="The length of a step is divided by direction @ direction. Expected: by "
                    "direction @ A @ direction.",
                ),
                "all-of-the-last-direction": Mistake(
                    partial(_cg_with, "whole"),
                    says="The last direction is added unscaled. Expected: multiplied by the new "
                    "square divided by the old one.",
                ),
                "direction-taken-off": Mistake(
                    partial(_cg_with, "itself"),
                    says="A multiple of direction is subtracted from the residual. Expected: a "
                    "multiple of A @ direction.",
                ),
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
            # the last step needs only one number of its product
            at_least={"all-gather": STEPS - 1, "all-reduce": 1},
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
        "All vectors stay sharded as b is. Where does a step need more than a device's own part?",
        "A @ direction for a device's rows needs all of direction: `lax.all_gather(direction, "
        "'x', tiled=True)`. An inner product is a sum over all devices: `lax.psum(jnp.dot(u, v), "
        "'x')`.",
        "Use lax.fori_loop, and carry x, the residual, the direction and the square of the "
        "residual. jnp.zeros_like(b) is a vector of zeros that varies from device to device as b "
        "does. One made from nothing, jnp.zeros(b.shape), is the same on all devices.",
    ),
    diagnoses={
        "not-finite": "A step divides by direction @ A @ direction, and by the square of the "
        "residual before it. Is one of them zero? The first direction is b.",
        "too-seldom": "Each step multiplies A by a new direction. Do you gather one before the "
        "loop? It is out of date after the first step.",
        "values": "Is each inner product a sum over all devices, two in each step and one before "
        "the first? Is A times a vector none? When x moves along the direction, what does that "
        "subtract from the residual?",
        "blocks-do-not-fit": "A device's rows of A are as long as the whole vector. Does the body "
        "have all of it there, as a vector?",
        "not-replicated": "A value that must be the same on every device has to come from an "
        "all-reduce.",
        "too-many-bytes": "In a step, only direction is gathered, and two single numbers are "
        "added up. The square of a residual is known from the step before, and can be carried. A, "
        "and whatever does not change from step to step, need not be gathered in the loop. And a "
        "device's rows of A @ direction need no all-reduce.",
        "no all-gather": "A device's rows of A need all of direction.",
        "no all-reduce": "An inner product is a sum over all devices.",
        "no-shard-map": "Left to the compiler, it may be cheap or not. Here you decide.",
        "unknown-times": "Do a fixed number of steps, with lax.fori_loop, lax.scan or Python's "
        "for.",
    },
    about=(Requests, CommunicatesAtMost),
    together=True,
)

ROWS: Final = ("\n".join(map(str, range(8))), "\n".join(map(str, range(4))))

FACTORED: Final = {8: (32, 10.0), 4: (24, 1000.0)}
"""For each line: the size of a matrix to factorise, and its condition number, roughly."""

SOLVED: Final = {8: 10.0, 4: 3.0}
"""The condition number of factors to solve with: small, or the numbers of L would be, too."""


def _factored(
    A: Any,
    below: float = 1,
    rows: int = 0,
    steps: int | None = None,
    itself: bool = False,
    above: float | None = None,
) -> Any:
    """Factorise a matrix into L and U in one array, in double precision; options make mistakes.

    Args:
        A: the matrix.
        below: the factor of the numbers of L in the result.
        rows: If not 0, factorise each block of this many rows by itself.
        steps: Stop after this many steps, as the end of a slice.
        itself: whether row k is subtracted from itself, too.
        above: If not None, rows above row k change, too, and this is the factor of their multiples
            in the result.
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
    """Return the number of devices for a matrix of this size."""
    return next(devices for devices, (size, _) in FACTORED.items() if size == n)


def _rows_of(n: int) -> int:
    """Return the number of rows on a device for a matrix of this size."""
    return n // _devices_of(n)


def _masked_by_place(A: Any, in_turn: bool) -> Any:
    """Factorise with the right row broadcast, but masks that use positions in a device's block.

    Args:
        A: the matrix.
        in_turn: whether positions are compared with that of row k in its block, or with k itself.
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


def _triangles_of_blocks(factors: Any, triangle: Callable[[Any], Any]) -> Any:
    """Keep only a triangle of each device's block."""
    blocks = np.split(factors, _devices_of(len(factors)))
    return np.concatenate([triangle(block) for block in blocks])


def _stored_undivided(A: Any) -> Any:
    """Factorise, but keep the numbers below the diagonal undivided in the result."""
    factors = _factored(A).astype(np.float64)
    below = np.tril(factors, -1) * np.diag(factors)
    return (np.triu(factors) + below).astype(np.float32)


def _never_divided(A: Any) -> Any:
    """Factorise with multiples that are not divided by the number on the diagonal."""
    made = A.astype(np.float64)
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made.astype(np.float32)


def _factored_in_all_columns(A: Any) -> Any:
    """Factorise with each step changing all columns but its own."""
    made = A.astype(np.float64)
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            multiples = made[k + 1 :, k] / made[k, k]
            made[k + 1 :] -= np.outer(multiples, made[k])
            made[k + 1 :, k] = multiples
    return made.astype(np.float32)


def _by_own_pivots(A: Any) -> Any:
    """Factorise with each device dividing by the number in column k of one of its own rows."""
    made = A.astype(np.float64)
    rows = _rows_of(len(A))
    first = np.arange(len(A)) // rows * rows
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            row, pivots = made[k].copy(), made[first + k % rows, k]
            made[k + 1 :, k] /= pivots[k + 1 :]
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], row[k + 1 :])
    return made.astype(np.float32)


def _begins_by_own_pivots(inputs: Sequence[Any], made: Any) -> bool:
    """Check the first two columns alone: without a pivot, rounding errors soon fill the others."""
    (A,) = inputs  # noqa: N806
    columns = _by_own_pivots(A)[:, :2]
    return made.shape == A.shape and np.allclose(made[:, :2], columns, rtol=0.01, atol=0.001)


def _all_at_once(A: Any) -> Any:
    """Factorise with each device numbering its rows from 0, so that all broadcast in step k."""
    made = A.astype(np.float64).reshape(-1, _rows_of(len(A)), len(A))
    for k in range(made.shape[1]):
        row = made[:, k].sum(0)
        made[:, k + 1 :, k] /= row[k]
        made[:, k + 1 :, k + 1 :] -= made[:, k + 1 :, k, None] * row[k + 1 :]
    return made.reshape(A.shape).astype(np.float32)


def _with_multiples(
    A: Any,
    multiples: Callable[[Any, Any, int], Any],
    row: Callable[[Any, int], Any] = lambda made, k: made[k],
) -> Any:
    """Factorise with a mistake in the multiples, or in the row that is broadcast.

    Args:
        A: the matrix.
        multiples: returns the multiples of the rows below row k, from their numbers in column k,
            the row that was broadcast, and k.
        row: returns the row that is broadcast, from the matrix so far and k.
    """
    made = A.astype(np.float64)
    with np.errstate(all="ignore"):
        for k in range(len(A)):
            sent = row(made, k).copy()
            made[k + 1 :, k] = multiples(made[k + 1 :, k], sent, k)
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], sent[k + 1 :])
    return made.astype(np.float32)


def _nothing_subtracted(A: Any) -> Any:
    """Divide the numbers below the diagonal, and change nothing else."""
    return np.asarray(np.triu(A) + np.tril(A, -1) / np.diag(A)).astype(np.float32)


def _sum_of_its_rows(made: Any, k: int) -> Any:
    """Return the sum of all rows of the device that has row k."""
    rows = _rows_of(len(made))
    return made[k // rows * rows :][:rows].sum(0)


def _added(A: Any) -> Any:
    """Factorise, but add multiples of row k to the rows below it."""
    made = A.astype(np.float64)
    for k in range(len(A)):
        made[k + 1 :, k] /= made[k, k]
        made[k + 1 :, k + 1 :] += np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made.astype(np.float32)


def _positive(numbers: Any) -> Any:
    """Return the maximum over devices of which all but one contribute zeros."""
    return np.maximum(numbers, 0)


def _cyclic_order(n: int) -> list[int]:
    """Return the rows of a matrix in blocks, in the order of a cyclic layout."""
    devices, rows = _devices_of(n), _rows_of(n)
    return [k % devices * rows + k // devices for k in range(n)]


def _numbered_in_turn(A: Any) -> Any:
    """Factorise with the rows numbered as in a cyclic layout."""
    order, made = _cyclic_order(len(A)), np.empty_like(A)
    with np.errstate(all="ignore"):
        made[order] = _factored(A[order])
    return made


def _solved_in_turn(LU: Any, b: Any) -> Any:
    """Solve with the rows numbered as in a cyclic layout."""
    order, x = _cyclic_order(len(b)), np.empty_like(b)
    with np.errstate(all="ignore"):
        x[order] = _by_factors(LU[order], b[order])
    return x


def _itself_but_the_pivot(A: Any) -> Any:
    """Factorise with row k subtracted from itself, except its number in column k."""
    return np.tril(_factored(A))


def _crout(A: Any) -> Any:
    """Factorise with ones on the diagonal of U instead of L."""
    return np.ascontiguousarray(_factored(A.T).T)


def _with_rows_divided(A: Any) -> Any:
    """Factorise, but divide each row of U by its pivot, to the right of it."""
    factors = _factored(A)
    divided = factors / np.diag(factors)[:, None]
    return np.where(np.triu(np.ones(A.shape, bool), 1), divided, factors)


def _by_factors(LU: Any, b: Any, forward: bool = True, back: bool = True, unit: bool = True) -> Any:
    """Solve a system by its factors, or do one of the two substitutions.

    Args:
        LU: Both factors in one array.
        b: the right side.
        forward: whether to solve with L.
        back: whether to solve with U.
        unit: whether L has ones on its diagonal. If not, it has the diagonal of U.
    """
    packed, x = LU.astype(np.float64), b.astype(np.float64)
    lower = np.tril(packed, -1) + (np.eye(len(b)) if unit else np.diag(np.diag(packed)))
    x = np.linalg.solve(lower, x) if forward else x
    x = np.linalg.solve(np.triu(packed), x) if back else x
    return x.astype(np.float32)


def _divided_on_the_way(LU: Any, b: Any) -> Any:
    """Solve with numbers that are divided by U's diagonal in the forward substitution."""
    packed = LU.astype(np.float64)
    lower = np.tril(packed, -1) / np.diag(packed) + np.eye(len(b))
    return np.linalg.solve(np.triu(packed), np.linalg.solve(lower, b)).astype(np.float32)


def _passes(
    LU: Any,
    b: Any,
    signs: tuple[int, int] = (-1, -1),
    forward: Callable[[int, int], tuple[int, Any]] = lambda i, n: (i, slice(i + 1, n)),
    back: Callable[[int, int], tuple[int, Any]] = lambda i, n: (n - 1 - i, slice(n - 1 - i)),
    sent: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (float, float),
    column: tuple[Callable[[int], int], Callable[[int], int]] = (int, int),
) -> Any:
    """Solve by the two substitutions, with a mistake in one of them.

    Args:
        LU: Both factors in one array.
        b: the right side.
        signs: For each substitution, -1 if it subtracts multiples and 1 if it adds them.
        forward: returns, for a step and n, the number that is broadcast in the forward
            substitution, and those that change.
        back: the same for the back substitution.
        sent: For each substitution, what the devices receive instead of a number.
        column: for each substitution, the column whose multiples are subtracted, for number k.
    """
    packed, x, n = LU.astype(np.float64), b.astype(np.float64), len(b)
    for k, changed in (forward(i, n) for i in range(n)):
        x[changed] += signs[0] * packed[changed, column[0](k)] * sent[0](x[k])
    for k, changed in (back(i, n) for i in range(n)):
        x[k] = sent[1](x[k] / packed[k, k])
        x[changed] += signs[1] * packed[changed, column[1](k)] * x[k]
    return x.astype(np.float32)


def _first_column(k: int) -> int:
    """Return the column of number 0, whatever the step."""
    return 0


def _back_from_the_first(LU: Any, b: Any) -> Any:
    """Solve with a back substitution that runs from the first number to the last."""
    packed, x = LU.astype(np.float64), _by_factors(LU, b, back=False).astype(np.float64)
    for k in range(len(b)):
        x[k] /= packed[k, k]
        x[:k] -= packed[:k, k] * x[k]
    return x.astype(np.float32)


def _u_before_l(LU: Any, b: Any) -> Any:
    """Solve U L x = b."""
    return _by_factors(LU, _by_factors(LU, b, forward=False), back=False)


def _averaged(LU: Any, b: Any) -> Any:
    """Solve with averages over the devices instead of sums."""
    packed, x, p = LU.astype(np.float64), b.astype(np.float64), _devices_of(len(b))
    for k in range(len(b)):
        x[k + 1 :] -= packed[k + 1 :, k] * x[k] / p
    for k in reversed(range(len(b))):
        x[k] /= packed[k, k] * p
        x[:k] -= packed[:k, k] * x[k]
    return x.astype(np.float32)


def _by_places(LU: Any, b: Any, keeps_own: bool = False) -> Any:
    """Solve with each device numbering its rows from 0.

    Args:
        LU: both factors in one array.
        b: the right side.
        keeps_own: whether each device keeps its own number in the back substitution, and not the
            sum that it receives.
    """
    rows = _rows_of(len(b))
    packed = LU.astype(np.float64).reshape(-1, rows, len(b))
    x = b.astype(np.float64).reshape(-1, rows)
    for k in range(rows):
        x[:, k + 1 :] -= packed[:, k + 1 :, k] * x[:, k].sum()
    for k in reversed(range(rows)):
        own = x[:, k] / packed[:, k, k]
        x[:, :k] -= packed[:, :k, k] * own.sum()
        x[:, k] = own if keeps_own else own.sum()
    return x.reshape(b.shape).astype(np.float32)


def _number_itself_too(LU: Any, b: Any) -> Any:
    """Solve with number k changing, too, in step k of the forward substitution."""
    packed, x = LU.astype(np.float64), b.astype(np.float64)
    for k in range(len(b)):
        x[k:] -= packed[k:, k] * x[k]
    return _by_factors(LU, x, forward=False)


def _divided_twice(LU: Any, b: Any) -> Any:
    """Solve, but divide each number by U's diagonal once more."""
    return (_by_factors(LU, b) / np.diag(LU)).astype(np.float32)


def _without_the_first(LU: Any, b: Any) -> Any:
    """Solve with a back substitution that ends before number 0."""
    x = _by_factors(LU, b)
    x[0] *= LU[0, 0]
    return x


def _ones_in_u(LU: Any, b: Any) -> Any:
    """Solve as if U had ones on its diagonal, too."""
    packed = LU.astype(np.float64)
    np.fill_diagonal(packed, 1)
    return _by_factors(packed, b)


def _multiplied(LU: Any, b: Any) -> Any:
    """Solve, but multiply each number by U's diagonal."""
    packed = LU.astype(np.float64)
    np.fill_diagonal(packed, 1 / np.diag(packed))
    return _by_factors(packed, b)


def _matrix_argument(n: int, cyclic: bool = False, factors: bool = False) -> Argument:
    """Return a matrix argument for n devices.

    Args:
        n: the number of devices.
        cyclic: whether its rows are in a cyclic layout, and not in blocks.
        factors: whether the matrix is to be taken for L and U.
    """
    size, condition = FACTORED[n]
    condition = SOLVED[n] if factors else condition
    shape = (size // n, n, size) if cyclic else (size, size)
    spec = (None, "x", None) if cyclic else ("x", None)
    return Argument(shape, (("x", n),), spec, mode="auto", matrix="dominant", condition=condition)


def _broadcasts(answer: str) -> Requests:
    """Require explicit collectives that are all-reduces only."""
    others = ("all-gather", "all-to-all", "reduce-scatter", "collective-permute")
    return Requests(answer, never=others, at_least={"all-reduce": 1})


def _elimination_mistakes(
    on_layout: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] = lambda factor: factor,
) -> dict[str, Mistake]:
    """Return the mistakes of eliminating rows that do not depend on who has which.

    Args:
        on_layout: makes a factorisation of rows in order one of rows in another layout.
    """
    return {
        "multipliers-missing": Mistake(
            on_layout(lambda A: _factored(A, below=0)),
            says="U is right, but below the diagonal there are zeros. L's numbers, the multiples, "
            "belong there.",
        ),
        "multipliers-negative": Mistake(
            on_layout(lambda A: _factored(A, below=-1)),
            says="The numbers below the diagonal have the wrong sign: A is L times U.",
        ),
        "last-step-missing": Mistake(
            on_layout(lambda A: _factored(A, steps=-2)),
            says="The last step is missing. There are n - 1 steps, and the last one changes the "
            "last row.",
        ),
        "stored-undivided": Mistake(
            on_layout(_stored_undivided),
            says="U is right. Below the diagonal are the numbers before they are divided by "
            "row[k]. L has the multiples.",
        ),
        "multiples-undivided": Mistake(
            on_layout(_never_divided),
            says="The multiples that are subtracted are not divided by row[k].",
        ),
        "nothing-done": Mistake(lambda A: A, says="This is A, unchanged."),
        "nothing-subtracted": Mistake(
            on_layout(_nothing_subtracted),
            says="The numbers below the diagonal are divided, and no others change. In step k, "
            "multiples of row k are subtracted from the rows below.",
        ),
        "multiples-divided-twice": Mistake(
            on_layout(
                partial(_with_multiples, multiples=lambda column, row, k: column / row[k] ** 2)
            ),
            says="The multiples are divided by row[k] twice.",
        ),
        "absolute-value": Mistake(
            on_layout(
                partial(_with_multiples, multiples=lambda column, row, k: column / abs(row[k]))
            ),
            says="The multiples are divided by the absolute value of row[k]. Expected: by row[k], "
            "with its sign.",
        ),
        "multiples-from-the-row": Mistake(
            on_layout(partial(_with_multiples, multiples=lambda _, row, k: row[k + 1 :] / row[k])),
            says="The multiples are row k's own numbers, divided by row[k]. Expected: for each "
            "row, its own number in column k, divided by row[k].",
        ),
    }


ELIMINATION: Final = Exercise(
    id="10.7",
    title="LU factorisation on several devices",
    afterwards="In each step all devices wait for the one that has the row. Libraries such as "
    "ScaLAPACK broadcast blocks of several rows, so that they wait less often.",
    requirements=(
        Computes(
            "lu",
            "lu(A) must be the factors of A without pivoting: U on and above the diagonal, and L "
            "below it, without its ones.",
            lambda A: _factored(A),
            tuple((_matrix_argument(n),) for n in FACTORED),
            {
                **_elimination_mistakes(),
                "each-for-itself": Mistake(
                    lambda A: _factored(A, rows=_rows_of(len(A))),
                    says="Each device eliminates only with its own rows. What about the rows of "
                    "the devices before it?",
                ),
                "first-rows-alone": Mistake(
                    lambda A: _factored(A, steps=_rows_of(len(A))),
                    says="The elimination ends after as many steps as a device has rows. Each row "
                    "of the matrix has its own step.",
                ),
                "itself-too": Mistake(
                    lambda A: _factored(A, itself=True),
                    says="Row k is subtracted from itself, too. Only the rows below it change in "
                    "step k.",
                ),
                "numbers-of-the-block": _all_at_once,
                "mask-of-the-block": Mistake(
                    lambda A: _masked_by_place(A, in_turn=True),
                    says="Row k is right, but the mask compares positions in blocks: a device "
                    "changes its rows after the position that row k has in its own block. Which "
                    "rows of the whole matrix does a device have?",
                ),
                "mask-by-place": Mistake(
                    lambda A: _masked_by_place(A, in_turn=False),
                    says="Row k is right, but the mask compares k with a row's position in its "
                    "block, counted from 0. Which rows of the whole matrix does a device have?",
                ),
                "rows-above-too": Mistake(
                    lambda A: _factored(A, steps=-1, above=1),
                    lambda A: _factored(A, above=1),
                    says="Rows above row k change, too. Only those below it change in step k.",
                ),
                "gauss-jordan": Mistake(
                    lambda A: _factored(A, steps=-1, above=0),
                    lambda A: _factored(A, above=0),
                    says="Rows that are finished change again, as in Gauss–Jordan elimination: row "
                    "k itself, or those above it. Only the rows below it change in step k.",
                ),
                "averaged": lambda A: _factored(A, below=_devices_of(len(A))),
                "averaged-over-rows": Mistake(
                    lambda A: _factored(A, below=_rows_of(len(A))),
                    says="U is right, but each number of L is too large by the number of rows on a "
                    "device. An average over these rows (mean), of which all but one are zeros, is "
                    "not the row. Their sum is.",
                ),
                "numbered-in-turn": _numbered_in_turn,
                "upper-part-of-the-block": Mistake(
                    lambda A: _triangles_of_blocks(_factored(A), np.triu),
                    lambda A: _triangles_of_blocks(_factored(A), partial(np.tril, k=-1)),
                    lambda A: _triangles_of_blocks(_factored(A), np.tril),
                    says="Each device keeps a triangle of its own block, counted from the block's "
                    "first row. L and U both belong to the result.",
                ),
                "ones-in-u": Mistake(
                    _crout,
                    says="This is a factorisation in which U has ones on its diagonal. Expected: L "
                    "has them.",
                ),
                "rows-divided": Mistake(
                    _with_rows_divided,
                    says="L and the pivots are right, but each row of U is divided by its pivot. "
                    "In step k, row k does not change.",
                ),
                "columns-before-too": Mistake(
                    lambda A: _factored_in_all_columns(A),
                    says="Columns before column k change, too. They hold L by then, and only the "
                    "columns after column k change.",
                ),
                "added": _added,
                "sum-of-its-rows": Mistake(
                    partial(
                        _with_multiples,
                        multiples=lambda column, row, k: column / row[k],
                        row=_sum_of_its_rows,
                    ),
                    says="All rows of the device that has row k are added up and broadcast. "
                    "Expected: row k alone.",
                ),
            },
            {
                "own-pivots": Mistake(
                    _begins_by_own_pivots,
                    says="Each device divides column k by the number in one of its own rows. "
                    "Expected: by row[k], from the row that all devices received.",
                ),
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
            lambda LU, b: _by_factors(LU, b),
            tuple(
                (
                    _matrix_argument(n, factors=True),
                    Argument((size,), (("x", n),), ("x",), mode="auto"),
                )
                for n, (size, _) in FACTORED.items()
            ),
            {
                "only-forward": Mistake(
                    lambda LU, b: _by_factors(LU, b, back=False),
                    says="This is the solution of L y = b. You still have to solve with U.",
                ),
                "only-back": Mistake(
                    lambda LU, b: _by_factors(LU, b, forward=False),
                    says="This is the solution of U x = b. You have to solve with L first.",
                ),
                "l-not-of-ones": Mistake(
                    lambda LU, b: _by_factors(LU, b, unit=False),
                    says="L's diagonal has ones, which are not stored. The diagonal in the array "
                    "is that of U.",
                ),
                "divided-on-the-way": Mistake(
                    _divided_on_the_way,
                    says="In the forward substitution, numbers are divided by the diagonal before "
                    "they are subtracted. The diagonal in the array is that of U; L has ones.",
                ),
                "back-from-the-first": Mistake(
                    _back_from_the_first,
                    says="The back substitution runs from the first number to the last. U x = y is "
                    "solved from the last to the first.",
                ),
                "added": Mistake(
                    *(partial(_passes, signs=signs) for signs in ((1, -1), (-1, 1), (1, 1)))
                ),
                "forward-from-the-last": Mistake(
                    partial(_passes, forward=lambda i, n: (n - 1 - i, slice(n - i, n))),
                    says="The forward substitution runs from the last number to the first. L y = b "
                    "is solved from the first to the last.",
                ),
                "numbers-above": Mistake(
                    partial(_passes, forward=lambda i, n: (i, slice(i))),
                    says="In the forward substitution, the numbers above number k change. "
                    "Expected: those below it.",
                ),
                "numbers-below": Mistake(
                    partial(_passes, back=lambda i, n: (n - 1 - i, slice(n - i, n))),
                    says="In the back substitution, the numbers below number k change. Expected: "
                    "those above it.",
                ),
                "never-divided": Mistake(
                    _ones_in_u,
                    says="U's diagonal has no ones: each number of x is divided by its own "
                    "diagonal element.",
                ),
                "numbered-in-turn": _solved_in_turn,
                "largest-for-sum": Mistake(
                    *(
                        partial(_passes, sent=sent)
                        for sent in ((_positive, float), (float, _positive), (_positive, _positive))
                    ),
                    says="Negative numbers arrive as zero: the maximum over the devices (pmax) is "
                    "taken, and all but one contribute zeros. Their sum is the number.",
                ),
                "all-change-back": Mistake(
                    partial(
                        _passes, back=lambda i, n: (n - 1 - i, np.delete(np.arange(n), n - 1 - i))
                    ),
                    says="In the back substitution all other numbers change, including those that "
                    "are known already. Only those above number k do.",
                ),
                "all-change-forward": Mistake(
                    partial(_passes, forward=lambda i, n: (i, slice(n))),
                    says="In the forward substitution all numbers change, including those that are "
                    "known already. Only those below number k do.",
                ),
                "nothing-taken-off-back": Mistake(
                    partial(_passes, back=lambda i, n: (n - 1 - i, slice(0))),
                    says="In the back substitution each number is divided, and nothing is "
                    "subtracted from the numbers above it.",
                ),
                "kept-undivided": Mistake(
                    lambda LU, b: (_by_factors(LU, b) * np.diag(LU)).astype(np.float32),
                    says="Each number of x is divided by U's diagonal when it is broadcast, but "
                    "kept undivided.",
                ),
                "u-before-l": Mistake(
                    _u_before_l,
                    says="This is the solution of U L x = b: you solve with U before L.",
                ),
                "averaged": _averaged,
                "numbers-of-the-block": Mistake(_by_places, partial(_by_places, keeps_own=True)),
                "number-itself-too": Mistake(
                    _number_itself_too,
                    says="In step k of the forward substitution, number k changes, too. Only those "
                    "below it do.",
                ),
                "number-itself-too-back": Mistake(
                    partial(_passes, back=lambda i, n: (n - 1 - i, slice(n - i))),
                    says="In the step of the back substitution that broadcasts number k, number k "
                    "itself changes, too. Only those above it do.",
                ),
                "forward-begins-late": Mistake(
                    partial(_passes, forward=lambda i, n: (i, slice(i + 1, n if i else 0))),
                    says="The forward substitution leaves out number 0. It runs from 0 to n - 1.",
                ),
                "first-column-alone": Mistake(
                    *(
                        partial(_passes, column=column)
                        for column in (
                            (_first_column, int),
                            (int, _first_column),
                            (_first_column, _first_column),
                        )
                    ),
                    says="In the forward substitution, the back substitution or both, multiples of "
                    "column 0 are subtracted in each step. Number k belongs to column k.",
                ),
                "multiplied": Mistake(
                    _multiplied,
                    says="Each number is multiplied by U's diagonal. Expected: divided by it.",
                ),
                "divided-twice": Mistake(
                    _divided_twice, says="Each number is divided by U's diagonal twice."
                ),
                "first-left-out": Mistake(
                    _without_the_first,
                    says="The back substitution ends before number 0. It runs from n - 1 to 0.",
                ),
                "nothing-solved": Mistake(lambda LU, b: b, says="This is b, unchanged."),
                "one-matrix": Mistake(
                    lambda LU, b: np.linalg.solve(LU, b),
                    says="This is the solution for LU as if it were one matrix.",
                ),
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
        "All devices do the same in step k: they get row k from the device that has it, and "
        "subtract a multiple of it from those of their rows that are below it. Which of their "
        "rows are?",
        "`numbers = lax.axis_index('x') * rows + jnp.arange(rows)` are the numbers of a device's "
        "rows in the whole matrix. With these, lax.psum of a row that is zero on all devices but "
        "one is a broadcast, and `jnp.where(numbers > k, …, …)` changes only the rows below.",
        "A row's multiple is its number in column k, divided by row[k]. L keeps this multiple in "
        "the same position. For the substitutions, work by columns: as soon as every device knows "
        "a number of x, all rows can subtract their multiple of it at once.",
    ),
    diagnoses={
        "numbers-of-the-block": "Each device numbers its rows from 0, so several of them take one "
        "of theirs for row k. Which rows of the whole matrix does a device have?",
        "lu: averaged": "U is right, but each number of L is too large by the number of devices. "
        "An average over the devices (pmean), of which all but one contribute zeros, is not the "
        "row. Their sum is.",
        "substitute: averaged": "Each number that is broadcast is divided by the number of "
        "devices. An average over the devices (pmean), of which all but one contribute zeros, is "
        "not the number. Their sum is.",
        "numbered-in-turn": "The rows are numbered as in a cyclic layout, one on each device in "
        "turn. But each device has a block of consecutive rows. Which number does the first row "
        "of device d have?",
        "lu: added": "In each step, multiples of row k are added to the rows below. Expected: "
        "subtracted.",
        "substitute: added": "In the forward substitution, the back substitution or both, "
        "multiples of the known number are added. Expected: subtracted.",
        "not-replicated": "A value that must be the same on every device has to come from an "
        "all-reduce.",
        "too-many-bytes": "For lu, one row in each step is enough, and for substitute one number "
        "in each of 2 n steps.",
        "explicit all-gather": "No device needs all rows, or all of b. It needs one row, or one "
        "number, at a time.",
        "no all-reduce": "Only one device has row k, or number k, and all others need it.",
        "no-shard-map": "Left to the compiler, a step may be cheap or not, and jnp.linalg.solve "
        "gathers A. Here you decide.",
        "not-finite": "Does every device have the diagonal element that it divides by, or is that "
        "masked too early? In each step, does one device have row k by its numbers, on any number "
        "of devices? Or do negative numbers arrive as zero, as with a maximum (pmax) over devices "
        "of which all but one contribute zeros?",
    },
    about=(Requests, CommunicatesAtMost),
    together=True,
)


def _on_cyclic_layout(factor: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply a factorisation of a matrix to its cyclic layout."""
    return lambda A: factor(A.reshape(-1, A.shape[-1])).reshape(A.shape)


def _by_blocks(A: Any) -> Any:
    """Factorise as if the rows were in blocks: all of a device, then the next."""
    rows = A.swapaxes(0, 1)
    factors = _factored(rows.reshape(-1, A.shape[-1]))
    return np.ascontiguousarray(factors.reshape(rows.shape).swapaxes(0, 1))


def _by_rounds(A: Any, number: Callable[[Any, Any, int, int], Any]) -> Any:
    """Factorise in rounds, with a mistake in the numbers of the rows that are left in a round.

    Args:
        A: the matrix in its cyclic layout.
        number: returns a row's number, from its position in the slice, its device, the number of
            devices, and the number of rounds that are left.
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


def _masked_in_blocks(A: Any) -> Any:
    """Factorise with the right rows broadcast, but masks that number the rows in blocks."""
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
    A: Any,
    sent: Callable[[int, int, int], tuple[int, int]],
    from_row: Callable[[int, int, int], int] = lambda k, p, rounds: k // p,
    columns_masked: bool = True,
) -> Any:
    """Factorise a cyclic layout, with a mistake in the row that is broadcast or in what changes.

    Args:
        A: the matrix in its cyclic layout.
        sent: returns the position and the device of the row that is broadcast, from the step, the
            number of devices and that of rounds.
        from_row: returns the first position whose rows change, from the same.
        columns_masked: whether the columns before the step's own stay unchanged.
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


def _first_rows_kept(A: Any) -> Any:
    """Factorise, but keep only the first row of each device from each round's slice."""
    made = A.astype(np.float64)
    p = A.shape[1]
    with np.errstate(all="ignore"):
        for g in range(len(A)):
            slab = made[g:].copy()
            _eliminate(slab.reshape(-1, A.shape[-1]), p, g * p)
            made[g] = slab[0]
    return made.astype(np.float32)


def _without_its_round(A: Any) -> Any:
    """Factorise with the rows of a round not changing each other."""
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
    """Eliminate with the first `number` rows. Row 0 has its pivot in column `first`."""
    for k in range(number):
        column = first + k
        rows[k + 1 :, column] /= rows[k, column]
        rows[k + 1 :, column + 1 :] -= np.outer(rows[k + 1 :, column], rows[k, column + 1 :])


def _without_steps(A: Any, left_out: Callable[[int, int], bool]) -> Any:
    """Factorise without some of the steps.

    Args:
        A: the matrix in its cyclic layout.
        left_out: returns whether a step is left out, from its number and that of the devices.
    """
    made = A.astype(np.float64).reshape(-1, A.shape[-1])
    for k in range(len(made)):
        if not left_out(k, A.shape[1]):
            made[k + 1 :, k] /= made[k, k]
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made.reshape(A.shape).astype(np.float32)


CYCLIC: Final = Exercise(
    id="10.8",
    title="LU factorisation with balanced work",
    afterwards="ScaLAPACK and HPL, the benchmark that ranks the largest computers, use "
    "block-cyclic layouts in both dimensions, and pivoting, which needs one more small reduction "
    "in each step.",
    requirements=(
        Computes(
            "cyclic_lu",
            "cyclic_lu(A) must be the factors of A without pivoting, with row i of the matrix at "
            "[i // p, i % p], for p devices.",
            lambda A: _on_cyclic_layout(_factored)(A),
            tuple((_matrix_argument(n, cyclic=True),) for n in FACTORED),
            {
                **_elimination_mistakes(_on_cyclic_layout),
                "averaged": Mistake(
                    lambda A: _on_cyclic_layout(lambda rows: _factored(rows, below=A.shape[1]))(A),
                    says="U is right, but each number of L is too large by the number of devices. "
                    "An average over the devices (pmean), of which all but one contribute zeros, "
                    "is not the row. Their sum is.",
                ),
                "last-round-missing": Mistake(
                    lambda A: _without_steps(A, lambda k, p: k >= A.shape[-1] - p),
                    says="The last round is missing: its rows are not eliminated with one another.",
                ),
                "last-of-each-round": Mistake(
                    lambda A: _without_steps(A, lambda k, p: k % p == p - 1),
                    says="In each round the last device's row has no turn. A round has as many "
                    "steps as there are devices.",
                ),
                "itself-too": Mistake(
                    _on_cyclic_layout(lambda A: _factored(A, itself=True)),
                    _on_cyclic_layout(_itself_but_the_pivot),
                    says="Rows that are finished change again: row k itself, or those before it. "
                    "Only the rows after it change in step k.",
                ),
                "added": Mistake(
                    _on_cyclic_layout(_added),
                    says="In each step, multiples of row k are added to the rows below. Expected: "
                    "subtracted.",
                ),
                "rest-not-kept": Mistake(
                    _first_rows_kept,
                    says="Only the first row of a round's slice is put back, and the changes to "
                    "the other rows are lost.",
                ),
                "round-left-out": Mistake(
                    _without_its_round,
                    says="In a round, only the rows of later rounds change. The rows of the round "
                    "itself come one after another, too.",
                ),
                "numbers-of-the-slice": Mistake(
                    lambda A: _by_rounds(A, lambda i, d, p, left: i * p + d - (len(A) - left) * p),
                    says="The rows that are left in a round are numbered from 0. In round r the "
                    "first of them has the number r p + d.",
                ),
                "middle-dimension-dropped": Mistake(
                    lambda A: _on_cyclic_layout(_factored)(A).reshape(len(A), -1),
                    says="The numbers are right, but the result has two dimensions. A device's "
                    "block has a middle dimension of length 1, and the result must have it, too.",
                ),
                "in-blocks": Mistake(
                    _by_blocks,
                    says="The rows are numbered in blocks: all of the first device, then all of "
                    "the next one. But row i is at [i // p, i % p].",
                ),
                "mask-in-blocks": Mistake(
                    _masked_in_blocks,
                    says="The right rows are broadcast, but the mask numbers the rows in blocks: "
                    "all of the first device, then all of the next one. Which row of the whole "
                    "matrix is at position i on device d?",
                ),
                "numbers-turned": Mistake(
                    lambda A: _by_rounds(A, lambda i, d, p, _: i + p * d),
                    says="The rows are numbered as if device d had those from p d on. From one row "
                    "of a device to its next one, the number grows by p.",
                ),
                "numbers-in-blocks": Mistake(
                    lambda A: _by_rounds(A, lambda i, d, _, left: i + left * d),
                    says="The rows that are left are numbered in blocks: all of the first device, "
                    "then all of the next one. From one row of a device to its next one, the "
                    "number grows by p.",
                ),
                "slice-a-row-late": Mistake(
                    lambda A: _with_row(
                        A,
                        lambda k, p, rounds: (min((k + 1) // p, rounds - 1), k % p),
                        lambda k, p, rounds: min((k + 1) // p, rounds - 1),
                    ),
                    says="In the last step of each round the slice begins a row too late, so the "
                    "row that is broadcast is the last device's next one, not row k.",
                ),
                "row-of-blocks": Mistake(
                    lambda A: _with_row(A, lambda k, p, rounds: (k % rounds, k // rounds)),
                    says="The row that is broadcast is number k in blocks, [k % m, k // m] for m "
                    "rows on a device. Row k is at [k // p, k % p].",
                ),
                "position-by-rows": Mistake(
                    lambda A: _with_row(
                        A,
                        lambda k, p, rounds: (min(k // rounds, rounds - 1), k % p),
                        lambda k, p, rounds: k // rounds,
                    ),
                    says="Row k is taken from position k // m on its device, for m rows on a "
                    "device. Row k is at [k // p, k % p], for p devices.",
                ),
                "first-rows-alone": Mistake(
                    _on_cyclic_layout(lambda A: _factored(A, steps=_rows_of(len(A)))),
                    says="The elimination ends after as many steps as a device has rows. Each row "
                    "of the matrix has its own step.",
                ),
                "rows-of-a-device-together": Mistake(
                    lambda A: _on_cyclic_layout(_factored)(A).swapaxes(0, 1).reshape(A.shape),
                    says="The numbers are right, but the result has the rows of each device "
                    "together, one device after another. Row i belongs at [i // p, i % p].",
                ),
                "columns-before-too": Mistake(
                    lambda A: _with_row(
                        A, lambda k, p, rounds: (k // p, k % p), columns_masked=False
                    ),
                    says="Columns before column k change, too. They hold L by then, and only the "
                    "columns after column k change.",
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
        "Work in rounds: in each round, each device has one row whose turn it is. After a round "
        "every device is done with one more row, and with as many columns as there are devices.",
        "Write a Python loop over the rounds. In round r take `mine[r:, 0, r * p:]`, for p "
        "devices, which has the rows and columns that are left. The slice has the same shape on "
        "all devices.",
        "In a round, the row of device k is the first of its slice, for k from 0 to p - 1. Loop "
        "over these with a fori_loop, whose step is that of 10.7. Row i of the slice on device d "
        "has the number i * p + d in it. Put the result back with `.at[…].set`.",
    ),
    diagnoses={
        "not-finite": "Is the row that is broadcast in step k really row k, of [k // p, k % p]? "
        "Another row may have a zero in column k by then. And does it arrive unchanged? A maximum "
        "(pmax) over devices of which all but one contribute zeros loses negative numbers.",
        "unknown-times": "The bounds of a loop must be the same Python numbers on all devices. "
        "What lax.axis_index returns is not.",
        "added-by-the-compiler": "Do you reshape A outside the body, or do in_specs differ from "
        "its layout? A reshape to (n, n) puts the rows back in order, and so moves them from "
        "device to device.",
        "too-much-work": "Do you still work on rows and columns that are finished, if only to "
        "leave them unchanged? A mask saves no work. A smaller slice does.",
        "too-many-bytes": "One row in each step is enough.",
        "explicit all-gather": "No device needs all rows. It needs one at a time.",
        "no all-reduce": "Only one device has row k, and all others need it.",
        "no-shard-map": "Left to the compiler, every device may do all of the work.",
    },
    about=(Requests, CommunicatesAtMost, WorksAtMost),
    together=True,
)

PLANES: Final = ((16, 12), (12, 20))
"""The shape of a plane of points, for each mesh of GRIDS. No block is square."""

PLANE_BLOCKS: Final = ("0 1\n2 3\n4 5\n6 7", "0 1\n2 3")
"""The layout of a plane in blocks, on each mesh of GRIDS."""

SIDES: Final = {"above": (-1, 0), "below": (1, 0), "left": (0, -1), "right": (0, 1)}
"""The four sides of a block, as steps to the neighbour's place in the mesh."""


def _planes() -> tuple[tuple[Argument, ...], ...]:
    return tuple(
        (Argument(shape, axes, ("x", "y"), mode="auto"),)
        for shape, axes in zip(PLANES, GRIDS, strict=True)
    )


def _places(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of blocks along each dimension of a plane of this shape."""
    first, second = GRIDS[PLANES.index(shape)]
    return first[1], second[1]


def _five_points(u: Any, own: float = 4, others: float = -1) -> Any:
    """Multiply by the five-point stencil, with zeros around; each option makes a mistake."""
    wide = np.pad(u, 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return np.asarray(own * u + others * around)


def _weighted(u: Any, **factors: float) -> Any:
    """Multiply by the stencil, with other factors than -1 for the neighbours on some sides."""
    wide, (rows, columns) = np.pad(u, 1), u.shape
    result = 4 * u
    for side, (down, right) in SIDES.items():
        near = wide[1 + down : 1 + down + rows, 1 + right : 1 + right + columns]
        result = result + factors.get(side, -1) * near
    return result


def _by_halos(
    u: Any,
    halo: Callable[[str, dict[str, Any]], Any],
    closed: str = "",
) -> Any:
    """Multiply by the stencil block by block, with a mistake in the halos.

    Args:
        u: the plane.
        halo: returns the halo of a side (in both dimensions, so that it can be put there), from the
            side and the neighbouring blocks by their sides.
        closed: The sides on which the first and the last block along a dimension are neighbours. On
            others there are zeros beyond the plane.
    """
    rows, columns = _places(u.shape)
    blocks = [np.split(strip, columns, axis=1) for strip in np.split(u, rows)]
    made = [list(strip) for strip in blocks]
    for i, j in np.ndindex(rows, columns):
        block, around = blocks[i][j], {}
        for side, (down, right) in SIDES.items():
            inside = 0 <= i + down < rows and 0 <= j + right < columns
            neighbour = blocks[(i + down) % rows][(j + right) % columns]
            around[side] = neighbour if inside or side in closed else np.zeros_like(block)
        wide = np.pad(block, 1)
        wide[:1, 1:-1] = halo("above", around)
        wide[-1:, 1:-1] = halo("below", around)
        wide[1:-1, :1] = halo("left", around)
        wide[1:-1, -1:] = halo("right", around)
        made[i][j] = _five_points(wide)[1:-1, 1:-1]
    return np.block(made)


OPPOSITE: Final = {"above": "below", "below": "above", "left": "right", "right": "left"}


def _edge(block: Any, side: str) -> Any:
    """Return the row or column of a block that is nearest to one of its sides."""
    return {"above": block[:1], "below": block[-1:], "left": block[:, :1], "right": block[:, -1:]}[
        side
    ]


def _exchanged(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of placing what came from one of these sides at the opposite one."""

    def halo(side: str, around: dict[str, Any]) -> Any:
        source = OPPOSITE[side] if side in sides else side
        return _edge(around[source], OPPOSITE[source])

    return lambda u: _by_halos(u, halo)


def _reversed(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of sending the edges near these sides away from them, not across them."""

    def halo(side: str, around: dict[str, Any]) -> Any:
        source = OPPOSITE[side] if side in sides else side
        return _edge(around[source], OPPOSITE[side])

    return lambda u: _by_halos(u, halo)


BESIDE: Final = {"above": "left", "below": "right", "left": "above", "right": "below"}
"""The neighbour whose edge takes the place of another's, if it is sent along the other axis."""


def _sideways(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of sending the halos of these sides along the other mesh axis."""

    def halo(side: str, around: dict[str, Any]) -> Any:
        return _edge(around[BESIDE[side] if side in sides else side], OPPOSITE[side])

    return lambda u: _by_halos(u, halo)


def _closed(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of joining the plane's edges on these sides."""
    return lambda u: _by_halos(u, lambda side, near: _edge(near[side], OPPOSITE[side]), sides)


def _far(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of taking the wrong one of the edges of the neighbours on these sides."""

    def halo(side: str, around: dict[str, Any]) -> Any:
        return _edge(around[side], side if side in sides else OPPOSITE[side])

    return lambda u: _by_halos(u, halo)


def _only_from(*sides: str) -> Callable[[Any], Any]:
    """Make the mistake of leaving zeros in the halos of the other sides."""

    def halo(side: str, around: dict[str, Any]) -> Any:
        return _edge(around[side], OPPOSITE[side]) if side in sides else 0

    return lambda u: _by_halos(u, halo)


def _inside(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of taking what is next to the edge of the neighbours on these sides."""

    def halo(side: str, around: dict[str, Any]) -> Any:
        block, of_block = around[side], OPPOSITE[side]
        inner = block[1:-1] if side in ("above", "below") else block[:, 1:-1]
        return _edge(inner if side in sides else block, of_block)

    return lambda u: _by_halos(u, halo)


def _mirrored(sides: str) -> Callable[[Any], Any]:
    """Make the mistake of repeating the plane's edges beyond it on these sides."""

    def make(u: Any) -> Any:
        wide = np.pad(u, 1)
        places = {
            "above": (slice(0, 1), slice(1, -1)), "below": (slice(-1, None), slice(1, -1)),
            "left": (slice(1, -1), slice(0, 1)), "right": (slice(1, -1), slice(-1, None)),
        }  # fmt: skip
        for side in sides.split():
            wide[places[side]] = _edge(u, side)
        return _five_points(wide)[1:-1, 1:-1]

    return make


def _diagonal(u: Any) -> Any:
    """Make the mistake of subtracting the diagonal neighbours."""
    wide = np.pad(u, 1)
    return 4 * u - wide[:-2, :-2] - wide[:-2, 2:] - wide[2:, :-2] - wide[2:, 2:]


def _diagonal_in_strips(u: Any, dim: int) -> Any:
    """Make the same mistake, and leave out neighbours on other blocks along a dimension."""
    strips = np.split(u, _places(u.shape)[dim], axis=dim)
    return np.concatenate([_diagonal(strip) for strip in strips], axis=dim)


STENCIL: Final = Exercise(
    id="10.9",
    title="A stencil with halos on four sides",
    afterwards="Stencils that use the diagonal neighbours, too, need the corners. You get them "
    "without further messages if you exchange the columns after the rows, and send them with the "
    "halos that have arrived.",
    requirements=(
        Computes(
            "stencil",
            "stencil(u) must be 4 u minus the four neighbours, with zeros around the plane.",
            lambda u: _five_points(u),
            _planes(),
            {
                "wraps-around": Mistake(
                    *(
                        map(
                            _closed, ("above below left right", "above below", "left right", *SIDES)
                        )
                    ),
                    says="The plane wraps around: an edge uses the opposite one as its neighbour. "
                    "Here there are zeros beyond the edges. Is there a pair that closes a ring?",
                ),
                "blocks-alone": Mistake(
                    _only_from(),
                    says="Each block is treated as if there were zeros around it. The edges of "
                    "neighbouring blocks are missing.",
                ),
                "one-axis-missing": Mistake(
                    _only_from("above", "below"),
                    _only_from("left", "right"),
                    says="Only the neighbours along one axis of the mesh are used. Along the other "
                    "one, too, the edges of neighbouring blocks are needed.",
                ),
                "one-side-missing": Mistake(
                    *(
                        _only_from(*(side for side in SIDES if side != missing))
                        for missing in SIDES
                    ),
                    says="On one of the four sides there are zeros in place of the neighbour's "
                    "edge.",
                ),
                "halos-exchanged": Mistake(
                    _exchanged("above below"),
                    _exchanged("left right"),
                    _exchanged("above below left right"),
                    says="What came from one side is placed at the opposite one. The row from the "
                    "block above belongs above, and the column from the block on the left, on the "
                    "left.",
                ),
                "axes-exchanged": Mistake(
                    *(map(_sideways, ("above below left right", "above below", "left right"))),
                    says="Rows are exchanged with the blocks on the left and right, or columns "
                    "with those above and below. Which mesh axis shards the rows of the plane?",
                ),
                "pairs-reversed": Mistake(
                    *(map(_reversed, ("above below", "left right", "above below left right"))),
                    says="Edges are sent to the neighbour on the wrong side: a block's last row "
                    "belongs above the block below, and its last column on the left of the block "
                    "on the right. In which order does a pair have source and destination?",
                ),
                "far-edge": Mistake(
                    *(map(_far, ("above below left right", "above below", "left right", *SIDES))),
                    says="To a neighbour, the edge on the far side was sent. The block below needs "
                    "your last row, the block above your first one, and those beside you your last "
                    "and first column.",
                ),
                "next-to-the-edge": Mistake(
                    *(
                        map(
                            _inside, ("above below left right", "above below", "left right", *SIDES)
                        )
                    ),
                    says="To a neighbour, the row or column next to the edge is sent. Expected: "
                    "the edge itself.",
                ),
                "mirrored": Mistake(
                    *(
                        map(
                            _mirrored,
                            ("above below left right", "above below", "left right", *SIDES),
                        )
                    ),
                    says="At an edge of the plane, the edge itself is used as its neighbour. Here "
                    "there are zeros beyond the edges.",
                ),
                "diagonal": Mistake(
                    _diagonal,
                    *(partial(_diagonal_in_strips, dim=dim) for dim in (0, 1)),
                    says="The four diagonal neighbours are subtracted. Expected: those above, "
                    "below, left and right.",
                ),
                "other-sign": Mistake(
                    lambda u: _five_points(u, -4, 1), says="The sign is reversed."
                ),
                "other-factors": Mistake(
                    *(partial(_five_points, own=own) for own in (1, 2, 0, -4)),
                    *(partial(_weighted, **{side: each}) for side in SIDES for each in (1, 0)),
                    *(partial(_weighted, above=each, below=each) for each in (1, 0)),
                    *(partial(_weighted, left=each, right=each) for each in (1, 0)),
                    lambda u: _five_points(u, 4, 1),
                    says="The factors of the stencil are others. Expected: 4 for the point itself, "
                    "and -1 for each of its four neighbours.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("stencil", PLANE_BLOCKS[0], PLANES, elsewhere=PLANE_BLOCKS[1:]),
        Requests(
            "stencil",
            tuple(
                (
                    RequestedCollective(
                        "collective-permute", 2, ("x",), 4 * shape[1] // _places(shape)[1]
                    ),
                    RequestedCollective(
                        "collective-permute", 2, ("y",), 4 * shape[0] // _places(shape)[0]
                    ),
                )
                for shape in PLANES
            ),
        ),
    ),
    hints=(
        "Inside a block nothing is missing. Its first row needs the last row of the block above, "
        "and the other three edges are like it: 5.6, once along each axis of the mesh.",
        "`lax.ppermute(block[-1:], 'x', pairs)` with the pairs (i, i + 1) sends each block's last "
        "row down. There is no pair for the last device, and none to the first one: a device that "
        "receives nothing gets zeros. Is that right at the edge of the plane?",
        "Concatenate the two rows above and below the block, and the two columns left and right "
        "of it, separately: no neighbour needs a corner. Then subtract from 4 * block: "
        "rows[:-2], rows[2:], columns[:, :-2] and columns[:, 2:].",
    ),
    diagnoses={
        "sends-too-much": "A row or a column of the block is enough for each neighbour.",
        "in-pieces": "One message from each of the four neighbours is enough.",
        "no collective-permute": "A device needs one row or column of each neighbour. A "
        "permutation fetches it, and an all-gather brings everything.",
        "no-shard-map": "Left to the compiler, the shifts may be cheap or not. Here you say what "
        "is sent.",
    },
    about=(Requests,),
)

PRECONDITIONED_STEPS: Final = 4
"""With more steps, rounding errors of wrong sums grow until no mistake is recognised."""


def _second_difference(n: int) -> Any:
    return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


def _solve_rectangle(r: Any) -> Any:
    """Solve the system of the stencil on a rectangle, with zeros around it."""
    (rows, V), (columns, W) = (np.linalg.eigh(_second_difference(n)) for n in r.shape)  # noqa: N806
    return V @ (V.T @ r @ W / (rows[:, None] + columns)) @ W.T


def _on_blocks(r: Any, function: Callable[[Any], Any]) -> Any:
    rows, columns = _places(r.shape)
    strips = [np.split(strip, columns, axis=1) for strip in np.split(r, rows)]
    return np.block([[function(block) for block in strip] for strip in strips])


def _pcg(
    f: Any,
    steps: int = PRECONDITIONED_STEPS,
    precondition: Callable[[Any], Any] | None = None,
    of_residual: Collection[str] = (),
    along_z: bool = True,
    first_along_z: bool = True,
    of_new_residual: bool = True,
    summed: tuple[int, ...] = (0, 2),
    share: Callable[[Any, Any, Any], Any] = lambda new, last, length: new / last,
    signs: tuple[int, int] = (1, -1),
    keeps_last: bool = False,
    by_product: bool = True,
    over_product: bool = True,
    later: Callable[[Any], Any] | None = None,
    change: Callable[[Any, Any, Any], Any] = lambda length, p, z: length * p,
    returns_residual: bool = False,
    starts_at_f: bool = False,
    residual_of_start: bool = True,
) -> Any:
    """Do steps of conjugate gradients with block Jacobi; each option makes a mistake.

    Args:
        f: the right side.
        steps: the number of steps.
        precondition: What is applied to a residual, in place of block Jacobi.
        of_residual: Where residual @ residual is used in place of residual @ z: as the "first" one,
            for the "length" of a step, and for the "share" of the direction before.
        along_z: whether the next direction begins with z, or with the residual.
        first_along_z: whether the first direction is z, or the residual.
        of_new_residual: whether z is of the residual after the step, or before it.
        summed: the axes of the mesh, 0 and 2, over which inner products are added up.
        share: the factor of the direction before in the next one, from the two last products and
            the length of the step.
        signs: the signs of the changes of u and of the residual.
        keeps_last: whether residual @ z of the first step is used in all steps.
        by_product: whether the residual changes by the product, or by the direction.
        over_product: whether lengths are divided by direction @ product, or @ direction.
        later: What is applied to residuals in the steps, in place of `precondition`.
        change: the change of u, from the length of the step, the direction and z.
        returns_residual: whether the residual is returned, and not u.
        starts_at_f: whether u begins as `f`, and not as zeros.
        residual_of_start: whether the first residual is that of the first u, or `f`.
    """
    r = f.astype(np.float64)
    rows, columns = _places(f.shape)

    def dot(a: Any, b: Any) -> Any:
        blocks = (a * b).reshape(rows, f.shape[0] // rows, columns, f.shape[1] // columns)
        sums = blocks.sum((1, 3), keepdims=True).sum(summed, keepdims=True)
        return np.broadcast_to(sums, blocks.shape).reshape(f.shape)

    apply = precondition or partial(_on_blocks, function=_solve_rectangle)
    again = later or apply
    u = r if starts_at_f else np.zeros_like(r)
    r = r - _five_points(u) if residual_of_start else r
    z = apply(r)
    p, last = z if first_along_z else r, dot(r, r if "first" in of_residual else z)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            q = _five_points(p)
            length = dot(r, r) if "length" in of_residual else last
            length = length / dot(p, q if over_product else p)
            z = z if of_new_residual else again(r)
            u = u + signs[0] * change(length, p, z)
            r = r + signs[1] * length * (q if by_product else p)
            z = again(r) if of_new_residual else z
            new = dot(r, r if "share" in of_residual else z)
            p = (z if along_z else r) + share(new, last, length) * p
            last = last if keeps_last else new
    return (r if returns_residual else u).astype(np.float32)


def _is_combination(f: Any, u: Any) -> bool:
    """Check whether `u` combines what block Jacobi and the stencil make of `f`, in any amounts.

    Conjugate gradients choose the amounts: the lengths of the steps and the shares of directions.
    """
    if not np.isfinite(u).all():
        return False
    directions: list[Any] = []
    residual = f.astype(np.float64)
    for _ in range(PRECONDITIONED_STEPS + 1):  # one more if u changes by the next direction
        direction = _on_blocks(residual, _solve_rectangle)
        for known in directions:
            direction = direction - np.vdot(known, direction) * known
        directions.append(direction / np.linalg.norm(direction))
        residual = _five_points(directions[-1])
    remainder = u - sum(np.vdot(known, u) * known for known in directions)
    return bool(np.linalg.norm(remainder) <= 1e-3 * np.linalg.norm(u))


def _multiply_eigenvalues(r: Any) -> Any:
    """Make the mistake of multiplying the eigenvalues of rows and columns."""
    (rows, V), (columns, W) = (np.linalg.eigh(_second_difference(n)) for n in r.shape)  # noqa: N806
    return V @ (V.T @ r @ W / (rows[:, None] * columns)) @ W.T


def _solve_quarters(r: Any) -> Any:
    """Make the mistake of solving the system on the four quarters of a rectangle."""
    halves = (np.array_split(half, 2, axis=1) for half in np.array_split(r, 2))
    return np.block([[_solve_rectangle(quarter) for quarter in half] for half in halves])


_on_quarters: Final = partial(_on_blocks, function=_solve_quarters)


METHODS: Final = (("block Jacobi", "polynomial"), ("Jacobi", "Chebyshev"))
"""Pairs of names: of a preconditioner that exchanges nothing, and of one that does."""


def _solver_cases(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample methods and machines, many of them close to where both methods take equally long.

    In a third of the cases, one method needs fewer messages and sends fewer bytes. In half of them,
    methods have other names than in the notebook, so that names cannot be written in.
    """
    cases: list[tuple[Any, ...]] = []
    while len(cases) < 210:
        devices = 2 ** int(rng.integers(2, 11))
        halo = 4 * int(rng.integers(16, 100_000))
        local, exchanges = int(rng.integers(30, 200)), int(rng.integers(3, 13))
        polynomial = int(rng.integers(4, local))
        sums = 2 * np.log2(devices)
        fewer_messages = local * (1 + sums) - polynomial * (exchanges + sums)
        more_halos = exchanges * polynomial - local
        is_open = fewer_messages > 0 and more_halos > 0
        if is_open != bool(len(cases) % 3) or fewer_messages == 0 or more_halos == 0:
            continue
        factor = rng.choice([1.15, 1 / 1.15]) * rng.choice([1, 1, 2, 10, 1 / 2, 1 / 10])
        latency = float(f"{10 ** rng.uniform(-6, -4):.2g}")
        bandwidth = float(f"{factor * halo * abs(more_halos / fewer_messages) / latency:.3g}")
        alone, together = METHODS[len(cases) % 2]
        methods = [(alone, (local, 1)), (together, (polynomial, exchanges))]
        counts = dict(methods if rng.random() < 0.5 else methods[::-1])
        cases.append((counts, devices, halo, latency, bandwidth))
    return cases + [_sample_nearly_equal_exchanges(rng, names) for names in 3 * METHODS]


def _sample_nearly_equal_exchanges(
    rng: np.random.Generator, names: tuple[str, str]
) -> tuple[Any, ...]:
    """Sample a case in which methods hardly differ in all of their exchanges, with small halos.

    These tell whether steps and exchanges are mixed up: their product is the same.
    """
    devices, halo = 2 ** int(rng.integers(4, 11)), 4 * int(rng.integers(16, 1000))
    local, exchanges = int(rng.integers(60, 200)), int(rng.integers(3, 8))
    latency = float(f"{10 ** rng.uniform(-6, -4):.2g}")
    bandwidth = float(f"{10 * halo / latency:.3g}")
    methods = [(names[0], (local, 1)), (names[1], ((local - 1) // exchanges, exchanges))]
    counts = dict(methods if rng.random() < 0.5 else methods[::-1])
    return counts, devices, halo, latency, bandwidth


def _fastest(
    counts: dict[str, tuple[int, int]],
    devices: int,
    halo: int,
    latency: float,
    bandwidth: float,
    sums: float = 2,
    sends: float = 1,
    latencies: Callable[[int], int] = lambda number: number,
    exchanges: Callable[[int], int] = lambda number: number,
    messages: Callable[[int], float] = np.log2,
    per_step: bool = False,
    together: Callable[..., float] = sum,
) -> str:
    """Return the method that takes the least time; each option makes a mistake."""
    times = {}
    for name, (steps, number) in counts.items():
        halos = exchanges(latencies(number)) * latency
        halos += exchanges(number) * sends * halo / bandwidth
        step = together((halos, sums * latency * float(messages(devices))))
        times[name] = step if per_step else steps * step
    return min(times, key=lambda name: times[name])


PRECONDITIONER: Final = Exercise(
    id="10.10",
    title="A preconditioner that sends nothing",
    afterwards="A third kind adds a coarse problem, with one unknown for each device, to block "
    "Jacobi. It costs a small all-reduce in each step. On this plane it takes about 40 steps on 64 "
    "devices and about 30 on 256, where block Jacobi alone takes 60 and more than 80.",
    requirements=(
        Computes(
            "pcg",
            f"pcg(f) must be the u of {PRECONDITIONED_STEPS} steps of conjugate gradients from "
            f"zeros, with block Jacobi.",
            lambda f: _pcg(f),
            _planes(),
            {
                "once-too-often": Mistake(
                    partial(_pcg, steps=PRECONDITIONED_STEPS + 1),
                    says=f"This is the u of {PRECONDITIONED_STEPS + 1} steps.",
                ),
                "once-too-seldom": Mistake(
                    partial(_pcg, steps=PRECONDITIONED_STEPS - 1),
                    says=f"This is the u of {PRECONDITIONED_STEPS - 1} steps.",
                ),
                "not-preconditioned": Mistake(
                    partial(_pcg, precondition=lambda r: r),
                    says="These are conjugate gradients without a preconditioner. (A multiple of "
                    "the residual in place of z changes nothing.)",
                ),
                "solved-outright": Mistake(
                    lambda f: _solve_rectangle(f).astype(np.float32),
                    says=f"This is the solution itself. Expected: the u of "
                    f"{PRECONDITIONED_STEPS} steps from zeros.",
                ),
                "blocks-solved-once": Mistake(
                    lambda f: _on_blocks(f, _solve_rectangle).astype(np.float32),
                    says="Each device solved the system of its own block, once. That is the first "
                    "z, and only a direction for the first step.",
                ),
                "square-of-the-residual": Mistake(
                    *(
                        partial(_pcg, of_residual=places)
                        for places in (("first", "share"), ("first",), ("length",), ("share",))
                    ),
                    says="residual @ residual is used. With a preconditioner, it is residual @ z "
                    "everywhere: before the first step, for a step's length, and for the share of "
                    "the direction before.",
                ),
                "along-the-residual": Mistake(
                    *(partial(_pcg, along_z=False, first_along_z=first) for first in (True, False)),
                    says="The next direction begins with the residual. Expected: with z.",
                ),
                "first-along-the-residual": Mistake(
                    *(
                        partial(_pcg, first_along_z=False, of_residual=places)
                        for places in ((), ("first",))
                    ),
                    says="The first direction is the residual. Expected: z, as in all later steps.",
                ),
                "of-the-old-residual": Mistake(
                    partial(_pcg, of_new_residual=False),
                    says="z is computed from the residual before the step. Expected: from the new "
                    "one.",
                ),
                "direction-before-missing": Mistake(
                    partial(_pcg, share=lambda new, *_: 0 * new),
                    says="The next direction is z alone. Expected: z plus a part of the direction "
                    "before.",
                ),
                "share-upside-down": Mistake(
                    partial(_pcg, share=lambda new, last, _: last / new),
                    says="The direction before is multiplied by old / new. Expected: new / old, "
                    "for the two values of residual @ z.",
                ),
                "share-subtracted": Mistake(
                    partial(_pcg, share=lambda new, last, _: -new / last),
                    says="The part of the direction before is subtracted. Expected: added.",
                ),
                "first-product-kept": Mistake(
                    partial(_pcg, keeps_last=True),
                    says="All steps use residual @ z of the first one. Carry the new value.",
                ),
                "residual-grows": Mistake(
                    partial(_pcg, signs=(1, 1)),
                    says="The product is added to the residual. Expected: subtracted, because u "
                    "has come nearer to the solution.",
                ),
                "away-from-the-solution": Mistake(
                    partial(_pcg, signs=(-1, -1)),
                    says="u moves against the direction. Expected: along it.",
                ),
                "residual-by-the-direction": Mistake(
                    partial(_pcg, by_product=False),
                    says="The residual changes by a multiple of the direction. Expected: of the "
                    "stencil's product with it.",
                ),
                "preconditioned-once": Mistake(
                    partial(_pcg, later=lambda r: r),
                    says="In the steps, z is the residual itself. Expected: block Jacobi, applied "
                    "to the new residual of each step.",
                ),
                "length-missing": Mistake(
                    partial(_pcg, change=lambda length, p, z: p),
                    says="u changes by the direction itself. Expected: length times the direction.",
                ),
                "u-along-z": Mistake(
                    partial(_pcg, change=lambda length, p, z: length * z),
                    says="u changes by length times z. Expected: times the direction.",
                ),
                "whole-direction-before": Mistake(
                    partial(_pcg, share=lambda new, *_: np.ones_like(new)),
                    says="The whole direction before is added to z. Expected: new / old of it, for "
                    "the two values of residual @ z.",
                ),
                "share-is-the-length": Mistake(
                    partial(_pcg, share=lambda new, last, length: length),
                    says="The share of the direction before is the length of the step. Expected: "
                    "new / old, for the two values of residual @ z.",
                ),
                "over-the-direction": Mistake(
                    partial(_pcg, over_product=False),
                    says="The length of a step is divided by direction @ direction. Expected: by "
                    "direction @ product.",
                ),
                "residual-returned": Mistake(
                    partial(_pcg, returns_residual=True),
                    says="This is the residual after the last step. Expected: u.",
                ),
                "smaller-blocks": Mistake(
                    partial(_pcg, precondition=_on_quarters),
                    partial(_pcg, later=_on_quarters),
                    says="The system is solved on quarters of each block. Expected: on the whole "
                    "block of a device.",
                ),
                "starts-at-f": Mistake(
                    *(
                        partial(_pcg, starts_at_f=True, residual_of_start=consistent)
                        for consistent in (True, False)
                    ),
                    says="u begins as f here. Expected: as zeros.",
                ),
                "eigenvalues-multiplied": Mistake(
                    partial(_pcg, precondition=partial(_on_blocks, function=_multiply_eigenvalues)),
                    says="In block Jacobi, the eigenvalues of rows and of columns are multiplied. "
                    "The stencil is a sum of second differences along both dimensions. What are "
                    "the eigenvalues of such a sum?",
                ),
                "own-sums": Mistake(
                    partial(_pcg, summed=()),
                    says="In the inner products, each device uses the sum over its own block. "
                    "Expected: the sum over all devices.",
                ),
                "sums-over-one-axis": Mistake(
                    partial(_pcg, summed=(0,)),
                    partial(_pcg, summed=(2,)),
                    says="The inner products are added up over one axis of the mesh. The plane is "
                    "sharded over both.",
                ),
            },
            patterns={
                "wrong-amounts": Mistake(
                    lambda inputs, u: _is_combination(inputs[0], u),
                    says="Block Jacobi and the multiplications are right here: u is a combination "
                    "of z = solve_rectangle(f) and of what A and block Jacobi make of it. The "
                    "amounts are wrong. A step's length is (residual @ z) / (direction @ product), "
                    "u changes by it times this step's direction, and the last direction's share "
                    "in the next one is the new residual @ z by the one before. Which of them "
                    "differs?",
                ),
                "wrong-directions": Mistake(
                    lambda inputs, u: (
                        bool(np.isfinite(u).all()) and not _is_combination(inputs[0], u)
                    ),
                    says="No lengths of steps would make this right: u is not a combination of "
                    "z = solve_rectangle(f) and of what A and block Jacobi make of it. Is each z "
                    "the solution on a device's block, the product A @ direction with all four "
                    "halos, and the residual less by a multiple of that product?",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("pcg", PLANE_BLOCKS[0], PLANES, elsewhere=PLANE_BLOCKS[1:]),
        Requests(
            "pcg",
            never=("all-gather", "all-to-all", "reduce-scatter"),
            at_least={"collective-permute": 1, "all-reduce": 1},
        ),
        CommunicatesAtMost(
            "pcg",
            tuple(
                (
                    Budget(
                        "collective-permute",
                        ("x",),
                        PRECONDITIONED_STEPS * 8 * shape[1] // _places(shape)[1],
                    ),
                    Budget(
                        "collective-permute",
                        ("y",),
                        PRECONDITIONED_STEPS * 8 * shape[0] // _places(shape)[0],
                    ),
                    Budget("all-reduce", None, 4 * (2 * PRECONDITIONED_STEPS + 2)),
                )
                for shape in PLANES
            ),
        ),
        Returns(
            "winner",
            "winner(counts, devices, halo, latency, bandwidth) must be the name of the method "
            "whose solve takes the least time, by the model in the prompt.",
            _solver_cases,
            _fastest,
            {
                "fewest-steps": Mistake(
                    lambda counts, *_: min(counts, key=lambda name: counts[name][0]),
                    says="This is always the method with the fewest steps, on every machine. What "
                    "does one of its steps cost, with all of its exchanges?",
                ),
                "bytes-ignored": Mistake(
                    partial(_fastest, sends=0),
                    says="This is always the method with fewer messages one after the other, "
                    "however large the halo is. Each exchange sends a halo's bytes, and a sum "
                    "sends almost none.",
                ),
                "counts-exchanged": Mistake(
                    lambda counts, *machine: _fastest(
                        {name: (steps, number) for name, (number, steps) in counts.items()},
                        *machine,
                    ),
                    says="The two numbers of a method are exchanged. In counts, the number of its "
                    "steps comes first, and that of the exchanges in one step second.",
                ),
                "one-exchange-too-few": Mistake(
                    partial(_fastest, exchanges=lambda m: m - 1),
                    says="Each step lacks one exchange. The number in counts includes the "
                    "multiplication of the method itself.",
                ),
                "only-exchanges": Mistake(
                    partial(_fastest, sums=0),
                    says="This is always the method with fewer exchanges in its whole solve. The "
                    "two sums of each step take latencies, too, in all steps. Is the time of a "
                    "halo's bytes so long that nothing else counts? It is halo / bandwidth.",
                ),
                "one-sum": Mistake(
                    partial(_fastest, sums=1),
                    says="The sums of a step take half as long here as they should. It has two, "
                    "and each takes log2(n) messages.",
                ),
                "as-in-a-ring": Mistake(
                    partial(_fastest, messages=lambda n: 2 * (n - 1)),
                    partial(_fastest, messages=lambda n: n - 1),
                    partial(_fastest, messages=lambda n: n),
                    says="A sum takes about as many messages as there are devices, as in a ring. "
                    "Expected: log2(n).",
                ),
                "too-few-latencies": Mistake(
                    *(
                        partial(_fastest, latencies=latencies)
                        for latencies in (lambda number: 1, lambda number: 0)
                    ),
                    says="Each exchange takes a latency, too, besides the time of its bytes.",
                ),
                "too-few-latencies-and-one-sum": Mistake(
                    *(
                        partial(_fastest, latencies=latencies, sums=1)
                        for latencies in (lambda number: 1, lambda number: 0)
                    ),
                    says="Two things: each exchange takes a latency, too, besides the time of its "
                    "bytes; and a step has two sums over all devices.",
                ),
                "half-of-the-sums": Mistake(
                    partial(_fastest, messages=lambda n: np.log2(n) - 1),
                    partial(_fastest, messages=lambda n: np.log2(n) / 2),
                    says="A sum takes too few messages here. Expected: log2(n) for each of the two "
                    "sums, one after the other.",
                ),
                "one-message-more": Mistake(
                    partial(_fastest, messages=lambda n: np.log2(n) + 1),
                    says="A sum takes one message too many here. Expected: log2(n).",
                ),
                "sums-of-one-message": Mistake(
                    partial(_fastest, messages=lambda n: 1),
                    says="A sum counts as one message. Expected: log2(n), one after the other.",
                ),
                "natural-logarithm": Mistake(
                    partial(_fastest, messages=np.log),
                    says="The natural logarithm is smaller than log2, by a factor of 0.7. "
                    "Expected: log2(n) messages for a sum.",
                ),
                "logarithm-of-the-halo": Mistake(
                    lambda counts, devices, halo, *machine: _fastest(counts, halo, halo, *machine),
                    says="A sum takes log2(halo) messages here. Expected: log2 of the number of "
                    "devices.",
                ),
                "the-longer-alone": Mistake(
                    partial(_fastest, together=max),
                    says="A step takes as long as its exchanges or its sums here, whichever is "
                    "longer. They come one after the other, so their times add up.",
                ),
                "one-step-alone": Mistake(
                    partial(_fastest, per_step=True),
                    says="This is always the method whose single step costs less. A solve has many "
                    "steps.",
                ),
                "four-times-the-bytes": Mistake(
                    partial(_fastest, sends=4),
                    says="The halo counts several times. halo is already in bytes, and the four "
                    "messages of an exchange leave at the same time.",
                ),
                "four-exchanges": Mistake(
                    partial(_fastest, exchanges=lambda number: 4 * number),
                    says="Each exchange counts four times. The four messages of an exchange leave "
                    "at the same time.",
                ),
                "slowest": Mistake(
                    lambda counts, *machine: next(
                        name for name in counts if name != _fastest(counts, *machine)
                    ),
                    says="This is the method that takes the most time.",
                ),
            },
        ),
    ),
    hints=(
        "Everything is inside one shard_map body, on a device's block: the exchange of 10.9 to "
        "multiply a direction, `solve_rectangle` for z, and sums over all devices for the two "
        "inner products of a step.",
        "A block is a rectangle of points, so `solve_rectangle(residual)` in the body is block "
        "Jacobi. An inner product is `lax.psum(jnp.vdot(u, v), ('x', 'y'))`: over both axes of "
        "the mesh.",
        "In lax.fori_loop, carry u, the residual, the direction and residual @ z. Begin with "
        "jnp.zeros_like(f), f, solve_rectangle(f) and their inner product. For winner, write the "
        "seconds of one method first, and take min(counts, key=…).",
    ),
    diagnoses={
        "not-finite": "A step divides zero by zero once the residual is as good as zero. Is u the "
        "solution after one step here? It is if the system that z solves is the one that "
        "directions are multiplied by. Does block Jacobi solve for more than a device's own block, "
        "or is the stencil applied without halos?",
        "too-many-bytes": "A step multiplies by the stencil once, which takes one halo from each "
        "neighbour, and adds up two single numbers, each over both axes at once. Block Jacobi "
        "sends nothing.",
        "explicit all-gather": "To multiply, a device needs a halo. Block Jacobi needs nothing "
        "from other devices.",
        "no collective-permute": "To multiply a direction, a device needs the edges of its "
        "neighbours' blocks.",
        "no-shard-map": "Left to the compiler, it may be cheap or not. Here you decide.",
        "unknown-times": "Do a fixed number of steps, with lax.fori_loop, lax.scan or Python's "
        "for.",
    },
    about=(Requests, CommunicatesAtMost, Returns),
    weights={"pcg": 2},
)

EXERCISES: Final = (
    AUDIT, LOCAL, SLAB, PENCIL, POISSON, GRADIENTS, ELIMINATION, CYCLIC, STENCIL, PRECONDITIONER,
)  # fmt: skip
