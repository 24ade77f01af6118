"""The judge's eye for the layout of arguments: what does a given function make of them?"""

import re
from functools import lru_cache

import jax
import numpy as np

from autograder import programs
from autograder.communication import communication
from autograder.evidence import Placement, Placements
from autograder.exercise import Arrays, Exercise, Feeds
from autograder.judge_costs import communicated, within_budgets
from autograder.judge_layouts import judge_layout, mesh_of, rebuild
from autograder.layout import Layout, LayoutError, Shape
from autograder.verdict import Finding

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a mesh axis may be called where a program is compiled for it."""

SLACK = 1.5
"""How much more than its share a device may do: what communicates takes some operations too."""


def judge_feeds(
    requirement: Feeds, piece: Placements, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a given function does with arguments laid out by the answer."""
    names = requirement.arguments
    if len(piece.parts) != len(names):
        return basis.problem("malformed", "A placement for each argument was needed.")
    result = requirement.result()
    first: Finding | None = None
    for shapes, budgets in zip(requirement.shapes, requirement.budgets, strict=True):
        try:
            shardings = [rebuild(part) for part in piece.parts]
            layouts = [Layout.of(s, shape) for s, shape in zip(shardings, shapes, strict=True)]
        except LayoutError as error:
            return basis.problem("does-not-fit", str(error), came="a sharding that does not fit")
        laid_out = "; ".join(
            f"{name}: {layout.describe()}" for name, layout in zip(names, layouts, strict=True)
        )
        basis = basis.but(came=laid_out)
        strange = [n for part in piece.parts for n in part.mesh.names if not NAME.fullmatch(n)]
        if strange:  # XLA's own parser aborts the process on some
            return basis.problem(
                "axis-names",
                f"A mesh axis is called {strange[0]!r}: compilers read names of letters, digits "
                f"and underscores.",
            )
        if len({part.mesh.ids for part in piece.parts}) > 1:
            return basis.problem(
                "different-devices",
                "A program runs on one list of devices, in one order, and these are not on the "
                "same.",
            )
        ran = _run(requirement.function, piece.parts, shapes, seed)
        basis = basis.but(came=f"{laid_out}. Then it communicates {communicated(ran.report)}")
        used, devices = len(piece.parts[0].mesh.ids), jax.device_count()
        if used < devices:
            return basis.problem(
                "one-device" if used == 1 else "devices-unused",
                f"{used} of {devices} devices {'holds' if used == 1 else 'hold'} everything, and "
                f"{'does' if used == 1 else 'do'} all the work.",
            )
        found = within_budgets(ran.report, budgets, basis, names, layouts)
        if not found.met:
            return found.but(came=basis.came)
        if result is not None:
            found = judge_layout(result, Layout.of(ran.outputs[0][0]), basis)
            if not found.met:
                return found.but(
                    came=f"{basis.came}; the result: {found.came}",
                    difference=f"Of the result: {found.difference}",
                )
        share = ran.report.flops / _whole(requirement.function, shapes)
        if share > SLACK / devices:
            return basis.problem(
                "repeated-work",
                f"It communicates no more than it may, but each device does {_fraction(share)} of "
                f"the work, and of {devices} devices each could do {_fraction(1 / devices)}: "
                f"whoever holds the same blocks computes the same.",
            )
        first = first or basis.but(met=True, made=found.made)
    return first or basis


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
