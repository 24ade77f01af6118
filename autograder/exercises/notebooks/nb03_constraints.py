"""Notebook 03: telling the compiler what is wanted, in three modes of mesh.

A note for maintainers: the budgets are what XLA's CPU compiler needs on JAX 0.8.2 and 0.10.2, and a
TPU's on 0.10.2 (`tests/judge/test_costs.py` reads the recordings of all three). What JAX refuses on
Explicit axes moves from version to version: in 3.5 it is `jnp.roll` along a cut dimension, which
0.8.2 and 0.10.2 both refuse; where a new JAX accepts it, the answer without an island is right,
and the bank says so first. The silent no-ops of 3.1 and 3.2 are pinned by the bank in the same way.
"""

from typing import Any, Final

import numpy as np

from autograder.exercises.exercise import Exercise
from autograder.exercises.requirements_on_layouts import PlacedLike
from autograder.exercises.requirements_on_programs import (
    Ask,
    Budget,
    CommunicatesAtMost,
    Computes,
    Requests,
)
from autograder.programs import Argument

GRID: Final = (("x", 4), ("y", 2))
LINE: Final = (("x", 8),)
EVERYWHERE: Final = "0,1,2,3,4,5,6,7"
BLOCKS: Final = "0 1\n2 3\n4 5\n6 7"
SHAPES: Final = ((16, 16), (32, 64))


def _block(shape: tuple[int, ...], mode: Any) -> tuple[Argument, ...]:
    return (Argument(shape, GRID, ("x", "y"), mode=mode),)


def _blocks(mode: Any) -> tuple[tuple[Argument, ...], ...]:
    """A block layout of each shape."""
    return tuple(_block(shape, mode) for shape in SHAPES)


TURN: Final = Exercise(
    id="3.1",
    title="A constraint",
    requirements=(
        Computes("turned", "turned(x) must be jnp.sin(x).", np.sin, _blocks("auto")),
        PlacedLike("turned", "0 2 4 6\n1 3 5 7", SHAPES),
        CommunicatesAtMost(
            "turned",
            tuple(
                (Budget("all-to-all", bytes=own), Budget("collective-permute", bytes=own))
                for own in (128, 1024)
            ),
        ),
    ),
    hints=(
        "The picture has two rows of blocks and four columns: which spec on the mesh grid is that?",
        "with_sharding_constraint takes an array and a sharding, and gives back the array. What "
        "it does not give to anybody is lost.",
        "Compute the sine, pass it through the constraint with on(grid, …), and return what comes "
        "out.",
    ),
    diagnoses={
        "nothing-moved": "Either the constraint's result was thrown away, or it says what holds "
        "anyway, or it was no constraint: inside of jit, with Auto axes, jax.device_put does "
        "nothing, without a word.",
        "values": "A layout never changes values: x.T is another array, the constraint is not.",
        "replicated": "The compiler made copies: either P() was asked for, or the constraint is on "
        "another mesh than x. Here it is on(grid, …).",
        "other-modes-verb": "In this exercise x is on grid.",
    },
)

COPIES: Final = Exercise(
    id="3.2",
    title="A copy for everybody",
    requirements=tuple(
        requirement
        for answer, mode in (("copied_auto", "auto"), ("copied_explicit", "explicit"))
        for requirement in (
            Computes(answer, f"{answer}(x) must be 2 * x.", lambda x: 2 * x, _blocks(mode)),
            PlacedLike(answer, EVERYWHERE, SHAPES),
            CommunicatesAtMost(
                # along y and then x, or x and then y: on the wires it is the same
                answer,
                ((Budget("all-gather", bytes=1536),), (Budget("all-gather", bytes=12288),)),
            ),
        )
    ),
    hints=(
        "A spec that names no axis makes copies along all of them: P().",
        "Two modes, two verbs. One of them constrains what the compiler may choose, the other "
        "changes a type.",
        "jax.lax.with_sharding_constraint speaks to the compiler about Auto axes; jax.reshard is "
        "for Explicit ones. With P(), each is silent on the other's.",
    ),
    diagnoses={
        "nothing-moved": "Either nothing was asked, or what was asked had no effect, and no error: "
        "that is what happens where with_sharding_constraint meets Explicit axes, or jax.reshard "
        "Auto ones, and P() names none of them. Each mode has its own verb.",
        "split-dimension": "Some of it was copied, not all: a spec that names no axis at all is "
        "needed.",
        "values": "It is to hold 2 * x.",
    },
)

MATMULS: Final = tuple(
    (
        Argument(a, GRID, (None, "x")),
        Argument(b, GRID, ("x", None)),
    )
    for a, b in (((16, 16), (16, 16)), ((32, 8), (8, 64)))
)
PRODUCTS: Final = ((16, 16), (32, 64))
PRODUCT_BYTES: Final = (1024, 8192)

OUT_SHARDING: Final = Exercise(
    id="3.3",
    title="Where the sum goes",
    requirements=tuple(
        requirement
        for answer, asks, picture, kind, arguments, reference in (
            ("whole", "A @ B", EVERYWHERE, "all-reduce", MATMULS, np.matmul),
            ("rows", "A @ B", "0,1\n2,3\n4,5\n6,7", "reduce-scatter", MATMULS, np.matmul),
            ("columns", "A @ B", "0,1 2,3 4,5 6,7", "reduce-scatter", MATMULS, np.matmul),
            ("together", "A @ B + C @ D", EVERYWHERE, "all-reduce",
             tuple(pair * 2 for pair in MATMULS),
             lambda A, B, C, D: A @ B + C @ D),  # noqa: N803  as the notebook has them
        )
        for requirement in (
            Computes(answer, f"{answer} must return {asks}.", reference, arguments),
            PlacedLike(answer, picture, PRODUCTS),
            CommunicatesAtMost(
                answer, tuple((Budget(kind, ("x",), count),) for count in PRODUCT_BYTES)
            ),
        )
    ),
    hints=(
        "jnp.dot(A, B, out_sharding=on(explicit_grid, …)) says where the result is to be. Read the "
        "pictures: one spec each.",
        "For rows, the spec cuts dimension 0 along x, so each device along x needs the sum of its "
        "rows alone: a reduce-scatter, half of an all-reduce.",
        "For together: a result with P(unreduced={'x'}) is not added up yet. Two such results can "
        "be added to each other first, and jax.reshard(…, on(explicit_grid)) adds up the sum.",
    ),
    diagnoses={
        "bare-spec": "Here that is on(explicit_grid, …).",
        "all-gather": "The factors are brought to everybody before they are multiplied. Multiply "
        "first: what is added up is the product's parts.",
        "too-many-bytes": "Two sums are added up over the devices, one after the other, where one "
        "would do: a + b of parts, then one all-reduce.",
        "replicated-dimension": "If it is cut along y: the contraction is over x, so to cut the "
        "result along y leaves each device with a part of every sum, all of which are added up.",
        "replicated": "Everybody gets the whole sum, where a part was asked for.",
        "unreduced": "That was the right way to begin.",
        "split-dimension": "Compare with the picture, dimension by dimension, what is cut and what "
        "is whole.",
    },
)  # fmt: skip

SPREAD: Final = Exercise(
    id="3.4",
    title="A sum, spread over everybody",
    requirements=(
        Computes(
            "spread_sum",
            "spread_sum(x) must be x.sum(0).",
            lambda x: x.sum(0),
            _blocks("explicit"),
        ),
        PlacedLike("spread_sum", "0 2 4 6 1 3 5 7", ((16,), (64,))),
        CommunicatesAtMost(
            "spread_sum", tuple((Budget("reduce-scatter", ("x",), count),) for count in (32, 128))
        ),
    ),
    hints=(
        "x.sum(0) alone comes out with P('y'), copied along x. Every device is to keep an eighth "
        "of it.",
        "The picture is a vector cut along two axes, one of them changing fastest. Exercise 1.6 "
        "had both orders.",
        "Devices 0, 2, 4 and 6 differ in their place along x: x changes fastest, so it comes last "
        "in the tuple.",
    ),
    diagnoses={
        "device-order": "In this order the parts that the devices have after the sum are not the "
        "ones that they are to keep, and have to change places.",
        "collective-permute over x, y": "The order of the axes in the tuple decides whether what a "
        "device has summed is what it keeps.",
        "all-gather over x": "Something is brought together that is to stay apart. Sum first: a "
        "sum is smaller than what it sums, and each device is to keep its part.",
        "all-to-all": "The array is laid out anew before it is summed. Sum first: a sum is smaller "
        "than what it sums.",
        "replicated-dimension": "The sum is there, but several devices hold the same part of it.",
        "replicated": "Everybody holds the whole sum.",
        "other-modes-verb": "Here x is on explicit_grid.",
        "no-out-sharding": "Sum, and then lay the sum out.",
    },
)

ISLAND: Final = Exercise(
    id="3.5",
    title="An island of Auto",
    requirements=(
        Computes(
            "differences",
            "differences(x) must be x - jnp.roll(x, 1, axis=1).",
            lambda x: x - np.roll(x, 1, axis=1),
            _blocks("explicit"),
        ),
        PlacedLike("differences", BLOCKS, SHAPES),
        CommunicatesAtMost(
            "differences",
            tuple((Budget("collective-permute", ("y",), count),) for count in (16, 32)),
        ),
    ),
    hints=(
        "Run x - jnp.roll(x, 1, axis=1) on an Explicit array and read the error: there is no type "
        "for what happens along the dimension that is cut.",
        "jax.sharding.auto_axes(function, out_sharding=…) gives a function that runs with Auto "
        "axes inside and has a type again at its end.",
        "Write the difference as a function of its own, wrap that, and say that it comes out as "
        "the blocks in the picture.",
    ),
    diagnoses={
        "untypable": "jnp.roll cuts off a strip of one column, and one column cannot be cut in "
        "two.",
        "all-gather over y": "Whole rows are brought together, where each device lacks a single "
        "column.",
        "all-to-all over y": "The array is laid out anew and back again, where each device lacks a "
        "single column.",
        "replicated": "out_sharding says where the island's result goes; P() is everywhere.",
        "values": "jnp.roll(x, 1, axis=1) moves columns to the right.",
    },
)

STEER: Final = Exercise(
    id="3.6",
    title="Steering",
    requirements=(
        Computes("steered", "steered(x) must be x + x.T.", lambda x: x + x.T, (
            _block((16, 16), "auto"), _block((32, 32), "auto"),
        )),
        PlacedLike("steered", BLOCKS, ((16, 16), (32, 32))),
        CommunicatesAtMost(
            "steered",
            tuple(
                (Budget("all-to-all", bytes=own), Budget("collective-permute", bytes=own))
                for own in (128, 512)
            ),
        ),
    ),
    hints=(
        "x has the blocks of the picture already. What arrives in another layout is x.T.",
        "One constraint is enough, on an array that the compiler would otherwise bring together: "
        "say of it that it keeps the blocks.",
        "Constrain x.T to P('x', 'y') before it is added, or the sum after.",
    ),
    diagnoses={
        "replicated": "At the addition two layouts still meet with equal claims, and the compiler "
        "makes copies. A constraint on x itself says what holds anyway, and x.T turns it over: "
        "constrain x.T, or the sum, to P('x', 'y').",
        "all-gather over y": "The way leads through strips of whole rows: half of each is fetched "
        "only to be sent on.",
        "all-gather over parts of axes": "The way leads through a layout with fewer blocks, which "
        "has to be gathered first.",
        "replicated-dimension": "The constraint decided for the result too: it took over the "
        "layout that was given to x.T.",
        "values": "It is x.T that is added.",
    },
)  # fmt: skip


def _layer(x: Any, w: Any, b: Any) -> Any:
    return 1 / (1 + np.exp(-(x @ w + b)))


def _inputs(mode: Any) -> tuple[tuple[Argument, ...], ...]:
    return tuple(
        (
            Argument((features,), LINE, ("x",), mode=mode),
            Argument((features, units), LINE, ("x", None), mode=mode),
            Argument((units,), LINE, (), mode=mode),
        )
        for features, units in ((32, 4), (64, 16))
    )


def _biased(x: Any, w: Any, b: Any) -> Any:
    """The bias added on each of eight devices, before the parts are added up."""
    return _layer(x, w, 8 * b)


def _sigmoids(x: Any, w: Any, b: Any) -> Any:
    """The sigmoid of each device's part, and then the sum."""
    parts = zip(np.split(x, 8), np.split(w, 8), strict=True)
    return np.sum([_layer(x, w, b) for x, w in parts], axis=0)


LAYERS: Final = Exercise(
    id="3.7",
    title="One layer, four ways",
    requirements=tuple(
        requirement
        for answer, mode, by_hand, mistakes in (
            ("layer_plain", "auto", (), {}),
            ("layer_constrained", "auto", (), {}),
            ("layer_explicit", "explicit", (), {}),
            ("layer_mapped", "explicit", (Ask("all-reduce"),),
             {"bias-eight-times": _biased, "sum-of-sigmoids": _sigmoids}),
        )
        for requirement in (
            Computes(
                answer, f"{answer} must return sigmoid(x @ w + b).", _layer, _inputs(mode), mistakes
            ),
            Requests(answer, (by_hand, by_hand), mapped=bool(by_hand)),
            CommunicatesAtMost(
                answer, tuple((Budget("all-reduce", ("x",), count),) for count in (16, 64))
            ),
        )
    ),
    hints=(
        "The plain one is the line as you would write it for one device. The constrained one says "
        "of x @ w that it is to be whole everywhere.",
        "The explicit one has to answer JAX's question: where is the sum over x to go?",
        "In the mapped one, x @ w is a part of each sum. jax.lax.psum(part, 'x') adds the parts "
        "up. What must happen after that, and only once?",
    ),
    diagnoses={
        "bias-eight-times": "Each device added the bias to its part, and then the parts were added "
        "up: the bias is in the result eight times. Add it after psum.",
        "sum-of-sigmoids": "Each device took the sigmoid of its part, and then these were added "
        "up. A sigmoid of a part is no part of the sigmoid: psum first.",
        "not-replicated": "Here each device has another part of the sum.",
        "all-gather over x": "The features are brought together, where a sum of parts, four "
        "numbers long, would do.",
        "no-shard-map": "layer_mapped is to be written with shard_map and psum.",
        "all-reduce by hand": "Only layer_mapped is to be written by hand.",
    },
)  # fmt: skip

EXERCISES: Final = (TURN, COPIES, OUT_SHARDING, SPREAD, ISLAND, STEER, LAYERS)
