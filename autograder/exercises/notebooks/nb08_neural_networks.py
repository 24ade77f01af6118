"""Notebook 08: neural networks, cut in every way that is in use.

A note for maintainers: the budgets of 8.1 to 8.3 are what XLA's CPU compiler makes of the layouts,
on JAX 0.8.2 and 0.10.2; 8.4 to 8.8 are written by hand, and what they move is what they ask for.
The memory of 8.4 is the compiler's: `tests/test_moving.py` says when it does better.
"""

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.exercises.exercise import Exercise
from autograder.exercises.requirements_on_layouts import Feeds, PlacedLike
from autograder.exercises.requirements_on_programs import (
    Ask,
    Budget,
    CommunicatesAtMost,
    Computes,
    FitsIn,
    Requests,
    WorksAtMost,
)
from autograder.programs import Argument

LINES: Final = (8, 4)
"""How many devices there are in a line: functions are judged on both."""

WIDTH: Final = 16
STRIPS: Final = ("\n".join(map(str, range(8))), "\n".join(map(str, range(4))))


def _argument(shape: tuple[int, ...], axis: str, n: int, *spec: str | None, **more: Any) -> Any:
    return Argument(shape, ((axis, n),), spec, mode="auto", **more)


def gradients(W1: Any, b1: Any, W2: Any, b2: Any, X: Any, Y: Any) -> Any:  # noqa: N803
    """The gradients of a small network's mean squared error, by its parameters."""

    def loss(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:  # noqa: N803
        return jnp.mean((jnp.tanh(X @ W1 + b1) @ W2 + b2 - Y) ** 2)

    return jax.grad(loss, argnums=(0, 1, 2, 3))(W1, b1, W2, b2)


def _network(batch: int, hidden: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the arguments of `gradients`."""
    return ((WIDTH, hidden), (hidden,), (hidden, 8), (8,), (batch, WIDTH), (batch, 8))


def _parameters(hidden: int) -> int:
    """The bytes of a network's parameters."""
    return 4 * ((WIDTH + 1) * hidden + (hidden + 1) * 8)


NETWORKS: Final = ((64, 32), (128, 16))
"""The examples in a batch, and the hidden units."""

DATA_PARALLEL: Final = Exercise(
    id="8.1",
    title="Cut the batch",
    requirements=(
        Feeds(
            "data_parallel",
            "shardings (of W1, of b1, of W2, of b2, of X, of Y) for which each device holds, and "
            "works on, its own examples, and all that moves is the gradients, once",
            gradients,
            tuple(_network(*sizes) for sizes in NETWORKS),
            tuple((Budget("all-reduce", bytes=_parameters(h)),) for _, h in NETWORKS),
            caps=tuple(_parameters(h) + 4 * b * (WIDTH + 8) // 8 for b, h in NETWORKS),
        ),
    ),
    hints=(
        "Each example can be worked on without the others: forward, and back.",
        "So X and Y are cut in dimension 0, the examples. What does every example "
        "need? All parameters.",
        "Parameters have on(data): a copy for everybody. X and Y have on(data, 'data').",
    ),
    diagnoses={
        "over-the-cap": "Of X and of Y, each device is to hold its own examples alone.",
        "all-gather": "A parameter or the features of the examples are cut, and who needs them "
        "whole has to collect them first; or X and Y are cut differently, and an example and its "
        "answer belong together.",
        "too-many-bytes": "More is added up than the gradients: were the features cut, and not the "
        "examples?",
        "number-of-shardings": "One for each of the four parameters, then those of X and of Y.",
    },
)


def pair(X: Any, W1: Any, W2: Any) -> Any:  # noqa: N803
    """Two layers without biases, as transformers have many of."""
    return jnp.maximum(X @ W1, 0) @ W2


BLOCKS: Final = ((16, 64), (32, 128))
"""The examples, and the hidden units."""

TENSOR_PARALLEL: Final = Exercise(
    id="8.2",
    title="Columns, then rows",
    requirements=(
        Feeds(
            "tensor_parallel",
            "shardings (of X, of W1, of W2) that leave an eighth of the weights on each device, "
            "and for which the two layers cost one all-reduce of their result",
            pair,
            tuple(((b, WIDTH), (WIDTH, h), (h, WIDTH)) for b, h in BLOCKS),
            tuple((Budget("all-reduce", bytes=4 * b * WIDTH),) for b, _ in BLOCKS),
            caps=tuple(4 * (b * WIDTH + 2 * WIDTH * h // 8) for b, h in BLOCKS),
        ),
    ),
    hints=(
        "Between the layers stands a function of each number alone. It is free where whole sums "
        "stand, and wrong on parts of sums.",
        "So the first product must need no adding up. If W1 is cut into columns, which hidden "
        "units does a device have? Which rows of W2 go with them?",
        "W1 into columns, W2 into rows, X whole.",
    ),
    diagnoses={
        "all-gather": "If W1 came as rows: they would give parts of sums, and relu needs whole "
        "ones, so W1 is collected first. If W2 came as columns: they need all hidden units, and "
        "each device has made some, so these are collected.",
        "all-to-all": "Rows of W1 give parts of sums, and relu needs whole ones: before the "
        "product, the devices exchange pieces of W1 until each has columns.",
        "over-the-cap": "Both weights are to be cut into eight.",
    },
)


def predict(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    """Three layers."""
    h = jnp.maximum(X @ W1 + b1, 0)
    h = jnp.maximum(h @ W2 + b2, 0)
    return h @ W3 + b3


def _predicted(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    h = np.maximum(X @ W1 + b1, 0)
    h = np.maximum(h @ W2 + b2, 0)
    return h @ W3 + b3


THREE: Final = ((32, 32), (64, 16))
"""The examples, and the hidden units of both layers."""


def _three(batch: int, hidden: int) -> tuple[tuple[int, ...], ...]:
    return ((batch, WIDTH), (WIDTH, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, 8),
            (8,))  # fmt: skip


def _room(batch: int, hidden: int) -> int:
    """What a device holds: its examples, the first layer, its half of the others."""
    return 4 * (
        batch * WIDTH // 4 + (WIDTH + 1) * hidden + (hidden + 1) * hidden // 2 + hidden * 4 + 8
    )


def _explicit(batch: int, hidden: int, rows: int, columns: int) -> tuple[Argument, ...]:
    """The arguments of `predict`, laid out as 8.3 wants them."""
    specs: tuple[tuple[str | None, ...], ...] = (
        ("data", None), (), (), (None, "model"), ("model",), ("model", None), (),
    )  # fmt: skip
    axes = (("data", rows), ("model", columns))
    return tuple(
        Argument(shape, axes, spec)
        for shape, spec in zip(_three(batch, hidden), specs, strict=True)
    )


MESHES: Final = ((4, 2), (2, 4))

BOTH: Final = Exercise(
    id="8.3",
    title="Both at once, in both modes",
    requirements=(
        Feeds(
            "both_ways",
            "shardings (of X, W1, b1, W2, b2, W3, b3) on a mesh of 4 × 2 for which the examples "
            "are cut into four, the second and third layer into two, and predict costs one "
            "all-reduce of what a device predicts",
            predict,
            tuple(_three(*sizes) for sizes in THREE),
            tuple((Budget("all-reduce", bytes=4 * b * 8 // 4),) for b, _ in THREE),
            "0,1\n2,3\n4,5\n6,7",
            tuple(_room(*sizes) for sizes in THREE),
        ),
        Computes(
            "predict_explicit",
            "predict_explicit must compute what three_layers does, with Explicit axes.",
            _predicted,
            tuple(_explicit(*s, *mesh) for s, mesh in zip(THREE, MESHES, strict=True)),
            under_mesh=True,
        ),
        PlacedLike(
            "predict_explicit",
            "0,1\n2,3\n4,5\n6,7",
            tuple((b, 8) for b, _ in THREE),
            elsewhere=("0,1,2,3\n4,5,6,7",),
        ),
        CommunicatesAtMost(
            "predict_explicit",
            tuple(
                (Budget("all-reduce", ("model",), 4 * b * 8 // rows),)
                for (b, _), (rows, _) in zip(THREE, MESHES, strict=True)
            ),
        ),
    ),
    hints=(
        "Layers two and three are the pair of 8.2, cut along model in place of all devices. X is "
        "cut along data. All else is whole.",
        "A bias goes with the result that it is added to: b2 with columns of W2. b3 is added to "
        "whole sums.",
        "With Explicit axes, all but the last product have one possible type. For the last, "
        "jnp.dot(h, W3, out_sharding=P('data', None)) says where the sum is to go.",
    ),
    diagnoses={
        "ambiguous": "It is the last product: its contracted dimension is cut along model on both "
        "sides.",
        "over-the-cap": "W2, b2 and W3 are to be cut into two, and the examples into four.",
        "all-gather": "W2 is cut into columns, W3 into the rows that go with them, b2 as W2's "
        "columns; nothing needs to be collected.",
        "reduce-scatter": "Sums are cut that were to stay whole: by a last bias that is cut along "
        "model, by an out_sharding that names model, or because a layer before is cut into rows.",
        "replicated": "The examples are to stay where they are.",
        "values": "Is each bias added once, the last one too, and relu taken twice?",
    },
)

LAYERS: Final = 8
SIDE: Final = 64
OWN: Final = 2
"""The examples of one device."""


def _devices(X: Any) -> np.float32:  # noqa: N803
    """How many devices there are, by the examples of which each has two."""
    return np.float32(X.shape[-2] // OWN)


def _deep(n: int) -> tuple[Argument, ...]:
    return (
        _argument((LAYERS, SIDE, SIDE), "data", n, None, "data", None, scale=0.1),
        _argument((OWN * n, SIDE), "data", n, "data"),
        _argument((OWN * n, SIDE), "data", n, "data"),
    )


def _deep_gradient(W: Any, X: Any, Y: Any) -> Any:  # noqa: N803
    """The gradient by W of the examples' mean of sum((f(X) - Y)²): f is tanh(h @ w) for each w."""
    seen = [X]
    for w in W:
        seen.append(np.tanh(seen[-1] @ w))
    back = 2 * (seen[-1] - Y) / np.float32(len(Y))
    grads = []
    for w, before, after in zip(W[::-1], seen[-2::-1], seen[:0:-1], strict=True):
        inner = back * (1 - after**2)
        grads.append(before.T @ inner)
        back = inner @ w.T
    return np.stack(grads[::-1])


WEIGHT: Final = 4 * SIDE * SIDE
FSDP: Final = Exercise(
    id="8.4",
    title="Fetch, use, forget",
    requirements=(
        Computes(
            "fsdp_gradient",
            "fsdp_gradient(W, X, Y) must be the gradient by W of the mean, over all examples, of "
            "sum((f(X) - Y)²).",
            _deep_gradient,
            tuple(_deep(n) for n in LINES),
            {
                "as-many-times": lambda W, X, Y: _devices(X) * _deep_gradient(W, X, Y),  # noqa: N803
                "sum-for-mean": lambda W, X, Y: np.float32(len(Y)) * _deep_gradient(W, X, Y),  # noqa: N803
                "mean-of-everything": lambda W, X, Y: _deep_gradient(W, X, Y) / np.float32(SIDE),  # noqa: N803
            },
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "fsdp_gradient",
            (
                (
                    Budget("all-gather", ("data",), 2 * LAYERS * WEIGHT),
                    Budget("reduce-scatter", ("data",), LAYERS * WEIGHT),
                ),
            )
            * 2,
        ),
        FitsIn("fsdp_gradient", (7 * WEIGHT, 8 * WEIGHT)),
    ),
    hints=(
        "In the body, w[i] has some rows of layer i. lax.all_gather(…, tiled=True) brings "
        "the layer together where it is used: in the function that lax.scan runs for each layer.",
        "jax.grad in the body, of the loss of the device's own examples, by its own part of W. "
        "What goes back through an all-gather is a reduce-scatter: it adds up over the devices. "
        "So divide by the number of all examples, not of one's own.",
        "As it stands each layer's gathered weights are kept for the way back. jax.checkpoint, "
        "around the function of a layer, has it forget them and fetch them once more.",
    ),
    diagnoses={
        "too-much-memory": "Whole layers are kept. Gather within the function of one layer, and "
        "not before the loop; put jax.checkpoint around that function, and not around the loss; "
        "and let lax.scan run it: of a Python loop, which writes all layers out, the compiler "
        "keeps more than one layer at a time.",
        "as-many-times": "It is as many times too large as there are devices. What they have is "
        "added up (the way back through an all-gather does), and each divided by the number of its "
        "own examples: divide by the number of all.",
        "sum-for-mean": "That is the gradient of the sum over all examples: their mean is meant.",
        "mean-of-everything": "The squares of one example are to be added up, and the examples' "
        "sums to be averaged.",
        "all-reduce": "Each device adds up all of the gradient, and keeps a part.",
        "too-many-bytes": "Twice for each layer is enough: forward, and back.",
        "not-replicated": "Each device has its own part of the gradient: it is cut as W is.",
    },
)


def _sequence(n: int) -> tuple[Argument, ...]:
    return (
        _argument((2 * WIDTH, WIDTH), "model", n, "model"),
        _argument((WIDTH, 4 * WIDTH), "model", n, None, "model"),
        _argument((4 * WIDTH, WIDTH), "model", n, "model"),
    )


def _pair(X: Any, W1: Any, W2: Any) -> Any:  # noqa: N803
    return np.maximum(X @ W1, 0) @ W2


TOKENS: Final = 4 * 2 * WIDTH * WIDTH
SEQUENCE: Final = Exercise(
    id="8.5",
    title="Halves of an all-reduce",
    requirements=(
        Computes(
            "sequence_parallel",
            "sequence_parallel(X, W1, W2) must return relu(X @ W1) @ W2.",
            _pair,
            tuple(_sequence(n) for n in LINES),
            {
                "no-relu": lambda X, W1, W2: X @ W1 @ W2,  # noqa: N803
                "relu-last": lambda X, W1, W2: np.maximum(X @ W1 @ W2, 0),  # noqa: N803
            },
            under_mesh=True,
        ),
        PlacedLike("sequence_parallel", STRIPS[0], ((2 * WIDTH, WIDTH),) * 2, elsewhere=STRIPS[1:]),
        Requests(
            "sequence_parallel",
            (
                (
                    Ask("all-gather", 1, ("model",), TOKENS),
                    Ask("reduce-scatter", 1, ("model",), TOKENS),
                ),
            )
            * 2,
        ),
        WorksAtMost(
            "sequence_parallel", tuple(5 * 2 * WIDTH * WIDTH * 4 * WIDTH // n for n in LINES)
        ),
    ),
    hints=(
        "Within the pair of layers all tokens are needed by all devices, each for its own hidden "
        "units. Before and after, a device needs its own tokens alone.",
        "The first word brings the tokens together. After the second product each device has a "
        "part of every token's sum, and is to keep the sums of its own tokens.",
        "lax.all_gather(x, 'model', tiled=True) first, and lax.psum_scatter(…, 'model', "
        "tiled=True) last.",
    ),
    diagnoses={
        "no reduce-scatter": "An all-reduce gives all tokens to everybody, who then throw most of "
        "them away: it is a reduce-scatter, and an all-gather that nobody needs.",
        "no all-gather": "The hidden units of a device need all tokens.",
        "untiled": "Here the tokens are scattered: dimension 0, tiled.",
        "one-too-many": "One of each: the weights stay where they are.",
        "not-replicated": "What is not added up yet differs from device to device.",
        "no-relu": "relu stands between the two products.",
        "relu-last": "relu stands between the two products, and not after them.",
        "values": "Along model, different devices have different hidden units, and add them up: "
        "for one and the same token, or the sums make no sense.",
        "too-much-work": "Each device multiplies what another does, too.",
    },
)


def _vocabulary(n: int, batch: int, words: int) -> tuple[Argument, ...]:
    return (
        _argument((batch, words), "model", n, None, "model", scale=100.0),
        _argument((batch,), "model", n, dtype="int32", scale=words),
    )


def _cross_entropy(logits: Any, labels: Any) -> Any:
    shifted = logits - logits.max(1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], 1)[:, 0]
    return (np.log(np.exp(shifted).sum(1)) - chosen).mean()


WORDS: Final = ((8, 16, 64), (4, 32, 64))
"""The devices, the examples and the words."""

CROSS_ENTROPY: Final = Exercise(
    id="8.6",
    title="Too many words for one device",
    requirements=(
        Computes(
            "cross_entropy",
            "cross_entropy(logits, labels) must be the mean, over the examples, of the logarithm "
            "of the sum of exp(logits), minus the label's logit.",
            _cross_entropy,
            tuple(_vocabulary(*sizes) for sizes in WORDS),
            {
                "largest-forgotten": lambda z, t: _cross_entropy(z, t) - z.max(1).mean(),
                "largest-left-in": lambda z, t: _cross_entropy(z, t) + z.max(1).mean(),
                "sum-for-mean": lambda z, t: np.float32(len(t)) * _cross_entropy(z, t),
            },
            under_mesh=True,
        ),
        Requests("cross_entropy", never=("all-gather", "all-to-all", "collective-permute")),
        CommunicatesAtMost(
            "cross_entropy",
            tuple((Budget("all-reduce", ("model",), 3 * 4 * b),) for _, b, _ in WORDS),
        ),
    ),
    hints=(
        "Three numbers for each example are needed from everybody: its largest logit, the sum of "
        "the exponentials, and the logit of its label. pmax, psum, psum.",
        "The logits reach into the hundreds, and exp(100) does not fit into float32: take each "
        "example's largest, over all words, off before.",
        "A label counts all words; a device has some of them, from axis_index * (its number of "
        "words) on. Where a label is not among its own, the device adds 0.",
    ),
    diagnoses={
        "not-finite": "Two things do that here. exp(100) does not fit into float32, so each "
        "example's own largest logit has to come off first, of all words; and take_along_axis "
        "gives NaN where the index is outside of the block.",
        "values": "Does a label that is not among a device's own words count for nothing there, "
        "and is the same largest logit taken off on all devices?",
        "largest-forgotten": "The largest logit was taken off, and not put back.",
        "largest-left-in": "The largest logit was put back, and the label's still lacks it.",
        "sum-for-mean": "The examples' mean is meant, and not their sum.",
        "all-gather by hand": "The logits are the largest thing in the model. Three numbers for "
        "each example do.",
        "all-gather": "Something is brought together: by hand, or before the body begins, because "
        "in_specs ask for more than a device has.",
        "too-many-bytes": "Reduce to a number for each example first, and then over the devices.",
        "not-replicated": "Each device knows its own words only: something is not added up yet.",
        "no-shard-map": "The compiler finds it here too, if you let it. Write it once yourself.",
    },
)

ROUNDS: Final = 64
IN_ROUND: Final = 4 * OWN * WIDTH
"""The bytes of one device's examples in one round."""


def _microbatches(n: int) -> tuple[Argument, ...]:
    return (
        _argument((WIDTH, WIDTH), "data", n),
        _argument((ROUNDS, OWN * n, WIDTH), "data", n, None, "data"),
        _argument((ROUNDS, OWN * n, WIDTH), "data", n, None, "data"),
    )


def _gradient(W: Any, X: Any, Y: Any) -> Any:  # noqa: N803
    """The gradient of mean((tanh(X @ W) - Y)²) by W."""
    made = np.tanh(X @ W)
    inner = 2 * (made - Y) / np.float32(Y.size) * (1 - made**2)
    return np.einsum("rbi,rbj->ij", X, inner)


ACCUMULATION: Final = Exercise(
    id="8.7",
    title="Add up at home first",
    requirements=(
        Computes(
            "accumulated",
            "accumulated(W, X, Y) must be the gradient of mean((tanh(X @ W) - Y)²) by W, over all "
            "rounds and all examples.",
            _gradient,
            tuple(_microbatches(n) for n in LINES),
            {
                "as-many-times": lambda W, X, Y: _devices(X) * _gradient(W, X, Y),  # noqa: N803
                "rounds-added-up": lambda W, X, Y: np.float32(ROUNDS) * _gradient(W, X, Y),  # noqa: N803
            },
            under_mesh=True,
        ),
        Requests("accumulated", ((Ask("all-reduce", 1, ("data",), 4 * WIDTH * WIDTH),),) * 2),
        # the examples, W and its gradient, as much again, and what some rounds are made into
        FitsIn("accumulated", ((2 * ROUNDS + 24) * IN_ROUND + 6 * 4 * WIDTH * WIDTH,) * 2),
    ),
    hints=(
        "Gradients are sums, and sums can wait: add up the rounds' gradients on each device, and "
        "once, at the end, over the devices.",
        "In a body, the gradient by something that is the same on all devices has been added up "
        "over them already: that is its all-reduce, in every round. To have the device's own, make "
        "the weights vary first: lax.pcast(w, 'data', to='varying').",
        "Then lax.scan adds up what each round gives, starting from zeros that vary too "
        "(jnp.zeros_like of the varying w does), and lax.pmean comes after the loop.",
    ),
    diagnoses={
        "too-much-memory": "What is made of the examples is held for more than one round at a "
        "time: work on one round, add its gradient up, and go on.",
        "too-often": "There is an all-reduce in the loop. jax.grad puts it there where the weights "
        "are the same on all devices; or you did.",
        "as-many-times": "It is as many times too large as there are devices: each device's mean "
        "was added up, where the mean of these means is meant. jax.grad by replicated weights adds "
        "up by itself, and a pmean after that changes nothing.",
        "rounds-added-up": "The rounds' gradients were added up: their mean is meant.",
        "varying-mismatch": "The loop begins with zeros that are the same everywhere, and goes on "
        "with a gradient that varies.",
        "not-replicated": "Each device has the gradient of its own examples.",
    },
)


def _stages(n: int, rounds: int) -> tuple[Argument, ...]:
    return (
        _argument((n, WIDTH, WIDTH), "stage", n, "stage", scale=0.5),
        _argument((rounds, 4, WIDTH), "stage", n),
    )


def _piped(W: Any, X: Any) -> Any:  # noqa: N803
    for w in W:
        X = np.tanh(X @ w)  # noqa: N806
    return X


def _too_short(W: Any, X: Any) -> Any:  # noqa: N803
    """What a pipeline of one step too few leaves: the last microbatch never arrives."""
    made = _piped(W, X)
    made[-1] = 0
    return made


def _late(W: Any, X: Any) -> Any:  # noqa: N803
    """What comes of counting n steps, and not n - 1, to the last stage: the first is missed."""
    made = _piped(W, X)
    made[:-1], made[-1] = made[1:], 0
    return made


PIPES: Final = ((8, 4), (4, 6))
"""The stages, and the microbatches."""

PIPELINE: Final = Exercise(
    id="8.8",
    title="An assembly line",
    requirements=(
        Computes(
            "pipeline",
            "pipeline(W, X) must be tanh(… tanh(X @ W[0]) … @ W[n - 1]), for each microbatch.",
            _piped,
            tuple(_stages(*sizes) for sizes in PIPES),
            {"one-step-short": _too_short, "one-step-late": _late},
            under_mesh=True,
        ),
        Requests("pipeline", never=("all-gather", "all-to-all")),
        CommunicatesAtMost(
            "pipeline",
            tuple(
                (
                    Budget("collective-permute", ("stage",), (n + m - 1) * 4 * 4 * WIDTH),
                    Budget("all-reduce", ("stage",), m * 4 * 4 * WIDTH),
                )
                for n, m in PIPES
            ),
        ),
    ),
    hints=(
        "Draw it: stages down, steps across. In step t, stage s works on microbatch t - s, if "
        "there is one. When does the last stage finish the last one?",
        "n + m - 1 steps. In each, stage 0 takes microbatch t (or any, when they are through), the "
        "others what came from their neighbour; all multiply; ppermute hands on.",
        "In step t the last stage has microbatch t - (n - 1): keep it if that is not negative. "
        "After the loop only the last stage has something: zeros elsewhere, and one psum.",
    ),
    diagnoses={
        "one-step-short": "The last microbatch is missing: the line needs n + m - 1 steps, as the "
        "first one takes n to come out.",
        "one-step-late": "Each microbatch is in the place of the one before: in step t the last "
        "stage has microbatch t - (n - 1), as it began with microbatch 0 in step n - 1.",
        "too-many-bytes": "One microbatch moves in each step, to the next stage, and at the end "
        "the results, once.",
        "all-gather by hand": "The weights stay where they are.",
        "all-gather": "The weights are brought together: by hand, or before the body begins, "
        "because in_specs ask for more than a stage has.",
        "nothing-but-zeros": "What stage s made goes to stage s + 1; and the last stage has its "
        "first result in step n - 1.",
        "not-replicated": "Only the last stage has the results; everybody is to have them.",
        "varying-mismatch": "What the loop begins with is the same everywhere, and what it goes on "
        "with is not.",
        "values": "Follow microbatch 0 through your steps: which stage has it when, is its result "
        "kept in place 0, and are only the last stage's results added up?",
    },
)

EXERCISES: Final = (
    DATA_PARALLEL, TENSOR_PARALLEL, BOTH, FSDP, SEQUENCE, CROSS_ENTROPY, ACCUMULATION, PIPELINE,
)  # fmt: skip
