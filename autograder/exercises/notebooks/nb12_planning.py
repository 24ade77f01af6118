"""Notebook 12, planning: latency, topology, pipelines, the levels of ZeRO, and overlap.

Times are modelled, so every right number follows from formulas that the prompts state. A schedule
is judged as data: the judge computes when each job runs, so made-up times earn nothing.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from autograder.artifacts import (
    BACKWARD,
    FORWARD,
    Argument,
    PipelineRun,
    chart_overlap,
    chart_pipelines,
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
    Exercise,
    FitsIn,
    KeepsLayouts,
    Mistake,
    Requirement,
    Returns,
    Satisfies,
    Terms,
)
from shardlings.pictures import BLUE, GREY, ORANGE, PINK, GanttChart, JobBar

Problem = tuple[str, str]
"""A diagnosis, and a sentence for the learner."""

Charts = tuple[GanttChart, ...]

MAX_DRAWN: Final = 3
"""A learner's time is drawn up to this many times the end of the right one, and cut off there."""


def _draw_beside(
    title: str,
    lanes: dict[str, list[JobBar]],
    result: Any,
    right: float,
    start: float = 0,
    legend: dict[str, str] | None = None,
    remarks: Sequence[str] = (),
) -> Charts:
    """Draw the right time of something, in lanes, and a learner's time below it.

    Args:
        title: the title of the chart.
        lanes: what takes the time, in the unit of `right`.
        result: the learner's number, which may be anything.
        right: the right number.
        start: when the time begins.
        legend: what the colours of the lanes mean, where labels do not say it.
        remarks: lines below the title.
    """
    bars = []
    if isinstance(result, int | float) and 0 < result < float("inf"):
        end, drawn_until = start + float(result), start + MAX_DRAWN * (start + right)
        bars = [JobBar("your time", f"{result:.4g}", PINK, start, end, drawn_until)]
    lanes = lanes | {"yours": bars}
    title = f"expected, {title}"
    return (GanttChart.of(title, lanes, remarks, axis="time, ms", legend=legend),)


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

    Eight devices come three times, so that it follows how often each term counts, and once more
    with a small buffer that they cannot share evenly, so that rounded pieces take another time.
    """
    sampled = [
        (
            int(2**k),
            int(2 ** rng.uniform(8, 28)),
            float(f"{10 ** rng.uniform(-6, -4):.2g}"),
            float(f"{10 ** rng.uniform(9, 12):.2g}"),
        )
        for k in (3, 3, 3, *rng.permutation([1, 2, 4, 5, 7]))
    ]
    return [*sampled, (8, 8 * int(rng.integers(20, 100)) + 5, 1e-6, 1e8)]


def _sample_machines(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample numbers of devices and machines; with the last two, a rounded size is another one."""
    sampled = [
        (n, latency, bandwidth) for n, _, latency, bandwidth in _sample_buffers(rng)[:-1] if n > 2
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
                "one-latency": _steps(_ring_steps, lambda n: 1, _piece),
                "two-latencies": Mistake(
                    _steps(_ring_steps, lambda n: 2, _piece),
                    says="The latency counts twice here. Each step begins when the one before has "
                    "ended, so it waits for the latency again.",
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
                "whole-pieces": Mistake(
                    lambda n, size, *machine: RING(n, n * (size // n), *machine),
                    lambda n, size, *machine: RING(n, n * math.ceil(size / n), *machine),
                    says="The pieces are rounded to whole bytes. Expected: size / n as it is.",
                ),
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
                    says="At this size, the bytes of one message take as long as its latency. "
                    "Expected: the size at which the ring takes as long as the faster one of the "
                    "other two.",
                ),
                "over-the-bandwidth": Mistake(
                    lambda n, latency, bandwidth: RING_FROM(n, latency, bandwidth) / bandwidth**2,
                    says="The latency is divided by the bandwidth here. latency * bandwidth is a "
                    "number of bytes.",
                ),
                "over-the-latency": Mistake(
                    lambda n, latency, bandwidth: RING_FROM(n, latency, bandwidth) / latency**2,
                    says="The bandwidth is divided by the latency here. latency * bandwidth is a "
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


# 12.2: time collectives by their links


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
    """Sample clusters, of which the first three have as many hosts and chips.

    Their bandwidths have different ratios, so that it follows how often each term counts.
    """
    fast, slow = (100e9, 200e9, 450e9), (12.5e9, 6e9, 3e9)
    sizes = [(4, 8)] * 3 + [
        (int(rng.integers(2, 9)), int(rng.choice([4, 8, 16]))) for _ in range(4)
    ]
    links = [(fast[i], slow[i]) for i in rng.permutation(3).tolist()]
    links += [(float(rng.choice(fast)), float(rng.choice(slow))) for _ in range(4)]
    return [
        (*size, int(2 ** rng.uniform(24, 32)), *link)
        for size, link in zip(sizes, links, strict=True)
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
    row = "a ring" if wraps else "an open row"
    right = 1e3 * _gather(n, size, link, wraps)
    title = f"{right:.4g} ms until chip {n - 1} of {row} of {n} chips has all pieces"
    remarks = ("A box has the number of the chip whose piece arrives.",)
    return _draw_beside(title, lanes, _in_ms(result), right, remarks=remarks)


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
    title = f"{right:.4g} ms on two levels, with {hosts} hosts of {chips} chips"
    legend = {ORANGE: "reduce-scatter", GREY: "all-reduce", BLUE: "all-gather"}
    return _draw_beside(title, lanes, _in_ms(result), right, legend=legend)


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
    title="Time collectives by their links",
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
    if microbatches > 1 and all(
        list(order) == [f"{job}{m}" for m in range(microbatches) for job in "FB"]
        for order in ran.orders
    ):
        return "one-by-one", (
            "Every stage runs the forward and the backward pass of a microbatch before the next "
            "one, as in one_by_one."
        )
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
    warm_ups = [_count_warm_up(order) for order in orders]
    grows = any(before < after for before, after in itertools.pairwise(warm_ups))
    if problem[0] == "never-ends" and grows and all(map(_is_forward_first, orders)):
        problem = "warm-up-grows", problem[1]
    return problem[0], (
        f"{problem[1]} The stages run {', '.join(map(str, warm_ups))} forward passes before their "
        f"first backward pass."
    )


def _is_forward_first(order: Sequence[str]) -> bool:
    """Check whether each microbatch's forward pass comes before its backward pass."""
    return all(order.index(f"F{job[1:]}") < i for i, job in enumerate(order) if job[0] == "B")


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
        return chart_pipelines(yours=orders, expected=order(stages, microbatches)).charts

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
            shown_as=list,
        ),
        Satisfies(
            "one_f_one_b",
            "one_f_one_b(stages, microbatches) must return orders that take as long as GPipe's, "
            "with the activations of at most stages - s microbatches alive on stage s.",
            _sample_sizes,
            explain_one_f_one_b,
            _draw_schedules(order_one_f_one_b),
            shown_as=list,
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
                "waits-twice-in-all": Mistake(
                    lambda p, m: (p - 1) / (m + 2 * (p - 1)),
                    says="The whole time contains the waiting twice here. A stage waits once for "
                    "the other stages, and works on each microbatch once.",
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
                    says="A stage that waits for `stages` steps would wait for itself. With a "
                    "single stage, nobody waits.",
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
                            (3, 2, 3),
                            (3, 1, 3),
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
        "their microbatches in different orders, so that they wait for each other. In which order "
        "does each stage run its passes? (A microbatch's backward pass comes after its own forward "
        "pass.)",
        "warm-up-grows": "An earlier stage must run at least as many forward passes before its "
        "first backward pass as the next one. Otherwise these two wait for each other.",
        "backward-early": "In GPipe, a stage runs all of its forward passes first.",
        "one-by-one": "So only one stage works at a time. In GPipe, a stage runs all of its "
        "forward passes first.",
        "gpipe: too-long": "Do the backward passes of all stages come in the same order?",
        "one_f_one_b: too-long": "Some stage waits too long. How many forward passes does a stage "
        "run before it begins to take turns? With too few, the stages after it have nothing to do.",
        "too-many-activations": "After its warm-up, a stage should run a backward pass for each "
        "forward pass. A stage nearer to the end gets its gradients earlier, so its warm-up is "
        "shorter.",
        "forward-missing": "Each stage runs a forward pass of each microbatch, before its turns or "
        "in one of them. Does its last forward pass come in your order?",
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
    "states-from-zeros": lambda W, m, v, X, Y: _step(_one)(W, 0 * m, 0 * v, X, Y),
    "weights-unchanged": lambda W, m, v, X, Y: (W, *_step(_one)(W, m, v, X, Y)[1:]),
}


def _implied_gradient(m: Any, new_m: Any) -> Any:
    return (new_m - np.float32(0.9) * m) / np.float32(0.1)


def _are_close(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-3 * float(np.abs(other).max())))


def _has_right_gradient(inputs: Any, results: Any) -> bool:
    """Check whether the new m follows from the right gradient."""
    right = _step(_one)(*inputs)
    return _are_close(*(_implied_gradient(inputs[1], each[1]) for each in (results, right)))


def _has_multiple_of_gradient(inputs: Any, results: Any) -> bool:
    """Check whether the new m follows from a number times the right gradient."""
    right = _step(_one)(*inputs)
    found, right = (_implied_gradient(inputs[1], each[1]) for each in (results, right))
    factor = np.vdot(right, found) / np.vdot(right, right)
    return abs(factor) > 1e-3 and not _are_close(factor, 1) and _are_close(found, factor * right)


def _has_other_gradient(inputs: Any, results: Any) -> bool:
    """Check whether the results are those of Adam, with another gradient."""
    gradient = _implied_gradient(inputs[1], results[1])
    expected = _adam(inputs[0], inputs[1], inputs[2], gradient)
    changes = zip(expected, results, inputs[:3], strict=True)
    is_adam = all(_are_close(one - old, other - old) for one, other, old in changes)
    return is_adam and not _has_right_gradient(inputs, results)


OTHER_UPDATES: Final = {
    "multiple-of-the-gradient": Mistake(
        _has_multiple_of_gradient,
        says="m follows from the right gradient times a number. By which numbers do you divide or "
        "multiply it? Expected: the sum over all examples of the squared errors, of all devices "
        "and microbatches, divided once by how many examples these are.",
    ),
    "other-gradient": Mistake(
        _has_other_gradient,
        says="Adam is right here, and the gradient is another one. Does each device have the sum "
        "over all devices and microbatches of the gradient with respect to its own rows of W?",
    ),
    "other-update": Mistake(
        _has_right_gradient,
        says="m follows from the right gradient, and what becomes of it is not Adam as in the "
        "notebook: v takes 0.001 times its square, and W loses 0.01 * m / (sqrt(v) + 1e-8), with "
        "the new m and v.",
    ),
}
"""Checks of a step's results that tell a wrong gradient from a wrong update."""


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
            OTHER_UPDATES,
            under_mesh=True,
            results=("W", "m", "v"),
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
        "states-from-zeros": "m and v begin as zeros in this step. Expected: as the arguments.",
        "weights-unchanged": "The new m and v are right, and W is returned as it was.",
        "as-many-times": "The gradient is too large by the number of devices. Is it added up "
        "twice, because W was not varying, or divided by a device's own examples?",
        "sum-for-mean": "Is this the sum over the examples, or is it divided by too few of them? "
        "Expected: the mean over all, on all devices.",
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
        "not-replicated": "In zero_1 and zero_2, return the new W from the body in shards, and "
        "request P() outside of the body, by lax.with_sharding_constraint.",
        "zero_3: shapes-do-not-fit": "The backward pass of an all_gather is a psum_scatter, so the "
        "gradient is that of a device's own rows already.",
        "zero_1: too-many-bytes": "One reduce-scatter of the gradients is enough, after the loop "
        "over the microbatches, and then one all-gather of the new W.",
        "zero_1: too-much-memory": "Is the loop over the microbatches one of lax.scan or "
        "lax.fori_loop? In a loop of Python, gradients of several microbatches are held at once.",
        "zero_2: too-much-memory": "Is the reduce-scatter in the loop, so that the complete sum of "
        "the gradients is never held? And is it a loop of lax.scan or lax.fori_loop?",
        "zero_3: too-much-memory": "Is the gather in the function that is differentiated, with "
        "jax.checkpoint around it? Otherwise the compiler gathers once, before the loop, and holds "
        "all of W. Does W come in as it is laid out? In the layout P() it is gathered before the "
        "function begins. And is it a loop of lax.scan or lax.fori_loop?",
        "own-examples": "The gradient of a device's rows is that of its own examples. Add up the "
        "gradients of all devices: a psum_scatter does this, and keeps a device's own rows.",
    },
)


# 12.6: overlap

CLOSE_ENOUGH: Final = 1.01
"""The whole time of a right choice of buckets may be longer than the shortest by this factor."""

WORSE: Final = 1.05
"""By this factor or more, simple choices of buckets take longer in every case."""

WORSE_IF_FILLED: Final = 1.02
"""By this factor or more, buckets of one size take longer, whichever size that is, and so do those
that grow, or shrink, from each to the next where the best do neither."""


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


def _sample_all_kinds(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample models whose best buckets are of all kinds, so that a right answer tries them all.

    The best of the last three are a single bucket, a bucket for each layer, and buckets that
    neither grow nor shrink all the way.
    """
    cases, layers = _sample_backward_passes(rng), 12
    backward, sizes, _, bandwidth = _sample_model(rng, layers)
    cases.append((backward, sizes, round(1.2 * sum(backward), 1), bandwidth))
    backward = [round(float(seconds), 1) for seconds in rng.uniform(1, 3, layers)]
    latency, bandwidth = 0.1, 20.0
    # each all-reduce ends when the next gradients are there
    sizes = [round((b - latency) * bandwidth) for b in [*backward[1:], backward[0]]]
    cases.append((backward, sizes, latency, bandwidth))
    case = _sample_model(rng, 8)
    while not (_is_telling(case) and _is_worse_in_order(case)):
        case = _sample_model(rng, 8)
    return [*cases, case]


def _is_worse_in_order(case: tuple[Any, ...]) -> bool:
    """Check whether buckets that only grow, or only shrink, are clearly worse in a case."""
    best, growing = shortest_overlap(*case), list(_partition(len(case[0])))
    return all(
        _end(*case, buckets=buckets[::order]) > WORSE_IF_FILLED * best
        for buckets in growing
        for order in (1, -1)
    )


def _partition(layers: int, least: int = 1) -> Iterator[list[int]]:
    """Yield all buckets that grow from each to the next, or stay as large."""
    yield [layers]
    for first in range(least, layers // 2 + 1):
        yield from ([first, *others] for others in _partition(layers - first, first))


def _sample_choices(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample models with a choice of buckets for each."""
    cases = []
    for backward, sizes, latency, bandwidth in _sample_backward_passes(rng):
        filled = fill_buckets(sizes, float(rng.uniform(0.15, 0.5)) * sum(sizes))
        # of a large bucket and a small one, the large one ends last if nobody waits; of a small one
        # and a large one, the link waits for the large one's gradients; of four, the last ones
        # begin far from where the others end
        layers = len(sizes)
        for buckets in (filled, [layers - 1, 1], [1, layers - 1], [1, 2, 1, layers - 4]):
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
    next_of: Callable[[int, int], int] = lambda first, last: last,
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
        next_of: the first layer of the next bucket, from the first layer and the end of this one.
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
        first = next_of(first, last)
    return float(end - sum(backward))


def _waits_for(computed: Callable[[int, int], slice]) -> tuple[Callable[..., float], ...]:
    """Return the exposed time if a bucket waits for other layers: as it is, and if never negative.

    Args:
        computed: the layers that a bucket waits for, from its first layer and its end.
    """
    early = partial(_sliced, computed=computed)
    return early, lambda *case: max(early(*case), 0.0)


def _one_layer_back(place: int, before: Sequence[int]) -> int:
    """Return a bucket's first layer if each bucket begins with the last layer of the one before."""
    return sum(before) - place


def _last_size(place: int, before: Sequence[int]) -> int:
    """Return a bucket's first layer if it is the number of layers in the bucket before it."""
    return before[-1] if before else 0


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


def _largest_of_each(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return the exposed time if of each bucket only the largest gradient were sent."""
    parts = np.split(np.asarray(sizes), np.cumsum(buckets)[:-1])
    alone = [size for part in parts for size in (max(part), *[0] * (len(part) - 1))]
    return _exposed(backward, alone, buckets, latency, bandwidth)


def _never_waiting(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return the exposed time if only the first bucket waited for its gradients."""
    ready = sum(backward[: buckets[0]])
    return float(ready + sum(_durations(sizes, buckets, latency, bandwidth)) - sum(backward))


def _waits_added(
    backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> float:
    """Return how long all buckets take from their last gradient to the end of their all-reduce."""
    ready = np.cumsum(backward)[np.cumsum(buckets) - 1]
    ends = [end for _, end in run_overlap(backward, sizes, buckets, latency, bandwidth).sending]
    return float(sum(np.asarray(ends) - ready))


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
        f"With the buckets {list(buckets)}, {ran.exposed:.2f} ms are exposed; "
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
    best = choose_buckets(*model)[1]
    if len(best) == 1:
        return "all-in-one-missed", " All layers in one bucket are the best here."
    if len(best) == len(backward):
        return "each-alone-missed", " A bucket for each layer is the best here."
    if buckets == _send_when_free(*model):
        return "as-soon-as-free", (
            " They are sent as soon as the link is free, with the gradients that are there."
        )
    if buckets[::-1] == best:
        return "opposite-order", ""
    if len(buckets) not in (1, len(backward)) and _is_best_without_latency(buckets, *model):
        return "latency-ignored", " They would be among the best if the latency were 0."
    return {1: "one-bucket", len(backward): "a-bucket-each"}.get(len(buckets), "exposed"), ""


def _is_best_without_latency(
    buckets: list[int],
    backward: Sequence[float],
    sizes: Sequence[float],
    latency: float,
    bandwidth: float,
) -> bool:
    del latency
    best, _ = choose_buckets(backward, sizes, 0.0, bandwidth)
    return math.isclose(run_overlap(backward, sizes, buckets, 0.0, bandwidth).sending[-1][1], best)


def _relate_choices(
    diagnosis: str, model: tuple[Any, ...], results: Sequence[tuple[Any, tuple[Any, ...]]]
) -> str:
    """Name the opposite order, or a forgotten latency, only if it explains all choices."""
    explains = {
        "opposite-order": lambda buckets, *each: (
            explain_buckets_chosen(buckets[::-1], *each) is None
        ),
        "latency-ignored": _is_best_without_latency,
    }.get(diagnosis)
    if explains is None or all(
        isinstance(buckets, list)
        and explain_buckets(buckets, len(each[0])) is None
        and explains(buckets, *each)
        for buckets, each in results
    ):
        return diagnosis
    return "exposed"


def _draw_exposed(
    result: Any, backward: Any, sizes: Any, buckets: Any, latency: float, bandwidth: float
) -> Charts:
    """Draw an overlap, the exposed time, and a learner's."""
    (drawn,) = chart_overlap(backward, sizes, latency, bandwidth, expected=buckets).charts
    start, right = sum(backward), _exposed(backward, sizes, buckets, latency, bandwidth)
    lanes = {name: [*bars] for name, bars in drawn.bars.items()}
    lanes["exposed"] = [JobBar("exposed", f"{right:.3g}", ORANGE, start, start + right)]
    title = f"{right:.3g} of {start + right:.3g} ms are exposed"
    legend, remarks = dict(drawn.legend), drawn.remarks[1:]  # the title says the first
    return _draw_beside(title, lanes, result, right, start, legend, remarks)


def _draw_buckets(buckets: Any, backward: Any, *model: Any) -> Charts:
    """Draw an overlap with a learner's buckets, and with the best."""
    if explain_buckets(buckets, len(backward)) is not None:
        return ()
    _, best = choose_buckets(backward, *model)
    return chart_overlap(backward, *model, yours=buckets, the_best=best).charts


IF_COMPARED: Final = "(If you compare them by `exposed`, and it is wrong, mend it first.)"

OVERLAP: Final = Exercise(
    id="12.6",
    title="Reduce while you compute",
    afterwards="PyTorch's data parallelism closes a bucket at 25 MiB unless you say otherwise. XLA "
    "decides for itself which all-reduces it combines, up to a number of bytes, which a flag sets.",
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
                    *_waits_for(lambda first, last: slice(first + 1)),
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
                    *_waits_for(lambda first, last: slice(first)),
                    says="A bucket is sent here as soon as the layers of the bucket before it are "
                    "computed. It has to wait for its own.",
                ),
                "one-layer-early": Mistake(
                    *_waits_for(lambda first, last: slice(last - 1)),
                    says="A bucket is sent here before its last layer is computed.",
                ),
                "own-layers-alone": Mistake(
                    *_waits_for(slice),
                    says="A bucket waits only as long as its own layers take here. The layers "
                    "before it are computed before them.",
                ),
                "same-beginning": Mistake(
                    partial(_sliced, next_of=lambda first, last: 0),
                    says="All buckets begin with the first layer here. Each begins where the one "
                    "before it ends.",
                ),
                "after-the-last-number": Mistake(
                    partial(_sliced, next_of=lambda first, last: last - first),
                    *(
                        partial(_at_other_layers, first_of=_last_size, is_end_right=is_right)
                        for is_right in (False, True)
                    ),
                    says="A bucket begins here with the layer whose number is the size of the "
                    "bucket before it. It begins after the layers of all buckets before it.",
                ),
                "largest-gradient": Mistake(
                    _largest_of_each,
                    says="Of each bucket, only the largest gradient is sent here. Add up all of "
                    "them.",
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
                    partial(_sliced, next_of=lambda first, last: last - 1),
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
                    says="A latency is missing. Does one pass here while a bucket waits for its "
                    "gradients? It begins when the bucket is sent.",
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
                "waits-added": Mistake(
                    _waits_added,
                    says="This is how long each bucket takes from its last gradient to the end of "
                    "its all-reduce, added up. Only what comes after the backward pass counts.",
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
            _sample_all_kinds,
            explain_buckets_chosen,
            _draw_buckets,
            _relate_choices,
            shown_as=list,
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
        "one-bucket": f"With a single bucket, nothing is sent before the backward pass has ended. "
        f"{IF_COMPARED}",
        "a-bucket-each": f"With a bucket for each layer, the link pays the latency for each. "
        f"{IF_COMPARED}",
        "as-soon-as-free": "It can be better to let the link wait for another gradient, because "
        "each all-reduce costs a latency.",
        "all-in-one-missed": f"Is that among the choices that you try? {IF_COMPARED}",
        "each-alone-missed": f"Is that among the choices that you try? {IF_COMPARED}",
        "exposed": f"Of all choices, the best is the one whose last all-reduce ends first. Which "
        f"choices are tried? {IF_COMPARED}",
        "latency-ignored": f"Does the latency count where you compare the choices? {IF_COMPARED}",
        "opposite-order": "In the opposite order, all of your choices would be right. The first "
        "bucket has the layers with which the backward pass begins.",
        "number-of-layers": "Each layer has to be in one bucket.",
    },
)
