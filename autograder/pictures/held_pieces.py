"""Draw what each device of a group holds: a row for each device, a column for each slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autograder.pictures.collective_pieces import (
    Held,
    Piece,
    before_and_after,
    label,
    slots_in_words,
)
from autograder.pictures.mesh_groups import DrawnMesh
from autograder.pictures.palette import tint
from autograder.pictures.svg_parts import SIZE, Drawing, width_of

NEUTRAL: Final = "#ececec"
"""What sums stand on: they are nobody's."""

ROW: Final = 26.0
SPACE: Final = 4.0
"""Between rows."""

TOP: Final = 26.0
"""For the heading."""

LEFT: Final = 27.0
"""For the devices."""

BETWEEN: Final = 4.0
"""Between slots: an outline stands in it."""

WIDE: Final = 38.0
"""From which width on a column is called `piece 0`, and not `0`."""

NAMES: Final = 13.0
"""For what columns are called, and the size of letters there."""


@dataclass(frozen=True)
class CollectivePicture:
    """One collective, or several that are alike.

    Attributes:
        title: stands above it.
        caption: stands below it: what it does, in words.
        kind: as HLO spells it.
        groups: the ids of the devices that talk to each other; the first group is drawn, and the
            others do the same.
        pairs: of a permutation, each sender and its receiver, by their places in the group.
        mesh: the mesh on which the groups are shown.
        operation: how data are combined, as HLO names it.
        bytes: of the whole buffer, on each device.
        steps: whether to draw how a ring does it, step by step.
    """

    title: str
    caption: str
    kind: str
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] = ()
    mesh: DrawnMesh | None = None
    operation: str = "add"
    bytes: int = 0
    steps: bool = False

    @property
    def group(self) -> tuple[int, ...]:
        """The devices that are drawn."""
        return self.groups[0]

    @property
    def held(self) -> tuple[Held, Held]:
        """What the drawn devices hold, before and after."""
        return before_and_after(self.kind, len(self.group), self.pairs)


def held_as_svg(
    held: Held,
    picture: CollectivePicture,
    heading: str,
    width: float,
    arrived: Sequence[tuple[int, int]] | frozenset[tuple[int, int]] = (),
    *,
    size: float = SIZE,
    row: float = ROW,
    numbered: bool = False,
) -> str:
    """What each device of the group holds, a row for each.

    Args:
        held: the slots of each.
        picture: what it is a part of.
        heading: stands above it.
        width: of a slot, in pixels.
        arrived: the slots to mark, as pairs of a member and a slot.
        size: of letters.
        row: how high a row is.
        numbered: whether a column is a piece, whose number stands above it and not in its slots.
    """
    left, top = LEFT, TOP + (NAMES if numbered else 0)
    drawing = on_neutral()
    drawing.name(heading, (left, 10), bold=True)
    for k in range(len(held[0])) if numbered else ():
        name = f"piece {k}" if width >= WIDE else str(k)
        middle = left + k * (width + BETWEEN) + width / 2
        drawing.name(name, (middle, TOP + 2), 10, middle=True)
    for member, slots in enumerate(held):
        y = top + member * (row + SPACE)
        draw_device(drawing, picture.group[member], 0, y + row / 2, size)
        for k, piece in enumerate(slots):
            x = left + k * (width + BETWEEN)
            shown = Piece(piece.sources) if numbered and piece is not None else piece
            draw_slot(drawing, shown, picture, (x, y, width, row), size)
            if (member, k) in arrived:
                drawing.mark(x, y, width, row)
    right = left + len(held[0]) * (width + BETWEEN)
    described = f"{picture.title}, {heading}: " + "; ".join(
        f"device {device} holds {slots_in_words(slots, len(held), picture.operation)}"
        for device, slots in zip(picture.group, held, strict=True)
    )
    wide = max(right + 1, left + width_of(heading) * 1.1)
    return drawing.svg(wide, top + len(held) * (row + SPACE), described)


def on_neutral() -> Drawing:
    """A drawing in which what sums stand on is below the colours of those in them."""
    drawing = Drawing()
    drawing.box(0, 0, 0, 0, NEUTRAL)
    return drawing


def draw_device(drawing: Drawing, device: int, left: float, y: float, size: float) -> None:
    """A device's number on its colour, at the left of its row."""
    drawing.box(left, y - 9, 22, 18, tint(device))
    drawing.write(str(device), (left + 11, y), size)


def draw_slot(
    drawing: Drawing,
    piece: Piece | None,
    picture: CollectivePicture,
    place: tuple[float, float, float, float],
    size: float = SIZE,
) -> None:
    """A slot and what is in it: one device's colour, or, under a sum, those of all in it."""
    left, top, width, height = place
    if piece is None:
        drawing.faint_edge(left, top, width, height)
        return
    x, y = left + width / 2, top + height / 2
    if len(piece.sources) == 1:
        drawing.box(left, top, width, height, tint(picture.group[piece.sources[0]]))
    else:
        drawing.box(left, top, width, height, NEUTRAL)
        each = width / max(1, len(piece.sources))
        for i, source in enumerate(piece.sources):
            drawing.box(left + i * each, top + height - 5, each, 5, tint(picture.group[source]))
        y -= 2 if piece.sources else 0
    shown = label(piece, len(picture.group), picture.operation, room_in(width, size))
    drawing.write(shown, (x, y), size)


def room_in(width: float, size: float = SIZE) -> float:
    """How wide words may be in a slot, as if they were of the usual size."""
    return (width - 6) * SIZE / size
