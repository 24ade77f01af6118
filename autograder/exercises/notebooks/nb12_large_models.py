"""Notebook 12: large models, and where their time goes.

Times are modelled, so every right number follows from formulas that the prompts state. A schedule
is judged as data: the judge computes when each job runs, so made-up times earn nothing.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder.artifacts import (
    BACKWARD,
    FORWARD,
    Argument,
    PipelineRun,
    draw_overlap,
    draw_pipelines,
    explain_buckets,
    explain_orders,
    explain_waiting,
    run_overlap,
    run_pipeline,
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
    Terms,
)
from shardlings.pictures import GanttChart, JobBar

Problem = tuple[str, str]
"""A diagnosis, and a sentence for the learner."""

Charts = tuple[GanttChart, ...]

GREY, BLUE, ORANGE, PINK = "#c2c2c2", "#9ad2f2", "#e69e66", "#e0afca"
"""Light colours, which colour-blind readers can distinguish."""

MAX_DRAWN: Final = 3
"""A time that is more times as long as the right one is cut off."""


def _draw_beside(
    title: str, lanes: dict[str, list[JobBar]], result: Any, right: float, start: float = 0
) -> Charts:
    """Draw the right time of something, in lanes, and a learner's time below it.

    Args:
        title: the title of the chart.
        lanes: what takes the time, in the unit of `right`.
        result: the learner's number, which may be anything.
        right: the right number.
        start: when the time begins.
    """
    bars = []
    if isinstance(result, int | float) and 0 < result < float("inf"):
        drawn = min(float(result), MAX_DRAWN * (start + right))
        name = "your time" if drawn == result else "the beginning of your time"
        bars = [JobBar(name, f"{result:.4g}", PINK, start, start + drawn)]
    return (GanttChart.of(f"expected, {title}", lanes | {"yours": bars}),)


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


def _sample_buffers(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample numbers of devices, buffers and machines, small and large ones of each.

    Eight devices come three times, so that it follows how often each term counts.
    """
    return [
        (
            int(2**k),
            int(2 ** rng.uniform(8, 28)),
            float(f"{10 ** rng.uniform(-6, -4):.2g}"),
            float(f"{10 ** rng.uniform(9, 12):.2g}"),
        )
        for k in (3, 3, 3, *rng.permutation([1, 2, 4, 5, 7]))
    ]


def _sample_machines(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample numbers of devices and machines; with the last two, a rounded size is another one."""
    sampled = [
        (n, latency, bandwidth) for n, _, latency, bandwidth in _sample_buffers(rng) if n > 2
    ]
    return [*sampled, (16, 1.3e-6, 1.07e8), (128, 1.3e-6, 1.07e8)]


def _scaled(by: Callable[[int], float], function: Callable[..., float]) -> Callable[..., float]:
    """Return a function whose results are multiplied by a factor that depends on n."""
    return lambda n, *rest: by(n) * function(n, *rest)


def _with_bandwidth_multiplied(function: Callable[..., float]) -> Callable[..., float]:
    """Return a time in which bytes are multiplied by the bandwidth."""
    return lambda n, size, latency, bandwidth: function(n, size, latency, 1 / bandwidth)


def _with_devices(n: int, *rest: Any) -> str:
    return f"with {n} devices"


LATENCIES_AND_BUFFERS: Final = Terms(
    _with_devices,
    {
        "latency": lambda n, size, latency, bandwidth: latency,
        "size / bandwidth": lambda n, size, latency, bandwidth: size / bandwidth,
    },
)

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
            _sample_buffers,
            EXCHANGE,
            {
                "one-copy": Mistake(
                    _steps(lambda n: 1, lambda n: 1, _whole),
                    says="This is the time of one message. A device sends its buffer to n - 1 "
                    "others, and all of these bytes leave through the same link.",
                ),
                "waits-each-time": Mistake(
                    _steps(_others, _others, _whole),
                    says="The latency counts n - 1 times here. The messages need not wait for one "
                    "another, so they share one latency.",
                ),
                "to-itself": Mistake(
                    _steps(lambda n: n, lambda n: 1, _whole),
                    says="A device sends to n - 1 others, and not to itself.",
                ),
                "times-bandwidth": _with_bandwidth_multiplied(EXCHANGE),
                "of-eight": lambda n, *rest: EXCHANGE(8, *rest),
                "pieces-alone": Mistake(
                    _steps(_others, lambda n: 1, _piece),
                    says="A device sends a piece to each of the others here. Nobody adds up pieces "
                    "for the others, so each of them needs the whole buffer.",
                ),
            },
            terms=LATENCIES_AND_BUFFERS,
        ),
        Returns(
            "doubling",
            "doubling(n, size, latency, bandwidth) must return the seconds of an all-reduce by "
            "recursive doubling.",
            _sample_buffers,
            DOUBLING,
            {
                "up-and-down": Mistake(
                    _steps(lambda n: 2 * _log2(n), lambda n: 2 * _log2(n), _whole),
                    says="This is a tree: the sum goes up to one device and comes down again, so "
                    "there are twice as many steps. In doubling, both partners have the sum after "
                    "each step.",
                ),
                "grows": Mistake(
                    _steps(_others, _log2, _whole),
                    says="The buffers grow here from step to step, as in an all-gather. A sum of "
                    "buffers is as large as one buffer.",
                ),
                "times-bandwidth": _with_bandwidth_multiplied(DOUBLING),
                "of-eight": lambda n, *rest: DOUBLING(8, *rest),
                "every-other": Mistake(
                    _steps(_others, _others, _whole),
                    says="There are n - 1 steps here. After one step 2 devices have the same sum, "
                    "after two steps 4: how many steps are needed for n?",
                ),
                "one-latency": _steps(_log2, lambda n: 1, _whole),
                "halves": Mistake(
                    _steps(lambda n: 1 - 1 / n, _log2, _whole),
                    _steps(_log2, _log2, _piece),
                    says="The buffers are smaller than size here. In each step of doubling, a "
                    "device sends the whole buffer.",
                ),
                "natural-logarithm": Mistake(
                    *(_steps(steps, steps, _whole) for steps in (math.log, math.log10))
                ),
            },
            terms=LATENCIES_AND_BUFFERS,
        ),
        Returns(
            "ring",
            "ring(n, size, latency, bandwidth) must return the seconds of an all-reduce in a ring.",
            _sample_buffers,
            RING,
            {
                "once-round": _steps(_others, _others, _piece),
                "one-latency": Mistake(
                    _steps(_ring_steps, lambda n: 1, _piece),
                    _steps(_ring_steps, lambda n: 2, _piece),
                ),
                "whole-buffer": Mistake(
                    _steps(_ring_steps, _ring_steps, _whole),
                    says="The whole buffer is sent in each step here. In a ring, a step sends one "
                    "of n pieces.",
                ),
                "n-steps": Mistake(
                    _steps(lambda n: 2 * n, lambda n: 2 * n, _piece),
                    says="There are 2 n steps here. A piece has to reach the n - 1 other devices.",
                ),
                "times-bandwidth": _with_bandwidth_multiplied(RING),
                "of-eight": lambda n, *rest: RING(8, *rest),
            },
            terms=LATENCIES_AND_BUFFERS,
        ),
        Returns(
            "ring_from",
            "ring_from(n, latency, bandwidth) must return the size from which on a ring is the "
            "fastest of the three.",
            _sample_machines,
            RING_FROM,
            {
                "against-the-exchange": Mistake(
                    _equal_from(RING, EXCHANGE),
                    says="From this size on the ring is faster than a single exchange. Where it "
                    "overtakes the exchange, doubling is faster than both.",
                ),
                "others-against-each-other": Mistake(
                    _equal_from(DOUBLING, EXCHANGE),
                    says="At this size doubling and the exchange take equally long. Expected: the "
                    "size at which the ring overtakes them.",
                ),
                "product-alone": Mistake(
                    lambda n, latency, bandwidth: latency * bandwidth,
                    says="In latency * bandwidth bytes, one message spends as much time on its "
                    "bytes as on its latency. How many of these does the ring need, with n "
                    "devices?",
                ),
                "over-the-bandwidth": Mistake(
                    lambda n, latency, bandwidth: RING_FROM(n, latency, bandwidth) / bandwidth**2,
                    says="The latency is divided by the bandwidth here. latency * bandwidth is a "
                    "number of bytes.",
                ),
                "of-eight-devices": Mistake(
                    lambda n, *machine: RING_FROM(8, *machine),
                    says="This is the size for 8 devices, whatever n is.",
                ),
                "power-of-two": Mistake(
                    lambda *machine: 2.0 ** math.ceil(math.log2(RING_FROM(*machine))),
                    says="This is the next power of two. Expected: the size itself, which may be "
                    "any number.",
                ),
                "rounded": Mistake(
                    *(
                        partial(lambda rounded, *machine: rounded(RING_FROM(*machine)), rounded)
                        for rounded in (int, round, math.ceil)
                    ),
                    says="The size is rounded to whole bytes. Expected: the size itself.",
                ),
                "size-of-a-piece": Mistake(
                    _scaled(lambda n: 1 / n, RING_FROM),
                    says="This is the size of one of n pieces. Expected: that of the buffer.",
                ),
                "in-seconds": Mistake(
                    lambda n, latency, bandwidth: RING_FROM(n, latency, bandwidth) / bandwidth,
                    says="This is a time. Expected: a number of bytes.",
                ),
                "once-round": _equal_from(_steps(_others, _others, _piece), DOUBLING),
                "natural-logarithm": _equal_from(RING, _steps(math.log, math.log, _whole)),
            },
            terms=Terms(
                _with_devices,
                {"latency * bandwidth": lambda n, latency, bandwidth: latency * bandwidth},
            ),
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
        "one-latency": "The latency counts once here. Each step begins when the one before has "
        "ended, so it waits for the latency again.",
        "natural-logarithm": "Which logarithm is this? With 8 devices there are 3 steps.",
        "once-round": "This is one round of the ring. An all-reduce is a reduce-scatter and an "
        "all-gather, so it takes two.",
        "of-eight": "This is the time with 8 devices, whatever n is.",
        "times-bandwidth": "The bytes are multiplied by the bandwidth here. In Python, "
        "size / n * bandwidth divides by n alone.",
    },
)

# 12.2: topology


def _wraps(chip: str, length: int) -> bool:
    """Check whether an axis of a slice has wraparound links, by the rules in the prompt."""
    return length % 4 == 0 if chip in ("v4", "v5p") else length == 16


def _sample_axes(rng: np.random.Generator) -> list[tuple[str, int]]:
    chips, lengths = ("v4", "v5p", "v5e", "v6e"), (2, 4, 6, 8, 12, 16)
    axes = [(chip, length) for chip in chips for length in lengths]
    axes += [("v5p", 20), ("v5p", 24), ("v5e", 32), ("v6e", 32)]
    return [axes[i] for i in rng.permutation(len(axes)).tolist()]


def _gather(n: int, size: float, link: float, wraps: bool) -> float:
    """Return the time until the last chip of a row has every other chip's piece."""
    return (n - 1) * size / n / link / (2 if wraps else 1)


def _sample_rows(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (int(n), int(n) * int(2 ** rng.uniform(17, 28)), float(link), wraps)
        for n in (8, 8, *rng.choice([4, 12, 16], 2, replace=False))
        for link in (rng.choice([45e9, 50e9, 100e9]),)
        for wraps in (True, False)
    ]


def _levels(
    within: Callable[[int, int], float], across: Callable[[int, int], float]
) -> Callable[..., float]:
    """Return the time of an all-reduce over several hosts.

    Args:
        within: how often the buffer is sent within a host, for the numbers of hosts and of chips.
        across: how often it is sent between hosts.
    """

    def seconds(hosts: int, chips: int, size: float, fast: float, slow: float) -> float:
        return within(hosts, chips) * size / fast + across(hosts, chips) * size / slow

    return seconds


def _rounds(n: int) -> float:
    """Return how often a ring sends a buffer for an all-reduce among n."""
    return 2 * (n - 1) / n


def _flat_on_average(hosts: int, chips: int, size: float, fast: float, slow: float) -> float:
    """Return the time of one ring whose links all have the mean of the bandwidths: a mistake."""
    n = hosts * chips
    return _rounds(n) * size * n / (hosts * slow + (n - hosts) * fast)


FLAT: Final = _levels(lambda h, c: 0, lambda h, c: _rounds(h * c))
TWO_LEVELS: Final = _levels(lambda h, c: _rounds(c), lambda h, c: _rounds(h) / c)


def _sample_clusters(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (
            hosts or int(rng.integers(2, 9)),
            chips or int(rng.choice([4, 8, 16])),
            int(2 ** rng.uniform(24, 32)),
            float(rng.choice([100e9, 200e9, 450e9])),
            float(rng.choice([3e9, 6e9, 12.5e9])),
        )
        for hosts, chips in (*3 * ((4, 8),), *4 * ((0, 0),))
    ]


def _draw_gather(result: Any, n: int, size: float, link: float, wraps: bool) -> Charts:
    """Draw when pieces arrive at the last chip, in milliseconds."""
    piece = 1e3 * size / n / link

    def arriving(order: Iterable[int], until: float) -> list[JobBar]:
        return [
            JobBar(f"piece of chip {chip}", str(chip), BLUE, i * piece, min(i + 1, until) * piece)
            for i, chip in enumerate(order)
            if i < until
        ]

    others = range(n - 2, -1, -1)
    from_each = (n - 1) / (2 if wraps else 1)
    lanes = {
        "from one side": arriving(others, from_each),
        "from the other": arriving(reversed(others), from_each if wraps else 0),
    }
    where = "a chip of a ring" if wraps else "the last chip of an open row"
    right = 1e3 * _gather(n, size, link, wraps)
    title = f"{right:.4g} ms until the pieces of {n} chips, with their numbers, are at {where}"
    return _draw_beside(title, lanes, _in_ms(result), right)


def _draw_flat(
    result: Any, hosts: int, chips: int, size: float, fast: float, slow: float
) -> Charts:
    """Draw the two rounds of a ring through all chips, in milliseconds."""
    right = 1e3 * FLAT(hosts, chips, size, fast, slow)
    bars = [
        JobBar("reduce-scatter", "reduce-scatter", ORANGE, 0, right / 2),
        JobBar("all-gather", "all-gather", BLUE, right / 2, right),
    ]
    title = f"{right:.4g} ms in one ring through {hosts} hosts of {chips} chips"
    return _draw_beside(title, {"all links": bars}, _in_ms(result), right)


def _draw_two_levels(
    result: Any, hosts: int, chips: int, size: float, fast: float, slow: float
) -> Charts:
    """Draw the three steps on two levels, in milliseconds."""
    right = 1e3 * TWO_LEVELS(hosts, chips, size, fast, slow)
    within = 1e3 * _rounds(chips) / 2 * size / fast
    lanes = {
        "within hosts": [
            JobBar("reduce-scatter", "reduce-scatter", ORANGE, 0, within),
            JobBar("all-gather", "all-gather", BLUE, right - within, right),
        ],
        "between hosts": [JobBar("all-reduce", "all-reduce", GREY, within, right - within)],
    }
    title = (
        f"{right:.4g} ms on two levels, with {hosts} hosts of {chips} chips: reduce-scatter "
        f"(orange), all-reduce (grey) and all-gather (blue)"
    )
    return _draw_beside(title, lanes, _in_ms(result), right)


FAST_AND_SLOW: Final = Terms(
    lambda hosts, chips, size, fast, slow: f"with {hosts} hosts of {chips} chips",
    {
        "size / fast": lambda hosts, chips, size, fast, slow: size / fast,
        "size / slow": lambda hosts, chips, size, fast, slow: size / slow,
    },
)


def _in_ms(result: Any) -> Any:
    return 1e3 * result if isinstance(result, int | float) else result


TOPOLOGY: Final = Exercise(
    id="12.2",
    title="Topology",
    afterwards="On a TPU, jax.make_mesh orders the chips so that mesh axes follow the links. For "
    "several slices, jax.experimental.mesh_utils has create_hybrid_device_mesh.",
    requirements=(
        Returns(
            "wraps",
            "wraps(chip, length) must say whether an axis of this length has wraparound links.",
            _sample_axes,
            _wraps,
            {
                "as-on-v5e": Mistake(
                    lambda chip, length: length == 16,
                    says="This is the rule for v5e and v6e. The larger chips, v4 and v5p, wrap "
                    "around along every axis whose length is a multiple of 4.",
                ),
                "as-on-v5p": Mistake(
                    lambda chip, length: length % 4 == 0,
                    says="This is the rule for v4 and v5p. v5e and v6e wrap around only along a "
                    "full axis of 16.",
                ),
                "always": Mistake(
                    lambda chip, length: True, says="Short axes have no wraparound links."
                ),
                "longer-than-16": Mistake(
                    lambda chip, length: (
                        length % 4 == 0 if chip in ("v4", "v5p") else length % 16 == 0
                    ),
                    lambda chip, length: length % 4 == 0 if chip in ("v4", "v5p") else length >= 16,
                    says="On v5e and v6e, this is also True for a length of 32. There is no such "
                    "axis: the full one has 16 chips.",
                ),
                "exchanged": Mistake(
                    lambda chip, length: length == 16 if chip in ("v4", "v5p") else length % 4 == 0,
                    says="The two rules are exchanged: v5e and v6e need a full axis.",
                ),
            },
        ),
        Returns(
            "gather",
            "gather(n, size, link, wraps) must return the seconds of an all-gather along a row of "
            "n chips.",
            _sample_rows,
            _gather,
            {
                "one-direction": Mistake(
                    lambda n, size, link, wraps: _gather(n, size, link, False),
                    says="In a ring, pieces arrive from both sides, so it takes half as long.",
                ),
                "always-a-ring": Mistake(
                    lambda n, size, link, wraps: _gather(n, size, link, True),
                    says="Without a wraparound link, the last chip of the row has one neighbour, "
                    "so everything arrives through one link.",
                ),
                "upside-down": lambda n, size, link, wraps: _gather(n, size, link, not wraps),
                "n-left-out": Mistake(
                    lambda n, size, link, wraps: _gather(n, size, link, wraps) * n / (n - 1),
                    says="A chip has its own piece already, so n - 1 pieces arrive.",
                ),
                "whole-buffers": Mistake(
                    lambda n, size, link, wraps: _gather(n, size, link, wraps) * n,
                    says="Each chip has one piece, size / n. size is the whole buffer afterwards.",
                ),
                "halved-once-more": Mistake(
                    lambda n, size, link, wraps: _gather(n, size, link, wraps) / 2,
                    says="This is half of it, in a ring and in a row. Only in a ring do pieces "
                    "arrive from both sides, and link is what one link carries in one direction.",
                ),
                "every-other-piece": Mistake(
                    lambda n, size, link, wraps: (n // 2 if wraps else n - 1) * size / n / link,
                    says="In a ring, half of the piece of the chip on the opposite side comes from "
                    "each direction. Here all of it comes from one.",
                ),
            },
            _draw_gather,
            Terms(
                lambda n, size, link, wraps: (
                    f"in {'a ring' if wraps else 'an open row'} of {n} chips"
                ),
                {"size / link": lambda n, size, link, wraps: size / link},
            ),
        ),
        Returns(
            "flat",
            "flat(hosts, chips, size, fast, slow) must return the seconds of an all-reduce in one "
            "ring through all chips.",
            _sample_clusters,
            FLAT,
            {
                "fast-ring": Mistake(
                    _levels(lambda h, c: _rounds(h * c), lambda h, c: 0),
                    says="Some links of this ring are slow, and all others wait for them.",
                ),
                "once-round": Mistake(
                    _levels(lambda h, c: 0, lambda h, c: _rounds(h * c) / 2),
                    says="This is one round. An all-reduce takes two.",
                ),
                "ring-of-hosts": Mistake(
                    _levels(lambda h, c: 0, lambda h, c: _rounds(h)),
                    says="The ring goes through all chips of all hosts.",
                ),
                "ring-of-chips": Mistake(
                    _levels(lambda h, c: 0, lambda h, c: _rounds(c)),
                    says="The ring goes through all chips of all hosts.",
                ),
                "mean-of-the-links": Mistake(
                    _flat_on_average,
                    says="All links have the mean of their bandwidths here. In a ring, each step "
                    "waits for the slowest link.",
                ),
            },
            _draw_flat,
            FAST_AND_SLOW,
        ),
        Returns(
            "two_levels",
            "two_levels(hosts, chips, size, fast, slow) must return the seconds of a "
            "reduce-scatter within each host, an all-reduce between hosts, and an all-gather "
            "within each host.",
            _sample_clusters,
            TWO_LEVELS,
            {
                "all-of-it-across": Mistake(
                    _levels(lambda h, c: _rounds(c), lambda h, c: _rounds(h)),
                    says="After the reduce-scatter, a chip has one piece of the sum. Only this "
                    "crosses to the other hosts.",
                ),
                "not-gathered": Mistake(
                    _levels(lambda h, c: _rounds(c) / 2, lambda h, c: _rounds(h) / c),
                    says="At the end each chip has one piece of the sum, and needs the others.",
                ),
                "once-across": Mistake(
                    _levels(lambda h, c: _rounds(c), lambda h, c: _rounds(h) / c / 2),
                    says="Between hosts, this is one round. An all-reduce takes two.",
                ),
                "reduced-twice": Mistake(
                    _levels(lambda h, c: 2 * _rounds(c), lambda h, c: _rounds(h) / c),
                    says="This is an all-reduce within the host before and after. The two halves "
                    "of one are enough: a reduce-scatter before, an all-gather after.",
                ),
                "all-chips-across": Mistake(
                    _levels(lambda h, c: _rounds(c), lambda h, c: _rounds(h * c) / c),
                    says="Between hosts, the ring has one chip of each host.",
                ),
                "hosts-for-chips": Mistake(
                    _levels(lambda h, c: _rounds(c), lambda h, c: _rounds(h) / h),
                    says="The piece that crosses to the other hosts is what a reduce-scatter "
                    "within a host leaves to a chip. How many chips share the sum there?",
                ),
                "at-the-same-time": Mistake(
                    lambda hosts, chips, size, fast, slow: max(
                        _rounds(chips) * size / fast, _rounds(hosts) / chips * size / slow
                    ),
                    says="This is the longer of the times within hosts and between them. Each step "
                    "needs the result of the one before, so they follow one another.",
                ),
            },
            _draw_two_levels,
            FAST_AND_SLOW,
        ),
    ),
    hints=(
        "For gather: every chip needs n - 1 pieces of size / n bytes. Through how many links do "
        "they arrive at a chip of a ring, and at the last chip of a row without a wraparound link?",
        "For flat: in a ring, every link carries the same bytes, and all wait for the slowest. The "
        "formula is that of 4.2, for hosts * chips devices.",
        "For two_levels: a reduce-scatter and an all-gather within a host are one all-reduce of "
        "size bytes among its chips. In between, each chip all-reduces its own piece, "
        "size / chips, with its partners on the other hosts.",
    ),
    diagnoses={
        "gather: upside-down": "A ring takes half as long as a row, not twice as long.",
    },
)

# 12.3: pipeline schedules


def _shortest(stages: int, microbatches: int) -> int:
    """Return the time of the last microbatch to arrive, behind all others, and to come back."""
    return (microbatches + stages - 1) * (FORWARD + BACKWARD)


def _run(orders: Any, stages: int, microbatches: int) -> PipelineRun | Problem:
    """Run a schedule, or say why it does not run."""
    problem = explain_orders(orders, stages, microbatches)
    if problem is not None:
        return problem
    ran = run_pipeline(orders)
    return ("never-ends", explain_waiting(ran)) if ran.waiting else ran


def _explain_time(ran: PipelineRun, stages: int, microbatches: int) -> Problem | None:
    shortest = _shortest(stages, microbatches)
    if ran.total <= shortest:
        return None
    return "too-long", (
        f"With {stages} stages and {microbatches} microbatches the schedule takes {ran.total:g} "
        f"units of time; {shortest} are enough."
    )


def explain_gpipe(orders: Any, stages: int, microbatches: int) -> Problem | None:
    """Find what is wrong with a GPipe schedule: all forward passes, then all backward passes."""
    ran = _run(orders, stages, microbatches)
    if not isinstance(ran, PipelineRun):
        return ran
    for stage, order in enumerate(ran.orders):
        if any(job[0] == "B" for job in order[:microbatches]):
            return "backward-early", (
                f"Stage {stage} runs a backward pass before its last forward pass."
            )
    return _explain_time(ran, stages, microbatches)


def _compare_backward_orders(ran: PipelineRun) -> str:
    """Say in which orders two stages run their backward passes; empty if all orders are equal."""
    orders = [", ".join(job for job in order if job[0] == "B") for order in ran.orders]
    other = next((stage for stage, order in enumerate(orders) if order != orders[-1]), None)
    if other is None:
        return ""
    return (
        f"Stage {other} runs its backward passes in the order {orders[other]}, and the last stage "
        f"in the order {orders[-1]}."
    )


def explain_one_f_one_b(orders: Any, stages: int, microbatches: int) -> Problem | None:
    """Find what is wrong with a 1F1B schedule: how long it takes, and how much it keeps."""
    ran = _run(orders, stages, microbatches)
    problem = None if isinstance(ran, PipelineRun) else ran
    if isinstance(ran, PipelineRun):
        for stage, alive in enumerate(ran.alive):
            fewest = min(stages - stage, microbatches)
            if alive > fewest:
                return "too-many-activations", (
                    f"With {stages} stages and {microbatches} microbatches, stage {stage} keeps "
                    f"the activations of {alive} microbatches at once; {fewest} "
                    f"{'is' if fewest == 1 else 'are'} enough. Before its first "
                    f"backward pass, it runs {_count_warm_up(orders[stage])} forward passes."
                )
        problem = _explain_time(ran, stages, microbatches)
        if problem is not None and (differs := _compare_backward_orders(ran)):
            return "orders-differ", f"{problem[1]} {differs}"
    if problem is None or problem[0] not in ("too-long", "never-ends"):
        return problem
    return problem[0], (
        f"{problem[1]} The stages run {', '.join(str(_count_warm_up(order)) for order in orders)} "
        f"forward passes before their first backward pass."
    )


def _count_warm_up(order: Sequence[str]) -> int:
    """Count the forward passes before a stage's first backward pass."""
    return next(i for i, job in enumerate(order) if job[0] == "B")


def _sample_sizes(rng: np.random.Generator) -> list[tuple[int, int]]:
    """Sample numbers of stages and microbatches: first the notebook's, then fewer and more."""
    few = [(int(p), int(rng.integers(1, p))) for p in rng.choice([3, 5, 6, 7], 2, replace=False)]
    many = [(int(p), int(rng.integers(p, 3 * p))) for p in rng.choice([2, 3, 5, 8], 2)]
    return [(4, 6), *few, *many, (1, int(rng.integers(2, 6)))]


def _bubble(stages: int, microbatches: int) -> float:
    return (stages - 1) / (microbatches + stages - 1)


def _bubble_in_units(waiting: int, own: int, work: int, stages: int, microbatches: int) -> float:
    """Return the share if the parts are counted in different units of time.

    Args:
        waiting: the units that a stage waits for each other stage.
        own: the units of each other stage in the whole time.
        work: the units of each microbatch in the whole time.
        stages: the number of stages.
        microbatches: the number of microbatches.
    """
    return waiting * (stages - 1) / (own * (stages - 1) + work * microbatches)


def order_gpipe(stages: int, microbatches: int) -> list[list[str]]:
    """Return GPipe's schedule."""
    return stages * [[f"{kind}{m}" for kind in "FB" for m in range(microbatches)]]


def order_one_f_one_b(stages: int, microbatches: int) -> list[list[str]]:
    """Return the schedule 1F1B."""
    schedule = []
    for stage in range(stages):
        first = min(stages - 1 - stage, microbatches)
        jobs = [f"F{m}" for m in range(first)]
        for m in range(microbatches):
            jobs += [*([f"F{first + m}"] * (first + m < microbatches)), f"B{m}"]
        schedule.append(jobs)
    return schedule


def _draw_schedules(order: Callable[[int, int], list[list[str]]]) -> Callable[..., Charts]:
    """Return the function that draws a schedule beside the one that `order` returns."""

    def draw(orders: Any, stages: int, microbatches: int) -> Charts:
        if explain_orders(orders, stages, microbatches) is not None:
            return ()
        return draw_pipelines(yours=orders, expected=order(stages, microbatches)).charts

    return draw


PIPELINES: Final = Exercise(
    id="12.3",
    title="Two pipeline schedules",
    afterwards="Megatron-LM's interleaved 1F1B gives each stage several groups of layers that are "
    "not neighbours. That makes the bubble smaller still, and sends more.",
    requirements=(
        Satisfies(
            "gpipe",
            "gpipe(stages, microbatches) must return orders in which each stage runs all forward "
            "passes, then all backward passes, in the shortest time.",
            _sample_sizes,
            explain_gpipe,
            _draw_schedules(order_gpipe),
        ),
        Satisfies(
            "one_f_one_b",
            "one_f_one_b(stages, microbatches) must return orders that take as long as GPipe's, "
            "with the activations of at most stages - s microbatches alive on stage s.",
            _sample_sizes,
            explain_one_f_one_b,
            _draw_schedules(order_one_f_one_b),
        ),
        Returns(
            "bubble",
            "bubble(stages, microbatches) must return the share of the time in which a stage "
            "waits.",
            _sample_sizes,
            _bubble,
            {
                "of-the-work": Mistake(
                    lambda p, m: (p - 1) / m,
                    says="This compares the waiting with the work. Expected: its share of the "
                    "whole time, waiting and work together.",
                ),
                "busy-share": Mistake(
                    lambda p, m: m / (m + p - 1),
                    says="This is the share of the time in which a stage works.",
                ),
                "one-step-more": Mistake(
                    lambda p, m: (p - 1) / (m + p),
                    says="How long does the schedule take? The first microbatch needs one step on "
                    "each stage, and one more microbatch arrives with each step after that.",
                ),
                "both-ends": Mistake(
                    lambda p, m: 2 * (p - 1) / (m + 2 * (p - 1)),
                    says="The waiting counts twice here. A stage waits for (stages - 1) forward "
                    "passes and as many backward passes, and a microbatch's work is a forward and "
                    "a backward pass, too.",
                ),
                "in-units": Mistake(
                    lambda p, m: (FORWARD + BACKWARD) * (p - 1),
                    says="This is the time in which a stage waits. Expected: its share of the "
                    "whole time.",
                ),
                "in-percent": Mistake(
                    lambda p, m: 100 * _bubble(p, m),
                    says="This is a percentage. Expected: a share, from 0 to 1.",
                ),
                "one-stage-more": Mistake(
                    lambda p, m: p / (p + m),
                    says="This is right for one stage more. The first microbatch waits for no "
                    "stage, so how many units does a stage wait?",
                ),
                "stages-for-waiting": Mistake(
                    lambda p, m: p / (p + m - 1),
                    says="A stage that waits for stages steps would wait for itself. With a single "
                    "stage, nobody waits.",
                ),
                "of-all-jobs": Mistake(
                    lambda p, m: (p - 1) / (p * m),
                    says="This compares the waiting of one stage with the work of all. Expected: "
                    "its share of the time of one stage.",
                ),
                "exchanged": Mistake(
                    lambda p, m: _bubble(m, p),
                    says="This would be right with stages and microbatches exchanged.",
                ),
                "other-units": Mistake(
                    *(
                        partial(_bubble_in_units, waiting, own, work)
                        for waiting, own, work in (
                            (4, 4, 3),
                            (4, 3, 3),
                            (2, 2, 3),
                            (2, 3, 3),
                            (1, 1, 3),
                            (1, 3, 3),
                            (3, 3, 4),
                            (3, 3, 2),
                        )
                    ),
                    says="The waiting and the whole time are counted in different units. A forward "
                    "pass takes one unit and a backward pass two, in both.",
                ),
            },
        ),
    ),
    weights={"one_f_one_b": 2},
    hints=(
        "gpipe has the same list for each stage. For one_f_one_b, look at the chart: what does the "
        "last stage do, which has nobody to wait for? How many forward passes does the stage "
        "before it run before its first backward pass?",
        "Each stage has three phases: some forward passes (the warm-up), then a forward and a "
        "backward pass in turn, then the backward passes that are left. Only the length of the "
        "warm-up differs from stage to stage.",
        "Stage s is stages - 1 - s stages before the last one, so it warms up with so many forward "
        "passes, or with all of them if there are fewer microbatches. For bubble: how long is a "
        "stage busy, and how long does the schedule take?",
    ),
    diagnoses={
        "never-ends": "A backward pass comes before a job that it depends on, or two stages have "
        "their microbatches in different orders, so that they wait for each other.",
        "backward-early": "That is 1F1B, or something between the two. In GPipe, a stage runs all "
        "of its forward passes first.",
        "gpipe: too-long": "Do the backward passes of all stages come in the same order?",
        "one_f_one_b: too-long": "Some stage waits too long. How many forward passes does a stage "
        "run before it begins to take turns? With too few, the stages after it have nothing to do.",
        "too-many-activations": "After its warm-up, a stage should run a backward pass for each "
        "forward pass. A stage nearer to the end gets its gradients earlier, so its warm-up is "
        "shorter.",
        "job-missing": "Are these backward passes that are left at the end? Or do some stages run "
        "more forward passes first than there are microbatches?",
        "unknown-job": "Microbatches are counted from 0. Does a stage run more forward passes than "
        "there are microbatches?",
        "orders-differ": "A stage waits for the gradient of each microbatch from the stage after "
        "it, so run the backward passes in the same order everywhere.",
    },
)

# 12.4: the levels of ZeRO

BYTES: Final = {"weights": 2, "gradients": 2, "optimizer": 12}
"""Bytes for each parameter in mixed precision with Adam, as the paper on ZeRO counts them."""

SHARDED_ON_LEVEL: Final = {"optimizer": 1, "gradients": 2, "weights": 3}
"""The level from which on each part is sharded."""


def _held(
    is_sharded: Callable[[int, str], bool] = lambda level, part: level >= SHARDED_ON_LEVEL[part],
    **other_bytes: int,
) -> Callable[..., float]:
    """Return the function that adds up a device's bytes.

    Args:
        is_sharded: whether a part is sharded on a level.
        **other_bytes: the bytes for each parameter, of parts that are not as in `BYTES`.
    """

    def held(level: int, parameters: int, n: int) -> float:
        parts = BYTES | other_bytes
        return sum(
            parameters * count / (n if is_sharded(level, part) else 1)
            for part, count in parts.items()
        )

    return held


HELD: Final = _held()


def _held_in_whole_bytes(rounded: Collection[str], level: int, parameters: int, n: int) -> float:
    """Return a device's bytes if those of one parameter's share of some parts are rounded down."""
    total = 0.0
    for part, size in (("weights", 2), ("gradients", 2), ("optimizer", 12)):
        share = size / n if level >= SHARDED_ON_LEVEL[part] else size
        total += math.floor(share) if part in rounded else share
    return parameters * total


def _sample_models(rng: np.random.Generator) -> list[tuple[int, int, int]]:
    """Sample models, three for each level, so that it follows how many bytes are sharded there."""
    return [
        (level, int(1e9 * rng.uniform(0.5, 80)), int(n))
        for level in rng.permutation(4).tolist()
        for n in 2 ** rng.choice(np.arange(1, 10), 3, replace=False)
    ]


STEPS: Final = ((8, 128, 64, 4, 2), (4, 96, 32, 6, 3))
"""Tuples of (devices, rows and columns of W, microbatches, examples of each on one device)."""


def _step_arguments(
    weights: str | None, n: int, rows: int, columns: int, microbatches: int, own: int
) -> tuple[Argument, ...]:
    """Return the arguments of a step: the weights, two states of Adam, examples and answers."""
    mesh = (("data", n),)

    def argument(
        shape: tuple[int, ...], *spec: str | None, scale: float = 1.0, shift: float = 0.0
    ) -> Argument:
        return Argument(shape, mesh, spec, mode="auto", scale=scale, shift=shift)

    def examples(width: int) -> Argument:
        return argument((microbatches, own * n, width), None, "data")

    return (
        argument((rows, columns), weights, scale=rows**-0.5),
        argument((rows, columns), "data"),
        argument((rows, columns), "data", scale=0.1, shift=1.0),
        examples(rows),
        examples(columns),
    )


def _gradient(W: Any, X: Any, Y: Any) -> Any:
    """Return the gradient of the sum over all examples of sum((tanh(x @ W) - y)²)."""
    X, Y = X.reshape(-1, X.shape[-1]), Y.reshape(-1, Y.shape[-1])  # noqa: N806
    out = np.tanh(X @ W)
    return X.T @ (2 * (out - Y) * (1 - out**2))


def _one(X: Any) -> np.float32:
    return np.float32(1)


def _examples(X: Any) -> np.float32:
    return np.float32(X.shape[0] * X.shape[1])


def _devices(X: Any) -> np.float32:
    """Return the number of devices, which follows from the number of microbatches."""
    return np.float32({count: n for n, _, _, count, _ in STEPS}[len(X)])


def _adam(W: Any, m: Any, v: Any, g: Any) -> Any:
    m = np.float32(0.9) * m + np.float32(0.1) * g
    v = np.float32(0.999) * v + np.float32(0.001) * g**2
    return W - np.float32(0.01) * m / (np.sqrt(v) + np.float32(1e-8)), m, v


def _step(factor: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a step with the mean gradient, multiplied by a factor that depends on X."""

    def step(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
        return _adam(W, m, v, factor(X) * _gradient(W, X, Y) / _examples(X))

    return step


def _one_microbatch(some: slice, count: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a step with the gradient of one microbatch, divided by a number of examples."""
    return lambda W, m, v, X, Y: _adam(W, m, v, _gradient(W, X[some], Y[some]) / count(X))


def _other_rows(first: Callable[[int], int]) -> Callable[..., Any]:
    """Return a step in which each device updates other rows of W than its own.

    Args:
        first: the first of these rows, for the number of a device.
    """

    def step(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
        n = int(_devices(X))
        own = np.concatenate([W[first(i) : first(i) + len(W) // n] for i in range(n)])
        new, m, v = _adam(W, m, v, _gradient(W, X, Y) / _examples(X))
        return new - W + own, m, v

    return step


def _rows_of_another(other: Callable[[int, int], int]) -> Callable[..., Any]:
    """Return a step in which each device updates the rows of W that another one should."""

    def step(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
        parts = np.split(W, n := int(_devices(X)))
        own = np.concatenate([parts[other(i, n) % n] for i in range(n)])
        new, m, v = _adam(W, m, v, _gradient(W, X, Y) / _examples(X))
        return new - W + own, m, v

    return step


def _without_adam(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
    return W - np.float32(0.01) * _gradient(W, X, Y) / _examples(X), m, v


def _rows_added_up(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
    """Return a step in which the gradients of all devices' rows are added up."""
    n = int(_devices(X))
    gradient = sum(np.split(_gradient(W, X, Y), n))
    return _adam(W, m, v, np.concatenate([gradient] * n) / _examples(X))


def _own_examples(factor: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a step in which each device's rows have the gradient of its own examples.

    Args:
        factor: a factor of this gradient, which depends on X.
    """

    def step(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
        n = int(_devices(X))
        parts = zip(np.split(X, n, 1), np.split(Y, n, 1), strict=True)
        own = [np.split(_gradient(W, *part), n)[i] for i, part in enumerate(parts)]
        return _adam(W, m, v, factor(X) * np.concatenate(own) / _examples(X))

    return step


def _step_for_each(is_at_new: bool, count: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return as many steps as there are microbatches.

    Args:
        is_at_new: whether gradients are at the weights after the step before, or before all.
        count: the number by which a microbatch's gradient is divided.
    """

    def step(W: Any, m: Any, v: Any, X: Any, Y: Any) -> Any:
        new = W
        for x, y in zip(X[:, None], Y[:, None], strict=True):
            gradient = _gradient(new if is_at_new else W, x, y) / count(X)
            new, m, v = _adam(new, m, v, gradient)
        return new, m, v

    return step


WRONG_STEPS: Final[dict[str, Any]] = {
    "own-examples": Mistake(*map(_own_examples, (_one, _devices))),
    "as-many-times": _step(_devices),
    "sum-for-mean": Mistake(_step(_examples), _step(lambda X: _examples(X) / _devices(X))),
    "averaged-twice": _step(lambda X: 1 / _devices(X)),
    "mean-of-a-microbatch": _step(lambda X: np.float32(len(X))),
    "last-microbatch": Mistake(
        *(
            _one_microbatch(some, count)
            for some in (slice(-1, None), slice(1))
            for count in (_examples, lambda X: _examples(X[:1]))
        )
    ),
    "first-rows": _other_rows(lambda i: 0),
    "row-of-its-number": _other_rows(lambda i: i),
    "no-adam": _without_adam,
    "step-for-each": Mistake(
        *(
            _step_for_each(is_at_new, count)
            for is_at_new in (True, False)
            for count in (_examples, lambda X: _examples(X[:1]))
        )
    ),
    "rows-of-another": Mistake(
        *(map(_rows_of_another, (lambda i, n: n - 1 - i, lambda i, n: i + 1)))
    ),
    "added-up-again": _rows_added_up,
    "states-exchanged": lambda W, m, v, X, Y: _step(_one)(W, v, m, X, Y),
    "weights-unchanged": lambda W, m, v, X, Y: (W, *_step(_one)(W, m, v, X, Y)[1:]),
}


def _level(name: str, weights: str | None, memory: tuple[int, ...]) -> tuple[Requirement, ...]:
    """Return the requirements on the step of one level.

    Args:
        name: the answer's name, which ends with the level.
        weights: the mesh axis over which the weights are sharded.
        memory: the bytes that a device may hold, for each of `STEPS`.
    """
    level = int(name[-1])
    budgets = []
    for _, rows, columns, microbatches, _ in STEPS:
        one = 4 * rows * columns
        budgets.append((
            Budget("reduce-scatter", ("data",), one * (1 if level == 1 else microbatches)),
            Budget("all-gather", ("data",), one * (1 if level < 3 else 2 * microbatches)),
        ))  # fmt: skip
    return (
        Computes(
            name,
            f"{name}(W, m, v, X, Y) must return W, m and v after a step of Adam with the gradient "
            f"of the mean over all examples.",
            _step(_one),
            tuple(_step_arguments(weights, *sizes) for sizes in STEPS),
            WRONG_STEPS,
            under_mesh=True,
        ),
        KeepsLayouts(name, "new W, m and v, each with the layout of the old one"),
        CommunicatesAtMost(name, tuple(budgets)),
        FitsIn(name, memory),
    )


ZERO: Final = Exercise(
    id="12.4",
    title="The levels of ZeRO",
    afterwards="Level 3 is FSDP. Level 1 sends no more than plain data parallelism, because a "
    "reduce-scatter and an all-gather are its all-reduce, so it is nearly always worth it.",
    requirements=(
        Returns(
            "held",
            "held(level, parameters, n) must return the bytes of weights, gradients and optimizer "
            "on each device.",
            _sample_models,
            HELD,
            {
                "no-copy": Mistake(
                    _held(optimizer=8),
                    says="12 bytes for the optimizer: m and v in float32, and a copy of the "
                    "weights in float32.",
                ),
                "all-in-float32": Mistake(
                    _held(weights=4, gradients=4, optimizer=8),
                    says="This counts 4 bytes for a weight and 4 for its gradient. In mixed "
                    "precision they have 2 each, and a copy of the weights in float32 is part of "
                    "the optimizer's state.",
                ),
                "one-level-late": Mistake(
                    _held(lambda level, part: level > SHARDED_ON_LEVEL[part]),
                    says="Each level is one too late here. Level 1 shards the optimizer's state.",
                ),
                "one-part-each": Mistake(
                    _held(lambda level, part: level == SHARDED_ON_LEVEL[part]),
                    says="Each level shards one part more, and keeps the others sharded.",
                ),
                "copy-not-sharded": Mistake(
                    lambda level, parameters, n: (
                        _held(optimizer=8)(level, parameters, n) + 4 * parameters
                    ),
                    says="Of the optimizer's 12 bytes, 8 are sharded here. The copy of the weights "
                    "in float32 belongs to its state, too.",
                ),
                "gradients-first": Mistake(
                    _held(
                        lambda level, part: (
                            level >= {"gradients": 1, "optimizer": 2, "weights": 3}[part]
                        )
                    ),
                    says="Level 1 shards the optimizer's state, and level 2 the gradients, too.",
                ),
                "everything-at-once": Mistake(
                    _held(lambda level, part: level >= 1),
                    says="Level 1 shards only the optimizer's state.",
                ),
                "whole-bytes": Mistake(
                    *(
                        partial(_held_in_whole_bytes, parts)
                        for parts in (("optimizer",), ("optimizer", "gradients", "weights"))
                    ),
                    says="The 12 bytes for a parameter are divided by n and rounded down. A device "
                    "has the bytes of an nth of the parameters.",
                ),
                "of-one-parameter": Mistake(
                    lambda level, parameters, n: HELD(level, 1, n),
                    says="These are the bytes for a single parameter.",
                ),
                "on-all-devices": Mistake(
                    lambda level, parameters, n: n * HELD(level, parameters, n),
                    says="This is what all devices hold together.",
                ),
            },
            terms=Terms(
                lambda level, parameters, n: f"on level {level}",
                {
                    "parameters": lambda level, parameters, n: parameters,
                    "parameters / n": lambda level, parameters, n: parameters / n,
                },
            ),
        ),
        # a device holds the weights twice, old and new, and the gradient of all microbatches and of
        # one: 4 times the weights. Level 2 accumulates an nth of it, and level 3 holds an nth of
        # the weights. The rest is states, examples and slack.
        *_level("zero_1", None, (139_264, 66_560)),
        *_level("zero_2", None, (106_496, 54_272)),
        *_level("zero_3", "data", (73_728, 45_056)),
    ),
    about=(Returns, CommunicatesAtMost, FitsIn),
    together=True,
    hints=(
        "For held: 2 bytes for a weight, 2 for its gradient, and 12 for Adam. On each level, which "
        "of the three is divided by n? Each level also does what the level before it does.",
        "In the body of zero_1, make W varying before you differentiate, as in 8.7. Add up the "
        "gradients of the microbatches, and psum_scatter the sum. A device then has the gradient "
        "of its own rows: which rows of W are these? lax.dynamic_slice_in_dim and lax.axis_index "
        "find them.",
        "zero_2 moves the psum_scatter into the loop, and accumulates only the device's own rows. "
        "zero_3 gathers W in the function that is differentiated, with jax.checkpoint around it: "
        "the backward pass of the all_gather is the psum_scatter.",
    ),
    diagnoses={
        "added-up-again": "The gradients of different rows are added up: a device has those of its "
        "own rows, already summed over the devices. The backward pass of an all_gather is a "
        "psum_scatter.",
        "row-of-its-number": "The rows of W that a device updates begin at its own number. How "
        "many rows do the devices before it have?",
        "rows-of-another": "Each device updates the rows of W of another device.",
        "no-adam": "This is a step of gradient descent, without m and v. Expected: one of Adam.",
        "step-for-each": "Adam makes a step for each microbatch. Expected: one step, with the "
        "gradient of all of them.",
        "states-exchanged": "m and v are exchanged.",
        "weights-unchanged": "The new m and v are right, and W is returned as it was.",
        "as-many-times": "The gradient is too large by the number of devices. Is it added up "
        "twice, because W was not varying, or divided by a device's own examples?",
        "sum-for-mean": "This uses the sum over the examples. Expected: their mean.",
        "averaged-twice": "The gradient is too small by the number of devices: it is divided by "
        "the number of all examples, and averaged over the devices, too.",
        "mean-of-a-microbatch": "The gradient is too large by the number of microbatches. Divide "
        "by the examples of all of them.",
        "last-microbatch": "Only one microbatch counts here. The gradients of all of them have to "
        "be added up.",
        "first-rows": "Every device updates the first rows of W. It has the gradient of the rows "
        "that begin at its own number times the rows on a device.",
        "all-reduce": "Is a gradient added up on all devices? Each of them needs only that of its "
        "own rows, so a reduce-scatter is enough. With respect to rows that the error gathers, "
        "grad has one already.",
        "split-dimension": "The next step needs all of W on every device, as this one did. Who "
        "gathers it?",
        "zero_1: too-many-bytes": "One reduce-scatter is enough, after the loop over the "
        "microbatches.",
        "zero_1: too-much-memory": "Is the loop over the microbatches one of lax.scan or "
        "lax.fori_loop? In a loop of Python, gradients of several microbatches are held at once.",
        "zero_2: too-much-memory": "Is the reduce-scatter in the loop, so that the complete sum of "
        "the gradients is never held? And is it a loop of lax.scan or lax.fori_loop?",
        "zero_3: too-much-memory": "Is the gather in the function that is differentiated, with "
        "jax.checkpoint around it? Otherwise the compiler gathers once, before the loop, and holds "
        "all of W. And is it a loop of lax.scan or lax.fori_loop?",
        "own-examples": "The gradient of a device's rows is that of its own examples. Add up the "
        "gradients of all devices: a psum_scatter does this, and keeps a device's own rows.",
    },
)

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
                f"The chunks of {n} devices are the whole numbers from 0 to {2 * n - 1}."
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
            f"With {n} devices, device {most} has {max(work):g} pairs of chunks to compute, and "
            f"device {least} has {min(work):g}."
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
                    says="The largest score is 0 before the first step, or none is subtracted. If "
                    "all scores are far below 0, all exponentials are 0 then. Begin with -jnp.inf.",
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
        "unbalanced": "A later chunk has more keys before it. Which two chunks have together as "
        "many as any other two?",
        "chunk-missing": "There are 2 n chunks for n devices.",
    },
)

# 12.6: overlap

CLOSE_ENOUGH: Final = 1.01
"""The whole time of a right choice of buckets may be longer than the shortest by this factor."""

WORSE: Final = 1.05
"""By this factor or more, simple choices of buckets take longer in every case."""

WORSE_IF_FILLED: Final = 1.02
"""By this factor or more, buckets of one size take longer, whichever size that is."""


def choose_buckets(
    backward: Sequence[float], sizes: Sequence[float], latency: float, bandwidth: float
) -> tuple[float, list[int]]:
    """Return when the last all-reduce ends, for the best choice of buckets, and this choice.

    What matters of the buckets before a given layer is only when the last of them ends.
    """
    ready, best = 0.0, [(0.0, list[int]())]
    for last, duration in enumerate(backward):
        ready += duration
        best.append(
            min(
                (
                    max(best[first][0], ready) + latency + sum(sizes[first : last + 1]) / bandwidth,
                    [*best[first][1], last + 1 - first],
                )
                for first in range(last + 1)
            )
        )
    return best[-1]


def shortest_overlap(*model: Any) -> float:
    """Return the time at which the last all-reduce ends, for the best choice of buckets."""
    return choose_buckets(*model)[0]


def _end(*case: Any, buckets: Sequence[int]) -> float:
    """Return the time at which the last all-reduce of a choice of buckets ends."""
    backward, sizes, latency, bandwidth = case
    run = run_overlap(backward, sizes, buckets, latency, bandwidth)
    return run.sending[-1][1]


def fill_buckets(sizes: Sequence[float], most: float) -> list[int]:
    """Return buckets that are closed as soon as they have so many bytes, as in PyTorch."""
    buckets, filled = [0], 0.0
    for size in sizes:
        buckets[-1] += 1
        filled += size
        if filled >= most:
            buckets.append(0)
            filled = 0.0
    return [count for count in buckets if count]


def _sample_model(rng: np.random.Generator, layers: int) -> tuple[Any, ...]:
    backward = [round(float(rng.uniform(0.5, 3)), 1) for _ in range(layers)]
    sizes = [int(rng.integers(4, 60)) for _ in range(layers)]
    bandwidth = round(float(sum(sizes) / sum(backward) * rng.uniform(0.9, 1.6)), 1)
    return backward, sizes, round(float(rng.uniform(0.6, 2.5)), 1), bandwidth


def _is_telling(case: tuple[Any, ...]) -> bool:
    """Check whether simple choices of buckets are clearly worse than the best in a case."""
    backward, sizes, *_ = case
    best, layers = shortest_overlap(*case), len(backward)
    halves = [layers // 2, layers - layers // 2]
    simple = [[layers], [1] * layers, halves, [2] * (layers // 2) + [1] * (layers % 2)]
    filled = [fill_buckets(sizes, sum(sizes) * share / 20) for share in range(1, 20)]
    return all(_end(*case, buckets=buckets) > WORSE * best for buckets in simple) and all(
        _end(*case, buckets=buckets) > WORSE_IF_FILLED * best for buckets in filled
    )


def _sample_backward_passes(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample models for which simple choices of buckets are clearly worse than the best."""
    cases: list[tuple[Any, ...]] = []
    for layers in (6, 12, 9, 11, 7):
        case = _sample_model(rng, layers)
        while not _is_telling(case):
            case = _sample_model(rng, layers)
        cases.append(case)
    return cases


def _sample_choices(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample models with a choice of buckets for each."""
    cases = []
    for backward, sizes, latency, bandwidth in _sample_backward_passes(rng):
        filled = fill_buckets(sizes, float(rng.uniform(0.15, 0.5)) * sum(sizes))
        # of a large bucket and a small one, the large one ends last if nobody waits; of a small one
        # and a large one, the link waits for the large one's gradients
        for buckets in (filled, [len(sizes) - 1, 1], [1, len(sizes) - 1]):
            cases.append((backward, sizes, buckets, latency, bandwidth))
    return cases


def _exposed(*case: Any) -> float:
    return run_overlap(*case).exposed


def _durations(sizes: Any, buckets: Any, latency: float, bandwidth: float) -> list[float]:
    """Return how long the all-reduce of each bucket takes."""
    ends = np.cumsum(buckets).tolist()
    starts = [0, *ends[:-1]]
    return [latency + sum(sizes[i:j]) / bandwidth for i, j in zip(starts, ends, strict=True)]


def _no_queue(backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float) -> float:
    """Return the exposed time if all-reduces did not wait for one another."""
    durations = _durations(sizes, buckets, latency, bandwidth)
    ready = np.cumsum(backward)[np.cumsum(buckets) - 1]
    return float(max(ready + durations) - sum(backward))


def _after_all(backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float) -> float:
    return sum(_durations(sizes, buckets, latency, bandwidth))


def _from_first_layer(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return the exposed time if a bucket were complete with the first of its layers."""
    end = 0.0
    firsts = np.cumsum(buckets) - np.asarray(buckets)
    for first, duration in zip(firsts, _durations(sizes, buckets, latency, bandwidth), strict=True):
        end = max(end, sum(backward[: first + 1])) + duration
    return float(max(end - sum(backward), 0.0))


def _whole_time(*case: Any) -> float:
    return run_overlap(*case).sending[-1][1]


def _without_latency(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    return _exposed(backward, sizes, buckets, 0.0, bandwidth)


def _last_bucket(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    *_, last = _durations(sizes, buckets, latency, bandwidth)
    return last


def _one_latency(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    return _without_latency(backward, sizes, buckets, latency, bandwidth) + latency


def _latency_at_first(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return the exposed time if only the first all-reduce took latency."""
    more = [sizes[0] + latency * bandwidth, *sizes[1:]]
    return _exposed(backward, more, buckets, 0.0, bandwidth)


def _sliced(
    backward: Any,
    sizes: Any,
    buckets: Any,
    latency: float,
    bandwidth: float,
    last_of: Callable[[int, int], int] = lambda first, count: first + count,
    next_of: Callable[[int], int] = lambda last: last,
    computed: Callable[[int, int], slice] = lambda first, last: slice(last),
    sent: Callable[[int, int], slice] = lambda first, last: slice(first, last),
    is_latency_hidden: bool = False,
) -> float:
    """Return the exposed time if buckets are other slices of the layers.

    Args:
        backward: the seconds of each layer.
        sizes: the bytes of each layer's gradients.
        buckets: the number of layers in each bucket.
        latency: the latency of an all-reduce.
        bandwidth: its bytes per second.
        last_of: the end of a bucket, from its first layer and its number of layers.
        next_of: the first layer of the next bucket, from the end of this one.
        computed: the layers that a bucket waits for.
        sent: the layers that it sends.
        is_latency_hidden: whether the latency passes while a bucket waits.
    """
    first, end = 0, 0.0
    for count in buckets:
        last = last_of(first, count)
        ready, duration = sum(backward[computed(first, last)]), sum(sizes[sent(first, last)])
        free = end + latency if is_latency_hidden else end
        end = max(free, ready) + latency * (not is_latency_hidden) + duration / bandwidth
        first = next_of(last)
    return float(end - sum(backward))


def _one_layer_back(place: int, before: Sequence[int]) -> int:
    """Return a bucket's first layer if each bucket begins with the last layer of the one before."""
    return sum(before) - place


def _as_many(first: int, last: int) -> slice:
    """Return as many of the first layers as a bucket has."""
    return slice(last - first)


def _latency_of_each_layer(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    more = [size + latency * bandwidth for size in sizes]
    return _exposed(backward, more, buckets, 0.0, bandwidth)


def _at_other_layers(
    backward: Any,
    sizes: Any,
    buckets: Any,
    latency: float,
    bandwidth: float,
    first_of: Callable[[int, Sequence[int]], int] = lambda place, before: place,
    is_ready_late: bool = False,
    is_end_right: bool = False,
) -> float:
    """Return the exposed time if buckets begin with other layers, and their times are added up.

    Args:
        backward: the seconds of each layer.
        sizes: the bytes of each layer's gradients.
        buckets: the number of layers in each bucket.
        latency: the latency of an all-reduce.
        bandwidth: its bytes per second.
        first_of: the first layer of a bucket, for its number and the buckets before it; by default
            each bucket begins one layer after the beginning of the last one.
        is_ready_late: whether only the sizes are those of the wrong layers.
        is_end_right: whether the backward pass ends when it should, and not with the last of these.
    """
    ready, computed, end = np.cumsum(backward)[np.cumsum(buckets) - 1].tolist(), 0.0, 0.0
    for place, count in enumerate(buckets):
        first = first_of(place, buckets[:place])
        computed = ready[place] if is_ready_late else computed + sum(backward[first:][:count])
        end = max(computed, end) + latency + sum(sizes[first:][:count]) / bandwidth
    return float(end - (sum(backward) if is_end_right else computed))


def _sooner_of_both(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return the exposed time if a bucket waited for the sooner of its gradients and the link."""
    ready, end = np.cumsum(backward)[np.cumsum(buckets) - 1], 0.0
    durations = _durations(sizes, buckets, latency, bandwidth)
    for complete, duration in zip(ready.tolist(), durations, strict=True):
        end = min(complete, end) + duration
    return float(end - sum(backward))


def _never_waiting(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return the exposed time if only the first bucket waited for its gradients."""
    ready = sum(backward[: buckets[0]])
    return float(ready + sum(_durations(sizes, buckets, latency, bandwidth)) - sum(backward))


def _longer_than_computing(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    return float(sum(_durations(sizes, buckets, latency, bandwidth)) - sum(backward))


def _times_bandwidth(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    return _exposed(backward, sizes, buckets, latency, 1 / bandwidth)


def _first_layer_first(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    return _exposed(backward[::-1], sizes[::-1], buckets, latency, bandwidth)


def explain_buckets_chosen(
    buckets: Any, backward: Any, sizes: Any, latency: float, bandwidth: float
) -> Problem | None:
    """Find what is wrong with a choice of buckets: it is none, or it takes too long."""
    problem = explain_buckets(buckets, len(backward))
    if problem is not None:
        return problem
    shortest = shortest_overlap(backward, sizes, latency, bandwidth)
    ran = run_overlap(backward, sizes, buckets, latency, bandwidth)
    if ran.sending[-1][1] <= CLOSE_ENOUGH * shortest:
        return None
    diagnosis, why = _describe_buckets([*buckets], backward, sizes, latency, bandwidth)
    return diagnosis, (
        f"With the buckets {list(buckets)}, {ran.exposed:.2f} units of time are exposed; "
        f"{shortest - sum(backward):.2f} are possible.{why}"
    )


def _send_when_free(
    backward: Sequence[float], sizes: Sequence[float], latency: float, bandwidth: float
) -> list[int]:
    """Return the buckets that are sent whenever the link is free and there is a gradient."""
    buckets, waiting, size, ready, free = list[int](), 0, 0.0, 0.0, 0.0
    for duration, own in zip(backward, sizes, strict=True):
        ready, waiting, size = ready + duration, waiting + 1, size + own
        if ready >= free:
            free = ready + latency + size / bandwidth
            buckets.append(waiting)
            waiting, size = 0, 0.0
    return buckets + [waiting] * (waiting > 0)


def _describe_buckets(buckets: list[int], *model: Any) -> Problem:
    """Return a diagnosis of a choice of buckets that is not the best, and what is true of it."""
    backward, *_ = model
    if buckets == _send_when_free(*model):
        return "as-soon-as-free", (
            " They are sent as soon as the link is free, with the gradients that are there."
        )
    if _end(*model, buckets=buckets[::-1]) <= CLOSE_ENOUGH * shortest_overlap(*model):
        return "opposite-order", " In the opposite order, these buckets are right."
    return {1: "one-bucket", len(backward): "a-bucket-each"}.get(len(buckets), "exposed"), ""


def _draw_exposed(
    result: Any, backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> Charts:
    """Draw an overlap, the exposed time, and a learner's."""
    (drawn,) = draw_overlap(backward, sizes, latency, bandwidth, expected=buckets).charts
    start, right = sum(backward), _exposed(backward, sizes, buckets, latency, bandwidth)
    lanes = {name: [*bars] for name, bars in drawn.bars.items()}
    lanes["exposed"] = [JobBar("exposed", f"{right:.3g}", GREY, start, start + right)]
    title = f"{right:.3g} of {start + right:.3g} units of time are exposed"
    return _draw_beside(title, lanes, result, right, start)


def _draw_buckets(buckets: Any, backward: Any, *model: Any) -> Charts:
    """Draw an overlap with a learner's buckets, and with the best."""
    if explain_buckets(buckets, len(backward)) is not None:
        return ()
    _, best = choose_buckets(backward, *model)
    return draw_overlap(backward, *model, yours=buckets, the_best=best).charts


OVERLAP: Final = Exercise(
    id="12.6",
    title="Reduce while you compute",
    afterwards="PyTorch's data parallelism closes a bucket at 25 MiB unless you say otherwise. XLA "
    "decides for itself which all-reduces it combines, up to a number of bytes that is a flag.",
    requirements=(
        Returns(
            "exposed",
            "exposed(backward, sizes, buckets, latency, bandwidth) must return the time from the "
            "end of the backward pass to the end of the last all-reduce.",
            _sample_choices,
            _exposed,
            {
                "no-queue": Mistake(
                    _no_queue,
                    says="All-reduces run at the same time here. The link handles one after "
                    "another.",
                ),
                "after-all": Mistake(
                    _after_all,
                    says="Nothing overlaps here. An all-reduce can start before the backward pass "
                    "has ended, as soon as the gradients of its bucket are there.",
                ),
                "from-first-layer": Mistake(
                    _from_first_layer,
                    says="A bucket is sent here as soon as its first gradient is there. It has to "
                    "wait for the last one.",
                ),
                "whole-time": Mistake(
                    _whole_time,
                    says="This is the time until the last all-reduce ends. Expected: the part of "
                    "it after the backward pass.",
                ),
                "no-latency": Mistake(_without_latency, says="Each all-reduce takes latency, too."),
                "last-bucket": Mistake(
                    _last_bucket,
                    says="This is the time of the last all-reduce alone. It may have to wait until "
                    "the link has ended the one before.",
                ),
                "first-layer-first": Mistake(
                    _first_layer_first,
                    says="The lists are in the order of the backward pass already: their first "
                    "entry is for the model's last layer.",
                ),
                "one-latency": Mistake(
                    _one_latency,
                    _latency_at_first,
                    says="The latency counts once here. Each all-reduce has its own.",
                ),
                "one-bucket-early": Mistake(
                    partial(_sliced, computed=lambda first, last: slice(first)),
                    says="A bucket is sent here as soon as the layers of the bucket before it are "
                    "computed. It has to wait for its own.",
                ),
                "one-layer-early": Mistake(
                    partial(_sliced, computed=lambda first, last: slice(last - 1)),
                    says="A bucket is sent here before its last layer is computed.",
                ),
                "own-layers-alone": Mistake(
                    partial(_sliced, computed=slice),
                    says="A bucket waits only as long as its own layers take here. The layers "
                    "before it are computed before them.",
                ),
                "same-beginning": Mistake(
                    partial(_sliced, next_of=lambda last: 0),
                    says="All buckets begin with the first layer here. Each begins where the one "
                    "before it ends.",
                ),
                "numbers-as-ends": Mistake(
                    partial(_sliced, last_of=lambda first, count: count),
                    says="The numbers in buckets are taken as the ends of buckets. Each is how "
                    "many layers a bucket has.",
                ),
                "counted-from-0": Mistake(
                    partial(_sliced, computed=_as_many),
                    partial(_sliced, sent=_as_many),
                    partial(_sliced, computed=_as_many, sent=_as_many),
                    *(
                        partial(
                            _at_other_layers,
                            first_of=lambda place, before: 0,
                            is_end_right=is_right,
                        )
                        for is_right in (False, True)
                    ),
                    says="Every bucket's layers are counted from the first layer here. They begin "
                    "where the bucket before it ends.",
                ),
                "shared-layer": Mistake(
                    partial(_sliced, next_of=lambda last: last - 1),
                    *(
                        partial(_at_other_layers, first_of=_one_layer_back, is_end_right=is_right)
                        for is_right in (False, True)
                    ),
                    says="The last layer of a bucket is also the first one of the next bucket.",
                ),
                "shifted-sizes": Mistake(
                    partial(_sliced, sent=lambda first, last: slice(first + 1, last + 1)),
                    says="Each bucket sends the layers from its second one to the first one of the "
                    "next bucket.",
                ),
                "latency-while-waiting": Mistake(
                    partial(_sliced, is_latency_hidden=True),
                    says="The latency passes here while a bucket waits for its gradients. It "
                    "begins when the bucket is sent.",
                ),
                "twice-the-bytes": Mistake(
                    lambda backward, sizes, *rest: _exposed(
                        backward, [2 * size for size in sizes], *rest
                    ),
                    says="The bytes are counted twice. An all-reduce of s bytes takes latency + s "
                    "/ bandwidth here.",
                ),
                "first-bucket": Mistake(
                    lambda backward, *rest: _durations(*rest)[0],
                    says="This is the time of the first all-reduce alone.",
                ),
                "never-waiting": Mistake(
                    _never_waiting,
                    says="Only the first all-reduce waits for its gradients here. Each of them has "
                    "to.",
                ),
                "one-layer-of-each": Mistake(
                    partial(_sliced, sent=lambda first, last: slice(last - 1, last)),
                    says="Only the last layer of each bucket is sent here. Add up all of them.",
                ),
                "latency-of-each-layer": Mistake(
                    _latency_of_each_layer,
                    says="Each layer takes a latency here. A bucket is one all-reduce.",
                ),
                "one-layer-on": Mistake(
                    _at_other_layers,
                    partial(_at_other_layers, is_ready_late=True),
                    says="Each bucket begins here one layer after the one before it begins, so "
                    "some layers are in several buckets. How many layers does each bucket have?",
                ),
                "sooner-of-both": Mistake(
                    _sooner_of_both,
                    says="An all-reduce starts here when its gradients are there or the link is "
                    "free, whichever comes first. It needs both.",
                ),
                "longer-than-computing": Mistake(
                    _longer_than_computing,
                    lambda *case: max(0.0, _longer_than_computing(*case)),
                    says="This is how much longer all of the all-reduces take than the backward "
                    "pass. The first of them starts later, and the link may have to wait.",
                ),
                "times-bandwidth": Mistake(
                    _times_bandwidth, says="The sizes are multiplied by the bandwidth here."
                ),
            },
            _draw_exposed,
        ),
        Satisfies(
            "bucketed",
            "bucketed(backward, sizes, latency, bandwidth) must return the numbers of layers in "
            "buckets for which the least time is exposed.",
            _sample_backward_passes,
            explain_buckets_chosen,
            _draw_buckets,
        ),
    ),
    weights={"bucketed": 2},
    hints=(
        "Keep two clocks: one for the device, which computes layer after layer, and one for the "
        "link. An all-reduce starts when both the last gradient of its bucket is there and the "
        "link has ended the one before.",
        "For bucketed, there are 2^(L - 1) ways to partition L layers into buckets, and your "
        "exposed says how good each is. With twelve layers these are 2,048, few enough to try all.",
        "Faster: of all ways to reduce the first k layers, only the one that ends first matters. "
        "Compute this end for k = 1, 2, …: try each possible last bucket, and use the ends that "
        "you know already.",
    ),
    diagnoses={
        "one-bucket": "With a single bucket, nothing is sent before the backward pass has ended.",
        "a-bucket-each": "With a bucket for each layer, the link pays the latency for each.",
        "as-soon-as-free": "It can be better to let the link wait for another gradient, because "
        "each all-reduce costs a latency.",
        "exposed": "Of all choices, the best is the one whose last all-reduce ends first. Which "
        "choices are tried here, and does the comparison take the queue into account?",
        "number-of-layers": "Each layer has to be in one bucket.",
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
                    says="One number is folded into the key here. Expected: first the index along "
                    "data, then, into the new key, that along model.",
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
                    lambda errors, lengths: np.float32(
                        np.where(_is_token(errors, lengths + 1), errors, 0).sum() / lengths.sum()
                    ),
                    says="The first token of the padding counts, too. A token counts if its "
                    "number, from 0, is less than the length.",
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
        "replicated": "w_out is replicated. Does SPECS have an entry with exactly this name?",
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
    scale: Callable[[int, int], float] = lambda size, heads: size**-0.5,
    shortcuts: tuple[float, float] = (1.0, 1.0),
    attended: Callable[[Any], Any] = lambda mixed: mixed,
    activate: Callable[[Any], Any] = jax.nn.gelu,
    axis: int = -1,
    roles: tuple[int, int, int] = (0, 1, 2),
    without_attention: str = "",
) -> Callable[..., Any]:
    """Return a transformer block.

    Args:
        scale: the factor of the scores, for the size of a head and the number of heads.
        shortcuts: the factors of the inputs of the two parts, which are added to their outputs.
        attended: what is done with the result of attention.
        activate: the function between the two layers.
        axis: the dimension of the softmax.
        roles: which of queries, keys and values (0, 1, 2) are taken for each of them.
        without_attention: what takes x where it should take it after attention: `layers` or `sum`.
    """

    def block(x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
        q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)[jnp.array(roles)]
        scores = jnp.einsum("hts,hus->htu", q, k) * scale(q.shape[2], len(q))
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
                "not-scaled": _block(scale=lambda size, heads: 1.0),
                "scaled-otherwise": Mistake(
                    _block(scale=lambda size, heads: 1 / size),
                    _block(scale=lambda size, heads: (size * heads) ** -0.5),
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
        SavesAtMost(name, kept),
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
        "kept. The scores are not among them, and neither is what element-wise functions return.",
        "keep_products: recomputes-too-much": "Is a matmul with a weight computed again? Such "
        "results have to be kept: q, k and v, what `out` makes, and the hidden layer before gelu, "
        "because gelu's gradient depends on it. Or is attention computed again twice, "
        "because a checkpoint is in another one?",
        "keep_little: saves-too-much": "Five arrays of the size of x are enough. q, k and v are "
        "three of them, and the hidden layer is as large as four.",
        "keep_little: recomputes-too-much": "Which matmuls are computed again? One is, if nothing "
        "is kept between it and the next matmul whose gradient needs its result. A policy ignores "
        "names that no array has.",
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
    title = f"expected, {(~kept).sum()} dropped tokens (grey) on all devices"
    return (GanttChart.of(title, lanes, is_timed=False),)


MAX_DRAWN_EXPERTS: Final = 4


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

    def look(token: int, is_expected: bool) -> tuple[str, str]:
        if is_expected or not is_wrong[token]:
            return ("kept", BLUE) if kept[token] else ("dropped", GREY)
        return ("wrong", ORANGE) if actual[token].any() else ("zeros", PINK)

    def drawn(title: str, is_expected: bool) -> GanttChart:
        lanes: dict[str, list[JobBar]] = {}
        for expert in sorted([*shown][:MAX_DRAWN_EXPERTS]):
            bars = lanes.setdefault(f"expert {expert}", [])
            for token in tokens:
                if chosen[token] == expert:
                    word, colour = look(token, is_expected)
                    place, number = int(places[token]), token - device * own
                    bars.append(
                        JobBar(f"token {number} {word}", str(number), colour, place, place + 1)
                    )
        return GanttChart.of(title, lanes, is_timed=False)

    return (
        drawn(
            f"yours, tokens of device {device}, for {MAX_DRAWN_EXPERTS} experts at most; right "
            f"rows are blue, wrong ones orange, and zeros in place of numbers pink",
            is_expected=False,
        ),
        drawn(f"expected, {own // experts} places for each; dropped tokens are grey", True),
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
                "one-way-along-0": Mistake(
                    partial(_exchange_otherwise, send=_send_along_0),
                    partial(_exchange_otherwise, send_back=_send_back_along_0),
                    says="One of the two exchanges concatenates along dimension 0 what comes from "
                    "the devices, and a reshape follows. A reshape changes no order, so tokens or "
                    "results are in the wrong places. Is it the one to the experts, or the one "
                    "back?",
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
                    says="Some tokens get the result of another one. Each token has to read the "
                    "place in which it was sent.",
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
        "over-the-batch": "The capacity is counted over the tokens of all devices here. Each "
        "device has its own places for each expert, so it need not know of the others' tokens.",
        "only-the-first": "In that case a device's tokens are not a multiple of the experts, and "
        "the capacity is rounded down.",
        "dropped: nothing-but-zeros": "No token is dropped here. How many tokens does a device "
        "have, and how many places for each expert?",
        "one-too-few": "One place of each expert stays empty. The first token's place is 0.",
        "one-too-many": "One token more than the capacity is kept. Places are counted from 0.",
        "smallest-scores": "A token chooses the expert with the largest score, not the smallest.",
        "moe: split-does-not-divide": "On the way to the experts, dimension 0 is split, and on the "
        "way back dimension 1.",
        "dropped: dtype": "A sum of integers is an integer, and a mean of them is not.",
        "places-by-devices": "The tokens of a device are divided by the number of devices here. "
        "Expected: by that of experts.",
        "other-factor": "The factor is not the probability of the expert: the softmax of the "
        "token's scores over all experts, at the expert that it has chosen.",
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

SHORT_STEPS: Final = ((8, 32, 6, 768, 1), (4, 24, 5, 640, 2), (4, 16, 7, 3, 2))
"""Tuples of (devices, rows and columns of the weights, microbatches, examples on one device).

Of many microbatches, one that is left out is less than bfloat16 rounds off. Of three, it is not.
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
    be rounded up as often as down, and then a sum in bfloat16 loses little.
    """
    mesh = (("data", n),)

    def examples(width: int, scale: float, shift: float) -> Argument:
        return Argument(
            (microbatches, own * n, width), mesh, (None, "data"), "bfloat16", "auto", scale, shift
        )

    return (
        Argument((rows, columns), mesh, ("data",), mode="auto"),
        examples(rows, 0.05, 0.25),
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


def _many_steps(master: Any, X: Any, Y: Any, divides: bool = True) -> Any:
    """Return the weights after a step for each microbatch.

    With `divides`, a step is as long as if its microbatch were all examples; otherwise it has the
    microbatch's share of the mean over all.
    """
    share = 1.0 if divides else float(len(X))
    for x, y in zip(X, Y, strict=True):
        master = _step_of_some(master, x[None], y[None], slice(None), lambda count: share)
    return master


def _added_up_in_bfloat16(master: Any, X: Any, Y: Any) -> Any:
    """Return a step in which each device adds up its gradients in bfloat16."""
    n = next(n for n, *_, count, _ in SHORT_STEPS if count == len(X))
    weights = _round(master).astype(np.float32)
    x, y = (np.asarray(a, np.float32).reshape(len(a), n, -1, a.shape[-1]) for a in (X, Y))
    off = x @ weights - y
    total = np.zeros((n, *master.shape), jnp.bfloat16)
    for gradient in 2 * np.einsum("mner,mnec->mnrc", x, off):
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
                    _stalls_at(11), says="This holds for float16, which has 11 significant bits."
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
                    says="The gradients are added up in bfloat16, and the sum stops growing long "
                    "before the last microbatch. Which dtype has the carry of the loop?",
                ),
                "rounded-weights": Mistake(
                    _moved(start=_round),
                    _moved(end=_round),
                    _moved(start=_round, end=_round),
                    says="The weights are rounded to bfloat16 before or after the update. Most "
                    "updates are smaller than what this loses, so update the float32 weights.",
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
                    says="The gradient is divided by the numbers of an example's answer, too. Its "
                    "error is a sum over them. Expected: the mean over the examples.",
                ),
                "many-steps": Mistake(
                    _many_steps,
                    partial(_many_steps, divides=False),
                    says="A step is made for each microbatch. Expected: one step with the gradient "
                    "of all of them.",
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
        "change-alone": "An update begins with the old weights.",
        "other-change": "Expected: the sum of the gradients, divided by the number of examples in "
        "all microbatches and on all devices, times the rate.",
        "stalls_at: natural-logarithm": "Which logarithm is this? The distance doubles at powers "
        "of two.",
        "mixed_step: first-rows": "Each device updates the first rows of the gathered weights. "
        "Expected: its own rows, in float32.",
        "sends-too-much": "A bfloat16 has two bytes. Convert the weights before they are gathered, "
        "and the sum of the gradients before it is scattered.",
        "other-type": "float16 has as many bytes, and a smaller range.",
        "too-often": "Gather the weights once, before the loop, and scatter the sum once after it.",
    },
)

EXERCISES: Final = (
    LATENCY,
    TOPOLOGY,
    PIPELINES,
    ZERO,
    RING_ATTENTION,
    OVERLAP,
    TRAINER,
    ACTIVATIONS,
    EXPERTS,
    MIXED_PRECISION,
)
