"""Notebook 06: distributed matrix multiplication by hand.

A note for maintainers: what is asked for by hand is read from the exported programs. The frontier
of 6.8 is what XLA's CPU compiler makes of every choice of layouts, on JAX 0.8.2 and 0.10.2; where a
new compiler does better, answers lie beyond it, and earn full credit.
"""

from typing import Any, Final

import numpy as np

from autograder.exercises.exercise import Exercise
from autograder.exercises.requirements_on_layouts import PlacedLike, Trades
from autograder.exercises.requirements_on_programs import (
    Ask,
    Budget,
    CommunicatesAtMost,
    Computes,
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


def _product(answer: str, arguments: Any, **mistakes: Any) -> Computes:
    return Computes(
        answer,
        f"{answer} must return A @ B.",
        np.matmul,
        arguments,
        {name.replace("_", "-"): mistake for name, mistake in mistakes.items()},
        under_mesh=True,
    )


def _share(sizes: Any = SIZES, devices: int = 8) -> tuple[int, ...]:
    """The operations of each device's part of a product, and some for what is added up."""
    return tuple(5 * m * k * n // (2 * devices) + m * n for m, k, n in sizes)


QUIET: Final = Exercise(
    id="6.1",
    title="Three products by hand",
    requirements=tuple(
        requirement
        for answer, a, b, pictures in (
            ("rows_by_columns", ("x", None), (None, "y"), BLOCKS),
            ("rows_by_copy", ("x", None), (), ROWS),
            ("copy_by_columns", (), (None, "y"), COLUMNS),
        )
        for requirement in (
            _product(answer, _pairs(a, b)),
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
        "not-replicated": "out_specs leaves out an axis along which the blocks differ: what cuts "
        "the columns of B cuts the columns of the result.",
        "shape": "The blocks are put together along the wrong dimension: look at out_specs.",
        "all-gather": "in_specs say something else than how the argument is laid out, and the "
        "compiler moves it there before the body begins.",
        "all-reduce by hand": "Each device has whole rows and whole columns: there is nothing to "
        "add up.",
        "all-gather by hand": "Each device has all it needs.",
    },
)


def _over_rows(A: Any, B: Any) -> Any:  # noqa: N803
    """What comes of adding up over x too: in every block of rows, the sum of all of them."""
    product, (x, _) = A @ B, _lengths(A)
    return np.tile(product.reshape(x, -1, product.shape[1]).sum(0), (x, 1))


BY_ROWS: Final = Exercise(
    id="6.2",
    title="Blocks by rows",
    requirements=(
        _product("block_by_rows", _pairs(("x", "y"), ("y", None)), over_both=_over_rows),
        _placed("block_by_rows", ROWS),
        Requests(
            "block_by_rows",
            tuple((Ask("all-reduce", 1, ("y",), 4 * m * n // x),) for m, _, n, x, _ in CASES),
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
        "other-axes": "The contracted dimension is cut along y.",
        "all-gather by hand": "The parts need only be added up.",
        "no all-reduce": "The parts are to be added up.",
        "too-much-work": "Devices along y multiply the same.",
    },
)

BY_COPY: Final = Exercise(
    id="6.3",
    title="Blocks by a copy",
    requirements=(
        _product(
            "block_by_copy",
            _pairs(("x", "y"), ()),
            counted_twice=lambda A, B: np.float32(_lengths(A)[1]) * (A @ B),  # noqa: N803
        ),
        _placed("block_by_copy", ROWS),
        Requests("block_by_copy", never=("all-to-all", "collective-permute", "reduce-scatter")),
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
        "counted-twice": "Each of the devices along y has the whole sum already, and then these "
        "are added up.",
        "blocks-do-not-fit": "A's block has some of the columns, and B all rows.",
        "not-replicated": "Along y each device has a part of the sum, or JAX cannot tell that all "
        "have the same.",
        "all-gather": "More is brought together than A's own columns along y.",
        "all-to-all": "in_specs should say how the arguments are laid out.",
        "no-shard-map": "Which of the two ways it is, you decide here, and not the compiler.",
    },
)

SCATTERED: Final = Exercise(
    id="6.4",
    title="Keep your piece",
    requirements=(
        _product("scattered", _pairs((None, "x"), ("x", None))),
        _placed("scattered", ROWS),
        Requests(
            "scattered",
            tuple((Ask("reduce-scatter", 1, ("x",), 4 * m * n),) for m, _, n in SIZES),
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
        "shape": "Either the columns were scattered, and put together as rows; or nothing was "
        "scattered, and the copies were stacked; or in_specs cut other dimensions.",
        "no reduce-scatter": "To add everything up everywhere, and then take a piece, would cost "
        "twice as much.",
        "not-replicated": "The parts of the sums were not added up.",
    },
)

BY_BLOCKS: Final = Exercise(
    id="6.5",
    title="Blocks by blocks",
    requirements=(
        _product("block_by_block", _pairs(("x", "y"), ("x", "y"))),
        _placed("block_by_block", BLOCKS),
        Requests(
            "block_by_block",
            tuple(
                (
                    Ask("all-gather", 1, ("y",), 4 * m * k // x),
                    Ask("all-gather", 1, ("x",), 4 * k * n // y),
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
        "one-too-many": "Two are enough: the rows of A and the columns of B that the device needs.",
        "too-much-work": "Each device computes more than its own block of the result.",
        "values": "Blocks that do not belong together were multiplied.",
        "blocks-do-not-fit": "A's block has some of the columns, B's some of the rows; both "
        "must be whole along that dimension. A's columns lie along y, B's rows along x.",
    },
)

SQUARE: Final[Axes] = (("x", 2), ("y", 2))
CANNON_SIZES: Final = ((16, 16, 16), (32, 8, 64))


def _unskewed(A: Any, B: Any) -> Any:  # noqa: N803
    """Cannon's algorithm on 2 × 2 without its first step."""
    a = [np.split(rows, 2, axis=1) for rows in np.split(A, 2)]
    b = [np.split(rows, 2, axis=1) for rows in np.split(B, 2)]
    return np.block(
        [[a[i][j] @ b[i][j] + a[i][1 - j] @ b[1 - i][j] for j in range(2)] for i in range(2)]
    )


def _first_step(A: Any, B: Any) -> Any:  # noqa: N803
    """Cannon's algorithm on 2 × 2 without its last step."""
    a = [np.split(rows, 2, axis=1) for rows in np.split(A, 2)]
    b = [np.split(rows, 2, axis=1) for rows in np.split(B, 2)]
    return np.block([[a[i][(i + j) % 2] @ b[(i + j) % 2][j] for j in range(2)] for i in range(2)])


CANNON: Final = Exercise(
    id="6.6",
    title="Cannon",
    requirements=(
        _product(
            "cannon", _pairs(("x", "y"), ("x", "y"), (SQUARE,) * 2, CANNON_SIZES),
            without_skew=_unskewed, first_step_only=_first_step,
        ),
        PlacedLike("cannon", "0 1\n2 3", _shapes(CANNON_SIZES)),
        Requests(
            "cannon", never=("all-gather", "all-reduce", "reduce-scatter", "all-to-all")
        ),
        CommunicatesAtMost(
            "cannon",
            tuple((Budget("collective-permute", bytes=2 * m * k + 2 * k * n),)
                  for m, k, n in CANNON_SIZES),
        ),
        WorksAtMost("cannon", _share(CANNON_SIZES, 4)),
    ),
    hints=(
        "In each round a device multiplies the block of A and the block of B that it has at the "
        "moment, and adds. Then A's blocks move one to the left, B's one up.",
        "That is right only if what a device has goes together from the start: row i of A's blocks "
        "has to be moved i to the left first, column j of B's blocks j up. On 2 × 2: row 1, and "
        "column 1.",
        "lax.ppermute takes a tuple of axes and numbers the devices row by row: over ('x', 'y'), "
        "[(0, 0), (1, 1), (2, 3), (3, 2)] exchanges the blocks of row 1. A pair for everybody, as "
        "who is sent nothing holds zeros.",
    ),
    diagnoses={
        "without-skew": "The blocks do not go together: before the first product, row 1 of A's "
        "blocks has to move one to the left, and column 1 of B's one up.",
        "first-step-only": "That is the first of two rounds.",
        "values": "Draw the four devices, and what each has in each round. Who keeps its own block "
        "needs a pair too, such as (0, 0), or it holds zeros.",
        "all-gather by hand": "Only neighbours exchange blocks here.",
        "too-many-bytes": "Two moves of A's blocks and two of B's are enough.",
    },
)  # fmt: skip

LINES: Final = (8, 4)


def _rows_on_lines() -> Any:
    """X cut in rows, w in columns, on a line of eight and on one of four."""
    return tuple(
        (
            Argument((2 * n, 16), (("x", n),), ("x", None), mode="auto"),
            Argument((16, 4 * n), (("x", n),), (None, "x"), mode="auto"),
        )
        for n in LINES
    )


def _in_order_of_arrival(A: Any, B: Any) -> Any:  # noqa: N803
    """Each device's rows of the result in the order in which the blocks came round."""
    n = len(A) // 2
    product = [np.split(columns, n) for columns in np.split(A @ B, n, axis=1)]
    return np.concatenate(
        [np.concatenate([product[i][(i - s) % n] for s in range(n)]) for i in range(n)], axis=1
    )


OVERLAPPED: Final = Exercise(
    id="6.7",
    title="Multiply while it comes",
    requirements=(
        _product("overlapped", _rows_on_lines(), order_of_arrival=_in_order_of_arrival),
        Requests(
            "overlapped",
            tuple((Ask("collective-permute", n - 1, ("x",), 2 * 16 * 4),) for n in LINES),
        ),
        WorksAtMost(
            "overlapped", tuple(2 * (2 * n) * 16 * 4 + 64 * n for n in LINES)
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
        "all-gather by hand": "The all-gather waits until everything is there. Send round what is "
        "needed next, and multiply what is there.",
        "no collective-permute": "The all-gather waits until everything is there. Send round what "
        "is needed next, and multiply what is there.",
        "one-too-many": "After the last product nothing needs to be sent.",
        "sends-too-much": "It is A's block that goes round, and nothing else.",
    },
)  # fmt: skip


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
    requirements=tuple(
        Trades(
            answer,
            f"shardings (of A, of B, of C, of D) that hold at most {cap:,} bytes on each device, "
            f"and for which A @ B @ C @ D moves as few as can be",
            _chain,
            ((64, 64),) * 4,
            cap,
            FRONTIER,
            slack=4096,
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
        "could-move-less": "Look at what is gathered: which matrix, over which axis, and whether "
        "another cut of its neighbour would make that needless.",
        "number-of-shardings": "An answer is four shardings, in the order of the product.",
        "devices-unused": "All eight devices are to hold a part.",
    },
)

STEPS: Final = 5


def _iterated(A: Any, V: Any) -> Any:  # noqa: N803
    for _ in range(STEPS):
        V = np.tanh(A @ V / 4)  # noqa: N806
    return V.mean()


QUIET_LOOP: Final = Exercise(
    id="6.9",
    title="A loop without a word",
    requirements=(
        Computes(
            "iterate",
            f"iterate(A, V) must do V = tanh(A @ V / 4) {STEPS} times, and return the mean of V.",
            _iterated,
            tuple(
                (
                    Argument((16, 16), (("x", n),), (), mode="auto"),
                    Argument((16, 4 * n), (("x", n),), (None, "x"), mode="auto"),
                )
                for n in LINES
            ),
            {"sum-for-mean": lambda A, V: _iterated(A, V) * np.float32(V.shape[1] // 4)},  # noqa: N803
            under_mesh=True,
        ),
        Requests("iterate", ((Ask("all-reduce", 1, ("x",), 4),),) * 2),
        CommunicatesAtMost("iterate", ((Budget("all-reduce", ("x",), 4),),) * 2),
    ),
    hints=(
        "Column j of the next V needs column j of this V, and all of A. Who has these?",
        "So the loop runs in the body, on one device's columns. lax.fori_loop or lax.scan.",
        "After the loop each device takes the mean of its own columns, and lax.pmean makes one of "
        "these.",
    ),
    diagnoses={
        "too-often": "There is a collective in the loop, and it runs in every round.",
        "sum-for-mean": "The devices' means were added up.",
        "all-gather": "Something is brought together before the body begins: look at in_specs.",
        "not-replicated": "Each device has the mean of its own columns.",
        "all-gather by hand": "No column needs another.",
        "sends-too-much": "Reduce to a number first.",
    },
)

EXERCISES: Final = (
    QUIET, BY_ROWS, BY_COPY, SCATTERED, BY_BLOCKS, CANNON, OVERLAPPED, CHAIN, QUIET_LOOP,
)  # fmt: skip
