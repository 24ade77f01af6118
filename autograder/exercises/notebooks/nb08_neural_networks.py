"""Notebook 08: data, tensor, sequence and pipeline parallelism, and FSDP.

The budgets of 8.1 to 8.3 are what XLA's CPU compiler needs for these layouts, on JAX 0.8.2 and
0.10.2. In 8.4 to 8.8 the collectives are explicit, so the budgets follow from the exercise. The
memory limit of 8.4 depends on the compiler; `tests/test_moving.py` fails when it does better.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.artifacts import Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    Mistake,
    PlacedLike,
    RequestedCollective,
    Requests,
    RunsWithinBudgets,
    WorksAtMost,
    ways_of,
)

WIDTH: Final = 16
STRIPS: Final = ("\n".join(map(str, range(8))), "\n".join(map(str, range(4))))


def _argument(shape: tuple[int, ...], axis: str, n: int, *spec: str | None, **more: Any) -> Any:
    return Argument(shape, ((axis, n),), spec, mode="auto", **more)


def gradients(W1: Any, b1: Any, W2: Any, b2: Any, X: Any, Y: Any) -> Any:
    """Return the gradients of a small network's mean squared error, one for each parameter."""

    def loss(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        return jnp.mean((jnp.tanh(X @ W1 + b1) @ W2 + b2 - Y) ** 2)

    return jax.grad(loss, argnums=(0, 1, 2, 3))(W1, b1, W2, b2)


def _network_shapes(batch: int, hidden: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the arguments of `gradients`."""
    return ((WIDTH, hidden), (hidden,), (hidden, 8), (8,), (batch, WIDTH), (batch, 8))


def _parameter_bytes(hidden: int) -> int:
    """Return the number of bytes of a network's parameters."""
    return 4 * ((WIDTH + 1) * hidden + (hidden + 1) * 8)


NETWORKS: Final = ((64, 32), (128, 16))
"""Pairs of (examples in a batch, hidden units)."""

DATA_PARALLEL: Final = Exercise(
    id="8.1",
    title="Shard the batch",
    afterwards="The compiler inserted the all-reduce of the gradients. With enough work on each "
    "device, most of its time overlaps with the backward pass.",
    requirements=(
        RunsWithinBudgets(
            "data_parallel",
            "shardings (of W1, of b1, of W2, of b2, of X, of Y) with which each device holds and "
            "processes its own examples, and only the gradients are communicated, once",
            gradients,
            tuple(_network_shapes(*sizes) for sizes in NETWORKS),
            tuple((Budget("all-reduce", bytes=_parameter_bytes(h)),) for _, h in NETWORKS),
            caps=tuple(_parameter_bytes(h) + 4 * b * (WIDTH + 8) // 8 for b, h in NETWORKS),
            blocks=((1, 1), (1,), (1, 1), (1,), (8, 1), (8, 1)),
            drawn={"W1": "0,1,2,3,4,5,6,7", "X": STRIPS[0], "Y": STRIPS[0]},
        ),
    ),
    hints=(
        "Each example can be processed without the others, in the forward pass and in the "
        "backward pass.",
        "So shard X and Y over dimension 0, the examples. What does every example need? All "
        "parameters.",
        "Parameters have on(data), so they are replicated. X and Y have on(data, 'data').",
    ),
    diagnoses={
        "over-the-cap": "Each device has memory for all parameters, and for an eighth of X and of "
        "Y. Are these two, the last of the six, in eight shards?",
        "all-gather": "A device that has all parameters, and complete examples with their "
        "answers, needs nothing from the others. Which of these does a device lack?",
        "too-many-bytes": "Only the gradients have to be added up. Are the features sharded "
        "instead of the examples?",
        "layout of X": "A device processes its own examples from the first layer to the last. "
        "Which part of X does it need for that?",
        "layout of X and Y": "A device processes its own examples from the first layer to the "
        "last. Which part of X does it need for that, and which of Y?",
        "number-of-shardings": "Expected: one sharding for each of the four parameters, then "
        "those of X and of Y.",
    },
)


def pair(X: Any, W1: Any, W2: Any) -> Any:
    """Apply two layers without biases."""
    return jnp.maximum(X @ W1, 0) @ W2


BLOCKS: Final = ((16, 64), (32, 128))
"""Pairs of (examples, hidden units)."""

TENSOR_PARALLEL: Final = Exercise(
    id="8.2",
    title="Two matmuls, one all-reduce",
    afterwards="This is the layer of Megatron-LM: columns first, then rows, and one all-reduce "
    "for both. Attention is sharded in the same way, over its heads.",
    requirements=(
        RunsWithinBudgets(
            "tensor_parallel",
            "shardings (of X, of W1, of W2) with which each device holds an eighth of the weights, "
            "and the two layers cost one all-reduce of their result",
            pair,
            tuple(((b, WIDTH), (WIDTH, h), (h, WIDTH)) for b, h in BLOCKS),
            tuple((Budget("all-reduce", bytes=4 * b * WIDTH),) for b, _ in BLOCKS),
            caps=tuple(4 * (b * WIDTH + 2 * WIDTH * h // 8) for b, h in BLOCKS),
            blocks=((1, 1), (1, 8), (8, 1)),
        ),
    ),
    hints=(
        "relu is applied between the two matmuls, to each element by itself. It is free on "
        "complete sums, and wrong on partial sums.",
        "So the first matmul must not give partial sums. If W1 is sharded over its columns, which "
        "hidden units does a device have? Which rows of W2 belong to these?",
        "W1 sharded over its columns, W2 over its rows, and X replicated.",
    ),
    diagnoses={
        "all-gather": "A device lacks something for its part of the work. Does it have all of X? "
        "Its shard of W1 has to give complete sums of some hidden units, and its shard of W2 has "
        "to need only these.",
        "reduce-scatter": "Partial sums are added up, and the sums are sharded. Does a device's "
        "shard of W1 give complete sums, which relu needs?",
        "collective-permute": "Shards move from device to device. A device needs the rows of W2 "
        "that belong to its own columns of W1.",
        "too-many-bytes": "Only the pair's result has to be added up. Are the sums of the hidden "
        "units partial, so that these are added up, too, before relu?",
        "layout of X": "Each device computes its own hidden units for every example. Which part of "
        "X does it need for that?",
        "layout of W1": "relu needs complete sums. Does a device's shard of W1 give complete sums "
        "of some hidden units, or partial sums of all?",
        "layout of W2": "A device has complete sums of its own hidden units. Which part of W2 are "
        "these multiplied by?",
        "over-the-cap": "Each device has memory for all of X, and for an eighth of W1 and of W2.",
        "fails": "On an Explicit mesh a program must say where its sums go, and pair does not. Is "
        "your mesh Auto?",
    },
)


def predict(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    """Apply three layers."""
    h = jnp.maximum(X @ W1 + b1, 0)
    h = jnp.maximum(h @ W2 + b2, 0)
    return h @ W3 + b3


def _predicted(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    h = np.maximum(X @ W1 + b1, 0)
    h = np.maximum(h @ W2 + b2, 0)
    return h @ W3 + b3


def _no_biases(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return _predicted(X, W1, 0 * b1, W2, 0 * b2, W3, 0 * b3)


def _no_last_bias(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return _predicted(X, W1, b1, W2, b2, W3, 0 * b3)


def _no_first_bias(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return _predicted(X, W1, 0 * b1, W2, b2, W3, b3)


def _no_second_bias(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return _predicted(X, W1, b1, W2, 0 * b2, W3, b3)


def _no_first_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return np.maximum((X @ W1 + b1) @ W2 + b2, 0) @ W3 + b3


def _no_second_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return (np.maximum(X @ W1 + b1, 0) @ W2 + b2) @ W3 + b3


def _no_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return ((X @ W1 + b1) @ W2 + b2) @ W3 + b3


def _bias_after_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return (np.maximum(np.maximum(X @ W1 + b1, 0) @ W2, 0) + b2) @ W3 + b3


def _biases_after_relu(X: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:
    return (np.maximum((np.maximum(X @ W1, 0) + b1) @ W2, 0) + b2) @ W3 + b3


THREE: Final = ((32, 32), (64, 16))
"""Pairs of (examples, hidden units of both layers)."""


def _three_shapes(batch: int, hidden: int) -> tuple[tuple[int, ...], ...]:
    return ((batch, WIDTH), (WIDTH, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, 8),
            (8,))  # fmt: skip


def _held_bytes(batch: int, hidden: int) -> int:
    """Return the bytes of a device's examples, the first layer and half of the others."""
    return 4 * (
        batch * WIDTH // 4 + (WIDTH + 1) * hidden + (hidden + 1) * hidden // 2 + hidden * 4 + 8
    )


def _explicit_arguments(batch: int, hidden: int, rows: int, columns: int) -> tuple[Argument, ...]:
    """Return the arguments of `predict` in the layout that 8.3 expects."""
    specs: tuple[tuple[str | None, ...], ...] = (
        ("data", None), (), (), (None, "model"), ("model",), ("model", None), (),
    )  # fmt: skip
    axes = (("data", rows), ("model", columns))
    return tuple(
        Argument(shape, axes, spec)
        for shape, spec in zip(_three_shapes(batch, hidden), specs, strict=True)
    )


MESHES: Final = ((4, 2), (2, 4))

BOTH: Final = Exercise(
    id="8.3",
    title="Both at once, in both modes",
    afterwards="Put the axis that communicates most, which is the model's, where the links are "
    "fastest: inside one machine. The axis of the batch can span machines.",
    about=(RunsWithinBudgets, CommunicatesAtMost),
    requirements=(
        RunsWithinBudgets(
            "both_ways",
            "shardings (of X, W1, b1, W2, b2, W3, b3) on a mesh of 4 × 2 with which the examples "
            "are in four shards, the second and third layer in two, and three_layers costs one "
            "all-reduce of a device's own predictions",
            predict,
            tuple(_three_shapes(*sizes) for sizes in THREE),
            tuple((Budget("all-reduce", bytes=4 * b * 8 // 4),) for b, _ in THREE),
            "0,1\n2,3\n4,5\n6,7",
            tuple(_held_bytes(*sizes) for sizes in THREE),
            {
                "bias-whole": Mistake(
                    ((4, 1), (1, 1), (1,), (1, 2), (1,), (2, 1), (1,)),
                    says="b2 is replicated, and each device has memory for half of it. W2 is "
                    "sharded over its columns, and a bias has the layout of the columns that it is "
                    "added to.",
                )
            },
            ((4, 1), (1, 1), (1,), (1, 2), (2,), (2, 1), (1,)),
        ),
        Computes(
            "predict_explicit",
            "predict_explicit must compute what three_layers computes, with Explicit axes.",
            _predicted,
            tuple(_explicit_arguments(*s, *mesh) for s, mesh in zip(THREE, MESHES, strict=True)),
            {
                "relu-last": Mistake(
                    lambda *given: np.maximum(_predicted(*given), 0),
                    says="relu is applied after the last layer. It follows only the other two.",
                ),
                "no-biases": Mistake(_no_biases, says="The three biases are left out."),
                "no-last-bias": Mistake(_no_last_bias, says="The last bias is left out."),
                "a-relu-left-out": Mistake(
                    _no_first_relu,
                    _no_second_relu,
                    _no_relu,
                    says="A relu is left out. There is one after the first layer and one after the "
                    "second.",
                ),
                "a-bias-left-out": Mistake(
                    _no_first_bias,
                    _no_second_bias,
                    says="A bias is left out, that of the first or of the second layer.",
                ),
                "bias-after-relu": Mistake(
                    _bias_after_relu,
                    _biases_after_relu,
                    says="A bias is added after relu. Add it before.",
                ),
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
        "Layers two and three are the pair of 8.2, sharded over model instead of all devices. X "
        "is sharded over data. Everything else is replicated.",
        "A bias has the layout of the sums that it is added to: b2 that of W2's columns. b3 is "
        "added to complete sums.",
        "With Explicit axes, all matmuls but the last have one possible type. For the last, "
        "jnp.dot(h, W3, out_sharding=P('data', None)) says where the sum should be.",
    ),
    diagnoses={
        "fails": "Are the shardings on a mesh with Explicit axes? three_layers does not say where "
        "its last sum should be, so both_ways needs a mesh with Auto axes, such as grid.",
        "ambiguous": "In the last matmul, the contracting dimension of both arguments is sharded "
        "over model.",
        "over-the-cap": "Each device has memory for a quarter of X, for half of W2, b2 and W3, "
        "and for all of the rest. Do the shardings of the last two layers fit together, as in 8.2?",
        "layout of X": "The examples are sharded over data alone. Two devices that share their "
        "examples divide the weights of the pair between them.",
        "layout of W1 and b1": "The first layer is no part of the pair, and each device needs all "
        "of its hidden units, complete.",
        "layout of b3": "b3 is added to complete sums, which every device has.",
        "all-gather": "Nothing has to be gathered here. Do you request a replicated array that "
        "may stay sharded, or do the shardings of two neighbouring arrays not fit together? The "
        "examples are sharded over data, and the weights of the pair over model.",
        "reduce-scatter": "A sum is sharded over model, and should be replicated over it. Is b3 "
        "sharded over model? Does an out_sharding name model? Or are the weights of the first "
        "layer sharded, so that its sums are partial, too?",
        "too-many-bytes": "Are the examples sharded over data? Is the first layer replicated, and "
        "are the second and the third sharded over model as in 8.2?",
        "replicated": "The examples should stay sharded over data.",
        "own-results": "The matmul with W3 needs such a sum. What else does each device contribute "
        "to it that should be added only once, such as the last bias?",
        "values": "Is each bias added once, and relu applied twice, after the first and after the "
        "second layer?",
    },
)

DEEP: Final = ((8, 8, 64, 2), (4, 6, 32, 3))
"""Tuples of (devices, layers, width of a layer, examples on one device)."""

ROUNDS: Final = ((8, 64, 16, 2), (4, 48, 8, 3))
"""Tuples of (devices, microbatches, features, examples of a microbatch on one device)."""


def _device_count(X: Any) -> np.float32:
    """Return the number of devices, which follows from the number of examples."""
    return np.float32({n * own: n for n, *_, own in (*DEEP, *ROUNDS)}[X.shape[-2]])


def _fsdp_arguments(n: int, layers: int, side: int, own: int) -> tuple[Argument, ...]:
    return (
        _argument((layers, side, side), "data", n, None, "data", None, scale=0.8 / side**0.5),
        _argument((own * n, side), "data", n, "data"),
        _argument((own * n, side), "data", n, "data"),
    )


def _deep_gradient(
    W: Any, X: Any, Y: Any, without_tanh: Sequence[int] = (), of_square: bool = True
) -> Any:
    """Return the gradient of the mean of sum((f(X) - Y)²) with respect to W.

    Args:
        W: All layers; f applies tanh(h @ w) for each.
        X: The examples, one in each row.
        Y: The values that f(X) should have.
        without_tanh: The layers without tanh, counted from the last, which is -1.
        of_square: Whether the difference is squared.
    """
    seen, tanh = [X], [i not in without_tanh for i in range(-len(W), 0)]
    for w, has_tanh in zip(W, tanh, strict=True):
        seen.append(np.tanh(seen[-1] @ w) if has_tanh else seen[-1] @ w)
    back = (2 * (seen[-1] - Y) if of_square else np.ones_like(Y)) / np.float32(len(Y))
    grads = []
    layers = zip(W[::-1], seen[-2::-1], seen[:0:-1], tanh[::-1], strict=True)
    for w, before, after, has_tanh in layers:
        inner = back * (1 - after**2) if has_tanh else back
        grads.append(before.T @ inner)
        back = inner @ w.T
    return np.stack(grads[::-1])


def _relu_gradient(W: Any, X: Any, Y: Any) -> Any:
    """Return the gradient if each layer ends with relu instead of tanh."""
    seen = [X]
    for w in W:
        seen.append(np.maximum(seen[-1] @ w, 0))
    back = 2 * (seen[-1] - Y) / np.float32(len(Y))
    grads = []
    for w, before, after in zip(W[::-1], seen[-2::-1], seen[:0:-1], strict=True):
        inner = back * (after > 0)
        grads.append(before.T @ inner)
        back = inner @ w.T
    return np.stack(grads[::-1])


def _of_own_examples(W: Any, X: Any, Y: Any) -> Any:
    """Return a gradient whose rows each come only from their device's own examples."""
    n = {n * own: n for n, *_, own in DEEP}[len(X)]
    grads = [_deep_gradient(W, *part) for part in zip(np.split(X, n), np.split(Y, n), strict=True)]
    return np.concatenate([np.split(g, n, axis=1)[i] for i, g in enumerate(grads)], axis=1)


def _rows_interleaved(W: Any, X: Any, Y: Any) -> Any:
    """Return the gradient if each layer is gathered with its rows dealt out over the devices."""
    n = {n * own: n for n, *_, own in DEEP}[len(X)]
    apart = W.reshape(len(W), n, -1, W.shape[2]).swapaxes(1, 2)
    grads = _deep_gradient(apart.reshape(W.shape), X, Y).reshape(apart.shape)
    return np.ascontiguousarray(grads.swapaxes(1, 2)).reshape(W.shape)


TIMES: Final = ("devices", "once", "share")
"""Ways to combine the devices' rows: a sum if each device divides by its own number of examples,
a sum if each divides by the number of all examples, and the mean of the latter."""


def _of_blocks_mixed(W: Any, X: Any, Y: Any, times: str) -> Any:
    """Return a gradient in which every device has the sum or the mean of all devices' rows."""
    n = {n * own: n for n, *_, own in DEEP}[len(X)]
    gradient = _deep_gradient(W, X, Y)
    mixed = np.add.reduce(np.split(gradient, n, axis=1))
    factor = {"devices": n, "once": 1, "share": 1 / n}[times]
    return np.tile(np.float32(factor) * mixed, (1, n, 1))


def _layer_bytes(side: int) -> int:
    """Return the number of bytes of one layer's weights."""
    return 4 * side * side


FSDP: Final = Exercise(
    id="8.4",
    title="Gather, use, discard",
    afterwards="This is FSDP, or stage 3 of ZeRO. The more devices there are, the less memory "
    "each needs, and each step sends one and a half times as many bytes as plain data "
    "parallelism.",
    requirements=(
        Computes(
            "fsdp_gradient",
            "fsdp_gradient(W, X, Y) must be the gradient of the mean over all examples of "
            "sum((f(X) - Y)²) with respect to W.",
            _deep_gradient,
            tuple(_fsdp_arguments(*sizes) for sizes in DEEP),
            {
                "as-many-times": Mistake(
                    lambda W, X, Y: _device_count(X) * _deep_gradient(W, X, Y),
                    says="The result is too large by the number of devices. The backward pass of "
                    "an all-gather adds up the gradients of all devices. By how many examples does "
                    "each device divide, its own or all?",
                ),
                "no-square": Mistake(
                    lambda W, X, Y: _deep_gradient(W, X, Y, of_square=False),
                    says="The difference is not squared.",
                ),
                "divided-again": Mistake(
                    lambda W, X, Y: _deep_gradient(W, X, Y) / _device_count(X),
                    lambda W, X, Y: (
                        _deep_gradient(W, X, Y) * np.float32(len(Y) / 16) / _device_count(X)
                    ),
                    says="The result is divided by the number of devices once too often. A "
                    "device's own examples times the devices are all examples, and the backward "
                    "pass of an all-gather adds up and does not average.",
                ),
                "sum-for-mean": Mistake(
                    lambda W, X, Y: np.float32(len(Y)) * _deep_gradient(W, X, Y),
                    says="This is the gradient of the sum over all examples. Expected: that of "
                    "their mean.",
                ),
                "tanh-forgotten": Mistake(
                    lambda W, X, Y: _deep_gradient(W, X, Y, range(-len(W), 0)),
                    says="This is the gradient of the matmuls alone. Each layer ends with tanh.",
                ),
                "no-last-tanh": Mistake(
                    lambda W, X, Y: _deep_gradient(W, X, Y, (-1,)),
                    says="tanh is missing after the last layer.",
                ),
                "relu-for-tanh": Mistake(
                    _relu_gradient,
                    says="This is the gradient if each layer ends with relu. Expected: tanh.",
                ),
                "layers-reversed": Mistake(
                    lambda W, X, Y: _deep_gradient(W[::-1], X, Y)[::-1],
                    says="The last layer of W is applied first. Expected: the first one.",
                ),
                "weights-transposed": Mistake(
                    lambda W, X, Y: _deep_gradient(W.swapaxes(1, 2), X, Y).swapaxes(1, 2),
                    says="This is the gradient if each layer multiplies by w.T. Expected: h @ w.",
                ),
                "rows-interleaved": Mistake(
                    _rows_interleaved,
                    says="The rows of each gathered layer are interleaved: row 0 of each device, "
                    "then row 1. Expected: all rows of the first device, then those of the next.",
                ),
                "new-weights": Mistake(
                    lambda W, X, Y: W - _deep_gradient(W, X, Y),
                    says="This is W minus its gradient. Expected: the gradient.",
                ),
                "own-examples-alone": Mistake(
                    _of_own_examples,
                    says="Each device's rows of the gradient come from its own examples only. What "
                    "adds up the gradient over the devices?",
                ),
                "blocks-mixed": Mistake(
                    *(partial(_of_blocks_mixed, times=times) for times in TIMES),
                    says="The devices' shards of the gradient are added up or averaged, but they "
                    "are different rows. The gradient of an all_gather has been added up over the "
                    "devices already.",
                ),
                "mean-of-everything": Mistake(
                    lambda W, X, Y: _deep_gradient(W, X, Y) / np.float32(Y.shape[1]),
                    lambda W, X, Y: (
                        _device_count(X) * _deep_gradient(W, X, Y) / np.float32(Y.shape[1])
                    ),
                    says="This is the mean over examples and features. Add up the squares of each "
                    "example, and average these sums over the examples.",
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
                    Budget("all-gather", ("data",), 2 * layers * _layer_bytes(side)),
                    Budget("reduce-scatter", ("data",), layers * _layer_bytes(side)),
                )
                for _, layers, side, _ in DEEP
            ),
        ),
        FitsIn(
            "fsdp_gradient",
            (7 * _layer_bytes(64), 8 * _layer_bytes(32)),
            gathers=tuple((layers, _layer_bytes(side)) for _, layers, side, _ in DEEP),
        ),
        # a layer's four matmuls take 8; with the examples of all devices, at least 4 times as much
        WorksAtMost(
            "fsdp_gradient",
            tuple(20 * own * layers * side**2 for _, layers, side, own in DEEP),
        ),
    ),
    about=(FitsIn, WorksAtMost),
    together=True,
    hints=(
        "In the body, w[i] has some rows of layer i. lax.all_gather(…, tiled=True) gives the "
        "complete layer. Call it where the layer is used: in the function that lax.scan runs for "
        "each layer.",
        "Use jax.grad in the body, on the loss of the device's own examples, with respect to its "
        "own shard of W. The backward pass of an all-gather is a reduce-scatter, which adds up "
        "the gradients of all devices. So divide by the number of all examples, not by that of the "
        "device's own.",
        "Without more, each gathered layer is kept for the backward pass. jax.checkpoint around "
        "the function of one layer discards it and gathers it again.",
    ),
    diagnoses={
        "too-much-memory": "Each layer is gathered by itself, and again in the backward pass. Is "
        "jax.checkpoint around more than the function of one layer, or is there a Python loop "
        "instead of lax.scan? The compiler merges the layers of a Python loop.",
        "gathered-at-once": "Gather each layer where it is used, in the function that lax.scan "
        "runs for each layer. Is W gathered before the loop, or its gradient after it, or do "
        "in_specs request all of W?",
        "gathered-once": "Each layer is gathered only once, so it is kept for the backward pass. "
        "With jax.checkpoint around the function of one layer, its all_gather included, it is "
        "gathered again.",
        "off-by-a-factor": "The loss is a mean over all examples: is each device's sum divided by "
        "the number of all of them, its own times lax.axis_size, once?",
        "rank": "Does the body return more than the gradient, such as the loss?",
        "not-gathered": "A device has some rows of each layer, by in_specs over dimension 1 of W, "
        "and a matmul needs all: is the layer gathered along its rows?",
        "blocks-do-not-fit": "With tiled=True, all_gather concatenates a layer's rows. Without "
        "it, it adds a dimension.",
        "all-reduce": "No device needs the complete gradient, not even of one layer. Each should "
        "end up with the sums for its own rows.",
        "too-many-bytes": "A layer is gathered at most twice, in the forward and in the backward "
        "pass, and its gradient is scattered once. Is anything else gathered, such as X or Y, "
        "because in_specs request all of it? Each device works on its own examples.",
        "too-much-work": "Each device works on its own examples. Do in_specs request all of X "
        "and Y? The compiler then gathers them, and each device computes the gradients of all "
        "examples.",
        "varying-mismatch": "Is this the loop over the layers, which starts with X, and do "
        "in_specs request all of X? Then shard X over data, because each device works on its own "
        "examples. If X is sharded already, only the type of the carry is wrong.",
        "not-replicated": "Each device has its own shard of the gradient: it is sharded as W is.",
        "replicated": "The gradient is replicated. Expected: sharded as W is, so that each device "
        "has the gradient of its own rows.",
    },
)


SEQUENCES: Final = ((8, 32, 16, 64), (4, 24, 8, 32))
"""Tuples of (devices, tokens, features, hidden units)."""


def _sequence_arguments(n: int, tokens: int, width: int, hidden: int) -> tuple[Argument, ...]:
    return (
        _argument((tokens, width), "model", n, "model"),
        _argument((width, hidden), "model", n, None, "model"),
        _argument((hidden, width), "model", n, "model"),
    )


def _pair(X: Any, W1: Any, W2: Any) -> Any:
    return np.maximum(X @ W1, 0) @ W2


def _own_units(X: Any, W1: Any, W2: Any) -> Any:
    """Return the result if each device applies only its own hidden units to its own tokens."""
    n = {tokens: n for n, tokens, *_ in SEQUENCES}[len(X)]
    parts = zip(np.split(X, n), np.split(W1, n, axis=1), np.split(W2, n), strict=True)
    return np.concatenate([_pair(*part) for part in parts])


def _relu_of_parts(X: Any, W1: Any, W2: Any) -> Any:
    """Return the result if relu is applied after both matmuls, to each device's partial sums."""
    n = {tokens: n for n, tokens, *_ in SEQUENCES}[len(X)]
    parts = zip(np.split(W1, n, axis=1), np.split(W2, n), strict=True)
    return sum(np.maximum(X @ w1 @ w2, 0) for w1, w2 in parts)


def _scattered_too_early(X: Any, W1: Any, W2: Any, is_relu_first: bool) -> Any:
    """Return the result if devices add up and scatter their own hidden units, before `@ W2`."""
    n = {tokens: n for n, tokens, *_ in SEQUENCES}[len(X)]
    parts = [X @ w1 for w1 in np.split(W1, n, axis=1)]
    added = sum(np.maximum(part, 0) for part in parts) if is_relu_first else sum(parts)
    pieces = zip(np.split(np.maximum(added, 0), n), np.split(W2, n), strict=True)
    return np.concatenate([piece @ w2 for piece, w2 in pieces])


def _model_devices(X: Any) -> np.float32:
    """Return the number of devices, which follows from the number of tokens."""
    return np.float32({tokens: n for n, tokens, *_ in SEQUENCES}[len(X)])


def _averaged(X: Any, W1: Any, W2: Any) -> Any:
    """Return the result if the partial sums are averaged."""
    return _pair(X, W1, W2) / _model_devices(X)


SEQUENCE: Final = Exercise(
    id="8.5",
    title="Halves of an all-reduce",
    afterwards="Megatron-LM calls this sequence parallelism: it sends as many bytes as one "
    "all-reduce, and the work between the pairs is done once and not on every device.",
    requirements=(
        Computes(
            "sequence_parallel",
            "sequence_parallel(X, W1, W2) must return relu(X @ W1) @ W2.",
            _pair,
            tuple(_sequence_arguments(*sizes) for sizes in SEQUENCES),
            {
                "no-relu": Mistake(
                    lambda X, W1, W2: X @ W1 @ W2, says="relu is missing between the two matmuls."
                ),
                "relu-last": Mistake(
                    lambda X, W1, W2: np.maximum(X @ W1 @ W2, 0),
                    says="relu is applied after the second matmul. Apply it between the two.",
                ),
                "relu-of-parts": Mistake(
                    _relu_of_parts,
                    says="relu is applied to each device's partial sums of the result. Apply it "
                    "between the two matmuls.",
                ),
                "relu-of-the-tokens": Mistake(
                    lambda X, W1, W2: np.maximum(X, 0) @ W1 @ W2,
                    says="relu is applied to the tokens. Apply it between the two matmuls.",
                ),
                "another-nonlinearity": Mistake(
                    lambda X, W1, W2: np.asarray(jax.nn.gelu(X @ W1)) @ W2,
                    lambda X, W1, W2: np.tanh(X @ W1) @ W2,
                    says="The function between the two matmuls is not relu.",
                ),
                "own-units-alone": Mistake(
                    _own_units,
                    says="Each device applies only its own hidden units to its own tokens. Each "
                    "token needs those of all devices.",
                ),
                "scattered-too-early": Mistake(
                    *(
                        partial(_scattered_too_early, is_relu_first=first)
                        for first in (True, False)
                    ),
                    says="The psum_scatter comes before `@ W2`. There each device has other hidden "
                    "units, which must not be added up. Partial sums of the same numbers exist "
                    "only after the second matmul.",
                ),
                "mean-for-sum": Mistake(
                    _averaged,
                    says="The result is too small by the number of devices: the partial sums are "
                    "averaged instead of added up.",
                ),
                "all-units-everywhere": Mistake(
                    lambda X, W1, W2: _pair(X, W1, W2) * _model_devices(X),
                    says="The result is too large by the number of devices, as if each had added "
                    "up all hidden units, and the psum_scatter added up these equal sums. Does "
                    "each device have only its own units, so that W1 enters by columns and W2 by "
                    "rows? Or are the sums added up twice?",
                ),
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
        # two matmuls need 4 operations for each token, feature and hidden unit; the rest is slack
        WorksAtMost("sequence_parallel", tuple(5 * t * w * h // n for n, t, w, h in SEQUENCES)),
    ),
    about=(Requests,),
    hints=(
        "Inside the pair every device needs all tokens, for its own hidden units. Before and "
        "after it, a device needs only its own tokens.",
        "The first collective brings all tokens to every device. After the second matmul each "
        "device has a partial sum for every token, and should keep the sums of its own tokens.",
        "lax.all_gather(x, 'model', tiled=True) first, and lax.psum_scatter(…, 'model', "
        "tiled=True) last.",
    ),
    diagnoses={
        "no reduce-scatter": "After the second matmul each device has a partial sum for every "
        "token, and needs the sums of its own tokens. One collective does both. (An all-reduce "
        "would give all sums to every device, which would then drop most of them.)",
        "gathered-before-the-body": "A device should enter the body with its own tokens and its "
        "own hidden units: its rows of X, its columns of W1 and its rows of W2.",
        "no all-gather": "A device's hidden units need all tokens. It should enter the body with "
        "its own tokens only, and a collective in the body should bring the others.",
        **dict.fromkeys(
            ("not-gathered", "blocks-do-not-fit"),
            "Does W1 enter by columns, and W2 by rows, as in 8.2? Are all tokens gathered, along "
            "dimension 0, before the first matmul?",
        ),
        "untiled": "The tokens are scattered: dimension 0, tiled.",
        "scatter-does-not-divide": "To scatter the sums of all tokens, a device must have applied "
        "its hidden units to all of them.",
        "one-too-many": "One all-gather, of the tokens, and one reduce-scatter are enough. Are "
        "weights gathered, too? They can stay where they are.",
        "not-replicated": "The result is sharded as X is: a device returns its own tokens.",
        "own-results": "The devices along model have different hidden units and add up their "
        "partial sums. Do all of these belong to the same tokens?",
        "too-much-work": "A device multiplies all tokens by its own hidden units. Does it "
        "multiply them by others, too?",
    },
)


def _vocabulary_arguments(
    n: int, batch: int, words: int, scale: float, shift: float
) -> tuple[Argument, ...]:
    return (
        _argument((batch, words), "model", n, None, "model", scale=scale, shift=shift),
        _argument((batch,), "model", n, dtype="int32", scale=words),
    )


def _logarithm(logits: Any) -> Any:
    """Return the logarithm of the sum of the exponentials of each row."""
    largest = logits.max(1)
    return np.log(np.exp(logits - largest[:, None]).sum(1)) + largest


def _chosen(logits: Any, labels: Any) -> Any:
    return np.take_along_axis(logits, labels[:, None], 1)[:, 0]


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return (_logarithm(logits) - _chosen(logits, labels)).mean()


WORDS: Final = ((8, 16, 64, 100.0, 0.0), (4, 24, 48, 1.0, -1000.0))
"""Tuples of (devices, examples, words, standard deviation of the logits, mean of the logits).

In the first case exp overflows, and one word is far above the others. In the second, exp gives 0
for all words and many of them contribute, so that the result shows which logarithm is used.
"""


def _blocks(logits: Any) -> Any:
    """Return a list of the logits on each device."""
    return np.split(logits, {batch: n for n, batch, *_ in WORDS}[len(logits)], axis=1)


def _counted_by_all(logits: Any, labels: Any, position: Callable[[Any, int, int], Any]) -> Any:
    """Return the result if every device uses a logit of its own block as the label's.

    Args:
        logits: The logits of all words.
        labels: The examples' labels.
        position: Returns the positions in a device's block, given the labels, the device's number
            and the number of its words.
    """
    blocks = _blocks(logits)
    positions = [position(labels, i, block.shape[1]) for i, block in enumerate(blocks)]
    return (_logarithm(logits) - sum(map(_chosen, blocks, positions))).mean()


def _found_where_it_is_small(logits: Any, labels: Any) -> Any:
    """Return the result if labels are positions in each block, with 0 for those outside of it."""
    found = (
        np.where(labels < block.shape[1], _chosen(block, labels % block.shape[1]), np.float32(0))
        for block in _blocks(logits)
    )
    return (_logarithm(logits) - sum(found)).mean()


def _total(logits: Any) -> Any:
    """Return the sum of the exponentials of each row, after its maximum is subtracted."""
    return np.exp(logits - logits.max(1, keepdims=True)).sum(1)


def _shifted(logits: Any, labels: Any, by: int) -> Any:
    """Return the result if the label's logit is looked up `by` words further on."""
    position, words = labels + by, logits.shape[1]
    chosen = _chosen(logits, np.clip(position, 0, words - 1))
    found = np.where((position >= 0) & (position < words), chosen, np.float32(0))
    return (_logarithm(logits) - found).mean()


def _edges_counted(logits: Any, labels: Any, is_local: Callable[[Any, int], Any]) -> Any:
    """Return the result if `is_local` decides whether a label is among a device's own words."""
    found = np.zeros(len(labels), logits.dtype)
    for i, block in enumerate(_blocks(logits)):
        words = block.shape[1]
        position = labels - i * words
        chosen = _chosen(block, np.clip(position, 0, words - 1))
        found += np.where(is_local(position, words), chosen, np.float32(0))
    return (_logarithm(logits) - found).mean()


def _earlier_found(logits: Any, labels: Any, place: Callable[[Any, int], Any]) -> Any:
    """Return the result if labels of earlier blocks, whose position is negative, are found, too.

    Args:
        logits: the logits of all words.
        labels: the examples' labels.
        place: returns the places that are read, given positions in a block and its words.
    """
    found = np.zeros(len(labels), logits.dtype)
    for i, block in enumerate(_blocks(logits)):
        words = block.shape[1]
        position = labels - i * words
        chosen = _chosen(block, np.minimum(place(position, words), words - 1))
        found += np.where(position < words, chosen, np.float32(0))
    return (_logarithm(logits) - found).mean()


def _own_largest(logits: Any, labels: Any) -> Any:
    """Return the result if each device subtracts the maximum of its own words."""
    total = sum(np.exp(block - block.max(1, keepdims=True)).sum(1) for block in _blocks(logits))
    return (np.log(total) + logits.max(1) - _chosen(logits, labels)).mean()


def _found_from(z: Any, t: Any, first: Callable[[int], int]) -> Any:
    """Return what is added up for the labels if block i is taken to begin at word `first(i)`."""
    total = np.zeros(len(z), z.dtype)
    for i, block in enumerate(_blocks(z)):
        words = block.shape[1]
        position = t - first(i)
        chosen = _chosen(block, np.clip(position, 0, words - 1))
        total += np.where((position >= 0) & (position < words), chosen, np.float32(0))
    return total


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
    "another-logarithm": Mistake(
        lambda z, t: (np.log2(_total(z)) + z.max(1) - _chosen(z, t)).mean(),
        lambda z, t: (np.log10(_total(z)) + z.max(1) - _chosen(z, t)).mean(),
        lambda z, t: (np.log1p(_total(z)) + z.max(1) - _chosen(z, t)).mean(),
    ),
    "mean-of-exponentials": Mistake(
        lambda z, t: _cross_entropy(z, t) - np.float32(np.log(len(_blocks(z)))),
        lambda z, t: _cross_entropy(z, t) - np.float32(np.log(_blocks(z)[0].shape[1])),
        lambda z, t: _cross_entropy(z, t) - np.float32(np.log(z.shape[1])),
    ),
    "logarithms-added": Mistake(
        lambda z, t: (
            sum(_logarithm(b) - b.max(1) for b in _blocks(z)) + z.max(1) - _chosen(z, t)
        ).mean(),
        lambda z, t: (
            sum(np.log(np.exp(b - z.max(1, keepdims=True)).sum(1)) for b in _blocks(z))
            + z.max(1)
            - _chosen(z, t)
        ).mean(),
        lambda z, t: (sum(map(_logarithm, _blocks(z))) - _chosen(z, t)).mean(),
    ),
    "examples-together": lambda z, t: (np.log(_total(z).sum()) + z.max(1) - _chosen(z, t)).mean(),
    "label-averaged": lambda z, t: (
        _logarithm(z) - _chosen(z, t) / np.float32(len(_blocks(z)))
    ).mean(),
    "label-forgotten": lambda z, t: _logarithm(z).mean(),
    "label-added": lambda z, t: (_logarithm(z) + _chosen(z, t)).mean(),
    "largest-for-sum": lambda z, t: (
        np.log(sum(np.exp(b.max(1) - z.max(1)) for b in _blocks(z))) + z.max(1) - _chosen(z, t)
    ).mean(),
    "offset-of-examples": lambda z, t: (
        _logarithm(z) - _found_from(z, t, lambda i: i * len(z))
    ).mean(),
    "label-twice": lambda z, t: (_logarithm(z) - 2 * _chosen(z, t)).mean(),
    "offset-added": lambda z, t: (
        _logarithm(z)
        - np.where(
            t < _blocks(z)[0].shape[1],
            _chosen(z, np.minimum(t, _blocks(z)[0].shape[1] - 1)),
            np.float32(0),
        )
    ).mean(),
    "offset-of-one": lambda z, t: (_logarithm(z) - _found_from(z, t, lambda i: i)).mean(),
    "one-word-too-many": lambda z, t: _edges_counted(
        z, t, lambda position, words: (position >= 0) & (position <= words)
    ),
    "earlier-blocks-found": Mistake(
        lambda z, t: _earlier_found(z, t, lambda position, words: np.maximum(position, 0)),
        lambda z, t: _earlier_found(
            z,
            t,
            lambda position, words: np.maximum(
                np.where(position < 0, position + words, position), 0
            ),
        ),
    ),
    "one-place-off": Mistake(lambda z, t: _shifted(z, t, -1), lambda z, t: _shifted(z, t, 1)),
    "first-word-missed": lambda z, t: _edges_counted(
        z, t, lambda position, words: (position > 0) & (position < words)
    ),
    "probability": lambda z, t: -np.exp(_chosen(z, t) - _logarithm(z)).mean(),
    "label-by-maximum": lambda z, t: (_logarithm(z) - np.maximum(_chosen(z, t), 0)).mean(),
}


def _largest_taken_off(mistake: Callable[..., Any]) -> Callable[..., Any]:
    """Return the mistake as made with logits from which each example's maximum is subtracted."""
    return lambda logits, labels: mistake(logits - logits.max(1, keepdims=True), labels)


CROSS_ENTROPY: Final = Exercise(
    id="8.6",
    title="Too many words for one device",
    afterwards="With vocabularies of 100,000 words and more, the logits are often the largest "
    "array of a training step. In this way no device ever holds a complete row of them.",
    requirements=(
        Computes(
            "cross_entropy",
            "cross_entropy(logits, labels) must be the mean over the examples of "
            "logsumexp(logits) - logits[label].",
            _cross_entropy,
            tuple(_vocabulary_arguments(*sizes) for sizes in WORDS),
            {
                name: Mistake(mistake, *map(_largest_taken_off, ways_of(mistake)))
                for name, mistake in SLIPS.items()
            },
            under_mesh=True,
        ),
        Requests(
            "cross_entropy",
            never=("all-gather", "reduce-scatter", "all-to-all", "collective-permute"),
        ),
        CommunicatesAtMost(
            "cross_entropy",
            tuple((Budget("all-reduce", ("model",), 3 * 4 * b),) for _, b, *_ in WORDS),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "Three numbers for each example depend on all devices: its largest logit, the sum of the "
        "exponentials, and the logit of its label. pmax, psum, psum.",
        "Logits reach into the hundreds, and exp(100) does not fit into float32. Subtract each "
        "example's maximum over all words first.",
        "A label is an index into the whole vocabulary. A device has some of the words, starting "
        "at axis_index * (its number of words). If a label is not among its own words, the device "
        "adds 0.",
    ),
    diagnoses={
        "not-a-number": "Is an index past the end of a device's block? Clip it, and use 0 where "
        "the label is not among the device's words. If it is not the index, is each example's "
        "maximum over all words subtracted before exp?",
        "not-finite": "exp(100) does not fit into float32, and exp(-200) is 0, whose logarithm is "
        "minus infinity: subtract each example's maximum over all words first. (Over the devices "
        "it is a pmax; a psum of their maxima is another number.) And does a device without the "
        "label add 0, and not -inf?",
        "values": "Does a device whose words do not include the label add nothing for it, and do "
        "all devices subtract the same maximum?",
        "own-largest": "Each device subtracts the maximum of its own words, so the sums have "
        "different scales when they are added up. All must subtract the same.",
        "label-counted-by-all": "If a label is outside a device's block, the nearest word of that "
        "block is used. Such a device should add nothing.",
        "label-in-every-block": "Every device uses a word of its own as the label. If the label "
        "is not among a device's words, the device should add nothing.",
        "label-of-the-block": "A label is used as a position in each device's own block. It is "
        "the index of a word in the whole vocabulary.",
        "label-without-offset": "A label is looked up in each block as if the block began at word "
        "0. So all devices find the small labels, and no device finds the others. First subtract "
        "the number of the block's first word, axis_index * (its number of words).",
        "log-forgotten": "The logarithm is missing: the sum of the exponentials itself is added.",
        "another-logarithm": "This is another logarithm. jnp.log is the inverse of exp.",
        "mean-of-exponentials": "The exponentials are averaged, over the devices or over words. "
        "Add them up.",
        "logarithms-added": "Each device takes the logarithm of its own sum, and these logarithms "
        "are added up. First add up the sums of the exponentials over the devices, then take one "
        "logarithm.",
        "examples-together": "The exponentials of all examples are added up to one number. Each "
        "example has its own sum: axis=1.",
        "label-averaged": "The label's logit is divided by the number of devices. One device has "
        "it, the others add 0, and a mean divides by all of them.",
        "label-forgotten": "This is the mean of the logarithms alone. Is the label's logit "
        "subtracted? If it is, it is 0 for every example: does any device find the label? Its "
        "position there is labels - axis_index * (its number of words). (Do you combine the "
        "devices' values by a maximum? If all logits are below zero, the others' zeros win.)",
        "label-added": "The label's logit is added. Subtract it.",
        "largest-for-sum": "Each device takes the largest of its exponentials. Add them all up.",
        "offset-of-examples": "A block's first word is taken to be axis_index * (the number of "
        "examples). Words are dimension 1 of the logits.",
        "label-twice": "The label's logit is subtracted twice.",
        "offset-added": "The first word's number is added to the label, so only device 0 finds "
        "its labels. Subtract it: position = labels - axis_index * (its number of words).",
        "offset-of-one": "The device's number is subtracted from the label, as if each block had "
        "one word. Subtract the number of the block's first word, axis_index * (its number of "
        "words).",
        "one-word-too-many": "A label that is the first word of a block is found by the device "
        "before, too. A block's last position is its number of words minus one.",
        "earlier-blocks-found": "A device adds a logit for labels of earlier blocks, too. Their "
        "position in its block is negative: add 0 for these as for those past its end.",
        "one-place-off": "The logit of a word next to the label's is used: positions are off by "
        "one.",
        "first-word-missed": "No device finds a label that is the first word of a block. Its "
        "position in the block is 0.",
        "probability": "This is the probability of the label. Expected: its negative logarithm.",
        "label-by-maximum": "If the label's logit is below zero, 0 is used instead, as by a "
        "maximum over all devices. Devices without the label contribute 0, which changes a "
        "maximum and not a sum.",
        "largest-forgotten": "The maximum was subtracted, and not added again.",
        "largest-left-in": "The maximum was added again to the logarithm, but not to the label's "
        "logit.",
        "sum-for-mean": "This is the sum over the examples. Expected: their mean.",
        "shape": "Expected: one number, the mean over the examples.",
        "shapes-do-not-fit": "An example's maximum, its sum and its logit are one number each.",
        "explicit all-gather": "Nothing has to be gathered: three numbers for each example, each "
        "reduced over the devices, are enough.",
        "all-gather": "An array is gathered. Does the body do it, or does it happen before the "
        "body, because in_specs request more than a device has?",
        "too-many-bytes": "First reduce to one number for each example on each device, then over "
        "the devices.",
        "not-replicated": "Each device knows only its own words. Is everything that depends on "
        "them reduced over the devices, the maximum, too?",
        "no-shard-map": "With Auto axes the compiler makes such a program, too. Here, write it "
        "yourself, with shard_map.",
    },
)


def _accumulation_arguments(n: int, rounds: int, width: int, own: int) -> tuple[Argument, ...]:
    return (
        _argument((width, width), "data", n),
        _argument((rounds, own * n, width), "data", n, None, "data"),
        _argument((rounds, own * n, width), "data", n, None, "data"),
    )


def _memory_limit(rounds: int, width: int, own: int) -> int:
    """Return a limit on memory that fits what a few microbatches compute, and not all of them."""
    return (2 * rounds + 24) * 4 * own * width + 6 * 4 * width * width


def _gradient(W: Any, X: Any, Y: Any) -> Any:
    """Return the gradient of mean((tanh(X @ W) - Y)²) with respect to W."""
    made = np.tanh(X @ W)
    inner = 2 * (made - Y) / np.float32(Y.size) * (1 - made**2)
    return np.einsum("rbi,rbj->ij", X, inner)


def _running_mean(W: Any, X: Any, Y: Any) -> Any:
    """Return the gradient if each round halves the sum so far and its own gradient."""
    made = np.zeros_like(W)
    for x, y in zip(X, Y, strict=True):
        made = (made + _gradient(W, x[None], y[None])) / 2
    return made.astype(W.dtype)


def _with_steps(W: Any, X: Any, Y: Any, rate: float) -> Any:
    """Return the mean gradient if each device changes its weights after each microbatch.

    Args:
        W: the weights.
        X: the examples, in microbatches.
        Y: their targets.
        rate: the learning rate of these steps.
    """
    n = int(_device_count(X))
    sums = []
    for parts in zip(np.split(X, n, axis=1), np.split(Y, n, axis=1), strict=True):
        total = np.zeros(W.shape)
        for x, y in zip(*parts, strict=True):
            total += _gradient(W - rate * total, x[None], y[None])
        sums.append(total)
    return (np.mean(sums, axis=0) / len(X)).astype(W.dtype)


ACCUMULATION: Final = Exercise(
    id="8.7",
    title="Add up locally first",
    afterwards="Accumulation saves memory, too: a batch that is too large for the devices is "
    "processed one microbatch at a time.",
    requirements=(
        Computes(
            "accumulated",
            "accumulated(W, X, Y) must be the gradient of mean((tanh(X @ W) - Y)²) with respect to "
            "W, over all microbatches and all examples.",
            _gradient,
            tuple(_accumulation_arguments(*sizes) for sizes in ROUNDS),
            {
                "as-many-times": Mistake(
                    lambda W, X, Y: _device_count(X) * _gradient(W, X, Y),
                    says="The result is too large by the number of devices, as if the devices' "
                    "means were added up. Expected: their mean. Are the weights replicated in the "
                    "body? Then jax.grad adds up their gradient over the devices already, and a "
                    "pmean changes nothing: a pcast has to come before jax.grad, not in what it "
                    "differentiates. If they vary: is there a psum where a pmean belongs?",
                ),
                "rounds-added-up": Mistake(
                    lambda W, X, Y: np.float32(len(X)) * _gradient(W, X, Y),
                    says="The gradients of the microbatches are added up. Expected: their mean.",
                ),
                "averaged-twice": Mistake(
                    lambda W, X, Y: _gradient(W, X, Y) / _device_count(X),
                    says="The result is too small by the number of devices: is it averaged over "
                    "them twice?",
                ),
                "divided-by-examples": Mistake(
                    lambda W, X, Y: (
                        _gradient(W, X, Y) * np.float32(len(X) / X.shape[1]) * _device_count(X)
                    ),
                    says="The sum over the microbatches is divided by the number of a device's "
                    "examples. Divide by the number of microbatches.",
                ),
                "begins-with-W": Mistake(
                    lambda W, X, Y: _gradient(W, X, Y) + W / np.float32(len(X)),
                    lambda W, X, Y: _gradient(W, X, Y) + W,
                    says="W itself, or a part of it, is added to the gradient. Does the sum over "
                    "the microbatches start with W? Start it with zeros.",
                ),
                "running-mean": Mistake(
                    _running_mean,
                    says="In each round, the sum so far and the new gradient are halved, so the "
                    "last microbatch counts half. Expected: all microbatches count equally.",
                ),
                "steps-on-the-way": Mistake(
                    *(partial(_with_steps, rate=rate) for rate in (1.0, 0.1, 0.01, 0.001)),
                    says="The weights change from one microbatch to the next, as in a step of "
                    "training for each. Expected: the gradient of all of them for the same W.",
                ),
                "last-round-alone": Mistake(
                    lambda W, X, Y: _gradient(W, X[-1:], Y[-1:]) / np.float32(len(X)),
                    lambda W, X, Y: _gradient(W, X[-1:], Y[-1:]),
                    says="This is the gradient of the last microbatch, or its part of the mean. "
                    "What happens to the other microbatches?",
                ),
                "first-round-alone": Mistake(
                    lambda W, X, Y: _gradient(W, X[:1], Y[:1]) / np.float32(len(X)),
                    lambda W, X, Y: _gradient(W, X[:1], Y[:1]),
                    says="This is the gradient of the first microbatch, or its part of the mean. "
                    "What happens to the other microbatches?",
                ),
                "first-round-left-out": Mistake(
                    lambda W, X, Y: _gradient(W, X[1:], Y[1:]),
                    lambda W, X, Y: _gradient(W, X[1:], Y[1:]) * np.float32(1 - 1 / len(X)),
                    says="The first microbatch is missing from the gradient.",
                ),
                "last-round-left-out": Mistake(
                    lambda W, X, Y: _gradient(W, X[:-1], Y[:-1]),
                    lambda W, X, Y: _gradient(W, X[:-1], Y[:-1]) * np.float32(1 - 1 / len(X)),
                    says="The last microbatch is missing from the gradient.",
                ),
                "sum-of-a-block": Mistake(
                    lambda W, X, Y: (
                        _gradient(W, X, Y) * np.float32(Y.size) / _device_count(X) / len(X)
                    ),
                    lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.size) / _device_count(X),
                    lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.size) / len(X),
                    lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.size),
                    says="The squares of a block are added up. Expected: their mean, over the "
                    "examples and over the features.",
                ),
                "mean-of-sums": Mistake(
                    lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.shape[-1]),
                    lambda W, X, Y: _gradient(W, X, Y) * np.float32(Y.shape[-1]) * _device_count(X),
                    says="The squares of each example are added up over the features. Expected: "
                    "their mean over the features, too.",
                ),
                "tanh-forgotten": Mistake(
                    lambda W, X, Y: np.einsum(
                        "rbi,rbj->ij", X, 2 * (X @ W - Y) / np.float32(Y.size)
                    ),
                    says="This is the gradient of mean((X @ W - Y)²): tanh is missing.",
                ),
                "first-device-alone": Mistake(
                    lambda W, X, Y: _gradient(
                        W, *(np.split(a, int(_device_count(X)), axis=1)[0] for a in (X, Y))
                    ),
                    says="This is the gradient of the first device's examples alone.",
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
        FitsIn("accumulated", tuple(_memory_limit(*sizes) for _, *sizes in ROUNDS)),
    ),
    hints=(
        "Add up the gradients of the microbatches on each device first, and once, at the end, "
        "over the devices.",
        "In a body, the gradient with respect to a replicated value has been added up over the "
        "devices already, by an all-reduce for every microbatch. To get the device's own "
        "gradient, make the weights varying first: lax.pcast(w, 'data', to='varying').",
        "Then lax.scan adds up the gradients of the microbatches, starting from zeros that vary, "
        "too (as jnp.zeros_like of the varying w does), and lax.pmean comes after the loop.",
    ),
    diagnoses={
        "too-much-memory": "Each device has memory for what a few microbatches compute, and not "
        "all of them. Is the gradient computed for one microbatch at a time, and added up before "
        "the next? Is there a Python loop instead of lax.scan? It is unrolled, and needs more. Or "
        "are all gradients or losses kept, and added up after the loop?",
        "too-often": "Is there an all-reduce in the loop? jax.grad inserts one if the weights are "
        "replicated.",
        "off-by-a-factor": "The mean is over all microbatches and over all devices: is a sum over "
        "either of them divided by its number, once? (pmean divides by the number of devices, and "
        "a device's own mean by the number of its own examples.)",
        "varying-mismatch": "Does the loop start with zeros that are the same on all devices, and "
        "continue with a value that varies, such as the gradient or the loss of a device's own "
        "examples?",
        "not-replicated": "Each device has the gradient of its own examples. Are these averaged "
        "over the devices, once the loop is over?",
    },
    together=True,
)


def _pipeline_arguments(n: int, rounds: int, examples: int, width: int) -> tuple[Argument, ...]:
    return (
        _argument((n, width, width), "stage", n, "stage", scale=2 / width**0.5),
        _argument((rounds, examples, width), "stage", n),
    )


def _pipeline(W: Any, X: Any, after: Callable[[Any], Any] = np.tanh) -> Any:
    for w in W:
        X = after(X @ w)  # noqa: N806
    return X


def _flat(X: Any) -> tuple[Any, ...]:
    """Return all examples of all microbatches as rows."""
    return (X.reshape(-1, X.shape[-1]),)


def _tanh_first(W: Any, X: Any) -> Any:
    """Return the result if tanh is applied before each matmul."""
    for w in W:
        X = np.tanh(X) @ w  # noqa: N806
    return X


def _stage_0_inputs(X: Any, ahead: int) -> Any:
    """Return the microbatches that stage 0 takes `ahead` steps later, repeating the last one."""
    return X[np.minimum(np.arange(len(X)) + ahead, len(X) - 1)]


def _all_added(W: Any, X: Any) -> Any:
    """Return the sum over all stages of their results, in the steps whose results are kept."""
    n = len(W)
    return sum(_pipeline(W[: s + 1], _stage_0_inputs(X, n - 1 - s)) for s in range(n))


def _all_added_in_turn(W: Any, X: Any) -> Any:
    """Return the same sum if stage 0 starts again with the first microbatch."""
    n = len(W)
    return sum(_pipeline(W[: s + 1], np.roll(X, s + 1 - n, 0)) for s in range(n))


def _fed_everywhere(W: Any, X: Any) -> Any:
    """Return the result if every stage takes X[t] in step t, and what it received once t >= m."""
    n, m = len(W), len(X)
    held, made = [np.zeros_like(X[0])] * n, np.zeros_like(X)
    for t in range(n + m - 1):
        held = [np.tanh((X[t] if t < m else h) @ w) for h, w in zip(held, W, strict=True)]
        if t >= n - 1:
            made[t - n + 1] = held[-1]
        held = [held[-1], *held[:-1]]
    return made


def _too_short(W: Any, X: Any) -> Any:
    """Return the result if there is one step too few, so that the last microbatch is missing."""
    made = _pipeline(W, X)
    made[-1] = 0
    return made


def _late(W: Any, X: Any) -> Any:
    """Return the result if the last stage starts to keep results one step too late."""
    made = _pipeline(W, X)
    made[:-1], made[-1] = made[1:], 0
    return made


def _input_added(W: Any, X: Any) -> Any:
    """Return the result if every stage adds X[t] (or the last one) to what it received."""
    n, m = len(W), len(X)
    held, made = [np.zeros_like(X[0])] * n, np.zeros_like(X)
    for t in range(n + m - 1):
        came = [np.zeros_like(X[0]), *held[:-1]]
        held = [np.tanh((X[min(t, m - 1)] + c) @ w) for c, w in zip(came, W, strict=True)]
        if t >= n - 1:
            made[t - n + 1] = held[-1]
    return made


def _first_alone(W: Any, X: Any) -> Any:
    """Return the result if stage 0 takes microbatch 0 and no other."""
    made = _pipeline(W, X)
    made[1:] = 0
    return made


PIPES: Final = ((8, 4, 4, 16), (4, 6, 3, 8))
"""Tuples of (stages, microbatches, examples in a microbatch, features)."""

PIPELINE: Final = Exercise(
    id="8.8",
    title="An assembly line",
    afterwards="With m microbatches and n stages, each device is idle in n - 1 of m + n - 1 "
    "steps. This is the bubble of GPipe, and the reason to make m several times n.",
    requirements=(
        Computes(
            "pipeline",
            "pipeline(W, X) must be tanh(… tanh(X @ W[0]) … @ W[n - 1]), for each microbatch.",
            _pipeline,
            tuple(_pipeline_arguments(*sizes) for sizes in PIPES),
            {
                "one-step-short": Mistake(
                    _too_short,
                    says="The last microbatch is missing. There are n + m - 1 steps, because the "
                    "first microbatch needs n to pass through all stages.",
                ),
                "one-step-late": Mistake(
                    _late,
                    says="Each microbatch is in the position of the previous one. The last stage "
                    "works on microbatch 0 in step n - 1, and so on microbatch t - (n - 1) in step "
                    "t.",
                ),
                "layers-reversed": Mistake(
                    lambda W, X: _pipeline(W[::-1], X),
                    says="The layers are applied in reverse order. Stage 0 has the first layer, "
                    "and sends to stage 1.",
                ),
                "first-microbatch-again": Mistake(
                    lambda W, X: np.stack([_pipeline(W, X[0])] * len(X)),
                    lambda W, X: np.stack([_pipeline(W, X[-1])] * len(X)),
                    says="The result of one microbatch is in all positions. Which microbatch does "
                    "stage 0 take in step t?",
                ),
                "side-by-side": Mistake(
                    lambda W, X: sum(np.tanh(X @ w) for w in W),
                    says="All stages work on the same microbatch of X, and the results are added "
                    "up. Each stage should work on the result of the previous one.",
                ),
                "last-layer-alone": Mistake(
                    lambda W, X: np.tanh(X @ W[-1]),
                    says="Only the last stage's layer is applied. Its input should have passed "
                    "through the other layers.",
                ),
                "mean-for-sum": Mistake(
                    lambda W, X: _pipeline(W, X) / np.float32(len(W)),
                    says="The result is too small by the number of stages. All stages but one hold "
                    "zeros, and a mean divides by all of them.",
                ),
                "stages-take-the-input": Mistake(
                    lambda W, X: np.tanh(_stage_0_inputs(X, len(W) - 1) @ W[-1]),
                    _fed_everywhere,
                    says="The last stage takes microbatches from X. Only stage 0 should, and the "
                    "others take what they received from the previous stage.",
                ),
                "placed-by-step": Mistake(
                    lambda W, X: np.roll(_pipeline(W, X), len(W) - 1, 0),
                    says="The result of step t is put in position t % m. In step t the last stage "
                    "has microbatch t - (n - 1), and that is the position of its result.",
                ),
                "no-tanh": Mistake(
                    lambda W, X: np.linalg.multi_dot([*_flat(X), *W]).reshape(X.shape),
                    says="These are the matmuls alone. Each of them is followed by tanh.",
                ),
                "tanh-first": Mistake(
                    _tanh_first, says="tanh is applied before each matmul. Apply it after."
                ),
                "another-nonlinearity": Mistake(
                    lambda W, X: _pipeline(W, X, lambda a: np.maximum(a, 0)),
                    lambda W, X: _pipeline(W, X, lambda a: 1 / (1 + np.exp(-a))),
                    says="The layers end with another function than tanh.",
                ),
                "first-layer-everywhere": Mistake(
                    lambda W, X: _pipeline(W[[0] * len(W)], X),
                    says="Every stage uses the first layer. Which of the layers should each stage "
                    "have?",
                ),
                "last-stage-missed": Mistake(
                    lambda W, X: _pipeline(W[:-1], _stage_0_inputs(X, 1)),
                    lambda W, X: _pipeline(W[:-1], X),
                    says="The last layer is missing: these are the results of the stage before the "
                    "last. The last stage has number n - 1, and keeps what it computed from what "
                    "it received.",
                ),
                "first-microbatch-alone": Mistake(
                    _first_alone,
                    says="Only microbatch 0 has passed through. Does stage 0 take microbatch t in "
                    "step t, and are there n + m - 1 steps?",
                ),
                "input-added-everywhere": Mistake(
                    _input_added,
                    says="Every stage adds a microbatch of X to what it received. Only stage 0 "
                    "takes from X.",
                ),
                "handed-back": Mistake(
                    lambda W, X: _pipeline(W[[0, -1]], _stage_0_inputs(X, len(W) - 2)),
                    says="The last stage takes what stage 0 computed. Are the pairs of the "
                    "ppermute (to, from)? They should be (from, to).",
                ),
                "first-stage-kept": Mistake(
                    lambda W, X: np.tanh(_stage_0_inputs(X, len(W) - 1) @ W[0]),
                    says="These are the results of stage 0, after one layer. Expected: those of "
                    "the last stage.",
                ),
                "all-stages-added": Mistake(
                    _all_added,
                    _all_added_in_turn,
                    says="The results of all stages are added up. Only the last stage's results "
                    "are complete, so the others should add zeros.",
                ),
                "first-stage-skipped": Mistake(
                    lambda W, X: _pipeline(W[1:], _stage_0_inputs(X, 1)),
                    says="The first layer is missing. Does stage 0 take the input, and does a "
                    "stage compute before it sends?",
                ),
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
        "Draw it, with stages as rows and steps as columns. In step t, stage s works on "
        "microbatch t - s, if there is one. When does the last stage finish the last microbatch?",
        "There are n + m - 1 steps. In each, stage 0 takes microbatch t (or any, when all have "
        "been used), the others take what they received from the previous stage. All stages "
        "compute, and ppermute sends the results to the next stage.",
        "In step t the last stage has microbatch t - (n - 1): keep its result if that is not "
        "negative. After the loop only the last stage has results. Use zeros on the others, and "
        "one psum.",
    ),
    diagnoses={
        "too-many-bytes": "In each step, one microbatch moves to the next stage, and the results "
        "move once at the end. Does more than that move, or are there more than n + m - 1 steps?",
        "explicit all-gather": "Nothing has to be gathered: W stays where it is, and only the next "
        "stage needs what a stage computed.",
        "all-gather": "An array is gathered. Does the body do it, or does it happen before the "
        "body, because in_specs request more than a stage has?",
        "carry-changes": "Is it the shape? In the body, W has the shape (1, features, features): "
        "the stage's matrix is W[0].",
        **dict.fromkeys(
            ("shapes-do-not-fit", "blocks-do-not-fit"),
            "In the body, W should have the shape (1, features, features), so in_specs shard its "
            "dimension 0. The stage's matrix is W[0].",
        ),
        "nothing-but-zeros": "Nothing that the last stage computed is in the result. Does each "
        "stage send to the next one, by pairs (from, to)? In step t the last stage has microbatch "
        "t - (n - 1): are there n + m - 1 steps, is its result put in this place, and does the "
        "condition after the loop pick stage n - 1?",
        "not-replicated": "The result must be the same on all devices, and only the last stage "
        "has it. What gives it to all of them? (Choose by the stage before that, because a choice "
        "by the stage after it differs from device to device again.)",
        "shape": "Do out_specs join what each stage has? Only the last stage has results, and all "
        "devices should get them, so out_specs name no axis.",
        "varying-mismatch": "Does the loop start with a value that is the same on all devices, "
        "and continue with one that varies?",
        "values": "Follow microbatch 0 through your steps: which stage has it when, is its result "
        "kept in position 0, and are only the last stage's results added up?",
    },
)

EXERCISES: Final = (
    DATA_PARALLEL, TENSOR_PARALLEL, BOTH, FSDP, SEQUENCE, CROSS_ENTROPY, ACCUMULATION, PIPELINE,
)  # fmt: skip
