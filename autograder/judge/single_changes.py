"""Find the single sharding whose change would save the most bytes."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import jax
import numpy as np
from jax.sharding import AxisType

from autograder import programs
from autograder.evidence import Placement
from autograder.exercises import Arrays, Trades
from autograder.judge.judging_layouts import mesh_of, rebuild
from autograder.layouts import Layout, Shape

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
        return "No other sharding of a single one that was tried, within the cap, moves less."
    return (
        f"Another sharding of {which} alone, within the cap, already brings it down to "
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
