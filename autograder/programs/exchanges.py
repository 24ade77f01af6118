"""Make the pictures of a program's collectives, one for those that are alike."""

import math
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from autograder.pictures import CollectivePicture, MeshGrid
from autograder.programs.collective import Collective, Groups
from autograder.programs.costs import wire_bytes


def pictures_of(
    collectives: Sequence[Collective], mesh: jax.sharding.Mesh | None, *, steps: bool = False
) -> list[CollectivePicture]:
    """A picture for each kind of exchange in a program, those alike in one.

    Args:
        collectives: those of a program.
        mesh: the mesh that names their axes.
        steps: whether to draw how a ring does each.
    """
    if mesh is not None:
        known = {device.id for device in mesh.devices.flat}
        talking = {device for c in collectives for group in c.groups for device in group}
        mesh = mesh if talking <= known else None  # it is not what the program runs on
    alike: dict[tuple[str, Groups, str], list[Collective]] = {}
    for c in collectives:
        alike.setdefault((c.kind, c.groups, c.operation), []).append(c)
    return [_picture(same, mesh, steps) for same in alike.values()]


def over_words(collective: Collective) -> str:
    """What it runs over: `x`, or, where no axes of the mesh make its groups, how many they are."""
    if collective.axes:
        return ", ".join(collective.axes)
    if collective.traits.in_pairs:
        return f"{len(collective.groups)} pairs"
    return f"{len(collective.groups)} groups of {collective.size}"


def _picture(
    same: Sequence[Collective], mesh: jax.sharding.Mesh | None, steps: bool
) -> CollectivePicture:
    first = same[0]
    groups: Groups = first.groups
    pairs: tuple[tuple[int, int], ...] = ()
    if first.traits.in_pairs:
        groups, pairs = permuting(first, mesh)
    over = f"over {over_words(first)}" if first.axes else f"in {over_words(first)}"
    return CollectivePicture(
        title=f"{first.kind} {over}",
        caption=" ".join(_said(same, groups, pairs)),
        kind=first.kind,
        groups=groups,
        pairs=pairs,
        mesh=_grid(first, mesh, groups),
        operation=first.operation,
        bytes=first.bytes,
        steps=steps,
    )


def _said(same: Sequence[Collective], groups: Groups, pairs: Groups) -> Iterator[str]:
    """What the picture shows, in sentences."""
    first, size = same[0], len(groups[0])
    kind = first.traits
    yield kind.adds if kind.reduces and first.operation == "add" else kind.does
    if kind.in_pairs and len(pairs) < size:
        yield "A device that receives nothing gets zeros."
    if len(groups) > 1:
        others = len(groups) - 1
        counted = "the other does" if others == 1 else f"the {others} others do"
        yield f"Drawn for one group; {counted} the same."
    runs = sum(c.times or 0 for c in same)
    if len(same) > 1 or runs > 1:
        yield f"The program does this {runs:,} times." if all(c.times for c in same) else ""
    else:
        sends = "A message has" if kind.in_pairs else "Each device sends"
        yield f"{sends} {round(wire_bytes(first)):,} bytes."


def permuting(
    collective: Collective, mesh: jax.sharding.Mesh | None
) -> tuple[Groups, tuple[tuple[int, int], ...]]:
    """The groups within which a permutation moves, and its pairs by their places in a group.

    The groups are the lines along the axes that it runs over, where the same happens in each; else
    all devices are one group.

    Args:
        collective: a permutation, with the ids of devices.
        mesh: the mesh that names its axes.
    """
    sent = [(source, target) for source, target in collective.groups]
    taking_part = sorted({device for pair in sent for device in pair})
    lines: Groups = (tuple(taking_part),)
    if mesh is not None:
        ids = np.array([device.id for device in mesh.devices.flat]).reshape(mesh.devices.shape)
        inner = [d for d, name in enumerate(mesh.axis_names) if name in collective.axes]
        outer = [d for d in range(ids.ndim) if d not in inner]
        size = math.prod(ids.shape[d] for d in inner)
        cut = ids.transpose(*outer, *inner).reshape(-1, size)
        lines = tuple(tuple(int(i) for i in line) for line in cut)
        patterns = {_within(line, sent) for line in lines}
        if len(patterns) > 1:
            lines = (tuple(int(i) for i in ids.flat),)
    return lines, tuple(sorted(_within(lines[0], sent)))


def _within(line: Sequence[int], sent: Sequence[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """The pairs within a line, by places."""
    place = {device: i for i, device in enumerate(line)}
    return frozenset((place[a], place[b]) for a, b in sent if a in place and b in place)


def _grid(collective: Collective, mesh: jax.sharding.Mesh | None, groups: Groups) -> MeshGrid:
    if mesh is None:
        ids = tuple(sorted({device for group in groups for device in group}))
        return MeshGrid(ids, (len(ids),))
    ids = tuple(device.id for device in mesh.devices.flat)
    return MeshGrid(ids, mesh.devices.shape, mesh.axis_names, collective.axes)
