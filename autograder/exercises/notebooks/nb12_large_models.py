"""Notebook 12: large models, and where their time goes.

Times are modelled, so every right number follows from formulas that the prompts state. A schedule
is judged as data: the judge computes when each job runs, so made-up times earn nothing.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from autograder.judge import AnyOf, Exercise, Returns, Satisfies
from autograder.programs import (
    BACKWARD,
    FORWARD,
    PipelineRun,
    explain_orders,
    explain_waiting,
    run_pipeline,
)

Problem = tuple[str, str]
"""A diagnosis, and a sentence for the learner."""

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

# 12.2: pipeline schedules


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


def explain_one_f_one_b(orders: Any, stages: int, microbatches: int) -> Problem | None:
    """Find what is wrong with a 1F1B schedule: how long it takes, and how much it keeps."""
    ran = _run(orders, stages, microbatches)
    if not isinstance(ran, PipelineRun):
        return ran
    for stage, alive in enumerate(ran.alive):
        fewest = min(stages - stage, microbatches)
        if alive > fewest:
            return "too-many-activations", (
                f"With {stages} stages and {microbatches} microbatches, stage {stage} keeps the "
                f"activations of {alive} microbatches at once; {fewest} "
                f"{'is' if fewest == 1 else 'are'} enough."
            )
    return _explain_time(ran, stages, microbatches)


def _draw_sizes(rng: np.random.Generator) -> list[tuple[int, int]]:
    """Sample numbers of stages and microbatches: first the notebook's, then fewer and more."""
    few = [(int(p), int(rng.integers(1, p))) for p in rng.choice([3, 5, 6, 7], 2, replace=False)]
    many = [(int(p), int(rng.integers(p, 3 * p))) for p in rng.choice([2, 3, 5, 8], 2)]
    return [(4, 6), *few, *many, (1, int(rng.integers(2, 6)))]


def _bubble(stages: int, microbatches: int) -> float:
    return (stages - 1) / (microbatches + stages - 1)


PIPELINES: Final = Exercise(
    id="12.2",
    title="Two pipeline schedules",
    afterwards="Megatron-LM's interleaved 1F1B gives each stage several groups of layers that are "
    "not neighbours. That makes the bubble smaller still, and sends more.",
    requirements=(
        Satisfies(
            "gpipe",
            "gpipe(stages, microbatches) must return orders in which each stage runs all forward "
            "passes, then all backward passes, in the shortest time.",
            _draw_sizes,
            explain_gpipe,
        ),
        Satisfies(
            "one_f_one_b",
            "one_f_one_b(stages, microbatches) must return orders that take as long as GPipe's, "
            "with the activations of at most stages - s microbatches alive on stage s.",
            _draw_sizes,
            explain_one_f_one_b,
        ),
        Returns(
            "bubble",
            "bubble(stages, microbatches) must return the share of the time in which a stage "
            "waits.",
            _draw_sizes,
            _bubble,
            {
                "of-the-work": lambda p, m: (p - 1) / m,
                "busy-share": lambda p, m: m / (m + p - 1),
                "one-step-more": lambda p, m: (p - 1) / (m + p),
                "both-ends": lambda p, m: 2 * (p - 1) / (m + 2 * (p - 1)),
                "in-units": lambda p, m: (FORWARD + BACKWARD) * (p - 1),
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
        "job-missing": "At the end a stage has to run the backward passes that are left from its "
        "warm-up. And there may be fewer microbatches than stages.",
        "unknown-job": "Microbatches are counted from 0. There may be fewer of them than stages.",
        "of-the-work": "This compares the waiting with the work. Expected: its share of the whole "
        "time, waiting and work together.",
        "busy-share": "This is the share of the time in which a stage works.",
        "one-step-more": "How long does the schedule take? The first microbatch needs one step on "
        "each stage, and one more microbatch arrives with each step after that.",
        "both-ends": "The waiting counts twice here. A stage waits for (stages - 1) forward passes "
        "and as many backward passes, and a microbatch's work is a forward and a backward pass, "
        "too.",
        "in-units": "This is the time in which a stage waits. Expected: its share of the whole "
        "time.",
    },
)

EXERCISES: Final = (LATENCY, PIPELINES)
