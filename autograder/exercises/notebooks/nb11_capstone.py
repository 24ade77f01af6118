"""Notebook 11's last exercise: design a training step of two layers for a named machine.

The notebook has the same model. The best design that is known was found by a search, which
`tests/exercises/test_capstone.py` describes and reaches.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.evidence import DesignPlan
from autograder.judge import Exercise, Mistake, TrainsFast

Layer = dict[str, Any]

MIB: Final = 1 << 20

RATE: Final = 0.1


def norm(x: Any) -> Any:
    """Scale each token's vector to a mean square of one."""
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def attention(x: Any, qkv: Any, out: Any, causal: bool = True, used: Any = True) -> Any:
    """Return a mix of the tokens before each token, or of all tokens if not `causal`.

    `used` says which heads each token uses, in an array on (texts, tokens, heads).
    """
    q, k, v = jnp.einsum("bsd,cdhk->cbshk", x, qkv)
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    mixed = jnp.einsum("bhst,bthk->bshk", jax.nn.softmax(scores), v)
    return jnp.einsum("bshk,hkd->bsd", mixed * jnp.expand_dims(used, -1), out)


def mlp(x: Any, up: Any, down: Any, used: Any = True) -> Any:
    """Transform each token by itself.

    `used` says which hidden units each token uses, in an array on (texts, tokens, units).
    """
    return (jax.nn.gelu(x @ up) * used) @ down


def loss(
    params: list[Layer],
    x: Any,
    y: Any,
    without: str = "",
    parts: int = 1,
    heads: Any = True,
    hidden: Any = True,
) -> Any:
    """Return the mean loss over all tokens.

    Args:
        params: the weights of each layer.
        x: the tokens.
        y: the tokens that the model should return.
        without: the parts of the model to leave out, of "mask", "norm of attention", "norm of mlp",
            "residual of attention", "residual of mlp", "first layer", "second layer".
        parts: the number of parts of a text whose tokens do not look at those of other parts.
        heads: which heads each token uses, as in `attention`; for this, `parts` has to be 1.
        hidden: which hidden units each token uses, as in `mlp`.
    """

    def normed(x: Any, of: str) -> Any:
        return x if f"norm of {of}" in without else norm(x)

    for layer, name in zip(params, ("first layer", "second layer"), strict=True):
        if name in without:
            continue
        tokens = normed(x, "attention")
        tokens = tokens.reshape(-1, x.shape[1] // parts, x.shape[2])
        causal = "mask" not in without
        mixed = attention(tokens, layer["qkv"], layer["out"], causal, heads)
        mixed = mixed.reshape(x.shape)
        x = mixed if "residual of attention" in without else x + mixed
        made = mlp(normed(x, "mlp"), layer["up"], layer["down"], hidden)
        x = made if "residual of mlp" in without else x + made
    return ((x - y) ** 2).sum(-1).mean()


PLAN: Final = DesignPlan(
    ("qkv", "out", "up", "down"),
    layers=2,
    batch="batch",
    sizes=tuple(
        ((3, d, h, k), (h, k, d), (d, f), (f, d), (b, s, d))
        for b, s, d, h, k, f in (
            (8, 1_024, 3_072, 24, 128, 12_288), (8, 16, 64, 16, 24, 256), (8, 24, 40, 56, 16, 88),
            (8, 32, 192, 80, 168, 352),
        )
    ),
)  # fmt: skip
"""The arrays of a design, at four sizes: the real one, at which nothing runs; two for comparing
values; and one whose sizes are 2, 3, 5, 7 and 11/8 times those of the second, so that each size of
an array in a step shows which of them it comes from. JAX writes derivatives differently for an axis
of length 1. So all have the same number of texts, of which each of eight devices may hold one, and
of all other dimensions, an eighth is 2 or more."""


def gradient(*arrays: Any, **options: Any) -> list[Any]:
    """Return the gradient of the loss, with its options, for the plan's arrays in their order."""
    *weights, x, y = arrays
    count = len(PLAN.parameters)
    params = [
        dict(zip(PLAN.parameters, weights[i : i + count], strict=True))
        for i in range(0, len(weights), count)
    ]
    down = jax.grad(partial(loss, **options))(params, x, y)
    return [layer[name] for layer in down for name in PLAN.parameters]


@cache
def _compiled(without: str, parts: int) -> Any:
    """Return the gradient, compiled for one device. It runs a few times, on small arrays."""
    return jax.jit(partial(gradient, without=without, parts=parts))


def trained(
    rate: float = RATE, without: str = "", kept: float = 1, parts: int = 1
) -> Callable[..., tuple[np.ndarray, ...]]:
    """Return a training step, of the plan's arrays.

    Args:
        rate: the factor of the gradient, which is subtracted.
        without: the parts of the model to leave out, as in `loss`.
        kept: the factor of the old parameters.
        parts: the number of parts of a text, as in `loss`.
    """

    def step(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        down = map(np.asarray, _compiled(without, parts)(*arrays))
        return tuple(
            np.float32(kept) * w - np.float32(rate) * d for w, d in zip(arrays, down, strict=False)
        )

    return step


SHARED: Final = (2, 0, 1, 0)
"""The dimension of each parameter that tensor parallelism shards: heads, or the hidden width."""


def parts_not_summed(n: int, share: float) -> Callable[..., list[np.ndarray]]:
    """Return a step with tensor parallelism over n devices that never adds up partial sums.

    Args:
        n: the number of devices.
        share: the factor of each device's gradient.
    """

    def step(*arrays: np.ndarray) -> list[np.ndarray]:
        *weights, x, y = arrays
        cut = [np.split(w, n, axis=SHARED[i % len(SHARED)]) for i, w in enumerate(weights)]
        made = [trained(RATE * share)(*own, x, y) for own in zip(*cut, strict=True)]
        return [
            np.concatenate(parts, axis=SHARED[i % len(SHARED)])
            for i, parts in enumerate(zip(*made, strict=True))
        ]

    return step


@jax.jit
def _gradient_of_used(heads: Any, hidden: Any, *arrays: Any) -> list[Any]:
    """Return the gradient if each token uses only some of the heads and hidden units."""
    return gradient(*arrays, heads=heads, hidden=hidden)


def slices_not_summed(
    owner: Callable[[Any, Any], Any], n: int, of: str = "attention, mlp"
) -> Callable[..., tuple[np.ndarray, ...]]:
    """Return a step with tensor parallelism over n devices that slices its partial sums.

    Each device keeps its own slice of its own partial sums, where it should keep that of the sum.

    Args:
        owner: returns the device that keeps a token, for numbers that are at least 0 and below 1:
            the place of its text in the batch, and its own in the text.
        n: the number of devices.
        of: which of the two sums are sliced.
    """

    def step(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        *weights, x, _ = arrays
        texts, tokens = (np.arange(size) / size for size in x.shape[:2])
        owners = np.broadcast_to(owner(texts[:, None], tokens[None, :]), x.shape[:2])

        def used(part: str, size: int) -> np.ndarray:
            own: np.ndarray = owners.astype(int)[..., None] == np.arange(size) * n // size
            return own | (part not in of)

        heads, hidden = used("attention", weights[1].shape[0]), used("mlp", weights[2].shape[1])
        down = map(np.asarray, _gradient_of_used(heads, hidden, *arrays))
        return tuple(w - np.float32(RATE) * d for w, d in zip(weights, down, strict=True))

    return step


TEXTS: Final = 8
"""The number of texts in the batch, at all sizes."""


def _owners(n: int) -> tuple[Callable[[Any, Any], Any], ...]:
    """Return the ways in which n devices of eight may share tokens, or texts in two orders."""
    ways = (
        lambda text, token: token * n,
        lambda text, token: text * n,
        lambda text, token: text * TEXTS % n,
    )
    return ways if n < TEXTS else ways[:2]


def from_own_batch(*arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Return the new parameters that follow from each device's part of a sharded batch alone."""
    *weights, x, y = arrays
    step = trained()
    return [
        step(*weights, *of_part)
        for parts in (8, 4, 2)
        for of_part in zip(np.split(x, parts), np.split(y, parts), strict=True)
    ]


def _sample_arguments(
    generator: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]
) -> list[np.ndarray]:
    """Sample small weights, and a batch with a standard deviation of one."""
    return [
        ((1.0 if name == PLAN.batch else 0.1) * generator.standard_normal(shapes[name])).astype(
            np.float32
        )
        for name in PLAN.arguments
    ]


MACHINE: Final = "H100 NVLink"
"""Its switch gives a ring along any mesh axis the full bandwidth, as the model assumes."""

CAP: Final = 72 * MIB

SENDS: Final = 960 * MIB

WORK: Final = 1_410_000_000_000
"""Operations of each device, if eight share all of them."""

FRONTIER: Final = ((69_206_016, 2_284),)
"""Bytes held on each device, and microseconds, of the best design known. None can hold less."""

GIVEN: Final = 3_600
"""Microseconds that earn nothing: those of a step that does its share of the work and sends nearly
all that it may."""

DESIGN: Final = Exercise(
    id="11.7",
    title="Design a training step",
    afterwards="Gather the weights where they are small beside the tokens, and the tokens where "
    "the weights are larger; this can differ from one block of a model to the next. Sharded "
    "weights send no more than replicated ones: an all-gather and a reduce-scatter of the "
    "gradient send what an all-reduce does. Large models use these ideas and a few more: "
    "pipelines of layers, experts on devices of their own, long texts that are sharded over their "
    "tokens. What decides is still what is sent, by which devices, and how often.",
    requirements=(
        TrainsFast(
            "design",
            "layouts and a step that hold at most 72 MiB and send at most 960 MiB on each "
            "device, in as little time as possible",
            PLAN,
            trained(),
            _sample_arguments,
            MACHINE,
            CAP,
            SENDS,
            WORK,
            FRONTIER,
            GIVEN,
            {
                "nearly-unchanged": Mistake(
                    lambda *arrays: arrays[:-2],
                    says="The parameters are returned nearly unchanged. Is the gradient far too "
                    "small? The loss is a sum over the features, and a mean over the tokens only.",
                ),
                "ascends": Mistake(
                    trained(-RATE),
                    says="The parameters move by the right amount in the wrong direction: up the "
                    "gradient. New parameters are the old ones minus LEARNING_RATE times the "
                    "gradient.",
                ),
                "eight-times": Mistake(
                    trained(8 * RATE),
                    says="The gradient is eight times too large. The loss is a mean over all "
                    "tokens of the batch. Is something added up over the devices that should be "
                    "averaged?",
                ),
                "looks-ahead": Mistake(
                    trained(without="mask"),
                    says="These are the values of a model in which every token looks at all "
                    "others. Expected: only at the tokens before it.",
                ),
                "gradient-alone": Mistake(
                    trained(-1, kept=0),
                    trained(-RATE, kept=0),
                    trained(RATE, kept=0),
                    says="The step returns the gradient, or the change of the parameters. "
                    "Expected: the new parameters, which are the old ones minus LEARNING_RATE "
                    "times the gradient.",
                ),
                "norm-missing": Mistake(
                    *(
                        trained(without=norms)
                        for norms in (
                            "norm of attention, norm of mlp",
                            "norm of attention",
                            "norm of mlp",
                        )
                    ),
                    says="These are the values of a model without a norm before attention, before "
                    "the MLP, or before both.",
                ),
                "no-residuals": Mistake(
                    trained(without="residual of attention, residual of mlp"),
                    says="These are the values of a model in which attention and the MLP replace "
                    "x. Expected: their results are added to x.",
                ),
                "one-residual": Mistake(
                    *(
                        trained(without=residual)
                        for residual in ("residual of attention", "residual of mlp")
                    ),
                    says="These are the values of a model in which attention or the MLP replaces "
                    "x. Expected: its result is added to x.",
                ),
                "one-layer-alone": Mistake(
                    trained(without="second layer"),
                    trained(without="first layer"),
                    says="These are the values of a model that has only one of the two layers.",
                ),
                "own-tokens-alone": Mistake(
                    *(trained(parts=parts) for parts in (8, 4, 2)),
                    says="These are the values of a model in which each device's tokens look only "
                    "at one another. In attention, a token looks at all tokens before it in its "
                    "text, also at those of other devices.",
                ),
                "parts-not-summed": Mistake(
                    *(parts_not_summed(n, share) for n in (8, 4, 2) for share in (1, 1 / n)),
                    says="Each device continues with the result of its own heads and its own part "
                    "of the hidden width. Where are the partial sums of attention and MLP added "
                    "up?",
                ),
                "slices-not-summed": Mistake(
                    *(
                        slices_not_summed(owner, n, of)
                        for n in (8, 4, 2)
                        for owner in _owners(n)
                        for of in ("attention, mlp", "attention", "mlp")
                    ),
                    says="Each device takes its own slice of its partial sums of attention or the "
                    "MLP, and the rest is lost. It needs this slice of the sum over all devices "
                    "that share the heads or the hidden width.",
                ),
                "first-layer-unchanged": Mistake(
                    lambda *arrays: (*arrays[:4], *trained()(*arrays)[4:]),
                    says="The second layer is right, and the parameters of the first are returned "
                    "unchanged.",
                ),
                "second-layer-unchanged": Mistake(
                    lambda *arrays: (*trained()(*arrays)[:4], *arrays[4:8]),
                    says="The first layer is right, and the parameters of the second are returned "
                    "unchanged.",
                ),
            },
            from_own_batch,
        ),
    ),
    hints=(
        "The parameters have 432 MiB, and x and y together 96. If all of it is sharded over all "
        "eight devices, each device holds 66 MiB. So the budget leaves one choice for each array: "
        "which mesh axes shard which of its dimensions.",
        "Gathering a weight before its use sends about twice its bytes (its gradient is "
        "reduce-scattered), for any number of tokens. Tensor parallelism sends about four times "
        "the bytes of the tokens that a group of devices shares (gathered and reduce-scattered, "
        "forward and backward), for any size of the weights. On a mesh of two axes you can "
        "combine them: gather a weight over one axis, and share its tokens over the other.",
        "The compiler does not find this by itself if every array is sharded over all eight "
        "devices. Tell it which arrays are gathered where they are used. A `shard_map` is the "
        "best way, with all_gather and psum_scatter, as in 8.4 (but without its jax.checkpoint) "
        "and 8.5. There the gradient of an all_gather is a reduce-scatter, where the compiler "
        "would use an all-reduce. 2 × 4, with weights gathered over the axis of 2, is good. With "
        "constraints, keep the tokens sharded over that axis throughout.",
        "The MLP has twice the weights of attention, and the same tokens. On a mesh of 2 × 2 × 2 "
        "you can choose for each of the two how many devices share its tokens.",
    ),
    diagnoses={
        "over-the-cap": "Is an array replicated over some axis? Data parallelism replicates the "
        "parameters, and tensor parallelism the batch. Shard them over all axes, and gather them "
        "where they are needed.",
        "sends-too-much": "Look for the line of design_report(*design) that sends most. Does it "
        "gather something that could be used where it was? Or does it all-reduce a gradient of "
        "which each device keeps only a piece?",
        "partly-filled-in": "Each of the five needs a sharding.",
        "letter-of-two-lengths": "In a shard_map, each device has only its blocks. Is each weight "
        "gathered before it is used, over the axes that shard it? Or is a size written as a "
        "number, although it changes with the model?",
        "waits-for-data": "Which lines of design_report(*design) communicate most, and which array "
        "do they gather or sum?",
        "works-too-much": "Something is computed more than once. Are both the tokens and the "
        "weights of some matmul complete on several devices? Or is something computed again for "
        "the gradient? This costs time here, and the memory that it saves is not counted.",
        "never-summed": "On each device, the new parameters follow from its own texts alone. The "
        "gradient is a mean over the tokens of the whole batch. Where are the gradients of the "
        "devices combined?",
        "another-rate": "The rate is LEARNING_RATE. Is another one used, or is the gradient "
        "multiplied or divided by something?",
        "reduced-again": "Each device changes its parameters by the sum or mean of several "
        "devices' pieces of the gradient, and these pieces belong to different parameters. The "
        "gradient of an all_gather has already been reduced over the devices.",
        "unchanged": "New parameters are the old ones minus LEARNING_RATE times the gradient.",
        "does-not-reshape": "The step must work at several sizes.",
        "coarser-type": "Bytes count as bfloat16 whatever the dtype is, so a smaller dtype saves "
        "nothing here.",
        "packs-numbers": "All numbers of the step must be what they are on one device.",
        "devices-unused": "All eight devices must take part.",
        "one-device": "All eight devices must take part.",
    },
)

CAPSTONE: Final = (DESIGN,)
