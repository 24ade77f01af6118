"""Notebook 11's last exercise: a model of two layers, laid out and trained on a named machine.

A note for maintainers: the notebook has the same model, for learners to start from. What is known
to be the best was found by a search, which `tests/exercises/test_capstone.py` describes; it reaches
it, too.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.evidence import DesignPlan
from autograder.judge import AnyOf, Exercise, Timed, TrainsFast

Layer = dict[str, Any]

MIB: Final = 1 << 20

RATE: Final = 0.1


def norm(x: Any) -> Any:
    """Each token's vector, with a mean square of one."""
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def attention(x: Any, qkv: Any, out: Any, causal: bool = True) -> Any:
    """What each token takes from those before it."""
    q, k, v = jnp.einsum("bsd,cdhk->cbshk", x, qkv)
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    mixed = jnp.einsum("bhst,bthk->bshk", jax.nn.softmax(scores), v)
    return jnp.einsum("bshk,hkd->bsd", mixed, out)


def mlp(x: Any, up: Any, down: Any) -> Any:
    """What becomes of each token by itself."""
    return jax.nn.gelu(x @ up) @ down


def loss(params: list[Layer], x: Any, y: Any, without: str = "") -> Any:
    """The mean loss over all tokens.

    Args:
        params: the weights of each layer.
        x: the tokens.
        y: what they should become.
        without: what is left out, of "mask", "norm of attention", "norm of mlp",
            "residual of attention", "residual of mlp".
    """

    def normed(x: Any, of: str) -> Any:
        return x if f"norm of {of}" in without else norm(x)

    for layer in params:
        mixed = attention(
            normed(x, "attention"), layer["qkv"], layer["out"], causal="mask" not in without
        )
        x = mixed if "residual of attention" in without else x + mixed
        made = mlp(normed(x, "mlp"), layer["up"], layer["down"])
        x = made if "residual of mlp" in without else x + made
    return ((x - y) ** 2).sum(-1).mean()


PLAN: Final = DesignPlan(
    ("qkv", "out", "up", "down"),
    layers=2,
    batch="batch",
    sizes=tuple(
        ((3, d, h, k), (h, k, d), (d, f), (f, d), (b, s, d))
        for b, s, d, h, k, f in (
            (8, 1_024, 3_072, 24, 128, 12_288), (8, 16, 64, 8, 8, 256), (16, 8, 32, 16, 8, 64),
            (8, 32, 192, 40, 56, 352),
        )
    ),
)  # fmt: skip
"""What is laid out: the real size, at which nothing runs; two at which values are looked at; and
one whose sizes are 2, 3, 5, 7 and 11/8 times those of the second, so that one can tell which of
them the size of any array in a step comes from."""


def gradient(*arrays: Any, without: str = "") -> list[Any]:
    """The gradient of the loss, of the plan's arrays, in their order."""
    *weights, x, y = arrays
    count = len(PLAN.parameters)
    params = [
        dict(zip(PLAN.parameters, weights[i : i + count], strict=True))
        for i in range(0, len(weights), count)
    ]
    down = jax.grad(loss)(params, x, y, without)
    return [layer[name] for layer in down for name in PLAN.parameters]


@cache
def _compiled(without: str) -> Any:
    """The same on one device; it runs a few times, on small arrays."""
    return jax.jit(partial(gradient, without=without))


def trained(
    rate: float = RATE, without: str = "", kept: float = 1
) -> Callable[..., tuple[np.ndarray, ...]]:
    """A training step, of the plan's arrays.

    Args:
        rate: how many times the gradient is taken off.
        without: what the model lacks, as `loss` has it.
        kept: how many times the old parameters it is taken off from.
    """

    def step(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        down = map(np.asarray, _compiled(without)(*arrays))
        return tuple(
            np.float32(kept) * w - np.float32(rate) * d for w, d in zip(arrays, down, strict=False)
        )

    return step


SHARED: Final = (2, 0, 1, 0)
"""The dimension of each parameter that tensor parallelism shares: heads, or the hidden width."""


def parts_not_summed(n: int, share: float) -> Callable[..., list[np.ndarray]]:
    """A step in which n devices share heads and hidden width, and nothing is added up over them.

    Args:
        n: how many devices.
        share: how many times each device's gradient counts.
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


def from_own_batch(*arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """The new parameters, for each part of a batch whose texts are shared among devices."""
    *weights, x, y = arrays
    step = trained()
    return [
        step(*weights, *of_part)
        for parts in (8, 4, 2)
        for of_part in zip(np.split(x, parts), np.split(y, parts), strict=True)
    ]


def _drawn(
    generator: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]
) -> list[np.ndarray]:
    """Small weights, and a batch of ordinary numbers."""
    return [
        ((1.0 if name == PLAN.batch else 0.1) * generator.standard_normal(shapes[name])).astype(
            np.float32
        )
        for name in PLAN.arguments
    ]


MACHINE: Final = "TPU v5e"

CAP: Final = 72 * MIB

SENDS: Final = 1_000_000_000

WORK: Final = 1_410_000_000_000
"""The operations of each device, where eight share all of them."""

FRONTIER: Final = ((69_206_016, 11_020),)
"""Bytes held on each device and microseconds, the best that is known: nothing can hold less."""

GIVEN: Final = 17_000
"""The microseconds from which on nothing is earned: those of a step that does its share of the work
and sends nearly all that it may."""

SHOWN: Final = Timed(
    '"fully sharded" written by hand',
    {"computing": 7_171, "all-gather": 3_964, "reduce-scatter": 3_964},
)
"""The design that the notebook names as a first goal."""

DESIGN: Final = Exercise(
    id="11.7",
    title="Design a training step",
    afterwards="Real models are laid out with the same three ideas, and a few more: pipelines of "
    "layers, experts on devices of their own, long texts cut along their tokens. What decides is "
    "still what is sent, by whom, and how often.",
    requirements=(
        TrainsFast(
            "design",
            "layouts, and a step for them, that hold at most 72 MiB on each device, send at most "
            "1,000 MB, and take as little time as can be",
            PLAN,
            trained(),
            _drawn,
            MACHINE,
            CAP,
            SENDS,
            WORK,
            FRONTIER,
            GIVEN,
            SHOWN,
            {
                "nearly-unchanged": lambda *arrays: arrays[:-2],
                "ascends": trained(-RATE),
                "eight-times": trained(8 * RATE),
                "looks-ahead": trained(without="mask"),
                "gradient-alone": AnyOf(
                    (trained(-1, kept=0), trained(-RATE, kept=0), trained(RATE, kept=0))
                ),
                "norm-missing": AnyOf(
                    trained(without=norms)
                    for norms in (
                        "norm of attention, norm of mlp",
                        "norm of attention",
                        "norm of mlp",
                    )
                ),
                "no-residuals": trained(without="residual of attention, residual of mlp"),
                "one-residual": AnyOf(
                    trained(without=residual)
                    for residual in ("residual of attention", "residual of mlp")
                ),
                "parts-not-summed": AnyOf(
                    parts_not_summed(n, share) for n in (8, 4, 2) for share in (1, 1 / n)
                ),
                "first-layer-unchanged": lambda *arrays: (*arrays[:4], *trained()(*arrays)[4:]),
                "second-layer-unchanged": lambda *arrays: (*trained()(*arrays)[:4], *arrays[4:8]),
            },
            from_own_batch,
        ),
    ),
    hints=(
        "The parameters are 432 MiB, x and y together 96. With all of it cut in eighths, a device "
        "holds 66 MiB. So the budget leaves you one choice for each array: which axes of the mesh "
        "cut which of its dimensions.",
        "What a weight costs if it is gathered before its use is about twice its bytes (its "
        "gradient is reduce-scattered), whatever the number of tokens. What tensor parallelism "
        "costs is about four times the bytes of the tokens that a group of devices shares (forward "
        "and backward, gathered and reduce-scattered), whatever the size of the weight. On a mesh "
        "of two axes you can have some of each: gather a weight along one, and share its tokens "
        "along the other.",
        "The compiler does not find that by itself if everything is stored in eighths. Tell it "
        "what is whole where it is used. A `shard_map` is the best way, with all_gather and "
        "psum_scatter, as 8.4 (but without its jax.checkpoint) and 8.5 have them: what is gathered "
        "there has its gradient reduce-scattered, where the compiler would all-reduce it. 2 × 4, "
        "with weights gathered along the 2, is good. With constraints, keep the tokens cut along "
        "the 2 all the way.",
        "The MLP has twice the weights of attention, and the same tokens. On a mesh of 2 × 2 × 2 "
        "each of the two can be shared among as many devices as suits it.",
    ),
    diagnoses={
        "over-the-cap": "Is an array held in copies along some axis? Data parallelism holds copies "
        "of the parameters, tensor parallelism copies of the batch. Cut them along all axes, and "
        "have them gathered where they are needed.",
        "sends-too-much": "Look for the line of design_report(*design) that sends most. Is "
        "something gathered that could have been used where it was? Or is a gradient all-reduced "
        "of which each device keeps a piece?",
        "partly-filled-in": "Each of the five needs a sharding.",
        "waits-for-data": "Each device does its share of the work and no more, so only "
        "communicating is left to save. Which lines of design_report(*design) are that, and which "
        "array do they gather, or sum?",
        "works-too-much": "Something is computed more than once. Are tokens, or weights, whole on "
        "several devices where they meet? Or is something computed again for the gradient? That "
        "costs time here, and the memory that it saves is not counted.",
        "eight-times": "The gradient is eight times what it should be. The loss is a mean over all "
        "tokens of the batch: is something added up over the devices that should be averaged?",
        "never-summed": "On each device the new parameters are those that follow from its own "
        "texts alone. The gradient is the mean over the tokens of the whole batch: where are the "
        "devices' gradients brought together?",
        "another-rate": "The rate is LEARNING_RATE. Is another one used, or is the gradient "
        "multiplied or divided by something?",
        "reduced-again": "On each device, the parameters change by what several devices' pieces of "
        "the gradient come to together, and these pieces are of different parameters. The gradient "
        "of an all_gather has been reduced over the devices already.",
        "first-layer-unchanged": "The second layer is right, and the first one's parameters come "
        "back as they were.",
        "second-layer-unchanged": "The first layer is right, and the second one's parameters come "
        "back as they were.",
        "ascends": "The parameters move by the right amount in the wrong direction: up the "
        "gradient. New parameters are the old ones minus LEARNING_RATE times the gradient.",
        "unchanged": "New parameters are the old ones minus LEARNING_RATE times the gradient.",
        "nearly-unchanged": "The parameters come back nearly as they were. Is the gradient far too "
        "small? The loss adds up over the features, and is a mean over tokens alone.",
        "does-not-reshape": "The step has to work at several sizes.",
        "coarser-type": "Bytes are counted as those of bfloat16 whatever the type is, so a "
        "coarser type saves nothing here.",
        "packs-numbers": "All numbers of the step are to be what they are on one device.",
        "gradient-alone": "The step returns the gradient, or what it would change the parameters "
        "by. Expected the new parameters: the old ones minus LEARNING_RATE times the gradient.",
        "norm-missing": "These are the values of a model in which a norm is left out, before "
        "attention, before the MLP or before both.",
        "one-residual": "These are the values of a model in which attention or the MLP replaces x; "
        "expected what each gives to be added to x.",
        "no-residuals": "These are the values of a model in which attention and MLP replace x; "
        "expected what they give to be added to x.",
        "parts-not-summed": "Each device goes on with what its own heads and its own part of the "
        "hidden width give. Where do the devices' parts of attention and MLP come together?",
        "looks-ahead": "These are the values of a model in which every token looks at all others, "
        "and not only at those before it.",
        "devices-unused": "All eight devices have to take part.",
        "one-device": "All eight devices have to take part.",
    },
)

CAPSTONE: Final = (DESIGN,)
