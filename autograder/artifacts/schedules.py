"""Model when jobs run: those of a pipeline's stages, or of a device and of its link.

A schedule says in which order each lane (a stage, a device, a link) runs its jobs, and not when. A
job starts as soon as its lane has finished the job before it and the jobs that it needs have ended.
So an answer cannot make up times: they follow from its orders.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final

from shardlings.documents import with_noun
from shardlings.pictures import (
    AMBER,
    BLUE,
    GREY,
    ORANGE,
    GanttChart,
    JobBar,
    display,
    gantt_as_html,
    gantt_as_text,
)

FORWARD: Final = 1
"""Units of time that a stage needs for the forward pass of a microbatch."""

BACKWARD: Final = 2
"""Units of time that it needs for the backward pass, which computes two gradients."""

COLOURS: Final = {
    "F": BLUE, "B": AMBER, "computing": GREY, "sending": ORANGE, "hidden": BLUE, "exposed": ORANGE,
}  # fmt: skip
"""Light colours, which colour-blind readers can distinguish."""


JOB: Final = re.compile(r"[FB]\d+")


@dataclass(frozen=True)
class ScheduledJob:
    """A piece of work that one lane does.

    Attributes:
        key: identifies it among all jobs.
        duration: how long it takes.
        needs: the keys of the jobs that must have ended before it starts.
    """

    key: Hashable
    duration: float
    needs: tuple[Hashable, ...] = ()


Times = dict[Hashable, tuple[float, float]]
"""When each job starts and ends."""


def run_jobs(lanes: Sequence[Sequence[ScheduledJob]]) -> Times:
    """Return when each job starts and ends, if every job starts as soon as it can.

    Jobs that never start, because lanes wait for each other, are left out.

    Args:
        lanes: the jobs of each lane, in the order in which it runs them.
    """
    times: Times = {}
    next_jobs, free_from = [0] * len(lanes), [0.0] * len(lanes)
    has_run = True
    while has_run:
        has_run = False
        for lane, jobs in enumerate(lanes):
            while next_jobs[lane] < len(jobs):
                job = jobs[next_jobs[lane]]
                if any(key not in times for key in job.needs):
                    break
                start = max([free_from[lane], *(times[key][1] for key in job.needs)])
                times[job.key] = start, start + job.duration
                free_from[lane] = start + job.duration
                next_jobs[lane] += 1
                has_run = True
    return times


Orders = Sequence[Sequence[str]]
"""For each stage of a pipeline its jobs in order, such as `["F0", "F1", "B0", "B1"]`."""


@dataclass(frozen=True)
class PipelineRun:
    """When the stages of a pipeline run their jobs.

    Attributes:
        orders: the jobs of each stage in order.
        times: when each job starts and ends, by its stage and its name.
    """

    orders: Orders
    times: Times

    @property
    def total(self) -> float:
        """The time until the last job ends."""
        return max((end for _, end in self.times.values()), default=0.0)

    @property
    def waiting(self) -> list[tuple[int, str]]:
        """The stages that never go on, each with the job that it waits to start."""
        return [
            (stage, next(name for name in order if (stage, name) not in self.times))
            for stage, order in enumerate(self.orders)
            if any((stage, name) not in self.times for name in order)
        ]

    @property
    def bubble(self) -> float:
        """The share of the time, from 0 to 1, in which a stage waits, averaged over the stages."""
        busy = sum(end - start for start, end in self.times.values())
        return 1 - busy / (self.total * len(self.orders))

    @property
    def alive(self) -> list[int]:
        """For each stage the most microbatches whose activations it keeps at once.

        A stage keeps them from the start of a forward pass to the end of the backward pass.
        """
        most = []
        for order in self.orders:
            kept = [0]
            for name in order:
                kept.append(kept[-1] + (1 if name[0] == "F" else -1))
            most.append(max(kept))
        return most


def explain_orders(orders: Any, stages: int, microbatches: int) -> tuple[str, str] | None:
    """Find what makes plain data no orders of a pipeline's jobs.

    Args:
        orders: plain data of any form.
        stages: the number of stages.
        microbatches: the number of microbatches.

    Returns:
        A diagnosis and a sentence, or None if each stage runs each of its jobs once.
    """
    if not _is_list(orders) or not all(_is_list(order) for order in orders):
        return "no-orders", (
            "The result must be a list with a list of jobs for each stage, such as "
            '[["F0", "B0"], ["F0", "B0"]] for two stages and one microbatch.'
        )
    if len(orders) != stages:
        return "number-of-stages", (
            f"The result has {with_noun(len(orders), 'list')} of jobs; "
            f"expected one for each of {stages} stages."
        )
    wanted = dict.fromkeys(f"{kind}{m}" for kind in "FB" for m in range(microbatches))
    for stage, order in enumerate(orders):
        unknown = [job for job in order if not isinstance(job, str) or job not in wanted]
        if unknown:
            last, job = microbatches - 1, unknown[0]
            if not isinstance(job, str) or not JOB.fullmatch(job):
                return "no-job", (
                    f"Stage {stage} runs {str(job)[:20]}. A job is a string: 'F0' is the forward "
                    f"pass of microbatch 0, and 'B0' its backward pass."
                )
            jobs = f"the jobs are 'F0' to 'F{last}' and 'B0' to 'B{last}'"
            return "unknown-job", (
                f"Stage {stage} runs {job[:20]!r}. With {microbatches} microbatches, {jobs}."
                if last
                else f"Stage {stage} runs {job[:20]!r}. With one microbatch, the jobs are 'F0' and "
                f"'B0'."
            )
        counts = Counter(order)
        for job in wanted:
            if counts[job] > 1:
                return "job-twice", f"Stage {stage} runs {job} {counts[job]} times."
            if not counts[job]:
                diagnosis = "forward-missing" if job[0] == "F" else "job-missing"
                other = f"{'B' if job[0] == 'F' else 'F'}{job[1:]}"
                how = f"runs {other} but no {job}" if counts[other] else f"never runs {job}"
                return diagnosis, f"Stage {stage} {how}."
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def run_pipeline(orders: Orders) -> PipelineRun:
    """Run the jobs of a pipeline, each as soon as it can start.

    The forward pass of a microbatch needs that of the stage before; its backward pass needs that of
    the stage after, and the stage's own forward pass.

    Args:
        orders: the jobs of each stage; `explain_orders` finds nothing wrong with them.
    """
    last = len(orders) - 1

    def make_job(stage: int, name: str) -> ScheduledJob:
        kind, microbatch = name[0], name[1:]
        if kind == "F":
            needs = [(stage - 1, name)] * (stage > 0)
            return ScheduledJob((stage, name), FORWARD, tuple(needs))
        needs = [(stage, f"F{microbatch}"), *([(stage + 1, name)] * (stage < last))]
        return ScheduledJob((stage, name), BACKWARD, tuple(needs))

    lanes = [[make_job(stage, name) for name in order] for stage, order in enumerate(orders)]
    return PipelineRun([list(order) for order in orders], run_jobs(lanes))


def explain_waiting(ran: PipelineRun) -> str:
    """Say for what the stages wait that never go on; empty if there are none.

    A stage waits for a job of another one, which waits, too. So this follows the stages until one
    waits for itself, or comes up again.
    """
    if not ran.waiting:
        return ""
    waiting, waits = dict(ran.waiting), dict[int, str]()
    stage = ran.waiting[0][0]
    while stage not in waits:
        name = waiting[stage]
        if name[0] == "B" and (stage, f"F{name[1:]}") not in ran.times:
            return f"The schedule never ends: stage {stage} has {name} before its own F{name[1:]}."
        before, stage = stage, stage + (1 if name[0] == "B" else -1)
        waits[before] = f"waits with {name} for {name} of stage {stage}"
    first = [*waits].index(stage)
    chain = ", which ".join([*waits.values()][first:])
    return f"The schedule never ends: stage {stage} {chain}."


@dataclass(frozen=True, repr=False)
class Schedules:
    """Gantt charts of schedules.

    Attributes:
        charts: the charts.
    """

    charts: tuple[GanttChart, ...]

    def __str__(self) -> str:
        """Return a line for each lane of each chart."""
        return gantt_as_text(self.charts)

    __repr__ = __str__

    def display(self) -> None:
        """Display the charts at once, so that a cell may draw several times."""
        from rich.text import Text  # a submission's process need not import it

        display(gantt_as_html(self.charts), str(self), lambda: Text(str(self)))


def draw_pipelines(**schedules: Orders | EllipsisType) -> None:
    """Draw schedules of a pipeline below each other, on one scale.

    A long schedule continues in rows below, so that jobs have room for the numbers of microbatches.
    For example, `draw_pipelines(mine=[["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]])`.

    Args:
        **schedules: for each stage its jobs in order, by the name that the chart has.
    """
    chart_pipelines(**schedules).display()


def chart_pipelines(**schedules: Orders | EllipsisType) -> Schedules:
    """Return the charts that `draw_pipelines` displays."""
    return Schedules(tuple(_pipeline_chart(name, orders) for name, orders in schedules.items()))


def _pipeline_chart(name: str, orders: Any) -> GanttChart:
    name = name.replace("_", " ")
    if orders is ... or orders is None:
        return GanttChart.of(f"{name}: not filled in yet", {})
    stages = len(orders) if _is_list(orders) else 0
    first = orders[0] if stages and _is_list(orders[0]) else ()
    microbatches = sum(isinstance(job, str) and job[:1] == "F" for job in first)
    problem = explain_orders(orders, stages, microbatches)
    if problem is not None or not microbatches:
        return GanttChart.of(f"{name}: {problem[1] if problem else 'There are no jobs.'}", {})
    ran = run_pipeline(orders)
    lanes = {f"stage {stage}": _bars(stage, order, ran.times) for stage, order in enumerate(orders)}
    waits = explain_waiting(ran)
    remark = waits or (
        f"{ran.total:g} units of time, of which a stage waits {ran.bubble:.0%}; activations alive "
        f"on each stage: {', '.join(map(str, ran.alive))}"
    )
    legend = {COLOURS["F"]: "forward pass", COLOURS["B"]: "backward pass"}
    return GanttChart.of(name, lanes, (remark,), axis="time, units", legend=legend, may_wrap=True)


def _bars(stage: int, order: Iterable[str], times: Times) -> list[JobBar]:
    return [
        JobBar(name, name[1:], COLOURS[name[0]], *times[stage, name])
        for name in order
        if (stage, name) in times
    ]


def explain_buckets(buckets: Any, layers: int) -> tuple[str, str] | None:
    """Find what makes plain data no partition of a number of layers into buckets."""
    if not _is_list(buckets) or not all(_is_count(each) for each in buckets):
        return "no-buckets", (
            "The result must be a list with the number of layers in each bucket, such as [2, 1]: "
            "whole numbers, at least 1."
        )
    if sum(buckets) != layers:
        return "number-of-layers", (
            f"The sum of the buckets is {sum(buckets)}, and the number of layers {layers}."
        )
    return None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@dataclass(frozen=True)
class OverlapRun:
    """When a device computes gradients, and when its link reduces them.

    Attributes:
        computing: when the backward pass of each layer runs.
        sending: when the all-reduce of each bucket runs.
    """

    computing: tuple[tuple[float, float], ...]
    sending: tuple[tuple[float, float], ...]

    @property
    def exposed(self) -> float:
        """The time from the end of the backward pass to the end of the last all-reduce."""
        return self.sending[-1][1] - self.computing[-1][1]


def run_overlap(
    backward: Sequence[float],
    sizes: Sequence[float],
    buckets: Sequence[int],
    latency: float,
    bandwidth: float,
) -> OverlapRun:
    """Run a backward pass, with an all-reduce of each bucket of gradients as soon as it can start.

    The link reduces one bucket after another, in the order of the backward pass.

    Args:
        backward: how long the backward pass of each layer takes, the last layer first.
        sizes: the bytes of each layer's gradient, in the same order.
        buckets: how many layers, in this order, are reduced together.
        latency: the time of an all-reduce, however small.
        bandwidth: the bytes that an all-reduce handles in a unit of time.
    """
    computing = [ScheduledJob(("B", layer), each) for layer, each in enumerate(backward)]
    sending, first = [], 0
    for number, count in enumerate(buckets):
        duration = latency + sum(sizes[first : first + count]) / bandwidth
        first += count
        sending.append(ScheduledJob(("R", number), duration, (("B", first - 1),)))
    times = run_jobs([computing, sending])
    return OverlapRun(
        tuple(times[job.key] for job in computing), tuple(times[job.key] for job in sending)
    )


def draw_overlap(
    backward: Sequence[float],
    sizes: Sequence[float],
    latency: float,
    bandwidth: float,
    **choices: Sequence[int] | EllipsisType,
) -> None:
    """Draw when gradients are computed and reduced, for several choices of buckets.

    Args:
        backward: how long the backward pass of each layer takes, in ms, the last layer first.
        sizes: the size of each layer's gradient, in MB, in the same order.
        latency: the time of an all-reduce, however small, in ms.
        bandwidth: what an all-reduce handles, in MB per ms.
        **choices: the number of layers in each bucket, by the name that the chart has.
    """
    chart_overlap(backward, sizes, latency, bandwidth, **choices).display()


def chart_overlap(
    backward: Sequence[float],
    sizes: Sequence[float],
    latency: float,
    bandwidth: float,
    **choices: Sequence[int] | EllipsisType,
) -> Schedules:
    """Return the charts that `draw_overlap` displays."""
    charts: list[GanttChart] = []
    for name, buckets in choices.items():
        title = name.replace("_", " ")
        if buckets is ... or buckets is None:
            charts.append(GanttChart.of(f"{title}: not filled in yet", {}))
            continue
        problem = explain_buckets(buckets, len(backward))
        if problem is not None:
            charts.append(GanttChart.of(f"{title}: {problem[1]}", {}))
            continue
        ran = run_overlap(backward, sizes, buckets, latency, bandwidth)
        lanes = {
            "computing": _numbered(ran.computing, "layer", COLOURS["computing"]),
            "reducing": _hidden_and_exposed(ran.sending, ran.computing[-1][1]),
        }
        remarks = [f"exposed: {ran.exposed:.3g} of {ran.sending[-1][1]:.3g} ms"]
        if not any(chart.lanes for chart in charts):  # once is enough
            remarks.append(OVERLAP_NUMBERS)
        charts.append(GanttChart.of(title, lanes, remarks, axis="time, ms", legend=OVERLAP))
    return Schedules(tuple(charts))


OVERLAP: Final = {
    COLOURS["computing"]: "backward pass",
    COLOURS["hidden"]: "reducing, hidden",
    COLOURS["exposed"]: "reducing, exposed",
}
"""The legend of an overlap."""

OVERLAP_NUMBERS: Final = (
    "The numbers beside “computing” are layers, those beside “reducing” buckets. A bucket with "
    "both colours goes on after the backward pass."
)


def _hidden_and_exposed(sending: Iterable[tuple[float, float]], until: float) -> list[JobBar]:
    """Return the bars of all-reduces; one that runs when the backward pass ends has two.

    Args:
        sending: when each bucket's all-reduce starts and ends.
        until: when the backward pass ends.
    """
    bars = []
    for number, (start, end) in enumerate(sending):
        middle = min(max(until, start), end)
        name, label = f"bucket {number}", str(number)
        if start < middle:
            goes_on = middle < end
            bars.append(JobBar(name, label, COLOURS["hidden"], start, middle, joins_next=goes_on))
        if middle < end:
            bars.append(JobBar(f"{name} exposed", label, COLOURS["exposed"], middle, end))
    return bars


def _numbered(times: Iterable[tuple[float, float]], what: str, colour: str) -> list[JobBar]:
    return [JobBar(f"{what} {i}", str(i), colour, *each) for i, each in enumerate(times)]


def draw_fsdp(layers: int) -> None:
    """Draw a step of fully sharded data parallelism, as one device runs it.

    Gathering or reducing a layer takes one unit of time, as does its forward pass; its backward
    pass takes two. Nothing overlaps.

    Args:
        layers: the number of layers.
    """
    chart_fsdp(layers).display()


def chart_fsdp(layers: int) -> Schedules:
    """Return the chart that `draw_fsdp` displays."""
    sending: list[JobBar] = []
    computing: list[JobBar] = []
    holding: list[list[JobBar]] = [[] for _ in range(layers)]
    now = 0.0

    def gather_and_use(layer: int, what: str, duration: float) -> float:
        used = now + 1
        sending.append(JobBar(f"gather {layer}", f"↓{layer}", COLOURS["sending"], now, used))
        bar = JobBar(f"{what} {layer}", str(layer), COLOURS[what[0].upper()], used, used + duration)
        computing.append(bar)
        holding[layer].append(JobBar("whole", "", COLOURS["computing"], now, bar.end))
        return bar.end

    for layer in range(layers):
        now = gather_and_use(layer, "forward", FORWARD)
    for layer in reversed(range(layers)):
        now = gather_and_use(layer, "backward", BACKWARD)
        sending.append(JobBar(f"reduce {layer}", f"↑{layer}", COLOURS["sending"], now, now + 1))
        now += 1
    lanes = {
        "sends": sending,
        "computes": computing,
        **{f"holds layer {layer}": bars for layer, bars in enumerate(holding)},
    }
    chart = GanttChart.of(
        "one device, in one step",
        lanes,
        ("Unit: a layer's forward pass; a message takes as long.",),
        axis="time",
        legend={
            COLOURS["sending"]: "gathers ↓ or reduces ↑",
            COLOURS["F"]: "forward pass",
            COLOURS["B"]: "backward pass",
            COLOURS["computing"]: "holds all weights of the layer",
        },
    )
    return Schedules((chart,))


def draw_forward_pipeline(stages: int, microbatches: int) -> None:
    """Draw which microbatch each stage of a pipeline works on in each step of a forward pass.

    Args:
        stages: the number of stages.
        microbatches: the number of microbatches.
    """
    chart_forward_pipeline(stages, microbatches).display()


def chart_forward_pipeline(stages: int, microbatches: int) -> Schedules:
    """Return the chart that `draw_forward_pipeline` displays."""
    lanes = {
        f"stage {stage}": [
            JobBar(f"microbatch {m}", str(m), COLOURS["F"], stage + m, stage + m + 1)
            for m in range(microbatches)
        ]
        for stage in range(stages)
    }
    return Schedules(
        (GanttChart.of("the microbatch of each stage", lanes, axis="step", has_steps=True),)
    )


def draw_ring_attention(devices: int) -> None:
    """Draw which block of keys and values each device has in each step of ring attention.

    The mask is causal: a block counts if it is not later in the sequence than the device's queries.

    Args:
        devices: the number of devices in the ring, and of blocks.
    """
    chart_ring_attention(devices).display()


def chart_ring_attention(devices: int) -> Schedules:
    """Return the chart that `draw_ring_attention` displays."""
    lanes = {}
    for device in range(devices):
        bars = []
        for step in range(devices):
            block = (device - step) % devices
            colour = "F" if block < device else "B" if block == device else "computing"
            name = f"keys {block} in step {step}"
            bars.append(JobBar(name, str(block), COLOURS[colour], step, step + 1))
        lanes[f"device {device}"] = bars
    chart = GanttChart.of(
        "the block of keys and values that each device has",
        lanes,
        ("Device i has the i-th block of queries.",),
        axis="step",
        has_steps=True,
        legend={
            COLOURS["F"]: "all scores count",
            COLOURS["B"]: "half of them",
            COLOURS["computing"]: "none, because the keys are later",
        },
    )
    return Schedules((chart,))
