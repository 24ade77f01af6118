"""Notebook 14: serving a model, where each step reads everything for a few tokens."""

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.artifacts import Adjustment, Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Donates,
    Exercise,
    Expected,
    KeepsLayouts,
    Mistake,
    MovesFewBytes,
    OnProcesses,
    Returns,
    RunsWithinBudgets,
)
from autograder.processes import CaseArgument, ProcessCase, Spec
from shardlings.layouts import Layout
from shardlings.programs import MACHINES

BYTES: Final = 2
"""The bytes of a bfloat16."""

# 14.1: the memory's share of a step


def _cache_bytes(layers: int, kv_heads: int, head: int, positions: int) -> int:
    return 2 * BYTES * layers * kv_heads * head * positions


def _computing(batch: float, weights: int, flops: float) -> float:
    return 2 * batch * weights / flops


def _reading(batch: float, weights: int, cache: int, memory: float) -> float:
    return (BYTES * weights + batch * cache) / memory


def _step_seconds(batch: int, weights: int, cache: int, flops: float, memory: float) -> float:
    return max(_computing(batch, weights, flops), _reading(batch, weights, cache, memory))


def _compute_bound_from(weights: int, cache: int, flops: float, memory: float) -> float | None:
    """Return where two straight lines cross: the seconds of computing and those of reading."""
    each_request = 2 * weights / flops - cache / memory
    return BYTES * weights / memory / each_request if each_request > 0 else None


def _most_requests(capacity: int, weights: int, cache: int) -> int:
    return max(0, (capacity - BYTES * weights) // cache)


def _sample_chip(rng: np.random.Generator) -> tuple[float, float]:
    """Sample the speed and the bandwidth of a chip, near those of a machine."""
    machine = list(MACHINES.values())[rng.integers(len(MACHINES))]
    near = rng.uniform(0.8, 1.2, 2)
    return float(f"{near[0] * machine.flops:.3g}"), float(f"{near[1] * machine.memory:.3g}")


def _sample_caches(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (
            int(rng.integers(12, 100)),
            int(2 ** rng.integers(0, 6)),
            int(rng.choice([64, 128, 256])),
            int(rng.integers(100, 200_000)),
        )
        for _ in range(6)
    ]


def _sample_steps(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample steps that read for longer, and steps that compute for longer."""
    steps = []
    for number in range(4):
        weights, (flops, memory) = int(10 ** rng.uniform(9, 11)), _sample_chip(rng)
        # the share of a request's cache in the bytes up to which a large batch is compute-bound
        small, large = rng.uniform(0.05, 0.3), rng.uniform(1.5, 20)
        enough = 2 * weights * memory / flops
        many = int(rng.uniform(3, 5) * flops / memory / (1 - small))
        # with large caches, a step reads for longer, however large the batch
        any_batch = int(rng.integers(16, 400)) if number else int(2 * flops / memory)
        steps += [
            (int(rng.integers(2, 9)), weights, int(small * enough), flops, memory),
            (many, weights, int(small * enough), flops, memory),
            (any_batch, weights, int(large * enough), flops, memory),
        ]
    return steps


def _sample_models(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample the same models without a batch; some never become compute-bound."""
    models = [step[1:] for step in _sample_steps(rng)[1:]]
    weights, _, flops, memory = models[0]
    few = int(rng.integers(2, 10))
    # a batch below 1; and parallel lines, for which dividing by the difference raises an error
    return [(weights, 0, flops, memory), *models, (few, 0, 2, 4), (few, few, 4, 2)]


def _sample_capacities(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample memories with room for many requests, for one, and too small for the weights."""
    sampled = []
    for factor in (0.7, 1.0, 1.3, 2.5, 4.0, 1.5, 3.0):
        weights = int(10 ** rng.uniform(9, 10.5))
        cache = int(weights * rng.uniform(0.01, 0.2))
        sampled.append((int(factor * BYTES * weights + rng.integers(cache)), weights, cache))
    # full to the last byte
    sampled.append((BYTES * weights + int(rng.integers(3, 20)) * cache, weights, cache))
    # how much is left over beside whole caches, in tenths of a cache: of the memory, and of weights
    for of_memory, of_weights in ((1, 8), (9, 2)):
        tenth = 2 * int(rng.integers(10**6, 10**8))
        held, room = int(rng.integers(3, 20)), int(rng.integers(2, 20))
        weights = (10 * held + of_weights) * tenth // BYTES
        sampled.append(((10 * (held + room) + of_memory) * tenth, weights, 10 * tenth))
    return sampled


def _in_units_of(unit: int, divide: Callable[[int, int], float], *sizes: int) -> float:
    return divide(_cache_bytes(*sizes), unit)


def _rounded_up(capacity: int, weights: int, cache: int) -> int:
    return max(0, -(-(capacity - BYTES * weights) // cache))


def _rounded_apart(sign: int, least: float, capacity: int, weights: int, cache: int) -> Any:
    """Divide the memory and the weights by the cache, and round both, the latter up or down."""
    return max(least, capacity // cache - sign * (sign * BYTES * weights // cache))


def _crossing(
    weights: int, cache: int, flops: float, memory: float, operations: int = 2
) -> float | None:
    """Return where the lines cross, even if it is before 0; None if they are parallel."""
    each_request = operations * weights / flops - cache / memory
    return BYTES * weights / each_request / memory if each_request else None


def _crossing_if_before_zero(weights: int, cache: int, flops: float, memory: float) -> float | None:
    crossing = _crossing(weights, cache, flops, memory)
    return crossing if crossing is not None and crossing < 0 else None


def _crossing_or_ratio(weights: int, cache: int, flops: float, memory: float) -> float | None:
    crossing = _crossing(weights, cache, flops, memory)
    return crossing if crossing is None or crossing > 0 else flops / memory


def _crossing_of_single_operations(
    weights: int, cache: int, flops: float, memory: float
) -> float | None:
    crossing = _crossing(weights, cache, flops, memory, operations=1)
    return crossing if crossing is not None and crossing > 0 else None


def _batch_with_one_cache(weights: int, cache: int, flops: float, memory: float) -> float:
    return (BYTES * weights + cache) * flops / (2 * weights * memory)


def _rounded(function: Callable[[float], int]) -> Callable[..., int | None]:
    """Return a `compute_bound_from` that rounds its result."""

    def compute_bound_from(*model: Any) -> int | None:
        batch = _compute_bound_from(*model)
        return None if batch is None else function(batch)

    return compute_bound_from


ROOFLINE: Final = Exercise(
    id="14.1",
    title="What a step reads",
    afterwards="With a long context, no batch makes decoding compute-bound. This is why models "
    "have fewer KV heads than query heads, why caches are kept in 8 bits, and why some servers "
    "run prefill and decode on different machines.",
    requirements=(
        Returns(
            "cache_bytes",
            "cache_bytes(layers, kv_heads, head, positions) must return the bytes of one request's "
            "cache.",
            _sample_caches,
            _cache_bytes,
            {
                "keys-alone": Mistake(
                    lambda *sizes: _cache_bytes(*sizes) // 2,
                    says="This is half of it. There are as many values as keys, and each number "
                    "has two bytes.",
                ),
                "four-bytes": Mistake(
                    lambda *sizes: 2 * _cache_bytes(*sizes),
                    says="The numbers are bfloat16, with two bytes each.",
                ),
                "numbers-alone": Mistake(
                    lambda *sizes: _cache_bytes(*sizes) // 4,
                    says="This is the number of elements of the keys. Count the values, and bytes.",
                ),
                "one-layer": Mistake(
                    lambda layers, *sizes: _cache_bytes(1, *sizes), says="Each layer has a cache."
                ),
                "one-head": Mistake(
                    lambda layers, heads, *sizes: _cache_bytes(layers, 1, *sizes),
                    says="Each KV head has keys and values of its own.",
                ),
                "one-number": Mistake(
                    lambda layers, heads, size, positions: _cache_bytes(
                        layers, heads, 1, positions
                    ),
                    says="A key has `head` numbers.",
                ),
                "one-position": Mistake(
                    lambda layers, heads, size, positions: _cache_bytes(layers, heads, size, 1),
                    says="Each position has a key and a value of its own.",
                ),
                "in-bits": Mistake(
                    lambda *sizes: 8 * _cache_bytes(*sizes),
                    says="These are bits. A bfloat16 has two bytes.",
                ),
                "larger-unit": Mistake(
                    *(
                        partial(_in_units_of, unit, divide)
                        for unit in (2**10, 2**20, 2**30, 10**3, 10**6, 10**9)
                        for divide in (operator.truediv, operator.floordiv)
                    ),
                    says="This is not in bytes, but in a larger unit.",
                ),
                "values-of-one-position": Mistake(
                    lambda *sizes: BYTES * math.prod(sizes[:3]) * (sizes[3] + 1),
                    says="Are keys counted for all positions, and values for one only? Each "
                    "position has both.",
                ),
                "one-position-more": Mistake(
                    lambda layers, heads, size, positions: _cache_bytes(
                        layers, heads, size, positions + 1
                    ),
                    says="This counts one position more than `positions`.",
                ),
            },
        ),
        Returns(
            "step_seconds",
            "step_seconds(batch, weights, cache, flops, memory) must return the seconds of a step.",
            _sample_steps,
            _step_seconds,
            {
                "added": Mistake(
                    lambda b, w, c, f, m: _computing(b, w, f) + _reading(b, w, c, m),
                    says="Here both times are added. A chip reads and computes at the same time.",
                ),
                "weights-for-each": lambda b, w, c, f, m: max(
                    _computing(b, w, f), b * _reading(1, w, c, m)
                ),
                "one-cache": lambda b, w, c, f, m: max(_computing(b, w, f), _reading(1, w, c, m)),
                "no-cache": Mistake(
                    lambda b, w, c, f, m: max(_computing(b, w, f), _reading(b, w, 0, m)),
                    says="A step reads the caches, too.",
                ),
                "cache-doubled": lambda b, w, c, f, m: _step_seconds(b, w, BYTES * c, f, m),
                "for-each-request": Mistake(
                    lambda b, w, c, f, m: _step_seconds(b, w, c, f, m) / b,
                    says="This is divided by the requests. A step serves all of them at once.",
                ),
                "no-twos": Mistake(
                    lambda b, w, c, f, m: max(_computing(b, w, f) / 2, (w + b * c) / m),
                    says="`weights` is a number: each weight has two bytes, and takes two "
                    "operations for each request.",
                ),
                "one-byte": lambda b, w, c, f, m: max(_computing(b, w, f), (w + b * c) / m),
                "one-operation": lambda b, w, c, f, m: max(
                    _computing(b, w, f) / 2, _reading(b, w, c, m)
                ),
                "weights-of-four-bytes": Mistake(
                    lambda b, w, c, f, m: max(_computing(b, w, f), _reading(b, 2 * w, c, m)),
                    says="Here a weight has four bytes. In bfloat16 it has two.",
                ),
                "operations-by-bandwidth": Mistake(
                    lambda b, w, c, f, m: max(_reading(b, w, c, m), 2 * b * w / m),
                    says="Operations are divided by `flops`, and bytes by `memory`.",
                ),
                "read-at-once": Mistake(
                    lambda b, w, c, f, m: max(_computing(b, w, f), BYTES * w / m, b * c / m),
                    says="Weights and caches are read from the same memory, one after the other: "
                    "add these two times.",
                ),
                "operations-of-bytes": Mistake(
                    lambda b, w, c, f, m: max(b * (2 * w + c) / f, _reading(b, w, c, m)),
                    says="The cache counts as operations here, too. Expected: those with weights, "
                    "two for each weight and token.",
                ),
                "caches-computed": Mistake(
                    lambda b, w, c, f, m: max(_computing(b, w, f) + b * c / m, BYTES * w / m),
                    says="The time of reading the caches is added to that of computing. The "
                    "caches are read, as the weights are: add these two times.",
                ),
                "caches-afterwards": Mistake(
                    lambda b, w, c, f, m: max(_computing(b, w, f), BYTES * w / m) + b * c / m,
                    says="The time of reading the caches is added to the longer of the two others "
                    "here. A step reads weights and caches, and computes meanwhile.",
                ),
                "reading-alone": Mistake(
                    lambda b, w, c, f, m: _reading(b, w, c, m),
                    says="This is always the time of reading. With a large batch and small caches, "
                    "a step computes for longer: it has one token for each request.",
                ),
                "computing-alone": Mistake(
                    lambda b, w, c, f, m: _computing(b, w, f),
                    says="Most of these steps read for longer than they compute.",
                ),
                "by-the-batch-alone": Mistake(
                    lambda b, w, c, f, m: (
                        _computing(b, w, f) if b > f / m else _reading(b, w, c, m)
                    ),
                    says="Whether a step computes or reads for longer does not depend on the batch "
                    "alone: it reads caches, too.",
                ),
                "shorter": Mistake(
                    lambda b, w, c, f, m: min(_computing(b, w, f), _reading(b, w, c, m)),
                    says="A step ends when the longer of the two is done.",
                ),
            },
        ),
        Returns(
            "compute_bound_from",
            "compute_bound_from(weights, cache, flops, memory) must return the batch from which on "
            "a step computes for longer than it reads, or None.",
            _sample_models,
            _compute_bound_from,
            {
                "without-caches": Mistake(
                    lambda w, c, f, m: f / m,
                    lambda w, c, f, m: f / m if _compute_bound_from(w, c, f, m) else None,
                    says="This is right without caches. With one, each request also adds to what "
                    "is read.",
                ),
                "none-with-caches": Mistake(
                    lambda w, c, f, m: None if c else f / m,
                    says="With a small cache, a request still takes longer to compute than to "
                    "read, and a large enough batch computes for longer. When is it None?",
                ),
                "before-zero": Mistake(
                    _crossing,
                    says="A negative batch means that the lines cross before 0: such a step reads "
                    "for longer, however large the batch.",
                ),
                "cache-doubled": lambda w, c, f, m: _compute_bound_from(w, BYTES * c, f, m),
                "never-ignored": Mistake(
                    _crossing_or_ratio,
                    says="If a request takes longer to read than to compute, a larger batch does "
                    "not help.",
                ),
                "rounded": Mistake(
                    _rounded(round),
                    _rounded(math.ceil),
                    _rounded(math.floor),
                    says="The result is rounded. Return the number itself.",
                ),
                "speeds-swapped": Mistake(
                    lambda w, c, f, m: _compute_bound_from(w, c, m, f),
                    says="Here `flops` and `memory` are swapped: computing takes operations "
                    "divided by `flops`, and reading takes bytes divided by `memory`.",
                ),
                "one-operation": _crossing_of_single_operations,
                # infinity arrives as a string
                "infinity-for-never": Mistake(
                    lambda w, c, f, m: _compute_bound_from(w, c, f, m) or "inf",
                    says="If no batch is compute-bound, the result must be None.",
                ),
                "zero-for-never": Mistake(
                    lambda w, c, f, m: _compute_bound_from(w, c, f, m) or 0,
                    says="0 means that every batch is compute-bound. Expected here: None.",
                ),
                "upside-down": Mistake(
                    lambda w, c, f, m: (
                        each / (BYTES * w / m) if (each := 2 * w / f - c / m) > 0 else None
                    ),
                    says="This is the reciprocal of the batch.",
                ),
                "never-exchanged": Mistake(
                    _crossing_if_before_zero,
                    says="Here is a number where the lines cross before 0, and None where they "
                    "cross after it. Is a comparison the wrong way round?",
                ),
                "cache-added": Mistake(
                    lambda w, c, f, m: BYTES * w / m / (2 * w / f + c / m),
                    says="A request's cache takes time to read. So it makes the difference between "
                    "computing and reading smaller: subtract it.",
                ),
                "one-cache": Mistake(
                    _batch_with_one_cache,
                    lambda *model: (
                        _batch_with_one_cache(*model) if _compute_bound_from(*model) else None
                    ),
                ),
                "one-byte": lambda w, c, f, m: (
                    crossing / 2 if (crossing := _compute_bound_from(w, c, f, m)) else None
                ),
            },
        ),
        Returns(
            "most_requests",
            "most_requests(capacity, weights, cache) must return how many requests fit into the "
            "memory.",
            _sample_capacities,
            _most_requests,
            {
                "weights-forgotten": Mistake(
                    lambda capacity, w, cache: capacity // cache,
                    says="The weights are in the same memory.",
                ),
                "rounded-up": Mistake(_rounded_up, says="The last request does not fit."),
                "rounded-apart": Mistake(
                    *(
                        partial(_rounded_apart, sign, least)
                        for sign in (1, -1)
                        for least in (0, -math.inf)
                    ),
                    says="Two quotients are rounded here, each by itself. Subtract bytes from "
                    "bytes, and divide what is left.",
                ),
                "rounded-to-nearest": Mistake(
                    lambda capacity, w, cache: round((capacity - BYTES * w) / cache),
                    lambda capacity, w, cache: max(0, round((capacity - BYTES * w) / cache)),
                    says="This is rounded to the nearest integer. A request that fits in part does "
                    "not fit.",
                ),
                "exact-fit": Mistake(
                    lambda capacity, w, cache: max(0, (capacity - BYTES * w - 1) // cache),
                    says="If the caches fill the memory to the last byte, they fit.",
                ),
                "cache-doubled": lambda capacity, w, cache: max(
                    0, (capacity - BYTES * w) // (BYTES * cache)
                ),
                "bytes-from-requests": Mistake(
                    lambda capacity, w, cache: max(0, capacity // cache - BYTES * w),
                    lambda capacity, w, cache: capacity // cache - BYTES * w,
                    says="Bytes are subtracted from a number of requests. Subtract the weights' "
                    "bytes from the capacity before you divide.",
                ),
                "weights-of-four-bytes": Mistake(
                    lambda capacity, w, cache: (capacity - 2 * BYTES * w) // cache,
                    lambda capacity, w, cache: max(0, (capacity - 2 * BYTES * w) // cache),
                    says="Here a weight has four bytes. In bfloat16 it has two.",
                ),
                "below-zero": Mistake(
                    lambda capacity, w, cache: (capacity - BYTES * w) // cache,
                    lambda capacity, w, cache: int((capacity - BYTES * w) / cache),
                    says="If the weights alone do not fit, neither does a request: 0.",
                ),
                "one-byte": lambda capacity, w, cache: max(0, (capacity - w) // cache),
                "weights-for-each": lambda capacity, w, cache: capacity // (BYTES * w + cache),
                "not-whole": Mistake(
                    lambda capacity, w, cache: max(0.0, (capacity - BYTES * w) / cache),
                    says="Half a request does not help anyone.",
                ),
            },
        ),
    ),
    hints=(
        "Write two lines of a table: what a step reads, and what it computes. Which of the entries "
        "grow with the batch?",
        "The weights are read once for the whole batch. Each request has a cache of its own. Each "
        "token is multiplied by each weight, and the product is added to a sum.",
        "For compute_bound_from, set both times equal: both are straight lines in the batch. The "
        "one for computing starts at 0. If the one for reading is as steep or steeper, they never "
        "cross.",
    ),
    diagnoses={
        "weights-for-each": "Here the weights count once for each request. The whole batch shares "
        "them.",
        "one-cache": "Each request has a cache of its own.",
        "cache-doubled": "Does `cache` count twice here? It is in bytes already. Or do the 2 "
        "operations and the 2 bytes of a weight cancel out, although `cache` has neither?",
        "one-byte": "`weights` is a number of weights, and each has two bytes.",
        "one-operation": "A weight takes two operations for each token: a multiplication and an "
        "addition.",
        "compute_bound_from: raised": "(If it is a ZeroDivisionError: for some models, a request "
        "takes as long to read as to compute. Then reading always takes longer.)",
    },
)

# 14.2: the layout of a cache


def attend(q: Any, keys: Any, values: Any) -> Any:
    """Attend to a cache, with fewer KV heads than query heads."""
    head = q.shape[-1]
    groups = q.reshape(*q.shape[:2], keys.shape[2], -1, head)
    scores = jnp.einsum("btkgd,bskd->bkgts", groups, keys) / np.sqrt(head)
    mixed = jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores), values)
    return mixed.reshape(q.shape)


def _attention(batch: int, positions: int, kv_heads: int = 2) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of queries, keys and values."""
    cache = (batch, positions, kv_heads, 32)
    return (batch, 1, 8, 32), cache, cache


def _cap_of(shapes: tuple[tuple[int, ...], ...]) -> int:
    """Return the bytes of an eighth of the cache and of all queries, in float32."""
    q, *cache = (4 * int(np.prod(shape)) for shape in shapes)
    return q + sum(cache) // 8


MANY: Final = (_attention(16, 128), _attention(8, 256))
FEW: Final = (_attention(4, 256), _attention(4, 128, 4))
ONE: Final = _attention(1, 2048)

PARTS_OF_ATTENTION: Final = (
    "With sharded positions there are three all-reduces: for the softmax's maximum, for its sum, "
    "and for the outputs. If the dimension of a head's numbers is sharded, there is one, in which "
    "all scores are added up. Requests and heads share no sums."
)

ON_EXPLICIT_AXES: Final = (
    "On Explicit axes, JAX asks for the layout of each sum over a sharded dimension, and these "
    "checks compile the function as it is. `make_mesh` of this notebook makes Auto axes; "
    "`jax.make_mesh` makes Explicit ones since JAX 0.9, unless `axis_types` says otherwise."
)

CACHE_LAYOUTS: Final = Exercise(
    id="14.2",
    title="Where the cache lives",
    afterwards="Servers change the layout with the load: a mesh axis that shards requests in a "
    "busy hour can shard positions of one long document at night.",
    requirements=(
        *(
            RunsWithinBudgets(
                answer,
                f"shardings (of q, keys, values) for {asks}, with which nothing is sent",
                attend,
                shapes,
                ((), ()),
                caps=tuple(map(_cap_of, shapes)),
                on_auto_axes=True,
            )
            for answer, asks, shapes in (
                ("many", "16 or 8 requests", MANY),
                ("few", "4 requests", FEW),
            )
        ),
        MovesFewBytes(
            "one",
            "shardings (of q, keys, values) for one request, with few bytes sent",
            attend,
            ONE,
            _cap_of(ONE),
            ((_cap_of(ONE), 544),),
            slack=0,
            on_auto_axes=True,
            mistakes={
                "cache-in-two-layouts": Mistake(
                    lambda q, keys, values: keys != values,
                    says="The keys and the values have different layouts. A device computes the "
                    "weights of the positions and heads whose keys it has. Which values are these "
                    "for?",
                ),
                "queries-apart": Mistake(
                    lambda q, keys, values: q.counts[2] > keys.counts[2],
                    says="q is split into more blocks of heads than the keys are. Which query "
                    "heads does a device need for the keys that it has?",
                ),
            },
        ),
    ),
    weights={"few": 2, "one": 2},
    hints=(
        "Requests have nothing to do with each other, and neither have heads: attention is "
        "computed for each separately. What about positions?",
        "With four requests and two KV heads there are eight pairs of a request and a KV head. A "
        "mesh may have two axes.",
        "For one request, shard positions. A softmax over sharded positions needs a maximum, a sum "
        "and a sum of outputs from all devices that share a head. How many heads does a device "
        "have in a mesh of 2 by 4?",
    ),
    diagnoses={
        "over-the-cap": "Are the keys and the values sharded over all eight devices?",
        "does-not-fit": "A dimension can have no more shards than elements. How many requests and "
        "how many KV heads are there? And q has one token.",
        "all-reduce": PARTS_OF_ATTENTION,
        **dict.fromkeys(
            ("all-gather", "all-to-all", "collective-permute"),
            "Do keys and values have the same layout, on devices in the same order, and does each "
            "device have the query heads that use its part of the cache? Query heads in a row "
            "share a KV head.",
        ),
        "not-auto": ON_EXPLICIT_AXES,
        "could-move-less": "With a sharded head dimension, devices add up a score for each "
        "position and query head. With sharded positions, they add up an output for each query "
        "head that they have. How few of these can a device have, on a mesh of two axes?",
    },
)

# 14.3: entering new keys


def _enter(
    cache: Any,
    new: Any,
    positions: Any,
    place: Callable[[int, int], int | None] = lambda at, length: at if at >= 0 else None,
    put: Callable[[Any, Any], Any] = lambda old, entry: entry,
) -> Any:
    """Put a new entry into each row of a cache.

    Args:
        cache: the cache.
        new: the entries.
        positions: the positions of the entries.
        place: where an entry is put, for its position and the length of the cache; None for
            nowhere.
        put: what is put there, from what was there and the entry.
    """
    entered = np.array(cache)
    for row, position in enumerate(positions.tolist()):
        at = place(position, cache.shape[1])
        if at is not None:
            entered[row, at] = put(entered[row, at], new[row])
    return entered


def _rows_of_others(cache: Any, new: Any, positions: Any) -> Any:
    """Write every entry at all positions; a negative one counts from the end."""
    entered = np.array(cache)
    entered[:, positions] = new[:, None]
    return entered


def _entered_alone(cache: Any, new: Any, positions: Any) -> Any:
    return _enter(np.zeros_like(cache), new, positions)


def _free_rows_cleared(cache: Any, new: Any, positions: Any) -> Any:
    return _enter(cache * (positions >= 0)[:, None, None, None], new, positions)


def _old_and_new_swapped(cache: Any, new: Any, positions: Any) -> Any:
    """Write the entry everywhere except at its position, as a mask with swapped branches does."""
    entered = np.broadcast_to(new[:, None], cache.shape).copy()
    for row, at in enumerate(positions.tolist()):
        if at >= 0:
            entered[row, at] = cache[row, at]
    return entered


def _all_up_to(cache: Any, new: Any, positions: Any) -> Any:
    """Write the entry at its position and at all earlier ones."""
    entered = np.array(cache)
    for row, at in enumerate(positions.tolist()):
        entered[row, : max(at + 1, 0)] = new[row]
    return entered


def _all_after(cache: Any, new: Any, positions: Any, free: bool = False) -> Any:
    """Write the entry at its position and at all later ones, and perhaps in free rows, too."""
    entered = np.array(cache)
    for row, at in enumerate(positions.tolist()):
        if at >= 0 or free:
            entered[row, max(at, 0) :] = new[row]
    return entered


def _free_rows_filled(cache: Any, new: Any, positions: Any) -> Any:
    filled = np.where((positions < 0)[:, None, None, None], new[:, None], cache)
    return _enter(filled, new, positions)


def _shifted(cache: Any, new: Any, positions: Any, free: bool) -> Any:
    """Move all entries by one position, and put the new one last, perhaps in free rows, too."""
    moved = np.concatenate([cache[:, 1:], new[:, None]], axis=1)
    return moved if free else np.where((positions >= 0)[:, None, None, None], moved, cache)


def _rows_of_each_device(cache: Any) -> int:
    return next(shape[0] // devices for devices, shape in CACHES if shape == cache.shape)


def _enter_some(chosen: Callable[[int, int], bool], cache: Any, new: Any, positions: Any) -> Any:
    """Enter only the rows that are chosen, by their number and the rows of each device."""
    rows = _rows_of_each_device(cache)
    entered = [chosen(row, rows) for row in range(len(cache))]
    return _enter(cache, new, np.where(entered, positions, -1))


def _positions_of_first_rows(cache: Any, new: Any, positions: Any) -> Any:
    """Enter each device's rows at the position of its first one."""
    rows = _rows_of_each_device(cache)
    first = np.repeat(positions[::rows], rows)
    return _enter(cache, new, first, place=lambda at, length: at % length)


def _positions_of_device_0(cache: Any, new: Any, positions: Any, wraps: bool = False) -> Any:
    """Take the positions of the first device's rows for those of each device."""
    rows = _rows_of_each_device(cache)
    taken = np.tile(positions[:rows], len(positions) // rows)
    return _enter(cache, new, taken % cache.shape[1] if wraps else taken)


def _first_head_alone(cache: Any, new: Any, positions: Any) -> Any:
    """Enter the entry of the first KV head, and leave the other heads as they are."""
    entered = np.array(cache)
    entered[:, :, :1] = _enter(cache[:, :, :1], new[:, :1], positions)
    return entered


def _entries_of_first_rows(cache: Any, new: Any, positions: Any) -> Any:
    """Enter the first entry of each device into all of its rows."""
    rows = _rows_of_each_device(cache)
    return _enter(cache, np.repeat(new[::rows], rows, axis=0), positions)


def _write_elsewhere(
    place: Callable[[int, int], tuple[Any, Any]],
    whole: bool,
    free: Callable[[int, int], int],
    cache: Any,
    new: Any,
    positions: Any,
) -> Any:
    """Write the entries one after the other, each where an index points to; not outside.

    Args:
        place: the indices of rows and positions, for a row's number and an entry's position.
        whole: whether rows count in the whole cache, and not in each device's block.
        free: the index of a free slot, for its negative position and the length of the cache.
        cache: the cache.
        new: the entries.
        positions: the positions of the entries.
    """
    entered, length = np.array(cache), cache.shape[1]
    rows = len(cache) if whole else _rows_of_each_device(cache)
    for first in range(0, len(cache), rows):
        block = entered[first : first + rows]
        for row, at in enumerate(positions[first : first + rows].tolist()):
            index = place(row, at if at >= 0 else free(at, length))
            inside = zip(index, block.shape, strict=False)
            if all(isinstance(i, slice) or -n <= i < n for i, n in inside):
                block[index] = new[first + row]
    return entered


def _written_to(place: Callable[[int, int], tuple[Any, Any]]) -> list[Callable[..., Any]]:
    """Return ways to write entries elsewhere: those of free slots at the end, or from there."""
    return [
        partial(_write_elsewhere, place, whole, free)
        for whole in (False, True)
        for free in (lambda at, length: length, lambda at, length: at)
    ]


def _update_arguments(devices: int, shape: tuple[int, ...]) -> tuple[Argument, ...]:
    batch, length, *entry = shape
    mesh, quarter = (("batch", devices),), length // 4
    cache = Argument(shape, mesh, ("batch",), mode="auto")
    positions = Argument(
        (batch,),
        mesh,
        ("batch",),
        "int32",
        "auto",
        scale=3 * quarter,
        shift=-quarter,
        adjustments=(Adjustment(((batch - 1, batch),), add=length - 1, keep=False),),
    )
    return cache, Argument((batch, *entry), mesh, ("batch",), mode="auto"), positions


CACHES: Final = (
    (8, (128, 8, 2, 8)),  # 6 positions for 128 rows, so that 0 and -2 are among them
    (4, (16, 32, 4, 4)),
)
"""Devices, and the shape of a cache."""

UPDATE: Final = Exercise(
    id="14.3",
    title="A new entry in each row",
    afterwards="A server calls this function in each layer, for each token. Without donation it "
    "would copy the whole cache each time.",
    requirements=(
        Computes(
            "update",
            "update(cache, new, positions) must return the cache with a new entry in each row that "
            "has a request.",
            _enter,
            tuple(_update_arguments(devices, shape) for devices, shape in CACHES),
            {
                "wraps-around": Mistake(
                    partial(_enter, place=lambda at, length: at % length),
                    says="A negative index counts from the end. Rows with a negative position have "
                    "no request, and their cache stays as it is.",
                ),
                "zero-is-free": Mistake(
                    partial(_enter, place=lambda at, length: at if at > 0 else None),
                    says="A request at position 0 has just begun, and gets its entry. Only "
                    "negative positions mark free slots.",
                ),
                "only-minus-one": Mistake(
                    partial(_enter, place=lambda at, length: None if at == -1 else at % length),
                    partial(_enter, place=lambda at, length: None if at == -1 else max(at, 0)),
                    says="Every negative position marks a free slot, and not only -1.",
                ),
                "clamped": Mistake(
                    partial(_enter, place=lambda at, length: max(at, 0)),
                    says="Rows with a negative position get their entry at 0. They have no "
                    "request, and their cache stays as it is.",
                ),
                "without-sign": Mistake(
                    partial(_enter, place=lambda at, length: abs(at)),
                    says="Rows with a negative position have no request, and their cache stays as "
                    "it is.",
                ),
                "added": Mistake(
                    partial(_enter, put=lambda old, entry: old + entry),
                    says="The entries are added to what was there. A row's position may have been "
                    "used by an earlier request, so replace it.",
                ),
                "one-further": Mistake(
                    partial(_enter, place=lambda at, n: at + 1 if 0 <= at < n - 1 else None),
                    partial(_enter, place=lambda at, n: min(at + 1, n - 1) if at >= 0 else None),
                    partial(_enter, place=lambda at, n: at + 1 if -1 <= at < n - 1 else None),
                    says="The entry is at the position after its own.",
                ),
                "last-position": Mistake(
                    partial(_enter, place=lambda at, n: at if 0 <= at < n - 1 else None),
                    partial(_enter, place=lambda at, n: min(at, n - 2) if at >= 0 else None),
                    says="A request at the cache's last position gets no entry there. Which "
                    "positions does your program leave out?",
                ),
                "cache-lost": Mistake(
                    _entered_alone,
                    lambda cache, new, positions: _enter(
                        np.zeros_like(cache),
                        new,
                        positions,
                        place=lambda at, length: at % length,
                    ),
                    says="The entries are there, and the rest of the cache is zeros.",
                ),
                "rows-of-others": Mistake(
                    _rows_of_others,
                    lambda cache, new, positions: _rows_of_others(
                        cache, new, positions[positions >= 0]
                    ),
                    says="Each row gets its entry at the positions of the other rows, too. Which "
                    "rows does an index or a mask of all positions select?",
                ),
                "entries-of-others": Mistake(
                    *_written_to(lambda row, at: (slice(None), at)),
                    says="Each row gets the entries of other rows, too, at their positions: "
                    "`cache[:, positions]` selects these positions in every row. With which index "
                    "of rows does each position belong to one row?",
                ),
                "indices-exchanged": Mistake(
                    *_written_to(lambda row, at: (at, row)),
                    says="The two indices are exchanged: a position counts rows here, and the "
                    "number of a row is taken for a position.",
                ),
                "one-row-for-all": Mistake(
                    *_written_to(lambda row, at: (0, at)),
                    says="All entries of a device, or of the whole cache, are in its first row. "
                    "Each belongs into its own.",
                ),
                "free-rows-at-the-end": Mistake(
                    partial(_enter, place=lambda at, length: at if at >= 0 else length - 1),
                    says="Rows with a negative position get their entry at the last position. They "
                    "have no request, and their cache stays as it is.",
                ),
                "rows-of-device-0": Mistake(
                    partial(_enter_some, lambda row, rows: row < rows),
                    says="Only the rows of device 0 get their entries. In the body of a shard_map, "
                    "each device counts its own rows from 0.",
                ),
                "one-position-for-block": Mistake(
                    _positions_of_first_rows,
                    lambda cache, new, positions: np.where(
                        (positions >= 0)[:, None, None, None],
                        _positions_of_first_rows(cache, new, positions),
                        cache,
                    ),
                    says="All rows of a device get their entries at the position of its first row. "
                    "Each has one of its own.",
                ),
                "first-row-of-block": Mistake(
                    partial(_enter_some, lambda row, rows: row % rows == 0),
                    says="Each device enters its first row only, and it has several.",
                ),
                "entry-of-blocks-first-row": Mistake(
                    _entries_of_first_rows,
                    says="All rows of a device get the entry of its first row. Each has one of its "
                    "own.",
                ),
                "entry-of-first-head": Mistake(
                    lambda cache, new, positions: _enter(
                        cache, np.broadcast_to(new[:, :1], new.shape), positions
                    ),
                    says="All heads get the entry of head 0. Each has one of its own.",
                ),
                "entry-of-first-row": Mistake(
                    lambda cache, new, positions: _enter(
                        cache, np.broadcast_to(new[:1], new.shape), positions
                    ),
                    says="All rows get the entry of row 0. Each has one of its own.",
                ),
                "shifted": Mistake(
                    partial(_shifted, free=True),
                    partial(_shifted, free=False),
                    says="All earlier entries move by one position, and the new one is last. They "
                    "stay where they are, and the new one is at its position.",
                ),
                "free-rows-cleared": Mistake(
                    _free_rows_cleared,
                    says="The rows of free slots are zeros. They stay as they are.",
                ),
                "free-rows-filled": Mistake(
                    _free_rows_filled,
                    says="The rows of free slots have the entry everywhere. They stay as they are.",
                ),
                "all-after": Mistake(
                    _all_after,
                    partial(_all_after, free=True),
                    says="The entry is at all later positions, too.",
                ),
                "swapped": Mistake(
                    _old_and_new_swapped,
                    says="Each row has its entry everywhere except at its position. jnp.where "
                    "takes its second argument where the mask is true, and its third argument "
                    "elsewhere.",
                ),
                "all-up-to": Mistake(
                    _all_up_to, says="The entry is at all earlier positions, too."
                ),
                "zeros-entered": Mistake(
                    lambda cache, new, positions: _enter(cache, np.zeros_like(new), positions),
                    says="Each row with a request has zeros at its position, in place of its "
                    "entry.",
                ),
                "first-head-alone": Mistake(
                    _first_head_alone,
                    says="In each row with a request, only KV head 0 gets its entry. Each has one "
                    "of its own.",
                ),
                "positions-of-device-0": Mistake(
                    _positions_of_device_0,
                    partial(_positions_of_device_0, wraps=True),
                    says="The rows of every device take the positions of device 0's rows. Is "
                    "`positions` sharded in in_specs, as the cache is?",
                ),
                "nothing-entered": Mistake(
                    lambda cache, new, positions: cache,
                    says="The cache is returned as it was, in this case. Is the result of "
                    "`cache.at[…].set(…)` used, which is a new array? And does a free slot keep "
                    "its own row alone as it is?",
                ),
            },
            under_mesh=True,
        ),
        CommunicatesAtMost("update", ((), ())),
        KeepsLayouts("update", "a cache with the layout of the old one"),
        Donates("update", 1, "a jitted function that donates the old cache", is_slight=True),
    ),
    about=(CommunicatesAtMost, Donates),
    together=True,
    hints=(
        "Each row of the cache, its entry and its position are on the same device. Which ways of "
        "writing this say so?",
        "Three ways do: shard_map with a loop or an index over the own rows; jax.vmap of a "
        "function that updates one row; or jnp.where with a mask over rows and positions.",
        "For a mask, compare jnp.arange(cache.shape[1]) with positions[:, None], and give the mask "
        "and the entries as many dimensions as the cache has. No element of arange is negative. To "
        "donate: partial(jax.jit, donate_argnums=0).",
    ),
    diagnoses={
        "values": "Does each row get its own entry, at its own position, and keep all others? Is a "
        "row without a request returned as it was?",
        **dict.fromkeys(
            ("all-gather over batch", "all-reduce over batch"),
            "Does an index point into any row, so that the compiler cannot see that row i gets "
            "entry i? Is there a loop over rows, which takes one row after the other, on all "
            "devices? Or is the result not sharded over `batch`?",
        ),
        "not-donated": "`donate_argnums` of jax.jit lists the arguments whose buffers may be "
        "overwritten. It has to be a jit of the whole function, and a result has to have the "
        "layout of the buffer.",
        "donates-too-much": "Only the cache is replaced. No result fits into another buffer.",
    },
)

# 14.4: two layouts for one layer


def mlp(x: Any, up: Any, down: Any) -> Any:
    """Apply a layer of two matmuls."""
    return jax.nn.relu(x @ up) @ down


def _hidden_features_apart(x: Layout, up: Layout, down: Layout) -> bool:
    """Check whether a device has columns of up, and rows of down of other hidden features."""
    pairs = zip(up.blocks, down.blocks, strict=True)
    is_apart = any(columns[1] != rows[0] for (_, columns), (_, rows) in pairs)
    return up.counts[1] == down.counts[0] == 8 and is_apart


FEW_TOKENS: Final = ((16, 128), (128, 256), (256, 128))
MANY_TOKENS: Final = ((1024, 128), (128, 256), (256, 128))
FEW_TOKENS_CAP: Final = 40_960
MANY_TOKENS_CAP: Final = 98_304

TWO_LAYOUTS: Final = Exercise(
    id="14.4",
    title="One layer, two layouts",
    afterwards="With many chips, a decode step shards weights along both dimensions, as "
    "in the paper Efficiently Scaling Transformer Inference (Pope et al., 2022). So a prefill "
    "machine and a decode machine often keep the same weights in different layouts.",
    requirements=(
        MovesFewBytes(
            "decode",
            "shardings (of x, up, down) for 16 tokens",
            mlp,
            FEW_TOKENS,
            FEW_TOKENS_CAP,
            ((34_816, 10_240), (36_864, 8_192)),
            slack=0,
            on_auto_axes=True,
            mistakes={
                "hidden-features-apart": Mistake(
                    _hidden_features_apart,
                    says="The columns of up and the rows of down belong to the same hidden "
                    "features, and some devices have other columns than rows. In which order do "
                    "the two shardings take the mesh's axes, or their meshes the devices?",
                ),
            },
        ),
        MovesFewBytes(
            "prefill",
            "shardings (of x, up, down) for 1,024 tokens",
            mlp,
            MANY_TOKENS,
            MANY_TOKENS_CAP,
            ((98_304, 262_144),),
            slack=0,
            on_auto_axes=True,
        ),
    ),
    hints=(
        "In each case, which arrays are smaller: x and the result, or the weights? Send "
        "small arrays.",
        "For few tokens, let weights stay: the columns of up and the rows of down belong to the "
        "same hidden features. For many tokens, let tokens stay: each device has its own.",
        "If x is sharded over its first dimension, each device needs all weights for its tokens, "
        "so the compiler gathers them. If x is replicated and up has its columns sharded, nothing "
        "is sent before the second matmul.",
    ),
    diagnoses={
        "not-auto": ON_EXPLICIT_AXES,
        "decode: over-the-cap": "Are both weights sharded over all eight devices?",
        "prefill: over-the-cap": "Are x and both weights sharded over all eight devices?",
        "decode: could-move-less": "Here both weights together have 256 KiB, the tokens 8 KiB, and "
        "their hidden features 16 KiB. Which of these arrays does your layout send?",
        "prefill: could-move-less": "Here both weights together have 256 KiB, the tokens 512 KiB, "
        "and their hidden features 1 MiB. Which of these arrays does your layout send? x need not "
        "be sent, if it is sharded only along the dimension that counts tokens. Is a weight "
        "gathered in two steps, so that a part of it is sent twice?",
    },
)

# 14.5: sampling from sharded logits

SAMPLED: Final = ((8, 32, 4096, 8), (4, 16, 40_960, 6), (4, 128, 64, 2))
"""Tuples of (devices, rows, tokens of the vocabulary, candidates).

In the last one, a quarter of the rows have all their candidates on one device by chance.
"""

TEMPERATURES: Final = (0.45, 2.5, 0.45)
"""The temperature for each of these, roughly."""


def _candidates(logits: Any, k: int) -> tuple[Any, Any]:
    """Return each row's largest logits, in descending order, and their tokens."""
    tokens = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(logits, tokens, axis=1), tokens


def _pick(tokens: Any, scores: Any) -> Any:
    """Return the token with the highest score, in each row."""
    best = scores.argmax(axis=1)[:, None]
    return np.take_along_axis(tokens, best, axis=1)[:, 0].astype(np.int32)


def _sample(logits: Any, noise: Any, temperature: Any) -> Any:
    values, tokens = _candidates(logits, noise.shape[1])
    return _pick(tokens, values / temperature + noise)


def _width(logits: Any) -> int:
    """Return the width of a device's block."""
    return next(size // n for n, _, size, _ in SAMPLED if size == logits.shape[1])


def _zeros_for_tokens(logits: Any, noise: Any, temperature: Any) -> Any:
    """Sample among all tokens, with 0 for those that are no candidates."""
    values, tokens = _candidates(logits, noise.shape[1])
    scores = np.zeros(logits.shape, np.float32)
    np.put_along_axis(scores, tokens, values / temperature + noise, axis=1)
    return scores.argmax(axis=1).astype(np.int32)


def _normalised_in_blocks(
    normalise: Callable[[Any], Any], in_body: bool, logits: Any, noise: Any, temperature: Any
) -> Any:
    """Normalise each device's logits, divided by the temperature before it or after it."""
    blocks = np.split(logits, logits.shape[1] // _width(logits), axis=1)
    own = [normalise(block / temperature if in_body else block) for block in blocks]
    return _sample(np.concatenate(own, axis=1), noise, 1 if in_body else temperature)


def _zeros_for_candidates(logits: Any, noise: Any, temperature: Any) -> Any:
    """Sample among the candidates of all devices, with 0 for those that are not the best."""
    values, tokens = (
        np.concatenate(each, axis=1) for each in _candidates_of_devices(logits, noise.shape[1])
    )
    best, places = _candidates(values, noise.shape[1])
    scores = np.zeros(values.shape, np.float32)
    np.put_along_axis(scores, places, best / temperature + noise, axis=1)
    return _pick(tokens, scores)


def _sampled_with(score: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Return a sampling with another score of the candidates."""

    def sampled(logits: Any, noise: Any, temperature: Any) -> Any:
        values, tokens = _candidates(logits, noise.shape[1])
        return _pick(tokens, score(values, noise, temperature))

    return sampled


def _softmax(values: Any) -> Any:
    weights = np.exp(values - values.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _logarithms_of_more(epsilon: float, values: Any, noise: Any, temperature: Any) -> Any:
    """Score candidates by logarithms of their probabilities and a small number."""
    return np.log(_softmax(values / temperature) + np.float32(epsilon)) + noise


def _log_softmax(values: Any) -> Any:
    below = values - values.max(axis=1, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=1, keepdims=True))


def _sampled_from_block(logits: Any, noise: Any, temperature: Any, block: int = 0) -> Any:
    width = _width(logits)
    own = logits[:, block * width :][:, :width]
    return (_sample(own, noise, temperature) + block * width).astype(np.int32)


def _sampled_on_each_device(logits: Any, noise: Any, temperature: Any) -> Any:
    """Sample on each device, with the same noise on each, and choose the largest sum."""
    width = _width(logits)
    sums, tokens = [], []
    for start in range(0, logits.shape[1], width):
        values, own = _candidates(logits[:, start : start + width], noise.shape[1])
        scores = values / temperature + noise
        sums.append(scores.max(axis=1))
        tokens.append(_pick(own, scores) + start)
    return _pick(np.stack(tokens, axis=1), np.stack(sums, axis=1))


def _sampled_with_noise_twice(
    score: Callable[[Any, Any, Any], Any], logits: Any, noise: Any, temperature: Any
) -> Any:
    """Add the noise to each device's candidates, and once more to the k best of the sums."""
    values, tokens = _candidates_of_devices(logits, noise.shape[1])
    sums, tokens = (np.concatenate(each, axis=1) for each in (values / temperature + noise, tokens))
    best, places = _candidates(sums, noise.shape[1])
    return _pick(np.take_along_axis(tokens, places, axis=1), score(best, noise, temperature))


def _noise_repeated(logits: Any, noise: Any, temperature: Any) -> Any:
    """Add each column of the noise to as many candidates in a row as there are devices."""
    values, tokens = (
        np.concatenate(each, axis=1) for each in _candidates_of_devices(logits, noise.shape[1])
    )
    repeated = np.repeat(noise, values.shape[1] // noise.shape[1], axis=1)
    return _pick(tokens, values / temperature + repeated)


def _place_among_best(logits: Any, noise: Any, temperature: Any) -> Any:
    values, _ = _candidates(logits, noise.shape[1])
    return (values / temperature + noise).argmax(axis=1).astype(np.int32)


def _token_of_first_device(logits: Any, noise: Any, temperature: Any) -> Any:
    """Look up a place among the k best in the candidates of all devices."""
    _, tokens = _candidates(logits[:, : _width(logits)], noise.shape[1])
    chosen = _place_among_best(logits, noise, temperature)[:, None]
    return np.take_along_axis(tokens, chosen, axis=1)[:, 0].astype(np.int32)


def _sampled_with_offset(logits: Any, noise: Any, temperature: Any, step: int) -> Any:
    """Sample, with a wrong number of tokens between the beginnings of two blocks."""
    block, place = np.divmod(_sample(logits, noise, temperature), _width(logits))
    return (block * step + place).astype(np.int32)


def _place_among_candidates(logits: Any, noise: Any, temperature: Any) -> Any:
    """Return the place of the sampled token among the candidates of all devices."""
    width, k = _width(logits), noise.shape[1]
    tokens = _sample(logits, noise, temperature)
    blocks = logits.reshape(len(logits), -1, width)
    orders = np.argsort(-blocks, axis=2, kind="stable")
    return np.array(
        [
            token // width * k + list(orders[row, token // width]).index(token % width)
            for row, token in enumerate(tokens.tolist())
        ],
        np.int32,
    )


def _sampled_from_few(
    count: Callable[[int, int], int], logits: Any, noise: Any, temperature: Any
) -> Any:
    """Choose among fewer than k candidates of each device, by k and the number of devices."""
    width, k = _width(logits), noise.shape[1]
    few = count(k, logits.shape[1] // width)
    left = np.full_like(logits, -np.inf)
    for start in range(0, logits.shape[1], width):
        own = logits[:, start : start + width]
        values, tokens = _candidates(own, few)
        np.put_along_axis(left[:, start : start + width], tokens, values, axis=1)
    return _sample(left, noise, temperature)


def _at_most(count: int, k: int, devices: int) -> int:
    return min(count, k)


def _of_candidates(change: Callable[[Any], Any], logits: Any, noise: Any) -> Any:
    """Change the candidates of all devices together, and leave out all other logits."""
    width, k = _width(logits), noise.shape[1]
    blocks = np.split(logits, logits.shape[1] // width, axis=1)
    found = [_candidates(block, k) for block in blocks]
    tokens = np.concatenate([own + i * width for i, (_, own) in enumerate(found)], axis=1)
    left = np.full_like(logits, -np.inf)
    values = change(np.concatenate([own for own, _ in found], axis=1))
    np.put_along_axis(left, tokens, values, axis=1)
    return left


def _rows_mixed(logits: Any, noise: Any, temperature: Any) -> Any:
    """Reshape what is gathered along a new first dimension as if it were along the last."""
    width, k = _width(logits), noise.shape[1]
    blocks = np.split(logits, logits.shape[1] // width, axis=1)
    found = [_candidates(block, k) for block in blocks]
    values = np.stack([values for values, _ in found]).reshape(len(logits), -1)
    tokens = np.stack([tokens + i * width for i, (_, tokens) in enumerate(found)])
    best, places = _candidates(values, k)
    chosen = np.take_along_axis(tokens.reshape(len(logits), -1), places, axis=1)
    return _pick(chosen, best / temperature + noise)


def _masked(mask: float, logits: Any, noise: Any, temperature: Any, looked_up: bool = False) -> Any:
    """Find the largest logits one after the other, and put a mask in place of each.

    The values are those found, or they are looked up in the logits without masks.
    """
    left, rows = logits.copy(), np.arange(len(logits))
    values, tokens = np.zeros_like(noise), np.zeros(noise.shape, int)
    for i in range(noise.shape[1]):
        tokens[:, i] = left.argmax(axis=1)
        values[:, i] = (logits if looked_up else left)[rows, tokens[:, i]]
        left[rows, tokens[:, i]] = mask
    return _pick(tokens, values / temperature + noise)


def _place_of_first_row(logits: Any, noise: Any, temperature: Any) -> Any:
    """Look up the place of the largest sum of all rows, as jnp.argmax without an axis does."""
    values, tokens = _candidates(logits, noise.shape[1])
    place = (values / temperature + noise).argmax()
    return tokens[:, min(place, noise.shape[1] - 1)].astype(np.int32)  # an index is clamped


def _looked_up(look_up: Callable[[Any, Any], Any], *given: Any) -> Any:
    """Look the token up among the k best in some way, by its place there."""
    _, tokens = _candidates(given[0], given[1].shape[1])
    return look_up(tokens, _place_among_best(*given)).astype(np.int32)


def _best_of_row_0(logits: Any, noise: Any, temperature: Any) -> Any:
    """Look up the tokens of the k best among the candidates of row 0, for every row."""
    values, tokens = (
        np.concatenate(each, 1) for each in _candidates_of_devices(logits, noise.shape[1])
    )
    best, places = _candidates(values, noise.shape[1])
    return _pick(tokens[0][places], best / temperature + noise)


def _row_for_place(logits: Any, noise: Any, temperature: Any) -> Any:
    """Look up the row with the largest first sum, as if it were a place among the k best."""
    values, tokens = _candidates(logits, noise.shape[1])
    row = (values / temperature + noise)[:, 0].argmax()
    if row < noise.shape[1]:
        return tokens[:, row].astype(np.int32)
    # what jnp.take_along_axis returns outside an array
    return np.full(len(logits), np.iinfo(np.int32).min, np.int32)


def _sampling_arguments(
    devices: int, rows: int, vocabulary: int, candidates: int
) -> tuple[Argument, ...]:
    mesh = (("vocab", devices),)
    last = vocabulary - vocabulary // devices
    temperature = next(
        each
        for sizes, each in zip(SAMPLED, TEMPERATURES, strict=True)
        if sizes == (devices, rows, vocabulary, candidates)
    )
    favourites = (Adjustment(((0, 1), (candidates - 1, candidates)), add=100),)
    # with the noise of this row, some rows take their first candidate, and others another one
    undecided = (
        Adjustment(((0, 1),), add=0, keep=False),
        Adjustment(((0, 1), (candidates - 1, candidates)), add=1),
    )
    far_apart = (
        # at a low temperature, this nearly makes up for the difference from the largest logit
        Adjustment(((2, 3), (candidates - 1, candidates)), add=30, keep=False),
        # more than the difference between the two largest logits
        Adjustment(((3, 4), (1, 2)), add=25, keep=False),
    )
    return (
        # most are negative, so a mask of zeros is not below them
        Argument(
            (rows, vocabulary),
            mesh,
            (None, "vocab"),
            mode="auto",
            scale=2.0,
            shift=-5.0,
            adjustments=(
                # all candidates of row 0 are on the last device, and the noise favours the last one
                Adjustment(((0, 1), (last, last + candidates)), add=50),
                # log-probabilities are as small as this
                Adjustment(((1, 2),), add=-45),
                # far above all others, so that the probabilities of these are near 0
                Adjustment(((2, 3), (last - 1, last)), add=25, keep=False),
                # two logits whose exponentials, divided by a low temperature, are not finite
                # (on one device: a softmax of each block makes all largest ones equal)
                Adjustment(((3, 4), (last, last + 1)), add=95, keep=False),
                Adjustment(((3, 4), (last + 1, last + 2)), add=100, keep=False),
            ),
        ),
        Argument(
            (rows, candidates),
            mesh,
            mode="auto",
            adjustments=(favourites if candidates > 2 else undecided) + far_apart,
        ),
        Argument((), mesh, mode="auto", scale=0.03, shift=temperature),
    )


def _highest_score(logits: Any, noise: Any, temperature: Any) -> Any:
    values, _ = _candidates(logits, noise.shape[1])
    return (values / temperature + noise).max(axis=1)


def _noise_in_first_columns(logits: Any, noise: Any, temperature: Any) -> Any:
    """Add the noise to the first k columns, and choose among all."""
    scores = logits / temperature
    scores[:, : noise.shape[1]] += noise
    return scores.argmax(axis=1).astype(np.int32)


def _sampled_from_smallest(logits: Any, noise: Any, temperature: Any) -> Any:
    values, tokens = _candidates(-logits, noise.shape[1])
    return _pick(tokens, -values / temperature + noise)


def _sampled_by_token(logits: Any, noise: Any, temperature: Any) -> Any:
    """Sort the candidates by token before the noise is added."""
    tokens = np.sort(_candidates(logits, noise.shape[1])[1], axis=1)
    return _pick(tokens, np.take_along_axis(logits, tokens, axis=1) / temperature + noise)


def _columns_of_all_rows(logits: Any, noise: Any, temperature: Any) -> Any:
    """Take each row's column from all rows, as `tokens[:, best]` does."""
    values, tokens = _candidates(logits, noise.shape[1])
    best = (values / temperature + noise).argmax(axis=1)
    return tokens[:, best].astype(np.int32)


KEYS: Final = (0, 1, 42)
"""The seeds that people write, if nobody asks for one."""


def _sampled_by_jax(
    score: Callable[[Any, Any, Any], Any], seed: int, logits: Any, noise: Any, temperature: Any
) -> Any:
    """Let `jax.random.categorical` choose among the k best."""
    values, tokens = _candidates(logits, noise.shape[1])
    scores = score(values, noise, temperature)
    best = np.asarray(jax.random.categorical(jax.random.key(seed), scores))[:, None]
    return np.take_along_axis(tokens, best, axis=1)[:, 0].astype(np.int32)


def _sampled_by_jax_from_all(seed: int, logits: Any, noise: Any, temperature: Any) -> Any:
    key = jax.random.key(seed)
    return np.asarray(jax.random.categorical(key, logits / temperature), np.int32)


def _candidates_of_devices(logits: Any, k: int) -> tuple[Any, Any]:
    """Return the candidates' logits and tokens, each of the shape (devices, rows, k)."""
    width = _width(logits)
    blocks = np.split(logits, logits.shape[1] // width, axis=1)
    found = [_candidates(block, k) for block in blocks]
    tokens = [own + i * width for i, (_, own) in enumerate(found)]
    return np.stack([own for own, _ in found]), np.stack(tokens)


def _largest_number(logits: Any, noise: Any, temperature: Any) -> Any:
    return _candidates(logits, noise.shape[1])[1].max(axis=1).astype(np.int32)


def _largest_number_of_devices(logits: Any, noise: Any, temperature: Any) -> Any:
    """Sample on each device, and take the maximum of the tokens, as `lax.pmax` does."""
    values, tokens = _candidates_of_devices(logits, noise.shape[1])
    chosen = [
        _pick(own, each / temperature + noise) for each, own in zip(values, tokens, strict=True)
    ]
    return np.max(chosen, axis=0)


def _largest_numbers_of_places(logits: Any, noise: Any, temperature: Any) -> Any:
    """Take the maximum over devices of the j-th logits, and that of the j-th tokens."""
    values, tokens = (each.max(axis=0) for each in _candidates_of_devices(logits, noise.shape[1]))
    return _pick(tokens, values / temperature + noise)


GATHERED: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda made: made.transpose(1, 0, 2),
    lambda made: made.transpose(1, 2, 0),
    lambda made: made,
)
"""Orders of candidates: gathered along dimension 1, along a new last one, and a new first one."""


def _gathered_otherwise(
    orders: Sequence[Callable[[Any], Any]], logits: Any, noise: Any, temperature: Any
) -> Any:
    """Gather the logits in one order, and the tokens in another one."""
    values, tokens = (
        order(each).reshape(len(logits), -1)
        for order, each in zip(orders, _candidates_of_devices(logits, noise.shape[1]), strict=True)
    )
    best, places = _candidates(values, noise.shape[1])
    return _pick(np.take_along_axis(tokens, places, axis=1), best / temperature + noise)


def _sampled_from_clipped(logits: Any, noise: Any, temperature: Any) -> Any:
    """Put 0 in place of the devices' negative candidates before the k best are chosen."""
    values, tokens = (
        np.concatenate(each, axis=1) for each in _candidates_of_devices(logits, noise.shape[1])
    )
    best, places = _candidates(np.maximum(values, 0), noise.shape[1])
    return _pick(np.take_along_axis(tokens, places, axis=1), best / temperature + noise)


def _offset_by_rows(logits: Any, noise: Any, temperature: Any) -> Any:
    """Count the logits before a block of rows."""
    rows, size = logits.shape
    block = np.arange(rows) // (rows * _width(logits) // size)
    return (_sample(logits, noise, temperature) + block * size).astype(np.int32)


def _are_candidates(given: Sequence[Any], made: Any) -> bool:
    """Check whether each token is one of its row's k best."""
    logits, noise, _ = given
    _, tokens = _candidates(logits, noise.shape[1])
    return made.shape == tokens.shape[:1] and bool((tokens == made[:, None]).any(axis=1).all())


SAMPLING: Final = Exercise(
    id="14.5",
    title="A token from sharded logits",
    afterwards="A vocabulary of 128,000 tokens and a batch of 256 have 125 MiB of logits in "
    "float32, and 50 candidates of each of eight devices have 800 KiB with their indices.",
    requirements=(
        Computes(
            "sample",
            "sample(logits, noise, temperature) must return a token for each row.",
            _sample,
            tuple(_sampling_arguments(*sizes) for sizes in SAMPLED),
            {
                "most-likely": Mistake(
                    _sampled_with(lambda values, noise, temperature: values),
                    says="This is always the most likely token. Is the noise added before you "
                    "choose, and to each candidate a number of its own? Does the argmax run over "
                    "the k sums of each row?",
                ),
                "not-divided": Mistake(
                    _sampled_with(lambda values, noise, temperature: values + noise),
                    says="The temperature makes no difference here. Divide the logits by it, and "
                    "not the noise.",
                ),
                "multiplied": Mistake(
                    _sampled_with(lambda values, noise, temperature: values * temperature + noise),
                    says="The temperature acts the wrong way round. Divide the logits by it, and "
                    "not the noise: a low temperature makes the logits' differences larger.",
                ),
                "divided-twice": Mistake(
                    _sampled_with(lambda values, noise, t: values / t / t + noise),
                    says="Are the logits divided by the temperature twice, or is the noise "
                    "multiplied by it? Divide the logits by it once, and add the noise as it is.",
                ),
                "zeros-win": Mistake(
                    _zeros_for_tokens,
                    _zeros_for_candidates,
                    says="Where all sums of a row are negative, a token that is no candidate is "
                    "returned. Is its place filled with 0? Fill it with -jnp.inf.",
                ),
                "subtracted": Mistake(
                    _sampled_with(lambda values, noise, t: values / t - noise),
                    says="The noise is subtracted. Add it.",
                ),
                "in-first-columns": Mistake(
                    _noise_in_first_columns,
                    says="The noise is added to the first k tokens of the vocabulary. Add it to "
                    "the k largest logits.",
                ),
                "smallest": Mistake(
                    _sampled_from_smallest,
                    says="These are chosen among the k smallest logits. Take the largest.",
                ),
                "ordered-by-token": Mistake(
                    _sampled_by_token,
                    says="The candidates are sorted by token here. The noise in place 0 is for the "
                    "largest logit.",
                ),
                "noise-of-row-0": Mistake(
                    _sampled_with(lambda values, noise, t: values / t + noise[:1]),
                    says="All rows have the noise of row 0. Each has one of its own.",
                ),
                "exponentials": Mistake(
                    _sampled_with(lambda values, noise, t: np.exp(values / t) + noise),
                    says="The noise is added to exponentials. Add it to the logits: the maximum "
                    "takes the place of the softmax.",
                ),
                "columns-of-all-rows": Mistake(
                    _columns_of_all_rows,
                    says="`tokens[:, best]` takes each of these columns from all rows. "
                    "`jnp.take_along_axis` takes one place in each row.",
                ),
                "order-reversed": Mistake(
                    _sampled_with(
                        lambda values, noise, temperature: values / temperature + noise[:, ::-1]
                    ),
                    says="The noise in place 0 is for the largest logit. Are your candidates in "
                    "ascending order?",
                ),
                "probabilities": Mistake(
                    _sampled_with(lambda values, noise, t: _softmax(values / t) + noise),
                    lambda logits, noise, t: _sample(_softmax(logits / t), noise, 1),
                    lambda logits, noise, t: _sample(
                        _of_candidates(lambda found: _softmax(found / t), logits, noise),
                        noise,
                        1,
                    ),
                    says="The noise is added to probabilities. Add it to the logits: the maximum "
                    "takes the place of the softmax.",
                ),
                "noise-alone": Mistake(
                    _sampled_with(lambda values, noise, temperature: noise),
                    says="This chooses by the noise alone. Add the logits.",
                ),
                "number-in-block": Mistake(
                    lambda logits, noise, temperature: (
                        _sample(logits, noise, temperature) % _width(logits)
                    ).astype(np.int32),
                    says="This is the token's place in its own device's block. Where does the "
                    "block begin in the vocabulary?",
                ),
                "place-among-best": Mistake(
                    _place_among_best, says="This is a place among the k best, and not a token."
                ),
                "place-among-candidates": Mistake(
                    _place_among_candidates,
                    says="This is a place among the candidates of all devices. Which token is "
                    "there?",
                ),
                "places-skipped": Mistake(
                    _token_of_first_device,
                    says="This looks up a place among the k best in the candidates of all devices. "
                    "The second lax.top_k returns places, too: look up the tokens there first.",
                ),
                "other-offset": Mistake(
                    lambda logits, noise, t: _sampled_with_offset(logits, noise, t, noise.shape[1]),
                    lambda logits, noise, t: _sampled_with_offset(logits, noise, t, len(logits)),
                    says="A block does not begin where this assumes. How many columns has each "
                    "block of the logits?",
                ),
                "beyond-the-vocabulary": Mistake(
                    lambda logits, noise, t: _sampled_with_offset(
                        logits, noise, t, logits.shape[1]
                    ),
                    says="Some tokens lie beyond the vocabulary. A block begins at its device's "
                    "number times the width of a block, and not times that of all logits.",
                ),
                "first-block": Mistake(
                    _sampled_from_block,
                    says="This chooses among the tokens of the first device only.",
                ),
                "noise-on-each-device": Mistake(
                    _sampled_on_each_device,
                    _noise_repeated,
                    *(
                        partial(_sampled_with_noise_twice, score)
                        for score in (
                            lambda sums, noise, t: sums + noise,
                            lambda sums, noise, t: sums / t + noise,
                        )
                    ),
                    says="The candidates of all devices get the noise, so that several get the "
                    "same number. Find the k best of all devices before you add it.",
                ),
                "too-few-candidates": Mistake(
                    partial(_sampled_from_few, lambda k, devices: -(-k // devices)),
                    partial(_sampled_from_few, lambda k, devices: 1),
                    partial(_sampled_from_few, lambda k, devices: k // 2),
                    partial(_sampled_from_few, lambda k, devices: k - 1),
                    partial(_sampled_from_few, lambda k, devices: min(2, k - 1)),
                    partial(_sampled_from_few, lambda k, devices: k // 2 + 1),
                    *(
                        partial(_sampled_from_few, partial(_at_most, count))
                        for count in range(2, max(k for *_, k in SAMPLED))
                    ),
                    says="All of the k largest logits of a row may be on one device. How many "
                    "candidates does each device keep?",
                ),
                "place-in-all-rows": Mistake(
                    _place_of_first_row,
                    partial(_looked_up, lambda tokens, place: tokens[:, place[0]]),
                    says="Here one place is looked up in every row. Each row has its own, which "
                    "`jnp.take_along_axis` takes. (An argmax without an axis counts through all "
                    "rows.)",
                ),
                "tokens-of-row-0": Mistake(
                    partial(_looked_up, lambda tokens, place: tokens[0][place]),
                    _best_of_row_0,
                    says="Every row has its tokens looked up among those of row 0. "
                    "`jnp.take_along_axis` takes each row's own.",
                ),
                "rows-for-places": Mistake(
                    partial(_looked_up, lambda tokens, place: tokens[place]),
                    says="`tokens[best]` takes whole rows. `jnp.take_along_axis` takes one place "
                    "in each row.",
                ),
                "row-for-place": Mistake(
                    _row_for_place,
                    says="One place is looked up in every row, and it is the number of a row. Does "
                    "an argmax run over the rows, and not over the k sums of each?",
                ),
                "rows-mixed": Mistake(
                    _rows_mixed,
                    says="The candidates of different rows are mixed. Along which dimension does "
                    "lax.all_gather put the devices' blocks together? It has the arguments `axis` "
                    "and `tiled`.",
                ),
                "masked-with-zeros": Mistake(
                    partial(_masked, 0),
                    partial(_masked, 0, looked_up=True),
                    says="A zero is larger than a negative logit. Take -inf for what is chosen "
                    "already.",
                ),
                "clipped": Mistake(
                    _sampled_from_clipped,
                    _sampled_with(lambda values, noise, t: np.maximum(values, 0) / t + noise),
                    says="Negative logits count as 0 here. Leave them as they are: in a row whose "
                    "logits are all negative, their differences count as in any other.",
                ),
                "masked-by-a-number": Mistake(
                    *(
                        partial(_masked, mask, looked_up=looked_up)
                        for mask in (-1, -10, -20)
                        for looked_up in (False, True)
                    ),
                    says="In a row of small logits, the largest one is found again. Does a number "
                    "take the place of what is chosen already? Which number is below all logits?",
                ),
                "last-never-chosen": Mistake(
                    _sampled_with(lambda values, noise, t: (values / t + noise)[:, :-1]),
                    says="The smallest of the k best is never chosen. Which of the k sums does "
                    "your program compare?",
                ),
                "temperature-at-most-1": Mistake(
                    _sampled_with(lambda values, noise, t: values / min(t, 1) + noise),
                    says="For a temperature above 1, this is the result for the temperature 1.",
                ),
                "temperature-at-least-1": Mistake(
                    _sampled_with(lambda values, noise, t: values / max(t, 1) + noise),
                    says="For a temperature below 1, this is the result for the temperature 1.",
                ),
                "own-noise": Mistake(
                    *(
                        partial(_sampled_by_jax, score, seed)
                        for seed in KEYS
                        for score in (
                            lambda values, noise, t: values / t,
                            lambda values, noise, t: values / t + noise,
                        )
                    ),
                    *(partial(_sampled_by_jax_from_all, seed) for seed in KEYS),
                    says="The program makes noise of its own here, as jax.random.categorical "
                    "does. The noise that you add is given.",
                ),
                "k-tokens": Mistake(
                    lambda logits, noise, _: _candidates(logits, noise.shape[1])[1].astype(
                        np.int32
                    ),
                    says="These are the k best tokens of each row. Which one of them has the "
                    "largest sum with the noise?",
                ),
                "sum-for-token": Mistake(
                    lambda *given: _highest_score(*given).astype(np.int32),
                    lambda logits, *_: logits.max(axis=1).astype(np.int32),
                    lambda logits, _, t: (logits / t).max(axis=1).astype(np.int32),
                    says="This is a maximum as an integer, and not the token that has it.",
                ),
                "largest-number": Mistake(
                    _largest_number,
                    _largest_number_of_devices,
                    _largest_numbers_of_places,
                    says="Of several tokens, this is the one with the largest number. Compare "
                    "their sums.",
                ),
                "gathered-otherwise": Mistake(
                    *(
                        partial(_gathered_otherwise, (first, second))
                        for first in GATHERED
                        for second in GATHERED
                        if first is not second
                    ),
                    says="The candidates' tokens are in another order than their logits. Along "
                    "which dimension is each of the two put together?",
                ),
                "small-number-added": Mistake(
                    *(
                        _sampled_with(partial(_logarithms_of_more, epsilon))
                        for epsilon in (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-9, 1e-10, 1e-12)
                    ),
                    says="Candidates far below the largest one are returned too often. Is a small "
                    "number added to probabilities before their logarithm? Add the noise to the "
                    "logits, and no logarithm is needed.",
                ),
                "normalised-in-blocks": Mistake(
                    *(
                        partial(_normalised_in_blocks, normalise, in_body)
                        for normalise in (
                            _softmax,
                            _log_softmax,
                            lambda own: own - own.max(axis=1, keepdims=True),
                        )
                        for in_body in (False, True)
                    ),
                    says="The logits of each device are normalised by themselves, as by a softmax "
                    "or a log_softmax of a block, or its maximum is subtracted. Numbers of "
                    "different devices cannot be compared then: choose the k best by the logits.",
                ),
                "offset-by-rows": Mistake(
                    _offset_by_rows,
                    says="Tokens lie beyond the vocabulary: what is added to them depends on the "
                    "row. Which dimension of the logits do in_specs shard?",
                ),
            },
            {
                "another-candidate": Mistake(
                    _are_candidates,
                    says="Each of these tokens is one of its row's k best, but it is not always "
                    "the one with the largest sum of its logit, divided by the temperature, and "
                    "the noise of its place. Which number do you compare for each candidate?",
                ),
            },
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "sample",
            # a logit and a token for each candidate, twice: there are many ways to choose
            tuple(
                (Budget(None, bytes=2 * 2 * 4 * devices * rows * candidates),)
                for devices, rows, _, candidates in SAMPLED
            ),
        ),
    ),
    hints=(
        "A token that is not among the k best of its own device cannot be among the k best of all. "
        "So how many logits of each device matter?",
        "In a shard_map, let each device return its own k best logits and their tokens. "
        "lax.top_k(own, k) returns values and places in the own block. lax.axis_index says which "
        "block it is.",
        "If the body's results are sharded over dimension 1, they are together an array of (rows, "
        "devices * k) candidates. Outside the body, lax.top_k of these gathers little. "
        "jnp.take_along_axis looks up the tokens.",
    ),
    diagnoses={
        "shapes-do-not-fit": "`noise` is (rows, k). If the other array has devices * k in a row, "
        "these are the candidates of all devices: choose the k best of them before you add the "
        "noise. If it has more rows: do out_specs join the devices' blocks along the rows, and not "
        "side by side? If an array has rows where k is expected, or k where rows are: which "
        "dimension of `noise` is k, and over which one does an argmax run? (If there is a "
        "lax.all_gather: it adds a dimension for the devices, and with `tiled=True` it puts blocks "
        "together along dimension 0, unless `axis` says otherwise.)",
        "only-the-first": "How many candidates does each device keep? All of the k best may be on "
        "one device, so each keeps k. Where does a device's block begin, on a mesh of another "
        "size?",
        "other-structure": "lax.top_k may return a list.",
        "dtype": "Is this a token, or the logit or the sum of one?",
        "not-replicated": "The body may as well return candidates, sharded over dimension 1. What "
        "comes after them can stand outside of it.",
        "too-many-bytes": "k candidates of each device are enough, and for each a number of four "
        "bytes for its logit and one for its token. Is there a lax.top_k outside of shard_map? It "
        "gathers its operand, whichever of its dimensions is sharded. Do in_specs shard the "
        "dimension that counts tokens, so that the logits stay where they are?",
    },
)

# 14.6: weights from a file


def _weights_cases(generator: np.random.Generator) -> Sequence[ProcessCase]:
    def case(
        processes: int, sizes: tuple[int, ...], shape: tuple[int, ...], spec: Spec
    ) -> ProcessCase:
        before, seed = 4 * int(generator.integers(40, 200)), int(generator.integers(2**31))
        axes = tuple(zip("xy", sizes, strict=False))
        given = (
            CaseArgument("weights-file", shape, spec, seed, number=before),
            CaseArgument("weights-entry", shape, number=before),
            CaseArgument("sharding", shape, spec),
        )
        return ProcessCase(processes, axes, given)

    rows = 8 * int(generator.integers(2, 4))
    return (
        case(1, (8,), (rows, 6), ("x",)),
        case(1, (8,), (6, 16), (None, "x")),
        case(1, (2, 4), (4, 6, 8), (None, "x", "y")),
        case(2, (4, 2), (8, rows), ("x", "y")),
        case(2, (2, 4), (4, 8, 6), (None, "y", "x")),  # no process needs whole rows
        case(2, (2, 4), (8, 5), ("y",)),
    )


def _stored(case: ProcessCase) -> Any:
    return case.given[0].values()


def _in_device_order(case: ProcessCase) -> tuple[Any]:
    """Return the array whose blocks are runs of the file, in the order of the devices."""
    stored, file = _stored(case), case.given[0]
    sharding = jax.NamedSharding(case.mesh(), jax.P(*file.spec))
    shape, made = sharding.shard_shape(stored.shape), np.zeros_like(stored)
    blocks = sharding.devices_indices_map(stored.shape).values()
    for place, block in enumerate(blocks):
        start = place * math.prod(shape)
        if start < stored.size:  # otherwise, it is of another array
            made[block] = stored.ravel()[start : start + math.prod(shape)].reshape(shape)
    return (made,)


def _block_by_block(case: ProcessCase, read: Callable[[Any, Any, Any], Any]) -> tuple[Any]:
    """Return the array whose blocks are read in some way, from (stored, first, shape)."""
    stored, file = _stored(case), case.given[0]
    sharding = jax.NamedSharding(case.mesh(), jax.P(*file.spec))
    made = np.zeros_like(stored)
    for block in sharding.devices_indices_map(stored.shape).values():
        shape = made[block].shape
        first = tuple(part.indices(n)[0] for part, n in zip(block, stored.shape, strict=True))
        made[block] = read(stored, first, shape)
    return (made,)


def _contiguous(stored: Any, first: Any, shape: Any) -> Any:
    """Read as many numbers as a block has, from its first one on."""
    start, count = np.ravel_multi_index(first, stored.shape), int(np.prod(shape))
    return np.resize(stored.ravel()[start : start + count], shape)


def _first_row_again(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block's first row, for each of its rows."""
    run = stored[(*first[:-1], slice(first[-1], first[-1] + shape[-1]))]
    return np.broadcast_to(run, shape)


def _run_for_each_first_index(stored: Any, first: Any, shape: Any) -> Any:
    """Read one run for each index of the first dimension."""
    block, count = np.empty(shape, np.float32), math.prod(shape[1:])
    for i in range(shape[0]):
        start = np.ravel_multi_index((first[0] + i, *first[1:]), stored.shape)
        block[i] = np.resize(stored.ravel()[start : start + count], shape[1:])
    return block


def _offsets_in_elements(stored: Any, first: Any, shape: Any) -> Any:
    """Read each run of a block at an offset that counts elements."""
    block, data, size = np.empty(shape, np.float32), stored.tobytes(), stored.itemsize * shape[-1]
    for place in np.ndindex(shape[:-1]):
        at = tuple(i + start for i, start in zip((*place, 0), first, strict=True))
        start = np.ravel_multi_index(at, stored.shape)
        block[place] = np.frombuffer(data[start : start + size], np.float32)
    return block


def _columns_in_elements(stored: Any, first: Any, shape: Any) -> Any:
    """Read each run of a block at an offset whose last part counts elements."""
    return _read_runs(
        stored,
        first,
        shape,
        lambda at: 4 * int(np.ravel_multi_index((*at[:-1], 0), stored.shape)) + int(at[-1]),
    )


def _read_runs(stored: Any, first: Any, shape: Any, offset: Callable[[Any], int]) -> Any:
    """Read each run of a block at an offset in bytes that depends on its first element."""
    block, data, size = np.empty(shape, np.float32), stored.tobytes(), stored.itemsize * shape[-1]
    for place in np.ndindex(shape[:-1]):
        start = offset(tuple(np.add(first, (*place, 0))))
        block[place] = np.frombuffer(data[start : start + size], np.float32)
    return block


def _filled_by_columns(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block's numbers, and fill the block column by column."""
    places = tuple(slice(start, start + size) for start, size in zip(first, shape, strict=True))
    return stored[places].ravel().reshape(shape, order="F")


def _rows_filled_by_columns(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block's runs one below the other, and reshape them with `order='F'`."""
    places = tuple(slice(start, start + size) for start, size in zip(first, shape, strict=True))
    return stored[places].reshape(-1, shape[-1]).reshape(shape, order="F")


def _runs_side_by_side(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block's runs one beside the other, and reshape them."""
    places = tuple(slice(start, start + size) for start, size in zip(first, shape, strict=True))
    return stored[places].reshape(-1, shape[-1]).T.reshape(shape)


def _steps_of(rows: Callable[[Any, Any], int], stored: Any, first: Any, shape: Any) -> Any:
    """Read each run of a block, with other numbers of rows for a step of the first dimension.

    Args:
        rows: the number of rows, from the shapes of the array and of the block.
        stored: the array.
        first: the first indices of the block.
        shape: the shape of the block.
    """
    block, last = np.empty(shape, np.float32), stored.shape[-1]
    for place in np.ndindex(shape[:-1]):
        *outer, column = np.add(first, (*place, 0)).tolist()
        row = outer[-1] if len(outer) == 1 else outer[0] * rows(stored.shape, shape) + outer[1]
        block[place] = np.resize(stored.ravel()[row * last + column :][: shape[-1]], shape[-1:])
    return block


def _without_second_index(stored: Any, first: Any, shape: Any) -> Any:
    """Read each run at the place of its first and its last index, as in a matrix."""
    block, last = np.empty(shape, np.float32), stored.shape[-1]
    for place in np.ndindex(shape[:-1]):
        at = np.add(first, (*place, 0)).tolist()
        start = at[0] * last + at[-1]
        block[place] = np.resize(stored.ravel()[start : start + shape[-1]], shape[-1:])
    return block


def _columns_from_0(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block's rows, each from the array's first column on."""
    return _offset_by(stored, (*first[:-1], 0), shape)


def _column_by_column(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block's rows, at places that are counted column by column."""
    return _offset_by(stored, first, shape, order="F")


def _counted_by_columns(stored: Any, first: Any, shape: Any) -> Any:
    """Read a block number by number, at places that are counted column by column."""
    block = tuple(slice(start, start + size) for start, size in zip(first, shape, strict=True))
    places = np.arange(stored.size).reshape(stored.shape, order="F")[block]
    return stored.ravel()[places]


def _offset_by(stored: Any, first: Any, shape: Any, order: Any = "C") -> Any:
    block = np.empty(shape, np.float32)
    for place in np.ndindex(shape[:-1]):
        start = np.ravel_multi_index(tuple(np.add(first, (*place, 0))), stored.shape, order=order)
        block[place] = np.resize(stored.ravel()[start : start + shape[-1]], shape[-1:])
    return block


WEIGHTS: Final = Exercise(
    id="14.6",
    title="Only the bytes that you need",
    afterwards="Fewer long reads are faster than many short ones. If a block spans all of the last "
    "dimensions, its rows are one run. Orbax reads checkpoints in this way, and stores blocks, so "
    "that a block of any layout is in few places.",
    requirements=(
        OnProcesses(
            "load",
            "an array from a file, laid out by the sharding",
            _weights_cases,
            lambda case: (Expected(_stored(case), case.given[0].spec),),
            mistakes={
                "one-run": Mistake(
                    lambda case: _block_by_block(case, _contiguous),
                    says="Each block is read as one run of bytes. This is right if it consists of "
                    "whole rows. Otherwise, its next row begins a whole row of the array later.",
                ),
                "first-row-again": Mistake(
                    lambda case: _block_by_block(case, _first_row_again),
                    says="Each row of a block has the numbers of its first row.",
                ),
                "run-for-each-first-index": Mistake(
                    lambda case: _block_by_block(case, _run_for_each_first_index),
                    says="One run is read for each index of the first dimension. With three "
                    "dimensions and a sharded last one, its rows are in several runs.",
                ),
                "steps-of-a-matrix": Mistake(
                    *(
                        partial(_block_by_block, read=partial(_steps_of, rows))
                        for rows in (
                            lambda array, block: array[0],
                            lambda array, block: array[2],
                            lambda array, block: block[1],
                            lambda array, block: 1,
                        )
                    ),
                    partial(_block_by_block, read=_without_second_index),
                    says="With two dimensions, each run is read from its place. With three, how "
                    "many rows of the file does a step of the first index pass?",
                ),
                "in-device-order": Mistake(
                    _in_device_order,
                    says="This reads the first run for device 0, the second for device 1, and so "
                    "on. Which elements belong to a device's block?",
                ),
                "columns-from-0": Mistake(
                    lambda case: _block_by_block(case, _columns_from_0),
                    says="Each run begins where the array's row begins. A device whose block does "
                    "not have the first columns begins later.",
                ),
                "column-by-column": Mistake(
                    lambda case: _block_by_block(case, _column_by_column),
                    lambda case: _block_by_block(case, _counted_by_columns),
                    says="Are the elements counted column by column, or as if each row had one? "
                    "The file has them row by row.",
                ),
                "offsets-in-elements": Mistake(
                    lambda case: _block_by_block(case, _offsets_in_elements),
                    says="The offsets count elements, and each of them has four bytes.",
                ),
                "coarser-type": Mistake(
                    lambda case: (_stored(case).astype(np.float16).astype(np.float32),),
                    lambda case: (_stored(case).astype(jnp.bfloat16).astype(np.float32),),
                    says="The numbers are right in their first digits only. Are they in a type of "
                    "less than four bytes on the way?",
                ),
                "integers": Mistake(
                    lambda case: (np.trunc(_stored(case)),),
                    lambda case: (np.rint(_stored(case)),),
                    says="All numbers are integers. Are they in an integer type on the way?",
                ),
                "columns-in-elements": Mistake(
                    lambda case: _block_by_block(case, _columns_in_elements),
                    says="A run's row is counted in bytes, and its column in elements. Each of "
                    "them has four bytes.",
                ),
                "big-endian": Mistake(
                    lambda case: (_stored(case).byteswap(),),
                    says="The bytes of each number are reversed: the file is little-endian.",
                ),
                "block-transposed": Mistake(
                    lambda case: _block_by_block(case, _filled_by_columns),
                    lambda case: _block_by_block(case, _rows_filled_by_columns),
                    lambda case: _block_by_block(case, _runs_side_by_side),
                    says="The numbers of a block are right, and in another order: the file has "
                    "them row by row.",
                ),
            },
        ),
    ),
    hints=(
        "jax.make_array_from_callback(shape, sharding, callback) calls callback(index) for each of "
        "the process's devices, with a tuple of slices. Which bytes of the file belong to it?",
        "The array is stored row by row, and the last dimension is contiguous. So a block consists "
        "of runs: one for each combination of indices in the other dimensions.",
        "slice.indices(n) returns start, stop and step of a slice, without None. "
        "np.ravel_multi_index((i, j), shape) returns the place of an element in its array, in "
        "elements. np.frombuffer(data, np.float32) makes an array of bytes.",
    ),
    diagnoses={
        "outside-the-array": "`data_offsets` says where the array begins and where it ends. "
        "`read` counts from where the arrays' bytes begin, and takes first an offset, then a size, "
        "both in bytes: each number has four.",
        "of-another-process": "The process has only some of the devices, and needs their blocks. "
        "Which bytes belong to these? `read` takes an offset and a size.",
        "reads-too-much": "Together, a process's devices need their own blocks, and nothing else. "
        "Does each device read whole rows, or the whole array? Are the same bytes read twice, or "
        "those between a block's rows? Or is an end passed to `read`, which takes a size?",
        "does-not-divide": "Every sharding fits its entry. Is this the whole shape of the entry "
        "that `load` is given, or that of a block or of another entry?",
        "does-not-reshape": "If there are too few numbers: are all runs of the block there? (Half "
        "as many: np.frombuffer reads float64, of eight bytes each, unless it is told another "
        "dtype. A quarter: `read` takes a size in bytes.) If there are too many: where does each "
        "run end?",
        "bytes-left-over": "`read` takes an offset and a size, both in bytes, and each number has "
        "four.",
        "own-array": "np.frombuffer makes an array of NumPy, on the host. Something has to put "
        "each block on its device.",
        "none": "Is a `return` missing?",
        "raised": "For reference: arrays have two or three dimensions, of float32; the header's "
        "shape is a list; slice(None) starts at None; `read` takes an offset and a size, in bytes; "
        "and np.frombuffer reads float64, unless it is told another dtype.",
    },
)

EXERCISES: Final = (
    ROOFLINE,
    CACHE_LAYOUTS,
    UPDATE,
    TWO_LAYOUTS,
    SAMPLING,
    WEIGHTS,
)
