"""Draw a collective: what each device of a group holds before and after, and the mesh.

A row is a device, and a column a place in the whole buffer; so a reduce-scatter adds up columns, an
all-to-all turns rows into columns, and an all-gather is a reduce-scatter's way back. Arrows are
drawn for a permutation alone: only there does one device send to one other.
"""

import html
from typing import Final

from autograder.collective_kinds import KINDS
from autograder.pictures.collective_pieces import label, legend, slots_in_words
from autograder.pictures.held_pieces import (
    ROW,
    SPACE,
    TOP,
    CollectivePicture,
    draw_device,
    draw_slot,
    held_as_svg,
    on_neutral,
)
from autograder.pictures.mesh_groups import mesh_as_svg
from autograder.pictures.svg_parts import SIZE, width_of

MAX_DRAWN_DEVICES: Final = 8
"""Larger groups are described in words."""


def exchange_as_html(picture: CollectivePicture, above: CollectivePicture | None = None) -> str:
    """The mesh, before and after, side by side where there is room.

    The mesh is left out where it is just as in the picture above.
    """
    is_new = above is None or (above.mesh, above.groups) != (picture.mesh, picture.groups)
    mesh = mesh_as_svg(picture.mesh, picture.groups) if picture.mesh is not None and is_new else ""
    drawn = ""
    said = picture.caption
    if len(picture.group) > MAX_DRAWN_DEVICES:
        said += f" (A group of {len(picture.group)} devices is too large to be drawn.)"
    elif KINDS[picture.kind].in_pairs:
        drawn = _with_arrows(picture)
    else:
        width = slot_width(picture)
        drawn = "".join(
            held_as_svg(held, picture, name, width)
            for name, held in zip(("before", "after"), picture.held, strict=True)
        )
        short = legend(picture.held[1], picture.operation, width - 6)
        said += f" {short}" if short else ""
    style = "display:flex;flex-wrap:wrap;gap:14px 26px;align-items:flex-start"
    both = f'<div style="{style}">{drawn}</div>' if drawn else ""
    return (
        f'<div style="margin:14px 0"><div style="font-weight:600">{html.escape(picture.title)}'
        f'</div><div style="{style};margin:6px 0">{mesh}{both}</div>'
        f"<div>{html.escape(said)}</div></div>"
    )


def slot_width(picture: CollectivePicture) -> float:
    """How wide a slot is, so that whole sums can be written in small groups."""
    size, slots = len(picture.group), len(picture.held[0][0])
    longest = max(
        width_of(label(piece, size, picture.operation)) + 6.5
        for held in picture.held
        for row in held
        for piece in row
        if piece is not None
    )
    widest = {1: 280.0, 2: 100.0, 3: 72.0, 4: 56.0}.get(slots, 224.0 / slots)
    return max(min(longest, widest), min(44.0, widest), 16.0)


def _with_arrows(picture: CollectivePicture) -> str:
    """A permutation: before on the left, after on the right, and an arrow for each message.

    Nothing stands between the two, so the way from the last back to the first is as plain as any.
    """
    before, after = picture.held
    left, width, between = 30.0, 44.0, 150.0
    right = left + width + between
    drawing = on_neutral()
    drawing.name("before", (left, 10), bold=True)
    drawing.name("after", (right, 10), bold=True)
    middle = [TOP + member * (ROW + SPACE) + ROW / 2 for member in range(len(before))]
    for member, y in enumerate(middle):
        for at, x, held in ((0.0, left, before), (right + width + 8, right, after)):
            draw_device(drawing, picture.group[member], at, y, SIZE)
            draw_slot(drawing, held[member][0], picture, (x, y - ROW / 2, width, ROW))
    for source, target in picture.pairs:
        drawing.arrow((left + width + 3, middle[source]), (right - 3, middle[target]))
    sent = "; ".join(f"{picture.group[a]} to {picture.group[b]}" for a, b in picture.pairs)
    described = f"{picture.title}: device {sent}"
    return drawing.svg(right + width + 32, TOP + len(before) * (ROW + SPACE), described)


def exchange_as_text(picture: CollectivePicture) -> str:
    """The same for a terminal: a line for each device of the group."""
    before, after = picture.held
    size = len(before)
    words = [("device", "before", "after")] + [
        (str(device), *(slots_in_words(held, size, picture.operation) for held in both))
        for device, *both in zip(picture.group, before, after, strict=True)
    ]
    one, two = (max(len(line[i]) for line in words) for i in (0, 1))
    lines = [f"  {a:<{one}}  {b:<{two}}  {c}".rstrip() for a, b, c in words]
    return "\n".join([picture.title, *lines, f"  {picture.caption}"])
