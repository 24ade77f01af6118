"""Meshes, shapes and specs that hypothesis draws, and what JAX says about them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlings.layouts import Layout, LayoutError
from shardlings.layouts.layout import spec_as_code
from tests.conftest import fewer

NAMES = ("x", "y", "z", "data")
MAX_DEVICES = 512

BATCH = 25
"""Cases in one call of the browser."""

Entries = tuple[tuple[str, ...], ...]


class PlaceholderDevice:
    """Stands for a device of a mesh that is larger than this machine's: JAX only needs its id."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.process_index = 0


@dataclass(frozen=True)
class Case:
    """A mesh, an array's shape and a spec.

    Attributes:
        sizes: the mesh axes and their sizes.
        devices: the ids of the mesh's devices, in row-major order.
        shape: the array's shape.
        entries: for each dimension that the spec covers, the names of mesh axes.
    """

    sizes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...]
    shape: tuple[int, ...]
    entries: Entries

    @property
    def texts(self) -> list[str]:
        """What a reader types: shape, mesh, devices, and the spec as Python code."""
        return [
            ", ".join(map(str, self.shape)),
            ", ".join(f"{name}:{size}" for name, size in self.sizes),
            ",".join(map(str, self.devices)),
            spec_as_code(self.spec),
        ]

    @property
    def spec(self) -> jax.P:
        return jax.P(*(_entry(names) for names in self.entries))

    @property
    def mesh(self) -> jax.sharding.Mesh:
        shape = tuple(size for _, size in self.sizes)
        real = {device.id: device for device in jax.devices()}
        is_real = set(self.devices) <= set(real)
        devices = [real[i] if is_real else PlaceholderDevice(i) for i in self.devices]
        return jax.sharding.Mesh(
            np.array(devices, dtype=object).reshape(shape), tuple(name for name, _ in self.sizes)
        )

    @property
    def blocks(self) -> dict[int, list[list[int]]]:
        """The block of each device by its id, from JAX.

        Raises:
            ValueError: JAX refuses the spec for this mesh and shape.
        """
        if len(self.entries) > len(self.shape):
            raise ValueError("JAX refuses this when the sharding meets an array")
        sharding = jax.NamedSharding(self.mesh, self.spec)
        return {
            device.id: [  # type: ignore[attr-defined]
                list(part.indices(size)[:2]) for part, size in zip(index, self.shape, strict=True)
            ]
            for device, index in sharding.devices_indices_map(self.shape).items()
        }

    @property
    def refusal(self) -> str:
        """The sentence with which `show` refuses the spec, or nothing."""
        from shardlings.layouts.layout import _explain_misfit
        from shardlings.layouts.showing import _sharding

        try:
            sharding = _sharding(self.mesh, self.spec)
        except LayoutError as error:
            return str(error)
        try:
            self.blocks  # noqa: B018
        except ValueError:
            return _explain_misfit(sharding, self.shape)
        return ""

    @property
    def layout(self) -> Layout:
        return Layout.from_blocks(
            self.shape, {i: tuple((a, b) for a, b in block) for i, block in self.blocks.items()}
        )


def _entry(names: tuple[str, ...]) -> Any:
    return None if not names else names[0] if len(names) == 1 else names


@st.composite
def meshes(draw: st.DrawFn, most: int = MAX_DEVICES) -> tuple[tuple[str, int], ...]:
    """Draw axes and sizes of a mesh of at most so many devices."""
    sizes: list[tuple[str, int]] = []
    for name in draw(st.permutations(NAMES))[: draw(st.integers(1, 4))]:
        room = most // math.prod(size for _, size in sizes)
        sizes.append((name, draw(st.integers(1, min(8, room)))))
    return tuple(sizes)


@st.composite
def cases(draw: st.DrawFn, valid: bool = False) -> Case:
    """Draw a case; unless it is to be valid, JAX may refuse it.

    Half of the meshes fit this machine, so the devices are real ones.
    """
    sizes = draw(meshes(draw(st.sampled_from((8, MAX_DEVICES)))))
    count = math.prod(size for _, size in sizes)
    start = draw(st.sampled_from((0, 0, 0, max(0, 8 - count))))
    devices = list(range(start, start + count))
    if draw(st.booleans()):
        devices = draw(st.sampled_from((devices[::-1], devices[::2] + devices[1::2])))
    rank = draw(st.integers(0, 3))
    entries: list[list[str]] = [[] for _ in range(draw(st.integers(0, rank)))]
    for name in draw(st.permutations([name for name, _ in sizes])) if entries else ():
        at = draw(st.integers(-1, len(entries) - 1))
        if at >= 0:
            entries[at].append(name)
    shards = [math.prod(dict(sizes)[name] for name in names) for names in entries]
    shape = [draw(st.integers(0, 4)) * (shards[d] if d < len(shards) else 1) for d in range(rank)]
    if not valid and draw(st.booleans()):
        flaw = draw(st.sampled_from(("unknown", "twice", "long", "uneven")))
        if flaw == "unknown":
            entries.append(["model"])
        elif flaw == "twice":
            entries.append([sizes[0][0], sizes[0][0]])
        elif flaw == "long":
            entries.extend([[]] * (rank + 1 - len(entries)))
        elif shape:
            shape[draw(st.integers(0, rank - 1))] += 1
    return Case(sizes, tuple(devices), tuple(shape), tuple(map(tuple, entries)))


@dataclass(frozen=True)
class Move:
    """Two layouts of one shape on one mesh, whose devices are this machine's first ones."""

    before: Case
    after: Case

    @property
    def texts(self) -> list[str]:
        """The shape, the mesh and both specs, as a reader types them."""
        shape, mesh, _, spec = self.before.texts
        return [shape, mesh, spec, self.after.texts[-1]]


@st.composite
def moves(draw: st.DrawFn, most: int = MAX_DEVICES) -> Move:
    """Draw two layouts."""
    sizes = draw(meshes(most))
    rank = draw(st.integers(1, 3))
    pair = []
    for _ in range(2):
        entries: list[list[str]] = [[] for _ in range(rank)]
        for name in draw(st.permutations([name for name, _ in sizes])):
            at = draw(st.integers(-1, rank - 1))
            if at >= 0:
                entries[at].append(name)
        pair.append(tuple(map(tuple, entries)))
    shards = [[math.prod(dict(sizes)[name] for name in names) for names in e] for e in pair]
    shape = tuple(
        draw(st.integers(1, 3)) * math.lcm(*counts) for counts in zip(*shards, strict=True)
    )
    devices = tuple(range(math.prod(size for _, size in sizes)))
    return Move(*(Case(sizes, devices, shape, entries) for entries in pair))


def batches(drawn: st.SearchStrategy[Any], count: int) -> Callable[[Any], Any]:
    """Call a test with batches of cases: `count` of them in sum, or the share that is tried."""
    examples = fewer(math.ceil(count / BATCH))

    def decorate(test: Any) -> Any:
        given_batches = given(st.lists(drawn, min_size=BATCH, max_size=BATCH))
        return settings(max_examples=examples)(given_batches(test))

    return decorate
