"""Require layouts for the arguments of a given function, and judge what it then costs.

`RunsWithinBudgets` sets budgets that are met or not; `MovesFewBytes` gives credit by how few bytes
are moved. `RunsFast` (in `requirements_on_times.py`) gives credit by the modelled time.
"""

import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Final

import jax
import numpy as np
from humanize import natural_list
from jax.sharding import AxisType

from autograder import artifacts
from autograder.evidence import (
    Placement,
    Placements,
    PlacementsPlan,
)
from autograder.judge.comparing_values import ArrayFunction
from autograder.judge.diagnoses import MALFORMED, UNKNOWN_TIMES
from autograder.judge.exercise import Exercise, Requirement, ways_of
from autograder.judge.requirements_on_costs import (
    Budget,
    compare_with_budgets,
    describe_communication,
)
from autograder.judge.requirements_on_layouts import PlacedLike, judge_layout, rebuild, rebuild_mesh
from autograder.judge.verdict import Finding, Trade
from shardlings import programs
from shardlings.layouts import Layout, LayoutError, Shape
from shardlings.programs import CommunicationError, communication

AXIS_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The mesh axis names that a program is compiled for."""

MAX_WORK_SHARE: Final = 1.5
"""A device may do so many times its share of the work; communication takes operations too."""

MAX_NAMED_ARGUMENTS: Final = 3
"""The most wrongly laid out arguments that a verdict names."""


@dataclass(frozen=True)
class RunsWithinBudgets(Requirement):
    """Shardings for a given function's arguments, with which it stays within budgets.

    For example, a sharding for which a sum communicates nothing:

        RunsWithinBudgets(
            "quiet", "a sharding for which …", lambda x: x.sum(0), (((16, 16),),), budgets=((),)
        )

    The answer is a sharding, or one for each argument. The function is compiled with Auto axes, so
    the compiler decides the rest. Each device must do only its share of the work: otherwise an
    answer that replicates everything would always communicate nothing.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what is to be laid out, in words.
        function: the function, of arrays.
        shapes: the cases: in each, the shape of each argument.
        budgets: the budgets of each case; see `CommunicatesAtMost`.
        picture: the layout that the result must have, as `Layout.parse` reads it; empty for any.
        caps: the most bytes of arguments that a device may hold in each case; empty for no limit.
        mistakes: for an answer that exceeds the cap: for each diagnosis, the number of blocks along
            each dimension of each argument that it explains.
        blocks: the number of blocks along each dimension of each argument in a right answer. If
            given, a verdict names the arguments whose layouts differ.
        on_auto_axes: whether the axes of every mesh must be Auto.
        drawn: the layouts of arguments that the notebook draws as targets, by name, as
            `Layout.parse` reads them.
    """

    about: ClassVar = "communication"
    evidence: ClassVar = (Placements,)

    answer: str
    asks: str
    function: ArrayFunction
    shapes: tuple[tuple[Shape, ...], ...]
    budgets: tuple[tuple[Budget, ...], ...]
    picture: str = ""
    caps: tuple[int, ...] = ()
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[Shape, ...] = ()
    on_auto_axes: bool = False
    drawn: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    def targets(self) -> dict[str, Layout]:
        """Return the layouts of the result and of arguments that the notebook draws as targets."""
        shapes = dict(zip(self.arguments, self.shapes[0], strict=True))
        drawn = {name: Layout.parse(text, shapes[name]) for name, text in self.drawn.items()}
        return super().targets() | drawn

    def result(self) -> PlacedLike | None:
        """Return the requirement on the layout of the function's result, if there is one."""
        if not self.picture:
            return None
        results = (
            jax.eval_shape(self.function, *(jax.ShapeDtypeStruct(s, np.float32) for s in shapes))
            for shapes in self.shapes
        )
        return PlacedLike(self.answer, self.picture, tuple(result.shape for result in results))

    def plan_capture(self, generator: np.random.Generator) -> PlacementsPlan:
        """Plan to capture a sharding for each argument."""
        return PlacementsPlan(self.arguments, self.shapes[0])

    def pictured(self) -> Layout | None:
        """Return the layout that the function's result must have, if there is one."""
        result = self.result()
        return result.target() if result is not None else None

    def judge(self, piece: Placements, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compile the function for the answer's layouts, and compare its cost with the budgets."""
        names = self.arguments
        if self.on_auto_axes and (other := find_other_axes(names, piece, finding)):
            return other
        layouts_finding = _judge_layouts(self, piece, finding, seed)
        if layouts_finding.met or len(piece.parts) != len(names):
            return layouts_finding
        if len(names) == 2 and _is_right(self, piece.parts[::-1], finding, seed):
            return layouts_finding.problem(
                "pair-exchanged",
                f"The two would be right the other way round: the first sharding is for "
                f"{names[0]}, the second for {names[1]}.",
            )
        rotations = (piece.parts[i:] + piece.parts[:i] for i in range(1, len(names)))
        # of three, another order is right by chance, and would give the answer away
        if len(names) > 3 and any(_is_right(self, each, finding, seed) for each in rotations):
            return layouts_finding.problem(
                "another-order",
                f"The shardings are right, but in the wrong order: they have to be those of "
                f"{', '.join(names)}, in this order.",
            )
        return _name_wrong_arguments(self, piece, layouts_finding, finding, exercise)


@dataclass(frozen=True)
class MovesFewBytes(Requirement):
    """Shardings for a given function's arguments, with credit for moving few bytes under a cap.

    For example, shardings of four matrices for their product, with at most 30 kB on each device:

        MovesFewBytes(
            "roomy", "shardings (of A, …", chain, ((64, 64),) * 4, 30_000, FRONTIER, slack=4096
        )

    There is no single right answer: to hold more of the arguments saves communication. Credit
    depends on how close the bytes moved come to the fewest that are known within the cap.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what is to be laid out, in words.
        function: the function, of arrays.
        shapes: the shape of each argument.
        cap: the most bytes of arguments that a device may hold.
        frontier: the best pairs that are known of bytes held and bytes moved on each device.
        slack: bytes that are added to both amounts before the best is divided by the answer's, so
            that small differences between small amounts do not matter. Used if `given` is 0.
        given: the bytes moved by the layouts that the notebook shows, which earn nothing. Credit
            grows linearly from there to the best; 0 if the notebook shows none.
        mistakes: for an answer that could move fewer bytes: for each diagnosis, a function of the
            arguments' layouts that tells whether it explains them.
        on_auto_axes: whether the axes of every mesh must be Auto.
    """

    about: ClassVar = "bytes moved"
    evidence: ClassVar = (Placements,)

    answer: str
    asks: str
    function: ArrayFunction
    shapes: tuple[Shape, ...]
    cap: int
    frontier: tuple[tuple[int, int], ...]
    slack: int
    given: int = 0
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    on_auto_axes: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def best(self) -> int:
        """The fewest bytes moved that are known within the cap."""
        return min(moved for held, moved in self.frontier if held <= self.cap)

    def plan_capture(self, generator: np.random.Generator) -> PlacementsPlan:
        """Plan to capture a sharding for each argument."""
        return PlacementsPlan(self.arguments, self.shapes)

    def judge(self, piece: Placements, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the bytes that an answer holds and moves with the best that is known."""
        if self.on_auto_axes and (other := find_other_axes(self.arguments, piece, finding)):
            return other
        first: Finding | None = None
        for scale in (1, 2):  # the answer must hold for another size, too
            shapes = tuple(tuple(scale * size for size in shape) for shape in self.shapes)
            run = run_with_layouts(self.function, self.arguments, shapes, piece, finding, seed)
            if isinstance(run, Finding):
                return run
            scale_finding = _give_credit(self, run, scale ** len(shapes[0]), finding)
            first = first or scale_finding
            if (scale_finding.credit or scale_finding.met) < (first.credit or first.met):
                if first.met or first.credit is None or scale_finding.credit is None:
                    return scale_finding
                # the notebook's own case comes first
                both = f"{first.difference} {scale_finding.difference}"
                return first.but(credit=scale_finding.credit, difference=both)
        if first is None or first.trade is None or first.credit is None:
            return first or finding
        suggestion = suggest_one_change(self, piece.parts, first.trade.costs)
        return first.but(difference=f"{first.difference} {suggestion}".rstrip())


@dataclass(frozen=True)
class RunWithLayouts:
    """A given function, compiled for the layouts of an answer, and run."""

    layouts: tuple[Layout, ...]
    got: str
    ran: artifacts.ProgramRun

    @property
    def held(self) -> int:
        """The bytes of float32 arguments on each device."""
        return sum(4 * math.prod(layout.block_shape) for layout in self.layouts)


def read_layouts(
    names: Sequence[str],
    shapes: Sequence[Shape],
    piece: Placements,
    finding: Finding,
    blocks: Sequence[Shape] = (),
) -> tuple[Layout, ...] | Finding:
    """Return the layouts of a given function's arguments, or the finding if they are not valid."""
    if len(piece.parts) != len(names):
        return finding.problem(MALFORMED, "There must be a sharding for each argument.")
    try:
        shardings = [rebuild(part) for part in piece.parts]
        layouts = [Layout.of(s, shape) for s, shape in zip(shardings, shapes, strict=True)]
    except LayoutError as error:
        return finding.problem("does-not-fit", str(error), got="a sharding that does not fit")
    finding = finding.but(got=describe_layouts(names, layouts, blocks))
    bad_names = [n for part in piece.parts for n in part.mesh.names if not AXIS_NAME.fullmatch(n)]
    if bad_names:  # on some names, XLA's parser aborts the process
        return finding.problem(
            "axis-names",
            f"A mesh axis is called {bad_names[0]!r}. Use only letters, digits and underscores.",
        )
    if len({part.mesh.ids for part in piece.parts}) > 1:
        return finding.problem(
            "different-devices",
            "The shardings are on different devices, or have them in different orders. A program "
            "runs on one list of devices, in one order.",
        )
    return tuple(layouts)


def describe_layouts(
    names: Sequence[str], layouts: Sequence[Layout], blocks: Sequence[Shape] = ()
) -> str:
    """Describe the layout of each argument, or of those that differ from a right answer.

    Args:
        names: the names of the arguments.
        layouts: their layouts.
        blocks: the number of blocks along each dimension of each argument in a right answer.
    """
    layout_by_name = dict(zip(names, layouts, strict=True))
    wrong = find_wrong_layouts(layout_by_name, blocks) or layout_by_name
    return "; ".join(f"{name}: {layout_by_name[name].describe()}" for name in wrong)


def find_wrong_layouts(layouts: Mapping[str, Layout], blocks: Sequence[Shape]) -> list[str]:
    """Return the names of the layouts that differ from a right answer's numbers of blocks."""
    pairs = zip(layouts.items(), blocks, strict=True) if blocks else ()
    return [name for (name, layout), counts in pairs if layout.counts != counts]


def find_other_axes(names: Sequence[str], piece: Placements, finding: Finding) -> Finding | None:
    """Return the finding if a mesh of an answer has an axis that is not Auto."""
    for name, part in zip(names, piece.parts, strict=False):
        other = [mode for mode in part.mesh.modes if mode != "Auto"]
        if other:
            return finding.problem(
                "not-auto", f"The mesh of {name} has axes of type {other[0]}; expected Auto."
            )
    return None


def find_idle_devices(piece: Placements, finding: Finding) -> Finding | None:
    """Return the finding if an answer does not use all devices."""
    used, devices = len(piece.parts[0].mesh.ids), jax.device_count()
    if used == devices:
        return None
    return finding.problem(
        "one-device" if used == 1 else "devices-unused",
        f"{used} of {devices} devices {'holds' if used == 1 else 'hold'} everything and "
        f"{'does' if used == 1 else 'do'} all the work.",
    )


def run_with_layouts(
    function: ArrayFunction,
    names: Sequence[str],
    shapes: tuple[Shape, ...],
    piece: Placements,
    finding: Finding,
    seed: int,
    blocks: Sequence[Shape] = (),
) -> RunWithLayouts | Finding:
    """Run a given function with an answer's layouts, or return the finding if it cannot run."""
    layouts = read_layouts(names, shapes, piece, finding, blocks)
    if isinstance(layouts, Finding):
        return layouts
    _count_flops(function, shapes)  # if this compiles, later errors are about the layouts
    ran = _run(function, piece.parts, shapes, seed)
    got = (
        f"{describe_layouts(names, layouts, blocks)}. With your layouts, the program communicates "
        f"{describe_communication(ran.report)}"
    )
    return find_idle_devices(piece, finding.but(got=got)) or RunWithLayouts(layouts, got, ran)


def _name_wrong_arguments(
    requirement: RunsWithinBudgets,
    piece: Placements,
    layouts_finding: Finding,
    finding: Finding,
    exercise: Exercise,
) -> Finding:
    """Say first which arguments are not laid out as in a right answer, if they are few.

    The diagnosis becomes `layout of X` where the exercise has a lesson on it.
    """
    layouts = read_layouts(requirement.arguments, requirement.shapes[0], piece, finding)
    if isinstance(layouts, Finding) or not requirement.blocks:
        return layouts_finding
    used = len(layouts[0].blocks)
    if used < jax.device_count():  # then no argument is laid out well
        return layouts_finding
    by_name = dict(zip(requirement.arguments, layouts, strict=True))
    differ = find_wrong_layouts(by_name, requirement.blocks)
    if not 1 <= len(differ) <= min(MAX_NAMED_ARGUMENTS, len(by_name) - 1):
        return layouts_finding
    wrong = f"{natural_list(differ)} {'are' if len(differ) > 1 else 'is'} laid out wrongly"
    if len(differ) == 1 and len(by_name[differ[0]].counts) > 1:
        expected = dict(zip(requirement.arguments, requirement.blocks, strict=True))[differ[0]]
        pairs = enumerate(zip(by_name[differ[0]].counts, expected, strict=True))
        dimensions = [str(dimension) for dimension, (count, right) in pairs if count != right]
        wrong += f", along dimension{'s' if len(dimensions) > 1 else ''} "
        wrong += natural_list(dimensions)
    lesson = f"layout of {natural_list(differ)}"
    has_lesson = (
        lesson in exercise.lessons and layouts_finding.diagnosis not in requirement.mistakes
    )
    return layouts_finding.problem(
        lesson if has_lesson else layouts_finding.diagnosis,
        f"{wrong}. {layouts_finding.difference}",
    )


def _is_right(
    requirement: RunsWithinBudgets, parts: tuple[Placement, ...], finding: Finding, seed: int
) -> bool:
    """Check whether shardings are right in another order, with which JAX may refuse the program."""
    try:
        return _judge_layouts(requirement, Placements(parts), finding, seed).met
    except artifacts.ProgramError:
        return False


def _judge_layouts(
    requirement: RunsWithinBudgets, piece: Placements, finding: Finding, seed: int
) -> Finding:
    names, function = requirement.arguments, requirement.function
    result = requirement.result()
    first: Finding | None = None
    caps = requirement.caps or (math.inf,) * len(requirement.shapes)
    for shapes, budgets, cap in zip(requirement.shapes, requirement.budgets, caps, strict=True):
        run = run_with_layouts(function, names, shapes, piece, finding, seed, requirement.blocks)
        if isinstance(run, Finding):
            return run
        if run.held > cap:
            exceeded = report_exceeded_cap(cap, run.held, finding.but(got=run.got))
            counts = tuple(layout.counts for layout in run.layouts)
            known = (n for n, each in requirement.mistakes.items() if counts in ways_of(each))
            return exceeded.problem(next(known, exceeded.diagnosis), exceeded.difference)
        case_finding = compare_with_budgets(run.ran.report, budgets, finding, names, run.layouts)
        case_finding = case_finding.but(got=run.got)
        if not case_finding.met:
            return case_finding
        if result is not None:
            case_finding = judge_layout(
                result, Layout.of(run.ran.outputs[0][0]), case_finding.but(met=False)
            )
            if not case_finding.met:
                return case_finding.but(
                    expected=finding.expected,
                    got=f"{run.got}; the result: {case_finding.got}",
                    difference=f"The layout of the result is wrong. {case_finding.difference}",
                )
        share, fair = run.ran.report.flops / _count_flops(function, shapes), 1 / jax.device_count()
        if share > MAX_WORK_SHARE * fair:
            return finding.problem(
                "repeated-work",
                f"The program communicates no more than it may, but each device does "
                f"{_fraction(share)} of the work, where {_fraction(fair)} would be its share: "
                f"devices that hold the same blocks compute the same thing.",
                got=run.got,
            )
        got = run.got
        if requirement.blocks:
            moved = describe_communication(run.ran.report)
            listed = natural_list(list(names))
            got = f"the layouts of {listed}, with which the program communicates {moved}"
        first = first or case_finding.but(got=got)
    return first or finding


def _give_credit(
    requirement: MovesFewBytes, run: RunWithLayouts, factor: int, finding: Finding
) -> Finding:
    """Compute the credit for arguments that are `factor` times as large as the exercise's."""
    held, moved, best = run.held // factor, run.ran.report.bytes // factor, requirement.best
    finding = finding.but(
        got=f"{run.held:,} bytes held, {run.ran.report.bytes:,} bytes moved on each device "
        f"({run.got})",
        trade=Trade(held, moved, requirement.cap, requirement.frontier),
    )
    if held > requirement.cap:
        return report_exceeded_cap(factor * requirement.cap, run.held, finding)
    if any(c.times is None for c in run.ran.report.collectives):
        return finding.problem(
            UNKNOWN_TIMES,
            "A collective is in a loop whose length is known only when it runs, so the bytes that "
            "it moves cannot be computed.",
        )
    if requirement.given:
        credit = (requirement.given - moved) / (requirement.given - best)
    else:
        credit = (best + requirement.slack) / (moved + requirement.slack)
    credit = min(1.0, max(0.0, credit))
    if credit < 1:
        where = "With your shardings" if factor == 1 else "If every dimension is twice as long"
        moves = f"{where}, each device moves {run.ran.report.bytes:,} bytes"
        allowed = f"{factor * requirement.cap:,} bytes of the arguments"
        better = f"{moves}. With at most {allowed} on each, {factor * best:,} are enough"
        for name, each in requirement.mistakes.items():
            if any(explains(*run.layouts) for explains in ways_of(each)):
                return finding.problem(name, f"{better}.", credit=round(credit, 3))
        if 2 * held < requirement.cap:
            return finding.problem(
                "room-left",
                f"{moves}; {factor * best:,} are enough. A device may hold {allowed}, and holds "
                f"{run.held:,}.",
                credit=round(credit, 3),
            )
        return finding.problem("could-move-less", f"{better}.", credit=round(credit, 3))
    return finding.but(met=True)


def report_exceeded_cap(cap: float, held: int, finding: Finding) -> Finding:
    """Return the finding if a device holds more bytes of the arguments than it may."""
    actual, allowed = programs.write_bytes_apart(held, cap)
    return finding.problem(
        "over-the-cap",
        f"Each device may hold {allowed} of the arguments; with your shardings it holds {actual}.",
    )


@lru_cache(maxsize=16)
def _run(
    function: ArrayFunction, parts: tuple[Placement, ...], shapes: tuple[Shape, ...], seed: int
) -> artifacts.ProgramRun:
    """Run the function on fresh values with these layouts."""
    generator = np.random.default_rng(seed)
    shardings = [rebuild(part) for part in parts]
    inputs = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    return artifacts.compile_and_run(function, shardings, [inputs], rebuild_mesh(parts[0]))


@lru_cache(maxsize=64)
def _count_flops(function: ArrayFunction, shapes: tuple[Shape, ...]) -> float:
    """Count the floating-point operations of the function on a single device."""
    arguments = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    with artifacts.override_mesh(jax.sharding.Mesh(jax.devices()[:1], ("all",))):
        return max(1.0, communication(function, *arguments).flops)


def _fraction(share: float) -> str:
    """Return `1/4`, or `all`."""
    return "all" if share > 0.99 else f"1/{round(1 / share)}" if share < 0.6 else f"{share:.0%}"


MAX_TRIED_PROGRAMS: Final = 60
"""The most programs that are compiled to find a better sharding."""


def suggest_one_change(requirement: MovesFewBytes, parts: tuple[Placement, ...], moved: int) -> str:
    """Say for which one argument another sharding would save most, if one would.

    Shardings on the argument's own mesh are tried.

    Args:
        requirement: the requirement.
        parts: the answer's shardings.
        moved: the bytes that each device moves with these.
    """
    function, shapes = requirement.function, requirement.shapes
    given = [rebuild(part) for part in parts]
    if any(mode != AxisType.Auto for each in given for mode in each.mesh.axis_types):
        return ""  # in Explicit mode, JAX raises for some shardings
    tried = [
        (name, [*given[:place], other, *given[place + 1 :]])
        for place, (name, shape) in enumerate(zip(requirement.arguments, shapes, strict=True))
        for other in _shardings(rebuild_mesh(parts[place]), shape)
    ]
    if len(shapes) == 1 or len(tried) > MAX_TRIED_PROGRAMS:
        return ""
    least, which = float(moved), ""
    for name, shardings in tried:
        if _held_bytes(shardings, shapes) <= requirement.cap:
            try:
                with artifacts.override_mesh(rebuild_mesh(parts[0])):
                    costs = _moved_bytes(function, shardings, shapes)
            except CommunicationError:  # the compiler refuses some layouts on two meshes
                continue
            if costs < least:
                least, which = costs, name
    if not which or least - requirement.best > (moved - requirement.best) / 2:
        return ""  # a small gain would be a detour
    return f"Another sharding of {which} alone is enough to get down to {least:,.0f} bytes."


def _shardings(mesh: jax.sharding.Mesh, shape: Shape) -> Iterator[jax.NamedSharding]:
    """Yield the shardings of a shape that have at most one mesh axis in each dimension.

    With two axes in a dimension, XLA prints warnings for some programs, which a learner would see.
    """
    for spec in product([None, *mesh.axis_names], repeat=len(shape)):
        axes = [name for name in spec if name]
        fits = all(
            size % mesh.shape[name] == 0
            for size, name in zip(shape, spec, strict=True)
            if name is not None
        )
        if fits and len(set(axes)) == len(axes):
            yield jax.NamedSharding(mesh, jax.P(*spec))


def _held_bytes(shardings: Sequence[jax.NamedSharding], shapes: Sequence[Shape]) -> int:
    """Return the bytes of float32 arguments on each device."""
    layouts = map(Layout.of, shardings, shapes)
    return sum(4 * math.prod(layout.block_shape) for layout in layouts)


def _moved_bytes(
    function: ArrayFunction, shardings: Sequence[jax.NamedSharding], shapes: Sequence[Shape]
) -> float:
    """Return the bytes that each device moves; infinite if a loop's length is unknown."""
    arguments = [
        jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]
    report = programs.communication(function, *arguments)
    unknown = any(each.times is None for each in report.collectives)
    return math.inf if unknown else report.bytes
