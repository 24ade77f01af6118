"""Arrange pictures of blocks at one scale, with the mesh axes along the edges."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Final

from autograder.pictures.block_geometry import GAP, Point, Scene, Tile, inset, margin_of, width_of
from autograder.pictures.block_pictures import Edge, Picture, Place, label_of

SIDE: Final = 112.0
BACK: Final = (50.0, 38.0)
TOP: Final = 8.0
"""How long the edges in front are, how far right and up the others go, and what is above."""
LARGE: Final = (176.0, 132.0)
SMALL: Final = (84.0, 60.0)
"""How long an array's longest side is, and that of one plane of many; and where there are many."""

FEW: Final = (3, 4)
"""How many pictures, and planes in each, are not yet many."""

DEVICE: Final = (42.0, 38.0)
"""The room of a device in a mesh."""

ABOVE: Final = 24.0
"""The room above an array for what is written along its upper edge."""

WIDEST: Final = (400.0, 700.0)
"""How far rows of planes go: two pictures of few planes stand side by side, and others do not."""

Size = tuple[float, float]


def draw_cube(scene: Scene, picture: Picture) -> float:
    """Draw a cube: dimension 0 goes back, 1 down, 2 to the right.

    Returns:
        Where it ends on the right.
    """
    counts = picture.counts
    left = max(margin_of(picture.edge(1)), margin_of(picture.edge(0)) - BACK[0] / 2 + GAP)
    front = TOP + BACK[1]

    def at(depth: float, down: float, right: float) -> Point:
        """A point of the cube, from fractions of its three edges."""
        return left + right * SIDE + depth * BACK[0], front + down * SIDE - depth * BACK[1]

    def face(i: int, j: int, corner: list[float]) -> None:
        """The face that dimensions `i` and `j` span at `corner`."""
        room = [SIDE / counts[d] if d else BACK[1 if (i, j) == (0, 2) else 0] / counts[0]
                for d in (i, j)]  # fmt: skip
        high, wide = (room[0], room[1]) if (i, j) != (0, 1) else (room[1], room[0])
        for a, b in product(range(counts[i]), range(counts[j])):
            index = [int(corner[d]) * (counts[d] - 1) for d in range(3)]
            index[i], index[j] = a, b
            points = []
            for p, q in ((0, 0), (0, 1), (1, 1), (1, 0)):
                place = list(corner)
                place[i], place[j] = (a + p) / counts[i], (b + q) / counts[j]
                points.append(at(*place))
            ids = picture.labels[*index]
            scene.tiles.append(
                Tile(
                    (points[0], points[1], points[2], points[3]),
                    ids,
                    pale=tuple(index) in picture.pale,
                    speaks=wide >= 7.2 * len(label_of(ids)) + 6 and high >= 16,
                )
            )

    face(1, 2, [0, 0, 0])
    face(0, 2, [0, 0, 0])
    face(0, 1, [0, 0, 1])
    scene.name_down(picture.edge(1), front, front + SIDE, left)
    scene.name_across(picture.edge(2), left, left + SIDE, front + SIDE, above=False)
    _name_back(scene, picture, left, front)
    right = left + SIDE + BACK[0]
    scene.holds(right, front + SIDE)
    return right


def _name_back(scene: Scene, picture: Picture, left: float, front: float) -> None:
    """Write what lies along the edge that goes back."""
    edge, (aside, above) = picture.edge(0), (-3.6, -4.8)  # at right angles to the edge
    start, end = (left + aside, front + above), (left + BACK[0] + aside, front - BACK[1] + above)
    if edge.axis:
        scene.hairlines.append([start, (end[0], max(end[1], 1.0))])
    middle = ((start[0] + end[0]) / 2 - 5, (start[1] + end[1]) / 2)
    for i, part in enumerate(edge.parts):
        y = middle[1] + 13 * (i - (len(edge.parts) - 1) / 2) - 3
        scene.write((part,), (middle[0] - 9 * i, max(y, 7.0)), "right")


def scenes_of(pictures: Sequence[Picture]) -> list[Scene]:
    """Where everything stands in each picture, in pixels from its top left.

    An element of an array is as long in all pictures, as far as labels have room, and all arrays
    begin at the same height.
    """
    many = any(_planes(picture) > FEW[1] or _is_deep(picture) for picture in pictures)
    above = ABOVE if any(picture.shape for picture in pictures) else 4.0
    return [
        _scene(picture, size, above, WIDEST[many])
        for picture, size in zip(pictures, _sizes(pictures), strict=True)
    ]


def _is_deep(picture: Picture) -> bool:
    """Whether its planes stand beside a cube, and would be one tall column in little room."""
    return len(picture.shape) == 3 and _planes(picture) > 2


def _planes(picture: Picture) -> int:
    return math.prod(picture.counts[:-2])


def _sizes(pictures: Sequence[Picture]) -> list[Size]:
    """The width and height of one plane of each picture."""
    flat = [p for p in pictures if len(p.shape) <= 2 and not p.devices]
    deep = [p for p in pictures if len(p.shape) > 2 and not p.devices]
    sides = (
        LARGE[len(pictures) > FEW[0]],
        SMALL[max(map(_planes, deep), default=0) > FEW[1]],
    )
    scales = [
        side / max([1, *(size for p in arrays for size in p.shape[-2:])])
        for side, arrays in zip(sides, (flat, deep), strict=True)
    ]
    wanted = [_size(picture, scales[len(picture.shape) > 2]) for picture in pictures]
    # Labels may want more room than the scale gives: what has the same shape gets the same.
    return [
        size
        if picture.devices
        else (
            max(w for p, (w, _) in zip(pictures, wanted, strict=True) if _alike(p, picture)),
            max(h for p, (_, h) in zip(pictures, wanted, strict=True) if _alike(p, picture)),
        )
        for picture, size in zip(pictures, wanted, strict=True)
    ]


def _alike(one: Picture, other: Picture) -> bool:
    return one.shape == other.shape and not one.devices


def _size(picture: Picture, scale: float) -> Size:
    """How large a plane is, so that each block has room for its label."""
    rows, columns = (1, 1, *picture.counts)[-2:]
    if picture.devices:
        return columns * DEVICE[0] - 6, rows * DEVICE[1] - 6
    longest = max((len(label_of(ids)) for ids in picture.labels.values()), default=1)
    width = columns * max(26.0, 7.2 * longest + 12)
    if not picture.shape:
        return width, 30.0
    if len(picture.shape) == 1:
        return max(width, picture.shape[0] * scale), 34.0
    least = (19.0, 0.0) if len(picture.shape) > 2 else (24.0, 48.0)
    return (
        max(width, picture.shape[-1] * scale),
        max(rows * least[0], picture.shape[-2] * scale, least[1]),
    )


def _scene(picture: Picture, size: Size, above: float, widest: float) -> Scene:
    scene, rank = Scene(), len(picture.shape)
    if rank > 2:
        _draw_planes(scene, picture, size, widest)
    else:
        (width, height), left = size, margin_of(picture.edge(0)) if rank == 2 else 0.0
        _draw_plane(scene, picture, (), (left, above), size)
        if rank == 2:
            scene.name_down(picture.edge(0), above, above + height, left)
        if rank:
            scene.name_across(picture.edge(-1), left, left + width, above, above=True)
    scene.width, scene.height = scene.width + 2, scene.height + 2
    return scene


def _draw_planes(scene: Scene, picture: Picture, size: Size, widest: float) -> None:
    """The planes of the last two dimensions; of rank 4, a row for each block of dimension 0."""
    left, top = 0.0, ABOVE + 16
    cube = len(picture.shape) == 3 and picture.edge(0).size is None  # a mesh is no array
    if cube:
        left = draw_cube(scene, picture) + 28
    across, down = picture.edge(-3), picture.edge(-4) if len(picture.shape) > 3 else Edge()
    planes, lines = list(picture.planes), picture.counts[:-3]
    if picture.counts[-3] == 1 and lines:  # then the planes of dimension 0 can stand in a row
        across, down, lines = down, across, ()
    inner = Edge() if cube else picture.edge(-2)  # the cube says it already
    start = left + margin_of(down) + margin_of(inner)
    step = max(size[0], *(width_of((("name", name),)) for _, name in planes)) + 14
    in_line = len(planes) // math.prod(lines)
    most = max(1, int((widest - start) // step))
    most = math.ceil(in_line / math.ceil(in_line / most))  # 4 and 4 rather than 6 and 2
    broken = math.ceil(in_line / most)
    bottom = top
    for i, (place, name) in enumerate(planes):
        line, column = divmod(i % in_line, most)
        x = start + column * step
        y = top + (i // in_line * broken + line) * (size[1] + 28)
        scene.write((("name", name),), (x, y - 9), "left")
        _draw_plane(scene, picture, place, (x, y), size)
        bottom = y + size[1]
    right = start + (min(most, in_line) - 1) * step + size[0]
    scene.name_across(across, start, right, ABOVE, above=True)
    if not cube:
        scene.name_down(inner, top, top + size[1], start)
        scene.name_across(picture.edge(-1), start, start + size[0], bottom, above=False)
    scene.name_down(down, top, bottom, left + margin_of(down))


def _draw_plane(
    scene: Scene, picture: Picture, plane: Place, corner: tuple[float, float], size: Size
) -> None:
    rows = picture.rows(plane)
    (left, top), gap = corner, 6.0 if picture.devices else 0.0
    across, down = (size[0] + gap) / len(rows[0]), (size[1] + gap) / len(rows)
    for (i, row), j in product(enumerate(rows), range(len(rows[0]))):
        x, y = left + j * across, top + i * down
        right, bottom = x + across - gap, y + down - gap
        scene.tiles.append(
            Tile(
                ((x, y), (right, y), (right, bottom), (x, bottom)),
                picture.labels[row[j]],
                wrong=row[j] in picture.wrong and not picture.whole,
                pale=row[j] in picture.pale,
                device=picture.devices,
            )
        )
    right, bottom = left + size[0], top + size[1]
    if picture.whole:
        scene.frames.append(inset([(left, top), (right, top), (right, bottom), (left, bottom)]))
    scene.holds(right, bottom)
