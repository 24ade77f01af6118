"""Notebook 03: requesting layouts, in three modes of mesh.

The budgets are what XLA's CPU compiler needs on JAX 0.8.2 and 0.10.2, and a TPU's on 0.10.2
(`tests/judge/test_costs.py` reads recordings of all three). What JAX refuses on Explicit axes
changes from version to version. In 3.5 it is `jnp.roll` along a sharded dimension, which 0.8.2 and
0.10.2 both refuse. If a new JAX accepts it, the answer without `auto_axes` is right, and the bank
fails first. The bank tests the silent no-ops of 3.1 and 3.2 in the same way.
"""

from typing import Any, Final

import numpy as np

from autograder.artifacts import Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    Mistake,
    PlacedLike,
    RequestedCollective,
    Requests,
)

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
    afterwards="`jax.jit(f, out_shardings=...)` requests the layout of a result from outside the "
    "function; a constraint works in the middle of one, too.",
    requirements=(
        Computes(
            "turned",
            "turned(x) must be jnp.sin(x).",
            lambda x: np.sin(x),
            _blocks("auto"),
            mistakes={
                "data-turned": Mistake(
                    lambda x: np.sin(x).T,
                    says="These are the values of jnp.sin(x).T, which is another array. Changing a "
                    "layout changes no values.",
                ),
                "sine-forgotten": Mistake(lambda x: x, says="These are the values of x itself."),
                "cosine": Mistake(np.cos, says="These are the values of jnp.cos(x)."),
            },
        ),
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
        "The picture has two rows and four columns of blocks. Which spec on the mesh grid gives "
        "that?",
        "`with_sharding_constraint` takes an array and a sharding, and returns the array. If the "
        "returned array is not used, the constraint has no effect.",
        "Compute the sine, apply the constraint with on(grid, …), and return its result.",
    ),
    diagnoses={
        "nothing-moved": "Does the function return what with_sharding_constraint returns? (Inside "
        "of jit, on Auto axes, jax.device_put does nothing.)",
        "constraint-moves-nothing": "It requests the layout that x has already. Which axis shards "
        "dimension 0 in the picture?",
        "replicated": "Is the constraint's sharding on the mesh grid, and does its spec name both "
        "axes of it?",
        "all-gather": "Blocks are gathered on the way, though each block can go directly to the "
        "device that must have it.",
        "other-modes-verb": "In this exercise x is on grid.",
    },
)

COPIES: Final = Exercise(
    id="3.2",
    title="Replicate",
    afterwards="Fully sharded training does this to the weights of a layer just before it uses "
    "them, and drops the replicas afterwards: see 8.4.",
    requirements=tuple(
        requirement
        for answer, mode in (("copied_auto", "auto"), ("copied_explicit", "explicit"))
        for requirement in (
            Computes(
                answer,
                f"{answer}(x) must be 2 * x.",
                lambda x: 2 * x,
                _blocks(mode),
                mistakes={
                    "squared": Mistake(lambda x: x * x, says="These are the values of x * x.")
                },
            ),
            PlacedLike(answer, EVERYWHERE, SHAPES, stays=True),
            CommunicatesAtMost(
                # along y and then x, or x and then y: on the wires it is the same
                answer,
                ((Budget("all-gather", bytes=1536),), (Budget("all-gather", bytes=12288),)),
            ),
        )
    ),
    hints=(
        "A spec that names no axis replicates over all of them: P().",
        "There are two functions, one for each mode. One requests a layout from the compiler, the "
        "other changes a type.",
        "jax.lax.with_sharding_constraint is for Auto axes, jax.reshard for Explicit ones. With "
        "P(), neither does anything on axes of the other mode.",
    ),
    diagnoses={
        "nothing-moved": "Does the function request a layout with the function of this mode, and "
        "return the result? Inside jit, three requests do nothing and raise no error: "
        "with_sharding_constraint to P() on Explicit axes, jax.reshard to P() on Auto axes, and "
        "jax.device_put on Auto axes.",
        "split-dimension": "A dimension is not sharded if its entry in the spec names no axis.",
        "not-replicated": "Each device returns its own block of x. out_specs moves nothing, so "
        "gather the blocks first.",
        "another-mesh": "The rest of the program uses the mesh of the argument.",
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


def _product(A: Any, B: Any) -> Any:
    return A @ B


def _two_products(A: Any, B: Any, C: Any, D: Any) -> Any:
    return A @ B + C @ D


OUT_SHARDING: Final = Exercise(
    id="3.3",
    title="Where the sum goes",
    afterwards="In a ring, an all-reduce is a reduce-scatter followed by an all-gather. So "
    "keeping only your own piece of a sum sends half the bytes.",
    requirements=tuple(
        requirement
        for answer, asks, picture, kind, arguments, reference, mistakes in (
            ("whole", "A @ B", EVERYWHERE, "all-reduce", MATMULS, _product, {}),
            ("rows", "A @ B", "0,1\n2,3\n4,5\n6,7", "reduce-scatter", MATMULS, _product, {}),
            ("columns", "A @ B", "0,1 2,3 4,5 6,7", "reduce-scatter", MATMULS, _product, {}),
            (
                "together",
                "A @ B + C @ D",
                EVERYWHERE,
                "all-reduce",
                tuple(pair * 2 for pair in MATMULS),
                _two_products,
                {
                    "cross-terms": Mistake(
                        lambda A, B, C, D: (A + C) @ (B + D),
                        says="These are the values of (A + C) @ (B + D), which also contains A @ D "
                        "and C @ B.",
                    ),
                    "one-product": Mistake(
                        lambda A, B, C, D: A @ B,
                        says="These are the values of A @ B; C @ D is missing.",
                    ),
                    "other-product": Mistake(
                        lambda A, B, C, D: C @ D,
                        says="These are the values of C @ D; A @ B is missing.",
                    ),
                    "first-twice": Mistake(
                        lambda A, B, C, D: 2 * (A @ B),
                        says="These are the values of A @ B + A @ B. Expected: A @ B + C @ D.",
                    ),
                    "second-twice": Mistake(
                        lambda A, B, C, D: 2 * (C @ D),
                        says="These are the values of C @ D + C @ D. Expected: A @ B + C @ D.",
                    ),
                    "subtracted": Mistake(
                        lambda A, B, C, D: A @ B - C @ D,
                        says="These are the values of A @ B - C @ D. Expected: the sum of the two.",
                    ),
                },
            ),
        )
        for requirement in (
            Computes(answer, f"{answer} must return {asks}.", reference, arguments, mistakes),
            PlacedLike(answer, picture, PRODUCTS, stays=True),
            CommunicatesAtMost(
                answer, tuple((Budget(kind, ("x",), count),) for count in PRODUCT_BYTES)
            ),
        )
    ),
    hints=(
        "jnp.dot(A, B, out_sharding=on(explicit_grid, …)) chooses the layout of the result. Read "
        "the pictures: one spec for each.",
        "For rows, the spec shards dimension 0 over x. Each device along x then needs only the "
        "sum of its own rows: a reduce-scatter, half of an all-reduce.",
        "For together: a result with P(unreduced={'x'}) still consists of partial sums. Add two "
        "such results first, and then jax.reshard(…, on(explicit_grid)) reduces both at once.",
    ),
    diagnoses={
        "bare-spec": "Here that is on(explicit_grid, …).",
        "ambiguous": "Should the result be replicated, sharded, or unreduced?",
        "all-gather": "Are the factors gathered before they are multiplied? Multiply first: then "
        "only partial sums have to be added.",
        "too-many-bytes": "How many times are partial sums added over the devices? They can be "
        "added to each other first, on each device, and then reduced once.",
        "reduce-scatter": "A reduce-scatter leaves each device with one piece of the sum. Should "
        "each device have only a piece, and is there one sum or are there two?",
        "all-reduce": "An all-reduce gives every device the complete sum. Should each device have "
        "the complete sum, or only its own piece?",
        "replicated-dimension": "The partial sums are spread along x. Over which axis can the "
        "result be sharded, so that each device only needs its own piece?",
        "replicated": "Every device gets the complete sum. Expected: one piece on each.",
        "another-mesh": "All four results must be on explicit_grid.",
        "unreduced": "Unreduced arrays can be added to each other, but their values cannot be "
        "read.",
        "split-dimension": "Compare with the picture: which dimensions are sharded?",
        "all-to-all": "Do you concatenate arrays along a dimension that is sharded over x, such as "
        "A with C? Then their blocks change places between devices. Multiply first, and add the "
        "products.",
    },
    about=(CommunicatesAtMost,),
    # to be asked and to say "everywhere" is the least of it, and one sum for two the most
    weights={"rows": 2, "columns": 2, "together": 3},
)

SPREAD: Final = Exercise(
    id="3.4",
    title="Shard a sum over all devices",
    afterwards="Optimizers whose state is sharded over the data-parallel devices (ZeRO) need "
    "exactly this: each device gets its own piece of the summed gradients.",
    requirements=(
        Computes(
            "spread_sum",
            "spread_sum(x) must be x.sum(0).",
            lambda x: x.sum(0),
            _blocks("explicit"),
            mistakes={
                "mean-for-sum": Mistake(
                    lambda x: x.mean(0), says="These are the means. Expected: the sums."
                ),
                "rows-summed": Mistake(
                    lambda x: x.sum(1),
                    says="These are the values of x.sum(1). x.sum(0) adds along dimension 0: one "
                    "sum for each column.",
                ),
                "max-for-sum": Mistake(
                    lambda x: x.max(0), says="These are the values of x.max(0). Expected: the sums."
                ),
                "dimension-kept": Mistake(
                    lambda x: x.sum(0, keepdims=True),
                    says="These are the right sums in an array of rank 2. Expected: a vector.",
                ),
                "one-sum-for-all": Mistake(
                    lambda x: np.full(x.shape[1], x.sum()),
                    lambda x: np.full(16, x.sum()),
                    lambda x: x.sum(),
                    says="This is the sum of all elements of x. x.sum(0) has one sum for each "
                    "column.",
                ),
            },
        ),
        PlacedLike(
            "spread_sum",
            "0 2 4 6 1 3 5 7",
            ((16,), (64,)),
            mistakes={
                "as-the-sum-comes": Mistake(
                    "0,2,4,6 1,3,5,7",
                    says="This is the layout of x.sum(0) itself: sharded over y, replicated over "
                    "x. Does the function return the result of jax.reshard?",
                ),
                "along-x-alone": Mistake(
                    "0,1 2,3 4,5 6,7",
                    says="The result is sharded over x only, and replicated over y.",
                ),
                "the-other-order": Mistake(
                    "0 1 2 3 4 5 6 7",
                    says="From block to block, y changes fastest here; in the picture, x does. In "
                    "the picture's layout, each device keeps a piece of a sum to which it "
                    "contributed. In yours, most devices have to send their piece to another "
                    "device.",
                ),
            },
        ),
        CommunicatesAtMost(
            "spread_sum", tuple((Budget("reduce-scatter", ("x",), count),) for count in (32, 128))
        ),
    ),
    hints=(
        "x.sum(0) alone has the spec P('y') and is replicated over x. Every device must keep an "
        "eighth of it.",
        "The picture is a vector sharded over two axes, one of which changes fastest. Exercise "
        "1.6 had both orders.",
        "Devices 0, 2, 4 and 6 differ in their position along x. So x changes fastest, and comes "
        "last in the tuple.",
    ),
    diagnoses={
        "collective-permute": "After the reduction, blocks of the sum are sent to other devices. "
        "Does your layout give each device a piece of a sum to which it contributed?",
        "all-gather": "Is x gathered before it is summed, or is the sum gathered before it is "
        "resharded? Neither is needed: each device only needs its own piece of the sum.",
        "all-to-all": "Is x resharded before it is summed? Sum first: the sum is smaller than x.",
        "all-reduce": "An all-reduce gives the complete sum to every device of its group. Here "
        "each device must only get its own piece.",
        "replicated": "Expected: an eighth of the sum on each.",
        "other-modes-verb": "Here x is on explicit_grid.",
        "no-out-sharding": "Sum first, and then reshard the sum.",
    },
    about=(CommunicatesAtMost,),
)


def _blocks_alone(x: Any) -> Any:
    """Roll each block by itself, if dimension 1 has two shards: a mistake."""
    return np.concatenate([half - np.roll(half, 1, axis=1) for half in np.split(x, 2, axis=1)], 1)


ISLAND: Final = Exercise(
    id="3.5",
    title="An island of Auto",
    afterwards="The other direction exists, too: jax.sharding.explicit_axes makes axes Explicit "
    "within an Auto program.",
    requirements=(
        Computes(
            "differences",
            "differences(x) must be x - jnp.roll(x, 1, axis=1).",
            lambda x: x - np.roll(x, 1, axis=1),
            _blocks("explicit"),
            mistakes={
                "blocks-alone": Mistake(
                    _blocks_alone,
                    says="Each block was rolled by itself: its first column is compared with its "
                    "own last column, and not with the neighbour's.",
                ),
                "other-neighbour": Mistake(
                    lambda x: x - np.roll(x, -1, axis=1),
                    says="This is the difference to the right neighbour. jnp.roll(x, 1, axis=1) "
                    "moves columns to the right, so that each meets its left neighbour.",
                ),
                "rows-rolled": Mistake(
                    lambda x: x - np.roll(x, 1, axis=0),
                    says="This is the difference to the row above. axis=1 is about columns.",
                ),
                "rolled-flat": Mistake(
                    lambda x: x - np.roll(x, 1),
                    says="This is x - jnp.roll(x, 1): without axis=1, jnp.roll flattens the array, "
                    "so the first column meets the last column of the row above.",
                ),
                "sum-for-difference": Mistake(
                    lambda x: x + np.roll(x, 1, axis=1),
                    says="This is x plus the rolled array. Expected: x minus it.",
                ),
                "two-places": Mistake(
                    lambda x: x - np.roll(x, 2, axis=1),
                    says="The array is rolled by two columns. Expected: one.",
                ),
                "turned-round": Mistake(
                    lambda x: np.roll(x, 1, axis=1) - x,
                    says="This is the rolled array minus x. Expected: x minus the rolled array.",
                ),
                "rolled-alone": Mistake(
                    lambda x: np.roll(x, 1, axis=1),
                    says="This is the rolled array. Expected: x minus it.",
                ),
                "not-a-ring": Mistake(
                    lambda x: x - np.pad(x, ((0, 0), (1, 0)))[:, :-1],
                    says="The first column is x itself here. jnp.roll wraps around: the last "
                    "column becomes the first.",
                ),
            },
        ),
        PlacedLike("differences", BLOCKS, SHAPES),
        CommunicatesAtMost(
            "differences",
            tuple((Budget("collective-permute", ("y",), count),) for count in (16, 32)),
        ),
    ),
    hints=(
        "Run x - jnp.roll(x, 1, axis=1) on an Explicit array and read the error: an intermediate "
        "array along the sharded dimension has no type.",
        "jax.sharding.auto_axes(function, out_sharding=…) returns a function that runs with Auto "
        "axes inside and whose result has a type again.",
        "Write the difference as a function, wrap it, and name the layout of the picture as its "
        "out_sharding.",
    ),
    diagnoses={
        "untypable": "jnp.roll slices off one column, and one column cannot be sharded over two "
        "devices.",
        "all-gather": "Blocks are gathered, though each device lacks only a single column.",
        "all-to-all": "The array is resharded, though each device lacks only a single column.",
        "collective-permute": "The left neighbour has the same rows, so what is missing comes "
        "over y only.",
        "replicated": "out_sharding chooses the layout of the result, and P() replicates it.",
        "grid": "The result must have the layout of x; out_sharding chooses it.",
    },
    about=(CommunicatesAtMost,),
)

STEER: Final = Exercise(
    id="3.6",
    title="Steering",
    afterwards="A constraint changes no values, so you can try one and look at the communication "
    "again. People find such lines in real models in this way.",
    requirements=(
        Computes(
            "steered",
            "steered(x) must be x + x.T.",
            lambda x: x + x.T,
            (_block((16, 16), "auto"), _block((32, 32), "auto")),
            mistakes={
                "added-to-itself": Mistake(lambda x: 2 * x, says="These are the values of x + x."),
                "subtracted": Mistake(lambda x: x - x.T, says="These are the values of x - x.T."),
                "multiplied": Mistake(lambda x: x * x.T, says="These are the values of x * x.T."),
                "matmul": Mistake(lambda x: x @ x.T, says="These are the values of x @ x.T."),
                "turned-alone": Mistake(lambda x: x.T, says="These are the values of x.T alone."),
                "turned-twice": Mistake(
                    lambda x: 2 * x.T, says="These are the values of x.T + x.T."
                ),
                "one-triangle": Mistake(
                    lambda x: np.triu(x) + np.triu(x).T,
                    says="Only one of the two triangles of x is in it, twice.",
                ),
            },
        ),
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
        "x already has the layout of the picture. x.T has another one.",
        "One constraint is enough, on an array that the compiler would otherwise gather: request "
        "the layout of x for it.",
        "Constrain x.T to P('x', 'y') before the addition, or constrain the sum.",
    ),
    diagnoses={
        "replicated": "x has the spec P('x', 'y'), and so x.T has P('y', 'x'). Does your program "
        "tell the compiler which of the two layouts the sum should have? A constraint does so on "
        "x.T before the addition, or on the sum. (Inside jit, jax.device_put is not a constraint.)",
        "all-gather": "Is something gathered on the way, such as complete rows or the whole "
        "array? Each device needs only an eighth of x.T.",
        "too-many-bytes": "Is the array resharded more than once on the way?",
        "grid": "The result must have the layout of x.",
        "transposed": "The result must have the layout of x, not that of x.T.",
        "replicated-dimension": "The sum has fewer blocks than x. Is this the layout that a "
        "constraint gave to x.T?",
        "other-modes-verb": "Here x is on grid.",
    },
    about=(CommunicatesAtMost,),
)


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


def _without_bias(x: Any, w: Any, b: Any) -> Any:
    """The bias left out."""
    return _layer(x, w, 0 * b)


def _without_sigmoid(x: Any, w: Any, b: Any) -> Any:
    """The sigmoid left out."""
    return x @ w + b


def _bias_last(x: Any, w: Any, b: Any) -> Any:
    """The bias added to the sigmoid."""
    return _without_bias(x, w, b) + b


def _relu(x: Any, w: Any, b: Any) -> Any:
    """ReLU in place of the sigmoid."""
    return np.maximum(x @ w + b, 0)


def _tanh(x: Any, w: Any, b: Any) -> Any:
    """The hyperbolic tangent in place of the sigmoid."""
    return np.tanh(x @ w + b)


def _bias_multiplied(x: Any, w: Any, b: Any) -> Any:
    """The product multiplied by the bias."""
    return 1 / (1 + np.exp(-(x @ w * b)))


def _bias_in_the_weights(x: Any, w: Any, b: Any) -> Any:
    """The bias added to the weights."""
    return _layer(x, w + b, 0 * b)


def _mean(x: Any, w: Any, b: Any) -> Any:
    """The mean of eight devices' parts, in place of their sum."""
    return _layer(x, w / 8, b)


def _biased(x: Any, w: Any, b: Any) -> Any:
    """The bias added on each of eight devices, before the parts are added up."""
    return _layer(x, w, 8 * b)


def _sigmoids(x: Any, w: Any, b: Any) -> Any:
    """The sigmoid of each device's part, and then the sum."""
    parts = zip(np.split(x, 8), np.split(w, 8), strict=True)
    return np.sum([_layer(x, w, b) for x, w in parts], axis=0)


def _joined(x: Any, w: Any, b: Any) -> Any:
    """Each device's layer from its own part of x and w, joined by out_specs."""
    parts = zip(np.split(x, 8), np.split(w, 8), strict=True)
    return np.concatenate([_layer(x, w, b) for x, w in parts])


LAYERS: Final = Exercise(
    id="3.7",
    title="One layer, four ways",
    afterwards="Large training codes mix these ways: the compiler handles most layers, with "
    "constraints or Explicit types, and shard_map takes over where its choice is not good enough.",
    requirements=tuple(
        requirement
        for answer, mode, by_hand, mistakes in (
            ("layer_plain", "auto", (), {}),
            ("layer_constrained", "auto", (), {}),
            ("layer_explicit", "explicit", (), {}),
            (
                "layer_mapped",
                "explicit",
                (RequestedCollective("all-reduce"),),
                {
                    "bias-eight-times": Mistake(
                        _biased,
                        says="Each device added the bias to its partial sum before psum, so the "
                        "result contains the bias eight times. Add it after psum.",
                    ),
                    "sum-of-sigmoids": Mistake(
                        _sigmoids,
                        says="Each device took the sigmoid of its partial sum, and then these were "
                        "added up. Add up the partial sums first: psum, then sigmoid.",
                    ),
                    "mean-for-sum": Mistake(
                        _mean,
                        says="These are the values with the mean of the partial sums in place of "
                        "their sum.",
                    ),
                    "parts-joined": Mistake(
                        _joined,
                        says="This is eight layers side by side: each device used only its own "
                        "part of x and w. How does one device's x @ w compare with the complete "
                        "product?",
                    ),
                },
            ),
        )
        for requirement in (
            Computes(
                answer,
                f"{answer} must return sigmoid(x @ w + b).",
                _layer,
                _inputs(mode),
                {
                    "bias-forgotten": Mistake(
                        _without_bias, says="These are the values without the bias."
                    ),
                    "sigmoid-forgotten": Mistake(
                        _without_sigmoid, says="These are the values before the sigmoid."
                    ),
                    "bias-last": Mistake(
                        _bias_last,
                        says="The bias is added to the sigmoid. Expected: added inside it.",
                    ),
                    "relu-for-sigmoid": Mistake(
                        _relu, says="These are the values of relu(x @ w + b); expected a sigmoid."
                    ),
                    "tanh-for-sigmoid": Mistake(
                        _tanh, says="These are the values of tanh(x @ w + b); expected a sigmoid."
                    ),
                    "bias-multiplied": Mistake(
                        _bias_multiplied,
                        says="x @ w is multiplied by the bias; expected the bias added to it.",
                    ),
                    "bias-in-the-weights": Mistake(
                        _bias_in_the_weights,
                        says="These are the values of sigmoid(x @ (w + b)): the bias is added to "
                        "the weights. Add it to the product.",
                    ),
                }
                | mistakes,
            ),
            Requests(
                answer,
                (by_hand, by_hand),
                mapped=bool(by_hand),
                constrained={"layer_plain": False, "layer_constrained": True}.get(answer),
                made_of=(0, 1),
            ),
            CommunicatesAtMost(
                answer, tuple((Budget("all-reduce", ("x",), count),) for count in (16, 64))
            ),
        )
    ),
    hints=(
        "layer_plain is the line as you would write it for one device. layer_constrained requests "
        "that x @ w is replicated.",
        "layer_explicit has to say what JAX cannot derive: the layout of the sum over x.",
        "In layer_mapped, x @ w is a partial sum. jax.lax.psum(part, 'x') adds the partial sums "
        "up. What must happen after that, and only once?",
    ),
    diagnoses={
        "does-not-divide": "Is it the dimension of the outputs, which w, b and x @ w have? Every "
        "device has to hold all of it. Only the dimension that x @ w adds over is sharded.",
        "not-replicated": "Does each device have a different partial sum there, which still has "
        "to be added up?",
        "layer_explicit: ambiguous": "What layout should the sum have? out_sharding chooses it.",
        "layer_mapped: ambiguous": "Write this one with shard_map: in its body each device "
        "multiplies its own blocks, and there is no ambiguity.",
        "constrained": "layer_plain leaves the layouts to the compiler.",
        "all-gather": "Something is gathered, though it is enough to add up partial sums as long "
        "as b.",
        "no-constraint": "Without one the compiler happens to choose the right layout, too. This "
        "exercise asks you to request it.",
        "no all-reduce": "Have each device multiply its own shards of x and w, which gives a "
        "partial sum of each output. Which collective adds these up over the devices?",
        "no-shard-map": "Write layer_mapped with shard_map and psum.",
        "explicit all-reduce": "Only layer_mapped should have explicit collectives.",
    },
    # the plain one needs no thought
    weights={"layer_constrained": 2, "layer_explicit": 2, "layer_mapped": 3},
)

EXERCISES: Final = (TURN, COPIES, OUT_SHARDING, SPREAD, ISLAND, STEER, LAYERS)
