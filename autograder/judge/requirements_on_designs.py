"""Ask for layouts and a training step, and judge their values first, then their time."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar, Final

import jax
import numpy as np

from autograder import programs
from autograder.evidence import (
    Design,
    DesignPlan,
    Placement,
)
from autograder.judge.comparing_values import Arrays, is_near
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.requirements_on_given_functions import idle_devices, lay_out
from autograder.judge.requirements_on_layouts import rebuild
from autograder.judge.requirements_on_times import Timed, in_mb, in_time, most_of_it
from autograder.judge.requirements_on_values import judge_runs
from autograder.judge.running_programs import SAMPLES, Run
from autograder.judge.scaled_values import in_words
from autograder.judge.verdict import Finding
from autograder.layouts import Layout
from autograder.programs import BFLOAT16, LaidOut

TOLERANCE: Final = 2e-6
"""For a change that should be a multiple of the right one, relative to the largest value."""

ALL_OF_IT = 1.03
"""Up to how many times its share a device works that repeats nothing: XLA counts a little more."""

VALUES_FIRST = "first of all, at small sizes, the new parameters that one device would compute"
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
        return basis.problem("malformed", "A program for each size was needed.")
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
        return basis.problem(
            "unchanged", "The step returns the parameters exactly as they were given."
        )
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
            f"At the real size, each device does {report.flops:,.0f} operations, and its share of "
            f"the step is {requirement.work:,}. Is some of the step left out there?",
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
        said = f"Every change of a parameter is {in_words(factor)} what it should be."
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
            if np.max(np.abs(came - factors[-1] * right)) > TOLERANCE * largest:
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
