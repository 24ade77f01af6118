"""Ask for layouts, or a training step, that are fast, and judge their modelled time."""

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

from autograder import programs
from autograder.evidence import (
    Design,
    DesignPlan,
    Placement,
    Placements,
    PlacementsPlan,
)
from autograder.judge.comparing_values import Arrays, is_near
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.explaining_values import describe_factor
from autograder.judge.requirements_on_costs import communicated
from autograder.judge.requirements_on_given_functions import (
    idle_devices,
    lay_out,
    listed,
    report_exceeded_cap,
)
from autograder.judge.requirements_on_layouts import mesh_of, rebuild
from autograder.judge.requirements_on_values import judge_runs
from autograder.judge.running_programs import SAMPLES, Run
from autograder.judge.verdict import Finding, Trade
from autograder.judge.wording import between, in_mb, in_mib, in_ms
from autograder.layouts import Layout, Shape
from autograder.programs import (
    BFLOAT16,
    MACHINES,
    LaidOut,
    Report,
    communication,
    in_bfloat16,
    seconds,
    wire_bytes,
)

COMPUTING = "computing"
"""What a program's own arithmetic is called among the items that take time."""

MIN_TOLD_CHANGE = 0.02
"""Relative to the time of the other program."""


@dataclass(frozen=True)
class Timed:
    """A program that a learner has seen, with which an attempt is compared.

    Attributes:
        name: what it is called in a sentence.
        items: the microseconds of `computing`, and of each kind of collective.
    """

    name: str
    items: Mapping[str, int]

    @property
    def total(self) -> int:
        """The microseconds of all of it, one thing after the other."""
        return sum(self.items.values())


class HasBestTime(Protocol):
    """What is asked of time: a cap on what is held, and how fast others are within it."""

    @property
    def machine(self) -> str: ...
    @property
    def cap(self) -> int: ...
    @property
    def frontier(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def shown(self) -> Timed: ...
    @property
    def given(self) -> int: ...
    @property
    def best(self) -> int: ...


@dataclass(frozen=True)
class RunsIn(Requirement):
    """Shardings for the arguments of a given function, that hold little and make it fast.

    The function is compiled at a real size and never run. How long it takes is modelled: what
    computing takes at the machine's full speed and then what sending takes, nothing at the same
    time, with floating-point numbers counted as bfloat16.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be laid out, in a sentence.
        function: what the arguments are given to.
        shapes: the arguments' shapes, in elements.
        machine: the name of a machine, as `programs.MACHINES` has it.
        cap: the most bytes of arguments that a device may hold.
        frontier: pairs of bytes held on each device and microseconds, the best that is known.
        shown: the layout that the notebook shows, which earns nothing.
        enough: the microseconds that earn everything; 0 for those of the best that is known.
    """

    about: ClassVar = "time"
    evidence: ClassVar = (Placements,)

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[Shape, ...]
    machine: str
    cap: int
    frontier: tuple[tuple[int, int], ...]
    shown: Timed
    enough: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def given(self) -> int:
        """The microseconds that earn nothing."""
        return self.shown.total

    @property
    def best(self) -> int:
        """The microseconds that earn everything."""
        return self.enough or min(time for held, time in self.frontier if held <= self.cap)

    def plan_capture(self, generator: np.random.Generator) -> PlacementsPlan:
        """A sharding for each argument."""
        return PlacementsPlan(self.arguments, self.shapes)

    def judge(self, piece: Placements, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what an answer holds and how long it takes."""
        return _judge_time(self, piece, basis)


def _judge_time(requirement: RunsIn, piece: Placements, basis: Finding) -> Finding:
    """The finding for what an answer holds and how long it takes, against the best known."""
    names, shapes = requirement.arguments, requirement.shapes
    piece = Placements(tuple(map(_left_to_the_compiler, piece.parts)))
    layouts = lay_out(names, shapes, piece, basis)
    if isinstance(layouts, Finding):
        return layouts
    if len({(part.mesh.shape, part.mesh.names) for part in piece.parts}) > 1:
        return basis.problem("several-meshes", "Use one mesh for all of the shardings.")
    report = _compiled(requirement.function, piece.parts, shapes, requirement.machine)
    held = sum(BFLOAT16 * math.prod(layout.block_shape) for layout in layouts)
    came = (
        f"{listed(names, layouts)}. With these layouts, the program communicates "
        f"{communicated(report)}"
    )
    idle = idle_devices(piece, basis.but(came=came))
    if idle is not None:
        return idle
    return in_time(requirement, report, held, basis.but(came=came))


def in_time(
    requirement: HasBestTime,
    report: Report,
    held: int,
    basis: Finding,
    most: int | None = None,
) -> Finding:
    """The finding for what a program holds, sends and takes, with what it does in words in `came`.

    Args:
        requirement: what was asked.
        report: the program.
        held: the bytes of its arguments on each device.
        basis: what is known of the finding.
        most: the most bytes that a device may send; None for any number.
    """
    came = basis.came
    if not math.isfinite(report.flops) or any(c.times is None for c in report.collectives):
        return basis.problem(
            "unknown-times",
            "The program has a loop whose length is known only when it runs, so its time cannot be "
            "computed.",
        )
    took = round(1e6 * (report.computing + report.communicating))
    basis = basis.but(
        came=f"{held:,} bytes{in_mib(held)} held on each device; {in_ms(report.computing)} of "
        f"computing and {in_ms(report.communicating)} of communicating ({came})",
        trade=Trade(held, took, requirement.cap, requirement.frontier, "microseconds"),
    )
    if held > requirement.cap:
        return report_exceeded_cap(requirement.cap, held, basis)
    if most is not None and report.sent > most:
        return basis.problem(
            "sends-too-much",
            f"In one step, each device may send {in_mb(most)}; here it sends "
            f"{in_mb(report.sent)}{most_of_it(report)}.",
        )
    best, given = requirement.best, requirement.given
    credit = min(1.0, max(0.0, (given - took) / (given - best)))
    if credit == 1:
        return basis.but(met=True)
    names = requirement.arguments if isinstance(requirement, RunsIn) else ()
    return basis.problem(
        "waits-for-data" if report.communicating > report.computing else "works-too-much",
        f"On {requirement.machine} it takes {in_ms(took / 1e6)}: each device computes for "
        f"{in_ms(report.computing)} and communicates for {in_ms(report.communicating)}. "
        f"{in_ms(best / 1e6)} earns all points and {in_ms(given / 1e6)} none. "
        f"{_compared(requirement.shown, report)}{_sends_most(report, names)}",
        credit=round(credit, 3),
    )


def _compared(shown: Timed, report: Report) -> str:
    """What takes more or less time than in a program that learners know; the most first."""
    now = items_of(report)
    kinds = list(dict.fromkeys([*shown.items, *now]))
    changes = {kind: now.get(kind, 0) - shown.items.get(kind, 0) for kind in kinds}
    clear = [kind for kind in kinds if abs(changes[kind]) >= MIN_TOLD_CHANGE * shown.total]
    clear.sort(key=lambda kind: -abs(changes[kind]))
    if not clear:
        return f"That is about what {shown.name} takes ({in_ms(shown.total / 1e6)}). "
    said = [
        f"{kind} takes" * (kind == COMPUTING)
        + f"{kind}s take" * (kind != COMPUTING)
        + f" {in_ms(now.get(kind, 0) / 1e6)} instead of {in_ms(shown.items.get(kind, 0) / 1e6)}"
        for kind in clear
    ]
    first = ", ".join(said[:-1]) + " and " * bool(said[1:])
    return f"Compared with {shown.name} ({in_ms(shown.total / 1e6)}), {first}{said[-1]}. "


def items_of(report: Report) -> dict[str, int]:
    """The microseconds of computing, and of each kind of collective."""
    spent = {COMPUTING: report.computing}
    for c in report.collectives:
        spent[c.kind] = spent.get(c.kind, 0) + seconds(c, MACHINES[report.machine])
    return {kind: round(1e6 * took) for kind, took in spent.items()}


def _sends_most(report: Report, names: Sequence[str]) -> str:
    """Which collectives take the most time of all, in a sentence; nothing where none are there."""
    spent: dict[str, float] = {}
    for c in report.collectives:
        known = c.argument is not None and c.argument < len(names)
        what = f" of {names[c.argument]}" if known and c.argument is not None else ""
        name = f"{c.kind}{what} {between(c)}"
        spent[name] = spent.get(name, 0) + seconds(c, MACHINES[report.machine])
    if not spent:
        return ""
    name = max(spent, key=lambda each: spent[each])
    return f"The longest communication is now the {name}: {in_ms(spent[name])}."


def _left_to_the_compiler(part: Placement) -> Placement:
    """The same placement on Auto axes: a layout is asked for, and the function names no types."""
    return replace(part, mesh=replace(part.mesh, modes=("Auto",) * len(part.mesh.names)))


@lru_cache(maxsize=16)
def _compiled(
    function: Arrays, parts: tuple[Placement, ...], shapes: tuple[Shape, ...], machine: str
) -> Report:
    """What the compiler makes of the function for arguments laid out so; nothing is run."""
    mesh = mesh_of(parts[0])
    arguments = [
        jax.ShapeDtypeStruct(shape, np.float32, sharding=rebuild(part))
        for part, shape in zip(parts, shapes, strict=True)
    ]
    with programs.current(mesh):
        try:
            report = communication(function, *arguments, machine=machine, mesh=mesh)
        except programs.CommunicationError as error:
            raise programs.ProgramError("fails", str(error)) from error
    return in_bfloat16(report, {})


def most_of_it(report: Report) -> str:
    """What sends the most of all that a program sends, in words; nothing where nothing is sent."""
    spent: dict[str, float] = {}
    for c in report.collectives:
        name = f"{c.kind} {between(c)}"
        spent[name] = spent.get(name, 0) + (c.times or 1) * wire_bytes(c)
    if not spent:
        return ""
    name = max(spent, key=lambda each: spent[each])
    return f", {in_mb(spent[name])} of it by {name}"


CHANGE_TOLERANCE: Final = 2e-6
"""For a change that should be a multiple of the right one, relative to the largest value."""

ALL_OF_IT = 1.03
"""Up to how many times its share a device works that repeats nothing: XLA counts a little more."""

VALUES_FIRST = "at small sizes, the same new parameters that one device computes"
"""What is asked of a step before its time is looked at."""

MIN_WORK_SHARE = 0.9
"""A device that does less of its share of the work leaves something out."""


@dataclass(frozen=True)
class Designs(Requirement):
    """Layouts of a model's parameters and batch, and a training step, that make it fast.

    At small sizes the step is run, and its values have to be those of a reference: else nothing
    counts. At the real size, the first, it is compiled and never run. That it is the same step is
    looked at beside the second size and the last, which is not run either. How long it takes is
    modelled: what computing takes at the machine's full speed and then what sending takes, nothing
    at the same time, with floating-point numbers counted as bfloat16. The new parameters are left
    where the old ones were, since the next step takes them.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be designed, in a sentence.
        plan: the names of what is laid out, and the sizes, the real one first.
        reference: the new parameters, given the arrays that `plan.arguments` names.
        draw: the values of these for a small size, which are its shapes by name.
        mistakes: for each diagnosis, a function that makes that mistake and no other, or `AnyOf`
            several.
        machine: the name of a machine, as `programs.MACHINES` has it.
        cap: the most bytes of arguments that a device may hold.
        sends: the most bytes that a device may send in one step.
        work: the operations that a device has to do at least, at the real size.
        frontier: pairs of bytes held on each device and microseconds, the best that is known.
        given: the microseconds that earn nothing.
        shown: a design that learners know, to compare theirs with.
        of_own_tokens: for each part of the batch that a device may have, the new parameters if
            the gradient is that part's alone: what devices hold whose gradients are never summed.
    """

    about: ClassVar = "time"
    evidence: ClassVar = (Design,)

    answer: str
    asks: str
    plan: DesignPlan
    reference: Arrays
    draw: Callable[[np.random.Generator, Mapping[str, tuple[int, ...]]], list[np.ndarray]]
    machine: str
    cap: int
    sends: int
    work: int
    frontier: tuple[tuple[int, int], ...]
    given: int
    shown: Timed
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    of_own_tokens: Callable[..., Sequence[Sequence[Any]]] | None = None

    @property
    def best(self) -> int:
        """The fewest microseconds that are known to be enough within the cap."""
        return min(time for held, time in self.frontier if held <= self.cap)

    def plan_capture(self, generator: np.random.Generator) -> DesignPlan:
        """The layouts, and the step exported for each size."""
        return self.plan

    def judge(self, piece: Design, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for a design: nothing counts unless the step gives the right values."""
        return _judge_design(self, piece, basis, seed)


def _judge_design(requirement: Designs, piece: Design, basis: Finding, seed: int) -> Finding:
    """The finding for a design: nothing counts unless the step gives the right values.

    Raises:
        ProgramError: the step cannot be judged.
    """
    plan, parts = requirement.plan, piece.layouts.parts
    if len(piece.step.artifacts) != len(plan.sizes):
        return basis.problem("malformed", "There must be a program for each size.")
    layouts: Sequence[Layout] = ()
    for shapes in reversed(plan.sizes):  # the real ones last
        found = lay_out(plan.names, shapes, piece.layouts, basis)
        if isinstance(found, Finding):
            return found
        layouts = found
    if len({(part.mesh.shape, part.mesh.names) for part in parts}) > 1:
        return basis.problem("several-meshes", "Use one mesh for all of the shardings.")
    large, *small, beside = _laid_out(requirement, piece)
    runs = [_run(requirement, number, program, seed) for number, program in enumerate(small)]
    if all(map(_unchanged, runs)):
        return basis.problem("unchanged", "The step returns the parameters unchanged.")
    values = judge_runs(
        requirement,
        runs,
        [_in_words(requirement, number, parts[0]) for number, _ in enumerate(small)],
        basis.but(asked=VALUES_FIRST),
        [f"`{name}` of layer {layer}" for layer in range(plan.layers) for name in plan.parameters],
    )
    if not values.met:
        return _of_changes(requirement, runs, values)
    held = dict(
        zip(plan.names, (BFLOAT16 * math.prod(a.block_shape) for a in layouts), strict=True)
    )
    report = programs.report_laid_out(large, [small[0], beside], requirement.machine)
    idle = idle_devices(piece.layouts, basis)
    if idle is not None:
        return idle
    if report.flops < MIN_WORK_SHARE * requirement.work:
        return basis.problem(
            "too-little-work",
            f"At the real size, each device does {report.flops:,.0f} operations; its share of the "
            f"step is {requirement.work:,}. Is part of the step left out at that size?",
        )
    came = f"{in_mb(report.sent)} sent{most_of_it(report)}; the values are right"
    total = sum(held[name] for name in plan.arguments)
    basis = basis.but(came=came)
    found = in_time(requirement, report, total, basis, requirement.sends)
    if found.diagnosis == "works-too-much" and report.flops < ALL_OF_IT * requirement.work:
        return found.but(diagnosis="waits-for-data")  # it cannot but do its share of the work
    return found


def _of_changes(requirement: Designs, runs: Sequence[Run], values: Finding) -> Finding:
    """The finding for wrong values, with its cause where the parameters' changes show one."""
    if values.diagnosis not in ("values", "copies-disagree"):
        return values
    factor = _factor_of_changes(requirement, runs)
    if factor is not None:
        said = f"Every update of a parameter is {describe_factor(factor)} what it should be."
        return values.problem("another-rate", said)
    if _is_reduced_again(requirement, runs):
        return values.problem("reduced-again", "The values are wrong.")
    return _never_summed(requirement, runs, values)


def _factor_of_changes(requirement: Designs, runs: Sequence[Run]) -> float | None:
    """Find the factor that all changes were multiplied by, where it is one number in every case."""
    factors = []
    for draws, ran in runs:
        for inputs, outputs in zip(draws, ran.outputs, strict=True):
            wanted = requirement.reference(*inputs)
            right = _in_one([w - given for w, given in zip(wanted, inputs, strict=False)])
            came = _in_one([np.asarray(o) - i for o, i in zip(outputs, inputs, strict=False)])
            if came.shape != right.shape or not np.isfinite(came).all():
                return None
            factors.append(float(came @ right / (right @ right)))
            largest = max(float(np.max(np.abs(each))) for each in (*inputs[: len(wanted)], came))
            if np.max(np.abs(came - factors[-1] * right)) > CHANGE_TOLERANCE * largest:
                return None
    alike = all(math.isclose(each, factors[0], rel_tol=1e-3) for each in factors)
    return factors[0] if alike else None


def _in_one(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(each).astype(np.float64) for each in arrays])


def _is_reduced_again(requirement: Designs, runs: Sequence[Run]) -> bool:
    """Check whether each device's change is the sum or mean of the changes of several devices.

    Each device has its piece of the gradient, and these pieces are of different parameters.
    """
    found: set[tuple[tuple[str, ...], bool]] | None = None
    for draws, ran in runs:
        for inputs, outputs in zip(draws, ran.outputs, strict=True):
            wanted = requirement.reference(*inputs)
            ways = set(_ways_of_reducing(inputs, outputs, wanted))
            found = ways if found is None else found & ways
    return bool(found)


def _ways_of_reducing(
    inputs: Sequence[np.ndarray], outputs: Sequence[jax.Array], wanted: Sequence[np.ndarray]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield over which axes changes may have been reduced, and whether to their mean."""
    sharding = outputs[0].sharding
    if not isinstance(sharding, jax.NamedSharding):
        return
    names, devices = sharding.mesh.axis_names, sharding.mesh.devices
    places = {device: place for place, device in np.ndenumerate(devices)}
    for over in (s for size in range(1, len(names) + 1) for s in combinations(names, size)):
        for mean in (False, True):
            if all(
                is_near(shard.data, given[shard.index] + reduced)
                for output, given, right in zip(outputs, inputs, wanted, strict=False)
                for shard, reduced in _reduced(output, right - given, places, names, over, mean)
            ):
                yield over, mean


def _reduced(
    output: jax.Array,
    change: np.ndarray,
    places: Mapping[jax.Device, tuple[int, ...]],
    names: Sequence[str],
    over: Sequence[str],
    mean: bool,
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield each shard with the changes of its group of devices, reduced."""

    def group(device: jax.Device) -> tuple[int, ...]:
        return tuple(i for i, n in zip(places[device], names, strict=True) if n not in over)

    pieces: dict[tuple[int, ...], list[np.ndarray]] = {}
    for shard in output.addressable_shards:
        pieces.setdefault(group(shard.device), []).append(change[shard.index])
    for shard in output.addressable_shards:
        total = np.sum(pieces[group(shard.device)], axis=0)
        yield shard, total / len(pieces[group(shard.device)]) if mean else total


def _never_summed(requirement: Designs, runs: Sequence[Run], values: Finding) -> Finding:
    """The finding for wrong values, unless each device's follow from a part of the batch alone."""
    if requirement.of_own_tokens is None:
        return values
    for draws, ran in runs:
        for inputs, outputs in zip(draws, ran.outputs, strict=True):
            parts = requirement.of_own_tokens(*inputs)
            if not all(
                any(is_near(shard.data, part[i][shard.index]) for part in parts)
                for i, output in enumerate(outputs)
                for shard in output.addressable_shards
            ):
                return values
    return values.problem("never-summed", "The values are wrong.")


def _laid_out(requirement: Designs, piece: Design) -> list[LaidOut]:
    """The program for each size, with where its arguments and results are."""
    plan = requirement.plan
    shardings = dict(zip(plan.names, map(rebuild, piece.layouts.parts), strict=True))
    takes = tuple(shardings[name] for name in plan.arguments)
    return [
        LaidOut(artifact, _shapes(requirement, number), takes, takes[:-2])
        for number, artifact in enumerate(piece.step.artifacts)
    ]


def _shapes(requirement: Designs, number: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of all that the step is given, at the size of this number."""
    plan = requirement.plan
    shapes = dict(zip(plan.names, plan.sizes[number], strict=True))
    return tuple(shapes[name] for name in plan.arguments)


def _run(requirement: Designs, number: int, program: LaidOut, seed: int) -> Run:
    """What a program made of fresh values."""
    generator = np.random.default_rng([seed, number])
    shapes = dict(zip(requirement.plan.names, requirement.plan.sizes[number + 1], strict=True))
    draws = [requirement.draw(generator, shapes) for _ in range(SAMPLES)]
    return draws, programs.run_laid_out(program, draws)


def _unchanged(run: Run) -> bool:
    """Whether a step returned the parameters that it was given, number for number."""
    draws, ran = run
    return all(
        output.shape == given.shape and np.array_equal(output, given)
        for inputs, outputs in zip(draws, ran.outputs, strict=True)
        for output, given in zip(outputs, inputs, strict=False)
    )


def _in_words(requirement: Designs, number: int, part: Placement) -> str:
    """What a program was given, in words."""
    shape = requirement.plan.sizes[number + 1][-1]
    axes = ", ".join(
        f"{name}={size}" for name, size in zip(part.mesh.names, part.mesh.shape, strict=True)
    )
    return f"random parameters and a batch of shape {shape} on a mesh of {axes}"
