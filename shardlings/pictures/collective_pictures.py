"""Draw a collective: the mesh with its groups, what each device holds before and after, and the
steps of a ring.

Each row is a device and each column a part of the whole buffer. So a reduce-scatter adds up
columns, an all-to-all turns rows into columns, and an all-gather undoes a reduce-scatter's scatter.
Only a permutation has arrows, because only there does each device send to just one other.
"""

import html
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle, product
from string import ascii_uppercase
from typing import Final

from shardlings.collective_kinds import KINDS, CollectiveKind
from shardlings.pictures.collective_motion import (
    Moment,
    Motion,
    motion_in_details,
    motion_of,
    move_during,
    name_step,
    show_during,
)
from shardlings.pictures.collective_pieces import (
    ALL_TO_ALL_KINDS,
    Held,
    Piece,
    Step,
    before_and_after,
    explain_ring_of_sums,
    explain_short_label,
    name_of_result,
    piece_label,
    ring_steps,
    slots_as_text,
)
from shardlings.pictures.svg import (
    FONT_SIZE,
    Drawing,
    Point,
    device_colour,
    svg_element,
    text_width,
)

MAX_DRAWN_DEVICES: Final = 8
"""Larger groups are described in words."""

NEUTRAL: Final = "#ececec"
"""The fill of combined data, which belongs to no single device."""

# All lengths are in pixels.
DEVICE_SIZE: Final = 22.0
DEVICE_GAP: Final = 10.0
DEVICE_STEP: Final = DEVICE_SIZE + DEVICE_GAP

ROW_HEIGHT: Final = 26.0
ROW_GAP: Final = 4.0
SLOT_GAP: Final = 4.0
HEADING_HEIGHT: Final = 26.0
DEVICE_COLUMN: Final = 27.0
COLUMN_NAME_HEIGHT: Final = 13.0

MIN_NAMED_WIDTH: Final = 44.0
"""Columns at least this wide are called `piece 0`; narrower ones just `0`."""

MOTION_GAP: Final = 70.0
"""Between the grid that pieces leave and the grid in which they arrive."""

MIN_MOTION_WIDTH: Final = 360.0
"""The room for the line above an animation."""

STEP_ROW_HEIGHT: Final = 23.0
STEP_FONT_SIZE: Final = 11.0

MOTION_ROW_HEIGHT: Final = 30.0
MOTION_FONT_SIZE: Final = 13.0

Groups = Sequence[Sequence[int]]
"""The ids of the devices in each group."""


@dataclass(frozen=True)
class DrawnMesh:
    """A mesh on which a collective's groups are drawn.

    Attributes:
        ids: the ids of the devices, in the mesh's order.
        shape: the size of each mesh axis.
        names: the names of the mesh axes; empty if the mesh is unknown.
        over: the mesh axes that the collective runs over.
    """

    ids: tuple[int, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


@dataclass(frozen=True)
class CollectivePicture:
    """A picture of one collective, or of several that are alike.

    Attributes:
        title: the text above it.
        caption: the text below it, which says what the collective does.
        kind: HLO's name of the collective, such as `"all-gather"`.
        groups: the ids of the devices in each group. Only the first group's data is drawn; the
            other groups do the same.
        pairs: for a permutation, pairs of a sender and a receiver, as positions in the group.
        mesh: the mesh on which the groups are drawn.
        operation: HLO's name of the operation that combines data, such as `"maximum"`.
        bytes: the size of the whole buffer on each device.
        steps: whether to draw the steps of a ring too.
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
        """The ids of the devices whose data is drawn."""
        return self.groups[0]

    @property
    def held(self) -> tuple[Held, Held]:
        """What these devices hold before the collective, and after it."""
        return before_and_after(self.kind, len(self.group), self.pairs)


def collective_as_html(picture: CollectivePicture, above: CollectivePicture | None = None) -> str:
    """Return a collective's picture as HTML, with its steps if they are requested.

    Args:
        picture: the picture.
        above: the picture that is shown above it, if any. A mesh with the same groups is not
            repeated.
    """
    steps = steps_as_html(picture) if _has_steps(picture) else ""
    motion = motion_as_html(picture) if _has_motion(picture) else ""
    return before_and_after_as_html(picture, above) + motion + steps


def collective_as_text(picture: CollectivePicture) -> str:
    """Return a collective's picture as text, with its steps if they are requested."""
    before_after = _before_and_after_as_text(picture)
    return f"{before_after}\n{_steps_as_text(picture)}" if _has_steps(picture) else before_after


def bytes_per_step(picture: CollectivePicture) -> list[Fraction]:
    """Return the bytes that each sender sends in each step of a ring."""
    return [step.share * picture.bytes for step in _steps(picture)[1:]]


# Before and after


def before_and_after_as_html(
    picture: CollectivePicture, above: CollectivePicture | None = None
) -> str:
    """Return the mesh, and what the devices hold before and after, side by side if they fit.

    Args:
        picture: the picture.
        above: the picture that is shown above it, if any. A mesh with the same groups is not
            repeated.
    """
    is_new = above is None or (above.mesh, above.groups) != (picture.mesh, picture.groups)
    mesh = mesh_as_svg(picture.mesh, picture.groups) if picture.mesh is not None and is_new else ""
    images = ""
    caption = _caption(picture)
    is_drawn = len(picture.group) <= MAX_DRAWN_DEVICES
    if is_drawn and KINDS[picture.kind].has_pairs:
        images = _permutation_as_svg(picture)
    elif is_drawn:
        width = _slot_width(picture)
        images = "".join(
            held_as_svg(held, picture, heading, width)
            for heading, held in zip(("before", "after"), picture.held, strict=True)
        )
        legend = explain_short_label(picture.held[1], picture.operation, width - 6)
        caption += f" {legend}" if legend else ""
    style = "display:flex;flex-wrap:wrap;gap:14px 26px;align-items:flex-start"
    before_after = f'<div style="{style}">{images}</div>' if images else ""
    return (
        f'<div style="margin:14px 0"><div style="font-weight:600">{html.escape(picture.title)}'
        f'</div><div style="{style};margin:6px 0">{mesh}{before_after}</div>'
        f"<div>{html.escape(caption)}</div></div>"
    )


def _caption(picture: CollectivePicture) -> str:
    """Return a picture's caption, and for a large group that it is all there is."""
    if len(picture.group) <= MAX_DRAWN_DEVICES:
        return picture.caption
    return f"{picture.caption} (A group of {len(picture.group)} devices is too large to be drawn.)"


def _before_and_after_as_text(picture: CollectivePicture) -> str:
    if len(picture.group) > MAX_DRAWN_DEVICES:
        return f"{picture.title}: {_caption(picture)}"
    before, after = picture.held
    table = [("device", "before", "after")] + [
        (str(device), *(slots_as_text(slots, len(before), picture.operation) for slots in both))
        for device, *both in zip(picture.group, before, after, strict=True)
    ]
    first, second = (max(len(row[i]) for row in table) for i in (0, 1))
    lines = [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in table]
    return "\n".join([picture.title, *lines, f"  {picture.caption}"])


def _slot_width(picture: CollectivePicture) -> float:
    """Return the width of a slot, in which a small group's sums can be written in full."""
    size, slots = len(picture.group), len(picture.held[0][0])
    longest = max(
        text_width(piece_label(piece, size, picture.operation)) + 6.5
        for held in picture.held
        for row in held
        for piece in row
        if piece is not None
    )
    widest = {1: 280.0, 2: 100.0, 3: 72.0, 4: 56.0}.get(slots, 224.0 / slots)
    return max(min(longest, widest), min(44.0, widest), 16.0)


def _permutation_as_svg(picture: CollectivePicture) -> str:
    """Draw before on the left, after on the right, and an arrow for each message.

    The space between them is empty, so the arrow from the last device to the first is as clear
    as any other.
    """
    before, after = picture.held
    left, width, gap = 30.0, 44.0, 150.0
    right = left + width + gap
    drawing = _drawing()
    drawing.text("before", (left, 10), bold=True)
    drawing.text("after", (right, 10), bold=True)
    row_step = ROW_HEIGHT + ROW_GAP
    middles = [HEADING_HEIGHT + row * row_step + ROW_HEIGHT / 2 for row in range(len(before))]
    for row, y in enumerate(middles):
        for device_left, x, held in ((0.0, left, before), (right + width + 8, right, after)):
            _draw_device(drawing, picture.group[row], device_left, y, FONT_SIZE)
            box = (x, y - ROW_HEIGHT / 2, width, ROW_HEIGHT)
            _draw_slot(drawing, held[row][0], picture, box)
    for source, target in picture.pairs:
        drawing.arrow((left + width + 3, middles[source]), (right - 3, middles[target]))
    messages = "; ".join(f"{picture.group[a]} to {picture.group[b]}" for a, b in picture.pairs)
    description = f"{picture.title}: device {messages}"
    return drawing.svg(right + width + 32, HEADING_HEIGHT + len(before) * row_step, description)


# The steps of a ring


def steps_as_html(picture: CollectivePicture) -> str:
    """Return the steps of a ring as HTML, with an SVG for each, in as many rows as needed."""
    width = _step_slot_width(picture)
    numbered = KINDS[picture.kind].reduces
    style = "display:flex;flex-wrap:wrap;gap:14px 18px;align-items:flex-start;margin:6px 0 12px"
    images = "".join(
        (f"<div>{html.escape(name)}</div>" if name else "")
        + f'<div style="{style}">'
        + "".join(
            held_as_svg(
                step.held,
                picture,
                heading,
                width,
                step.arrived,
                font_size=STEP_FONT_SIZE,
                row_height=STEP_ROW_HEIGHT,
                numbered=numbered,
            )
            for heading, step in steps
        )
        + "</div>"
        for name, steps in _phases(picture)
    )
    return (
        f'<div style="margin:6px 0 14px"><div style="font-weight:600">'
        f"{html.escape(picture.title)}, step by step</div>"
        f"{images}<div>{html.escape(_explain_steps(picture))}</div></div>"
    )


def _steps_as_text(picture: CollectivePicture) -> str:
    lines = []
    for name, steps in _phases(picture):
        lines += [f"  {name}"] if name else []
        for heading, step in steps:
            lines.append(f"  {heading}")
            for device, row in zip(picture.group, step.held, strict=True):
                slots = slots_as_text(row, len(step.held), picture.operation)
                lines.append(f"    device {device}: {slots}")
    return "\n".join([*lines, f"  {_explain_steps(picture, drawn=False)}"])


def _has_steps(picture: CollectivePicture) -> bool:
    one_step = KINDS[picture.kind].has_pairs  # it is in the picture of before and after already
    return picture.steps and not one_step and len(picture.group) <= MAX_DRAWN_DEVICES


def _steps(picture: CollectivePicture) -> tuple[Step, ...]:
    return ring_steps(picture.kind, len(picture.group), picture.pairs)


def _phases(picture: CollectivePicture) -> list[tuple[str, list[tuple[str, Step]]]]:
    """Return the steps in phases, each with a name: an all-reduce is two collectives.

    Returns:
        Pairs of a phase's name and its steps. Each step has a heading.
    """
    steps = _steps(picture)
    start = "its own piece" if picture.kind in ALL_TO_ALL_KINDS else "before"
    headed = list(zip([start, *(f"step {i}" for i in range(1, len(steps)))], steps, strict=True))
    if picture.kind != CollectiveKind.ALL_REDUCE:
        return [("", headed)]
    size, (growing, going) = len(picture.group), explain_ring_of_sums(picture.operation)
    return [
        (f"First a reduce-scatter: {growing}.", headed[:size]),
        (f"Then an all-gather: {going}.", headed[size:]),
    ]


def _explain_steps(picture: CollectivePicture, drawn: bool = True) -> str:
    """Say which device sends to which, how to read the drawing if there is one, and how many bytes
    each device sends.
    """
    sent = bytes_per_step(picture)
    total = _number(sum(sent, Fraction(0)))
    each = f"{len(sent)} × {_number(sent[0])} = {total}" if len(sent) > 1 else total
    if picture.kind == CollectiveKind.COLLECTIVE_BROADCAST:
        return (
            f"Each device but the last passes the block on to the next one: it sends "
            f"{_number(sent[0])} bytes."
        )
    if picture.kind in ALL_TO_ALL_KINDS:
        route = "In step s each device sends a piece to the device s places further on."
    else:
        route = "In each step, each device sends one piece to the next, and the last to the first."
    legend = " What has just arrived is outlined." * drawn
    legend += f" {_explain_sums(picture)}" if drawn and KINDS[picture.kind].reduces else ""
    return f"{route}{legend} Each device sends {each} bytes."


def _explain_sums(picture: CollectivePicture) -> str:
    """Explain why slots become empty, and what short labels stand for."""
    size, width = len(picture.group), _step_slot_width(picture)
    max_width = _label_width(width, STEP_FONT_SIZE)
    sentences = [] if width >= MIN_NAMED_WIDTH else ["Each column is a piece."]
    scatters = picture.kind == CollectiveKind.REDUCE_SCATTER
    result = name_of_result(picture.operation)
    until = "" if scatters else f", until all {result}s are finished"
    sentences.append(f"A box empties when its piece is sent on{until}.")
    pieces = [p for step in _steps(picture) for row in step.held for p in row if p is not None]
    longest = max(pieces, key=lambda p: len(p.sources) * (len(p.sources) < size))
    partial = piece_label(Piece(longest.sources), size, picture.operation, max_width)
    if "–" in partial:
        first, last = partial.split("–")
        sentences.append(f"A label such as {partial} stands for all from {first} round to {last}.")
    everybody = Piece(tuple(range(size)))
    short, full = (
        piece_label(everybody, size, picture.operation, w) for w in (max_width, float("inf"))
    )
    if short != full:
        sentences.append(f"{short} is the finished {result} of all pieces in its column.")
    return " ".join(sentences)


def _step_slot_width(picture: CollectivePicture) -> float:
    slots = len(_steps(picture)[0].held[0])
    return {1: 64.0, 2: 40.0, 3: 40.0, 4: 40.0}.get(slots, 25.0)


def _number(amount: Fraction) -> str:
    return f"{amount.numerator:,}" if amount.denominator == 1 else f"{float(amount):,.1f}"


# In motion


def motion_as_html(picture: CollectivePicture) -> str:
    """Return a collective's steps as an animation, for readers who have not asked for less motion.

    Pieces move within one grid of devices and slots, or from a grid of what the devices have to
    begin with to one of what they have received. Within a grid, a piece that the last device sends
    to the first leaves at the bottom and comes in at the top, past no other device. Labels are
    those of the steps.
    """
    size = len(picture.group)
    motion = motion_of(picture.kind, size, picture.pairs)
    grids = _MotionGrids(picture, motion)
    parts = [grids.draw_slots().layers()]
    height = size * grids.row_step - ROW_GAP
    for (moment, way, goes_around), drawing in grids.draw_pieces().items():
        moves = move_during(way, moment, motion.seconds) if way and any(way) else ""
        shown = show_during(drawing.layers(), moment, motion.seconds, moves)
        if goes_around:
            shown = _clipped(shown, 0, grids.top, grids.width, height)
        parts.append(shown)
    for step in range(motion.steps + 1):
        heading = Drawing()
        name = name_step(picture.kind, size, step, picture.operation)
        heading.text(name, (0, 10), bold=True)
        parts.append(show_during(heading.layers(), motion.step_moment(step), motion.seconds))
    return motion_in_details(
        "".join(parts),
        max(grids.lefts[-1] + grids.width + 1, MIN_MOTION_WIDTH),
        grids.top + height + ROW_GAP + 1,
        f"{picture.title} in motion: {before_and_after_in_words(picture)}",
    )


_SeenTogether = tuple[Moment, Point | None, bool]
"""When pieces are seen, the way that they move then, and whether they go around the grid's end."""


class _MotionGrids:
    """One grid of devices and slots, or two side by side, in which the pieces of a motion are."""

    def __init__(self, picture: CollectivePicture, motion: Motion) -> None:
        self.picture, self.motion = picture, motion
        self.held = [motion.before, picture.held[1]] if motion.has_two_grids else [motion.before]
        self.slots, self.numbered = len(motion.before[0]), KINDS[picture.kind].reduces
        self.slot_width = _motion_slot_width(self.slots * len(self.held))
        self.label_width = _label_width(_step_slot_width(picture), STEP_FONT_SIZE)
        self.row_step = MOTION_ROW_HEIGHT + ROW_GAP
        self.top = HEADING_HEIGHT + (COLUMN_NAME_HEIGHT if self.numbered else 0)
        self.width = DEVICE_COLUMN + self.slots * (self.slot_width + SLOT_GAP)
        self.lefts = [number * (self.width + MOTION_GAP) for number in range(len(self.held))]

    def place(self, place: tuple[int, int], on_right: bool = False) -> Point:
        """Return the upper left corner of a slot, given the device's position and the slot."""
        member, slot = place
        left = self.lefts[-1 if on_right else 0] + DEVICE_COLUMN
        return left + slot * (self.slot_width + SLOT_GAP), self.top + member * self.row_step

    def draw_slots(self) -> Drawing:
        """Draw what does not move: the devices, and their slots without pieces."""
        drawing = Drawing()
        if self.numbered:
            _name_columns(drawing, self.slots, self.slot_width)
        for on_right, held in enumerate(self.held):
            for member, row in enumerate(held):
                middle = self.top + member * self.row_step + MOTION_ROW_HEIGHT / 2
                device = self.picture.group[member]
                _draw_device(drawing, device, self.lefts[on_right], middle, MOTION_FONT_SIZE)
                for slot in range(len(row)):
                    corner = self.place((member, slot), bool(on_right))
                    drawing.hairline_box(*corner, self.slot_width, MOTION_ROW_HEIGHT)
        return drawing

    def draw_pieces(self) -> dict[_SeenTogether, Drawing]:
        """Draw the pieces, all that are seen at once and move in one direction in one drawing."""
        motion, drawings = self.motion, dict[_SeenTogether, Drawing]()
        for lying in motion.resting:
            corner = self.place(lying.place, lying.on_right)
            self._draw_piece(drawings, lying.piece, corner, (lying.moment, None, False))
        for place, moment in motion.outlined:
            outline = drawings.setdefault((moment, (0.0, 0.0), False), Drawing())
            corner = self.place(place, motion.has_two_grids)
            outline.highlight_box(*corner, self.slot_width, MOTION_ROW_HEIGHT)
        for moving in motion.moving:
            (x, y), end = self.place(moving.start), self.place(moving.end, motion.has_two_grids)
            if not motion.has_two_grids and moving.start[0] - moving.end[0] > 1:
                together = (moving.moment, (0.0, self.row_step), True)
                for start in ((x, y), (x, end[1] - self.row_step)):
                    self._draw_piece(drawings, moving.piece, start, together)
            else:
                together = (moving.moment, (end[0] - x, end[1] - y), False)
                self._draw_piece(drawings, moving.piece, (x, y), together)
        return drawings

    def _draw_piece(
        self,
        drawings: dict[_SeenTogether, Drawing],
        piece: Piece,
        corner: Point,
        together: _SeenTogether,
    ) -> None:
        drawing = drawings.setdefault(together, _drawing())
        shown = Piece(piece.sources) if self.numbered else piece
        box = (*corner, self.slot_width, MOTION_ROW_HEIGHT)
        _draw_slot(drawing, shown, self.picture, box, MOTION_FONT_SIZE, self.label_width)
        if together[1] is not None:  # its colour may be that of what it moves over
            drawing.highlight_box(*box)


def _motion_slot_width(slots: int) -> float:
    """Return the width of a slot where so many are side by side, in one grid or in two."""
    if slots > MAX_DRAWN_DEVICES:
        return 25.0
    return {1: 140.0, 2: 120.0, 3: 112.0, 4: 104.0}.get(slots, 52.0)


def _clipped(markup: str, left: float, top: float, width: float, height: float) -> str:
    """Show only the part of a drawing that lies in a rectangle."""
    box = f"{left:g} {top:g} {width:g} {height:g}"
    return svg_element("svg", markup, x=left, y=top, width=width, height=height, viewBox=box)


def before_and_after_in_words(picture: CollectivePicture) -> str:
    """Return what each device holds before a collective and after it, as a text alternative."""
    before, after = picture.held
    return "; ".join(
        f"device {device} holds {slots_as_text(first, len(before), picture.operation)} before and "
        f"{slots_as_text(then, len(before), picture.operation)} after"
        for device, first, then in zip(picture.group, before, after, strict=True)
    )


def _has_motion(picture: CollectivePicture) -> bool:
    return picture.steps and len(picture.group) <= MAX_DRAWN_DEVICES


# What each device holds


def held_as_svg(
    held: Held,
    picture: CollectivePicture,
    heading: str,
    slot_width: float,
    arrived: Collection[tuple[int, int]] = (),
    *,
    font_size: float = FONT_SIZE,
    row_height: float = ROW_HEIGHT,
    numbered: bool = False,
) -> str:
    """Draw what each device of the group holds, one device per row.

    Args:
        held: the slots of each device.
        picture: the picture that this drawing belongs to.
        heading: the text above it.
        slot_width: in pixels.
        arrived: the slots to highlight, as pairs of a device's position in the group and a slot.
        font_size: of the labels.
        row_height: in pixels.
        numbered: whether to write the pieces' numbers above the columns, and not in the slots.
    """
    left, top = DEVICE_COLUMN, HEADING_HEIGHT + (COLUMN_NAME_HEIGHT if numbered else 0)
    drawing = _drawing()
    drawing.text(heading, (left, 10), bold=True)
    if numbered:
        _name_columns(drawing, len(held[0]), slot_width)
    for member, slots in enumerate(held):
        y = top + member * (row_height + ROW_GAP)
        _draw_device(drawing, picture.group[member], 0, y + row_height / 2, font_size)
        for k, piece in enumerate(slots):
            x = left + k * (slot_width + SLOT_GAP)
            shown = Piece(piece.sources) if numbered and piece is not None else piece
            _draw_slot(drawing, shown, picture, (x, y, slot_width, row_height), font_size)
            if (member, k) in arrived:
                drawing.highlight_box(x, y, slot_width, row_height)
    right = left + len(held[0]) * (slot_width + SLOT_GAP)
    description = f"{picture.title}, {heading}: " + "; ".join(
        f"device {device} holds {slots_as_text(slots, len(held), picture.operation)}"
        for device, slots in zip(picture.group, held, strict=True)
    )
    width = max(right + 1, left + text_width(heading) * 1.1)
    return drawing.svg(width, top + len(held) * (row_height + ROW_GAP), description)


def _name_columns(drawing: Drawing, columns: int, slot_width: float) -> None:
    """Write the pieces' numbers above the columns."""
    for k in range(columns):
        name = f"piece {k}" if slot_width >= MIN_NAMED_WIDTH else str(k)
        middle = DEVICE_COLUMN + k * (slot_width + SLOT_GAP) + slot_width / 2
        drawing.text(name, (middle, HEADING_HEIGHT + 2), 12, centred=True)


def _drawing() -> Drawing:
    """Return an empty drawing in which neutral boxes are below those in devices' colours."""
    drawing = Drawing()
    drawing.box(0, 0, 0, 0, NEUTRAL)
    return drawing


def _draw_device(
    drawing: Drawing, device: int, left: float, middle: float, font_size: float
) -> None:
    drawing.box(left, middle - 9, 22, 18, device_colour(device))
    drawing.label(str(device), (left + 11, middle), font_size)


def _draw_slot(
    drawing: Drawing,
    piece: Piece | None,
    picture: CollectivePicture,
    box: tuple[float, float, float, float],
    font_size: float = FONT_SIZE,
    label_width: float | None = None,
) -> None:
    """Draw a slot in the colour of one device, or with a strip of all the colours in a sum.

    Its label is shortened to `label_width`, by default to the width of the slot.
    """
    left, top, width, height = box
    if piece is None:
        drawing.hairline_box(left, top, width, height)
        return
    x, y = left + width / 2, top + height / 2
    if len(piece.sources) == 1:
        drawing.box(left, top, width, height, device_colour(picture.group[piece.sources[0]]))
    else:
        drawing.box(left, top, width, height, NEUTRAL)
        strip = width / max(1, len(piece.sources))
        for i, source in enumerate(piece.sources):
            drawing.box(
                left + i * strip, top + height - 5, strip, 5, device_colour(picture.group[source])
            )
        y -= 2 if piece.sources else 0
    max_width = _label_width(width, font_size) if label_width is None else label_width
    label = piece_label(piece, len(picture.group), picture.operation, max_width)
    drawing.label(label, (x, y), font_size)


def _label_width(slot_width: float, font_size: float) -> float:
    """Return the greatest width of a slot's label, measured at the usual font size."""
    return (slot_width - 6) * FONT_SIZE / font_size


# The mesh and its groups


def mesh_as_svg(mesh: DrawnMesh, groups: Groups) -> str:
    """Draw a mesh with an outline around each group; only the first group is coloured.

    The last mesh axis goes to the right and the one before it down. If there are more, the planes
    are drawn below each other. If some group does not fill a rectangle, letters beside the ids show
    the groups instead of outlines.
    """
    rows, columns = (1, 1, *mesh.shape)[-2:]
    planes = list(product(*(range(size) for size in mesh.shape[:-2])))
    down, across = ("", "", *mesh.names)[-2:]
    left = text_width(down) + 18 if down else 4.0
    top = 22.0 if across else 4.0
    heading_height = 16.0 if mesh.shape[:-2] else 0.0
    drawing, corners, y = Drawing(), dict[int, Point](), top
    for plane in planes:
        if plane:
            heading = ", ".join(f"{n} {i}" for n, i in zip(mesh.names, plane, strict=False))
            bold = bool(set(mesh.names[:-2]) & set(mesh.over))
            drawing.text(heading, (left + 5, y + 6), 11, bold=bold)
            y += heading_height
        for row, column in product(range(rows), range(columns)):
            corners[mesh.ids[len(corners)]] = (
                left + DEVICE_GAP / 2 + column * DEVICE_STEP,
                y + DEVICE_GAP / 2 + row * DEVICE_STEP,
            )
        y += rows * DEVICE_STEP
    if across:
        drawing.text(f"{across} →", (left + 5, 11), bold=across in mesh.over)
    if down:
        middle = top + heading_height + DEVICE_STEP / 2
        drawing.text(f"{down} ↓", (2, middle), bold=down in mesh.over)
    labels = _draw_groups(drawing, groups, corners)
    for device, (x, y_device) in corners.items():
        centre = (x + DEVICE_SIZE / 2, y_device + DEVICE_SIZE / 2)
        drawing.hairline_box(x, y_device, DEVICE_SIZE, DEVICE_SIZE)
        if device in groups[0]:
            drawing.box(x, y_device, DEVICE_SIZE, DEVICE_SIZE, device_colour(device))
            drawing.label(labels[device], centre, 11)
        else:
            drawing.text(labels[device], centre, 11, centred=True)
    width = max(left + columns * DEVICE_STEP + 4, left + 30 + text_width(across))
    return drawing.svg(width, y + 2, _describe_mesh(mesh, groups))


def _describe_mesh(mesh: DrawnMesh, groups: Groups) -> str:
    listed = "; ".join(", ".join(map(str, group)) for group in groups)
    if not mesh.names:
        return f"Groups of devices: {listed}."
    sizes = " by ".join(f"{name} {size}" for name, size in zip(mesh.names, mesh.shape, strict=True))
    return f"The mesh, {sizes}. Groups of devices: {listed}."


def _draw_groups(drawing: Drawing, groups: Groups, corners: dict[int, Point]) -> dict[int, str]:
    """Outline each group if all can be outlined, and return the label of each device."""
    outlines = [_outline(group, corners) for group in groups]
    labels = {device: str(device) for device in corners}
    if None in outlines:
        for letter, group in zip(cycle(ascii_uppercase), groups, strict=False):
            labels |= {device: f"{device}{letter}" for device in group}
        return labels
    for number, outline in enumerate(outlines):
        assert outline is not None
        drawing.rounded_box(*outline, stroke=2 if number == 0 else 1, radius=7)
    return labels


def _outline(
    group: Sequence[int], corners: dict[int, Point]
) -> tuple[float, float, float, float] | None:
    """Return the rectangle around a group, or None if another device lies inside it."""
    xs, ys = zip(*(corners[device] for device in group), strict=True)
    left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    inside = sum(left <= x <= right and top <= y <= bottom for x, y in corners.values())
    if inside != len(group):
        return None
    margin = DEVICE_GAP / 2 - 1.5
    width = right - left + DEVICE_SIZE + 2 * margin
    height = bottom - top + DEVICE_SIZE + 2 * margin
    return left - margin, top - margin, width, height
