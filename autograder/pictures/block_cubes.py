"""Draw the three visible faces of a 3-D array."""

from itertools import product
from typing import Final

from autograder.pictures.block_geometry import GAP, Point, Scene, Tile, margin_of
from autograder.pictures.block_pictures import Picture, label_of

SIDE: Final = 112.0
BACK: Final = (50.0, 38.0)
TOP: Final = 8.0
"""How long the edges in front are, how far right and up the others go, and what is above."""


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
