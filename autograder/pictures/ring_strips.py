"""Draw how a ring does a collective: a strip of small pictures, one for each step."""

import html
from fractions import Fraction
from typing import Final

from autograder.collective_kinds import KINDS, CollectiveKind
from autograder.pictures.collective_drawings import (
    MAX_DRAWN_DEVICES,
    exchange_as_html,
    exchange_as_text,
)
from autograder.pictures.collective_pieces import (
    TO_ALL,
    Piece,
    Step,
    label,
    ring_steps,
    slots_in_words,
)
from autograder.pictures.held_pieces import WIDE, CollectivePicture, held_as_svg, room_in

ROW: Final = 23.0
SIZE: Final = 11.0


def collective_as_html(picture: CollectivePicture, above: CollectivePicture | None = None) -> str:
    """A collective's picture, with its strip where that is asked for.

    Args:
        picture: what is drawn.
        above: what is drawn above it, if anything is: the same mesh is not drawn twice.
    """
    strip = strip_as_html(picture) if _has_strip(picture) else ""
    return exchange_as_html(picture, above) + strip


def collective_as_text(picture: CollectivePicture) -> str:
    """The same in text."""
    return exchange_as_text(picture) + (
        f"\n{_strip_as_text(picture)}" if _has_strip(picture) else ""
    )


def sent_in_steps(picture: CollectivePicture) -> list[Fraction]:
    """The bytes that each device that sends has sent in each step."""
    return [step.share * picture.bytes for step in _steps(picture)[1:]]


def strip_as_html(picture: CollectivePicture) -> str:
    """The steps as HTML with an SVG each, in as many rows as the page is wide for."""
    width = _slot_width(picture)
    numbered = KINDS[picture.kind].reduces
    style = "display:flex;flex-wrap:wrap;gap:14px 18px;align-items:flex-start;margin:6px 0 12px"
    drawn = "".join(
        (f"<div>{html.escape(name)}</div>" if name else "")
        + f'<div style="{style}">'
        + "".join(
            held_as_svg(
                step.held,
                picture,
                heading,
                width,
                step.arrived,
                size=SIZE,
                row=ROW,
                numbered=numbered,
            )
            for heading, step in steps
        )
        + "</div>"
        for name, steps in _parts(picture)
    )
    return (
        f'<div style="margin:6px 0 14px"><div style="font-weight:600">'
        f"{html.escape(picture.title)}, step by step</div>"
        f"{drawn}<div>{html.escape(strip_in_words(picture))}</div></div>"
    )


def _parts(picture: CollectivePicture) -> list[tuple[str, list[tuple[str, Step]]]]:
    """The steps with a heading each; an all-reduce's are those of two collectives."""
    steps = _steps(picture)
    start = "its own piece" if picture.kind in TO_ALL else "before"
    named = list(zip([start, *(f"step {i}" for i in range(1, len(steps)))], steps, strict=True))
    if picture.kind != CollectiveKind.ALL_REDUCE:
        return [("", named)]
    size = len(picture.group)
    return [
        ("First a reduce-scatter: each sum grows as it goes round.", named[:size]),
        ("Then an all-gather: the finished sums go round.", named[size:]),
    ]


def strip_in_words(picture: CollectivePicture, drawn: bool = True) -> str:
    """Who sends to whom in a step, what a drawing shows of it, and the bytes of all steps."""
    sent = sent_in_steps(picture)
    total = _number(sum(sent, Fraction(0)))
    each = f"{len(sent)} × {_number(sent[0])} = {total}" if len(sent) > 1 else total
    if picture.kind == CollectiveKind.COLLECTIVE_BROADCAST:
        return (
            f"Each device passes the block on to the next one: it sends {_number(sent[0])} bytes."
        )
    if picture.kind in TO_ALL:
        way = "In step s each device sends a piece to the device s places further on."
    else:
        way = "In each step, each device sends one piece to the next, and the last to the first."
    key = " What has just arrived is outlined." * drawn
    key += f" {_key_to_sums(picture)}" if drawn and KINDS[picture.kind].reduces else ""
    return f"{way}{key} Each device sends {each} bytes."


def _key_to_sums(picture: CollectivePicture) -> str:
    """Why boxes empty, and what short labels mean."""
    size, room = len(picture.group), room_in(_slot_width(picture), SIZE)
    said = [] if _slot_width(picture) >= WIDE else ["Each column is a piece."]
    scatters = picture.kind == CollectiveKind.REDUCE_SCATTER
    until = "" if scatters else ", as long as sums grow"
    said.append(f"A box empties when its piece is sent on{until}.")
    held = [p for step in _steps(picture) for row in step.held for p in row if p is not None]
    longest = max(held, key=lambda p: len(p.sources) * (len(p.sources) < size))
    part = label(Piece(longest.sources), size, picture.operation, room)
    if "–" in part:
        first, last = part.split("–")
        said.append(f"A label such as {part} stands for all from {first} round to {last}.")
    everybody = Piece(tuple(range(size)))
    short, whole = (label(everybody, size, picture.operation, r) for r in (room, float("inf")))
    if short != whole:
        result = "sum" if picture.operation == "add" else "result"
        said.append(f"{short} is the finished {result} of all pieces in its column.")
    return " ".join(said)


def _slot_width(picture: CollectivePicture) -> float:
    slots = len(_steps(picture)[0].held[0])
    return {1: 64.0, 2: 40.0, 3: 40.0, 4: 40.0}.get(slots, 25.0)


def _has_strip(picture: CollectivePicture) -> bool:
    one_step = KINDS[picture.kind].in_pairs  # which its picture shows already
    return picture.steps and not one_step and len(picture.group) <= MAX_DRAWN_DEVICES


def _steps(picture: CollectivePicture) -> tuple[Step, ...]:
    return ring_steps(picture.kind, len(picture.group), picture.pairs)


def _strip_as_text(picture: CollectivePicture) -> str:
    lines = []
    for name, steps in _parts(picture):
        lines += [f"  {name}"] if name else []
        for heading, step in steps:
            lines.append(f"  {heading}")
            for device, row in zip(picture.group, step.held, strict=True):
                said = slots_in_words(row, len(step.held), picture.operation)
                lines.append(f"    device {device}: {said}")
    return "\n".join([*lines, f"  {strip_in_words(picture, drawn=False)}"])


def _number(amount: Fraction) -> str:
    return f"{amount.numerator:,}" if amount.denominator == 1 else f"{float(amount):,.1f}"
