"""Draw a small mesh with its groups of devices outlined."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, product
from string import ascii_uppercase
from typing import Final

from autograder.pictures.block_geometry import Point
from autograder.pictures.palette import tint
from autograder.pictures.svg_parts import Drawing, width_of

CELL: Final = 22.0
GAP: Final = 10.0
STEP: Final = CELL + GAP

Groups = Sequence[Sequence[int]]


@dataclass(frozen=True)
class DrawnMesh:
    """A mesh.

    Attributes:
        ids: the devices, in the mesh's order.
        shape: how many stand along each axis.
        names: what the axes are called; none where there is no mesh to name them.
        over: the axes that are talked over.
    """

    ids: tuple[int, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


def mesh_as_svg(mesh: DrawnMesh, groups: Groups) -> str:
    """The mesh, with a line round each group; the first is in its devices' colours.

    The last axis goes to the right and the one before it down; of a mesh with more, each plane is
    drawn below the one before it. A group that is no rectangle there has a letter on its devices.
    """
    rows, columns = (1, 1, *mesh.shape)[-2:]
    planes = list(product(*(range(size) for size in mesh.shape[:-2])))
    down, across = ("", "", *mesh.names)[-2:]
    left = width_of(down) + 18 if down else 4.0
    top = 22.0 if across else 4.0
    between = 16.0 if mesh.shape[:-2] else 0.0
    drawing, place, y = Drawing(), dict[int, Point](), top
    for plane in planes:
        if plane:
            said = ", ".join(f"{n} {i}" for n, i in zip(mesh.names, plane, strict=False))
            bold = bool(set(mesh.names[:-2]) & set(mesh.over))
            drawing.name(said, (left + 5, y + 6), 11, bold=bold)
            y += between
        for row, column in product(range(rows), range(columns)):
            place[mesh.ids[len(place)]] = (left + GAP / 2 + column * STEP, y + GAP / 2 + row * STEP)
        y += rows * STEP
    if across:
        drawing.name(f"{across} →", (left + 5, 11), bold=across in mesh.over)
    if down:
        drawing.name(f"{down} ↓", (2, top + between + STEP / 2), bold=down in mesh.over)
    marks = _draw_groups(drawing, groups, place)
    for device, (x, y_device) in place.items():
        at = (x + CELL / 2, y_device + CELL / 2)
        drawing.faint_edge(x, y_device, CELL, CELL)
        if device in groups[0]:
            drawing.box(x, y_device, CELL, CELL, tint(device))
            drawing.write(marks[device], at, 11)
        else:
            drawing.name(marks[device], at, 11, middle=True)
    width = max(left + columns * STEP + 4, left + 30 + width_of(across))
    return drawing.svg(width, y + 2, mesh_in_words(mesh, groups))


def mesh_in_words(mesh: DrawnMesh, groups: Groups) -> str:
    """The mesh and its groups in a sentence or two."""
    said = "; ".join(", ".join(map(str, group)) for group in groups)
    if not mesh.names:
        return f"Groups of devices: {said}."
    sizes = " by ".join(f"{name} {size}" for name, size in zip(mesh.names, mesh.shape, strict=True))
    return f"The mesh, {sizes}. Groups of devices: {said}."


def _draw_groups(drawing: Drawing, groups: Groups, place: dict[int, Point]) -> dict[int, str]:
    """A line round each group; and what to write on each device."""
    frames = [_frame(group, place) for group in groups]
    marks = {device: str(device) for device in place}
    if None in frames:
        for letter, group in zip(cycle(ascii_uppercase), groups, strict=False):
            marks |= {device: f"{device}{letter}" for device in group}
        return marks
    for number, frame in enumerate(frames):
        assert frame is not None
        drawing.edge(*frame, stroke=2 if number == 0 else 1, radius=7)
    return marks


def _frame(
    group: Sequence[int], place: dict[int, Point]
) -> tuple[float, float, float, float] | None:
    """The box round a group, if nobody else stands in it."""
    xs, ys = zip(*(place[device] for device in group), strict=True)
    left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    within = sum(left <= x <= right and top <= y <= bottom for x, y in place.values())
    if within != len(group):
        return None
    grown = GAP / 2 - 1.5
    width, height = right - left + CELL + 2 * grown, bottom - top + CELL + 2 * grown
    return left - grown, top - grown, width, height
