"""Notebook 12, programs: ring attention, a trainer with bugs, activations, experts, bfloat16.

Each is compiled, and its collectives and what it keeps are counted.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.artifacts import (
    Adjustment,
    Argument,
)
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Differentiates,
    Exercise,
    FitsIn,
    KeepsLayouts,
    Mistake,
    PlacedLike,
    RecomputesAtMost,
    RequestedCollective,
    Requests,
    Requirement,
    Returns,
    Satisfies,
    SavesAtMost,
)
from shardlings.pictures import BLUE, GREY, ORANGE, PINK, GanttChart, JobBar

Problem = tuple[str, str]
"""A diagnosis, and a sentence for the learner."""

Charts = tuple[GanttChart, ...]

# 12.5: ring attention

SEQUENCES: Final = ((8, 512, 16), (4, 192, 8), (4, 192, 8))
"""Tuples of (devices, tokens, features of a token). The scores of the last one are far below 0."""


def _attention(
    is_seen: Callable[[Any, Any, int], Any] = lambda query, key, block: query >= key,
    scale: Callable[[int], float] = lambda features: features**-0.5,
) -> Callable[..., Any]:
    """Return attention.

    Args:
        is_seen: whether a query attends to a key, given their places and the tokens on a device.
        scale: the factor of the scores, for a number of features.
    """

    def attention(q: Any, k: Any, v: Any) -> Any:
        places, block = np.arange(len(q)), _block_of(q)
        scores = np.float32(scale(q.shape[1])) * (q @ k.T)
        scores = np.where(is_seen(places[:, None], places[None, :], block), scores, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return weights @ v / weights.sum(1, keepdims=True)

    return attention


def _negative_scores(n: int, tokens: int, features: int) -> tuple[Argument, ...]:
    """Return queries, keys and values whose scores have exponentials of 0, and differ by as much.

    So a query's own largest score has to be subtracted, and no other.
    """
    values = Argument((tokens, features), (("seq", n),), ("seq",), mode="auto")
    return (values.but(scale=4.0, shift=12.0), values.but(scale=4.0, shift=-12.0), values)


def _block_of(q: Any) -> int:
    """Return the number of tokens on a device, which follows from the number of all tokens."""
    return next(tokens // n for n, tokens, _ in SEQUENCES if tokens == len(q))


def _block_weights(q: Any, k: Any, v: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield for each block of keys, the first first: how many are seen, weights, and the values.

    The weights are the exponentials of the scores less their maximum in the block.
    """
    block = _block_of(q)
    for first in range(0, len(q), block):
        seen = np.arange(len(q))[:, None] >= np.arange(first, first + block)[None, :]
        scores = np.where(seen, q @ k[first : first + block].T * np.float32(q.shape[1] ** -0.5), 0)
        largest = np.where(seen, scores, -np.inf).max(1, keepdims=True)
        weights = np.where(seen, np.exp(scores - np.where(seen, largest, 0)), 0)
        yield seen.sum(1, keepdims=True), weights, v[first : first + block]


def _softmaxes_of_blocks(q: Any, k: Any, v: Any, unseen: bool = False) -> list[tuple[Any, Any]]:
    """Return for each block of keys how many are seen, and their values with a softmax of its own.

    With `unseen`, a query that sees none of the keys has the mean of all their values: the softmax
    of scores that are all equal, such as -1e30. Otherwise it has zeros.
    """
    return [
        (
            count,
            np.where(count > 0, weights @ values, values.mean(0) if unseen else 0)
            / np.where(count > 0, weights.sum(1, keepdims=True), 1),
        )
        for count, weights, values in _block_weights(q, k, v)
    ]


def _means_of_blocks(
    q: Any, k: Any, v: Any, weight: Callable[[Any], Any] = np.sign, unseen: bool = False
) -> Any:
    """Return attention in which each block of keys has its own softmax, and these are averaged.

    Args:
        q: the queries.
        k: the keys.
        v: the values.
        weight: how much a block counts, for the number of its keys that a query sees.
        unseen: whether blocks of which a query sees no key count, as in `_softmaxes_of_blocks`.
    """
    blocks = _softmaxes_of_blocks(q, k, v, unseen)
    total = sum(weight(count) * own for count, own in blocks)
    return np.asarray(total / sum(weight(count) for count, _ in blocks), np.float32)


def _sum_of_blocks(q: Any, k: Any, v: Any, unseen: bool = False) -> Any:
    """Return attention in which each block of keys has its own softmax, and these are added up."""
    return np.asarray(sum(own for _, own in _softmaxes_of_blocks(q, k, v, unseen)), np.float32)


def _halved_each_turn(q: Any, k: Any, v: Any, way: int = -1, if_seen: bool = False) -> Any:
    """Return attention in which a turn's result is the mean of its block's softmax and the last.

    With `if_seen`, blocks of which a query sees no key leave its result as it was.
    """
    blocks, devices = _softmaxes_of_blocks(q, k, v), np.arange(len(q)) // _block_of(q)
    n, rows = len(blocks), np.arange(len(q))
    counts, results = (np.stack(each) for each in zip(*blocks, strict=True))
    made = results[devices, rows]
    for turn in range(1, n):
        held = (devices + way * turn) % n
        mean = (made + results[held, rows]) / 2
        made = np.where(counts[held, rows] > 0, mean, made) if if_seen else mean
    return np.asarray(made, np.float32)


def _never_rescaled(q: Any, k: Any, v: Any) -> Any:
    """Return attention in which each block subtracts its own maximum, and sums are just added."""
    total, count = np.zeros_like(q), np.zeros((len(q), 1), np.float32)
    for _, weights, values in _block_weights(q, k, v):
        total += weights @ values
        count += weights.sum(1, keepdims=True)
    return total / count


def _pass_round(
    q: Any,
    k: Any,
    v: Any,
    *,
    way: int = -1,
    taken_for: Callable[[Any, int, int], Any] | None = None,
    turns: Callable[[int], int] = lambda n: n,
    held: Callable[[int], int] = lambda turn: turn,
    is_seen: Callable[[Any, Any, int], Any] = lambda query, key, block: query >= key,
    masked: float = -np.inf,
    rescaled: Callable[[Any], tuple[Any, Any]] = lambda growth: (np.exp(-growth),) * 2,
    moving: str = "kv",
    values_way: int = 1,
    add_up: Callable[[Any], Any] = lambda weights: weights.sum(2, keepdims=True),
    carries_largest: bool = True,
    is_divided: bool = True,
    is_divided_each_turn: bool = False,
    first_largest: float = -np.inf,
    subtracts_carried: bool = True,
    is_masked_late: bool = False,
) -> Any:
    """Return ring attention as devices compute it, step by step; each option makes a mistake.

    Args:
        q: the queries.
        k: the keys.
        v: the values.
        way: where a device's next block comes from: the device before (-1) or after it (1).
        taken_for: the number of the block for which the mask takes the one of a turn, for the
            devices, a turn and the number of devices; by default its own.
        turns: the number of turns, for a number of devices.
        held: after how many moves a block is used in a turn.
        is_seen: whether a query sees a key, for their places and the tokens on a device.
        masked: a score that does not count.
        rescaled: the factors of the sum of exponentials and of that of values, for what the
            largest scores grow by.
        moving: what is sent on: keys, values or both.
        values_way: 1 if values are sent the same way as keys, and -1 if the other way.
        add_up: adds up exponentials, which are on (devices, queries, keys).
        carries_largest: whether the largest scores are carried from turn to turn.
        is_divided: whether the sum of values is divided by that of exponentials.
        is_divided_each_turn: whether this happens after each turn, and not once at the end.
        first_largest: the largest score before the first turn.
        subtracts_carried: whether the largest score so far is subtracted, and not the block's own.
        is_masked_late: whether the mask is applied only to what multiplies the values.
    """
    block, devices = _block_of(q), np.arange(len(q) // _block_of(q))
    n, places, scale = len(devices), np.arange(block), np.float32(q.shape[1] ** -0.5)
    q, k, v = (a.reshape(n, block, -1) for a in (q, k, v))
    largest = np.full((n, block, 1), first_largest, np.float32)
    total, weighted = np.zeros_like(largest), np.zeros_like(q)
    with np.errstate(all="ignore"):
        for turn in range(turns(n)):
            own = (devices + way * held(turn)) % n
            taken = taken_for(devices, turn, n) if taken_for else (devices + way * turn) % n
            keys = k[own] if "k" in moving else k
            values = v[(devices + values_way * way * held(turn)) % n] if "v" in moving else v
            at_queries = (devices[:, None] * block + places)[:, :, None]
            seen = is_seen(at_queries, (taken[:, None] * block + places)[:, None, :], block)
            scores = scale * (q @ keys.swapaxes(1, 2))
            scores = scores if is_masked_late else np.where(seen, scores, np.float32(masked))
            own_largest = scores.max(2, keepdims=True)
            larger = np.maximum(largest, own_largest)
            finite = np.where(np.isinf(own_largest), 0, own_largest)
            weights = np.exp(scores - (larger if subtracts_carried else finite))
            factors = rescaled(larger - largest)
            total = factors[0] * total + add_up(weights)
            counted = np.where(seen, weights, 0) if is_masked_late else weights
            weighted = factors[1] * weighted + counted @ values
            weighted = weighted / total if is_divided_each_turn else weighted
            largest = larger if carries_largest else largest
        made = weighted / total if is_divided and not is_divided_each_turn else weighted
    return np.asarray(made.reshape(n * block, -1), np.float32)


def _divided_by_devices(q: Any, k: Any, v: Any) -> Any:
    """Return the sums of values, divided by the number of devices."""
    return _pass_round(q, k, v, is_divided=False) / np.float32(len(q) // _block_of(q))


def _upside_down(growth: Any) -> tuple[Any, Any]:
    """Return the factors of sums that are rescaled upside down, except for those of no scores."""
    return (np.where(np.isinf(growth), np.float32(0), np.exp(growth)),) * 2


def _tokens_of(features: int) -> tuple[int, int]:
    """Return the number of all tokens, and of those on a device, for a number of features."""
    return next((t, t // n) for n, t, own in SEQUENCES if own == features)


def _put_into(block_of: Any, token: Any, block: int) -> Any:
    """Return the place of a token in its block, counted in another token's block."""
    return block_of - block_of % block + token % block


def _count_from_the_next(way: int) -> Callable[[Any, int, int], Any]:
    return lambda devices, turn, n: (devices + way * (turn + 1)) % n


def _passed_round(**mistake: Any) -> Mistake:
    """Return ring attention with a mistake, for both directions of the ring."""
    return Mistake(*(partial(_pass_round, way=way, **mistake) for way in (-1, 1)))


def explain_zigzag(chunks: Any, n: int) -> Problem | None:
    """Find what is wrong with an assignment of 2 n chunks of a sequence to n devices."""
    if not isinstance(chunks, list | tuple) or len(chunks) != n:
        return "no-chunks", f"The result must be a list with an entry for each of the {n} devices."
    for device, own in enumerate(chunks):
        if not isinstance(own, list | tuple) or len(own) != 2:
            return "no-chunks", f"The entry of device {device} must be a list of two chunks."
        if not all(type(c) is int and 0 <= c < 2 * n for c in own):  # a bool is an int, too
            return "no-chunks", (
                f"The chunks of {n} devices are the whole numbers from 0 to {2 * n - 1}, and "
                f"device {device} has {own}."
            )
    missing = set(range(2 * n)) - {c for own in chunks for c in own}
    if missing:
        return "chunk-missing", (
            f"With {n} devices, chunk {min(missing)} is on no device. Each must be on one, and "
            f"only on one."
        )
    work = [sum(c + 0.5 for c in own) for own in chunks]
    if max(work) > min(work):
        most, least = work.index(max(work)), work.index(min(work))
        return "unbalanced", (
            f"With {n} devices, device {most} has {max(work):g} blocks of scores to compute, "
            f"each of a chunk of queries and one of keys, and device {least} has {min(work):g}."
        )
    return None


RING_ATTENTION: Final = Exercise(
    id="12.5",
    title="Ring attention",
    afterwards="The blocks of keys and values can be sent while a device computes with those it "
    "has, so with long enough blocks ring attention hides all of its communication.",
    requirements=(
        Computes(
            "ring_attention",
            "ring_attention(q, k, v) must be causal attention over the whole sequence.",
            _attention(),
            (
                *(
                    (Argument((tokens, features), (("seq", n),), ("seq",), mode="auto"),) * 3
                    for n, tokens, features in SEQUENCES[:-1]
                ),
                _negative_scores(*SEQUENCES[-1]),
            ),
            {
                "not-causal": Mistake(
                    _attention(lambda query, key, block: query >= 0 * key),
                    says="Every query attends to all keys. Those after its own place must not "
                    "count.",
                ),
                "not-scaled": Mistake(
                    _attention(scale=lambda features: 1.0),
                    says="The scores are not divided by the root of the number of features.",
                ),
                "scaled-twice": Mistake(
                    _attention(scale=lambda features: 1 / features),
                    says="The scores are divided by the number of features. Divide by its root.",
                ),
                "places-in-the-block": Mistake(
                    _attention(lambda query, key, block: query % block >= key % block),
                    says="The mask compares places within blocks. It has to compare places in the "
                    "whole sequence.",
                ),
                "own-block-alone": Mistake(
                    _attention(
                        lambda query, key, block: (query >= key) & (query // block == key // block)
                    ),
                    says="A query attends only to the keys of its own device.",
                ),
                "own-block-whole": Mistake(
                    _attention(lambda query, key, block: query // block >= key // block),
                    says="Within its own device's block, a query attends to later keys, too.",
                ),
                "sums-not-rescaled": Mistake(
                    _passed_round(rescaled=lambda growth: (1, 1)),
                    says="When a query's largest score grows, the two sums are not rescaled. "
                    "Multiply both by exp(old m - new m).",
                ),
                "exponentials-not-rescaled": Mistake(
                    _passed_round(rescaled=lambda growth: (1, np.exp(-growth))),
                    says="When a query's largest score grows, the sum of the values is rescaled, "
                    "and that of the exponentials is not.",
                ),
                "values-not-rescaled": Mistake(
                    _passed_round(rescaled=lambda growth: (np.exp(-growth), 1)),
                    says="When a query's largest score grows, the sum of the exponentials is "
                    "rescaled, and that of the values is not.",
                ),
                "rescaled-upside-down": Mistake(
                    *(
                        _passed_round(rescaled=_upside_down, first_largest=first)
                        for first in (-np.inf, 0.0)
                    ),
                    says="The sums are multiplied by exp(new m - old m). If m grows, they have to "
                    "become smaller.",
                ),
                "scaled-otherwise": Mistake(
                    _attention(scale=lambda features: features**0.5),
                    _attention(scale=lambda features: _tokens_of(features)[0] ** -0.5),
                    _attention(scale=lambda features: _tokens_of(features)[1] ** -0.5),
                    says="The scores are not divided by the root of the number of features, but "
                    "multiplied by it, or divided by that of the number of tokens.",
                ),
                "ways-differ": Mistake(
                    _passed_round(values_way=-1),
                    says="Keys and values are sent round the ring in opposite directions.",
                ),
                "other-way-round": Mistake(
                    partial(_pass_round, taken_for=lambda i, turn, n: (i + turn) % n),
                    partial(_pass_round, way=1, taken_for=lambda i, turn, n: (i - turn) % n),
                    says="The mask counts the blocks the wrong way round the ring. If a device "
                    "sends its block to the next one, does it hold the block of device i + t or of "
                    "i - t in step t?",
                ),
                "one-turn-too-few": Mistake(
                    _passed_round(turns=lambda n: n - 1),
                    says="The last block that comes round the ring is not used. With the own block "
                    "there are n.",
                ),
                "one-turn-too-many": Mistake(
                    _passed_round(turns=lambda n: n + 1),
                    says="There are n + 1 steps here, so a device's own block counts twice.",
                ),
                "looks-ahead-alone": Mistake(
                    _passed_round(is_seen=lambda query, key, block: query <= key),
                    says="The mask is the wrong way round: a query sees the keys after its own "
                    "place, and not those before it.",
                ),
                "not-itself": Mistake(
                    _passed_round(is_seen=lambda query, key, block: query > key),
                    says="No query sees the key of its own token, so the first one sees none at "
                    "all.",
                ),
                "number-for-place": Mistake(
                    _passed_round(
                        is_seen=lambda query, key, block: query >= key // block + key % block
                    ),
                    says="The mask takes the number of a block for the place of its first key. How "
                    "many tokens come before block d?",
                ),
                "queries-in-the-block": Mistake(
                    _passed_round(is_seen=lambda query, key, block: query % block >= key),
                    says="The mask has the places of keys in the whole sequence, and those of "
                    "queries in their block.",
                ),
                "largest-not-carried": Mistake(
                    _passed_round(carries_largest=False),
                    says="The largest score of the steps so far is not carried to the next.",
                ),
                "masked-are-zero": Mistake(
                    _passed_round(masked=0.0),
                    says="Scores that must not count are 0, and exp(0 - m) is not 0.",
                ),
                "begins-with-zero": Mistake(
                    _passed_round(first_largest=0.0),
                    says="The largest score is never below 0 here, or none is subtracted. If all "
                    "scores are far below 0, all exponentials are 0 then. Does it begin with "
                    "-jnp.inf, and is it the largest of all scores so far?",
                ),
                "mask-transposed": Mistake(
                    _passed_round(
                        is_seen=lambda query, key, block: (
                            _put_into(key, query, block) <= _put_into(query, key, block)
                        )
                    ),
                    says="The mask is transposed within each block: its rows belong to keys and "
                    "its columns to queries. In q @ k.T, rows belong to queries.",
                ),
                "blocks-exchanged": Mistake(
                    _passed_round(
                        is_seen=lambda query, key, block: (
                            _put_into(key, query, block) >= _put_into(query, key, block)
                        )
                    ),
                    says="The mask takes the block of the keys for that of the queries, and the "
                    "other way round.",
                ),
                "not-divided": Mistake(
                    _passed_round(is_divided=False),
                    says="The sums of the values are not divided by those of the exponentials.",
                ),
                "divided-by-devices": Mistake(
                    _divided_by_devices,
                    says="The sums of the values are divided by the number of devices. Expected: "
                    "by those of the exponentials.",
                ),
                "divided-each-turn": Mistake(
                    _passed_round(is_divided_each_turn=True),
                    says="The sum of the values is divided in each step, and the next one adds "
                    "values to it that are not. Divide once, at the end.",
                ),
                "mask-one-step-ahead": Mistake(
                    *(
                        partial(_pass_round, way=way, taken_for=_count_from_the_next(way))
                        for way in (-1, 1)
                    ),
                    says="In step t, the mask expects the block that a device has in step t + 1. "
                    "Which block does it have before anything is sent?",
                ),
                "values-stay": Mistake(
                    _passed_round(moving="k"),
                    says="The keys go round the ring, and the values do not.",
                ),
                "keys-stay": Mistake(
                    _passed_round(moving="v"),
                    says="The values go round the ring, and the keys do not.",
                ),
                "one-move-ahead": Mistake(
                    _passed_round(held=lambda turn: turn + 1),
                    says="The blocks are sent on before they are used, so in step t a device has "
                    "the block that the mask expects in step t + 1.",
                ),
                "one-move-ahead-of-the-mask": Mistake(
                    *(
                        partial(
                            _pass_round,
                            way=way,
                            held=lambda turn: turn + 1,
                            taken_for=_count_from_the_next(way),
                        )
                        for way in (-1, 1)
                    ),
                    says="Some results are NaN: a largest score is -inf, and exp(-inf + inf) is "
                    "NaN. Is a device's own block the last that it sees, because blocks are sent "
                    "on before they are used? Or is the largest score after a step that of its "
                    "block alone, of which a query may see no key?",
                ),
                "negative-places": Mistake(
                    partial(_pass_round, taken_for=lambda i, turn, n: i - turn),
                    partial(_pass_round, way=1, taken_for=lambda i, turn, n: i + turn - n),
                    says="The mask counts on below the first block: for device i, the block of "
                    "step t has the number i - t, also where this is negative. All of its keys are "
                    "seen then, and they come after the queries.",
                ),
                "turn-for-block": Mistake(
                    _passed_round(taken_for=lambda i, turn, n: 0 * i + turn),
                    says="The mask takes the number of the step for that of the block. In step t, "
                    "which block a device holds depends on the device, too.",
                ),
                "never-rescaled": Mistake(
                    _never_rescaled,
                    says="The exponentials of different blocks are taken relative to different "
                    "maxima, and added up all the same. Rescale the old sums when the maximum "
                    "changes.",
                ),
                "means-of-blocks": Mistake(
                    _means_of_blocks,
                    partial(_means_of_blocks, weight=np.ones_like),
                    partial(_means_of_blocks, weight=np.ones_like, unseen=True),
                    partial(_means_of_blocks, weight=lambda count: count),
                    *(
                        partial(_halved_each_turn, way=way, if_seen=if_seen)
                        for way in (-1, 1)
                        for if_seen in (False, True)
                    ),
                    says="Each block has a softmax of its own, and these are averaged. A block "
                    "with large scores has to weigh more.",
                ),
                "own-largest": Mistake(
                    *(
                        _passed_round(masked=masked, subtracts_carried=False)
                        for masked in (-np.inf, -1e30)
                    ),
                    says="Each block subtracts its own largest score, and the sums are rescaled by "
                    "the largest so far. Subtract that one everywhere.",
                ),
                "masked-late": Mistake(
                    _passed_round(is_masked_late=True),
                    says="The mask applies to what multiplies the values, and not to the sum of "
                    "the exponentials.",
                ),
                "sums-of-blocks": Mistake(
                    *(partial(_sum_of_blocks, unseen=unseen) for unseen in (False, True)),
                    says="Each block has a softmax of its own, and these are added up. A query's "
                    "weights should add up to 1 over all blocks, and a block with large scores has "
                    "to weigh more.",
                ),
                "summed-over-queries": Mistake(
                    *(
                        _passed_round(add_up=add_up)
                        for add_up in (
                            lambda weights: weights.sum(1)[..., None],
                            lambda weights: weights.sum((1, 2), keepdims=True),
                        )
                    ),
                    says="The exponentials are added up over the queries, or over all of a block. "
                    "Each query needs its own sum, over the keys: along which dimension are they?",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "ring_attention",
            "\n".join(map(str, range(8))),
            tuple((tokens, features) for _, tokens, features in SEQUENCES),
            elsewhere=("\n".join(map(str, range(4))),) * 2,
        ),
        CommunicatesAtMost(
            "ring_attention",
            tuple(
                (Budget("collective-permute", ("seq",), 2 * 4 * tokens * features),)
                for _, tokens, features in SEQUENCES
            ),
        ),
        # the scores of one block by one block, a few times over; all scores of a device's queries
        # would be larger than the first limit alone
        FitsIn("ring_attention", (163_840, 57_344, 57_344)),
        Satisfies(
            "zigzag",
            "zigzag(n) must return two chunks for each device, with equal work for all.",
            lambda rng: [(n,) for n in (4, *rng.choice([2, 3, 5, 6, 7, 8, 16], 3, False).tolist())],
            explain_zigzag,
            shown_as=list,
        ),
    ),
    about=(CommunicatesAtMost, FitsIn, Satisfies),
    together=True,
    weights={"ring_attention": 2},
    hints=(
        "A device keeps its queries. In each of n steps, it computes with a block of keys and "
        "values, and sends this block on by lax.ppermute. In step t, whose block does it have?",
        "Carry three things for each query: the largest score so far, the sum of the exponentials, "
        "and the sum of the values times these. If a new block raises the largest score from a to "
        "b, the old sums have to be multiplied by exp(a - b).",
        "Start with the device's own block: each query sees itself there, so the largest score is "
        "finite from the first step on. The mask compares places in the whole sequence, of "
        "queries on device i and of keys from device (i - t) % n. For zigzag: chunk c costs "
        "c + 1/2, so which two chunks together always cost the same?",
    ),
    diagnoses={
        "ring_attention: values": "Which device do the keys and values of each turn come from, and "
        "which places of the sequence do they have? Are scores masked by these places, and are "
        "both sums rescaled whenever the maximum grows?",
        "not-finite": "The largest score of a query that has seen no key is -inf. exp(-inf + inf) "
        "is NaN, and so is 0 * exp(inf). And if another number than a query's own largest score is "
        "subtracted, all of its exponentials can be 0, or one an infinity. Is the maximum over the "
        "keys? In which step does one of these occur?",
        "all-gather": "All keys or values are gathered. In a ring, a device has one block of them "
        "at a time.",
        "too-much-memory": "A device should hold one block of keys and values, and the scores for "
        "it. Does it keep the blocks, or the scores, of earlier steps? In a loop of Python, the "
        "compiler may keep them where lax.fori_loop does not.",
        "too-many-bytes": "A block of keys and one of values are sent n times at most.",
        "unbalanced": "A later chunk has more keys before it, so a device with much work in one "
        "chunk needs little in its other one. Which chunk belongs to chunk 0?",
        "chunk-missing": "There are 2 n chunks for n devices.",
    },
)


# 12.7: a trainer with four bugs

TRAINERS: Final = (((4, 2), 8, 6, 16), ((2, 4), 12, 5, 24))
"""Tuples of (mesh, examples, tokens in an example, hidden units)."""

OUTPUTS: Final = 4

Key = Callable[[Any, int, int], Any]
"""Returns a device's key, for a seed and its places along data and along model."""


def _on(mesh: tuple[int, int], shape: tuple[int, ...], *spec: str | None, **more: Any) -> Argument:
    return Argument(shape, (("data", mesh[0]), ("model", mesh[1])), spec, mode="auto", **more)


def _hidden(mesh: tuple[int, int], examples: int, tokens: int, hidden: int) -> Argument:
    return _on(mesh, (examples, tokens, hidden), "data", None, "model")


def _lengths(mesh: tuple[int, int], examples: int, tokens: int) -> Argument:
    return _on(mesh, (examples,), "data", dtype="int32", scale=tokens, shift=1)


def _mesh_of(examples: int) -> tuple[int, int]:
    return next(mesh for mesh, count, *_ in TRAINERS if count == examples)


def _dropped(key: Key, shared: int = 0) -> Callable[..., Any]:
    """Return dropout in which each device draws with its own key.

    Args:
        key: returns a device's key.
        shared: the number of dimensions, from the first, along which a device draws only once.
    """

    def dropped(seed: Any, h: Any) -> Any:
        rows, columns = _mesh_of(len(h))
        blocks = [
            [
                _draw_kept(key(seed, i, j), block, shared)
                for j, block in enumerate(np.split(row, columns, 2))
            ]
            for i, row in enumerate(np.split(h, rows))
        ]
        return np.concatenate([np.concatenate(row, axis=2) for row in blocks])

    return dropped


def _draw_kept(key: Any, block: Any, shared: int = 0) -> Any:
    kept = np.asarray(jax.random.bernoulli(key, 0.5, block.shape[shared:]))
    return np.where(kept, 2 * block, np.float32(0))


def _folded(seed: Any, *numbers: int) -> Any:
    key = jax.random.key(seed)
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return key


DROPPED: Final = _dropped(lambda seed, i, j: _folded(seed, i, j))


def _same_everywhere(seed: Any, h: Any) -> Any:
    """Return dropout with the bug: the sizes of the mesh are folded into the key."""
    return _dropped(lambda seed, i, j: _folded(seed, *_mesh_of(len(h))))(seed, h)


def _one_size_left(along: str) -> Callable[..., Any]:
    """Return dropout with one half of the bug: the size of the axis `along` is in the key."""

    def dropout(seed: Any, h: Any) -> Any:
        rows, columns = _mesh_of(len(h))
        return _dropped(
            lambda seed, i, j: (
                _folded(seed, rows, j) if along == "data" else _folded(seed, i, columns)
            )
        )(seed, h)

    return dropout


def _numbered(number: Callable[[int, int, int, int], int]) -> Callable[..., Any]:
    """Return dropout with one number in the key, which follows from a place and the mesh."""

    def dropout(seed: Any, h: Any) -> Any:
        mesh = _mesh_of(len(h))
        return _dropped(lambda seed, i, j: _folded(seed, number(i, j, *mesh)))(seed, h)

    return dropout


SEED_CHANGES: Final[tuple[Callable[..., tuple[int, ...]], ...]] = (
    lambda i, j, rows, columns: (i,),
    lambda i, j, rows, columns: (j,),
    lambda i, j, rows, columns: (i + j,),
    lambda i, j, rows, columns: (columns * i + j,),
    lambda i, j, rows, columns: (i + rows * j,),
    lambda i, j, rows, columns: (i, j),
    lambda i, j, rows, columns: (j, i),
)
"""Functions of a place and a mesh: the number to add to the seed, then those to fold in."""


def _seeded(change: Callable[..., tuple[int, ...]]) -> Callable[..., Any]:
    """Return dropout in which a device adds a number to the seed, and may fold in others."""

    def dropout(seed: Any, h: Any) -> Any:
        def key(seed: Any, i: int, j: int) -> Any:
            added, *folded = change(i, j, *_mesh_of(len(h)))
            return _folded(seed + np.uint32(added), *folded)

        return _dropped(key)(seed, h)

    return dropout


def _initial_weights() -> np.ndarray:
    """Return the second layer's weights before the first step, as `start(0)` samples them."""
    _, key = jax.random.split(jax.random.key(0))
    return np.asarray(jax.random.normal(key, (64, OUTPUTS)) / np.sqrt(64))


def _draws_other_mask(inputs: Any, output: Any) -> bool:
    """Check whether each element is dropped, or kept and doubled."""
    kept = output != 0
    return bool(np.isclose(output[kept], 2 * inputs[1][kept]).all())


def _keeps_other_share(inputs: Any, output: Any) -> bool:
    """Check whether elements are kept and doubled, but clearly more or fewer than half."""
    return _draws_other_mask(inputs, output) and abs(np.mean(output != 0) - 0.5) > 0.1


def _is_token(errors: Any, lengths: Any) -> Any:
    return np.arange(errors.shape[1]) < lengths[:, None]


def _mean_error(errors: Any, lengths: Any) -> Any:
    return np.where(_is_token(errors, lengths), errors, 0).sum(dtype=np.float32) / lengths.sum(
        dtype=np.float32
    )


def _mean_of_means(errors: Any, lengths: Any) -> Any:
    """Return the mean with the bug: each device's own mean counts equally."""
    n = _mesh_of(len(errors))[0]
    parts = zip(np.split(errors, n), np.split(lengths, n), strict=True)
    return np.mean([_mean_error(*part) for part in parts], dtype=np.float32)


def _by_own_counts(errors: Any, lengths: Any, combine: Callable[[Any], Any] = np.mean) -> Any:
    """Return the errors of all devices by each device's tokens, and combine these quotients."""
    n = _mesh_of(len(errors))[0]
    total = np.where(_is_token(errors, lengths), errors, 0).sum(dtype=np.float32)
    return np.float32(combine([total / own.sum() for own in np.split(lengths, n)]))


def _quarter_of_means(errors: Any, lengths: Any) -> Any:
    """Return a quarter of the sum of the devices' means, however many there are."""
    return _mean_of_means(errors, lengths) * np.float32(_mesh_of(len(errors))[0] / 4)


def _with_padding(errors: Any, lengths: Any) -> Any:
    return errors.mean(dtype=np.float32)


def _mean_of_examples(errors: Any, lengths: Any) -> Any:
    own = np.where(_is_token(errors, lengths), errors, 0).sum(1) / lengths
    return own.mean(dtype=np.float32)


def _over_all_places(errors: Any, lengths: Any) -> Any:
    return np.where(_is_token(errors, lengths), errors, 0).mean(dtype=np.float32)


def _slope(w_out: Any, h: Any, y: Any, lengths: Any) -> Any:
    off = np.where(_is_token(h, lengths)[..., None], h @ w_out - y, np.float32(0))
    return np.einsum("eth,eto->ho", h, 2 * off)


def _slope_times(factor: Callable[[int, int], float]) -> Callable[..., Any]:
    """Return the gradient multiplied by a factor that depends on the mesh."""
    return lambda w_out, h, y, lengths: (
        np.float32(factor(*_mesh_of(len(h)))) * _slope(w_out, h, y, lengths)
    )


def _slope_of_own_units(w_out: Any, h: Any, y: Any, lengths: Any) -> Any:
    """Return the gradient if each device compares its own units' part of the output with y."""
    n = _mesh_of(len(h))[1]
    parts = zip(np.split(w_out, n), np.split(h, n, 2), strict=True)
    return np.concatenate([_slope(w, own, y, lengths) for w, own in parts])


def _slope_of_own_units_on_all(w_out: Any, h: Any, y: Any, lengths: Any) -> Any:
    """Return the same, added up once more over data."""
    n = np.float32(_mesh_of(len(h))[0])
    return n * _slope_of_own_units(w_out, h, y, lengths)


def _slope_of_mean_output(w_out: Any, h: Any, y: Any, lengths: Any) -> Any:
    """Return the gradient if the parts of the output are averaged."""
    n = np.float32(_mesh_of(len(h))[1])
    return _slope(w_out / n, h, y, lengths) / n


def _slope_added_up(w_out: Any, h: Any, y: Any, lengths: Any) -> Any:
    """Return the gradient if the rows of the devices along model are added up."""
    n = _mesh_of(len(h))[1]
    return np.concatenate([sum(np.split(_slope(w_out, h, y, lengths), n))] * n)


def _slope_with_padding(w_out: Any, h: Any, y: Any, lengths: Any) -> Any:
    return _slope(w_out, h, y, np.full_like(lengths, h.shape[1]))


TRAINER: Final = Exercise(
    id="12.7",
    title="A trainer with four bugs",
    afterwards="None of the four raised an error, and the loss fell. Tests that find such bugs "
    "compare with one device, compare two devices, and count bytes.",
    requirements=(
        PlacedLike(
            "w_out", "0,2,4,6\n1,3,5,7", ((64, OUTPUTS),), values=_initial_weights, drawn=False
        ),
        Computes(
            "dropout",
            "dropout(seed, h) must draw with the key of the seed, into which a device folds its "
            "index along data and then that along model.",
            DROPPED,
            tuple(
                (
                    _on(mesh, (), dtype="uint32", scale=2**31),
                    _hidden(mesh, examples, tokens, hidden),
                )
                for mesh, examples, tokens, hidden in TRAINERS
            ),
            {
                "same-everywhere": Mistake(
                    _same_everywhere,
                    _dropped(lambda seed, i, j: _folded(seed)),
                    says="All devices use the same key, so their masks are equal. What is folded "
                    "into it?",
                ),
                "along-one-axis": Mistake(
                    _dropped(lambda seed, i, j: _folded(seed, i)),
                    _dropped(lambda seed, i, j: _folded(seed, j)),
                    _one_size_left("data"),
                    _one_size_left("model"),
                    says="Only one of the two indices is folded into the key, so devices along the "
                    "other axis have equal masks.",
                ),
                "other-order": Mistake(
                    _dropped(lambda seed, i, j: _folded(seed, j, i)),
                    says="The two indices are folded in in the other order. Expected: first the "
                    "index along data, then, into the new key, that along model.",
                ),
                "one-number": Mistake(
                    _dropped(lambda seed, i, j: _folded(seed, 2 * i + j)),
                    _numbered(lambda i, j, rows, columns: columns * i + j),
                    _numbered(lambda i, j, rows, columns: i + rows * j),
                    _dropped(lambda seed, i, j: _folded(seed, i + j)),
                    says="One number is folded into the key here, or the key is split into one for "
                    "each device. Expected: first the index along data is folded in, then, into "
                    "the new key, that along model.",
                ),
                "other-seeds": Mistake(
                    *(map(_seeded, SEED_CHANGES)),
                    says="A device's index is added to the seed. Expected: the key of the seed, "
                    "into which the index along data is folded, and then that along model.",
                ),
                "one-mask-for-all": Mistake(
                    lambda seed, h: _draw_kept(_folded(seed), h),
                    says="One mask is drawn for the whole array, from the key of the seed. Each "
                    "device has to draw its own, with its own key.",
                ),
                "not-doubled": Mistake(
                    lambda seed, h: DROPPED(seed, h) / 2,
                    says="The elements that are kept have to be doubled, so that the mean stays "
                    "the same.",
                ),
                "one-mask-for-all-tokens": Mistake(
                    *(
                        _dropped(lambda seed, i, j: _folded(seed, i, j), tokens)
                        for tokens in (1, 2)
                    ),
                    says="The key is the expected one, and its mask has another shape than the "
                    "block, so that several tokens share what is drawn.",
                ),
                "dropped-for-kept": Mistake(
                    lambda seed, h: 2 * h - DROPPED(seed, h),
                    says="The elements that should be kept are dropped, and the others are kept.",
                ),
            },
            {
                "other-share": Mistake(
                    _keeps_other_share,
                    says="Clearly more or fewer than half of the elements are kept.",
                ),
                "other-mask": Mistake(
                    _draws_other_mask,
                    says="Elements are dropped or doubled, as they should be, but by another mask "
                    "than that of the expected key: the key of the seed, into which the index "
                    "along data and then that along model are folded.",
                ),
            },
            under_mesh=True,
        ),
        Computes(
            "mean_error",
            "mean_error(errors, lengths) must be the mean error of all tokens.",
            _mean_error,
            tuple(
                (_on(mesh, (examples, tokens), "data"), _lengths(mesh, examples, tokens))
                for mesh, examples, tokens, _ in TRAINERS
            ),
            {
                "mean-of-means": Mistake(
                    _mean_of_means,
                    _quarter_of_means,
                    says="A device with few tokens counts as much as one with many. Add up the "
                    "errors of all devices, and the numbers of their tokens, and divide then.",
                ),
                "mean-of-examples": Mistake(
                    _mean_of_examples,
                    says="An example with few tokens counts as much as one with many.",
                ),
                "own-count": Mistake(
                    _by_own_counts,
                    partial(_by_own_counts, combine=np.sum),
                    says="The errors of all devices are divided by the number of one device's "
                    "tokens. Add up the numbers of tokens over the devices, too, and divide then.",
                ),
                "padding-counted": Mistake(_with_padding, _over_all_places),
                "padding-added-up": Mistake(
                    lambda errors, lengths: (
                        errors.sum(dtype=np.float32) / lengths.sum(dtype=np.float32)
                    ),
                    says="The errors of padding are added up, and only tokens are counted.",
                ),
                "per-example": Mistake(
                    lambda errors, lengths: (
                        _mean_error(errors, lengths) * lengths.mean(dtype=np.float32)
                    ),
                    says="The sum of the errors is divided by the number of examples. Expected: by "
                    "that of tokens.",
                ),
                "one-token-more": Mistake(
                    lambda errors, lengths: _mean_error(errors, lengths + 1),
                    lambda errors, lengths: np.float32(
                        np.where(_is_token(errors, lengths + 1), errors, 0).sum() / lengths.sum()
                    ),
                    says="The first token of the padding counts, too. A token counts if its "
                    "number, from 0, is less than the length.",
                ),
                "one-token-fewer": Mistake(
                    lambda errors, lengths: _mean_error(errors, lengths - 1),
                    lambda errors, lengths: np.float32(
                        np.where(_is_token(errors, lengths - 1), errors, 0).sum() / lengths.sum()
                    ),
                ),
                "not-divided": Mistake(
                    lambda errors, lengths: (
                        _mean_error(errors, lengths) * lengths.sum(dtype=np.float32)
                    ),
                    says="This is the sum of the errors. Expected: their mean.",
                ),
            },
            under_mesh=True,
        ),
        Computes(
            "gradient",
            "gradient(w_out, h, y, lengths) must be the gradient of the sum of the squared errors "
            "of all tokens.",
            _slope,
            tuple(
                (
                    _on(mesh, (hidden, OUTPUTS), "model"),
                    _hidden(mesh, examples, tokens, hidden),
                    _on(mesh, (examples, tokens, OUTPUTS), "data"),
                    _lengths(mesh, examples, tokens),
                )
                for mesh, examples, tokens, hidden in TRAINERS
            ),
            {
                "summed-twice": Mistake(
                    _slope_times(lambda data, model: data),
                    says="The gradient is too large by the number of devices along data. w does "
                    "not vary over data, so jax.grad has added it up already.",
                ),
                "divided-by-four": Mistake(
                    _slope_times(lambda data, model: data / 4),
                    says="The gradient is added up twice over data and divided by 4, which is "
                    "right on a mesh of 4 × 2 only. w does not vary over data, so jax.grad has "
                    "added it up.",
                ),
                "mean-for-sum": Mistake(
                    _slope_times(lambda data, model: 1 / data),
                    says="The gradient is too small by the number of devices along data. Expected: "
                    "the sum.",
                ),
                "padding-counted": _slope_with_padding,
                "token-of-padding": Mistake(
                    lambda w_out, h, y, lengths: _slope(w_out, h, y, lengths + 1),
                    says="The first token of the padding counts, too. A token counts if its "
                    "number, from 0, is less than the length.",
                ),
                "one-token-fewer": lambda w_out, h, y, lengths: _slope(w_out, h, y, lengths - 1),
                "mean-over-numbers": Mistake(
                    lambda w_out, h, y, lengths: _slope(w_out, h, y, lengths) / np.float32(y.size),
                    lambda w_out, h, y, lengths: (
                        _slope(w_out, h, y, lengths) / np.float32(y.size // _mesh_of(len(h))[0])
                    ),
                    says="The gradient is that of a mean over all numbers. Expected: that of the "
                    "sum. train_step divides it.",
                ),
                "divided": Mistake(
                    lambda w_out, h, y, lengths: (
                        _slope(w_out, h, y, lengths) / lengths.sum(dtype=np.float32)
                    ),
                    says="The gradient is divided by the number of tokens. Expected: that of the "
                    "sum. train_step divides it.",
                ),
                "rows-added-up": Mistake(
                    _slope_added_up,
                    says="The gradients of all rows of w_out are added up over model. Each device "
                    "has rows of its own.",
                ),
                "own-units-alone": Mistake(
                    _slope_of_own_units,
                    _slope_of_own_units_on_all,
                    says="Each device compares only the part of the output that comes from its own "
                    "hidden units with y. The parts have to be added up over model first.",
                ),
                "mean-over-model": Mistake(
                    _slope_of_mean_output,
                    says="The parts of the output are averaged over model. Expected: their sum.",
                ),
            },
            under_mesh=True,
        ),
    ),
    hints=(
        "Do not look for bugs by reading alone. For each function, think of something that must "
        "hold, and test it: show(start(0)['w_out']); a mask drawn for ones; a mean of equal "
        "errors but one; a gradient beside jax.grad of the same sum on one device.",
        "In start: which specs are looked up, and what happens if a name is not found? In dropout: "
        "what does each device fold in? In mean_error: do devices have equally many tokens? In "
        "gradient: what has jax.grad added up already?",
        "A name is misspelt; a size stands where an index belongs; sums over all devices should be "
        "divided once, at the end; and a gradient with respect to a value that does not vary over "
        "data is already a sum over data.",
    ),
    diagnoses={
        "gradient: values": "Is all of h @ w_out there, added up over model, before y is "
        "subtracted? Are the gradients added up over data, and over nothing else? Does padding "
        "count?",
        "mean_error: values": "Are the errors of all tokens added up, without padding, and divided "
        "once by how many tokens all devices have?",
        "one-token-fewer": "The last token of each example is missing. A token counts if its "
        "number, from 0, is less than the length.",
        "replicated": "Does SPECS have an entry with exactly this name?",
        "padding-counted": "Padding counts here, too.",
        "w_out: values": "Expected: the weights of start(0), before the first step.",
    },
)


# 12.8: activation memory

BLOCKS: Final = ((256, 64, 2), (240, 48, 3))
"""Tuples of (tokens, features, heads).

There are four times as many tokens as features, or more, so that the two matmuls of attention are
most of what is computed again: with fewer, keeping `out` and `up` would cost no more than keeping
`qkv` and the result of attention.
"""

SCALARS: Final = 4096
"""Bytes that a forward pass may keep in addition: such as a number for each row of the scores."""


def _block_arguments(tokens: int, features: int, heads: int) -> tuple[Argument, ...]:
    size, hidden = features // heads, 4 * features
    shapes = (
        (tokens, features),
        (3, features, heads, size),
        (heads, size, features),
        (features, hidden),
        (hidden, features),
    )
    inputs = (1, features, features, features, hidden)
    return tuple(
        Argument(shape, (("data", 1),), mode="auto", scale=count**-0.5)
        for shape, count in zip(shapes, inputs, strict=True)
    )


def _block(
    scale: Callable[[Any], float] = lambda q: q.shape[2] ** -0.5,
    shortcuts: tuple[float, float] = (1.0, 1.0),
    attended: Callable[[Any], Any] = lambda mixed: mixed,
    activate: Callable[[Any], Any] = jax.nn.gelu,
    axis: int = -1,
    roles: tuple[int, int, int] = (0, 1, 2),
    without_attention: str = "",
) -> Callable[..., Any]:
    """Return a transformer block.

    Args:
        scale: the factor of the scores, for the queries (heads, tokens, size of a head).
        shortcuts: the factors of the inputs of the two parts, which are added to their outputs.
        attended: what is done with the result of attention.
        activate: the function between the two layers.
        axis: the dimension of the softmax.
        roles: which of queries, keys and values (0, 1, 2) are taken for each of them.
        without_attention: what takes x where it should take it after attention: `layers` or `sum`.
    """

    def block(x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
        q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)[jnp.array(roles)]
        scores = jnp.einsum("hts,hus->htu", q, k) * scale(q)
        mixed = attended(jnp.einsum("htu,hus->hts", jax.nn.softmax(scores, axis=axis), v))
        after = shortcuts[0] * x + jnp.einsum("hts,hsf->tf", mixed, out)
        in_layers, in_sum = (x if without_attention == use else after for use in ("layers", "sum"))
        return shortcuts[1] * in_sum + activate(in_layers @ up) @ down

    return block


def _keeps(name: str, copies: int, millions: tuple[float, ...] = ()) -> tuple[Requirement, ...]:
    """Return the requirements on a block.

    Args:
        name: the answer's name.
        copies: how many arrays of the size of x it may keep.
        millions: the most operations of the backward pass, in millions, for each of `BLOCKS`.
    """
    kept = tuple(4 * copies * tokens * features + SCALARS for tokens, features, _ in BLOCKS)
    kept_and_right: tuple[Requirement, ...] = (
        Differentiates(
            name,
            f"{name}(x, qkv, out, up, down) must have the value and the gradients of block.",
            _block(),
            tuple(_block_arguments(*sizes) for sizes in BLOCKS),
            {
                "not-scaled": _block(scale=lambda q: 1.0),
                "scaled-otherwise": Mistake(
                    _block(scale=lambda q: 1 / q.shape[2]),
                    _block(scale=lambda q: (q.shape[0] * q.shape[2]) ** -0.5),
                    _block(scale=lambda q: q.shape[1] ** -0.5),
                    _block(scale=lambda q: q.shape[0] ** -0.5),
                ),
                "no-shortcut": _block(shortcuts=(0.0, 0.0)),
                "first-shortcut-missing": _block(shortcuts=(0.0, 1.0)),
                "last-shortcut-missing": _block(shortcuts=(1.0, 0.0)),
                "shortcut-around-both": _block(without_attention="sum"),
                "layers-before-attention": _block(without_attention="layers"),
                "other-axis": _block(axis=1),
                "other-activation": Mistake(
                    *(
                        _block(activate=activate)
                        for activate in (jax.nn.relu, jax.nn.silu, jnp.tanh, lambda hidden: hidden)
                    )
                ),
                "mixed-up": Mistake(
                    *(
                        _block(roles=roles)
                        for roles in (
                            (1, 0, 2),
                            (0, 0, 2),
                            (1, 1, 2),
                            (0, 1, 1),
                            (0, 2, 1),
                            (2, 1, 0),
                        )
                    )
                ),
                "stopped": _block(attended=jax.lax.stop_gradient),
                "exact-gelu": _block(activate=partial(jax.nn.gelu, approximate=False)),
            },
        ),
        SavesAtMost(name, kept, small=SCALARS),
    )
    limits = tuple(int(1e6 * most) for most in millions)
    return (*kept_and_right, RecomputesAtMost(name, limits)) if millions else kept_and_right


ACTIVATIONS: Final = Exercise(
    id="12.8",
    title="Activation memory",
    afterwards="Megatron-LM calls the second policy selective recomputation. FlashAttention keeps "
    "q, k, v and its result, as the third one does, and one number for each row of the scores. It "
    "computes the scores again within the chip.",
    requirements=(
        *_keeps("keep_nothing", 0),
        # without any checkpoint the backward pass does 86 and 51 million operations, and 121 and
        # 72 million if everything is computed again. The limits are between what the answers need
        # and what they need if one more matmul is computed again, or both of attention.
        *_keeps("keep_products", 8, (105, 63.7)),
        *_keeps("keep_little", 5, (108, 64.2)),
    ),
    about=(Differentiates, SavesAtMost, RecomputesAtMost),  # block itself has the right values
    together=True,
    hints=(
        "jax.checkpoint(block) is a function with the same value and the same gradients, and "
        "`policy=` says what it keeps. Look at what each of jax.checkpoint_policies does in "
        "`backward_chart`.",
        "For keep_products: the weights have no head and no batch in common with x, but q, k, v "
        "and the scores have the dimension h in common. Which policy tells these matmuls apart?",
        "For keep_little, write the block again with checkpoint_name(array, "
        '"name") around what you want to keep, and give jax.checkpoint a policy that '
        "save_only_these_names returns. What does the backward pass need from attention, and what "
        "makes its scores expensive?",
    ),
    diagnoses={
        "keep_nothing: saves-too-much": "A checkpointed function keeps only its arguments, unless "
        "a policy says otherwise. Is all of the block in it?",
        "keep_products: saves-too-much": "Only the results of matmuls with weights have to be "
        "kept. An array that begins with the number of heads is the result of attention's own "
        "matmuls or their softmax, and the others may be results of element-wise functions.",
        "keep_products: recomputes-too-much": "Is a matmul with a weight computed again? Such "
        "results have to be kept: q, k and v, what `out` makes, and the hidden layer before gelu, "
        "because gelu's gradient depends on it. Or is attention computed again twice, "
        "because a checkpoint is in another one? A policy ignores names that no array has, and "
        "only what checkpoint_name returns has the name.",
        "keep_little: saves-too-much": "Five arrays of the size of x are enough, and q, k and v "
        "are three of them. The scores and their softmax have t × t numbers for each head, and the "
        "hidden layer is as large as four arrays.",
        "keep_little: recomputes-too-much": "A matmul need not run again if its result is kept. "
        "The limit leaves room for the matmuls with `out` and `up`, and for one of the two of "
        "attention. So the small results around these two have to be kept: which are they, before "
        "the first one and after the second? Only what checkpoint_name returns has the name, and "
        "a policy ignores names that no array has.",
        "keeps-nothing": "jax.checkpoint keeps nothing without a policy, and a policy ignores "
        "names that no array has.",
        "not-scaled": "The scores are not divided by the root of the size of a head.",
        "no-shortcut": "The input of each part is added to its output, as in block.",
        "scaled-otherwise": "The scores are divided by another number than the root of the size of "
        "a head.",
        "first-shortcut-missing": "The input of attention is not added to its output.",
        "last-shortcut-missing": "The input of the last two layers is not added to their output.",
        "shortcut-around-both": "The last sum adds x as it was before attention. Expected: after "
        "it.",
        "layers-before-attention": "The last two layers get x as it was before attention. "
        "Expected: after it.",
        "other-axis": "The softmax is taken over the queries. Expected: over the keys.",
        "mixed-up": "q, k and v are mixed up. The scores are products of queries and keys, and "
        "weight the values.",
        "other-activation": "Between the last two layers there is no gelu.",
        "exact-gelu": "This is the exact gelu. In block, jax.nn.gelu approximates it by a tanh, as "
        "it does by default.",
        "stopped": "No gradient passes through attention. Something that is not kept still has to "
        "be computed again.",
    },
)


# 12.9: experts

LAYERS_OF_EXPERTS: Final = ((8, 512, 16, 32, 16), (4, 408, 8, 24, 20))
"""Tuples of (devices, tokens, features, hidden units of an expert, experts).

In the second, there are more experts than in the notebook, and a device has 102 tokens, so the
capacity has to be rounded down.
"""


def _expert_arguments(
    n: int, tokens: int, features: int, hidden: int, experts: int
) -> tuple[Argument, ...]:
    def sharded(*shape: int, scale: float = 1.0) -> Argument:
        return Argument(shape, (("expert", n),), ("expert",), mode="auto", scale=scale)

    return (
        sharded(tokens, features),
        sharded(tokens, experts),
        sharded(experts, features, hidden, scale=features**-0.5),
        sharded(experts, hidden, features, scale=hidden**-0.5),
    )


def _devices_for(scores: Any) -> int:
    """Return the number of devices, which follows from the number of tokens."""
    return next(n for n, tokens, *_ in LAYERS_OF_EXPERTS if tokens == len(scores))


def _places(scores: Any, blocks: int) -> Any:
    """Return how many tokens before each one, in its block, have chosen the same expert."""
    chosen = np.eye(scores.shape[1], dtype=int)[scores.argmax(1)]
    before = np.concatenate([part.cumsum(0) - part for part in np.split(chosen, blocks)])
    return (before * chosen).sum(1)


def _is_kept(scores: Any, more: int = 0) -> Any:
    """Return which tokens are kept, if the capacity is larger by a number."""
    n, (tokens, experts) = _devices_for(scores), scores.shape
    return _places(scores, n) < tokens // n // experts + more


def _kept_over_the_batch(scores: Any) -> Any:
    return _places(scores, 1) < len(scores) // scores.shape[1]


def _kept_from_the_end(scores: Any) -> Any:
    return _is_kept(scores[::-1])[::-1]


def _one_too_few(scores: Any) -> Any:
    return _is_kept(scores, -1)


def _one_too_many(scores: Any) -> Any:
    return _is_kept(scores, 1)


def _all_kept(scores: Any) -> Any:
    return np.full(len(scores), True)


def _softmax(scores: Any) -> Any:
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def _gates(scores: Any) -> Any:
    return _softmax(scores).max(1, keepdims=True)


def _ungated(scores: Any) -> Any:
    return np.float32(1)


def _largest_scores(scores: Any) -> Any:
    return scores.max(1, keepdims=True)


def _logistic(scores: Any) -> Any:
    return 1 / (1 + np.exp(-_largest_scores(scores)))


def _shares_of_tokens(scores: Any) -> Any:
    """Return the largest scores after a softmax over each device's tokens."""
    weights = np.exp(scores.reshape(_devices_for(scores), -1, scores.shape[1]))
    shares = (weights / weights.sum(1, keepdims=True)).reshape(scores.shape)
    return np.take_along_axis(shares, scores.argmax(1)[:, None], 1)


def _largest_shares(scores: Any) -> Any:
    """Return the largest of each token's shares, after a softmax over each device's tokens."""
    weights = np.exp(scores.reshape(_devices_for(scores), -1, scores.shape[1]))
    return (weights / weights.sum(1, keepdims=True)).reshape(scores.shape).max(1, keepdims=True)


def _largest(scores: Any) -> Any:
    return scores.argmax(1)


def _regrouped(scores: Any) -> Any:
    """Return the experts of tokens that came by device and are taken to be in order of experts."""
    n, (tokens, experts) = _devices_for(scores), scores.shape
    own, chosen, sources = experts // n, scores.argmax(1), np.arange(tokens) // (tokens // n)
    return chosen // own * own + (sources * own + chosen % own) // n


def _rectify(hidden: Any) -> Any:
    return np.maximum(hidden, 0)


def _chosen_outputs(
    x: Any,
    scores: Any,
    up: Any,
    down: Any,
    choose: Callable[[Any], Any] = _largest,
    activate: Callable[[Any], Any] = _rectify,
) -> Any:
    """Return for each token the output of the expert that it has chosen."""
    chosen = choose(scores)
    hidden = activate(np.einsum("tf,tfh->th", x, up[chosen]))
    return np.einsum("th,thf->tf", hidden, down[chosen])


def _moe(
    is_kept: Callable[[Any], Any] = _is_kept,
    gates: Callable[[Any], Any] = _gates,
    outputs_of: Callable[..., Any] = _chosen_outputs,
) -> Callable[..., Any]:
    """Return a layer of experts, whose result is zero for tokens that are not kept."""

    def moe(x: Any, scores: Any, up: Any, down: Any) -> Any:
        outputs = gates(scores) * outputs_of(x, scores, up, down)
        return np.where(is_kept(scores)[:, None], outputs, np.float32(0))

    return moe


MOE: Final = _moe()


def _unchanged(x: Any, scores: Any, up: Any, down: Any) -> Any:
    """Return the layer, with dropped tokens as they were."""
    return np.where(_is_kept(scores)[:, None], MOE(x, scores, up, down), x)


def _in_order_of_experts(x: Any, scores: Any, up: Any, down: Any) -> Any:
    """Return the results of each device's tokens in the order in which it sent them."""
    blocks = np.split(scores.argmax(1), n := _devices_for(scores))
    own = len(scores) // n
    order = [i * own + np.argsort(block, kind="stable") for i, block in enumerate(blocks)]
    return MOE(x, scores, up, down)[np.concatenate(order)]


def _of_the_last_place(x: Any, scores: Any, up: Any, down: Any, overwritten: bool = False) -> Any:
    """Return the layer in which a dropped token reads its expert's last place on its device.

    With `overwritten`, it also writes there, so that the last of these tokens is in that place.
    """
    n, (tokens, experts) = _devices_for(scores), scores.shape
    chosen, places, devices = scores.argmax(1), _places(scores, n), np.arange(tokens) * n // tokens
    last = tokens // n // experts - 1
    source = np.arange(tokens)
    for token in np.flatnonzero(places >= last):
        same = (chosen == chosen[token]) & (devices == devices[token]) & (places >= last)
        source[token] = np.flatnonzero(same)[-1 if overwritten else 0]
    return _gates(scores) * _chosen_outputs(x, scores, up, down)[source]


def _overwritten(x: Any, scores: Any, up: Any, down: Any, of_dropped: bool = True) -> Any:
    """Return the layer in which a dropped token, or zeros, are in its expert's last place."""
    n, (tokens, experts) = _devices_for(scores), scores.shape
    own = tokens // n
    outputs = _of_the_last_place(x, scores, up, down, overwritten=True)
    if not of_dropped:
        counts = np.eye(experts)[scores.argmax(1)].reshape(n, own, -1).sum(1)
        is_full = counts[np.arange(tokens) // own, scores.argmax(1)] > own // experts
        outputs[is_full & (_places(scores, n) == own // experts - 1)] = 0
    return np.where(_is_kept(scores)[:, None], outputs, np.float32(0))


def _count(is_counted: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the function that counts tokens in int32."""
    return lambda scores: is_counted(scores).sum(dtype=np.int32)


def _count_dropped(is_kept: Callable[[Any], Any]) -> Callable[..., Any]:
    return _count(lambda scores: ~is_kept(scores))


def _counts(scores: Any) -> Any:
    """Return how many tokens of each device choose each expert."""
    n, experts = _devices_for(scores), scores.shape[1]
    return np.eye(experts, dtype=np.int32)[scores.argmax(1)].reshape(n, -1, experts).sum(1)


def _add_up(number: Callable[[Any, int], Any]) -> Callable[..., Any]:
    """Return the sum, over devices and experts, of a number that follows from the tokens there."""

    def added_up(scores: Any) -> Any:
        places = len(scores) // _devices_for(scores) // scores.shape[1]
        return np.sum(number(_counts(scores), places), dtype=np.int32)

    return added_up


def _count_experts(is_full: Callable[[Any, int], Any]) -> Callable[..., Any]:
    return _add_up(lambda n, places: is_full(n, places).astype(np.int32))


def _first(numbers: Any) -> Any:
    return numbers[0]


def _count_on_device(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the number of dropped tokens on one device."""
    return lambda scores: np.int32(
        choose((~_is_kept(scores)).reshape(_devices_for(scores), -1).sum(1))
    )


_count_all_dropped: Final = _count_dropped(_is_kept)


def _relu_at_the_end(x: Any, scores: Any, up: Any, down: Any) -> Any:
    """Return the layer whose experts apply relu after their second layer."""
    linear = _chosen_outputs(x, scores, up, down, activate=lambda hidden: hidden)
    outputs = _gates(scores) * _rectify(linear)
    return np.where(_is_kept(scores)[:, None], outputs, np.float32(0))


def _stay(array: Any) -> Any:
    return array


def _stay_by_devices(places: Any) -> Any:
    """Exchange nothing, and take the second of the dimensions for the third."""
    return places.swapaxes(1, 2)


def _send(places: Any) -> Any:
    """Exchange places on (devices, receivers, experts, …) to (receivers, experts, devices, …)."""
    return places.transpose(1, 2, 0, 3, 4)


def _send_in_turn(places: Any) -> Any:
    """Exchange the places as if expert e were on device e % n."""
    n, _, own, *rest = places.shape
    return _send(places.reshape(n, own, n, *rest).swapaxes(1, 2))


def _send_back(places: Any) -> Any:
    return places.transpose(2, 0, 1, 3, 4)


def _send_along_0(places: Any) -> Any:
    """Exchange as `_send`, but to (receivers, devices, experts, …)."""
    return places.transpose(1, 0, 2, 3, 4)


def _send_back_along_0(places: Any) -> Any:
    """Exchange as `_send_back`, as if the places were on (receivers, devices, experts, …)."""
    n, experts, _, *rest = places.shape
    return places.reshape(n, n, experts, *rest).transpose(1, 0, 2, 3, 4)


def _exchange_otherwise(
    x: Any,
    scores: Any,
    up: Any,
    down: Any,
    send: Callable[[Any], Any] = _send,
    send_back: Callable[[Any], Any] = _send_back,
) -> Any:
    """Return the layer with another exchange, there or back, after which arrays are reshaped.

    If tokens stay, a device's own experts work on them. If results stay, tokens read, at their own
    place, what their device's experts made.
    """
    n, (tokens, experts) = _devices_for(scores), scores.shape
    own, each = experts // n, tokens // n
    places, chosen, kept = _places(scores, n), scores.argmax(1), _is_kept(scores)
    sent = np.zeros((n, experts, each // experts, x.shape[1]), np.float32)
    devices = np.arange(tokens) // each
    sent[devices[kept], chosen[kept], places[kept]] = x[kept]
    arrived = send(sent.reshape(n, n, own, each // experts, -1))
    arrived = arrived.reshape(n, own, n, each // experts, -1)
    hidden = _rectify(np.einsum("dkscf,dkfh->dksch", arrived, up.reshape(n, own, *up.shape[1:])))
    made = np.einsum("dksch,dkhf->dkscf", hidden, down.reshape(n, own, *down.shape[1:]))
    returned = send_back(made).reshape(sent.shape)
    read = np.zeros_like(x)
    read[kept] = returned[devices[kept], chosen[kept], places[kept]]
    return _gates(scores) * read


def _of_experts_in_turn(x: Any, scores: Any, up: Any, down: Any) -> Any:
    """Return the layer if expert e is sought on device e % n, and not on e // (experts / n)."""
    n, experts = _devices_for(scores), scores.shape[1]
    places = np.arange(experts)
    reached = places % n * (experts // n) + places // n
    return MOE(x, scores, up[reached], down[reached])


def _kept_if_all_are(scores: Any, more: int = 0) -> Any:
    """Return which tokens are kept, if an expert with too many on a device keeps none of them."""
    n, (tokens, experts) = _devices_for(scores), scores.shape
    chosen = np.eye(experts)[scores.argmax(1)].reshape(n, -1, experts)
    fits = chosen.sum(1, keepdims=True) <= tokens // n // experts + more
    return (chosen * fits).any(2).ravel()


def _place_of_all(
    x: Any, scores: Any, up: Any, down: Any, is_kept: Callable[[Any], Any] = _all_kept
) -> Any:
    """Return the layer in which all tokens with one expert have the same place on a device."""
    n, tokens = _devices_for(scores), len(scores)
    chosen, devices = scores.argmax(1), np.arange(tokens) * n // tokens
    last = {(int(d), int(c)): t for t, (d, c) in enumerate(zip(devices, chosen, strict=True))}
    source = [last[int(d), int(c)] for d, c in zip(devices, chosen, strict=True)]
    outputs = _gates(scores) * _chosen_outputs(x, scores, up, down)[source]
    return np.where(is_kept(scores)[:, None], outputs, np.float32(0))


def _smallest(scores: Any) -> Any:
    return scores.argmin(1)


def _choosing_the_smallest(
    x: Any, scores: Any, up: Any, down: Any, gates: Callable[[Any], Any] = _gates
) -> Any:
    """Return the layer in which tokens go to the experts with the smallest scores."""
    outputs = _chosen_outputs(x, scores, up, down, choose=_smallest)
    return np.where(_is_kept(-scores)[:, None], gates(scores) * outputs, np.float32(0))


def _kept_by_devices(scores: Any) -> Any:
    """Return which tokens are kept, if a device's tokens are divided by the number of devices."""
    n = _devices_for(scores)
    return _places(scores, n) < len(scores) // n // n


def _add_second_experts(x: Any, scores: Any, up: Any, down: Any, own: bool = False) -> Any:
    """Return the layer in which each token goes to two experts.

    With `own`, their two probabilities add up to 1.
    """
    rest = np.where(scores == scores.max(1, keepdims=True), np.float32(-np.inf), scores)
    shares = _softmax(scores)
    first, second = (np.take_along_axis(shares, s.argmax(1)[:, None], 1) for s in (scores, rest))
    both = first + second if own else np.float32(1)
    layers = (_moe(gates=_ungated)(x, s, up, down) for s in (scores, rest))
    return sum(gate / both * layer for gate, layer in zip((first, second), layers, strict=True))


def _add_in_the_last_place(x: Any, scores: Any, up: Any, down: Any, reads: bool = False) -> Any:
    """Return the layer in which a dropped token is added to the token in its expert's last place.

    With `reads`, a dropped token gets the result from there, too.
    """
    n, (tokens, experts) = _devices_for(scores), scores.shape
    places = np.minimum(_places(scores, n), tokens // n // experts - 1)
    slot = np.stack([np.arange(tokens) * n // tokens, scores.argmax(1), places], 1)
    _, same = np.unique(slot, axis=0, return_inverse=True)
    added = np.zeros_like(x)
    np.add.at(added, same.ravel(), x)
    return _moe(_all_kept if reads else _is_kept)(added[same.ravel()], scores, up, down)


def _of_all_experts(x: Any, up: Any, down: Any) -> Any:
    """Return the outputs of each expert for each token."""
    hidden = _rectify(np.einsum("tf,efh->teh", x, up))
    return np.einsum("teh,ehf->tef", hidden, down)


def _is_multiple(rows: Any, others: Any) -> Any:
    """Check for each row whether it is a multiple of another one that is not zero."""
    along = (rows * others).sum(-1, keepdims=True) / np.maximum(
        (others**2).sum(-1, keepdims=True), 1e-9
    )
    return np.abs(rows - along * others).max(-1) < 1e-4 * np.abs(rows).max(-1)


def _has_other_factors(inputs: Any, output: Any) -> bool:
    """Check whether each kept token has its expert's output, times a factor that is wrong."""
    kept, right = _is_kept(inputs[1]), MOE(*inputs)
    return not output[~kept].any() and bool(_is_multiple(output[kept], right[kept]).all())


def _is_of_other_experts(inputs: Any, output: Any) -> bool:
    """Check whether each kept token has some expert's output, and some have a wrong one's."""
    x, scores, up, down = inputs
    kept = _is_kept(scores)
    made = _of_all_experts(x, up, down)[kept]
    return not output[~kept].any() and bool(_is_multiple(output[kept][:, None], made).any(1).all())


def _is_of_other_tokens(inputs: Any, output: Any) -> bool:
    """Check whether each row is zero, or what an expert made of some token of the device."""
    x, scores, up, down = inputs
    n, made = _devices_for(scores), _chosen_outputs(x, scores, up, down)
    rows, of_device = (np.array_split(each, n) for each in (output, made))
    return all(
        _is_multiple(own[own.any(axis=1)][:, None], others).any(1).all()
        for own, others in zip(rows, of_device, strict=True)
    )


def _keeps_other_tokens(inputs: Any, output: Any) -> bool:
    """Check whether each row is right or zero, or right if its token were not dropped."""
    right = _gates(inputs[1]) * _chosen_outputs(*inputs)
    rows = output.any(axis=1)
    return bool(np.isclose(output[rows], right[rows], rtol=1e-3, atol=1e-4).all())


def _layers_exchanged(x: Any, scores: Any, up: Any, down: Any) -> Any:
    """Return the outputs of experts whose second layer comes first, transposed."""
    return _chosen_outputs(x, scores, down.swapaxes(1, 2), up.swapaxes(1, 2))


def _sum_of_largest(scores: Any) -> Any:
    """Return the sum over devices of the most tokens that are dropped with one expert."""
    places = len(scores) // _devices_for(scores) // scores.shape[1]
    return np.maximum(_counts(scores) - places, 0).max(1).sum(dtype=np.int32)


def _draw_counts(inputs: Any, outputs: Any) -> Charts:
    """Draw how many tokens of each device are kept and dropped."""
    (scores,) = inputs
    kept = _is_kept(scores).reshape(_devices_for(scores), -1)
    lanes = {}
    for device, own in enumerate(kept):
        places, tokens = int(own.sum()), len(own)
        lanes[f"device {device}"] = [
            JobBar(f"{places} kept", str(places), BLUE, 0, places),
            JobBar(f"{tokens - places} dropped", str(tokens - places), GREY, places, tokens),
        ]
    title = f"expected, {(~kept).sum()} dropped tokens on all devices"
    legend = {BLUE: "kept", GREY: "dropped"}
    return (GanttChart.of(title, lanes, is_timed=False, legend=legend),)


MAX_DRAWN_EXPERTS: Final = 4

LOOKS: Final = {
    "kept": (BLUE, "kept"),
    "dropped": (GREY, "dropped"),
    "wrong": (ORANGE, "wrong row"),
    "zeros": (PINK, "zeros in place of numbers"),
}
"""The colour of a token's row, and what the legend says of it."""


def _draw_routing(inputs: Any, outputs: Any) -> Charts:
    """Draw the tokens of a device that choose some experts, as they are routed and as expected."""
    _, scores, *_ = inputs
    right, actual = MOE(*inputs), np.asarray(outputs[0])
    if actual.shape != right.shape:
        return ()
    n, experts = _devices_for(scores), scores.shape[1]
    own = len(scores) // n
    is_wrong = ~np.isclose(actual, right, rtol=1e-3, atol=1e-3).all(axis=1)
    device = int(is_wrong.reshape(n, own).any(axis=1).argmax())
    tokens = range(device * own, (device + 1) * own)
    chosen, places, kept = scores.argmax(1), _places(scores, n), _is_kept(scores)
    shown = dict.fromkeys(int(chosen[token]) for token in tokens if is_wrong[token])

    def look(token: int, is_expected: bool) -> str:
        if is_expected or not is_wrong[token]:
            return "kept" if kept[token] else "dropped"
        return "wrong" if actual[token].any() else "zeros"

    def drawn(title: str, is_expected: bool) -> GanttChart:
        lanes: dict[str, list[JobBar]] = {}
        looks = set[str]()
        for expert in sorted([*shown][:MAX_DRAWN_EXPERTS]):
            bars = lanes.setdefault(f"expert {expert}", [])
            for token in tokens:
                if chosen[token] == expert:
                    word = look(token, is_expected)
                    looks.add(word)
                    place, number, colour = int(places[token]), token - device * own, LOOKS[word][0]
                    bars.append(
                        JobBar(f"token {number} {word}", str(number), colour, place, place + 1)
                    )
        legend = {colour: words for name, (colour, words) in LOOKS.items() if name in looks}
        return GanttChart.of(title, lanes, remarks, is_timed=False, legend=legend)

    if len(shown) > MAX_DRAWN_EXPERTS:
        which = f"{MAX_DRAWN_EXPERTS} of the {len(shown)} experts whose rows are wrong in yours"
    else:
        noun = "expert" if len(shown) == 1 else "experts"
        which = f"the {noun} whose rows are wrong in yours"
    remarks = [f"The numbers in the boxes are tokens of device {device}. Shown: {which}."]
    return (
        drawn(f"yours, tokens of device {device}", is_expected=False),
        drawn(f"expected, {own // experts} places for each expert", is_expected=True),
    )


EXPERTS: Final = Exercise(
    id="12.9",
    title="Experts",
    afterwards="GShard and the Switch Transformer drop tokens in this way. MegaBlocks drops none: "
    "its experts have different numbers of tokens.",
    requirements=(
        Computes(
            "dropped",
            "dropped(scores) must be the number of tokens of all devices that find their expert's "
            "places taken.",
            _count_dropped(_is_kept),
            tuple((_expert_arguments(*sizes)[1],) for sizes in LAYERS_OF_EXPERTS),
            {
                "over-the-batch": _count_dropped(_kept_over_the_batch),
                "kept-for-dropped": Mistake(
                    _count(_is_kept), says="This is the number of tokens that are kept."
                ),
                "places-by-devices": _count_dropped(_kept_by_devices),
                "one-too-few": _count_dropped(_one_too_few),
                "one-too-many": _count_dropped(_one_too_many),
                "full-experts": Mistake(
                    _count_experts(np.greater),
                    _count_experts(np.greater_equal),
                    says="This counts experts with too many tokens. Expected: tokens that find no "
                    "place.",
                ),
                "all-of-full-experts": Mistake(
                    _add_up(lambda n, places: np.where(n > places, n, 0)),
                    says="These are all tokens of the experts with too many. Only those beyond the "
                    "capacity are dropped.",
                ),
                "empty-places": Mistake(
                    _add_up(lambda n, places: np.maximum(places - n, 0)),
                    says="This is the number of places that stay empty.",
                ),
                "not-clipped": Mistake(
                    _add_up(np.subtract),
                    says="Places that stay empty with one expert make up for tokens that are "
                    "dropped with another here. They do not.",
                ),
                "empty-too": Mistake(
                    _add_up(lambda n, places: abs(n - places)),
                    says="Places that stay empty are counted, too, as if tokens were dropped "
                    "there.",
                ),
                "of-one-expert": Mistake(
                    _sum_of_largest,
                    says="Of each device, only the expert with the most dropped tokens counts. "
                    "Expected: the sum over all experts.",
                ),
                "averaged": Mistake(
                    lambda scores: _count_all_dropped(scores) // _devices_for(scores),
                    lambda scores: np.int32(
                        round(_count_all_dropped(scores) / _devices_for(scores))
                    ),
                    says="This is the mean over the devices. Expected: the sum.",
                ),
                "of-one-device": Mistake(
                    _count_on_device(np.max),
                    _count_on_device(_first),
                    says="This is the number on a single device. Expected: the sum over all.",
                ),
                "smallest-scores": lambda scores: _count_all_dropped(-scores),
            },
            under_mesh=True,
            draw=_draw_counts,
        ),
        CommunicatesAtMost("dropped", ((Budget("all-reduce", ("expert",), 4),),) * 2),
        Computes(
            "moe",
            "moe(x, scores, up, down) must be the output of each token's expert times its "
            "probability, and zero for dropped tokens.",
            MOE,
            tuple(_expert_arguments(*sizes) for sizes in LAYERS_OF_EXPERTS),
            {
                "not-scaled": Mistake(
                    _moe(gates=_ungated),
                    says="The outputs are not multiplied by the probability of the expert. Without "
                    "it, no gradient reaches the router.",
                ),
                "over-the-batch": _moe(_kept_over_the_batch),
                "last-kept": Mistake(
                    _moe(_kept_from_the_end),
                    says="The last tokens are kept here. Places are given in the order of the "
                    "tokens, so those that come too late are dropped.",
                ),
                "nothing-dropped": Mistake(
                    _moe(_all_kept),
                    says="No token is dropped here. How many tokens does a device have, and how "
                    "many places for each expert?",
                ),
                "one-too-few": _moe(_one_too_few),
                "one-too-many": _moe(_one_too_many),
                "unchanged": Mistake(
                    _unchanged,
                    says="Dropped tokens come back unchanged. Expected: zeros, because the "
                    "residual connection around the layer adds x.",
                ),
                "smallest-scores": Mistake(
                    *(
                        partial(_choosing_the_smallest, gates=gates)
                        for gates in (_gates, lambda scores: _softmax(scores).min(1, keepdims=True))
                    )
                ),
                "of-another-token": Mistake(
                    _of_the_last_place,
                    says="A dropped token gets the output of the token in its expert's last place. "
                    "JAX moves an index outside of an array to its edge when it reads: drop these "
                    "tokens explicitly.",
                ),
                "overwritten": Mistake(
                    _overwritten,
                    partial(_overwritten, of_dropped=False),
                    partial(_of_the_last_place, overwritten=True),
                    says="Dropped tokens, or zeros for them, are written over the token in their "
                    "expert's last place. Write nothing for a token that is dropped.",
                ),
                "other-factor": Mistake(
                    *(
                        _moe(gates=gates)
                        for gates in (
                            _largest_scores,
                            _logistic,
                            _shares_of_tokens,
                            lambda scores: _gates(scores) ** 2,
                            _largest_shares,
                            lambda scores: _softmax(scores)[:, :1],
                            lambda scores: np.log(_gates(scores)),
                        )
                    )
                ),
                "never-returned": Mistake(
                    partial(_exchange_otherwise, send_back=_stay),
                    partial(_exchange_otherwise, send_back=_stay_by_devices),
                    says="The results are not sent back: a token reads what the experts of its own "
                    "device made, and its expert may be on another one.",
                ),
                "never-sent": Mistake(
                    *(
                        partial(_exchange_otherwise, send=send, send_back=send_back)
                        for send in (_stay, _stay_by_devices)
                        for send_back in (_stay, _stay_by_devices, _send_back)
                    ),
                    says="The tokens are not sent to their experts: experts of a token's own "
                    "device work on it.",
                ),
                "experts-in-turn": Mistake(
                    _of_experts_in_turn,
                    partial(_exchange_otherwise, send=_send_in_turn),
                    says="Tokens reach another expert than their own: experts are given to the "
                    "devices in turn here. Expected: device 0 has the first experts, and so on.",
                ),
                "one-way-along-0": Mistake(
                    partial(_exchange_otherwise, send=_send_along_0),
                    partial(_exchange_otherwise, send_back=_send_back_along_0),
                    says="Tokens or results are in the wrong places, as if one of the two "
                    "exchanges concatenated along dimension 0 what comes from the devices, and a "
                    "reshape, which changes no order, followed. Is it on the way to the experts, "
                    "or on the way back?",
                ),
                "places-by-devices": _moe(_kept_by_devices),
                "two-experts": Mistake(
                    _add_second_experts,
                    partial(_add_second_experts, own=True),
                    says="Each token goes to two experts here, and their outputs are added up. "
                    "Expected: only the one with the largest score.",
                ),
                "added-up": Mistake(
                    _add_in_the_last_place,
                    partial(_add_in_the_last_place, reads=True),
                    says="Dropped tokens are added to the token in their expert's last place. "
                    "Write nothing for a token that is dropped.",
                ),
                "first-place-for-all": Mistake(
                    *(
                        partial(_place_of_all, is_kept=is_kept)
                        for is_kept in (
                            _all_kept,
                            _is_kept,
                            _kept_if_all_are,
                            partial(_kept_if_all_are, more=-1),
                        )
                    ),
                    says="All tokens with the same expert have the same place here. Along which "
                    "dimension are the tokens before each one counted?",
                ),
                "relu-at-the-end": Mistake(
                    _relu_at_the_end,
                    says="relu comes after an expert's second layer. Expected: between the two.",
                ),
                "no-relu": Mistake(
                    _moe(outputs_of=partial(_chosen_outputs, activate=lambda hidden: hidden)),
                    says="relu is missing between an expert's two layers.",
                ),
                "of-other-experts": Mistake(
                    _moe(outputs_of=partial(_chosen_outputs, choose=_regrouped)),
                    says="Some tokens are worked on by another expert of the same device. "
                    "all_to_all concatenates what comes from the devices: along which dimension?",
                ),
                "in-order-of-experts": Mistake(
                    _in_order_of_experts,
                    says="The results are in the order in which the tokens were sent, sorted by "
                    "expert. Each has to return to the place of its token.",
                ),
                "layers-exchanged": Mistake(
                    _moe(outputs_of=_layers_exchanged),
                    says="The experts' second layer comes first. Expected: up, relu, and then "
                    "down.",
                ),
                "other-activation": Mistake(
                    *(
                        _moe(outputs_of=partial(_chosen_outputs, activate=activate))
                        for activate in (jax.nn.gelu, jax.nn.silu, np.tanh, np.abs, jax.nn.sigmoid)
                    ),
                    says="The function between an expert's two layers is not relu.",
                ),
            },
            {
                "other-factor": _has_other_factors,
                "others-kept": Mistake(
                    _keeps_other_tokens,
                    says="The outputs of tokens are right or zero, but other tokens are dropped "
                    "than expected. A token is kept if, on its device, fewer tokens before it than "
                    "there are places have chosen the same expert.",
                ),
                "not-chosen": Mistake(
                    _is_of_other_experts,
                    says="Some tokens are worked on by an expert that they have not chosen. The "
                    "blocks of up and down say which experts a device has. Do tokens, and results "
                    "on the way back, arrive in this order?",
                ),
                "of-other-tokens": Mistake(
                    _is_of_other_tokens,
                    says="Some tokens get the result of another one. Does each token read the "
                    "place in which it was sent, are places counted from 0, and is a token "
                    "without a place dropped?",
                ),
            },
            under_mesh=True,
            draw=_draw_routing,
        ),
        PlacedLike(
            "moe",
            "\n".join(map(str, range(8))),
            tuple((tokens, features) for _, tokens, features, *_ in LAYERS_OF_EXPERTS),
            elsewhere=("\n".join(map(str, range(4))),),
        ),
        CommunicatesAtMost(
            "moe",
            tuple(
                (Budget("all-to-all", ("expert",), 2 * 4 * (tokens // n // experts) * experts * f),)
                for n, tokens, f, _, experts in LAYERS_OF_EXPERTS
            ),
        ),
    ),
    about=(CommunicatesAtMost,),
    weights={"moe": 9},
    hints=(
        "Work on one device first. argmax says which expert a token has chosen. A token's place "
        "is the number of tokens before it with the same choice: a cumulative sum of one-hot rows "
        "counts them. It is kept if its place is less than the capacity.",
        "Write the kept tokens into an array of shape (experts, capacity, features), at [chosen, "
        "place]. lax.all_to_all(…, split_axis=0, concat_axis=1, tiled=True) sends each expert's "
        "part to its device, which then has the places of all devices in one dimension.",
        "An einsum runs all of a device's own experts at once. The second all_to_all exchanges "
        "split_axis and concat_axis. Then each token reads its result at [chosen, place]. "
        'Outside of the array, .at[…].set(…, mode="drop") writes nothing, and '
        '.at[…].get(mode="fill", fill_value=0) reads zeros.',
    ),
    diagnoses={
        "moe: values": "Follow one token: its expert, its place among the tokens of its device for "
        "this expert, the device that has the expert, the expert's number on that device, and the "
        "way back to the token's row. Which step differs?",
        "over-the-batch": "The capacity is counted over the tokens of all devices here. Each "
        "device has its own places for each expert, so it need not know of the others' tokens.",
        "only-the-first": "In that case a device's tokens are not a multiple of the experts, and "
        "the capacity is rounded down.",
        "dropped: nothing-but-zeros": "No token is dropped here. How many tokens does a device "
        "have, and how many places for each expert?",
        "one-too-few": "One place of each expert stays empty. The first token's place is 0.",
        "one-too-many": "One token more than the capacity is kept. The first one's place is 0, so "
        "the last one's is capacity - 1.",
        "smallest-scores": "A token chooses the expert with the largest score, not the smallest.",
        "moe: split-does-not-divide": "On the way to the experts, dimension 0 is split, and on the "
        "way back dimension 1.",
        "dropped: dtype": "A sum of integers is an integer, and a mean of them is not.",
        "places-by-devices": "The tokens of a device are divided by the number of devices here. "
        "Expected: by that of experts.",
        "other-factor": "The factor is not the probability of the expert: the softmax of the "
        "token's scores over all experts, at the expert that it has chosen.",
        "dropped: not-replicated": "Each device counts its own dropped tokens. Are these numbers "
        "added up over the devices?",
        "dropped: all-gather": "Each device can count its own tokens. Only these numbers have to "
        "be added up.",
        "moe: all-gather": "Only places for tokens travel here. Neither the tokens of all devices "
        "nor the experts' weights fit on one device.",
        "moe: too-many-bytes": "Two all-to-alls are enough, one to the experts and one back, each "
        "of an array with capacity places for each expert, and with the tokens' own numbers: a "
        "device knows its tokens' probabilities.",
    },
)


# 12.10: mixed precision

SHORT_STEPS: Final = ((8, 32, 6, 768, 1), (4, 24, 5, 640, 3), (4, 16, 7, 3, 4))
"""Tuples of (devices, rows and columns of the weights, microbatches, examples on one device).

Of many microbatches, one that is left out is less than bfloat16 rounds off. Of three, it is not. No
number of examples is the ratio of two numbers of devices, so that it follows which is meant.
"""

LEARNING_RATE: Final = 0.001


def _round(values: Any) -> Any:
    """Round to bfloat16."""
    return np.asarray(values, np.float32).astype(jnp.bfloat16)


def _short_step_arguments(
    n: int, rows: int, columns: int, microbatches: int, own: int
) -> tuple[Argument, ...]:
    """Return the weights, examples and answers of a step.

    The examples are such that gradients hardly differ from one microbatch to the next. Noise would
    be rounded up as often as down, and then a sum in bfloat16 loses little. From row to row they
    grow, so that each device has to update its own.
    """
    mesh = (("data", n),)

    def examples(width: int, scale: float, shift: float, growth: float = 0.0) -> Argument:
        sizes = (microbatches, own * n, width)
        argument = Argument(sizes, mesh, (None, "data"), "bfloat16", "auto", scale, shift)
        every = ((0, microbatches), (0, own * n))
        grown = tuple(
            Adjustment((*every, (i, i + 1)), add=growth * i / width) for i in range(1, width)
        )
        return argument.but(adjustments=grown) if growth else argument

    return (
        Argument((rows, columns), mesh, ("data",), mode="auto"),
        examples(rows, 0.05, 0.25, growth=0.5),
        examples(columns, 0.25, 3.0),
    )


def _slopes(master: Any, X: Any, Y: Any) -> tuple[Any, int]:
    """Return the gradient of the sum of the squared errors, and the number of examples."""
    x, y = (np.asarray(a, np.float32).reshape(-1, a.shape[-1]) for a in (X, Y))
    return 2 * x.T @ (x @ _round(master).astype(np.float32) - y), len(x)


def _moved(
    factor: Callable[[int, int, int], float] = lambda n, microbatches, own: 1.0,
    start: Callable[[Any], Any] = lambda master: master,
    end: Callable[[Any], Any] = lambda moved: moved,
) -> Callable[..., Any]:
    """Return a step.

    Args:
        factor: a factor of the gradient, for the devices, microbatches and examples on a device.
        start: what becomes of the weights before the step.
        end: what becomes of the weights after it.
    """

    def moved(master: Any, X: Any, Y: Any) -> Any:
        total, count = _slopes(master, X, Y)
        n, *_, microbatches, own = next(s for s in SHORT_STEPS if s[3] == len(X))
        change = LEARNING_RATE * factor(n, microbatches, own) * total / count
        return np.asarray(end(start(master) - change), np.float32)

    return moved


def _gathered_first_rows(master: Any) -> Any:
    """Return, for each device, the first rows of the gathered weights."""
    n = next(n for n, rows, *_ in SHORT_STEPS if rows == len(master))
    return np.tile(_round(master[: len(master) // n]).astype(np.float32), (n, 1))


def _step_of_some(
    master: Any,
    X: Any,
    Y: Any,
    some: slice,
    factor: Callable[[int], float],
) -> Any:
    """Return a step with the gradient of some microbatches, divided by a number of them.

    Args:
        master: the weights.
        X: the examples.
        Y: the answers.
        some: which microbatches.
        factor: the number by which their sum is divided, for the number of all microbatches.
    """
    total, count = _slopes(master, X[some], Y[some])
    change = LEARNING_RATE * total / (count * factor(len(X)))
    return np.asarray(master - change, np.float32)


def _is_a_sum(inputs: Any, output: Any) -> bool:
    """Check whether a step is too long by a number of examples, up to the roundings of bfloat16."""
    master, examples, _ = inputs
    n, *_, microbatches, own = next(s for s in SHORT_STEPS if s[3] == len(examples))
    right, made = (moved - master for moved in (_moved()(*inputs), output))
    factor = float((made * right).sum() / (right * right).sum())
    counts = [n, microbatches, own, n * own, microbatches * own, n * microbatches * own]
    is_multiple = np.linalg.norm(made - factor * right) < 0.03 * np.linalg.norm(made)
    return bool(is_multiple) and any(math.isclose(factor, c, rel_tol=0.03) for c in counts if c > 1)


def _has_rounded_weights(inputs: Any, output: Any) -> bool:
    """Check whether weights were rounded to bfloat16 before or after a step, whatever else was."""
    lost = _round(inputs[0]).astype(np.float32) - inputs[0]
    off = output - _moved()(*inputs)
    is_lost_before = np.linalg.norm(off - lost) < 0.3 * np.linalg.norm(lost)
    is_lost_after = np.array_equal(_round(output).astype(np.float32), output)
    is_little = np.linalg.norm(off) < 2 * np.linalg.norm(lost)  # zeros need no rounding either
    return bool(is_lost_before or (is_lost_after and is_little))


def _many_steps(master: Any, X: Any, Y: Any, divides: bool = True) -> Any:
    """Return the weights after a step for each microbatch.

    With `divides`, a step is as long as if its microbatch were all examples; otherwise it has the
    microbatch's share of the mean over all.
    """
    share = 1.0 if divides else float(len(X))
    for x, y in zip(X, Y, strict=True):
        master = _step_of_some(master, x[None], y[None], slice(None), lambda count: share)
    return master


def _added_up_in_bfloat16(master: Any, X: Any, Y: Any, order: int = 1) -> Any:
    """Return a step in which each device adds up its gradients in bfloat16, from first to last.

    With an order of -1 it adds them up from last to first, as the backward pass of a loop does.
    """
    n = next(n for n, *_, count, _ in SHORT_STEPS if count == len(X))
    weights = _round(master).astype(np.float32)
    x, y = (np.asarray(a, np.float32).reshape(len(a), n, -1, a.shape[-1]) for a in (X, Y))
    off = x @ weights - y
    total = np.zeros((n, *master.shape), jnp.bfloat16)
    for gradient in 2 * np.einsum("mner,mnec->mnrc", x, off)[::order]:
        total = _round(total.astype(np.float32) + _round(gradient).astype(np.float32))
    mean = total.astype(np.float32).sum(0) / (x.shape[0] * n * x.shape[2])
    return master - np.float32(LEARNING_RATE) * mean


def _stalls_at(bits: int) -> Callable[[float], float]:
    """Return the function for a type whose numbers have so many significant bits."""
    return lambda increment: float(2.0 ** (bits + np.ceil(np.log2(increment))))


def _sums_in_bfloat16(increment: float) -> list[float]:
    """Return the sums after each addition that changes something."""
    step, total, sums = _round(increment), _round(0), list[float]()
    while (total := total + step) != (sums[-1] if sums else 0):
        sums.append(float(total))
    return sums


def _sum_that_grows_by_less(increment: float) -> float:
    """Return the first sum that grows by less than the increment."""
    sums = [0.0, *_sums_in_bfloat16(increment)]
    grown = (total for total, after in itertools.pairwise(sums) if after - total < increment)
    return next(grown, sums[-1])


def _stall_in_float16(increment: float) -> float:
    step, total, before = np.float16(increment), np.float16(0), np.float16(-1)
    with np.errstate(over="ignore"):
        while total != before:
            total, before = total + step, total
    return float(total)


def _sum_of_unrounded(increment: float, by: Callable[[float, float], Any]) -> float:
    """Return the exact sum to which the next increment adds nothing in bfloat16.

    Args:
        increment: the increment.
        by: returns the next sum in bfloat16.
    """
    total = increment
    while by(total, increment) != _round(total):
        total += increment
    return total


def _sample_increments(rng: np.random.Generator) -> list[tuple[float]]:
    """Sample bfloat16 numbers: some nearer to the power of two below, others to that above."""
    drawn = [10 ** rng.uniform(-4, 2) for _ in range(6)]
    power = 2.0 ** rng.integers(-8, 5)
    drawn += [power, power * 2 ** rng.uniform(0.1, 0.4), power * 2 ** rng.uniform(0.6, 0.9)]
    drawn.append(10 ** rng.uniform(-7, -6))  # a sum that does not begin at 0 shows here
    return [(1.0,), *((float(_round(each)),) for each in drawn)]


def _short_budgets(rows: int, columns: int) -> tuple[RequestedCollective, ...]:
    """Return the two collectives of a step, each with numbers of two bytes."""
    return tuple(
        RequestedCollective(kind, 1, ("data",), 2 * rows * columns, dtype="bf16")
        for kind in ("all-gather", "reduce-scatter")
    )


MIXED_PRECISION: Final = Exercise(
    id="12.10",
    title="Mixed precision",
    afterwards="With float16 in place of bfloat16, small gradients become zero, so losses are "
    "multiplied by a large number before the backward pass. bfloat16 has the range of float32.",
    requirements=(
        Returns(
            "stalls_at",
            "stalls_at(increment) must return the sum at which adding the increment in bfloat16 "
            "changes nothing any more.",
            _sample_increments,
            _stalls_at(8),
            {
                "whole-spacing": Mistake(
                    _stalls_at(7),
                    says="Here the increment is compared with the whole distance to the next "
                    "number. A result is rounded to the nearest number, so half of the distance "
                    "counts.",
                ),
                "two-spacings": Mistake(
                    _stalls_at(9),
                    says="bfloat16 has 8 significant bits, counting the first, which is not "
                    "stored.",
                ),
                "of-float16": Mistake(
                    _stalls_at(11),
                    _stall_in_float16,
                    says="This holds for float16, which has 11 significant bits.",
                ),
                "of-float32": Mistake(
                    _stalls_at(24), says="This holds for float32, which has 24 significant bits."
                ),
                "rounded-down": Mistake(
                    lambda increment: float(2.0 ** (8 + np.floor(np.log2(increment)))),
                    says="This sum still grows, unless the increment is a power of two: the "
                    "increment is more than half of the distance to the next number.",
                ),
                "not-a-power": Mistake(
                    lambda increment: 256.0 * increment,
                    says="The distance between numbers doubles at powers of two, so the sum stops "
                    "at one of them.",
                ),
                "other-multiple": Mistake(
                    *(
                        partial(lambda times, increment: times * increment, times)
                        for times in (128.0, 512.0)
                    ),
                    says="The sum of 1.0 stops at 256, because from there to 512 the distance "
                    "between numbers is 2. For any increment, the sum stops at a power of two.",
                ),
                "to-the-nearest-power": Mistake(
                    lambda increment: float(2.0 ** (8 + np.round(np.log2(increment)))),
                    says="Here the increment is rounded to the nearest power of two. If it is more "
                    "than half of the distance to the next number, the sum still grows.",
                ),
                "one-power-more": Mistake(
                    lambda increment: float(2.0 ** (9 + np.floor(np.log2(increment)))),
                    says="If the increment is a power of two, the sum stops one power earlier: an "
                    "increment of exactly half of the distance is rounded to the even number.",
                ),
                "grows-by-less": Mistake(
                    _sum_that_grows_by_less,
                    says="This sum still grows, by less than the increment: the result is rounded. "
                    "It stops when an addition changes nothing.",
                ),
                "how-many": Mistake(
                    lambda increment: _stalls_at(8)(increment) / increment,
                    lambda increment: len(_sums_in_bfloat16(increment)),
                    says="This is how often the increment is added. Expected: the sum at which it "
                    "stops.",
                ),
                "not-rounded": Mistake(
                    *(
                        partial(_sum_of_unrounded, by=by)
                        for by in (
                            lambda total, increment: _round(total + increment),
                            lambda total, increment: _round(total) + _round(increment),
                        )
                    ),
                    says="The sum is kept exactly here, and only compared in bfloat16. Expected: a "
                    "sum that is rounded to bfloat16 after each addition.",
                ),
                "upside-down": Mistake(
                    lambda increment: 256.0 / increment,
                    says="A sum of larger increments stops later, and not earlier.",
                ),
                "the-sum-before": Mistake(
                    lambda increment: _stalls_at(8)(increment) - increment,
                    lambda increment: _sums_in_bfloat16(increment)[-2],
                    says="This is the last sum but one.",
                ),
                "added-again": Mistake(
                    *(
                        partial(
                            lambda times, increment: _stalls_at(8)(increment) + times * increment,
                            times,
                        )
                        for times in (1, 2)
                    ),
                    says="This is the sum at which it stops, and the increment once or twice more. "
                    "In bfloat16, these additions change nothing.",
                ),
                "natural-logarithm": lambda increment: float(
                    2.0 ** (8 + np.ceil(np.log(increment)))
                ),
            },
        ),
        Computes(
            "mixed_step",
            "mixed_step(master, X, Y) must return the float32 weights after a step with the mean "
            "gradient of all examples.",
            _moved(),
            tuple(_short_step_arguments(*sizes) for sizes in SHORT_STEPS),
            {
                "added-up-in-bfloat16": Mistake(
                    _added_up_in_bfloat16,
                    partial(_added_up_in_bfloat16, order=-1),
                    says="The gradients are added up in bfloat16, and the sum stops growing long "
                    "before the last microbatch. Which dtype has the carry of the loop? (The "
                    "gradient of a whole loop is added up in the dtype of the weights: take the "
                    "gradient within each turn.)",
                ),
                "rounded-weights": Mistake(
                    _moved(start=_round),
                    _moved(end=_round),
                    _moved(start=_round, end=_round),
                    says="The weights are rounded to bfloat16 before or after the update. This "
                    "loses up to 0.4 % of a weight in each step, and an update may be smaller than "
                    "that. Update the float32 weights.",
                ),
                "sum-for-mean": Mistake(
                    _moved(lambda n, microbatches, own: n * microbatches * own),
                    _moved(lambda n, microbatches, own: n),
                    _moved(lambda n, microbatches, own: microbatches),
                    _moved(lambda n, microbatches, own: microbatches * own),
                    _moved(lambda n, microbatches, own: n * own),
                    _moved(lambda n, microbatches, own: own),
                    says="The gradient is too large. Divide by the number of examples, in all "
                    "microbatches and on all devices.",
                ),
                "averaged-twice": Mistake(
                    _moved(lambda n, microbatches, own: 1 / n),
                    says="The gradient is too small by the number of devices.",
                ),
                "divided-by-outputs": Mistake(
                    lambda master, X, Y: _step_of_some(
                        master, X, Y, slice(None), lambda count: Y.shape[-1]
                    ),
                    says="The gradient is divided by the number of outputs, too. The error of an "
                    "example is a sum over them. Expected: the mean over the examples.",
                ),
                "many-steps": Mistake(
                    _many_steps,
                    partial(_many_steps, divides=False),
                    says="A step is made for each microbatch. Expected: one step with the gradient "
                    "of all of them.",
                ),
                "microbatches-twice": Mistake(
                    _moved(lambda n, microbatches, own: 1 / microbatches),
                    says="The gradient is too small: it is divided by the number of microbatches "
                    "twice.",
                ),
                "averaged-again": Mistake(
                    _moved(lambda n, microbatches, own: 1 / own),
                    says="The gradient is too small: it is averaged over a microbatch's examples "
                    "twice.",
                ),
                "first-rows": _moved(start=_gathered_first_rows),
                "other-direction": Mistake(
                    _moved(lambda n, microbatches, own: -1.0),
                    says="The gradient is added. A step goes against it.",
                ),
                "last-microbatch": Mistake(
                    *(
                        partial(_step_of_some, some=some, factor=factor)
                        for some in (slice(-1, None), slice(1))
                        for factor in (float, lambda count: 1.0)
                    ),
                    says="Only one of the microbatches counts. The gradients of all of them have "
                    "to be added up.",
                ),
                "one-missing": Mistake(
                    *(
                        partial(_step_of_some, some=some, factor=factor)
                        for some in (slice(1, None), slice(-1))
                        for factor in (lambda count: 1.0, lambda count: count / (count - 1))
                    ),
                    says="The first or the last microbatch is missing in the sum.",
                ),
            },
            {
                "sum-for-mean": _is_a_sum,
                "rounded-weights": _has_rounded_weights,
            },
            under_mesh=True,
        ),
        KeepsLayouts("mixed_step", "new weights with the layout of the old ones"),
        Requests("mixed_step", tuple(_short_budgets(*sizes[1:3]) for sizes in SHORT_STEPS)),
    ),
    about=(Returns, Requests),
    weights={"mixed_step": 3},
    hints=(
        "For stalls_at: a sum stops when half of the distance to the next bfloat16 is at least the "
        "increment. Between 1 and 2 this distance is 1/128, and it doubles at each power of two.",
        "For mixed_step, follow the dtypes. The weights are float32 on their device, and bfloat16 "
        "from before the all-gather to the gradient of a microbatch. What is the dtype of the "
        "carry in which you add up gradients, and that of the reduce-scatter's argument?",
        "jax.grad with respect to gathered bfloat16 weights returns a bfloat16 gradient. Add "
        "gradient.astype(jnp.float32) to a float32 carry, which has to vary over data. Convert the "
        "sum for lax.psum_scatter, and its result back, before you divide and update.",
    ),
    diagnoses={
        "mixed_step: values": "Does each device change its own rows of master, by 0.001 times the "
        "mean gradient of all examples? Which rows of the gradient does it get from the sum over "
        "the devices?",
        "change-alone": "An update begins with the old weights.",
        "other-change": "Expected: the sum of the gradients, divided by the number of examples in "
        "all microbatches and on all devices, times the rate.",
        "stalls_at: natural-logarithm": "Which logarithm is this? The distance doubles at powers "
        "of two.",
        "mixed_step: first-rows": "Each device updates the first rows of the gathered weights. "
        "Expected: its own rows, in float32.",
        "sends-too-much": "A bfloat16 has two bytes. Are the weights converted before they are "
        "gathered, and the sum of the gradients before it is scattered?",
        "other-type": "float16 has as many bytes, and a smaller range.",
        "too-often": "Gather the weights once, before the loop, and scatter the sum once after it.",
    },
)
