"""Notebook 06: distributed matmuls with explicit collectives.

The explicit collectives are read from the exported programs. The frontier of 6.8 is what XLA's CPU
compiler needs for every choice of layouts, on JAX 0.8.2 and 0.10.2. If a new compiler does better,
answers lie beyond the frontier, and earn full credit.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from autograder.artifacts import Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    Mistake,
    MovesFewBytes,
    PlacedLike,
    RequestedCollective,
    Requests,
    WorksAtMost,
)

Axes = tuple[tuple[str, int], ...]
GRID: Final[Axes] = (("x", 4), ("y", 2))
WIDE: Final[Axes] = (("x", 2), ("y", 4))
GRIDS: Final = (GRID, WIDE)
SIZES: Final = ((16, 16, 16), (32, 8, 64))
"""Rows of A, columns of A and rows of B, columns of B: the first on GRID, the second on WIDE."""

CASES: Final = tuple(
    (*size, *(length for _, length in axes)) for size, axes in zip(SIZES, GRIDS, strict=True)
)
"""The same, followed by the sizes of the mesh axes x and y."""

BLOCKS: Final = ("0 1\n2 3\n4 5\n6 7", "0 1 2 3\n4 5 6 7")
ROWS: Final = ("0,1\n2,3\n4,5\n6,7", "0,1,2,3\n4,5,6,7")
COLUMNS: Final = ("0,2,4,6 1,3,5,7", "0,4 1,5 2,6 3,7")


def _arguments(a: Any, b: Any, meshes: Any = GRIDS, sizes: Any = SIZES) -> Any:
    """Return A and B with the specs a and b, for each size and mesh."""
    return tuple(
        (Argument((m, k), axes, a, mode="auto"), Argument((k, n), axes, b, mode="auto"))
        for axes, (m, k, n) in zip(meshes, sizes, strict=True)
    )


def _placed_like(answer: str, pictures: tuple[str, str]) -> PlacedLike:
    return PlacedLike(answer, pictures[0], _shapes(), elsewhere=pictures[1:])


def _axis_sizes(A: Any) -> tuple[int, int]:
    """Return the sizes of the mesh axes x and y in the case to which this A belongs."""
    return next((x, y) for m, _, _, x, y in CASES if m == len(A))


def _shapes(sizes: Any = SIZES) -> tuple[tuple[int, int], ...]:
    return tuple((m, n) for m, _, n in sizes)


def _computes_product(
    answer: str,
    arguments: Any,
    blocks: tuple[tuple[int, int, int], ...] = (),
    **mistakes: Any,
) -> Computes:
    return Computes(
        answer,
        f"{answer} must return A @ B.",
        lambda A, B: A @ B,
        arguments,
        {name.replace("_", "-"): mistake for name, mistake in mistakes.items()},
        under_mesh=True,
        blocks=blocks,
    )


def _work_limits(sizes: Any = SIZES, devices: int = 8) -> tuple[int, ...]:
    """Return each device's share of a matmul's operations, plus some for adding up."""
    return tuple(5 * m * k * n // (2 * devices) + m * n for m, k, n in sizes)


def _added_up(A: Any, B: Any, over: str) -> Any:
    """Return the result if its blocks are added up over axes along which they differ."""
    product, (x, y) = A @ B, _axis_sizes(A)
    if "x" in over:
        product = np.tile(product.reshape(x, -1, product.shape[1]).sum(0), (x, 1))
    if "y" in over:
        product = np.tile(product.reshape(len(A), y, -1).sum(1), (1, y))
    return product


def _added_replicas(A: Any, B: Any, over: str) -> Any:
    """Return the result if it is added up over an axis over which it is replicated."""
    return A @ B * np.float32(_axis_sizes(A)["xy".index(over)])


QUIET: Final = Exercise(
    id="6.1",
    title="Three matmuls with shard_map",
    afterwards="The outer dimensions of a matmul can be sharded for free, as long as no mesh axis "
    "shards both. Only the contracting dimension costs communication.",
    requirements=tuple(
        requirement
        for answer, a, b, pictures, over_x, over_y in (
            ("rows_by_columns", ("x", None), (None, "y"), BLOCKS, _added_up, _added_up),
            ("rows_by_copy", ("x", None), (), ROWS, _added_up, _added_replicas),
            ("copy_by_columns", (), (None, "y"), COLUMNS, _added_replicas, _added_up),
        )
        for requirement in (
            _computes_product(
                answer,
                _arguments(a, b),
                added_over_x=Mistake(
                    lambda A, B, add=over_x: add(A, B, "x"),
                    says="The results along x are added up. Each device has complete rows and "
                    "complete columns, so its sums are complete.",
                ),
                added_over_y=Mistake(
                    lambda A, B, add=over_y: add(A, B, "y"),
                    says="The results along y are added up. Each device has complete rows and "
                    "complete columns, so its sums are complete.",
                ),
            ),
            _placed_like(answer, pictures),
            Requests(answer, ((), ())),
            CommunicatesAtMost(answer, ((), ())),
        )
    ),
    hints=(
        "The body is the same in all three: a matmul of the two blocks. The specs differ.",
        "in_specs are the layouts of A and B, which are given. P() means replicated.",
        "out_specs name the axes over which the blocks of the result differ, each in its "
        "dimension. Rows that are sharded over x stay sharded over x.",
    ),
    diagnoses={
        "not-replicated": "out_specs leave out an axis over which the blocks differ. The axis "
        "that shards A's rows shards the result's rows, and the one that shards B's columns its "
        "columns.",
        "shape": "What shape does the body return, and along which dimensions do out_specs "
        "concatenate these blocks?",
        "all-gather": "Each device has everything that it needs. Is something gathered in the "
        "body, or do in_specs differ from the layouts of the arguments?",
        "explicit all-reduce": "Each device has complete rows and complete columns, so there is "
        "nothing to add up.",
        "explicit all-gather": "Each device has everything that it needs.",
        "values": "Does the body return the matmul of its two blocks?",
    },
)


def _added_first(A: Any, B: Any) -> Any:
    """Return the result if A's blocks, and B's, are added up over y before the matmul."""
    x, y = _axis_sizes(A)
    rows = [sum(np.split(block, y, axis=1)) for block in np.split(A, x)]
    return np.concatenate(rows) @ sum(np.split(B, y))


BY_ROWS: Final = Exercise(
    id="6.2",
    title="Blocks by rows",
    afterwards="Adding up the partial sums of a sharded contracting dimension is the second half "
    "of a tensor-parallel layer. Megatron-LM calls such a weight matrix row-parallel.",
    requirements=(
        _computes_product(
            "block_by_rows",
            _arguments(("x", "y"), ("y", None)),
            tuple((x, y, 1) for *_, x, y in CASES),
            over_both=Mistake(
                lambda A, B: _added_up(A, B, "x"),
                says="The sum is over x, too, along which the devices have different rows.",
            ),
            mean_for_sum=Mistake(
                lambda A, B: A @ B / np.float32(_axis_sizes(A)[1]),
                says="The result is too small by the number of devices along y: do you take a mean "
                "instead of a sum?",
            ),
            added_before_the_matmul=Mistake(
                _added_first,
                says="The blocks of A are added up, and those of B, before the matmul. Add up the "
                "products of the blocks.",
            ),
            relu_of_parts=Mistake(
                lambda A, B: np.maximum(_partial_sums(A, B), 0).sum(0),
                says="The negative values of each device's partial sums are set to zero before "
                "they are added up.",
            ),
            one_part_alone=Mistake(
                lambda A, B: _partial_sums(A, B)[0],
                lambda A, B: _partial_sums(A, B)[-1],
                says="This is the partial sum of one device along y. Add up those of all of them.",
            ),
        ),
        _placed_like("block_by_rows", ROWS),
        Requests(
            "block_by_rows",
            tuple(
                (RequestedCollective("all-reduce", 1, ("y",), 4 * m * n // x),)
                for m, _, n, x, _ in CASES
            ),
        ),
        WorksAtMost("block_by_rows", _work_limits()),
    ),
    hints=(
        "A device has some of A's columns, and exactly the matching rows of B.",
        "So its product is a partial sum of each element. Over which axis must these be added up? "
        "Over the one that shards the contracting dimension.",
        "Use psum over y. The result is sharded over x only.",
    ),
    diagnoses={
        "not-replicated": "The partial sums differ along y, the axis that shards the contracting "
        "dimension.",
        "shape": "What shape does the body return, and along which dimensions do out_specs "
        "concatenate these blocks? The rows of A are sharded over x, and so are those of the "
        "result.",
        "other-axes": "Along which axis do the devices have partial sums of the same elements? "
        "Along the one that shards the contracting dimension.",
        "explicit all-gather": "Nothing has to be gathered. Only the partial sums have to be added "
        "up.",
        "no all-reduce": "Add up the partial sums with an all-reduce in the body.",
        "too-much-work": "A device multiplies more than its own columns of A by its own rows of "
        "B. The other devices compute the other partial sums.",
    },
    about=(Requests, WorksAtMost),
)


def _sliced(A: Any, B: Any, start: Callable[[int, int, int], int]) -> Any:
    """Return the result if device (i, j) uses the slice of B that begins at start(i, j, size).

    A slice that would exceed the end begins earlier, as with lax.dynamic_slice.
    """
    x, y = _axis_sizes(A)
    size = len(B) // y
    made = []
    for i, rows in enumerate(np.split(A, x)):
        starts = [min(start(i, j, size), len(B) - size) for j in range(y)]
        parts = np.split(rows, y, axis=1)
        made.append(sum(a @ B[s : s + size] for a, s in zip(parts, starts, strict=True)))
    return np.concatenate(made)


def _partial_sums(A: Any, B: Any) -> Any:
    """Return the partial sums of the devices along y, stacked."""
    n = _axis_sizes(A)[1]
    return np.stack([a @ b for a, b in zip(np.split(A, n, axis=1), np.split(B, n), strict=True)])


BY_COPY: Final = Exercise(
    id="6.3",
    title="Blocks by a replicated matrix",
    afterwards="Whether it is cheaper to gather a factor or to add up partial sums depends only "
    "on shapes: compare the gathered block with the summed one.",
    requirements=(
        _computes_product(
            "block_by_copy",
            _arguments(("x", "y"), ()),
            tuple((x, y, 1) for *_, x, y in CASES),
            counted_twice=Mistake(
                lambda A, B: _added_replicas(A, B, "y"),
                says="The result is too large by the number of devices along y: does each of them "
                "have the complete sum already, before they are added up?",
            ),
            mean_for_sum=Mistake(
                lambda A, B: A @ B / np.float32(_axis_sizes(A)[1]),
                says="The result is too small by the number of devices along y: do you take a mean "
                "instead of a sum?",
            ),
            at_its_number=Mistake(
                lambda A, B: _sliced(A, B, lambda i, j, size: j),
                says="The slice of B begins at the device's number along y. How many rows do the "
                "devices before it have?",
            ),
            first_rows=Mistake(
                lambda A, B: _sliced(A, B, lambda i, j, size: 0),
                says="Every device uses the first rows of B. Which rows match a device's columns "
                "of A?",
            ),
            by_its_place_along_x=Mistake(
                lambda A, B: _sliced(A, B, lambda i, j, size: i * size),
                lambda A, B: _sliced(A, B, lambda i, j, size: i),
                says="Each device chooses its rows of B by its position along x. A's columns are "
                "sharded over y.",
            ),
            times_the_devices=Mistake(
                lambda A, B: _sliced(A, B, lambda i, j, size: j * _axis_sizes(A)[0]),
                lambda A, B: _sliced(A, B, lambda i, j, size: j * _axis_sizes(A)[1]),
                says="The slice of B begins at the device's number times a number of devices. How "
                "many rows do the devices before it have?",
            ),
            one_block_too_far=Mistake(
                lambda A, B: _sliced(A, B, lambda i, j, size: (j + 1) * size),
                lambda A, B: _sliced(A, B, lambda i, j, size: (j + 1) * size % len(B)),
                says="The slice of B begins one block too far along. The first device along y has "
                "number 0, and its rows of B begin at 0.",
            ),
            in_the_opposite_order=Mistake(
                lambda A, B: _sliced(A, B, lambda i, j, size: len(B) - (j + 1) * size),
                lambda A, B: _sliced(A, B, lambda i, j, size: len(B) - j * size),
                says="The slices of B are counted from its end, so the first device along y has "
                "the last rows. It has the first columns of A.",
            ),
            over_both=Mistake(
                lambda A, B: _added_up(A, B, "x"),
                says="The sum is over x, too, along which the devices have different rows.",
            ),
            largest_part=Mistake(
                lambda A, B: _partial_sums(A, B).max(0),
                says="This is the maximum of the devices' partial sums. Add them up.",
            ),
            mixed_columns=Mistake(
                lambda A, B: _mixed_columns(A, B),
                says="The columns of A are in the wrong order. If blocks are stacked and then "
                "reshaped, consecutive rows of one block end up next to each other in one row. Is "
                "tiled=True set?",
            ),
        ),
        _placed_like("block_by_copy", ROWS),
        Requests(
            "block_by_copy",
            never=("all-to-all", "collective-permute", "reduce-scatter"),
            at_least={"all-reduce": 1},
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
        "A's columns are sharded, and B is replicated: the two blocks do not fit as they are.",
        "There are two ways: gather A's columns (all_gather over y along dimension 1, tiled), or "
        "use only the rows of B that match yours, and add up.",
        "For the second: lax.dynamic_slice_in_dim(B, lax.axis_index('y') * size, size), then psum "
        "over y. For the first, JAX does not know that all devices along y have the same result: "
        "finish with lax.pmean over y.",
    ),
    diagnoses={
        "blocks-do-not-fit": "A's block has only the columns of one device along y, and B's block "
        "has all rows.",
        "not-replicated": "Along y each device has partial sums: are they added up? Along x each "
        "device has its own rows. After an all-gather over an axis, all devices along it have the "
        "same, but JAX does not know it.",
        "all-gather": "Only A's columns along y are missing. Nothing else may be gathered.",
        "no all-reduce": "Either way ends with an all-reduce over y, of the partial sums, or as "
        "the proof that the VMA check needs. Is the check off? Or does the compiler do the work: "
        "do in_specs replicate A?",
        "added-by-the-compiler": "Choose one of the two ways yourself, in the body.",
        "no-shard-map": "Choose one of the two ways yourself, with shard_map. Here the compiler "
        "chooses.",
    },
    about=(Requests, CommunicatesAtMost),
    together=True,
)


def _own_rows(A: Any, B: Any) -> Any:
    """Return the result if each device along x keeps its rows of its own partial sums."""
    n = _axis_sizes(A)[0]
    parts = zip(np.split(A, n, axis=1), np.split(B, n), strict=True)
    return np.concatenate([np.split(a @ b, n)[i] for i, (a, b) in enumerate(parts)])


def _scattered_first(A: Any, B: Any) -> Any:
    """Return the result if A's blocks are reduce-scattered before the matmul and not after."""
    n = _axis_sizes(A)[0]
    total = sum(np.split(A, n, axis=1))
    return np.concatenate([a @ b for a, b in zip(np.split(total, n), np.split(B, n), strict=True)])


SCATTERED: Final = Exercise(
    id="6.4",
    title="Keep your piece",
    afterwards="XLA looks for an all-reduce of which each device keeps only a slice, and on GPUs "
    "and TPUs it replaces the two by one reduce-scatter.",
    requirements=(
        _computes_product(
            "scattered",
            _arguments((None, "x"), ("x", None)),
            tuple((x, x, 1) for *_, x, _ in CASES),
            mean_for_sum=Mistake(
                lambda A, B: A @ B / np.float32(_axis_sizes(A)[0]),
                says="The result is too small by the number of devices along x: do you take a mean "
                "instead of a sum?",
            ),
            relu_of_parts=Mistake(
                lambda A, B: sum(
                    np.maximum(a @ b, 0)
                    for a, b in zip(
                        np.split(A, _axis_sizes(A)[0], axis=1),
                        np.split(B, _axis_sizes(A)[0]),
                        strict=True,
                    )
                ),
                says="The negative values of each device's partial sums are set to zero before "
                "they are added up.",
            ),
            own_part_alone=Mistake(
                _own_rows,
                says="Each device keeps its rows of its own partial sums. Those of the other "
                "devices are missing.",
            ),
            scattered_before_the_matmul=Mistake(
                _scattered_first,
                says="The blocks of A are added up before the matmul. Add up the products of the "
                "blocks.",
            ),
        ),
        _placed_like("scattered", ROWS),
        Requests(
            "scattered",
            tuple(
                (RequestedCollective("reduce-scatter", 1, ("x",), 4 * m * n),) for m, _, n in SIZES
            ),
        ),
    ),
    hints=(
        "Each device has a partial sum of every element of the result, and should keep a part of "
        "the rows.",
        "lax.psum_scatter adds up and splits. tiled=True keeps the rank, and scatter_dimension is "
        "the dimension that it splits.",
        "lax.psum_scatter(A @ B, 'x', tiled=True), and out_specs that concatenate rows.",
    ),
    diagnoses={
        "shape": "What shape does the body return? Which dimension is scattered, and which do "
        "out_specs concatenate?",
        "untiled": "The rows of the product have to be split. Which dimension do you scatter, and "
        "is tiled=True set?",
        "no reduce-scatter": "A reduce-scatter adds up and leaves each device its piece, for half "
        "of what it costs to have the sum on every device.",
        "not-replicated": "The partial sums are not added up over x. Is another axis named, or "
        "none? They differ along the axis that shards the contracting dimension.",
    },
    about=(Requests,),
)


def _mixed_columns(A: Any, B: Any) -> Any:
    """Return the result if A's blocks are stacked and reshaped, and not placed side by side."""
    x, y = _axis_sizes(A)
    strips = [np.stack(np.split(rows, y, axis=1)).reshape(len(rows), -1) for rows in np.split(A, x)]
    return np.concatenate(strips) @ B


def _mixed_rows(A: Any, B: Any) -> Any:
    """Return the result if B's blocks are placed side by side and reshaped."""
    x, y = _axis_sizes(A)
    strips = [np.stack(np.split(b, x), axis=1).reshape(len(B), -1) for b in np.split(B, y, axis=1)]
    return A @ np.concatenate(strips, axis=1)


def _blocks_transposed(A: Any, B: Any) -> Any:
    """Return the result if each device transposes its block."""
    x, y = _axis_sizes(A)
    rows = (np.split(strip, y, axis=1) for strip in np.split(A @ B, x))
    return np.block([[block.T for block in row] for row in rows])


BY_BLOCKS: Final = Exercise(
    id="6.5",
    title="Blocks by blocks",
    afterwards="This is the SUMMA algorithm in a single step. In several steps, over slices of "
    "the contracting dimension, no device has to hold complete rows and columns of blocks.",
    requirements=(
        _computes_product(
            "block_by_block",
            _arguments(("x", "y"), ("x", "y")),
            tuple((x, max(x, y), y) for *_, x, y in CASES),
            mixed_columns=Mistake(
                _mixed_columns,
                says="The columns of A are in the wrong order. If blocks are stacked and then "
                "reshaped, consecutive rows of one block end up next to each other in one row.",
            ),
            mixed_rows=Mistake(
                _mixed_rows,
                says="The rows of B are in the wrong order. Its blocks belong one below the other. "
                "Does the all_gather of B have axis=0 and tiled=True?",
            ),
            blocks_transposed=Mistake(
                _blocks_transposed,
                says="Each device returns its block of the result transposed. Which dimension of "
                "the block has the rows?",
            ),
            added_over_x=Mistake(
                lambda A, B: _added_up(A, B, "x"),
                says="The blocks of the result are added up over x. Each device computed its own "
                "block from complete rows and complete columns, so its sums are complete.",
            ),
            added_over_y=Mistake(
                lambda A, B: _added_up(A, B, "y"),
                says="The blocks of the result are added up over y. Each device computed its own "
                "block from complete rows and complete columns, so its sums are complete.",
            ),
            first_columns_only=Mistake(
                lambda A, B: A[:, : len(B) // _axis_sizes(A)[1]] @ B[: len(B) // _axis_sizes(A)[1]],
                says="Each sum contains only the products of A's first block of columns. Are A's "
                "blocks concatenated one below the other? They belong side by side: axis=1.",
            ),
        ),
        _placed_like("block_by_block", BLOCKS),
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
        WorksAtMost("block_by_block", _work_limits()),
    ),
    hints=(
        "For its block of the result, a device needs complete rows of A and complete columns of "
        "B: not all of A, and not all of B.",
        "The rows of A that it needs are sharded over y. The columns of B that it needs are "
        "sharded over x.",
        "all_gather(A, 'y', axis=1, tiled=True) and all_gather(B, 'x', axis=0, tiled=True), and "
        "then one matmul.",
    ),
    diagnoses={
        "one-too-many": "One all-gather over y and one over x bring everything that the device "
        "needs.",
        "too-much-work": "A device has to compute only its own block of the result.",
        "no all-gather": "Gather what is missing with two all-gathers in the body.",
        "sends-too-much": "A's missing columns are along y, and B's missing rows along x. Are "
        "they gathered the other way round?",
        "other-products": "In the block in row i and column j of the result, each A[i, k] is "
        "multiplied by B[k, j]. Is k the same in both factors, and j in all products?",
        "blocks-do-not-fit": "A's block has some of the columns, and B's some of the rows. Both "
        "must be complete in that dimension. A's columns are sharded over y, and B's rows over x.",
    },
    about=(Requests,),
)

SQUARE: Final[Axes] = (("x", 2), ("y", 2))
CANNON_SIZES: Final = ((8, 256, 12), (12, 384, 8))
"""The contracting dimension is long, so that complete rows and columns exceed the memory limit."""

Which = Callable[[int, int], tuple[int, int] | None]
"""Returns the block that the device in row i and column j holds, or None if it holds zeros."""


def _skewed_a(i: int, j: int) -> tuple[int, int] | None:
    return i, (i + j) % 2


def _skewed_b(i: int, j: int) -> tuple[int, int] | None:
    return (i + j) % 2, j


def _rounds(A: Any, B: Any, *rounds: tuple[Which, Which]) -> Any:
    """Return the sum over rounds of the products of the blocks that each of 2 × 2 devices holds."""
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
    """Return Cannon's algorithm in `number` rounds, with the given blocks in the first round."""

    def left(i: int, j: int) -> tuple[int, int] | None:
        return first_a(i, (j + 1) % 2)

    def up(i: int, j: int) -> tuple[int, int] | None:
        return first_b((i + 1) % 2, j)

    rounds = [(first_a, first_b), (left, up), (first_a, first_b)][:number]
    return lambda A, B: _rounds(A, B, *rounds)


CANNON: Final = Exercise(
    id="6.6",
    title="Cannon",
    afterwards="Lynn Cannon published this in 1969, for processors that could communicate only "
    "with their neighbours. TPUs are still wired in such a grid.",
    requirements=(
        _computes_product(
            "cannon",
            _arguments(("x", "y"), ("x", "y"), (SQUARE,) * 2, CANNON_SIZES),
            ((2, 2, 2),) * 2,
            without_skew=Mistake(
                _cannon(lambda i, j: (i, j), lambda i, j: (i, j)),
                says="The blocks do not fit: before the first matmul, row 1 of A's blocks has to "
                "move one to the left, and column 1 of B's one up.",
            ),
            first_step_only=Mistake(
                _cannon(_skewed_a, _skewed_b, 1), says="This is the first of two rounds."
            ),
            once_too_often=Mistake(
                _cannon(_skewed_a, _skewed_b, 3),
                says="There is one round too many: the first two blocks are multiplied again.",
            ),
            skew_exchanged=Mistake(
                _cannon(_skewed_b, _skewed_a),
                says="The skews are swapped: row 1 of A's blocks moves, and column 1 of B's.",
            ),
            one_skew_only=Mistake(
                _cannon(_skewed_a, lambda i, j: (i, j)),
                _cannon(lambda i, j: (i, j), _skewed_b),
                says="Only one of the two matrices is skewed before the first matmul. Skew both: "
                "row 1 of A's blocks, and column 1 of B's.",
            ),
            other_row_skewed=Mistake(
                _cannon(lambda i, j: (i, (1 - i + j) % 2), _skewed_b),
                _cannon(_skewed_a, lambda i, j: ((1 + i - j) % 2, j)),
                says="One of the skews moves row 0 or column 0, which should stay where it is. Row "
                "1 of A's blocks moves, and column 1 of B's.",
            ),
            open_skew=Mistake(
                _cannon(
                    lambda i, j: _skewed_a(i, j) if i else None,
                    lambda i, j: _skewed_b(i, j) if j else None,
                ),
                says="A device that keeps its own block needs a pair, too, such as (0, 0). "
                "Otherwise it gets zeros.",
            ),
            last_step_only=Mistake(
                lambda A, B: _rounds(
                    A, B, (lambda i, j: _skewed_a(i, 1 - j), lambda i, j: _skewed_b(1 - i, j))
                ),
                says="This is only the second of two rounds. Add up the products of both.",
            ),
            moves_exchanged=Mistake(
                lambda A, B: _rounds(
                    A,
                    B,
                    (_skewed_a, _skewed_b),
                    (lambda i, j: _skewed_a(1 - i, j), lambda i, j: _skewed_b(i, 1 - j)),
                ),
                says="The moves between the rounds are swapped: A's blocks move to the left, along "
                "y, and B's move up, along x.",
            ),
            only_one_moves=Mistake(
                lambda A, B: _rounds(
                    A, B, (_skewed_a, _skewed_b), (lambda i, j: _skewed_a(i, 1 - j), _skewed_b)
                ),
                says="In the second round, B's blocks are still where they were in the first.",
            ),
        ),
        PlacedLike("cannon", "0 1\n2 3", _shapes(CANNON_SIZES)),
        Requests("cannon", never=("all-gather", "all-reduce", "reduce-scatter", "all-to-all")),
        CommunicatesAtMost(
            "cannon",
            tuple(
                (Budget("collective-permute", bytes=3 * m * k + 3 * k * n),)
                for m, k, n in CANNON_SIZES
            ),
        ),
        FitsIn("cannon", tuple(7 * (m * k + k * n) // 2 for m, k, n in CANNON_SIZES)),
        WorksAtMost("cannon", _work_limits(CANNON_SIZES, 4)),
    ),
    hints=(
        "In each round a device multiplies its current blocks of A and B, and adds the product. "
        "Then A's blocks move one to the left, and B's one up.",
        "This is right only if each device's blocks fit from the start: first, row i of A's "
        "blocks moves i to the left, and column j of B's blocks j up. On 2 × 2 these are row 1 "
        "and column 1.",
        "lax.ppermute takes a tuple of axes and numbers the devices row by row: over ('x', 'y'), "
        "[(0, 0), (1, 1), (2, 3), (3, 2)] exchanges the blocks of row 1. Give every device a "
        "pair, because a device that is no pair's target receives zeros.",
    ),
    diagnoses={
        "other-products": "Draw the four devices, and the blocks that each has in each round. Do "
        "its two blocks fit, and does every device have two?",
        "explicit all-gather": "Here devices only exchange blocks with their neighbours.",
        "explicit all-reduce": "Each device computes its block of the result by itself, in two "
        "rounds.",
        "too-many-bytes": "The skew and one move after each round are three moves of A's blocks "
        "and three of B's. That is enough, and the last one is not needed.",
        "too-much-memory": "Gathering complete rows of A and complete columns of B takes more "
        "memory than moving blocks.",
    },
    about=(Requests, CommunicatesAtMost, FitsIn),
    together=True,
)

LINES: Final = (8, 4)

OVERLAPS: Final = {8: (2, 512, 3), 4: (3, 768, 5)}
"""By number of devices: rows of A's blocks, contracting dimension, columns of B's blocks."""


def _ring_arguments() -> Any:
    """Return A sharded over rows and B over columns, on eight devices and on four."""
    return tuple(
        (
            Argument((n * rows, k), (("x", n),), ("x", None), mode="auto"),
            Argument((k, n * columns), (("x", n),), (None, "x"), mode="auto"),
        )
        for n, (rows, k, columns) in OVERLAPS.items()
    )


def _assembled(A: Any, B: Any, source: Callable[[int, int, int], int | None]) -> Any:
    """Return the result if device i of n has the product with block source(i, j, n) as block j."""
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


def _at_its_number(A: Any, B: Any) -> Any:
    """Return the result if each product begins in the row with the number of its block."""
    n, rows = next((n, r) for n, (r, _, _) in OVERLAPS.items() if n * r == len(A))
    product = [np.split(columns, n) for columns in np.split(A @ B, n, axis=1)]
    made = [np.zeros((len(A), each[0].shape[1]), A.dtype) for each in product]
    for i in range(n):
        for s in range(n):
            block = (i - s) % n
            made[i][block : block + rows] = product[i][block]
    return np.concatenate(made, axis=1)


def _products_added(A: Any, B: Any) -> Any:
    """Return the result if the products with A's blocks are added up and not concatenated."""
    n = next(n for n, (rows, _, _) in OVERLAPS.items() if n * rows == len(A))
    return sum(np.split(A, n)) @ B


def _products_sent(A: Any, B: Any) -> Any:
    """Return the result if every device receives the others' products: a mistake."""
    n = next(n for n, (rows, _, _) in OVERLAPS.items() if n * rows == len(A))
    products = [a @ b for a, b in zip(np.split(A, n), np.split(B, n, axis=1), strict=True)]
    return np.tile(np.concatenate(products), (1, n))


OVERLAPPED: Final = Exercise(
    id="6.7",
    title="Multiply while blocks arrive",
    afterwards="XLA does this by itself on TPUs, where it is called a collective matmul: the "
    "matmuls overlap with most of the all-gather.",
    requirements=(
        _computes_product(
            "overlapped",
            _ring_arguments(),
            order_of_arrival=Mistake(
                lambda A, B: _assembled(A, B, lambda i, j, n: (i - j) % n),
                says="All rows are there, in the order in which they arrived. Put the block of "
                "step s in the position of device (i - s) % n.",
            ),
            against_the_ring=Mistake(
                lambda A, B: _assembled(A, B, lambda i, j, n: (2 * i - j) % n),
                says="The permutation goes one way round the ring, and the positions are counted "
                "the other way.",
            ),
            open_ring=Mistake(
                lambda A, B: _assembled(A, B, lambda i, j, n: j if j <= i else None),
                says="The rows that should come from the last device to the first are zero: a "
                "device that is no pair's target receives zeros. Does every device send to the "
                "next one?",
            ),
            one_is_missing=Mistake(
                lambda A, B: _assembled(A, B, lambda i, j, n: None if j == (i + 1) % n else j),
                says="The rows of the device furthest away are missing: is a step missing?",
            ),
            at_its_number=Mistake(
                _at_its_number,
                says="Each product begins in the row with the number of its block, so that they "
                "overlap. How many rows come before the block of device i?",
            ),
            own_rows_missing=Mistake(
                lambda A, B: _assembled(A, B, lambda i, j, n: None if j == i else j),
                says="Each device's own rows are zero: the block of A that it has from the start "
                "is never multiplied.",
            ),
            products_added=Mistake(
                _products_added,
                lambda A, B: np.tile(
                    _products_added(A, B), (len(A) // len(_products_added(A, B)), 1)
                ),
                says="The products with the blocks of A are added up. Each is a block of rows of "
                "the result, so concatenate them.",
            ),
            products_sent=Mistake(
                _products_sent,
                says="The products travel round the ring, and each contains the columns of B of "
                "the device where it was computed. A device needs the products of all of A's "
                "blocks with its own columns: let the blocks travel.",
            ),
            own_block_again=Mistake(
                lambda A, B: _assembled(A, B, lambda i, j, n: i if j == i else (i - 1) % n),
                lambda A, B: _assembled(A, B, lambda i, j, n: i if j == 0 else (i - 1) % n),
                says="Every step brings the block of the previous device again. Send what was "
                "received last, not the device's own block each time.",
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
            # one block of B, and four and a half of A: the current one, the next one, and slack
            tuple(4 * k * columns + 18 * rows * k for rows, k, columns in OVERLAPS.values()),
        ),
        WorksAtMost(
            "overlapped",
            tuple(5 * n * rows * k * columns // 2 for n, (rows, k, columns) in OVERLAPS.items()),
        ),
    ),
    hints=(
        "It is ring_all_gather of 5.5, with a matmul in each step.",
        "After s steps you hold the block of device (i - s) % n. Its product with your columns of "
        "B is that block of rows of your result.",
        "Stack the n products, put them in order by indexing with (i - arange(n)) % n, and "
        "reshape them to one block.",
    ),
    diagnoses={
        "too-much-memory": "A device has no memory for all of A. A block that was multiplied and "
        "sent on is not needed any more.",
        "explicit all-gather": "An all-gather waits until everything is there. Send round the ring "
        "what is needed next, and multiply what is there.",
        "no collective-permute": "Send the blocks of A round the ring with permutations.",
        "one-too-many": "n - 1 steps bring the blocks of all other devices. Does a block arrive "
        "that is there already? (In lax.scan and lax.fori_loop, n turns send n times, even if "
        "nothing uses the last block.)",
        "too-seldom": "There are n - 1 other blocks, and each step brings one.",
        "sends-too-much": "In each step, only one block of A has to be sent.",
        "not-to-the-neighbour": "Blocks from further away are passed on from neighbour to "
        "neighbour.",
        "too-much-work": "Multiply each block of A once on each device.",
    },
    about=(Requests, FitsIn),
    together=True,
)


def _chain(A: Any, B: Any, C: Any, D: Any) -> Any:
    return A @ B @ C @ D


FRONTIER: Final = (
    # (bytes held, bytes moved) on each device: the best of all choices of four layouts on the mesh
    # of 4 × 2, found by compiling nine layouts of each matrix.
    (8192, 24576), (10240, 20480), (14336, 16384), (18432, 12288), (20480, 8192), (28672, 4096),
    (45056, 0),
)  # fmt: skip

CHAIN: Final = Exercise(
    id="6.8",
    title="Four matrices and a memory limit",
    afterwards="Systems such as Alpa choose layouts for whole models by solving this problem as an "
    "integer program.",
    requirements=tuple(
        MovesFewBytes(
            answer,
            f"shardings (of A, of B, of C, of D) that hold at most {cap:,} bytes on each device, "
            f"and with which A @ B @ C @ D moves as few bytes as possible",
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
        "A matrix of 64 × 64 takes 16,384 bytes. A device holds all of a replicated matrix, half "
        "of one that is sharded over y, a quarter over x, and an eighth over both. Add up before "
        "you choose.",
        "For roomy, each matmul should find what it needs. If A is sharded over its rows, what is "
        "the layout of A @ B when B is sharded over its columns, and what does C need then? A "
        "contracting dimension that is sharded over the same axis in both factors costs one "
        "all-reduce.",
        "For tight, almost everything has to be sharded over both axes. It still matters which "
        "dimension is sharded over x and which over y: try P('x', 'y') and P('y', 'x') in turn, "
        "and one matrix over x alone.",
    ),
    diagnoses={
        "over-the-cap": "Replication saves communication, and this is more of it than the memory "
        "limit allows.",
        "could-move-less": "Look at what is gathered or added up: which matrices, over which "
        "axis, and would another layout of a neighbouring matrix avoid it?",
        "room-left": "Replication saves communication, and the memory limit allows more of it. "
        "Which matmul would find what it needs if a matrix were sharded over fewer axes?",
        "number-of-shardings": "An answer is four shardings, in the order of the product.",
        "devices-unused": "All eight devices must hold a part.",
    },
)

STEPS: Final = 5

WIDTHS: Final = {8: (16, 4), 4: (12, 6)}
"""By number of devices: rows of A and of V, columns of V's blocks."""


def _iterated(A: Any, V: Any, steps: int = STEPS, inside: float = 4, outside: float = 1) -> Any:
    for _ in range(steps):
        V = np.tanh(A @ V / np.float32(inside)) / np.float32(outside)  # noqa: N806
    return V.mean()


def _multiplied(A: Any, V: Any) -> Any:
    """Multiply V by A / 4 in each step, without tanh."""
    for _ in range(STEPS):
        V = A @ V / np.float32(4)  # noqa: N806
    return V


def _columns(V: Any) -> int:
    return next(columns for rows, columns in WIDTHS.values() if rows == len(V))


QUIET_LOOP: Final = Exercise(
    id="6.9",
    title="Five steps, one all-reduce",
    afterwards="Methods such as local SGD rely on this: devices that do not communicate in every "
    "step can be far apart.",
    requirements=(
        Computes(
            "iterate",
            f"iterate(A, V) must compute V = tanh(A @ V / 4) {STEPS} times and return its mean.",
            lambda A, V: _iterated(A, V),
            tuple(
                (
                    Argument((rows, rows), (("x", n),), (), mode="auto"),
                    Argument((rows, columns * n), (("x", n),), (None, "x"), mode="auto"),
                )
                for n, (rows, columns) in WIDTHS.items()
            ),
            {
                "sum-for-mean": Mistake(
                    lambda A, V: _iterated(A, V) * np.float32(V.shape[1] // _columns(V)),
                    says="The result is too large by the number of devices: are the devices' means "
                    "added up?",
                ),
                "sum-of-all": Mistake(
                    lambda A, V: _iterated(A, V) * np.float32(V.size),
                    says="This is the sum of all elements.",
                ),
                "mean-of-sums": Mistake(
                    lambda A, V: _iterated(A, V) * np.float32(len(V) * _columns(V)),
                    says="The result is too large by the number of elements on a device: are the "
                    "devices' sums averaged?",
                ),
                "one-column-each": Mistake(
                    lambda A, V: _iterated(A, V[:, :: _columns(V)]),
                    lambda A, V: _iterated(A, V[:, _columns(V) - 1 :: _columns(V)]),
                    says="Each device counts only one of its columns, the first or the last. The "
                    "mean is that of all columns.",
                ),
                "of-all-rounds": Mistake(
                    lambda A, V: np.mean([_iterated(A, V, steps) for steps in range(1, STEPS + 1)]),
                    says="This is the mean over all steps. Expected: that of the last V.",
                ),
                "once-too-often": Mistake(
                    lambda A, V: _iterated(A, V, STEPS + 1),
                    says=f"This is the result of {STEPS + 1} steps.",
                ),
                "once-too-seldom": Mistake(
                    lambda A, V: _iterated(A, V, STEPS - 1),
                    says=f"This is the result of {STEPS - 1} steps.",
                ),
                "divided-outside": Mistake(
                    lambda A, V: _iterated(A, V, inside=1, outside=4),
                    says="This is the result of tanh(A @ V) / 4. Divide by 4 inside tanh.",
                ),
                "not-divided": Mistake(
                    lambda A, V: _iterated(A, V, inside=1),
                    says="This is the result of tanh(A @ V), without the 4.",
                ),
                "multiplied-by-4": Mistake(
                    lambda A, V: _iterated(A, V, inside=1 / 4),
                    says="This is the result of tanh(A @ V * 4). Divide by 4.",
                ),
                "of-the-transpose": Mistake(
                    lambda A, V: _iterated(A.T, V),
                    says="This is the result with the transpose of A.",
                ),
                "one-round": Mistake(
                    lambda A, V: _iterated(A, V, 1),
                    says="This is the result of one step. Does each step start from the V of the "
                    "previous step?",
                ),
                "no-tanh-in-the-loop": Mistake(
                    lambda A, V: np.tanh(_multiplied(A, V)).mean(),
                    lambda A, V: _multiplied(A, V).mean(),
                    says="In the loop, V is multiplied and divided, but tanh is missing. Each step "
                    "applies it.",
                ),
            },
            under_mesh=True,
        ),
        Requests("iterate", ((RequestedCollective("all-reduce", 1, ("x",), 4),),) * 2),
        CommunicatesAtMost("iterate", ((Budget("all-reduce", ("x",), 4),),) * 2),
    ),
    hints=(
        "Column j of the next V needs column j of this V, and all of A. Which device has these?",
        "So the loop runs in the body, on one device's columns, with lax.fori_loop or lax.scan.",
        "After the loop each device takes the mean of its own columns, and lax.pmean takes the "
        "mean of these.",
    ),
    diagnoses={
        "values": "Does each step use A unchanged, and divide A @ V by 4 before tanh? Is the mean "
        "taken once, after the last step?",
        "too-often": "One all-reduce, after the loop, is enough. Is there one in the loop?",
        "one-too-many": "Only one number has to be reduced. Every device knows the number of "
        "elements: the block has a size, and lax.axis_size is the number of blocks.",
        "blocks-do-not-fit": "A is replicated, and V is sharded over its columns: do in_specs say "
        "so?",
        "all-gather": "No column of V needs another one. Is something gathered in the body, or do "
        "in_specs differ from the layouts of the arguments?",
        "not-replicated": "Each device has the mean of its own columns. These are not combined "
        "yet.",
        "varying-mismatch": "In A @ V no column needs another one, so there is nothing to add up "
        "in the loop.",
        "carry-changes": "The shape of V changes in the loop. A device needs all of A.",
        "no all-reduce": "Take the mean of the devices' numbers with an all-reduce in the body.",
        "shape": "The mean of all elements is one number.",
        "explicit all-gather": "No column needs another one, so nothing has to be gathered.",
        "sends-too-much": "First reduce to one number on each device.",
    },
)

EXERCISES: Final = (
    QUIET, BY_ROWS, BY_COPY, SCATTERED, BY_BLOCKS, CANNON, OVERLAPPED, CHAIN, QUIET_LOOP,
)  # fmt: skip
