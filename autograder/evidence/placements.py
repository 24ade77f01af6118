"""Capture arrays and shardings as placements: which device holds which block."""

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from autograder import artifacts
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
from autograder.evidence.time_limits import announce_wait
from autograder.evidence.unsuitable_answers import describe_type, not_an_array
from shardlings import programs
from shardlings.errors import theirs
from shardlings.layouts import Layout, LayoutError, spec_entries, why_no_layout

MAX_VALUE_BYTES: Final = 1 << 20
"""The exercises' arrays are smaller."""

Shape = tuple[Size, ...]


class PlacementPlan(Struct, frozen=True, tag="placement"):
    """A plan to capture an array or a sharding as a `Placement`.

    Attributes:
        shape: the shape, in elements, of the array that a sharding is for.
        has_to_be_array: whether the answer has to be an array, and not only a sharding.
    """

    shape: Shape
    has_to_be_array: bool = msgspec.field(name="array")

    def capture(self, name: str, answer: object) -> Piece:
        """Capture an array or a sharding, or explain why it cannot be captured."""
        with announce_wait(f"JAX has not computed {name} yet"):
            return capture_placement(self, answer)


class PlacementsPlan(Struct, frozen=True, tag="placements"):
    """A plan to capture a sharding for each argument of a given function, as `Placements`.

    Attributes:
        arguments: the arguments' names.
        shapes: their shapes, in elements.
    """

    arguments: tuple[str, ...]
    shapes: tuple[Shape, ...]

    def capture(self, name: str, answer: object) -> Piece:
        """Capture a sharding for each argument, or explain why they cannot be captured."""
        return capture_placements(self, answer)


def capture_placement(plan: PlacementPlan, answer: object) -> Piece:
    """Capture an array or a sharding, or explain why it cannot be captured."""
    if isinstance(answer, jax.Array) and not isinstance(answer, jax.core.Tracer):
        return _place_array(answer)
    if isinstance(answer, jax.sharding.Sharding):
        if plan.has_to_be_array:
            return NotCaptured(
                "sharding-for-array",
                f"Got {describe_type(answer)}; expected an array. "
                f"jax.device_put(array, sharding) lays an array out by it.",
            )
        return _place_sharding(answer, plan.shape)
    if plan.has_to_be_array and _are_arrays(answer):
        return NotCaptured(
            "several-arrays",
            f"Got {describe_type(answer)} of {len(answer)}; expected one jax.Array. An array that "
            f"is sharded over several devices is still one array, and each device holds a block of "
            f"it.",
        )
    return not_an_array(
        answer, "a jax.Array" if plan.has_to_be_array else "a jax.Array or a sharding"
    )


def _are_arrays(answer: object) -> TypeGuard[Sequence[jax.Array]]:
    if not isinstance(answer, list | tuple) or not answer:
        return False
    return all(isinstance(item, jax.Array) for item in answer)


def capture_placements(plan: PlacementsPlan, answer: object) -> Piece:
    """Capture a sharding for each argument, or explain why they cannot be captured."""
    names, shapes = plan.arguments, plan.shapes
    if isinstance(answer, programs.Report):
        return NotCaptured(
            "not-shardings",
            f"Got a report of what a program communicates; expected a sharding for each of "
            f"{' and '.join(names)}.",
        )
    is_sequence = isinstance(answer, tuple | list) and not isinstance(answer, jax.P)
    shardings = list(answer) if is_sequence else [answer]  # type: ignore[call-overload]
    if len(shardings) != len(names):
        expected = {1: "one sharding", 2: "a pair of shardings"}.get(
            len(names), f"{len(names)} shardings"
        )
        return NotCaptured(
            "number-of-shardings",
            f"Got {len(shardings) if is_sequence else describe_type(answer)}; expected {expected}, "
            f"for {' and '.join(names)}.",
        )
    if all(sharding is ... for sharding in shardings):
        return Unanswered()
    placements = []
    for name, sharding, shape in zip(names, shardings, shapes, strict=True):
        has_layout = isinstance(sharding, jax.Array | jax.sharding.Sharding)
        if not has_layout or isinstance(sharding, jax.core.Tracer):
            not_captured = not_an_array(sharding)
            return NotCaptured(not_captured.why, f"{name}: {not_captured.sentence}")
        if isinstance(sharding, jax.Array):
            sharding = sharding.sharding
        placement = _place_sharding(sharding, shape)
        if not isinstance(placement, Placement):
            return placement
        placements.append(placement)
    return Placements(tuple(placements))


def _place_array(array: jax.Array) -> Piece:
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
    placement = _place_sharding(array.sharding, array.shape)
    if not isinstance(placement, Placement):
        return placement
    with theirs():  # JAX computes lazily, so the learner's computation may fail only here
        values = np.asarray(array)
    contents = Contents(array.shape, array.dtype.name, values.tobytes())
    return Placement(placement.mesh, placement.spec, contents)


def _place_sharding(
    sharding: jax.sharding.Sharding, shape: tuple[int, ...]
) -> Placement | NotCaptured:
    if not isinstance(sharding, jax.NamedSharding):
        if _is_offloaded(sharding):
            return _offloaded(sharding)
        try:
            return Placement(*_mesh_and_spec(Layout.of(sharding, shape)))
        except LayoutError as error:
            return NotCaptured("does-not-fit", str(error))
    reason = why_no_layout(sharding)
    if reason or not isinstance(sharding.mesh, jax.sharding.Mesh):
        return NotCaptured("no-devices", reason)
    if _is_offloaded(sharding):
        return _offloaded(sharding)
    if getattr(sharding.spec, "unreduced", None):
        return NotCaptured(*artifacts.UNREDUCED)
    spec = spec_entries(sharding.spec)
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
        tuple(map(_stringify_axes, spec)),
    )


def _is_offloaded(sharding: jax.sharding.Sharding) -> bool:
    """Check whether a sharding names another memory than its devices' own."""
    kind = sharding.memory_kind
    devices: set[Any] = sharding.device_set
    return kind is not None and kind not in {each.default_memory().kind for each in devices}


def _offloaded(sharding: jax.sharding.Sharding) -> NotCaptured:
    return NotCaptured(
        "other-memory",
        f"The memory kind is {sharding.memory_kind}; expected the devices' own memory.",
    )


def _stringify_axes(entry: Any) -> str | tuple[str, ...] | None:
    """Convert an entry of a spec to strings: in JAX, any hashable object may name a mesh axis."""
    if isinstance(entry, tuple):
        return tuple(map(str, entry))
    return None if entry is None else str(entry)


def _mesh_and_spec(layout: Layout) -> tuple[MeshGrid, tuple[str | None, ...]]:
    """Make up a mesh and spec that give a layout, for a sharding that has neither.

    The names are made up and pictures show them, so dimensions that are not sharded get none.
    """
    names = tuple(f"d{axis}" for axis in range(len(layout.counts)))
    ids = tuple(device for holders in layout.grid.values() for device in holders)
    spec = tuple(n if count > 1 else None for n, count in zip(names, layout.counts, strict=True))
    return MeshGrid((*layout.counts, layout.copies), ids, (*names, "copies")), spec
