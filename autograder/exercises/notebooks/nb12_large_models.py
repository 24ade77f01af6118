"""Notebook 12: large models, and where their time goes.

Times are modelled, so every right number follows from formulas that the prompts state. A schedule
is judged as data: the judge computes when each job runs, so made-up times earn nothing.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from autograder.judge import AnyOf, Exercise, Returns

# 12.1: latency and bandwidth


def _log2(n: int) -> int:
    return n.bit_length() - 1


def _steps(
    count: Callable[[int], float],
    latencies: Callable[[int], float],
    share: Callable[[int], float],
) -> Callable[..., float]:
    """Return the time of a collective whose steps each send a share of the buffer.

    Args:
        count: the number of sends, one after another, for a number of devices.
        latencies: how often the latency counts.
        share: the share of the buffer that each of them sends.
    """

    def seconds(n: int, size: float, latency: float, bandwidth: float) -> float:
        return latencies(n) * latency + count(n) * share(n) * size / bandwidth

    return seconds


def _whole(n: int) -> float:
    return 1.0


def _piece(n: int) -> float:
    return 1 / n


def _others(n: int) -> int:
    return n - 1


def _ring_steps(n: int) -> int:
    return 2 * (n - 1)


EXCHANGE: Final = _steps(_others, lambda n: 1, _whole)
DOUBLING: Final = _steps(_log2, _log2, _whole)
RING: Final = _steps(_ring_steps, _ring_steps, _piece)


def _equal_from(one: Callable[..., float], other: Callable[..., float]) -> Callable[..., float]:
    """Return the size at which two collectives take equally long; both are linear in the size."""

    def size(n: int, latency: float, bandwidth: float) -> float:
        ahead = one(n, 0, latency, bandwidth) - other(n, 0, latency, bandwidth)
        gained = other(n, bandwidth, 0, bandwidth) - one(n, bandwidth, 0, bandwidth)
        return ahead / gained * bandwidth

    return size


RING_FROM: Final = _equal_from(RING, DOUBLING)


def _draw_buffers(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample numbers of devices, buffers and machines, small and large ones of each."""
    return [
        (
            int(2**k),
            int(2 ** rng.uniform(8, 28)),
            float(f"{10 ** rng.uniform(-6, -4):.2g}"),
            float(f"{10 ** rng.uniform(9, 12):.2g}"),
        )
        for k in (3, *rng.permutation([1, 2, 4, 5, 7]))
    ]


def _draw_machines(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(n, latency, bandwidth) for n, _, latency, bandwidth in _draw_buffers(rng) if n > 2]


def _scaled(by: Callable[[int], float], function: Callable[..., float]) -> Callable[..., float]:
    """Return a function whose results are multiplied by a factor that depends on n."""
    return lambda n, *rest: by(n) * function(n, *rest)


LATENCY: Final = Exercise(
    id="12.1",
    title="Latency and bandwidth",
    afterwards="Libraries choose in this way: NCCL compares modelled times of rings and trees "
    "before each collective, and inference servers use a single exchange for small buffers.",
    requirements=(
        Returns(
            "exchange",
            "exchange(n, size, latency, bandwidth) must return the seconds of an all-reduce in one "
            "exchange.",
            _draw_buffers,
            EXCHANGE,
            {
                "one-copy": _steps(lambda n: 1, lambda n: 1, _whole),
                "waits-each-time": _steps(_others, _others, _whole),
                "to-itself": _steps(lambda n: n, lambda n: 1, _whole),
                "pieces-alone": _steps(_others, lambda n: 1, _piece),
            },
        ),
        Returns(
            "doubling",
            "doubling(n, size, latency, bandwidth) must return the seconds of an all-reduce by "
            "recursive doubling.",
            _draw_buffers,
            DOUBLING,
            {
                "up-and-down": _steps(lambda n: 2 * _log2(n), lambda n: 2 * _log2(n), _whole),
                "grows": _steps(_others, _log2, _whole),
                "every-other": _steps(_others, _others, _whole),
                "one-latency": _steps(_log2, lambda n: 1, _whole),
                "halves": AnyOf(
                    (
                        _steps(lambda n: 1 - 1 / n, _log2, _whole),
                        _steps(_log2, _log2, _piece),
                    )
                ),
            },
        ),
        Returns(
            "ring",
            "ring(n, size, latency, bandwidth) must return the seconds of an all-reduce in a ring.",
            _draw_buffers,
            RING,
            {
                "once-round": _steps(_others, _others, _piece),
                "one-latency": AnyOf(
                    (
                        _steps(_ring_steps, lambda n: 1, _piece),
                        _steps(_ring_steps, lambda n: 2, _piece),
                    )
                ),
                "whole-buffer": _steps(_ring_steps, _ring_steps, _whole),
                "n-steps": _steps(lambda n: 2 * n, lambda n: 2 * n, _piece),
            },
        ),
        Returns(
            "ring_from",
            "ring_from(n, latency, bandwidth) must return the size from which on a ring is the "
            "fastest of the three.",
            _draw_machines,
            RING_FROM,
            {
                "against-the-exchange": _equal_from(RING, EXCHANGE),
                "others-against-each-other": _equal_from(DOUBLING, EXCHANGE),
                "product-alone": lambda n, latency, bandwidth: latency * bandwidth,
                "size-of-a-piece": _scaled(lambda n: 1 / n, RING_FROM),
                "in-seconds": lambda n, latency, bandwidth: (
                    RING_FROM(n, latency, bandwidth) / bandwidth
                ),
                "once-round": _equal_from(_steps(_others, _others, _piece), DOUBLING),
            },
        ),
    ),
    hints=(
        "For each way, count two things: the steps that happen one after another, which wait for "
        "the latency, and the bytes that one device sends in all.",
        "In the exchange, a device sends its whole buffer to n - 1 others, and they all start at "
        "once. In doubling, the groups whose sums are known have 2, 4, 8, … devices. In the ring, "
        "an all-reduce is a reduce-scatter and an all-gather.",
        "For ring_from, set two of the times equal and solve for size. The ring has to beat both "
        "of the others: with n of 4 or more, which of the two is the faster one where the ring "
        "overtakes it?",
    ),
    diagnoses={
        "one-copy": "This is the time of one message. A device sends its buffer to n - 1 others, "
        "and all of these bytes leave through the same link.",
        "waits-each-time": "The latency counts n - 1 times here. The messages need not wait for "
        "one another, so they share one latency.",
        "to-itself": "A device sends to n - 1 others, and not to itself.",
        "pieces-alone": "A device sends a piece to each of the others here. Nobody adds up pieces "
        "for the others, so each of them needs the whole buffer.",
        "up-and-down": "This is a tree: the sum goes up to one device and comes down again, so "
        "there are twice as many steps. In doubling, both partners have the sum after each step.",
        "grows": "The buffers grow here from step to step, as in an all-gather. A sum of buffers "
        "is as large as one buffer.",
        "every-other": "There are n - 1 steps here. After one step 2 devices have the same sum, "
        "after two steps 4: how many steps are needed for n?",
        "one-latency": "The latency hardly counts here. Each step begins when the one before has "
        "ended, so it waits for the latency again.",
        "halves": "The buffers are smaller than size here. In each step of doubling, a device "
        "sends the whole buffer.",
        "once-round": "This is one round of the ring. An all-reduce is a reduce-scatter and an "
        "all-gather, so it takes two.",
        "whole-buffer": "The whole buffer is sent in each step here. In a ring, a step sends one "
        "of n pieces.",
        "n-steps": "There are 2 n steps here. A piece has to reach the n - 1 other devices.",
        "against-the-exchange": "From this size on the ring is faster than a single exchange. "
        "Where it overtakes the exchange, doubling is faster than both.",
        "others-against-each-other": "At this size doubling and the exchange take equally long. "
        "Expected: the size at which the ring overtakes them.",
        "product-alone": "In latency * bandwidth bytes, one message spends as much time on its "
        "bytes as on its latency. How many of these does the ring need, with n devices?",
        "size-of-a-piece": "This is the size of one of n pieces. Expected: that of the buffer.",
        "in-seconds": "This is a time. Expected: a number of bytes.",
    },
)

EXERCISES: Final = (LATENCY,)
