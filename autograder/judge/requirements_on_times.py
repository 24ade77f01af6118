"""Require layouts, or a training step, that are fast, and judge their modelled time.

The programs are compiled at a real size and never run: `RunsFast` has layouts for a given function,
`TrainsFast` has layouts and a training step of the learner's own.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, Final, Protocol

import jax
import numpy as np
from msgspec.structs import replace

from autograder import artifacts
from autograder.artifacts import LaidOutProgram
from autograder.evidence import (
    Design,
    DesignPlan,
    Placement,
    Placements,
    PlacementsPlan,
    announce_steps,
)
from autograder.judge.comparing_values import ArrayFunction, is_near
from autograder.judge.diagnoses import (
    COPIES_DISAGREE,
    MALFORMED,
    UNKNOWN_TIMES,
    WAITS_FOR_DATA,
    WRONG_VALUES,
)
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.explaining_factors import describe_factor
from autograder.judge.requirements_on_given_functions import (
    describe_layouts,
    find_idle_devices,
    read_layouts,
    report_exceeded_cap,
)
from autograder.judge.requirements_on_layouts import rebuild, rebuild_mesh
from autograder.judge.requirements_on_values import judge_runs
from autograder.judge.running_programs import SAMPLES, SampledRun
from autograder.judge.verdict import Finding, Trade
from autograder.judge.wording import describe_groups, in_ms
from shardlings import programs
from shardlings.layouts import Layout, Shape
from shardlings.programs import (
    BFLOAT16,
    MACHINES,
    Report,
    bytes_with_unit,
    communication,
    communication_seconds,
    count_in_bfloat16,
    wire_bytes,
    write_bytes_apart,
)

COMPUTING = "computing"
"""The item for a program's arithmetic, beside the collectives."""


class HasBestTime(Protocol):
    """A requirement on time, under a cap on memory."""

    @property
    def machine(self) -> str: ...
    @property
    def cap(self) -> int: ...
    @property
    def frontier(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def given(self) -> int: ...
    @property
    def best(self) -> int: ...


@dataclass(frozen=True)
class RunsFast(Requirement):
    """Shardings for a given function's arguments, with credit for a short modelled time.

    For example, shardings with which a step on eight H100s beats the layout in the notebook:

        RunsFast("layout", "shardings …", step, SHAPES, "H100 100G Ethernet", CAP, FRONTIER, GIVEN)

    The function is compiled at its real size and never run. The model adds up the time to compute,
    at the machine's peak, and the time to send, without overlap, and counts floating-point numbers
    as bfloat16.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what is to be laid out, in words.
        function: the function, of arrays.
        shapes: the shape of each argument.
        machine: a key of `programs.MACHINES`.
        cap: the most bytes of arguments that a device may hold.
        frontier: the best pairs that are known of bytes held on each device and microseconds.
        given: the microseconds of the layout that the notebook shows, which earn nothing.
        enough: the microseconds that earn all points; 0 for the best that is known.
    """

    about: ClassVar = "time"
    evidence: ClassVar = (Placements,)

    answer: str
    asks: str
    function: ArrayFunction
    shapes: tuple[Shape, ...]
    machine: str
    cap: int
    frontier: tuple[tuple[int, int], ...]
    given: int
    enough: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def best(self) -> int:
        """The microseconds that earn all points."""
        return self.enough or min(time for held, time in self.frontier if held <= self.cap)

    def plan_capture(self, generator: np.random.Generator) -> PlacementsPlan:
        """Plan to capture a sharding for each argument."""
        return PlacementsPlan(self.arguments, self.shapes)

    def judge(self, piece: Placements, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compile the function for the answer's layouts, and compare its time with the best."""
        names, shapes = self.arguments, self.shapes
        piece = Placements(tuple(map(_with_auto_axes, piece.parts)))
        layouts = read_layouts(names, shapes, piece, finding)
        if isinstance(layouts, Finding):
            return layouts
        if len({(part.mesh.shape, part.mesh.names) for part in piece.parts}) > 1:
            return finding.problem("several-meshes", "Use one mesh for all of the shardings.")
        report = _compile(self.function, piece.parts, shapes, self.machine)
        held = sum(BFLOAT16 * math.prod(layout.block_shape) for layout in layouts)
        idle = find_idle_devices(piece, finding.but(got=describe_layouts(names, layouts)))
        if idle is not None:
            return idle
        return compare_time(self, report, held, finding)


def compare_time(
    requirement: HasBestTime,
    report: Report,
    held: int,
    finding: Finding,
    max_sent: int | None = None,
    repeats: bool = True,
) -> Finding:
    """Compare what a program holds, sends and takes with the requirement.

    Args:
        requirement: the requirement.
        report: the compiled program.
        held: the bytes of its arguments on each device.
        finding: the finding to start from.
        max_sent: the most bytes that a device may send; None for any number.
        repeats: whether it may compute something more than once, so that computing can be saved.
    """
    if not math.isfinite(report.flops) or any(c.times is None for c in report.collectives):
        return finding.problem(
            UNKNOWN_TIMES,
            "The program has a loop whose length is known only when it runs, so its time cannot be "
            "computed.",
        )
    took = round(1e6 * (report.compute_seconds + report.communication_seconds))
    names = requirement.arguments if isinstance(requirement, RunsFast) else ()
    listed = list_items(report, names)
    if not repeats:  # then it comes last, because it cannot become less
        listed[COMPUTING] = listed.pop(COMPUTING)
    items = tuple(listed.items())
    finding = finding.but(
        got=f"{bytes_with_unit(held)} held and {bytes_with_unit(report.sent)} sent by each "
        f"device, and {in_ms(took / 1e6)} in all",
        trade=Trade(
            held,
            took,
            requirement.cap,
            requirement.frontier,
            "microseconds",
            items=items,
            computing=round(1e6 * report.compute_seconds),
            goal=requirement.best,
            max_sent=max_sent or 0,
            max_communicating=round(1e6 * (max_sent or 0) / MACHINES[report.machine].link),
        ),
    )
    if held > requirement.cap:
        return report_exceeded_cap(requirement.cap, held, finding)
    if max_sent is not None and report.sent > max_sent:
        sent, allowed = write_bytes_apart(report.sent, max_sent)
        return finding.problem(
            "sends-too-much",
            f"In one step, each device may send {allowed}; here it sends {sent}"
            f"{describe_most_sent(report)}.",
        )
    best, given = requirement.best, requirement.given
    credit = min(1.0, max(0.0, (given - took) / (given - best)))
    if credit == 1:
        return finding.but(met=True)
    return finding.problem(
        "works-too-much"
        if repeats and report.compute_seconds >= report.communication_seconds
        else WAITS_FOR_DATA,
        f"On {requirement.machine} it takes {in_ms(took / 1e6)}; {in_ms(best / 1e6)} earns all "
        f"points and {in_ms(given / 1e6)} none. Each device computes for "
        f"{in_ms(report.compute_seconds)} and communicates for "
        f"{in_ms(report.communication_seconds)}. {describe_largest_item(items, repeats)}",
        credit=round(credit, 3),
    )


def list_items(report: Report, names: Sequence[str] = ()) -> dict[str, int]:
    """Return the microseconds of computing and of each communication, the longest first.

    Args:
        report: the compiled program.
        names: the names of the program's arguments, if they are to be named.
    """
    spent: dict[str, float] = {COMPUTING: report.compute_seconds}
    for c in report.collectives:
        known = c.argument is not None and c.argument < len(names)
        what = f" of {names[c.argument]}" if known and c.argument is not None else ""
        name = f"{c.kind}{what} {describe_groups(c)}"
        spent[name] = spent.get(name, 0) + communication_seconds(c, MACHINES[report.machine])
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return {name: round(1e6 * seconds) for name, seconds in ordered}


def describe_largest_item(items: Sequence[tuple[str, int]], repeats: bool = True) -> str:
    """Return a sentence that names the largest item of a program's time, the first of `items`."""
    name, took = items[0]
    article = "" if name == COMPUTING else "the "
    which = "" if repeats or name == COMPUTING else " of communication"
    return f"The largest item{which} is {article}{name}, with {in_ms(took / 1e6)}."


def _with_auto_axes(part: Placement) -> Placement:
    """Return the placement on Auto axes, so that only the layout matters."""
    return replace(part, mesh=replace(part.mesh, modes=("Auto",) * len(part.mesh.names)))


@lru_cache(maxsize=16)
def _compile(
    function: ArrayFunction, parts: tuple[Placement, ...], shapes: tuple[Shape, ...], machine: str
) -> Report:
    """Compile the function for these layouts, without running it."""
    mesh = rebuild_mesh(parts[0])
    arguments = [
        jax.ShapeDtypeStruct(shape, np.float32, sharding=rebuild(part))
        for part, shape in zip(parts, shapes, strict=True)
    ]
    with artifacts.override_mesh(mesh):
        try:
            report = communication(function, *arguments, machine=machine, mesh=mesh)
        except programs.CommunicationError as error:
            raise artifacts.ProgramError("fails", str(error)) from error
    return count_in_bfloat16(report, {})


def describe_most_sent(report: Report) -> str:
    """Return `, 3 MB of it by all-gather over x` for the collectives that send most."""
    spent: dict[str, float] = {}
    for c in report.collectives:
        name = f"{c.kind} {describe_groups(c)}"
        spent[name] = spent.get(name, 0) + c.counted_times * wire_bytes(c)
    if not spent:
        return ""
    name = max(spent, key=lambda each: spent[each])
    return f", {bytes_with_unit(spent[name])} of it by {name}"


CHANGE_TOLERANCE: Final = 2e-6
"""The tolerance for an update that should be a multiple of the right one, relative to the largest
value."""

MAX_WORK_WITHOUT_REPETITION = 1.03
"""XLA counts up to so many times a device's share of the work, even if nothing is repeated."""

VALUES_FIRST = "at small sizes, the same new parameters that one device computes"
"""The text after `Expected` for a step with wrong values, whose time is not compared yet."""

MIN_WORK_SHARE = 0.9
"""A device that does less than this part of its share leaves something out."""


@dataclass(frozen=True)
class TrainsFast(Requirement):
    """Layouts for a model's parameters and batch, and a training step, with credit for speed.

    For example, exercise 11.7 in `nb11_capstone.py`: a step that holds at most 72 MiB on each
    device.

    Nothing counts unless the step is right: it runs at the small sizes, and must give the values of
    the reference. At the real size, the first, it is compiled and never run; its time is modelled
    as in `RunsFast`. That it is the same step there is checked against the programs of all other
    sizes; the last of them does not run either. The results must have the layouts of the
    parameters, because the next step takes them.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what is to be designed, in words.
        plan: the names of the arrays, and their shapes at each size, the real one first.
        reference: computes the new parameters from the arrays that `plan.arguments` names.
        sample: samples these arrays for a small size, from a generator and the shapes by name.
        mistakes: for each diagnosis, a reference with that mistake and no other, or a `Mistake`.
        machine: a key of `programs.MACHINES`.
        cap: the most bytes of arguments that a device may hold.
        sends: the most bytes that a device may send in one step.
        work: the fewest operations with which a device can do its share, at the real size.
        frontier: the best pairs that are known of bytes held on each device and microseconds.
        given: the microseconds that earn nothing.
        from_own_batch: computes, for each part of the batch that a device may hold, the new
            parameters from that part's gradient alone; recognises gradients that were never summed.
    """

    about: ClassVar = "time"
    evidence: ClassVar = (Design,)

    answer: str
    asks: str
    plan: DesignPlan
    reference: ArrayFunction
    sample: Callable[[np.random.Generator, Mapping[str, tuple[int, ...]]], list[np.ndarray]]
    machine: str
    cap: int
    sends: int
    work: int
    frontier: tuple[tuple[int, int], ...]
    given: int
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    from_own_batch: Callable[..., Sequence[Sequence[Any]]] | None = None

    @property
    def best(self) -> int:
        """The fewest microseconds that are known within the cap."""
        return min(time for held, time in self.frontier if held <= self.cap)

    def plan_capture(self, generator: np.random.Generator) -> DesignPlan:
        """Plan to capture the layouts, and the step exported for each size."""
        return self.plan

    def judge(self, piece: Design, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Run the step at the small sizes; if it is right, compare its time at the real size."""
        plan, parts = self.plan, piece.layouts.parts
        if len(piece.step.artifacts) != len(plan.sizes):
            return finding.problem(MALFORMED, "There must be a program for each size.")
        layouts: Sequence[Layout] = ()
        for shapes in reversed(plan.sizes):  # so that `layouts` are those of the real size
            layouts_or_finding = read_layouts(plan.names, shapes, piece.layouts, finding)
            if isinstance(layouts_or_finding, Finding):
                return layouts_or_finding
            layouts = layouts_or_finding
        if len({(part.mesh.shape, part.mesh.names) for part in parts}) > 1:
            return finding.problem("several-meshes", "Use one mesh for all of the shardings.")
        large, *small, other = _list_programs(self, piece)
        numbered = announce_steps(enumerate(small), lambda _: "running the step at a small size")
        runs = [_run(self, number, program, seed) for number, program in numbered]
        if all(map(_is_unchanged, runs)):
            return finding.problem("unchanged", "The step returns the parameters unchanged.")
        values_finding = judge_runs(
            self,
            runs,
            [_describe_inputs(self, number, parts[0]) for number, _ in enumerate(small)],
            finding.but(expected=VALUES_FIRST),
            [
                f"`{name}` of layer {layer}"
                for layer in range(plan.layers)
                for name in plan.parameters
            ],
        )
        if not values_finding.met:
            return _explain_updates(self, runs, values_finding)
        held = dict(
            zip(plan.names, (BFLOAT16 * math.prod(a.block_shape) for a in layouts), strict=True)
        )
        (program,) = announce_steps([large], lambda _: "compiling the step at the real size")
        report = artifacts.report_laid_out(program, [*small, other], self.machine)
        idle = find_idle_devices(piece.layouts, finding)
        if idle is not None:
            return idle
        if report.flops < MIN_WORK_SHARE * self.work:
            return finding.problem(
                "too-little-work",
                f"At the real size, each device does {report.flops:,.0f} operations; its share of "
                f"the step is {self.work:,}. Is part of the step left out at that size?",
            )
        total = sum(held[name] for name in plan.arguments)
        repeats = report.flops >= MAX_WORK_WITHOUT_REPETITION * self.work
        time_finding = compare_time(self, report, total, finding, self.sends, repeats)
        if time_finding.diagnosis != WAITS_FOR_DATA:
            return time_finding
        share = (
            f"Each device also computes {report.flops / self.work - 1:.0%} more than its share."
            if repeats
            else "Each device does its share of the work and no more, so only communication is "
            "left to save."
        )
        return time_finding.but(difference=f"{time_finding.difference} {share}")


def _explain_updates(
    requirement: TrainsFast, runs: Sequence[SampledRun], finding: Finding
) -> Finding:
    """Explain wrong values from the updates of the parameters, if they show the cause."""
    if finding.diagnosis not in (WRONG_VALUES, COPIES_DISAGREE):
        return finding
    factor = _factor_of_updates(requirement, runs)
    if factor is not None:
        sentence = f"Every update of a parameter is {describe_factor(factor)} what it should be."
        return finding.problem("another-rate", sentence)
    if _is_reduced_again(requirement, runs):
        return finding.problem("reduced-again", "The values are wrong.")
    return _recognise_unsummed(requirement, runs, finding)


def _factor_of_updates(requirement: TrainsFast, runs: Sequence[SampledRun]) -> float | None:
    """Find the factor of all updates, if it is the same in every case."""
    factors = []
    for samples, ran in runs:
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            wanted = requirement.reference(*inputs)
            right = _concatenate([w - given for w, given in zip(wanted, inputs, strict=False)])
            actual = _concatenate(
                [np.asarray(o) - i for o, i in zip(outputs, inputs, strict=False)]
            )
            if actual.shape != right.shape or not np.isfinite(actual).all():
                return None
            factors.append(float(actual @ right / (right @ right)))
            largest = max(float(np.max(np.abs(each))) for each in (*inputs[: len(wanted)], actual))
            if np.max(np.abs(actual - factors[-1] * right)) > CHANGE_TOLERANCE * largest:
                return None
    alike = all(math.isclose(each, factors[0], rel_tol=1e-3) for each in factors)
    return factors[0] if alike else None


def _concatenate(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(each).astype(np.float64) for each in arrays])


def _is_reduced_again(requirement: TrainsFast, runs: Sequence[SampledRun]) -> bool:
    """Check whether each device's update is the sum or mean of several devices' updates.

    Each device has its own piece of the gradient, and these pieces belong to different parameters.
    """
    common_ways: set[tuple[tuple[str, ...], bool]] | None = None
    for samples, ran in runs:
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            wanted = requirement.reference(*inputs)
            ways = set(_ways_of_reducing(inputs, outputs, wanted))
            common_ways = ways if common_ways is None else common_ways & ways
    return bool(common_ways)


def _ways_of_reducing(
    inputs: Sequence[np.ndarray], outputs: Sequence[jax.Array], wanted: Sequence[np.ndarray]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the axes over which updates may have been reduced, and whether to their mean."""
    sharding = outputs[0].sharding
    if not isinstance(sharding, jax.NamedSharding):
        return
    names, devices = sharding.mesh.axis_names, sharding.mesh.devices
    places = {device: place for place, device in np.ndenumerate(devices)}
    for reduced_axes in (s for size in range(1, len(names) + 1) for s in combinations(names, size)):
        for is_mean in (False, True):
            if all(
                is_near(shard.data, given[shard.index] + reduced)
                for output, given, right in zip(outputs, inputs, wanted, strict=False)
                for shard, reduced in _reduce_changes(
                    output, right - given, places, names, reduced_axes, is_mean
                )
            ):
                yield reduced_axes, is_mean


def _reduce_changes(
    output: jax.Array,
    change: np.ndarray,
    places: Mapping[jax.Device, tuple[int, ...]],
    names: Sequence[str],
    reduced_axes: Sequence[str],
    is_mean: bool,
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield each shard with the reduced updates of its group of devices."""

    def group(device: jax.Device) -> tuple[int, ...]:
        return tuple(i for i, n in zip(places[device], names, strict=True) if n not in reduced_axes)

    pieces: dict[tuple[int, ...], list[np.ndarray]] = {}
    for shard in output.addressable_shards:
        pieces.setdefault(group(shard.device), []).append(change[shard.index])
    for shard in output.addressable_shards:
        total = np.sum(pieces[group(shard.device)], axis=0)
        yield shard, total / len(pieces[group(shard.device)]) if is_mean else total


def _recognise_unsummed(
    requirement: TrainsFast, runs: Sequence[SampledRun], finding: Finding
) -> Finding:
    """Recognise values that each device computed from its own part of the batch alone."""
    if requirement.from_own_batch is None:
        return finding
    for samples, ran in runs:
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            parts = requirement.from_own_batch(*inputs)
            if not all(
                any(is_near(shard.data, part[i][shard.index]) for part in parts)
                for i, output in enumerate(outputs)
                for shard in output.addressable_shards
            ):
                return finding
    return finding.problem("never-summed", "The values are wrong.")


def _list_programs(requirement: TrainsFast, piece: Design) -> list[LaidOutProgram]:
    """Return the program for each size, with the layouts of its arguments and results."""
    plan = requirement.plan
    shardings = dict(zip(plan.names, map(rebuild, piece.layouts.parts), strict=True))
    takes = tuple(shardings[name] for name in plan.arguments)
    return [
        LaidOutProgram(artifact, _shapes(requirement, number), takes, takes[:-2])
        for number, artifact in enumerate(piece.step.artifacts)
    ]


def _shapes(requirement: TrainsFast, number: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the step's arguments at this size."""
    plan = requirement.plan
    shapes = dict(zip(plan.names, plan.sizes[number], strict=True))
    return tuple(shapes[name] for name in plan.arguments)


def _run(requirement: TrainsFast, number: int, program: LaidOutProgram, seed: int) -> SampledRun:
    """Run a program on fresh values."""
    generator = np.random.default_rng([seed, number])
    shapes = dict(zip(requirement.plan.names, requirement.plan.sizes[number + 1], strict=True))
    samples = [requirement.sample(generator, shapes) for _ in range(SAMPLES)]
    return SampledRun(samples, artifacts.run_laid_out(program, samples))


def _is_unchanged(run: SampledRun) -> bool:
    """Check whether a step returned exactly the parameters that it was given."""
    samples, ran = run
    return all(
        output.shape == given.shape and np.array_equal(output, given)
        for inputs, outputs in zip(samples, ran.outputs, strict=True)
        for output, given in zip(outputs, inputs, strict=False)
    )


def _describe_inputs(requirement: TrainsFast, number: int, part: Placement) -> str:
    """Describe the inputs of a program."""
    shape = requirement.plan.sizes[number + 1][-1]
    axes = ", ".join(
        f"{name}={size}" for name, size in zip(part.mesh.names, part.mesh.shape, strict=True)
    )
    return f"random parameters and a batch of shape {shape} on a mesh of {axes}"
