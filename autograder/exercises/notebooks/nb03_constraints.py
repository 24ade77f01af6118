"""Notebook 03: telling the compiler what is wanted, in three modes of mesh.

A note for maintainers: the budgets are what XLA's CPU compiler needs on JAX 0.8.2 and 0.10.2, and a
TPU's on 0.10.2 (`tests/judge/test_costs.py` reads the recordings of all three). What JAX refuses on
Explicit axes moves from version to version: in 3.5 it is `jnp.roll` along a cut dimension, which
0.8.2 and 0.10.2 both refuse; where a new JAX accepts it, the answer without an island is right,
and the bank says so first. The silent no-ops of 3.1 and 3.2 are pinned by the bank in the same way.
"""

from typing import Any, Final

import numpy as np

from autograder.judge import (
    AnyOf,
    Ask,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    PlacedLike,
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
    afterwards="jax.jit(f, out_shardings=...) says the same of a result from outside the function; "
    "a constraint also works in the middle of one.",
    requirements=(
        Computes(
            "turned",
            "turned(x) must be jnp.sin(x).",
            lambda x: np.sin(x),
            _blocks("auto"),
            mistakes={
                "data-turned": lambda x: np.sin(x).T,
                "sine-forgotten": lambda x: x,
                "cosine": np.cos,
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
        "The picture has two rows of blocks and four columns: which spec on the mesh grid is that?",
        "with_sharding_constraint takes an array and a sharding, and gives back the array. What "
        "it does not give to anybody is lost.",
        "Compute the sine, pass it through the constraint with on(grid, …), and return what comes "
        "out.",
    ),
    diagnoses={
        "nothing-moved": "Is there a jax.device_put? Inside of jit, with Auto axes, it moves "
        "nothing, and raises no error. Or is there a constraint whose result the function does not "
        "return, or which asks for the layout that x has already?",
        "data-turned": "These are the numbers of jnp.sin(x).T, which is another array. A layout "
        "says where an array's blocks are; to change it changes no number.",
        "sine-forgotten": "These are the numbers of x itself.",
        "cosine": "These are the numbers of jnp.cos(x).",
        "replicated": "Does the constraint say P(), or does it name another mesh than grid, which "
        "x is on?",
        "all-gather": "On the way, blocks are brought together, and a block can go straight to the "
        "device that is to have it.",
        "other-modes-verb": "In this exercise x is on grid.",
    },
)

COPIES: Final = Exercise(
    id="3.2",
    title="A copy for everybody",
    afterwards="To gather a whole copy just before it is used, and drop it afterwards, is how "
    "fully sharded training fetches the weights of a layer: you will do that in 8.4.",
    requirements=tuple(
        requirement
        for answer, mode in (("copied_auto", "auto"), ("copied_explicit", "explicit"))
        for requirement in (
            Computes(
                answer,
                f"{answer}(x) must be 2 * x.",
                lambda x: 2 * x,
                _blocks(mode),
                mistakes={"squared": lambda x: x * x},
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
        "A spec that names no axis makes copies along all of them: P().",
        "Two modes, two verbs. One of them constrains what the compiler may choose, the other "
        "changes a type.",
        "jax.lax.with_sharding_constraint speaks to the compiler about Auto axes; jax.reshard is "
        "for Explicit ones. With P(), neither does anything on the other's axes.",
    ),
    diagnoses={
        "nothing-moved": "Does the function ask for a layout, in the way of this mode, and return "
        "what that gives? Inside jit, three requests have no effect and raise no error: "
        "with_sharding_constraint to P() on Explicit axes, jax.reshard to P() on Auto axes, and "
        "jax.device_put on Auto axes.",
        "split-dimension": "A dimension is whole on every device where its entry in the spec names "
        "no axis.",
        "squared": "These are the values of x * x.",
        "not-replicated": "Here each device returns its own block of x. out_specs moves nothing, "
        "so the blocks have to be gathered before that.",
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


def _product(A: Any, B: Any) -> Any:  # noqa: N803  as the notebook has them
    return A @ B


def _two_products(A: Any, B: Any, C: Any, D: Any) -> Any:  # noqa: N803  as the notebook has them
    return A @ B + C @ D


OUT_SHARDING: Final = Exercise(
    id="3.3",
    title="Where the sum goes",
    afterwards="In a ring, an all-reduce is a reduce-scatter followed by an all-gather. So keeping "
    "only your own part of a sum costs half as much as having all of it.",
    requirements=tuple(
        requirement
        for answer, asks, picture, kind, arguments, reference, mistakes in (
            ("whole", "A @ B", EVERYWHERE, "all-reduce", MATMULS, _product, {}),
            ("rows", "A @ B", "0,1\n2,3\n4,5\n6,7", "reduce-scatter", MATMULS, _product, {}),
            ("columns", "A @ B", "0,1 2,3 4,5 6,7", "reduce-scatter", MATMULS, _product, {}),
            ("together", "A @ B + C @ D", EVERYWHERE, "all-reduce",
             tuple(pair * 2 for pair in MATMULS), _two_products,
             {"cross-terms": lambda A, B, C, D: (A + C) @ (B + D),  # noqa: N803
              "one-product": lambda A, B, C, D: A @ B,  # noqa: N803
              "other-product": lambda A, B, C, D: C @ D,  # noqa: N803
              "first-twice": lambda A, B, C, D: 2 * (A @ B),  # noqa: N803
              "second-twice": lambda A, B, C, D: 2 * (C @ D),  # noqa: N803
              "subtracted": lambda A, B, C, D: A @ B - C @ D}),  # noqa: N803
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
        "jnp.dot(A, B, out_sharding=on(explicit_grid, …)) says where the result is to be. Read the "
        "pictures: one spec each.",
        "For rows, the spec cuts dimension 0 along x, so each device along x needs the sum of its "
        "rows alone: a reduce-scatter, half of an all-reduce.",
        "For together: a result with P(unreduced={'x'}) is not added up yet. Two such results can "
        "be added to each other first, and jax.reshard(…, on(explicit_grid)) adds up the sum.",
    ),
    diagnoses={
        "bare-spec": "Here that is on(explicit_grid, …).",
        "ambiguous": "All of it everywhere, a part of it each, or not yet added up?",
        "all-gather": "Is it the factors that are brought together, before they are multiplied? "
        "Multiply first: what is left to do is to add up the parts of a product.",
        "too-many-bytes": "How many sums are added up over the devices? Parts can be added to "
        "each other first, on each device, and then once over all of them.",
        "reduce-scatter": "A reduce-scatter leaves each device with a part of a sum. Should each "
        "device have a part only, and is there one sum or are there two?",
        "all-reduce": "An all-reduce gives the whole sum to all that take part in it. Is each to "
        "have the whole, or only what it keeps?",
        "replicated-dimension": "The parts of each sum are spread along x. Along which axis can "
        "the result be cut, then, so that each device need only have its own part added up?",
        "replicated": "Every device gets the whole sum; expected a part on each.",
        "another-mesh": "All four results have to be on explicit_grid.",
        "cross-terms": "These are the values of (A + C) @ (B + D), which has A @ D and C @ B in it "
        "besides.",
        "one-product": "These are the values of A @ B; C @ D is missing.",
        "other-product": "These are the values of C @ D; A @ B is missing.",
        "first-twice": "These are the values of A @ B + A @ B; expected A @ B + C @ D.",
        "second-twice": "These are the values of C @ D + C @ D; expected A @ B + C @ D.",
        "subtracted": "These are the values of A @ B - C @ D; expected the sum of the two.",
        "unreduced": "Parts that are not added up yet can be added to each other, but cannot be "
        "read.",
        "split-dimension": "Compare with the picture, dimension by dimension, what is cut and what "
        "is whole.",
    },
    about=(CommunicatesAtMost,),
    # to be asked and to say "everywhere" is the least of it, and one sum for two the most
    weights={"rows": 2, "columns": 2, "together": 3},
)  # fmt: skip

SPREAD: Final = Exercise(
    id="3.4",
    title="A sum, spread over all devices",
    afterwards="Optimisers whose state is cut over the data-parallel devices (ZeRO) ask for "
    "exactly this: each device gets its own share of the summed gradients.",
    requirements=(
        Computes(
            "spread_sum",
            "spread_sum(x) must be x.sum(0).",
            lambda x: x.sum(0),
            _blocks("explicit"),
            mistakes={
                "mean-for-sum": lambda x: x.mean(0),
                "rows-summed": lambda x: x.sum(1),
                "max-for-sum": lambda x: x.max(0),
                "dimension-kept": lambda x: x.sum(0, keepdims=True),
                "one-sum-for-all": AnyOf(
                    (
                        lambda x: np.full(x.shape[1], x.sum()),
                        lambda x: np.full(16, x.sum()),
                        lambda x: x.sum(),
                    )
                ),
            },
        ),
        PlacedLike(
            "spread_sum",
            "0 2 4 6 1 3 5 7",
            ((16,), (64,)),
            mistakes={
                "as-the-sum-comes": "0,2,4,6 1,3,5,7",
                "along-x-alone": "0,1 2,3 4,5 6,7",
                "the-other-order": "0 1 2 3 4 5 6 7",
            },
        ),
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
        "as-the-sum-comes": "That is the layout of x.sum(0) by itself: sharded over y, replicated "
        "over x. Does the function return what jax.reshard returns?",
        "along-x-alone": "The result is sharded over x alone, and replicated over y.",
        "the-other-order": "From block to block, y changes fastest here; in the picture, x does. "
        "With the picture's layout, each device keeps part of a sum that it helped to compute. "
        "With yours, most devices have to send their part to another device.",
        "collective-permute": "After the reduction, blocks of the sum are sent to other devices. "
        "Does your layout give each device part of a sum that it helped to compute?",
        "all-gather": "Is x gathered before it is summed, or is the sum gathered before it is "
        "resharded? Neither is needed: each device only needs its own part of the sum.",
        "all-to-all": "Is x resharded before it is summed? Sum first: the sum is smaller than x.",
        "all-reduce": "An all-reduce leaves the whole sum on every device of its group. Here each "
        "device should only get its own part.",
        "replicated": "Expected an eighth of the sum on each.",
        "max-for-sum": "These are the values of x.max(0); expected the sums.",
        "mean-for-sum": "These are the means; expected the sums.",
        "rows-summed": "These are the values of x.sum(1). x.sum(0) adds along dimension 0: one sum "
        "for each column.",
        "one-sum-for-all": "This is the sum of all elements of x. x.sum(0) has one sum for each "
        "column.",
        "dimension-kept": "These are the right sums in an array of rank 2; expected a vector.",
        "other-modes-verb": "Here x is on explicit_grid.",
        "no-out-sharding": "Sum first, and then reshard the sum.",
    },
    about=(CommunicatesAtMost,),
)


def _blocks_alone(x: Any) -> Any:
    """The mistake of rolling each block in itself, where dimension 1 is cut into two."""
    return np.concatenate([half - np.roll(half, 1, axis=1) for half in np.split(x, 2, axis=1)], 1)


ISLAND: Final = Exercise(
    id="3.5",
    title="An island of Auto",
    afterwards="There is a bridge in the other direction as well: jax.sharding.explicit_axes makes "
    "axes Explicit within an Auto program.",
    requirements=(
        Computes(
            "differences",
            "differences(x) must be x - jnp.roll(x, 1, axis=1).",
            lambda x: x - np.roll(x, 1, axis=1),
            _blocks("explicit"),
            mistakes={
                "blocks-alone": _blocks_alone,
                "other-neighbour": lambda x: x - np.roll(x, -1, axis=1),
                "rows-rolled": lambda x: x - np.roll(x, 1, axis=0),
                "rolled-flat": lambda x: x - np.roll(x, 1),
                "sum-for-difference": lambda x: x + np.roll(x, 1, axis=1),
                "two-places": lambda x: x - np.roll(x, 2, axis=1),
                "turned-round": lambda x: np.roll(x, 1, axis=1) - x,
                "rolled-alone": lambda x: np.roll(x, 1, axis=1),
                "not-a-ring": lambda x: x - np.pad(x, ((0, 0), (1, 0)))[:, :-1],
            },
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
        "all-gather": "Blocks are brought together, where each device lacks a single column.",
        "all-to-all": "The array is laid out anew, where each device lacks a single column.",
        "collective-permute": "The neighbour to the left is in the same rows, so what is missing "
        "comes along y alone.",
        "replicated": "out_sharding says where the island's result goes, and P() is everywhere.",
        "grid": "The result has to be in the same blocks as x; out_sharding says how the island's "
        "result is laid out.",
        "blocks-alone": "Each block was rolled in itself: its first column is compared with its "
        "own last one, and not with the neighbour's.",
        "other-neighbour": "That is the difference to the right neighbour. jnp.roll(x, 1, axis=1) "
        "moves columns to the right, so that each meets its left one.",
        "rows-rolled": "That is the difference to the row above; axis=1 speaks of columns.",
        "rolled-flat": "That is x - jnp.roll(x, 1): without axis=1, jnp.roll flattens the array, "
        "so the first column meets the last column of the row above.",
        "sum-for-difference": "That is x plus the rolled array; expected x minus it.",
        "two-places": "The array is rolled by two columns; expected one.",
        "turned-round": "That is the rolled array minus x; expected x minus the rolled array.",
        "rolled-alone": "That is the rolled array; expected x minus it.",
        "not-a-ring": "The first column is x itself here. jnp.roll closes the ring: what goes out "
        "on the right comes in on the left.",
    },
    about=(CommunicatesAtMost,),
)

STEER: Final = Exercise(
    id="3.6",
    title="Steering",
    afterwards="A constraint changes no values, so you can try one and look at the communication "
    "again. That is how such lines are found in real models.",
    requirements=(
        Computes(
            "steered",
            "steered(x) must be x + x.T.",
            lambda x: x + x.T,
            (_block((16, 16), "auto"), _block((32, 32), "auto")),
            mistakes={
                "added-to-itself": lambda x: 2 * x,
                "subtracted": lambda x: x - x.T,
                "multiplied": lambda x: x * x.T,
                "matmul": lambda x: x @ x.T,
                "turned-alone": lambda x: x.T,
                "turned-twice": lambda x: 2 * x.T,
                "one-triangle": lambda x: np.triu(x) + np.triu(x).T,
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
        "x has the blocks of the picture already. What arrives in another layout is x.T.",
        "One constraint is enough, on an array that the compiler would otherwise bring together: "
        "say of it that it keeps the blocks.",
        "Constrain x.T to P('x', 'y') before it is added, or the sum after.",
    ),
    diagnoses={
        "replicated": "x is sharded as P('x', 'y'), and so x.T as P('y', 'x'). Does your program "
        "tell the compiler which of the two layouts the sum should have? A constraint does where "
        "the two meet: on x.T before it is added, or on the sum. (Inside jit, jax.device_put is "
        "not a constraint.)",
        "all-gather": "Is something gathered into larger blocks on the way, such as whole rows, or "
        "the whole array? Each device needs only an eighth of x.T.",
        "too-many-bytes": "Is the array resharded more than once on the way?",
        "grid": "The result must have the same blocks as x.",
        "transposed": "The result must have the same blocks as x, and not those of x.T.",
        "replicated-dimension": "The sum has fewer blocks than x. Is that the layout that a "
        "constraint gave to x.T?",
        "subtracted": "These are the values of x - x.T.",
        "multiplied": "These are the values of x * x.T.",
        "matmul": "These are the values of x @ x.T.",
        "other-modes-verb": "Here x is on grid.",
        "added-to-itself": "These are the values of x + x.",
        "turned-alone": "These are the values of x.T alone.",
        "turned-twice": "These are the values of x.T + x.T.",
        "one-triangle": "Only one of the two triangles of x is in it, twice.",
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
    afterwards="Large training codes mix these ways: the compiler decides most layers, with "
    "constraints or Explicit types, and shard_map takes over where its choice is not good "
    "enough.",
    requirements=tuple(
        requirement
        for answer, mode, by_hand, mistakes in (
            ("layer_plain", "auto", (), {}),
            ("layer_constrained", "auto", (), {}),
            ("layer_explicit", "explicit", (), {}),
            ("layer_mapped", "explicit", (Ask("all-reduce"),),
             {"bias-eight-times": _biased, "sum-of-sigmoids": _sigmoids, "mean-for-sum": _mean,
              "parts-joined": _joined}),
        )
        for requirement in (
            Computes(
                answer,
                f"{answer} must return sigmoid(x @ w + b).",
                _layer,
                _inputs(mode),
                {"bias-forgotten": _without_bias, "sigmoid-forgotten": _without_sigmoid,
                 "bias-last": _bias_last, "relu-for-sigmoid": _relu, "tanh-for-sigmoid": _tanh,
                 "bias-multiplied": _bias_multiplied,
                 "bias-in-the-weights": _bias_in_the_weights} | mistakes,
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
        "parts-joined": "These are eight layers side by side: each device has used only its own "
        "part of x and w. What is x @ w of one device, compared with the whole x @ w?",
        "does-not-divide": "Is it x @ w, or b? These have one number for each output, such as 4, "
        "and every device has to hold all of them.",
        "mean-for-sum": "These are the values with the mean of the devices' parts in place of "
        "their sum.",
        "bias-forgotten": "These are the values without the bias.",
        "sigmoid-forgotten": "These are the values before the sigmoid.",
        "relu-for-sigmoid": "These are the values of relu(x @ w + b); expected a sigmoid.",
        "tanh-for-sigmoid": "These are the values of tanh(x @ w + b); expected a sigmoid.",
        "bias-multiplied": "x @ w is multiplied by the bias; expected the bias added to it.",
        "bias-in-the-weights": "These are the values of sigmoid(x @ (w + b)): the bias is added to "
        "the weights. Add it to the product.",
        "bias-last": "Here the bias is added to the sigmoid; it belongs inside.",
        "not-replicated": "Has each device another part of the sum there, which is still to be "
        "added up?",
        "layer_explicit: ambiguous": "Where is the sum of the parts to go? out_sharding says it.",
        "layer_mapped: ambiguous": "Write this one with shard_map: in its body each device "
        "multiplies its own blocks, and there is no ambiguity.",
        "constrained": "layer_plain leaves it to the compiler.",
        "all-gather": "Something is brought together, where it would do to add up parts that are "
        "as long as b.",
        "no-constraint": "Without one the compiler chooses what is wanted here, too; but this is "
        "the one in which it is told how what it computes is to be laid out.",
        "no all-reduce": "In the body of a shard_map nothing is added up over the devices unless "
        "you say so.",
        "no-shard-map": "Write layer_mapped with shard_map and psum.",
        "all-reduce by hand": "Only layer_mapped should ask for collectives by hand.",
    },
    # the plain one needs no thought
    weights={"layer_constrained": 2, "layer_explicit": 2, "layer_mapped": 3},
)  # fmt: skip

EXERCISES: Final = (TURN, COPIES, OUT_SHARDING, SPREAD, ISLAND, STEER, LAYERS)
