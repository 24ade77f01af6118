"""Capture arrays and shardings as placements: which device holds which block."""

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from autograder import programs
from autograder.errors import theirs
from autograder.evidence.data import (
    Contents,
    MeshGrid,
    NotCaptured,
    Piece,
    Placement,
    Placements,
    Size,
    Struct,
    Unanswered,
)
from autograder.evidence.time_limits import announced
from autograder.evidence.unsuitable_answers import a_type, misfit
from autograder.layouts import Layout, LayoutError, entries, refusal

MAX_VALUE_BYTES: Final = 1 << 20
"""Exercises are small; a larger array is not what was asked for."""


Shape = tuple[Size, ...]


class PlacementPlan(Struct, frozen=True, tag="placement"):
    """An array, or a sharding, becomes a `Placement`.

    Attributes:
        shape: the shape, in elements, that a sharding is for.
        array: whether it has to be an array, with its values.
    """

    shape: Shape
    array: bool

    def capture(self, name: str, answer: object) -> Piece:
        """An array or a sharding as evidence; or why it will not do."""
        with announced(f"JAX has not computed {name} yet"):
            return placement(self, answer)


class PlacementsPlan(Struct, frozen=True, tag="placements"):
    """A sharding for each argument of a given function becomes one of `Placements`.

    Attributes:
        arguments: the arguments' names.
        shapes: their shapes, in elements.
    """

    arguments: tuple[str, ...]
    shapes: tuple[Shape, ...]

    def capture(self, name: str, answer: object) -> Piece:
        """A sharding for each argument as evidence; or why they will not do."""
        return placements(self, answer)


def placement(plan: PlacementPlan, answer: object) -> Piece:
    """An array or a sharding as evidence; or why it will not do."""
    if isinstance(answer, jax.Array) and not isinstance(answer, jax.core.Tracer):
        return _of_array(answer)
    if isinstance(answer, jax.sharding.Sharding):
        if plan.array:
            return NotCaptured(
                "sharding-for-array",
                f"Got {a_type(answer)}; expected an array. "
                f"jax.device_put(array, sharding) lays an array out by it.",
            )
        return _of_sharding(answer, plan.shape)
    if plan.array and _are_arrays(answer):
        return NotCaptured(
            "several-arrays",
            f"Got {a_type(answer)} of {len(answer)}; expected one jax.Array. An array that is "
            f"sharded over several devices is still one array, and each device holds a block of "
            f"it.",
        )
    return misfit(answer, "a jax.Array" if plan.array else "a jax.Array or a sharding")


def _are_arrays(answer: object) -> TypeGuard[Sequence[jax.Array]]:
    """Check whether an answer is a list or a tuple of one or more arrays."""
    if not isinstance(answer, list | tuple) or not answer:
        return False
    return all(isinstance(each, jax.Array) for each in answer)


def placements(plan: PlacementsPlan, answer: object) -> Piece:
    """A sharding for each argument as evidence; or why they will not do."""
    names, shapes = plan.arguments, plan.shapes
    if isinstance(answer, programs.Report):
        return NotCaptured(
            "not-shardings",
            f"Got a report of what a program communicates; expected a sharding for each of "
            f"{' and '.join(names)}.",
        )
    several = isinstance(answer, tuple | list) and not isinstance(answer, jax.P)
    answers = list(answer) if several else [answer]  # type: ignore[call-overload]
    if len(answers) != len(names):
        wanted = {1: "one sharding", 2: "a pair of shardings"}.get(
            len(names), f"{len(names)} shardings"
        )
        return NotCaptured(
            "number-of-shardings",
            f"Got {len(answers) if several else a_type(answer)}; expected {wanted}, for "
            f"{' and '.join(names)}.",
        )
    if all(part is ... for part in answers):
        return Unanswered()
    parts = []
    for name, part, shape in zip(names, answers, shapes, strict=True):
        is_laid_out = isinstance(part, jax.Array | jax.sharding.Sharding)
        if not is_laid_out or isinstance(part, jax.core.Tracer):
            found = misfit(part)
            return NotCaptured(found.why, f"{name}: {found.sentence}")
        sharding = part.sharding if isinstance(part, jax.Array) else part
        placed = _of_sharding(sharding, shape)
        if not isinstance(placed, Placement):
            return placed
        parts.append(placed)
    return Placements(tuple(parts))


def _of_array(array: jax.Array) -> Piece:
    if array.is_deleted():
        return NotCaptured(
            "deleted",
            "The array was deleted, perhaps because it was donated to jit. Make it again.",
        )
    if array.nbytes > MAX_VALUE_BYTES:
        return NotCaptured(
            "too-large",
            f"The array has shape {array.shape} and takes {array.nbytes:,} bytes; no exercise "
            f"needs more than {MAX_VALUE_BYTES:,}.",
        )
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return NotCaptured(
            "keys",
            "Got an array of random keys; expected an array of numbers. "
            "jax.random.normal, for example, makes numbers from a key.",
        )
    placement = _of_sharding(array.sharding, array.shape)
    if not isinstance(placement, Placement):
        return placement
    with theirs():  # what computes it may only fail now that somebody reads it
        values = np.asarray(array)
    contents = Contents(array.shape, array.dtype.name, values.tobytes())
    return Placement(placement.mesh, placement.spec, contents)


def _of_sharding(
    sharding: jax.sharding.Sharding, shape: tuple[int, ...]
) -> Placement | NotCaptured:
    if not isinstance(sharding, jax.NamedSharding):
        try:
            return Placement(*_mesh_of(Layout.of(sharding, shape)))
        except LayoutError as error:
            return NotCaptured("does-not-fit", str(error))
    refused = refusal(sharding)
    if refused or not isinstance(sharding.mesh, jax.sharding.Mesh):
        return NotCaptured("no-devices", refused)
    if getattr(sharding.spec, "unreduced", None):
        return NotCaptured(*programs.UNREDUCED)
    spec = entries(sharding.spec)
    if jax.P.UNCONSTRAINED in spec:
        return NotCaptured(
            "unconstrained",
            f"{sharding.spec} leaves a dimension to the compiler, so the blocks are not known yet.",
        )
    mesh = sharding.mesh
    return Placement(
        MeshGrid(
            mesh.devices.shape,
            tuple(device.id for device in mesh.devices.flat),
            tuple(map(str, mesh.axis_names)),
            tuple(kind.name for kind in mesh.axis_types or ()),
        ),
        tuple(map(_axes_by_name, spec)),
    )


def _axes_by_name(part: Any) -> str | tuple[str, ...] | None:
    """One entry of a spec; JAX takes anything for an axis's name, and JSON takes strings."""
    return tuple(map(str, part)) if isinstance(part, tuple) else None if part is None else str(part)


def _mesh_of(layout: Layout) -> tuple[MeshGrid, tuple[str | None, ...]]:
    """A mesh and spec that give a layout, for shardings that have none of their own.

    The names are made up, so the spec has none where nothing is cut: pictures write them out.
    """
    names = tuple(f"d{axis}" for axis in range(len(layout.counts)))
    ids = tuple(device for holders in layout.grid.values() for device in holders)
    cutting = tuple(n if count > 1 else None for n, count in zip(names, layout.counts, strict=True))
    return MeshGrid((*layout.counts, layout.copies), ids, (*names, "copies")), cutting
