"""Judge argument layouts by what a given function does with them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import jax
import numpy as np

from autograder import programs
from autograder.evidence import Placement, Placements
from autograder.exercises import Arrays, Feeds, Trades
from autograder.judge.judging_costs import communicated, within_budgets
from autograder.judge.judging_layouts import judge_layout, mesh_of, rebuild
from autograder.judge.single_changes import better_by_one
from autograder.judge.verdict import Finding, Trade
from autograder.layouts import Layout, LayoutError, Shape
from autograder.programs import communication

AXIS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a mesh axis may be called where a program is compiled for it."""

MAX_WORK_SHARE = 1.5
"""A device may do so much of its share of the work: communicating takes some operations too."""


MAX_NAMED: Final = 2
"""Up to how many arguments are named that are laid out otherwise than in a right answer."""


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
        return basis.problem("malformed", "A placement for each argument was needed.")
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


def judge_feeds(requirement: Feeds, piece: Placements, basis: Finding, seed: int) -> Finding:
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
            too_much = over(cap, fed.held, basis.but(came=fed.came))
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
                    difference=f"The result is not where it should be. {found.difference}",
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


def judge_trade(requirement: Trades, piece: Placements, basis: Finding, seed: int) -> Finding:
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
        return over(requirement.cap, held, basis)
    if any(c.times is None for c in fed.ran.report.collectives):
        return basis.problem(
            "unknown-times", "How often something is moved is known only when the program runs."
        )
    if requirement.given:
        credit = (requirement.given - moved) / (requirement.given - best)
    else:
        credit = (best + requirement.slack) / (moved + requirement.slack)
    credit = min(1.0, max(0.0, credit))
    if credit < 1:
        better = (
            f"With your shardings, {moved:,} bytes are moved on each device. Within the cap, it "
            f"can be done with {best:,} bytes moved"
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


def in_mib(count: float) -> str:
    """` (100 MiB)`, behind a number of bytes that nobody reads at a glance; else nothing."""
    return f" ({count / 2**20:,.0f} MiB)" if count >= 2**20 else ""


def over(cap: float, held: int, basis: Finding) -> Finding:
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
