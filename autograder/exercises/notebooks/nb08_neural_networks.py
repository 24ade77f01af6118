"""Notebook 08: neural networks, cut in every way that is in use.

A note for maintainers: the budgets of 8.1 to 8.3 are what XLA's CPU compiler makes of the layouts,
on JAX 0.8.2 and 0.10.2; 8.4 to 8.8 are written by hand, and what they move is what they ask for.
The memory of 8.4 is the compiler's: `tests/test_moving.py` says when it does better.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.judge import (
    AnyOf,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    PlacedLike,
    RequestedCollective,
    Requests,
    RunsWithinBudgets,
    WorksAtMost,
    alternatives_of,
)
from autograder.programs import Argument

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
    afterwards="The compiler added the all-reduce of the gradients for you. With enough work on "
    "each device, most of its time hides behind the backward pass.",
    requirements=(
        RunsWithinBudgets(
            "data_parallel",
            "shardings (of W1, of b1, of W2, of b2, of X, of Y) for which each device holds, and "
            "works on, its own examples, and all that moves is the gradients, once",
            gradients,
            tuple(_network(*sizes) for sizes in NETWORKS),
            tuple((Budget("all-reduce", bytes=_parameters(h)),) for _, h in NETWORKS),
            caps=tuple(_parameters(h) + 4 * b * (WIDTH + 8) // 8 for b, h in NETWORKS),
            blocks=((1, 1), (1,), (1, 1), (1,), (8, 1), (8, 1)),
        ),
    ),
    hints=(
        "Each example can be worked on without the others: forward, and back.",
        "So X and Y are cut in dimension 0, the examples. What does every example "
        "need? All parameters.",
        "Parameters have on(data): a copy for everybody. X and Y have on(data, 'data').",
    ),
    diagnoses={
        "over-the-cap": "There is room for all parameters, and for an eighth of X and of Y. Are "
        "those two, the last of the six, cut into eight?",
        "all-gather": "Nothing has to be collected where every device has all parameters, whole "
        "examples, and the answers that go with them. Which of these does a device lack?",
        "too-many-bytes": "All that has to be added up is the gradients. Are the features cut, and "
        "not the examples?",
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
    afterwards="This is the layer of Megatron-LM: columns first, then rows, and one all-reduce for "
    "both. Attention is cut in the same way, by heads.",
    requirements=(
        RunsWithinBudgets(
            "tensor_parallel",
            "shardings (of X, of W1, of W2) that leave an eighth of the weights on each device, "
            "and for which the two layers cost one all-reduce of their result",
            pair,
            tuple(((b, WIDTH), (WIDTH, h), (h, WIDTH)) for b, h in BLOCKS),
            tuple((Budget("all-reduce", bytes=4 * b * WIDTH),) for b, _ in BLOCKS),
            caps=tuple(4 * (b * WIDTH + 2 * WIDTH * h // 8) for b, h in BLOCKS),
            blocks=((1, 1), (1, 8), (8, 1)),
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
        "all-gather": "Three questions: does every device have all of X? Does its part of W1 give "
        "whole sums, which relu needs? And does its part of W2 need just the hidden units that it "
        "has made?",
        "all-to-all": "Something is laid out anew on the way. relu needs whole sums: does a "
        "device's part of W1 give whole sums, or parts of them?",
        "reduce-scatter": "Parts of sums are added up, and the sums are cut. Is X cut, or "
        "does a device's part of W1 give only parts of sums, where relu needs whole ones?",
        "collective-permute": "Blocks move from device to device. A device needs the rows of W2 "
        "that go with its own columns of W1: are both sharded over the same axes, in the same "
        "order?",
        "over-the-cap": "There is room for all of X, and for an eighth of W1 and of W2.",
        "fails": "On an Explicit mesh, a program has to say where its sums go, and pair does not: "
        "is your mesh Auto?",
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


def _no_biases(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return _predicted(X, W1, 0 * b1, W2, 0 * b2, W3, 0 * b3)


def _no_last_bias(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return _predicted(X, W1, b1, W2, b2, W3, 0 * b3)


def _no_first_bias(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return _predicted(X, W1, 0 * b1, W2, b2, W3, b3)


def _no_second_bias(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return _predicted(X, W1, b1, W2, 0 * b2, W3, b3)


def _no_first_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return np.maximum((X @ W1 + b1) @ W2 + b2, 0) @ W3 + b3


def _no_second_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return (np.maximum(X @ W1 + b1, 0) @ W2 + b2) @ W3 + b3


def _no_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return ((X @ W1 + b1) @ W2 + b2) @ W3 + b3


def _bias_after_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return (np.maximum(np.maximum(X @ W1 + b1, 0) @ W2, 0) + b2) @ W3 + b3


def _biases_after_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # noqa: N803
    return (np.maximum((np.maximum(X @ W1, 0) + b1) @ W2, 0) + b2) @ W3 + b3


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
    afterwards="The axis that communicates most, which is the model's, belongs where links are "
    "fastest: inside one machine. The axis of the batch can span machines.",
    about=(RunsWithinBudgets, CommunicatesAtMost),
    requirements=(
        RunsWithinBudgets(
            "both_ways",
            "shardings (of X, W1, b1, W2, b2, W3, b3) on a mesh of 4 × 2 for which the examples "
            "are cut into four, the second and third layer into two, and predict costs one "
            "all-reduce of what a device predicts",
            predict,
            tuple(_three(*sizes) for sizes in THREE),
            tuple((Budget("all-reduce", bytes=4 * b * 8 // 4),) for b, _ in THREE),
            "0,1\n2,3\n4,5\n6,7",
            tuple(_room(*sizes) for sizes in THREE),
            {"bias-whole": ((4, 1), (1, 1), (1,), (1, 2), (1,), (2, 1), (1,))},
            ((4, 1), (1, 1), (1,), (1, 2), (2,), (2, 1), (1,)),
        ),
        Computes(
            "predict_explicit",
            "predict_explicit must compute what three_layers does, with Explicit axes.",
            _predicted,
            tuple(_explicit(*s, *mesh) for s, mesh in zip(THREE, MESHES, strict=True)),
            {
                "relu-last": lambda *given: np.maximum(_predicted(*given), 0),
                "no-biases": _no_biases,
                "no-last-bias": _no_last_bias,
                "a-relu-left-out": AnyOf((_no_first_relu, _no_second_relu, _no_relu)),
                "a-bias-left-out": AnyOf((_no_first_bias, _no_second_bias)),
                "bias-after-relu": AnyOf((_bias_after_relu, _biases_after_relu)),
            },
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
        "fails": "Are the shardings on a mesh with Explicit axes? three_layers does not say where "
        "its last sum is to go, so both_ways needs a mesh with Auto axes, such as grid.",
        "ambiguous": "As the arguments come, it is the last product whose contracted dimension is "
        "cut along model on both sides.",
        "over-the-cap": "There is room for a quarter of X, for half of W2, b2 and W3, and for all "
        "of the rest. Are the last two layers cut so that they go together, as in 8.2?",
        "bias-whole": "b2 is whole on every device, and there is room for half of it. W2 is cut "
        "into columns, and a bias is cut with the columns that it is added to.",
        "all-gather": "Nothing has to be collected here. Is something asked for whole that may "
        "stay cut, or are two neighbours cut in ways that do not go together?",
        "reduce-scatter": "Sums are cut that were to stay whole. Is the last bias cut along model, "
        "does an out_sharding name model, or is a layer before cut so that it gives parts of sums?",
        "too-many-bytes": "Are the examples sharded over data? Is the first layer whole, and are "
        "the second and the third sharded over model in the way of 8.2?",
        "replicated": "The examples are to stay where they are.",
        "relu-last": "What stands after the last layer is not a relu: it follows the other two.",
        "no-biases": "The three biases are left out.",
        "no-last-bias": "The last bias is left out.",
        "a-bias-left-out": "A bias is left out, that of the first or of the second layer.",
        "bias-after-relu": "A bias is added after relu, and belongs before it.",
        "a-relu-left-out": "A relu is left out: there is one after the first layer and one after "
        "the second.",
        "values": "Is each bias added once, and relu taken twice, after the first and the second "
        "layer?",
    },
)

DEEP: Final = ((8, 8, 64, 2), (4, 6, 32, 3))
"""The devices, the layers, how wide they are, and the examples of one device."""

ROUNDS: Final = ((8, 64, 16, 2), (4, 48, 8, 3))
"""The devices, the rounds, the features, and the examples of one device in one round."""


def _devices(X: Any) -> np.float32:  # noqa: N803
    """How many devices there are, by how many examples there are."""
    return np.float32({n * own: n for n, *_, own in (*DEEP, *ROUNDS)}[X.shape[-2]])


def _deep(n: int, layers: int, side: int, own: int) -> tuple[Argument, ...]:
    return (
        _argument((layers, side, side), "data", n, None, "data", None, scale=0.8 / side**0.5),
        _argument((own * n, side), "data", n, "data"),
        _argument((own * n, side), "data", n, "data"),
    )


def _deep_gradient(W: Any, X: Any, Y: Any, without_tanh: Sequence[int] = ()) -> Any:  # noqa: N803
    """The gradient by W of the examples' mean of sum((f(X) - Y)²): f is tanh(h @ w) for each w.

    Args:
        W: all layers.
        X: the examples.
        Y: what f is to make of them.
        without_tanh: the layers without tanh, counted from the last, which is -1.
    """
    seen, tanh = [X], [i not in without_tanh for i in range(-len(W), 0)]
    for w, has_tanh in zip(W, tanh, strict=True):
        seen.append(np.tanh(seen[-1] @ w) if has_tanh else seen[-1] @ w)
    back = 2 * (seen[-1] - Y) / np.float32(len(Y))
    grads = []
    layers = zip(W[::-1], seen[-2::-1], seen[:0:-1], tanh[::-1], strict=True)
    for w, before, after, has_tanh in layers:
        inner = back * (1 - after**2) if has_tanh else back
        grads.append(before.T @ inner)
        back = inner @ w.T
    return np.stack(grads[::-1])


def _of_own_examples(W: Any, X: Any, Y: Any) -> Any:  # noqa: N803
    """Give each device's rows of the gradient as its own examples alone would make them."""
    n = {n * own: n for n, *_, own in DEEP}[len(X)]
    grads = [_deep_gradient(W, *part) for part in zip(np.split(X, n), np.split(Y, n), strict=True)]
    return np.concatenate([np.split(g, n, axis=1)[i] for i, g in enumerate(grads)], axis=1)


TIMES: Final = ("devices", "once", "share")
"""Ways to combine the devices' rows: a sum where each device divides by its own number of examples,
a sum where each divides by the number of all, and the mean of the latter."""


def _of_blocks_mixed(W: Any, X: Any, Y: Any, times: str) -> Any:  # noqa: N803
    """Give every device the sum or the mean of all devices' rows of the gradient."""
    n = {n * own: n for n, *_, own in DEEP}[len(X)]
    gradient = _deep_gradient(W, X, Y)
    mixed = np.add.reduce(np.split(gradient, n, axis=1))
    factor = {"devices": n, "once": 1, "share": 1 / n}[times]
    return np.tile(np.float32(factor) * mixed, (1, n, 1))


def _whole_layer(side: int) -> int:
    """The bytes of one layer's weights."""
    return 4 * side * side


FSDP: Final = Exercise(
    id="8.4",
    title="Fetch, use, forget",
    afterwards="This is FSDP, or stage 3 of ZeRO. Memory falls with the number of devices, and "
    "each step moves half as much again as plain data parallelism.",
    requirements=(
        Computes(
            "fsdp_gradient",
            "fsdp_gradient(W, X, Y) must be the gradient by W of the mean, over all examples, of "
            "sum((f(X) - Y)²).",
            _deep_gradient,
            tuple(_deep(*sizes) for sizes in DEEP),
            {
                "as-many-times": lambda W, X, Y: _devices(X) * _deep_gradient(W, X, Y),  # noqa: N803
                "sum-for-mean": lambda W, X, Y: np.float32(len(Y)) * _deep_gradient(W, X, Y),  # noqa: N803
                "tanh-forgotten": lambda W, X, Y: _deep_gradient(W, X, Y, range(-len(W), 0)),  # noqa: N803
                "no-last-tanh": lambda W, X, Y: _deep_gradient(W, X, Y, (-1,)),  # noqa: N803
                "new-weights": lambda W, X, Y: W - _deep_gradient(W, X, Y),  # noqa: N803
                "own-examples-alone": _of_own_examples,
                "blocks-mixed": AnyOf(partial(_of_blocks_mixed, times=times) for times in TIMES),
                "mean-of-everything": lambda W, X, Y: (  # noqa: N803
                    _deep_gradient(W, X, Y) / np.float32(Y.shape[1])
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "fsdp_gradient",
            STRIPS[0],
            tuple((layers, side, side) for _, layers, side, _ in DEEP),
            elsewhere=STRIPS[1:],
        ),
        CommunicatesAtMost(
            "fsdp_gradient",
            tuple(
                (
                    Budget("all-gather", ("data",), 2 * layers * _whole_layer(side)),
                    Budget("reduce-scatter", ("data",), layers * _whole_layer(side)),
                )
                for _, layers, side, _ in DEEP
            ),
        ),
        FitsIn(
            "fsdp_gradient",
            (7 * _whole_layer(64), 8 * _whole_layer(32)),
            gathers=tuple((layers, _whole_layer(side)) for _, layers, side, _ in DEEP),
        ),
    ),
    about=(FitsIn,),
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
        "too-much-memory": "Each layer is asked for by itself, and once more on the way back. Is "
        "jax.checkpoint around more than the function of one layer, or is there a Python loop in "
        "place of lax.scan, whose layers the compiler puts together?",
        "gathered-at-once": "A layer is to be gathered where it is used, in the function that "
        "lax.scan runs for each. Is W gathered before the loop, or its gradient after it, or do "
        "in_specs ask for all of W?",
        "gathered-once": "So each layer's gathered weights are kept for the way back. With "
        "jax.checkpoint around the function of one layer, the all_gather in it included, they are "
        "gathered again.",
        "as-many-times": "It is as many times too large as there are devices. The way back through "
        "an all-gather adds up what the devices have: by how many examples does each divide, its "
        "own or all?",
        "sum-for-mean": "That is the gradient of the sum over all examples: their mean is meant.",
        "tanh-forgotten": "That is the gradient of the products alone: tanh stands after each "
        "layer.",
        "no-last-tanh": "tanh is missing after the last layer.",
        "new-weights": "That is W minus its gradient; asked for is the gradient.",
        "blocks-do-not-fit": "A layer's rows are gathered one below another with tiled=True; "
        "without it all_gather adds a dimension.",
        "own-examples-alone": "Each device's rows of the gradient follow from its own examples "
        "alone. What adds up the gradient over the devices?",
        "blocks-mixed": "The devices' blocks of the gradient are added up or averaged, and they "
        "are blocks of different rows. The gradient of an all_gather has been added up over the "
        "devices already.",
        "mean-of-everything": "Add up the squares of each example, and average these sums over the "
        "examples.",
        "all-reduce": "No device needs the whole gradient, not even of one layer: each should end "
        "up with the sums for its own rows.",
        "too-many-bytes": "A layer is fetched twice at most, forward and back, and its gradient "
        "goes home once.",
        "not-replicated": "Each device has its own part of the gradient: it is cut as W is.",
        "replicated": "The gradient has to be cut as W is: each device has the gradient of its own "
        "rows.",
    },
)


SEQUENCES: Final = ((8, 32, 16, 64), (4, 24, 8, 32))
"""The devices, the tokens, their features, and the hidden units."""


def _sequence(n: int, tokens: int, width: int, hidden: int) -> tuple[Argument, ...]:
    return (
        _argument((tokens, width), "model", n, "model"),
        _argument((width, hidden), "model", n, None, "model"),
        _argument((hidden, width), "model", n, "model"),
    )


def _pair(X: Any, W1: Any, W2: Any) -> Any:  # noqa: N803
    return np.maximum(X @ W1, 0) @ W2


def _own_units(X: Any, W1: Any, W2: Any) -> Any:  # noqa: N803
    """What comes of each device passing its own tokens through its own hidden units alone."""
    n = {tokens: n for n, tokens, *_ in SEQUENCES}[len(X)]
    parts = zip(np.split(X, n), np.split(W1, n, axis=1), np.split(W2, n), strict=True)
    return np.concatenate([_pair(*part) for part in parts])


def _relu_of_parts(X: Any, W1: Any, W2: Any) -> Any:  # noqa: N803
    """The result if relu is taken after both products, of each device's part of the sums."""
    n = {tokens: n for n, tokens, *_ in SEQUENCES}[len(X)]
    parts = zip(np.split(W1, n, axis=1), np.split(W2, n), strict=True)
    return sum(np.maximum(X @ w1 @ w2, 0) for w1, w2 in parts)


def _averaged(X: Any, W1: Any, W2: Any) -> Any:  # noqa: N803
    """What comes of averaging the parts of sums."""
    return _pair(X, W1, W2) / np.float32({tokens: n for n, tokens, *_ in SEQUENCES}[len(X)])


SEQUENCE: Final = Exercise(
    id="8.5",
    title="Halves of an all-reduce",
    afterwards="Megatron-LM calls this sequence parallelism: as many bytes as one all-reduce, and "
    "what stands between its two halves is done once, not by every device.",
    requirements=(
        Computes(
            "sequence_parallel",
            "sequence_parallel(X, W1, W2) must return relu(X @ W1) @ W2.",
            _pair,
            tuple(_sequence(*sizes) for sizes in SEQUENCES),
            {
                "no-relu": lambda X, W1, W2: X @ W1 @ W2,  # noqa: N803
                "relu-last": lambda X, W1, W2: np.maximum(X @ W1 @ W2, 0),  # noqa: N803
                "relu-of-parts": _relu_of_parts,
                "relu-of-the-tokens": lambda X, W1, W2: np.maximum(X, 0) @ W1 @ W2,  # noqa: N803
                "another-nonlinearity": AnyOf(
                    (
                        lambda X, W1, W2: np.asarray(jax.nn.gelu(X @ W1)) @ W2,  # noqa: N803
                        lambda X, W1, W2: np.tanh(X @ W1) @ W2,  # noqa: N803
                    )
                ),
                "own-units-alone": _own_units,
                "mean-for-sum": _averaged,
            },
            under_mesh=True,
        ),
        PlacedLike(
            "sequence_parallel",
            STRIPS[0],
            tuple((tokens, width) for _, tokens, width, _ in SEQUENCES),
            elsewhere=STRIPS[1:],
        ),
        Requests(
            "sequence_parallel",
            tuple(
                tuple(
                    RequestedCollective(kind, 1, ("model",), 4 * tokens * width)
                    for kind in ("all-gather", "reduce-scatter")
                )
                for _, tokens, width, _ in SEQUENCES
            ),
        ),
        # two products of four operations for each token, feature and hidden unit, and some besides
        WorksAtMost("sequence_parallel", tuple(5 * t * w * h // n for n, t, w, h in SEQUENCES)),
    ),
    about=(Requests,),
    hints=(
        "Within the pair of layers all tokens are needed by all devices, each for its own hidden "
        "units. Before and after, a device needs its own tokens alone.",
        "The first word brings the tokens together. After the second product each device has a "
        "part of every token's sum, and is to keep the sums of its own tokens.",
        "lax.all_gather(x, 'model', tiled=True) first, and lax.psum_scatter(…, 'model', "
        "tiled=True) last.",
    ),
    diagnoses={
        "no reduce-scatter": "After the second product each device has a part of every token's "
        "sum, and needs the sums of its own tokens: one collective does both. (An all-reduce "
        "would give all sums to every device, which would throw most of them away.)",
        "no all-gather": "A device's hidden units need all tokens. It is to enter the body with "
        "its own tokens only; what brings the others is to be written in the body.",
        "untiled": "Here the tokens are scattered: dimension 0, tiled.",
        "one-too-many": "One all-gather, of the tokens, and one reduce-scatter are enough. Are "
        "weights collected, too? They can stay where they are.",
        "not-replicated": "The result is cut as X is: a device returns its own tokens.",
        "no-relu": "relu stands between the two products.",
        "relu-last": "relu stands between the two products, and not after them.",
        "relu-of-the-tokens": "relu is taken of the tokens; it belongs between the two products.",
        "another-nonlinearity": "Another function than relu stands between the two products.",
        "relu-of-parts": "relu is taken of each device's part of the result; it belongs between "
        "the two products.",
        "own-units-alone": "Each device passes its own tokens through its own hidden units. Each "
        "token needs those of all devices, too.",
        "mean-for-sum": "It is too small by the number of devices: the parts of the sums are "
        "averaged, and they have to be added up.",
        "own-results": "Along model, different devices have different hidden units, and add them "
        "up: for one and the same token, or the sums make no sense.",
        "too-much-work": "A device has all tokens to multiply, by its own hidden units. Does it "
        "multiply them by others, too?",
    },
)


def _vocabulary(n: int, batch: int, words: int, scale: float, shift: float) -> tuple[Argument, ...]:
    return (
        _argument((batch, words), "model", n, None, "model", scale=scale, shift=shift),
        _argument((batch,), "model", n, dtype="int32", scale=words),
    )


def _logarithm(logits: Any) -> Any:
    """The logarithm of the sum of the exponentials of each row."""
    largest = logits.max(1)
    return np.log(np.exp(logits - largest[:, None]).sum(1)) + largest


def _chosen(logits: Any, labels: Any) -> Any:
    return np.take_along_axis(logits, labels[:, None], 1)[:, 0]


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return (_logarithm(logits) - _chosen(logits, labels)).mean()


WORDS: Final = ((8, 16, 64, 100.0, 0.0), (4, 24, 48, 1.0, -1000.0))
"""The devices, the examples, the words, and the logits' spread and mean.

In the first case exp overflows, and one word is far above the others. In the second exp gives 0 for
all, and many words count, so that one sees which logarithm is taken, and of what.
"""


def _blocks(logits: Any) -> Any:
    """The logits that each device has, in a list."""
    return np.split(logits, {batch: n for n, batch, *_ in WORDS}[len(logits)], axis=1)


def _counted_by_all(logits: Any, labels: Any, place: Callable[[Any, int, int], Any]) -> Any:
    """What comes of taking on each device some logit of its block, whoever has the label's.

    Args:
        logits: all of them.
        labels: the examples' labels.
        place: which one, by the labels, the device's place and the words that it has.
    """
    blocks = _blocks(logits)
    places = [place(labels, i, block.shape[1]) for i, block in enumerate(blocks)]
    return (_logarithm(logits) - sum(map(_chosen, blocks, places))).mean()


def _found_where_it_is_small(logits: Any, labels: Any) -> Any:
    """What comes of taking labels for places in each block, and 0 where there is no such place."""
    found = (
        np.where(labels < block.shape[1], _chosen(block, labels % block.shape[1]), np.float32(0))
        for block in _blocks(logits)
    )
    return (_logarithm(logits) - sum(found)).mean()


def _total(logits: Any) -> Any:
    """The sum of the exponentials of each row, its largest logit taken off before."""
    return np.exp(logits - logits.max(1, keepdims=True)).sum(1)


def _shifted(logits: Any, labels: Any, by: int) -> Any:
    """What comes of looking for the word so many places further on; beyond the ends is none."""
    place, words = labels + by, logits.shape[1]
    chosen = _chosen(logits, np.clip(place, 0, words - 1))
    found = np.where((place >= 0) & (place < words), chosen, np.float32(0))
    return (_logarithm(logits) - found).mean()


def _divided(logits: Any, labels: Any, by: int) -> Any:
    """What comes of dividing the sum of the exponentials, as a mean does."""
    return _cross_entropy(logits, labels) - np.float32(np.log(by))


def _edges_counted(logits: Any, labels: Any, here: Callable[[Any, int], Any]) -> Any:
    """What comes of deciding by `here` whether a label is among a device's own words."""
    found = np.zeros(len(labels), logits.dtype)
    for i, block in enumerate(_blocks(logits)):
        words = block.shape[1]
        place = labels - i * words
        chosen = _chosen(block, np.clip(place, 0, words - 1))
        found += np.where(here(place, words), chosen, np.float32(0))
    return (_logarithm(logits) - found).mean()


def _own_largest(logits: Any, labels: Any) -> Any:
    """What comes of taking the largest of its own words off on each device."""
    total = sum(np.exp(block - block.max(1, keepdims=True)).sum(1) for block in _blocks(logits))
    return (np.log(total) + logits.max(1) - _chosen(logits, labels)).mean()


SLIPS: Final[Mapping[str, Any]] = {
    "largest-forgotten": lambda z, t: _cross_entropy(z, t) - z.max(1).mean(),
    "largest-left-in": lambda z, t: _cross_entropy(z, t) + z.max(1).mean(),
    "sum-for-mean": lambda z, t: np.float32(len(t)) * _cross_entropy(z, t),
    "own-largest": _own_largest,
    "label-counted-by-all": lambda z, t: _counted_by_all(
        z, t, lambda t, i, words: np.clip(t - i * words, 0, words - 1)
    ),
    "label-in-every-block": lambda z, t: _counted_by_all(z, t, lambda t, i, words: t % words),
    "label-of-the-block": lambda z, t: _counted_by_all(
        z, t, lambda t, i, words: np.clip(t, 0, words - 1)
    ),
    "label-without-offset": _found_where_it_is_small,
    "log-forgotten": lambda z, t: (_total(z) + z.max(1) - _chosen(z, t)).mean(),
    "another-logarithm": AnyOf(
        (
            lambda z, t: (np.log2(_total(z)) + z.max(1) - _chosen(z, t)).mean(),
            lambda z, t: (np.log10(_total(z)) + z.max(1) - _chosen(z, t)).mean(),
            lambda z, t: (np.log1p(_total(z)) + z.max(1) - _chosen(z, t)).mean(),
        )
    ),
    "mean-of-exponentials": AnyOf(
        (
            lambda z, t: _cross_entropy(z, t) - np.float32(np.log(len(_blocks(z)))),
            lambda z, t: _cross_entropy(z, t) - np.float32(np.log(_blocks(z)[0].shape[1])),
            lambda z, t: _cross_entropy(z, t) - np.float32(np.log(z.shape[1])),
        )
    ),
    "logarithms-added": AnyOf(
        (
            lambda z, t: (
                sum(_logarithm(b) - b.max(1) for b in _blocks(z)) + z.max(1) - _chosen(z, t)
            ).mean(),
            lambda z, t: (
                sum(np.log(np.exp(b - z.max(1, keepdims=True)).sum(1)) for b in _blocks(z))
                + z.max(1)
                - _chosen(z, t)
            ).mean(),
            lambda z, t: (sum(map(_logarithm, _blocks(z))) - _chosen(z, t)).mean(),
        )
    ),
    "examples-together": lambda z, t: (np.log(_total(z).sum()) + z.max(1) - _chosen(z, t)).mean(),
    "label-averaged": lambda z, t: (
        _logarithm(z) - _chosen(z, t) / np.float32(len(_blocks(z)))
    ).mean(),
    "label-forgotten": lambda z, t: _logarithm(z).mean(),
    "label-twice": lambda z, t: (_logarithm(z) - 2 * _chosen(z, t)).mean(),
    "offset-added": lambda z, t: (
        _logarithm(z)
        - np.where(
            t < _blocks(z)[0].shape[1],
            _chosen(z, np.minimum(t, _blocks(z)[0].shape[1] - 1)),
            np.float32(0),
        )
    ).mean(),
    "one-word-too-many": lambda z, t: _edges_counted(
        z, t, lambda place, words: (place >= 0) & (place <= words)
    ),
    "one-place-off": AnyOf((lambda z, t: _shifted(z, t, -1), lambda z, t: _shifted(z, t, 1))),
    "first-word-missed": lambda z, t: _edges_counted(
        z, t, lambda place, words: (place > 0) & (place < words)
    ),
    "probability": lambda z, t: -np.exp(_chosen(z, t) - _logarithm(z)).mean(),
    "label-by-maximum": lambda z, t: (_logarithm(z) - np.maximum(_chosen(z, t), 0)).mean(),
}


def _largest_taken_off(mistake: Callable[..., Any]) -> Callable[..., Any]:
    """The same mistake, made where each example's largest logit has been taken off for good."""
    return lambda logits, labels: mistake(logits - logits.max(1, keepdims=True), labels)


CROSS_ENTROPY: Final = Exercise(
    id="8.6",
    title="Too many words for one device",
    afterwards="With vocabularies of 100,000 words and more, the logits are often the largest "
    "array of a training step. In this way no device ever holds a whole row of them.",
    requirements=(
        Computes(
            "cross_entropy",
            "cross_entropy(logits, labels) must be the mean, over the examples, of the logarithm "
            "of the sum of exp(logits), minus the label's logit.",
            _cross_entropy,
            tuple(_vocabulary(*sizes) for sizes in WORDS),
            {
                name: AnyOf(
                    (*alternatives_of(mistake), *map(_largest_taken_off, alternatives_of(mistake)))
                )
                for name, mistake in SLIPS.items()
            },
            under_mesh=True,
        ),
        Requests("cross_entropy", never=("all-gather", "all-to-all", "collective-permute")),
        CommunicatesAtMost(
            "cross_entropy",
            tuple((Budget("all-reduce", ("model",), 3 * 4 * b),) for _, b, *_ in WORDS),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "Three numbers for each example are needed from everybody: its largest logit, the sum of "
        "the exponentials, and the logit of its label. pmax, psum, psum.",
        "The logits reach into the hundreds, and exp(100) does not fit into float32: take each "
        "example's largest, over all words, off before.",
        "A label counts all words; a device has some of them, from axis_index * (its number of "
        "words) on. Where a label is not among its own, the device adds 0.",
    ),
    diagnoses={
        "not-finite": "Which of these is it? exp(100) does not fit into float32, and exp(-200) "
        "is 0, whose logarithm is minus infinity: each example's own largest logit has to come off "
        "first, the largest of all words. And take_along_axis gives NaN where the index is outside "
        "of the block.",
        "values": "Does a label that is not among a device's own words count for nothing there, "
        "and is the same largest logit taken off on all devices?",
        "own-largest": "Each device has taken the largest of its own words off, and then sums of "
        "different scales are added up. All must take off the same.",
        "label-counted-by-all": "Where a label is outside of a block, the nearest word of that "
        "block was counted for it: there it is to count for nothing.",
        "label-in-every-block": "Every device has counted a word of its own as the label's: where "
        "the label is not among a device's words, it is to count for nothing.",
        "label-of-the-block": "A label is taken for a place in each device's own block. It is the "
        "number of a word among all words.",
        "label-without-offset": "A label is looked up in each block as if the block began at word "
        "0: all devices find the small labels, and nobody finds the others. The number of the "
        "block's first word, axis_index * (its number of words), has to come off first.",
        "log-forgotten": "The logarithm is missing: the sum of the exponentials itself is added.",
        "another-logarithm": "That is another logarithm: jnp.log is the one that undoes exp.",
        "mean-of-exponentials": "The exponentials are averaged, over the devices or over words, "
        "and have to be added up.",
        "logarithms-added": "Each device takes the logarithm of its own sum, and these logarithms "
        "are added up. Add up the sums of the exponentials over the devices first, and take the "
        "logarithm after that, once.",
        "examples-together": "The exponentials of all examples are added up to one number. Each "
        "example has a sum of its own: axis=1.",
        "label-averaged": "The label's logit is divided by the number of devices: one device has "
        "it, the others add 0, and a mean divides by all of them.",
        "label-forgotten": "That is the mean of the logarithms alone: the label's logit has to be "
        "taken away. (With logits that are all below zero, a maximum with zeros is zero, too.)",
        "label-twice": "The label's logit is taken away twice.",
        "offset-added": "The first word's number is added to the label, so only device 0 finds its "
        "labels. It has to be taken away: place = labels - axis_index * (its number of words).",
        "one-word-too-many": "A label that is the first word of a block is counted by the device "
        "before, too. A block's last place is its number of words less one.",
        "one-place-off": "The logit of a neighbour of the label's word is taken: places are off by "
        "one.",
        "first-word-missed": "A label that is the first word of a block is found by nobody: its "
        "place in the block is 0.",
        "probability": "That is the probability of the label, and not its logarithm.",
        "label-by-maximum": "Where the label's logit is below zero, 0 was taken for it, as by a "
        "maximum with those who do not have it. What they have to add is 0: a sum leaves it alone.",
        "largest-forgotten": "The largest logit was taken off, and not put back.",
        "largest-left-in": "The largest logit was put back, and the label's still lacks it.",
        "sum-for-mean": "The examples' mean is meant, and not their sum.",
        "shape": "One number comes back: the mean over the examples.",
        "all-gather by hand": "Nothing has to be collected: three numbers for each example, each "
        "reduced over the devices, are enough.",
        "all-gather": "Something is collected. Is it done by hand, or before the body begins, "
        "because in_specs ask for more than a device has?",
        "too-many-bytes": "Reduce to a number for each example first, and then over the devices.",
        "not-replicated": "Each device knows its own words only. Is everything that comes of them "
        "reduced over the devices, the largest logit too?",
        "no-shard-map": "The compiler finds it here too, if you let it. Write it once yourself.",
    },
)


def _microbatches(n: int, rounds: int, width: int, own: int) -> tuple[Argument, ...]:
    return (
        _argument((width, width), "data", n),
        _argument((rounds, own * n, width), "data", n, None, "data"),
        _argument((rounds, own * n, width), "data", n, None, "data"),
    )


def _room_for_rounds(rounds: int, width: int, own: int) -> int:
    """Bytes for the examples, W and its gradient, as much again, and what some rounds become."""
    return (2 * rounds + 24) * 4 * own * width + 6 * 4 * width * width


def _gradient(W: Any, X: Any, Y: Any) -> Any:  # noqa: N803
    """The gradient of mean((tanh(X @ W) - Y)²) by W."""
    made = np.tanh(X @ W)
    inner = 2 * (made - Y) / np.float32(Y.size) * (1 - made**2)
    return np.einsum("rbi,rbj->ij", X, inner)


ACCUMULATION: Final = Exercise(
    id="8.7",
    title="Add up at home first",
    afterwards="Accumulation saves memory as well: a batch that is too large for the devices fits, "
    "a microbatch at a time.",
    requirements=(
        Computes(
            "accumulated",
            "accumulated(W, X, Y) must be the gradient of mean((tanh(X @ W) - Y)²) by W, over all "
            "rounds and all examples.",
            _gradient,
            tuple(_microbatches(*sizes) for sizes in ROUNDS),
            {
                "as-many-times": lambda W, X, Y: _devices(X) * _gradient(W, X, Y),  # noqa: N803
                "rounds-added-up": lambda W, X, Y: np.float32(len(X)) * _gradient(W, X, Y),  # noqa: N803
                "averaged-twice": lambda W, X, Y: _gradient(W, X, Y) / _devices(X),  # noqa: N803
                "divided-by-examples": lambda W, X, Y: (  # noqa: N803
                    _gradient(W, X, Y) * np.float32(len(X) / X.shape[1]) * _devices(X)
                ),
                "begins-with-W": AnyOf(
                    (
                        lambda W, X, Y: _gradient(W, X, Y) + W / np.float32(len(X)),  # noqa: N803
                        lambda W, X, Y: _gradient(W, X, Y) + W,  # noqa: N803
                    )
                ),
                "last-round-alone": AnyOf(
                    (
                        lambda W, X, Y: _gradient(W, X[-1:], Y[-1:]) / np.float32(len(X)),  # noqa: N803
                        lambda W, X, Y: _gradient(W, X[-1:], Y[-1:]),  # noqa: N803
                    )
                ),
                "first-round-alone": AnyOf(
                    (
                        lambda W, X, Y: _gradient(W, X[:1], Y[:1]) / np.float32(len(X)),  # noqa: N803
                        lambda W, X, Y: _gradient(W, X[:1], Y[:1]),  # noqa: N803
                    )
                ),
                "first-round-left-out": AnyOf(
                    (
                        lambda W, X, Y: _gradient(W, X[1:], Y[1:]),  # noqa: N803
                        lambda W, X, Y: (  # noqa: N803
                            _gradient(W, X[1:], Y[1:]) * np.float32(1 - 1 / len(X))
                        ),
                    )
                ),
                "last-round-left-out": AnyOf(
                    (
                        lambda W, X, Y: _gradient(W, X[:-1], Y[:-1]),  # noqa: N803
                        lambda W, X, Y: (  # noqa: N803
                            _gradient(W, X[:-1], Y[:-1]) * np.float32(1 - 1 / len(X))
                        ),
                    )
                ),
                "sum-of-a-block": AnyOf(
                    (
                        lambda W, X, Y: (  # noqa: N803
                            _gradient(W, X, Y) * np.float32(Y.size) / _devices(X) / len(X)
                        ),
                        lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.size) / _devices(X),  # noqa: N803
                        lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.size) / len(X),  # noqa: N803
                        lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.size),  # noqa: N803
                    )
                ),
                "mean-of-sums": AnyOf(
                    (
                        lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.shape[-1]),  # noqa: N803
                        lambda W, X, Y: (  # noqa: N803
                            _gradient(W, X, Y) * np.float32(Y.shape[-1]) * _devices(X)
                        ),
                    )
                ),
                "tanh-forgotten": lambda W, X, Y: np.einsum(  # noqa: N803
                    "rbi,rbj->ij", X, 2 * (X @ W - Y) / np.float32(Y.size)
                ),
                "first-device-alone": lambda W, X, Y: _gradient(  # noqa: N803
                    W, *(np.split(a, int(_devices(X)), axis=1)[0] for a in (X, Y))
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "accumulated",
            tuple(
                (RequestedCollective("all-reduce", 1, ("data",), 4 * width**2),)
                for *_, width, _ in ROUNDS
            ),
        ),
        FitsIn("accumulated", tuple(_room_for_rounds(*sizes) for _, *sizes in ROUNDS)),
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
        "too-much-memory": "There is room for what some rounds are made into, and not all. Is the "
        "gradient taken of one round at a time, and added up before the next?",
        "too-often": "Is there an all-reduce in the loop? jax.grad puts one where the weights are "
        "the same on all devices.",
        "as-many-times": "It is as many times too large as there are devices, as where each "
        "device's mean is added up: the mean of these means is meant. (jax.grad by weights that "
        "are the same on all devices adds up by itself, and a pmean after that changes nothing.)",
        "averaged-twice": "It is as many times too small as there are devices: is it averaged over "
        "them twice?",
        "divided-by-examples": "The sum over the rounds is divided by the number of a device's "
        "examples; expected by the number of rounds.",
        "begins-with-W": "W itself, or a share of it, is added to the gradient. Does the sum over "
        "the rounds begin with W? It begins with zeros.",
        "rounds-added-up": "The rounds' gradients were added up: their mean is meant.",
        "last-round-alone": "That is the last round's gradient, or its share of the mean. What "
        "became of the other rounds?",
        "first-round-alone": "That is the first round's gradient, or its share of the mean. What "
        "became of the other rounds?",
        "first-round-left-out": "The first round is missing from the gradient.",
        "last-round-left-out": "The last round is missing from the gradient.",
        "sum-of-a-block": "The squares of a block are added up: expected their mean, over the "
        "examples and over the features.",
        "mean-of-sums": "The squares of each example are added up over the features: expected "
        "their mean over the features, too.",
        "tanh-forgotten": "That is the gradient of mean((X @ W - Y)²): tanh is missing.",
        "first-device-alone": "That is the gradient of the first device's examples alone.",
        "varying-mismatch": "Does the loop begin with zeros that are the same on all devices, and "
        "go on with something that varies, such as a gradient or a loss of a device's own "
        "examples?",
        "not-replicated": "Each device has the gradient of its own examples. Are these averaged "
        "over the devices, once the loop is over?",
    },
    together=True,
)


def _stages(n: int, rounds: int, examples: int, width: int) -> tuple[Argument, ...]:
    return (
        _argument((n, width, width), "stage", n, "stage", scale=2 / width**0.5),
        _argument((rounds, examples, width), "stage", n),
    )


def _piped(W: Any, X: Any, after: Callable[[Any], Any] = np.tanh) -> Any:  # noqa: N803
    for w in W:
        X = after(X @ w)  # noqa: N806
    return X


def _flat(X: Any) -> tuple[Any, ...]:  # noqa: N803
    """All examples of all microbatches, a row each."""
    return (X.reshape(-1, X.shape[-1]),)


def _tanh_first(W: Any, X: Any) -> Any:  # noqa: N803
    """What comes of tanh before each product."""
    for w in W:
        X = np.tanh(X) @ w  # noqa: N806
    return X


def _fed(X: Any, ahead: int) -> Any:  # noqa: N803
    """The microbatches that stage 0 is fed so many steps later, the last one again and again."""
    return X[np.minimum(np.arange(len(X)) + ahead, len(X) - 1)]


def _all_added(W: Any, X: Any) -> Any:  # noqa: N803
    """What all stages have made, added up, in the steps in which the last one keeps its results."""
    n = len(W)
    return sum(_piped(W[: s + 1], _fed(X, n - 1 - s)) for s in range(n))


def _all_added_in_turn(W: Any, X: Any) -> Any:  # noqa: N803
    """The same, where stage 0 begins again with the first microbatch."""
    n = len(W)
    return sum(_piped(W[: s + 1], np.roll(X, s + 1 - n, 0)) for s in range(n))


def _fed_everywhere(W: Any, X: Any) -> Any:  # noqa: N803
    """The result where every stage takes X[t] in step t, and what arrived once X is used up."""
    n, m = len(W), len(X)
    held, made = [np.zeros_like(X[0])] * n, np.zeros_like(X)
    for t in range(n + m - 1):
        held = [np.tanh((X[t] if t < m else h) @ w) for h, w in zip(held, W, strict=True)]
        if t >= n - 1:
            made[t - n + 1] = held[-1]
        held = [held[-1], *held[:-1]]
    return made


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


def _input_added(W: Any, X: Any) -> Any:  # noqa: N803
    """The result where every stage adds X[t], or the last one after that, to what arrives."""
    n, m = len(W), len(X)
    held, made = [np.zeros_like(X[0])] * n, np.zeros_like(X)
    for t in range(n + m - 1):
        came = [np.zeros_like(X[0]), *held[:-1]]
        held = [np.tanh((X[min(t, m - 1)] + c) @ w) for c, w in zip(came, W, strict=True)]
        if t >= n - 1:
            made[t - n + 1] = held[-1]
    return made


def _first_alone(W: Any, X: Any) -> Any:  # noqa: N803
    """The result of a pipeline that is fed microbatch 0 and nothing else."""
    made = _piped(W, X)
    made[1:] = 0
    return made


PIPES: Final = ((8, 4, 4, 16), (4, 6, 3, 8))
"""The stages, the microbatches, the examples in each, and their features."""

PIPELINE: Final = Exercise(
    id="8.8",
    title="An assembly line",
    afterwards="With m microbatches and n stages, each device is idle in n - 1 of m + n - 1 steps. "
    "That is the bubble of GPipe, and the reason to make m several times n.",
    requirements=(
        Computes(
            "pipeline",
            "pipeline(W, X) must be tanh(… tanh(X @ W[0]) … @ W[n - 1]), for each microbatch.",
            _piped,
            tuple(_stages(*sizes) for sizes in PIPES),
            {
                "one-step-short": _too_short,
                "one-step-late": _late,
                "layers-reversed": lambda W, X: _piped(W[::-1], X),  # noqa: N803
                "first-microbatch-again": AnyOf(
                    (
                        lambda W, X: np.stack([_piped(W, X[0])] * len(X)),  # noqa: N803
                        lambda W, X: np.stack([_piped(W, X[-1])] * len(X)),  # noqa: N803
                    )
                ),
                "side-by-side": lambda W, X: sum(np.tanh(X @ w) for w in W),  # noqa: N803
                "last-layer-alone": lambda W, X: np.tanh(X @ W[-1]),  # noqa: N803
                "mean-for-sum": lambda W, X: _piped(W, X) / np.float32(len(W)),  # noqa: N803
                "stages-take-the-input": AnyOf(
                    (
                        lambda W, X: np.tanh(_fed(X, len(W) - 1) @ W[-1]),  # noqa: N803
                        _fed_everywhere,
                    )
                ),
                "placed-by-step": lambda W, X: np.roll(_piped(W, X), len(W) - 1, 0),  # noqa: N803
                "no-tanh": lambda W, X: np.linalg.multi_dot([*_flat(X), *W]).reshape(X.shape),  # noqa: N803
                "tanh-first": _tanh_first,
                "another-nonlinearity": AnyOf(
                    (
                        lambda W, X: _piped(W, X, lambda a: np.maximum(a, 0)),  # noqa: N803
                        lambda W, X: _piped(W, X, lambda a: 1 / (1 + np.exp(-a))),  # noqa: N803
                    )
                ),
                "first-layer-everywhere": lambda W, X: _piped(W[[0] * len(W)], X),  # noqa: N803
                "last-stage-missed": AnyOf(
                    (
                        lambda W, X: _piped(W[:-1], _fed(X, 1)),  # noqa: N803
                        lambda W, X: _piped(W[:-1], X),  # noqa: N803
                    )
                ),
                "first-microbatch-alone": _first_alone,
                "input-added-everywhere": _input_added,
                "handed-back": lambda W, X: _piped(W[[0, -1]], _fed(X, len(W) - 2)),  # noqa: N803
                "first-stage-kept": lambda W, X: np.tanh(_fed(X, len(W) - 1) @ W[0]),  # noqa: N803
                "all-stages-added": AnyOf((_all_added, _all_added_in_turn)),
                "first-stage-skipped": lambda W, X: _piped(W[1:], _fed(X, 1)),  # noqa: N803
            },
            under_mesh=True,
        ),
        Requests("pipeline", never=("all-gather", "all-to-all")),
        CommunicatesAtMost(
            "pipeline",
            tuple(
                (
                    Budget("collective-permute", ("stage",), (n + m - 1) * 4 * b * width),
                    Budget("all-reduce", ("stage",), m * 4 * b * width),
                )
                for n, m, b, width in PIPES
            ),
        ),
    ),
    about=(CommunicatesAtMost,),
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
        "layers-reversed": "The layers are right, and in the wrong order: stage 0 has the first "
        "one, and hands on to stage 1.",
        "first-microbatch-again": "The result of one microbatch stands in the place of all. Which "
        "microbatch does stage 0 take in step t?",
        "side-by-side": "All stages have worked on the same microbatch as it came, and the results "
        "are added up. They are to work one after another, each on what the one before has made.",
        "last-layer-alone": "The last stage's layer is all that was done: what it works on is to "
        "have passed through the others.",
        "stages-take-the-input": "The last stage takes microbatches from X. Only stage 0 is to; "
        "the others take what arrived from the stage before.",
        "placed-by-step": "What the last stage makes in step t is put in place t % m. In step t it "
        "has microbatch t - (n - 1), and that is the place of the result.",
        "no-tanh": "These are the products alone: tanh stands after each of them.",
        "tanh-first": "tanh stands before each product, and should stand after it.",
        "another-nonlinearity": "The layers end in another function than tanh.",
        "first-layer-everywhere": "Every stage works with the first layer. Which of the layers is "
        "each stage to have?",
        "last-stage-missed": "The last layer is missing: these are the results of the stage before "
        "the last. The last stage has number n - 1, and keeps what it has made of what arrived.",
        "input-added-everywhere": "Every stage adds a microbatch of X to what arrives. Only stage "
        "0 takes from X.",
        "first-microbatch-alone": "Microbatch 0 alone has come through. Does stage 0 take "
        "microbatch t in step t, and are there n + m - 1 steps?",
        "handed-back": "The last stage takes what stage 0 has made. Are the pairs of the ppermute "
        "(to, from)? They are to be (from, to).",
        "first-stage-kept": "These are the results of stage 0, after a single layer. Those of the "
        "last stage are needed.",
        "all-stages-added": "What all stages have made is added up. Only the last stage's results "
        "are complete: the others are to add zeros.",
        "first-stage-skipped": "The first layer is missing. Is it stage 0 that takes the input, "
        "and does a stage multiply before it sends?",
        "mean-for-sum": "It is as many times too small as there are stages: where all but one hold "
        "zeros, a mean divides by all of them.",
        "too-many-bytes": "One microbatch moves in each step, to the next stage, and at the end "
        "the results, once. Is it more than that, or are there more than n + m - 1 steps?",
        "all-gather by hand": "Nothing has to be collected: W stays where it is, and only the next "
        "stage needs what a stage computed.",
        "all-gather": "Something is collected. Is it done by hand, or before the body begins, "
        "because in_specs ask for more than a stage has?",
        "nothing-but-zeros": "What stage s made goes to stage s + 1; and the last stage has its "
        "first result in step n - 1.",
        "not-replicated": "The result has to be the same on all devices, and only the last stage "
        "has it. What gives it to all of them?",
        "varying-mismatch": "Is what the loop begins with the same everywhere, and what it goes on "
        "with not?",
        "values": "Follow microbatch 0 through your steps: which stage has it when, is its result "
        "kept in place 0, and are only the last stage's results added up?",
    },
)

EXERCISES: Final = (
    DATA_PARALLEL, TENSOR_PARALLEL, BOTH, FSDP, SEQUENCE, CROSS_ENTROPY, ACCUMULATION, PIPELINE,
)  # fmt: skip
