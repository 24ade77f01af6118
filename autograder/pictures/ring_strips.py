"""How a ring does a collective: a strip of small pictures, one for each step, that prints."""

import html
from fractions import Fraction
from typing import Final

from autograder.pictures.collective_drawings import (
    MOST_DRAWN,
    exchange_as_html,
    exchange_as_text,
)
from autograder.pictures.collective_labels import slots_in_words
from autograder.pictures.collective_pieces import BROADCAST, PERMUTE, TO_ALL, Step, ring_steps
from autograder.pictures.held_pieces import CollectivePicture, held_as_svg

ROW: Final = 23.0
SIZE: Final = 11.0

LONG: Final = 4
"""In larger groups a part of a sum has no room for all of its letters."""


def collective_as_html(picture: CollectivePicture) -> str:
    """A collective's picture, with its strip where that is asked for."""
    return exchange_as_html(picture) + (strip_as_html(picture) if _has_strip(picture) else "")


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
    slots = len(_steps(picture)[0].held[0])
    width = {1: 64.0, 2: 41.0, 3: 41.0, 4: 41.0}.get(slots, 27.0)
    style = "display:flex;flex-wrap:wrap;gap:14px 24px;align-items:flex-start;margin:6px 0 12px"
    drawn = "".join(
        (f"<div>{html.escape(name)}</div>" if name else "")
        + f'<div style="{style}">'
        + "".join(
            held_as_svg(step.held, picture, heading, width, step.arrived, size=SIZE, row=ROW)
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
    if picture.kind != "all-reduce":
        return [("", named)]
    size = len(picture.group)
    return [
        ("First a reduce-scatter: each sum grows as it goes round.", named[:size]),
        ("Then an all-gather: the finished sums go round.", named[size:]),
    ]


def strip_in_words(picture: CollectivePicture) -> str:
    """Who sends to whom in a step, and the bytes of all steps together."""
    sent = sent_in_steps(picture)
    total = _number(sum(sent, Fraction(0)))
    each = f"{len(sent)} × {_number(sent[0])} = {total}" if len(sent) > 1 else total
    if picture.kind == BROADCAST:
        return (
            f"Each device passes the block on to the next one: it sends {_number(sent[0])} bytes."
        )
    if picture.kind in TO_ALL:
        way = "In step s each device sends a piece to the device s places further on."
    else:
        way = "In each step, each device sends one piece to the next, and the last to the first."
    parts = picture.kind in ("all-reduce", "reduce-scatter") and len(picture.group) > LONG
    ranges = " A label such as f–a is the sum from f round to a." if parts else ""
    return f"{way} What has just arrived is outlined.{ranges} Each device sends {each} bytes."


def _has_strip(picture: CollectivePicture) -> bool:
    one_step = picture.kind == PERMUTE  # which its picture shows already
    return picture.steps and not one_step and len(picture.group) <= MOST_DRAWN


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
    return "\n".join([*lines, f"  {strip_in_words(picture)}"])


def _number(amount: Fraction) -> str:
    return f"{amount.numerator:,}" if amount.denominator == 1 else f"{float(amount):,.1f}"
