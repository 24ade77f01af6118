"""Labels for pieces of a collective: `a`, `b₂`, `a+b+c+d`, `Σ₂`, `max(a, b)`."""

import string
from collections.abc import Sequence
from typing import Final

from autograder.pictures.collective_pieces import Held, Piece
from autograder.pictures.svg_parts import width_of

LOW: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

SHORT: Final = {"add": "Σ", "maximum": "max", "minimum": "min", "multiply": "Π"}
"""What stands for all members, combined by an operation as HLO names it."""


def letter(member: int) -> str:
    """`a` for the first member of a group; `a1` for the 27th."""
    letters = string.ascii_lowercase
    return letters[member % 26] + (str(member // 26) if member >= 26 else "")


def label(piece: Piece, size: int, operation: str = "add", room: float = float("inf")) -> str:
    """What to write on a piece, as long as there is room for it in pixels.

    Args:
        piece: the piece.
        size: how many members the group has.
        operation: how several are combined, as HLO names it.
        room: how wide it may be.
    """
    low = "" if piece.number is None else str(piece.number).translate(LOW)
    if not piece.sources:
        return "0"
    if len(piece.sources) == 1:
        return letter(piece.sources[0]) + low
    for numbered in (low, ""):
        whole = _combined([letter(member) + numbered for member in piece.sources], operation)
        if width_of(whole) <= room:
            return whole
        if len(piece.sources) == size:
            return SHORT.get(operation, "all") + low
    return f"{letter(piece.sources[0])}–{letter(piece.sources[-1])}"


def _combined(names: Sequence[str], operation: str) -> str:
    if operation in ("add", "multiply"):
        return {"add": "+", "multiply": "·"}[operation].join(names)
    return f"{SHORT.get(operation, operation)}({', '.join(names)})"


def legend(held: Held, operation: str, room: float) -> str:
    """What the short labels among those that are held mean; empty where there is none."""
    size = len(held)
    pieces = {piece for row in held for piece in row if piece is not None}
    combined = sorted((p for p in pieces if len(p.sources) == size), key=lambda p: p.number or 0)
    if not combined:
        return ""
    short, whole = (label(combined[0], size, operation, r) for r in (room, float("inf")))
    return f"{short} is {whole}." if short != whole else ""


def slots_in_words(row: tuple[Piece | None, ...], size: int, operation: str = "add") -> str:
    """What a member holds, an empty slot as a dot."""
    return " ".join("·" if p is None else label(p, size, operation) for p in row)
