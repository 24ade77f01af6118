"""Ask for layouts of a given function's arguments, and judge what it does with them."""

import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import ClassVar, Final

import jax
import numpy as np
from jax.sharding import AxisType

from autograder import programs
from autograder.evidence import (
    Placement,
    Placements,
    PlacementsPlan,
)
from autograder.judge.comparing_values import Arrays
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.requirements_on_costs import Budget, communicated, within_budgets
from autograder.judge.requirements_on_layouts import PlacedLike, judge_layout, mesh_of, rebuild
from autograder.judge.verdict import Finding, Trade
from autograder.judge.wording import in_mib
from autograder.layouts import Layout, LayoutError, Shape
from autograder.programs import communication

AXIS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a mesh axis may be called where a program is compiled for it."""

MAX_WORK_SHARE = 1.5
"""A device may do so much of its share of the work: communicating takes some operations too."""


MAX_NAMED: Final = 2
"""Up to how many arguments are named that are laid out otherwise than in a right answer."""


@dataclass(frozen=True)
class Feeds(Requirement):
    """Shardings for the arguments of a given function: laid out so, it runs as cheaply as is asked.

    The answer is a sharding, or one for each argument. The function is compiled for them with Auto
    axes, so that the compiler decides the rest, and every device must do its share of the work:
    copies on all devices would silence any program.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be laid out, in a sentence.
        function: what the arguments are given to.
        shapes: the arguments' shapes, in elements, for each time that it is to be tried.
        budgets: for each of these, what the program may communicate.
        picture: where the result is to be, as `Layout.parse` reads it; empty for anywhere.
        caps: for each, the most bytes of arguments that a device may hold; empty for any number.
        mistakes: for each diagnosis of what is over the cap, into how many blocks each dimension of
            each argument is cut where it explains that.
        blocks: into how many blocks a right answer cuts each dimension of each argument; with it,
            a verdict says which arguments are not laid out so, where they are few.
    """

    about: ClassVar = "communication"
    evidence: ClassVar = (Placements,)

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[tuple[Shape, ...], ...]
    budgets: tuple[tuple[Budget, ...], ...]
    picture: str = ""
    caps: tuple[int, ...] = ()
    mistakes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    blocks: tuple[Shape, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    def result(self) -> PlacedLike | None:
        """What is asked of the function's result, if anything is."""
        if not self.picture:
            return None
        results = (
            jax.eval_shape(self.function, *(jax.ShapeDtypeStruct(s, np.float32) for s in shapes))
            for shapes in self.shapes
        )
        return PlacedLike(self.answer, self.picture, tuple(result.shape for result in results))

    def plan_capture(self, generator: np.random.Generator) -> PlacementsPlan:
        """A sharding for each argument."""
        return PlacementsPlan(self.arguments, self.shapes[0])

    def pictured(self) -> Layout | None:
        """The layout that is asked for of the function's result."""
        result = self.result()
        return result.target() if result is not None else None

    def judge(self, piece: Placements, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what the function does with arguments laid out so."""
        return _judge_feeds_in_any_order(self, piece, basis, seed)


@dataclass(frozen=True)
class Trades(Requirement):
    """Shardings for the arguments of a given function, that hold little and move little.

    There is no one right answer: holding more saves moving. Within a cap on what may be held,
    credit is given by how near the answer comes to the least that is known to be moved.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be laid out, in a sentence.
        function: what the arguments are given to.
        shapes: the arguments' shapes, in elements.
        cap: the most bytes of arguments that a device may hold.
        frontier: pairs of bytes held and bytes moved on each device, the best that is known.
        slack: so many bytes are as good as none, when answers are compared.
        given: the bytes moved by what the notebook shows, which earns nothing; 0 where it shows
            nothing.
    """

    about: ClassVar = "bytes moved"
    evidence: ClassVar = (Placements,)

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[Shape, ...]
    cap: int
    frontier: tuple[tuple[int, int], ...]
    slack: int
    given: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def best(self) -> int:
        """The least that is known to be moved within the cap."""
        return min(moved for held, moved in self.frontier if held <= self.cap)

    def plan_capture(self, generator: np.random.Generator) -> PlacementsPlan:
        """A sharding for each argument."""
        return PlacementsPlan(self.arguments, self.shapes)

    def judge(self, piece: Placements, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what an answer holds and moves, against the best that is known."""
        return _judge_trade(self, piece, basis, seed)


@dataclass(frozen=True)
class Fed:
    """A given function, compiled for arguments laid out by an answer, and run."""

    layouts: tuple[Layout, ...]
    came: str
    ran: programs.Ran

    @property
    def held(self) -> int:
        """The bytes of its arguments that a device holds."""
        return sum(4 * math.prod(layout.block_shape) for layout in self.layouts)


def lay_out(
    names: Sequence[str], shapes: Sequence[Shape], piece: Placements, basis: Finding
) -> tuple[Layout, ...] | Finding:
    """A given function's arguments as an answer lays them out; or what is wrong with the answer."""
    if len(piece.parts) != len(names):
        return basis.problem("malformed", "There must be a sharding for each argument.")
    try:
        shardings = [rebuild(part) for part in piece.parts]
        layouts = [Layout.of(s, shape) for s, shape in zip(shardings, shapes, strict=True)]
    except LayoutError as error:
        return basis.problem("does-not-fit", str(error), came="a sharding that does not fit")
    basis = basis.but(came=listed(names, layouts))
    strange = [n for part in piece.parts for n in part.mesh.names if not AXIS_NAME.fullmatch(n)]
    if strange:  # XLA's own parser aborts the process on some
        return basis.problem(
            "axis-names",
            f"A mesh axis is called {strange[0]!r}. Use only letters, digits and underscores.",
        )
    if len({part.mesh.ids for part in piece.parts}) > 1:
        return basis.problem(
            "different-devices",
            "The shardings are on different devices, or have them in different orders. A program "
            "runs on one list of devices, in one order.",
        )
    return tuple(layouts)


def listed(names: Sequence[str], layouts: Sequence[Layout]) -> str:
    """Where each argument is, in words."""
    pairs = zip(names, layouts, strict=True)
    return "; ".join(f"{name}: {layout.describe()}" for name, layout in pairs)


def idle_devices(piece: Placements, basis: Finding) -> Finding | None:
    """The finding where an answer leaves devices out."""
    used, devices = len(piece.parts[0].mesh.ids), jax.device_count()
    if used == devices:
        return None
    return basis.problem(
        "one-device" if used == 1 else "devices-unused",
        f"{used} of {devices} devices {'holds' if used == 1 else 'hold'} everything and "
        f"{'does' if used == 1 else 'do'} all the work.",
    )


def feed(
    function: Arrays,
    names: Sequence[str],
    shapes: tuple[Shape, ...],
    piece: Placements,
    basis: Finding,
    seed: int,
) -> Fed | Finding:
    """Run a given function on arguments laid out by an answer; or what is wrong with the answer."""
    layouts = lay_out(names, shapes, piece, basis)
    if isinstance(layouts, Finding):
        return layouts
    _whole(function, shapes)  # where this is sound, JAX's refusals are about the layouts
    ran = _run(function, piece.parts, shapes, seed)
    came = (
        f"{listed(names, layouts)}. With these layouts, the program communicates "
        f"{communicated(ran.report)}"
    )
    return idle_devices(piece, basis.but(came=came)) or Fed(layouts, came, ran)


def _judge_feeds_in_any_order(
    requirement: Feeds, piece: Placements, basis: Finding, seed: int
) -> Finding:
    """The finding for what a given function does with arguments laid out by the answer."""
    found = _judge_feeds(requirement, piece, basis, seed)
    names = requirement.arguments
    if found.met or len(piece.parts) != len(names):
        return found
    if (
        len(names) == 2
        and _judge_feeds(requirement, Placements(piece.parts[::-1]), basis, seed).met
    ):
        return found.problem(
            "pair-exchanged",
            f"The two are right, but the wrong way round: the first sharding is for {names[0]}, "
            f"the second for {names[1]}.",
        )
    turns = (piece.parts[i:] + piece.parts[:i] for i in range(1, len(names)))
    if len(names) > 2 and any(
        _judge_feeds(requirement, Placements(turned), basis, seed).met for turned in turns
    ):
        return found.problem(
            "another-order",
            f"The shardings are right, but in the wrong order: they have to be those of "
            f"{', '.join(names)}, in this order.",
        )
    return _with_what_differs(requirement, piece, found, basis)


def _with_what_differs(
    requirement: Feeds, piece: Placements, found: Finding, basis: Finding
) -> Finding:
    """The finding, with which arguments are laid out otherwise than in a right answer."""
    layouts = lay_out(requirement.arguments, requirement.shapes[0], piece, basis)
    if isinstance(layouts, Finding) or not requirement.blocks:
        return found
    used = len(layouts[0].blocks)
    if used < jax.device_count():  # then no argument is laid out well, whatever its blocks
        return found
    differ = [
        name
        for name, layout, counts in zip(
            requirement.arguments, layouts, requirement.blocks, strict=True
        )
        if layout.counts != counts
    ]
    if not 1 <= len(differ) <= MAX_NAMED:
        return found
    named = " and ".join(differ)
    said = f"The other arguments are laid out well; {named} {'are' if differ[1:] else 'is'} not."
    return found.but(difference=f"{found.difference} {said}")


def _judge_feeds(requirement: Feeds, piece: Placements, basis: Finding, seed: int) -> Finding:
    names, function = requirement.arguments, requirement.function
    result = requirement.result()
    first: Finding | None = None
    caps = requirement.caps or (math.inf,) * len(requirement.shapes)
    for shapes, budgets, cap in zip(requirement.shapes, requirement.budgets, caps, strict=True):
        fed = feed(function, names, shapes, piece, basis, seed)
        if isinstance(fed, Finding):
            return fed
        if fed.held > cap:
            too_much = report_exceeded_cap(cap, fed.held, basis.but(came=fed.came))
            counts = tuple(layout.counts for layout in fed.layouts)
            known = (name for name, cuts in requirement.mistakes.items() if cuts == counts)
            return too_much.problem(next(known, too_much.diagnosis), too_much.difference)
        found = within_budgets(fed.ran.report, budgets, basis, names, fed.layouts)
        found = found.but(came=fed.came)
        if not found.met:
            return found
        if result is not None:
            found = judge_layout(result, Layout.of(fed.ran.outputs[0][0]), found.but(met=False))
            if not found.met:
                return found.but(
                    asked=basis.asked,
                    came=f"{fed.came}; the result: {found.came}",
                    difference=f"The layout of the result is wrong. {found.difference}",
                )
        share, fair = fed.ran.report.flops / _whole(function, shapes), 1 / jax.device_count()
        if share > MAX_WORK_SHARE * fair:
            return basis.problem(
                "repeated-work",
                f"The program communicates no more than it may, but each device does "
                f"{_fraction(share)} of the work, where {_fraction(fair)} would be its share: "
                f"devices that hold the same blocks compute the same thing.",
                came=fed.came,
            )
        first = first or found.but(came=fed.came)
    return first or basis


def _judge_trade(requirement: Trades, piece: Placements, basis: Finding, seed: int) -> Finding:
    """The finding for what an answer holds and moves, against the best that is known."""
    first: Finding | None = None
    for scale in (1, 2):  # what was found for one size must hold for another
        shapes = tuple(tuple(scale * size for size in shape) for shape in requirement.shapes)
        fed = feed(requirement.function, requirement.arguments, shapes, piece, basis, seed)
        if isinstance(fed, Finding):
            return fed
        found = _traded(requirement, fed, scale ** len(shapes[0]), basis)
        first = first or found
        if (found.credit or found.met) < (first.credit or first.met):
            return found
    if first is None or first.trade is None or first.credit is None:
        return first or basis
    said = better_by_one(requirement, piece.parts, first.trade.costs)
    return first.but(difference=f"{first.difference} {said}".rstrip())


def _traded(requirement: Trades, fed: Fed, factor: int, basis: Finding) -> Finding:
    """The finding for arguments that are so many times as large as the exercise's."""
    held, moved, best = fed.held // factor, fed.ran.report.bytes // factor, requirement.best
    basis = basis.but(
        came=f"{held:,} bytes held, {moved:,} bytes moved on each device ({fed.came})",
        trade=Trade(held, moved, requirement.cap, requirement.frontier),
    )
    if held > requirement.cap:
        return report_exceeded_cap(requirement.cap, held, basis)
    if any(c.times is None for c in fed.ran.report.collectives):
        return basis.problem(
            "unknown-times",
            "A collective is in a loop whose length is known only when it runs, so the bytes that "
            "it moves cannot be computed.",
        )
    if requirement.given:
        credit = (requirement.given - moved) / (requirement.given - best)
    else:
        credit = (best + requirement.slack) / (moved + requirement.slack)
    credit = min(1.0, max(0.0, credit))
    if credit < 1:
        better = (
            f"With your shardings, each device moves {moved:,} bytes. Within the cap, {best:,} are "
            f"enough"
        )
        if 2 * held < requirement.cap:
            return basis.problem(
                "room-left",
                f"{better}. A device may hold {requirement.cap:,} bytes of the arguments, and "
                f"holds {held:,}.",
                credit=round(credit, 3),
            )
        return basis.problem("could-move-less", f"{better}.", credit=round(credit, 3))
    return basis.but(met=True)


def report_exceeded_cap(cap: float, held: int, basis: Finding) -> Finding:
    """The finding where a device holds more of the arguments than it may."""
    return basis.problem(
        "over-the-cap",
        f"Each device may hold {cap:,} bytes{in_mib(cap)} of the arguments; with your shardings it "
        f"holds {held:,}{in_mib(held)}.",
    )


@lru_cache(maxsize=16)
def _run(
    function: Arrays, parts: tuple[Placement, ...], shapes: tuple[Shape, ...], seed: int
) -> programs.Ran:
    """What the function makes of arguments laid out so, and of fresh values."""
    generator = np.random.default_rng(seed)
    shardings = [rebuild(part) for part in parts]
    inputs = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    return programs.execute(function, shardings, [inputs], mesh_of(parts[0]))


@lru_cache(maxsize=64)
def _whole(function: Arrays, shapes: tuple[Shape, ...]) -> float:
    """The floating-point operations of the function where one device does all of them."""
    arguments = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    with programs.current(jax.sharding.Mesh(jax.devices()[:1], ("all",))):
        return max(1.0, communication(function, *arguments).flops)


def _fraction(share: float) -> str:
    """`1/4`, or `all`."""
    return "all" if share > 0.99 else f"1/{round(1 / share)}" if share < 0.6 else f"{share:.0%}"


MAX_TRIED: Final = 60
"""The most programs that are compiled to find a better sharding."""


def better_by_one(requirement: Trades, parts: tuple[Placement, ...], moved: int) -> str:
    """Say which one sharding, changed alone, would save most, if one would.

    Args:
        requirement: what was asked.
        parts: where an answer lays out the arguments.
        moved: the bytes that each device moves with these.
    """
    function, shapes = requirement.function, requirement.shapes
    given = [rebuild(part) for part in parts]
    if any(mode != AxisType.Auto for each in given for mode in each.mesh.axis_types):
        return ""  # in Explicit mode JAX refuses some of what is tried
    tried = [
        (name, [*given[:place], other, *given[place + 1 :]])
        for place, (name, shape) in enumerate(zip(requirement.arguments, shapes, strict=True))
        for other in _shardings(mesh_of(parts[place]), len(shape))
    ]
    if len(shapes) == 1 or len(tried) > MAX_TRIED:
        return ""
    least, which = float(moved), ""
    for name, shardings in tried:
        if _held(shardings, shapes) <= requirement.cap:
            with programs.current(mesh_of(parts[0])):
                costs = _moved(function, shardings, shapes)
            if costs < least:
                least, which = costs, name
    if not which:
        return (
            "Changing the sharding of one argument does not help: none that was tried moves less."
        )
    return (
        f"Another sharding of {which} alone, within the cap, is enough to get down to "
        f"{least:,.0f} bytes."
    )


def _shardings(mesh: jax.sharding.Mesh, ndim: int) -> Iterator[jax.NamedSharding]:
    """Yield the shardings on a mesh of which no dimension has more than one axis.

    With two axes in a dimension, XLA prints warnings about some programs, and a learner sees them.
    """
    for spec in product([None, *mesh.axis_names], repeat=ndim):
        axes = [name for name in spec if name]
        if len(set(axes)) == len(axes):
            yield jax.NamedSharding(mesh, jax.P(*spec))


def _held(shardings: Sequence[jax.NamedSharding], shapes: Sequence[Shape]) -> int:
    """The bytes of float32 arguments on each device."""
    layouts = map(Layout.of, shardings, shapes)
    return sum(4 * math.prod(layout.block_shape) for layout in layouts)


def _moved(
    function: Arrays, shardings: Sequence[jax.NamedSharding], shapes: Sequence[Shape]
) -> float:
    """The bytes that each device moves; infinite where that is known only as the program runs."""
    arguments = [
        jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]
    report = programs.communication(function, *arguments)
    unknown = any(each.times is None for each in report.collectives)
    return math.inf if unknown else report.bytes
