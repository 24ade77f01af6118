"""Notebook 06: distributed matrix multiplication by hand.

A note for maintainers: what is asked for by hand is read from the exported programs. The frontier
of 6.8 is what XLA's CPU compiler makes of every choice of layouts, on JAX 0.8.2 and 0.10.2; where a
new compiler does better, answers lie beyond it, and earn full credit.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from autograder.judge import (
    AnyOf,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    MovesFewBytes,
    PlacedLike,
    RequestedCollective,
    Requests,
    WorksAtMost,
)
from autograder.programs import Argument

Axes = tuple[tuple[str, int], ...]
GRID: Final[Axes] = (("x", 4), ("y", 2))
WIDE: Final[Axes] = (("x", 2), ("y", 4))
GRIDS: Final = (GRID, WIDE)
SIZES: Final = ((16, 16, 16), (32, 8, 64))
"""Rows of A, columns of A and rows of B, columns of B: the first on GRID, the second on WIDE."""

CASES: Final = tuple(
    (*size, *(length for _, length in axes)) for size, axes in zip(SIZES, GRIDS, strict=True)
)
"""The same, with the lengths of x and y."""

BLOCKS: Final = ("0 1\n2 3\n4 5\n6 7", "0 1 2 3\n4 5 6 7")
ROWS: Final = ("0,1\n2,3\n4,5\n6,7", "0,1,2,3\n4,5,6,7")
COLUMNS: Final = ("0,2,4,6 1,3,5,7", "0,4 1,5 2,6 3,7")


def _pairs(a: Any, b: Any, meshes: Any = GRIDS, sizes: Any = SIZES) -> Any:
    """For each size and mesh, A and B laid out by specs."""
    return tuple(
        (Argument((m, k), axes, a, mode="auto"), Argument((k, n), axes, b, mode="auto"))
        for axes, (m, k, n) in zip(meshes, sizes, strict=True)
    )


def _placed(answer: str, pictures: tuple[str, str]) -> PlacedLike:
    return PlacedLike(answer, pictures[0], _shapes(), elsewhere=pictures[1:])


def _lengths(A: Any) -> tuple[int, int]:  # noqa: N803  as the notebook has them
    """The lengths of x and y where this A is laid out."""
    return next((x, y) for m, _, _, x, y in CASES if m == len(A))


def _shapes(sizes: Any = SIZES) -> tuple[tuple[int, int], ...]:
    return tuple((m, n) for m, _, n in sizes)


def _product(
    answer: str,
    arguments: Any,
    blocks: tuple[tuple[int, int, int], ...] = (),
    **mistakes: Any,
) -> Computes:
    return Computes(
        answer,
        f"{answer} must return A @ B.",
        lambda A, B: A @ B,  # noqa: N803  np.matmul has no names for its arguments
        arguments,
        {name.replace("_", "-"): mistake for name, mistake in mistakes.items()},
        under_mesh=True,
        blocks=blocks,
    )


def _share(sizes: Any = SIZES, devices: int = 8) -> tuple[int, ...]:
    """The operations of each device's part of a product, and some for what is added up."""
    return tuple(5 * m * k * n // (2 * devices) + m * n for m, k, n in sizes)


def _added_up(A: Any, B: Any, over: str) -> Any:  # noqa: N803
    """What comes of adding up whole blocks of the result, over axes along which they differ."""
    product, (x, y) = A @ B, _lengths(A)
    if "x" in over:
        product = np.tile(product.reshape(x, -1, product.shape[1]).sum(0), (x, 1))
    if "y" in over:
        product = np.tile(product.reshape(len(A), y, -1).sum(1), (1, y))
    return product


def _times(A: Any, B: Any, over: str) -> Any:  # noqa: N803
    """What comes of adding up copies of the result, over an axis along which all have the same."""
    return A @ B * np.float32(_lengths(A)["xy".index(over)])


QUIET: Final = Exercise(
    id="6.1",
    title="Three products by hand",
    afterwards="The outer dimensions of a product can be cut for free, as long as no mesh axis "
    "cuts both. Only the contracted one costs.",
    requirements=tuple(
        requirement
        for answer, a, b, pictures, over_x, over_y in (
            ("rows_by_columns", ("x", None), (None, "y"), BLOCKS, _added_up, _added_up),
            ("rows_by_copy", ("x", None), (), ROWS, _added_up, _times),
            ("copy_by_columns", (), (None, "y"), COLUMNS, _times, _added_up),
        )
        for requirement in (
            _product(
                answer,
                _pairs(a, b),
                added_over_x=lambda A, B, add=over_x: add(A, B, "x"),  # noqa: N803
                added_over_y=lambda A, B, add=over_y: add(A, B, "y"),  # noqa: N803
            ),
            _placed(answer, pictures),
            Requests(answer, ((), ())),
            CommunicatesAtMost(answer, ((), ())),
        )
    ),
    hints=(
        "The body is the same in all three: a product of what one device has. The specs differ.",
        "in_specs say how A and B are laid out already; P() is a copy for everybody.",
        "out_specs name the axes along which the blocks of the result differ, each in its "
        "dimension: rows that were cut along x come out cut along x.",
    ),
    diagnoses={
        "not-replicated": "out_specs leaves out an axis along which the blocks differ. What cuts "
        "the rows of A cuts the rows of the result, and what cuts the columns of B its columns.",
        "shape": "What shape does the body return, and along which dimensions do out_specs put "
        "these blocks together?",
        "added-over-x": "The results along x are added up. Each device has whole rows and whole "
        "columns, so its sums are whole.",
        "added-over-y": "The results along y are added up. Each device has whole rows and whole "
        "columns, so its sums are whole.",
        "all-gather": "Each device has all it needs. Is something gathered in the body, or do "
        "in_specs say otherwise than the arguments are laid out?",
        "all-reduce by hand": "Each device has whole rows and whole columns: there is nothing to "
        "add up.",
        "all-gather by hand": "Each device has all it needs.",
    },
)


def _added_first(A: Any, B: Any) -> Any:  # noqa: N803
    """What comes of adding up the blocks of A, and those of B, along y before the matmul."""
    x, y = _lengths(A)
    rows = [sum(np.split(block, y, axis=1)) for block in np.split(A, x)]
    return np.concatenate(rows) @ sum(np.split(B, y))


BY_ROWS: Final = Exercise(
    id="6.2",
    title="Blocks by rows",
    afterwards="Adding up the parts of a cut contraction is the second half of a tensor-parallel "
    "layer; Megatron-LM calls such a weight matrix row-parallel.",
    requirements=(
        _product(
            "block_by_rows",
            _pairs(("x", "y"), ("y", None)),
            tuple((x, y, 1) for *_, x, y in CASES),
            over_both=lambda A, B: _added_up(A, B, "x"),  # noqa: N803
            mean_for_sum=lambda A, B: A @ B / np.float32(_lengths(A)[1]),  # noqa: N803
            added_before_the_matmul=_added_first,
            relu_of_parts=lambda A, B: np.maximum(_parts(A, B), 0).sum(0),  # noqa: N803
            one_part_alone=AnyOf(
                (
                    lambda A, B: _parts(A, B)[0],  # noqa: N803
                    lambda A, B: _parts(A, B)[-1],  # noqa: N803
                )
            ),
        ),
        _placed("block_by_rows", ROWS),
        Requests(
            "block_by_rows",
            tuple(
                (RequestedCollective("all-reduce", 1, ("y",), 4 * m * n // x),)
                for m, _, n, x, _ in CASES
            ),
        ),
        WorksAtMost("block_by_rows", _share()),
    ),
    hints=(
        "A device has a block of A's columns, and just the rows of B that go with them.",
        "So its product is a part of each sum. Over which axis do the parts have to be added up? "
        "Over the one that cuts the contracted dimension.",
        "psum over y, and the result is cut along x only.",
    ),
    diagnoses={
        "not-replicated": "The parts of the sums differ along y, the axis that cuts the contracted "
        "dimension.",
        "over-both": "The sum runs over x too, along which the devices have different rows.",
        "shape": "What shape does the body return, and along which dimensions do out_specs put "
        "these blocks together? The rows of A are sharded over x, and so are those of the result.",
        "mean-for-sum": "It is as many times too small as there are devices along y: is a mean "
        "taken where a sum is needed?",
        "added-before-the-matmul": "The blocks of A are added up, and those of B, before the "
        "matmul. What has to be added up are the products of the blocks.",
        "relu-of-parts": "Each device's part has lost its negative values before it is added up.",
        "one-part-alone": "Only the part of one device along y is there. The parts of all of them "
        "are to be added up.",
        "other-axes": "Along which axis do the devices have different parts of one sum? Along the "
        "one that cuts the contracted dimension.",
        "all-gather by hand": "The parts need only be added up.",
        "no all-reduce": "Add up the parts with an all-reduce in the body.",
        "too-much-work": "Each device can leave all but its own part of the sums to others.",
    },
    about=(Requests, WorksAtMost),
)


def _sliced(A: Any, B: Any, start: Callable[[int, int, int], int]) -> Any:  # noqa: N803
    """What comes of a slice of B that begins at start(i, j, size) on device (i, j).

    A slice that would reach over the end begins earlier, as with lax.dynamic_slice.
    """
    x, y = _lengths(A)
    size = len(B) // y
    made = []
    for i, rows in enumerate(np.split(A, x)):
        starts = [min(start(i, j, size), len(B) - size) for j in range(y)]
        parts = np.split(rows, y, axis=1)
        made.append(sum(a @ B[s : s + size] for a, s in zip(parts, starts, strict=True)))
    return np.concatenate(made)


def _parts(A: Any, B: Any) -> Any:  # noqa: N803
    """The parts of the sums that A's columns on each device along y make."""
    n = _lengths(A)[1]
    return np.stack([a @ b for a, b in zip(np.split(A, n, axis=1), np.split(B, n), strict=True)])


BY_COPY: Final = Exercise(
    id="6.3",
    title="Blocks by a copy",
    afterwards="Whether it is cheaper to gather a factor or to add up parts depends only on "
    "shapes: compare the block that is gathered with the block that is summed.",
    requirements=(
        _product(
            "block_by_copy",
            _pairs(("x", "y"), ()),
            tuple((x, y, 1) for *_, x, y in CASES),
            counted_twice=lambda A, B: _times(A, B, "y"),  # noqa: N803
            mean_for_sum=lambda A, B: A @ B / np.float32(_lengths(A)[1]),  # noqa: N803
            at_its_number=lambda A, B: _sliced(A, B, lambda i, j, size: j),  # noqa: N803
            first_rows=lambda A, B: _sliced(A, B, lambda i, j, size: 0),  # noqa: N803
            by_its_place_along_x=AnyOf(
                (
                    lambda A, B: _sliced(A, B, lambda i, j, size: i * size),  # noqa: N803
                    lambda A, B: _sliced(A, B, lambda i, j, size: i),  # noqa: N803
                )
            ),
            times_the_devices=AnyOf(
                (
                    lambda A, B: _sliced(  # noqa: N803
                        A, B, lambda i, j, size: j * _lengths(A)[0]
                    ),
                    lambda A, B: _sliced(  # noqa: N803
                        A, B, lambda i, j, size: j * _lengths(A)[1]
                    ),
                )
            ),
            one_block_too_far=AnyOf(
                (
                    lambda A, B: _sliced(A, B, lambda i, j, size: (j + 1) * size),  # noqa: N803
                    lambda A, B: _sliced(  # noqa: N803
                        A, B, lambda i, j, size: (j + 1) * size % len(B)
                    ),
                )
            ),
            in_the_opposite_order=AnyOf(
                (
                    lambda A, B: _sliced(  # noqa: N803
                        A, B, lambda i, j, size: len(B) - (j + 1) * size
                    ),
                    lambda A, B: _sliced(  # noqa: N803
                        A, B, lambda i, j, size: len(B) - j * size
                    ),
                )
            ),
            over_both=lambda A, B: _added_up(A, B, "x"),  # noqa: N803
            largest_part=lambda A, B: _parts(A, B).max(0),  # noqa: N803
            mixed_columns=lambda A, B: _mixed_columns(A, B),  # noqa: N803  defined below
        ),
        _placed("block_by_copy", ROWS),
        Requests(
            "block_by_copy",
            never=("all-to-all", "collective-permute", "reduce-scatter"),
            some=("all-reduce",),
        ),
        CommunicatesAtMost(
            "block_by_copy",
            tuple(
                (
                    Budget("all-gather", ("y",), 4 * m * k // x),
                    Budget("all-reduce", ("y",), 4 * m * n // x),
                )
                for m, k, n, x, _ in CASES
            ),
        ),
    ),
    hints=(
        "A's columns are cut, and B is whole: the two blocks do not fit together as they are.",
        "Two ways: bring A's columns together (all_gather over y along dimension 1, tiled), or "
        "take the rows of B that go with yours, and add up.",
        "For the second: lax.dynamic_slice_in_dim(B, lax.axis_index('y') * size, size), then psum "
        "over y. For the first, JAX does not know that all devices along y end up with the same: "
        "finish with lax.pmean over y.",
    ),
    diagnoses={
        "counted-twice": "It is as many times too large as there are devices along y: does each "
        "of them have the whole sum already, before they are added up?",
        "mean-for-sum": "It is as many times too small as there are devices along y: is a mean "
        "taken where a sum is needed?",
        "at-its-number": "The slice of B begins at the device's number along y. How many rows do "
        "the devices before it have?",
        "first-rows": "Every device takes the first rows of B. Which rows go with a device's "
        "columns of A?",
        "by-its-place-along-x": "Which rows of B a device takes is decided by its place along x. "
        "A's columns are cut along y.",
        "times-the-devices": "The slice of B begins at the device's number, times a number of "
        "devices. How many rows do the devices before it have?",
        "one-block-too-far": "The slice of B begins one block too far on. The first device along y "
        "has number 0, and its rows of B begin at 0.",
        "in-the-opposite-order": "The slices of B are taken from its end: the first device along y "
        "has the last rows. It has the first columns of A.",
        "over-both": "The sum runs over x too, along which the devices have different rows.",
        "largest-part": "Of the devices' parts of each sum the largest is taken. They have to be "
        "added up.",
        "mixed-columns": "The columns of A are mixed up: where blocks are stacked and then "
        "reshaped, their rows come one after the other, and not side by side. Is tiled=True set?",
        "blocks-do-not-fit": "As they come, A's block has some of the columns, those of one device "
        "along y, and B all rows.",
        "not-replicated": "Along y each device has a part of the sum: are they added up? Along x "
        "each has rows of its own. After a gather over x all have the same, but JAX does not know.",
        "all-gather": "Only A's columns along y are missing, and no more than these may be "
        "gathered.",
        "no all-reduce": "Either way ends in an all-reduce over y: of the parts, or as the proof "
        "that the check wants. Does the compiler do it here, or is the check off?",
        "added-by-the-compiler": "Which of the two ways it is, you decide here, and in the body.",
        "no-shard-map": "Which of the two ways it is, you decide here, and not the compiler.",
    },
    about=(Requests, CommunicatesAtMost),
)


def _own_rows(A: Any, B: Any) -> Any:  # noqa: N803
    """What comes of keeping, on each device along x, its rows of its own part of the sums."""
    n = _lengths(A)[0]
    parts = zip(np.split(A, n, axis=1), np.split(B, n), strict=True)
    return np.concatenate([np.split(a @ b, n)[i] for i, (a, b) in enumerate(parts)])


def _scattered_first(A: Any, B: Any) -> Any:  # noqa: N803
    """Multiply a reduce-scatter of A's blocks by each device's block of B: the steps exchanged."""
    n = _lengths(A)[0]
    total = sum(np.split(A, n, axis=1))
    return np.concatenate([a @ b for a, b in zip(np.split(total, n), np.split(B, n), strict=True)])


SCATTERED: Final = Exercise(
    id="6.4",
    title="Keep your piece",
    afterwards="XLA looks for an all-reduce of which each device keeps a slice, and on GPUs and "
    "TPUs it makes one reduce-scatter of the two.",
    requirements=(
        _product(
            "scattered",
            _pairs((None, "x"), ("x", None)),
            tuple((x, x, 1) for *_, x, _ in CASES),
            mean_for_sum=lambda A, B: A @ B / np.float32(_lengths(A)[0]),  # noqa: N803
            relu_of_parts=lambda A, B: sum(  # noqa: N803
                np.maximum(a @ b, 0)
                for a, b in zip(
                    np.split(A, _lengths(A)[0], axis=1), np.split(B, _lengths(A)[0]), strict=True
                )
            ),
            own_part_alone=_own_rows,
            scattered_before_the_matmul=_scattered_first,
        ),
        _placed("scattered", ROWS),
        Requests(
            "scattered",
            tuple(
                (RequestedCollective("reduce-scatter", 1, ("x",), 4 * m * n),) for m, _, n in SIZES
            ),
        ),
    ),
    hints=(
        "Each device's product is a part of every element of the result, and it is to keep a "
        "quarter of the rows.",
        "lax.psum_scatter adds up and cuts. tiled=True keeps the rank; scatter_dimension says "
        "which dimension is cut.",
        "lax.psum_scatter(A @ B, 'x', tiled=True), and out_specs that put rows together.",
    ),
    diagnoses={
        "shape": "What shape does the body return? Which dimension is scattered, and which do "
        "out_specs put together?",
        "untiled": "Here the rows of the product have to be cut. Which dimension do you scatter, "
        "and is tiled=True set?",
        "scattered-before-the-matmul": "The blocks of A are added up before the matmul. What has "
        "to be added up are the products of the blocks.",
        "mean-for-sum": "It is as many times too small as there are devices along x: is a mean "
        "taken where a sum is needed?",
        "relu-of-parts": "Each device's part has lost its negative values before it is added up.",
        "own-part-alone": "Each device keeps its rows of its own part of the sums: the parts of "
        "the other devices are missing.",
        "no reduce-scatter": "A reduce-scatter adds up, and leaves each device its piece: half of "
        "what it costs to have the sum everywhere.",
        "not-replicated": "The parts of the sums were not added up over x. Is another axis named, "
        "or none? The parts differ along the axis that shards the contracted dimension.",
    },
    about=(Requests,),
)


def _mixed_columns(A: Any, B: Any) -> Any:  # noqa: N803
    """What comes of blocks of A that are stacked and reshaped, and not put side by side."""
    x, y = _lengths(A)
    strips = [np.stack(np.split(rows, y, axis=1)).reshape(len(rows), -1) for rows in np.split(A, x)]
    return np.concatenate(strips) @ B


def _mixed_rows(A: Any, B: Any) -> Any:  # noqa: N803
    """The product if B's blocks are gathered side by side, and reshaped."""
    x, y = _lengths(A)
    strips = [np.stack(np.split(b, x), axis=1).reshape(len(B), -1) for b in np.split(B, y, axis=1)]
    return A @ np.concatenate(strips, axis=1)


def _blocks_transposed(A: Any, B: Any) -> Any:  # noqa: N803
    """The result where each device transposes its block."""
    x, y = _lengths(A)
    rows = (np.split(strip, y, axis=1) for strip in np.split(A @ B, x))
    return np.block([[block.T for block in row] for row in rows])


BY_BLOCKS: Final = Exercise(
    id="6.5",
    title="Blocks by blocks",
    afterwards="This is the SUMMA algorithm in a single step. In several steps, over slices of the "
    "contracted dimension, it need not hold whole rows and columns of blocks.",
    requirements=(
        _product(
            "block_by_block",
            _pairs(("x", "y"), ("x", "y")),
            tuple((x, max(x, y), y) for *_, x, y in CASES),
            mixed_columns=_mixed_columns,
            mixed_rows=_mixed_rows,
            blocks_transposed=_blocks_transposed,
            added_over_x=lambda A, B: _added_up(A, B, "x"),  # noqa: N803
            added_over_y=lambda A, B: _added_up(A, B, "y"),  # noqa: N803
            first_columns_only=lambda A, B: (  # noqa: N803
                A[:, : len(B) // _lengths(A)[1]] @ B[: len(B) // _lengths(A)[1]]
            ),
        ),
        _placed("block_by_block", BLOCKS),
        Requests(
            "block_by_block",
            tuple(
                (
                    RequestedCollective("all-gather", 1, ("y",), 4 * m * k // x),
                    RequestedCollective("all-gather", 1, ("x",), 4 * k * n // y),
                )
                for m, k, n, x, y in CASES
            ),
        ),
        WorksAtMost("block_by_block", _share()),
    ),
    hints=(
        "For its block of the result a device needs whole rows of A and whole columns of B: not "
        "all of A, and not all of B.",
        "The rows of A that it needs lie along y; the columns of B that it needs lie along x.",
        "all_gather(A, 'y', axis=1, tiled=True) and all_gather(B, 'x', axis=0, tiled=True), and "
        "then one product.",
    ),
    diagnoses={
        "one-too-many": "One all-gather over y and one over x bring all that the device needs.",
        "too-much-work": "Its own block of the result is all that a device has to compute.",
        "no all-gather": "Bring what is missing with two all-gathers in the body.",
        "mixed-columns": "The columns of A are mixed up: where blocks are stacked and then "
        "reshaped, their rows come one after the other, and not side by side.",
        "mixed-rows": "The rows of B are mixed up: its blocks belong one below the other. Does the "
        "all_gather of B have axis=0 and tiled=True?",
        "blocks-transposed": "Each device returns its block of the result transposed. Which "
        "dimension of the block has the rows?",
        "added-over-x": "The blocks of the result are added up over x. Each device has made its "
        "own block from whole rows and whole columns, so its sums are whole.",
        "added-over-y": "The blocks of the result are added up over y. Each device has made its "
        "own block from whole rows and whole columns, so its sums are whole.",
        "first-columns-only": "Of each sum there is only the part that A's first block of columns "
        "makes. Do A's blocks stand below each other? They belong side by side: axis=1.",
        "sends-too-much": "A's missing columns lie along y, and B's missing rows along x: are they "
        "gathered the other way round?",
        "other-products": "Does each column of A meet the row of B that has the same number?",
        "blocks-do-not-fit": "A's block has some of the columns, B's some of the rows; both "
        "must be whole along that dimension. A's columns lie along y, B's rows along x.",
    },
    about=(Requests,),
)

SQUARE: Final[Axes] = (("x", 2), ("y", 2))
CANNON_SIZES: Final = ((8, 256, 12), (12, 384, 8))
"""The contracted dimension is long, so that who holds whole rows and columns holds much."""

Which = Callable[[int, int], tuple[int, int] | None]
"""Which block a device has, by the device's row and column; None where it holds zeros."""


def _skewed_a(i: int, j: int) -> tuple[int, int] | None:
    return i, (i + j) % 2


def _skewed_b(i: int, j: int) -> tuple[int, int] | None:
    return (i + j) % 2, j


def _rounds(A: Any, B: Any, *rounds: tuple[Which, Which]) -> Any:  # noqa: N803
    """The sum of the products of the blocks that each of 2 × 2 devices has in each round."""
    a, b = ([np.split(rows, 2, axis=1) for rows in np.split(each, 2)] for each in (A, B))

    def product(which_a: Which, which_b: Which, i: int, j: int) -> Any:
        of_a, of_b = which_a(i, j), which_b(i, j)
        if of_a is None or of_b is None:
            return a[0][0] @ b[0][0] * np.float32(0)
        return a[of_a[0]][of_a[1]] @ b[of_b[0]][of_b[1]]

    return np.block(
        [[sum(product(*each, i, j) for each in rounds) for j in range(2)] for i in range(2)]
    )


def _cannon(first_a: Which, first_b: Which, number: int = 2) -> Callable[..., Any]:
    """Cannon's algorithm from a first round on: then A's blocks move left, and B's up."""

    def left(i: int, j: int) -> tuple[int, int] | None:
        return first_a(i, (j + 1) % 2)

    def up(i: int, j: int) -> tuple[int, int] | None:
        return first_b((i + 1) % 2, j)

    rounds = [(first_a, first_b), (left, up), (first_a, first_b)][:number]
    return lambda A, B: _rounds(A, B, *rounds)  # noqa: N803


CANNON: Final = Exercise(
    id="6.6",
    title="Cannon",
    afterwards="Lynn Cannon found this in 1969, for processors that could talk to their neighbours "
    "only. TPUs are still wired as such a grid.",
    requirements=(
        _product(
            "cannon", _pairs(("x", "y"), ("x", "y"), (SQUARE,) * 2, CANNON_SIZES), ((2, 2, 2),) * 2,
            without_skew=_cannon(lambda i, j: (i, j), lambda i, j: (i, j)),
            first_step_only=_cannon(_skewed_a, _skewed_b, 1),
            once_too_often=_cannon(_skewed_a, _skewed_b, 3),
            skew_exchanged=_cannon(_skewed_b, _skewed_a),
            one_skew_only=AnyOf(
                (
                    _cannon(_skewed_a, lambda i, j: (i, j)),
                    _cannon(lambda i, j: (i, j), _skewed_b),
                )
            ),
            other_row_skewed=AnyOf(
                (
                    _cannon(lambda i, j: (i, (1 - i + j) % 2), _skewed_b),
                    _cannon(_skewed_a, lambda i, j: ((1 + i - j) % 2, j)),
                )
            ),
            open_skew=_cannon(
                lambda i, j: _skewed_a(i, j) if i else None,
                lambda i, j: _skewed_b(i, j) if j else None,
            ),
            last_step_only=lambda A, B: _rounds(  # noqa: N803
                A, B, (lambda i, j: _skewed_a(i, 1 - j), lambda i, j: _skewed_b(1 - i, j))
            ),
            moves_exchanged=lambda A, B: _rounds(  # noqa: N803
                A, B, (_skewed_a, _skewed_b),
                (lambda i, j: _skewed_a(1 - i, j), lambda i, j: _skewed_b(i, 1 - j)),
            ),
            only_one_moves=lambda A, B: _rounds(  # noqa: N803
                A, B, (_skewed_a, _skewed_b), (lambda i, j: _skewed_a(i, 1 - j), _skewed_b)
            ),
        ),
        PlacedLike("cannon", "0 1\n2 3", _shapes(CANNON_SIZES)),
        Requests(
            "cannon", never=("all-gather", "all-reduce", "reduce-scatter", "all-to-all")
        ),
        CommunicatesAtMost(
            "cannon",
            tuple((Budget("collective-permute", bytes=3 * m * k + 3 * k * n),)
                  for m, k, n in CANNON_SIZES),
        ),
        FitsIn("cannon", tuple(7 * (m * k + k * n) // 2 for m, k, n in CANNON_SIZES)),
        WorksAtMost("cannon", _share(CANNON_SIZES, 4)),
    ),
    hints=(
        "In each round a device multiplies the block of A and the block of B that it has at the "
        "moment, and adds. Then A's blocks move one to the left, B's one up.",
        "That is right only if what a device has goes together from the start: row i of A's blocks "
        "has to be moved i to the left first, column j of B's blocks j up. On 2 × 2: row 1, and "
        "column 1.",
        "lax.ppermute takes a tuple of axes and numbers the devices row by row: over ('x', 'y'), "
        "[(0, 0), (1, 1), (2, 3), (3, 2)] exchanges the blocks of row 1. Give every device a "
        "pair: one that is sent nothing receives zeros.",
    ),
    diagnoses={
        "without-skew": "The blocks do not go together: before the first product, row 1 of A's "
        "blocks has to move one to the left, and column 1 of B's one up.",
        "first-step-only": "That is the first of two rounds.",
        "last-step-only": "That is the second of the two rounds alone: the products of both are to "
        "be added up.",
        "moves-exchanged": "The moves between the rounds are exchanged: it is A's blocks that move "
        "to the left, along y, and B's that move up, along x.",
        "once-too-often": "There is a round too many: the first two blocks are multiplied again.",
        "skew-exchanged": "The skews are exchanged: of A's blocks it is row 1 that moves, of B's "
        "column 1.",
        "one-skew-only": "Only one of the two matrices is skewed before the first product. Both "
        "have to be: row 1 of A's blocks, and column 1 of B's.",
        "other-row-skewed": "One of the skews moves row 0 or column 0, which should stay where it "
        "is: of A's blocks row 1 moves, and of B's column 1.",
        "open-skew": "Who keeps its own block needs a pair too, such as (0, 0), or it holds zeros.",
        "only-one-moves": "In the second round B's blocks are still where they were in the first.",
        "other-products": "Draw the four devices, and what each has in each round. Do the blocks "
        "that meet belong together, and does every device have two?",
        "all-gather by hand": "Only neighbours exchange blocks here.",
        "all-reduce by hand": "Each device makes its block of the result by itself, in two rounds.",
        "too-many-bytes": "The skew and a move after each round: three moves of A's blocks and "
        "three of B's are enough, and the last is not needed.",
        "too-much-memory": "Collecting whole rows of A and whole columns of B takes more memory "
        "than letting blocks travel.",
    },
    about=(Requests, CommunicatesAtMost, FitsIn),
)  # fmt: skip

LINES: Final = (8, 4)

OVERLAPS: Final = {8: (2, 512, 3), 4: (3, 768, 5)}
"""On each line: the rows of A's blocks, the contracted dimension, and the columns of B's blocks."""


def _rows_on_lines() -> Any:
    """A cut in rows, B in columns, on a line of eight and on one of four."""
    return tuple(
        (
            Argument((n * rows, k), (("x", n),), ("x", None), mode="auto"),
            Argument((k, n * columns), (("x", n),), (None, "x"), mode="auto"),
        )
        for n, (rows, k, columns) in OVERLAPS.items()
    )


def _from(A: Any, B: Any, source: Callable[[int, int, int], int | None]) -> Any:  # noqa: N803
    """On device i of n, in place j of its rows, the product with A's block source(i, j, n)."""
    n = next(n for n, (rows, _, _) in OVERLAPS.items() if n * rows == len(A))
    product = [np.split(columns, n) for columns in np.split(A @ B, n, axis=1)]
    zeros = np.zeros_like(product[0][0])
    sources = [[source(i, j, n) for j in range(n)] for i in range(n)]
    return np.concatenate(
        [
            np.concatenate([zeros if s is None else product[i][s] for s in row])
            for i, row in enumerate(sources)
        ],
        axis=1,
    )


def _at_its_number(A: Any, B: Any) -> Any:  # noqa: N803
    """Products written, as they are made, at the number of their block, not that many rows on."""
    n, rows = next((n, r) for n, (r, _, _) in OVERLAPS.items() if n * r == len(A))
    product = [np.split(columns, n) for columns in np.split(A @ B, n, axis=1)]
    made = [np.zeros((len(A), each[0].shape[1]), A.dtype) for each in product]
    for i in range(n):
        for s in range(n):
            block = (i - s) % n
            made[i][block : block + rows] = product[i][block]
    return np.concatenate(made, axis=1)


def _products_added(A: Any, B: Any) -> Any:  # noqa: N803
    """What comes of adding up the products with all blocks of A, in place of joining them."""
    n = next(n for n, (rows, _, _) in OVERLAPS.items() if n * rows == len(A))
    return sum(np.split(A, n)) @ B


OVERLAPPED: Final = Exercise(
    id="6.7",
    title="Multiply while it comes",
    afterwards="XLA can do this by itself on TPUs, where it is called a collective matmul: the "
    "products hide most of the time of the all-gather.",
    requirements=(
        _product(
            "overlapped",
            _rows_on_lines(),
            order_of_arrival=lambda A, B: _from(A, B, lambda i, j, n: (i - j) % n),  # noqa: N803
            against_the_ring=lambda A, B: _from(  # noqa: N803
                A, B, lambda i, j, n: (2 * i - j) % n
            ),
            open_ring=lambda A, B: _from(  # noqa: N803
                A, B, lambda i, j, n: j if j <= i else None
            ),
            one_is_missing=lambda A, B: _from(  # noqa: N803
                A, B, lambda i, j, n: None if j == (i + 1) % n else j
            ),
            at_its_number=_at_its_number,
            own_rows_missing=lambda A, B: _from(  # noqa: N803
                A, B, lambda i, j, n: None if j == i else j
            ),
            products_added=AnyOf(
                (
                    _products_added,
                    lambda A, B: np.tile(  # noqa: N803
                        _products_added(A, B), (len(A) // len(_products_added(A, B)), 1)
                    ),
                )
            ),
            own_block_again=AnyOf(
                (
                    lambda A, B: _from(  # noqa: N803
                        A, B, lambda i, j, n: i if j == i else (i - 1) % n
                    ),
                    lambda A, B: _from(  # noqa: N803
                        A, B, lambda i, j, n: i if j == 0 else (i - 1) % n
                    ),
                )
            ),
        ),
        PlacedLike(
            "overlapped",
            "0 1 2 3 4 5 6 7",
            tuple((n * rows, n * columns) for n, (rows, _, columns) in OVERLAPS.items()),
            elsewhere=("0 1 2 3",),
        ),
        Requests(
            "overlapped",
            tuple(
                (RequestedCollective("collective-permute", n - 1, ("x",), 4 * rows * k, True),)
                for n, (rows, k, _) in OVERLAPS.items()
            ),
        ),
        FitsIn(
            "overlapped",
            # a block of B, and of A's one that is there, one that comes and two and a half more
            tuple(4 * k * columns + 18 * rows * k for rows, k, columns in OVERLAPS.values()),
        ),
        WorksAtMost(
            "overlapped",
            tuple(5 * n * rows * k * columns // 2 for n, (rows, k, columns) in OVERLAPS.items()),
        ),
    ),
    hints=(
        "It is ring_all_gather of 5.5 with a product at each step.",
        "The block that you hold after s steps is that of device (i - s) % n. Its product with "
        "your columns of B is that block of rows of your result.",
        "Stack the n products, put them in order by indexing with (i - arange(n)) % n, and join "
        "them to one block.",
    ),
    diagnoses={
        "order-of-arrival": "All rows are there, in the order in which they came. Put the block "
        "that came after s steps in the place of device (i - s) % n.",
        "against-the-ring": "The permutation goes one way round, and the places are counted the "
        "other way.",
        "open-ring": "The rows that should come round from the last device to the first are zero: "
        "a device that is sent nothing receives zeros. Does every device send to the next?",
        "own-rows-missing": "Each device's own rows are zeros: the block of A that it has from the "
        "start is never multiplied.",
        "products-added": "The products with the blocks of A are added up. Each is a block of rows "
        "of the result, and they have to be joined.",
        "own-block-again": "In every step the block of A that came is that of the device before. "
        "Send on what was received last, and not the device's own block each time.",
        "one-is-missing": "The rows of the device furthest away are missing: is there a step too "
        "few?",
        "at-its-number": "Each product begins in the row that is its block's number, so that they "
        "overlap. How many rows stand before the block of device i?",
        "too-much-memory": "There is no room for all of A. A block that has been multiplied and "
        "sent on is not needed any more.",
        "all-gather by hand": "An all-gather waits until everything is there. Send round what is "
        "needed next, and multiply what is there.",
        "no collective-permute": "The blocks of A are to go round by permutations.",
        "one-too-many": "A device's own block need not come: n - 1 steps bring the others. In "
        "lax.scan and lax.fori_loop, n turns send n times, even where nobody uses the last block.",
        "too-seldom": "There are n - 1 other blocks, and each step brings one.",
        "sends-too-much": "One block of A is all that has to go round in a step.",
        "not-to-the-neighbour": "What is further away comes on from neighbour to neighbour.",
        "too-much-work": "Multiply each block of A once on each device.",
    },
    about=(Requests, FitsIn),
)


def _chain(A: Any, B: Any, C: Any, D: Any) -> Any:  # noqa: N803
    return A @ B @ C @ D


FRONTIER: Final = (
    # Bytes held and bytes moved on each device, over all choices of four layouts on the mesh of
    # 4 × 2: the best of each, found by compiling nine layouts of each of the four.
    (8192, 24576), (10240, 20480), (14336, 16384), (18432, 12288), (20480, 8192), (28672, 4096),
    (45056, 0),
)  # fmt: skip

CHAIN: Final = Exercise(
    id="6.8",
    title="Four matrices and a cap",
    afterwards="Systems such as Alpa choose layouts for whole models by solving this problem as an "
    "integer program.",
    requirements=tuple(
        MovesFewBytes(
            answer,
            f"shardings (of A, of B, of C, of D) that hold at most {cap:,} bytes on each device, "
            f"and for which A @ B @ C @ D moves as few as can be",
            _chain,
            ((64, 64),) * 4,
            cap,
            FRONTIER,
            slack=4096,
            given=36_864,
        )
        for answer, cap in (("roomy", 30_000), ("tight", 12_000))
    ),
    hints=(
        "A matrix of 64 × 64 takes 16,384 bytes. A copy on every device holds all of them, a "
        "layout along y half, along x a quarter, along both an eighth. Add up before you choose.",
        "For roomy: each product should find what it needs. If A is cut into rows, what layout has "
        "A @ B when B is cut along its columns, and what does that ask of C? A contracted "
        "dimension that is cut on both sides along the same axis costs one all-reduce.",
        "For tight, almost everything has to be cut along both axes. Which dimension lies along x "
        "and which along y still matters: try P('x', 'y') and P('y', 'x') in turn, and one "
        "matrix along x alone.",
    ),
    diagnoses={
        "over-the-cap": "Copies save moves, and this is more of them than there is room for.",
        "could-move-less": "Look at what is gathered or added up: which matrices, over which axis, "
        "and whether another cut of a neighbour would make that needless.",
        "room-left": "Copies save moves, and there is room for some: which product would "
        "find what it needs if a matrix were cut less?",
        "number-of-shardings": "An answer is four shardings, in the order of the product.",
        "devices-unused": "All eight devices are to hold a part.",
    },
)

STEPS: Final = 5

WIDTHS: Final = {8: (16, 4), 4: (12, 6)}
"""On each line: the rows of A and of V, and the columns of V's blocks."""


def _iterated(A: Any, V: Any, steps: int = STEPS, inside: float = 4, outside: float = 1) -> Any:  # noqa: N803
    for _ in range(steps):
        V = np.tanh(A @ V / np.float32(inside)) / np.float32(outside)  # noqa: N806
    return V.mean()


def _multiplied(A: Any, V: Any) -> Any:  # noqa: N803
    """V multiplied by A / 4 in each round, without tanh."""
    for _ in range(STEPS):
        V = A @ V / np.float32(4)  # noqa: N806
    return V


def _columns(V: Any) -> int:  # noqa: N803
    return next(columns for rows, columns in WIDTHS.values() if rows == len(V))


QUIET_LOOP: Final = Exercise(
    id="6.9",
    title="A loop without communication",
    afterwards="Methods such as local SGD rest on this: devices that need not talk at every step "
    "can be far apart.",
    requirements=(
        Computes(
            "iterate",
            f"iterate(A, V) must do V = tanh(A @ V / 4) {STEPS} times, and return the mean of V.",
            lambda A, V: _iterated(A, V),  # noqa: N803
            tuple(
                (
                    Argument((rows, rows), (("x", n),), (), mode="auto"),
                    Argument((rows, columns * n), (("x", n),), (None, "x"), mode="auto"),
                )
                for n, (rows, columns) in WIDTHS.items()
            ),
            {
                "sum-for-mean": lambda A, V: (  # noqa: N803
                    _iterated(A, V) * np.float32(V.shape[1] // _columns(V))
                ),
                "sum-of-all": lambda A, V: _iterated(A, V) * np.float32(V.size),  # noqa: N803
                "mean-of-sums": lambda A, V: (  # noqa: N803
                    _iterated(A, V) * np.float32(len(V) * _columns(V))
                ),
                "of-all-rounds": lambda A, V: np.mean(  # noqa: N803
                    [_iterated(A, V, steps) for steps in range(1, STEPS + 1)]
                ),
                "once-too-often": lambda A, V: _iterated(A, V, STEPS + 1),  # noqa: N803
                "once-too-seldom": lambda A, V: _iterated(A, V, STEPS - 1),  # noqa: N803
                "divided-outside": lambda A, V: _iterated(A, V, inside=1, outside=4),  # noqa: N803
                "not-divided": lambda A, V: _iterated(A, V, inside=1),  # noqa: N803
                "multiplied-by-4": lambda A, V: _iterated(A, V, inside=1 / 4),  # noqa: N803
                "of-the-transpose": lambda A, V: _iterated(A.T, V),  # noqa: N803
                "one-round": lambda A, V: _iterated(A, V, 1),  # noqa: N803
                "no-tanh-in-the-loop": AnyOf(
                    (
                        lambda A, V: np.tanh(_multiplied(A, V)).mean(),  # noqa: N803
                        lambda A, V: _multiplied(A, V).mean(),  # noqa: N803
                    )
                ),
            },
            under_mesh=True,
        ),
        Requests("iterate", ((RequestedCollective("all-reduce", 1, ("x",), 4),),) * 2),
        CommunicatesAtMost("iterate", ((Budget("all-reduce", ("x",), 4),),) * 2),
    ),
    hints=(
        "Column j of the next V needs column j of this V, and all of A. Who has these?",
        "So the loop runs in the body, on one device's columns. lax.fori_loop or lax.scan.",
        "After the loop each device takes the mean of its own columns, and lax.pmean makes one of "
        "these.",
    ),
    diagnoses={
        "values": "Does each round use A unchanged, and divide A @ V by 4 before tanh? Is the mean "
        "taken once, after the last round?",
        "too-often": "One all-reduce, after the loop, is enough. Is there one in the loop?",
        "one-too-many": "Only one number has to be reduced. Every device knows how many elements "
        "there are: the block has a size, and lax.axis_size is the number of blocks.",
        "sum-for-mean": "It is as many times too large as there are devices: are the devices' "
        "means added up?",
        "sum-of-all": "That is the sum of all elements.",
        "mean-of-sums": "It is as many times too large as a device has elements: are the devices' "
        "sums averaged?",
        "of-all-rounds": "That is the mean over all rounds; expected that of the last V.",
        "once-too-often": f"That is what comes of {STEPS + 1} rounds.",
        "once-too-seldom": f"That is what comes of {STEPS - 1} rounds.",
        "one-round": "That is what comes of one round. Does each round start from the V of the "
        "round before?",
        "no-tanh-in-the-loop": "In the loop, V is multiplied and divided, and tanh is missing: "
        "each round takes it.",
        "divided-outside": "That is the result of tanh(A @ V) / 4: the 4 belongs inside tanh.",
        "not-divided": "That is the result of tanh(A @ V), without the 4.",
        "multiplied-by-4": "That is the result of tanh(A @ V * 4): the 4 divides.",
        "blocks-do-not-fit": "A comes whole, and V in columns: do in_specs say so?",
        "of-the-transpose": "That is the result with the transpose of A.",
        "all-gather": "No column of V needs another. Is something gathered in the body, or do "
        "in_specs say otherwise than the arguments are laid out?",
        "not-replicated": "Each device has the mean of its own columns.",
        "varying-mismatch": "In A @ V no column needs another, so there is nothing to add up in "
        "the loop.",
        "carry-changes": "A device needs all of A.",
        "no all-reduce": "Make the mean of the devices' numbers with an all-reduce in the body.",
        "shape": "The mean of all elements is one number.",
        "all-gather by hand": "No column needs another.",
        "sends-too-much": "Reduce to a number first.",
    },
)

EXERCISES: Final = (
    QUIET, BY_ROWS, BY_COPY, SCATTERED, BY_BLOCKS, CANNON, OVERLAPPED, CHAIN, QUIET_LOOP,
)  # fmt: skip
