"""Picture a program's collectives: one picture for each kind of exchange."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from shardlings.collective_kinds import CollectiveKind
from shardlings.pictures import CollectivePicture, DrawnMesh
from shardlings.programs.collective import (
    Collective,
    Groups,
    MeshLike,
    take_costliest_branches,
    wire_bytes,
)


def pictures_of(
    collectives: Sequence[Collective], mesh: MeshLike | None, *, steps: bool = False
) -> list[CollectivePicture]:
    """Return a picture for each kind of exchange; collectives that are alike share one.

    Args:
        collectives: a program's collectives.
        mesh: the mesh that names their axes.
        steps: whether to show each step on a ring.
    """
    if mesh is not None:
        known = {device.id for device in mesh.devices.flat}
        talking = {device for c in collectives for group in c.groups for device in group}
        mesh = mesh if talking <= known else None  # the program runs on another mesh
    alike: dict[tuple[str, Groups, str], list[Collective]] = {}
    for c in collectives:
        alike.setdefault((c.kind, c.groups, c.operation), []).append(c)
    return [_picture(same, mesh, steps) for same in alike.values()]


def axes_in_words(collective: Collective) -> str:
    """Return the mesh axes that a collective runs over, or its number of groups if none fit."""
    if collective.axes:
        return ", ".join(collective.axes)
    if collective.traits.has_pairs:
        return f"{len(collective.groups)} pairs"
    return f"{len(collective.groups)} groups of {collective.size}"


def _picture(same: Sequence[Collective], mesh: MeshLike | None, steps: bool) -> CollectivePicture:
    first = same[0]
    groups: Groups = first.groups
    pairs: tuple[tuple[int, int], ...] = ()
    if first.traits.has_pairs:
        groups, pairs = permutation_groups(first, mesh)
    over = f"over {axes_in_words(first)}" if first.axes else f"in {axes_in_words(first)}"
    return CollectivePicture(
        title=f"{first.kind} {over}",
        caption=" ".join(_caption(same, groups, pairs)),
        kind=first.kind,
        groups=groups,
        pairs=pairs,
        mesh=_drawn_mesh(first, mesh, groups),
        operation=first.operation,
        bytes=first.bytes,
        steps=steps,
    )


def _caption(same: Sequence[Collective], groups: Groups, pairs: Groups) -> Iterator[str]:
    """Yield the caption's sentences."""
    first, size = same[0], len(groups[0])
    kind = first.traits
    yield kind.adds if kind.reduces and first.operation == "add" else kind.does
    if kind.has_pairs and len(pairs) < size:
        yield "A device that receives nothing gets zeros."
    if len(groups) > 1:
        others = len(groups) - 1
        counted = "the other does" if others == 1 else f"the {others} others do"
        yield f"Drawn for one group; {counted} the same."
    running = take_costliest_branches(same, lambda c: c.counted_times)
    runs = sum(c.times or 0 for c in running)
    if len(running) > 1 or runs > 1:
        most = " at most" * any(c.is_conditional for c in same)
        yield f"The program does this {runs:,} times{most}." if all(c.times for c in same) else ""
    else:
        sends = "A message has" if kind.has_pairs else "Each device sends"
        equal = " if its pieces are equal" * (kind is CollectiveKind.RAGGED_ALL_TO_ALL)
        turn = " in one turn of its loop" * (first.times is None)
        yield f"{sends} {round(wire_bytes(first)):,} bytes{turn}{equal}."


def permutation_groups(
    permutation: Collective, mesh: MeshLike | None
) -> tuple[Groups, tuple[tuple[int, int], ...]]:
    """Return the groups within which a permutation moves data, and its pairs.

    The groups are the lines of devices along the axes that it runs over, if the same happens in
    each line; otherwise all devices are one group.

    Args:
        permutation: a collective-permute, whose groups are pairs of device ids.
        mesh: the mesh that names its axes.

    Returns:
        The groups, as device ids, and the pairs of source and target, as places in a group.
    """
    sent = [(source, target) for source, target in permutation.groups]
    taking_part = sorted({device for pair in sent for device in pair})
    lines: Groups = (tuple(taking_part),)
    if mesh is not None:
        ids = np.array([device.id for device in mesh.devices.flat]).reshape(mesh.devices.shape)
        inner = [d for d, name in enumerate(mesh.axis_names) if name in permutation.axes]
        outer = [d for d in range(ids.ndim) if d not in inner]
        size = math.prod(ids.shape[d] for d in inner)
        along_axes = ids.transpose(*outer, *inner).reshape(-1, size)
        lines = tuple(tuple(int(i) for i in line) for line in along_axes)
        patterns = {_within(line, sent) for line in lines}
        if len(patterns) > 1:
            lines = (tuple(int(i) for i in ids.flat),)
    return lines, tuple(sorted(_within(lines[0], sent)))


def _within(line: Sequence[int], sent: Sequence[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Return the pairs within a line of devices, as places in it."""
    place = {device: i for i, device in enumerate(line)}
    return frozenset((place[a], place[b]) for a, b in sent if a in place and b in place)


def _drawn_mesh(collective: Collective, mesh: MeshLike | None, groups: Groups) -> DrawnMesh:
    if mesh is None:
        ids = tuple(sorted({device for group in groups for device in group}))
        return DrawnMesh(ids, (len(ids),))
    ids = tuple(device.id for device in mesh.devices.flat)
    return DrawnMesh(ids, mesh.devices.shape, mesh.axis_names, collective.axes)
