"""Ask for layouts that make a given function fast, and judge its modelled time at a real size."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

import jax
import numpy as np
from msgspec.structs import replace

from autograder import programs
from autograder.evidence import (
    Placement,
    Placements,
    PlacementsPlan,
)
from autograder.judge.comparing_values import Arrays
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.naming import between
from autograder.judge.requirements_on_costs import communicated
from autograder.judge.requirements_on_given_functions import (
    idle_devices,
    in_mib,
    lay_out,
    listed,
    over,
)
from autograder.judge.requirements_on_layouts import mesh_of, rebuild
from autograder.judge.verdict import Finding, Trade
from autograder.layouts import Shape
from autograder.programs import (
    BFLOAT16,
    MACHINES,
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
            "unknown-times", "How often a loop runs is known only when the program runs."
        )
    took = round(1e6 * (report.computing + report.communicating))
    basis = basis.but(
        came=f"{held:,} bytes{in_mib(held)} held on each device; {_ms(report.computing)} of "
        f"computing and {_ms(report.communicating)} of communicating ({came})",
        trade=Trade(held, took, requirement.cap, requirement.frontier, "microseconds"),
    )
    if held > requirement.cap:
        return over(requirement.cap, held, basis)
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
        f"On {requirement.machine} it takes {_ms(took / 1e6)}: each device computes for "
        f"{_ms(report.computing)} and communicates for {_ms(report.communicating)}. "
        f"{_ms(best / 1e6)} earns everything and {_ms(given / 1e6)} nothing. "
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
        return f"That is about what {shown.name} takes ({_ms(shown.total / 1e6)}). "
    said = [
        f"{kind} takes" * (kind == COMPUTING)
        + f"{kind}s take" * (kind != COMPUTING)
        + f" {_ms(now.get(kind, 0) / 1e6)} instead of {_ms(shown.items.get(kind, 0) / 1e6)}"
        for kind in clear
    ]
    first = ", ".join(said[:-1]) + " and " * bool(said[1:])
    return f"Compared with {shown.name} ({_ms(shown.total / 1e6)}), {first}{said[-1]}. "


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
    return f"The largest part of the communicating is now the {name}: {_ms(spent[name])}."


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


def in_mb(count: float) -> str:
    """`12 MB`, as a network's bytes are counted."""
    return f"{count / 1e6:,.0f} MB"


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


def _ms(time: float) -> str:
    return f"{1e3 * time:,.1f} ms"
