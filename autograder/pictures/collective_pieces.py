"""Move the pieces of a group's devices as a collective does, at once and round a ring.

This is arithmetic on labels: a device's data are a letter, a piece of them a letter with a number,
and a sum says whose data are in it. A test runs each kind in JAX and finds the same.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from autograder.collective_kinds import CollectiveKind
from autograder.pictures.svg_parts import width_of

TO_ALL: Final = (CollectiveKind.ALL_TO_ALL, CollectiveKind.RAGGED_ALL_TO_ALL)
LOW: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

SHORT: Final = {"add": "Σ", "maximum": "max", "minimum": "min", "multiply": "Π"}
"""What stands for all members, combined by an operation as HLO names it."""


@dataclass(frozen=True)
class Piece:
    """Part of a buffer, or all of it.

    Attributes:
        sources: the members whose data are in it, by their places in the group, of a part of a
            sum in the order in which they were met; several are combined, none are zeros.
        number: which piece of their data; None of all of them.
    """

    sources: tuple[int, ...]
    number: int | None = None


Held = tuple[tuple[Piece | None, ...], ...]
"""For each member its slots, each with a piece or empty."""


@dataclass(frozen=True)
class Step:
    """One step round a ring.

    Attributes:
        held: what each member holds after it.
        arrived: pairs of a member and a slot, where something has just arrived.
        share: the part of the whole buffer that each member that sends has sent in it.
    """

    held: Held
    arrived: frozenset[tuple[int, int]]
    share: Fraction


def before_and_after(
    kind: str, size: int, pairs: Sequence[tuple[int, int]] = ()
) -> tuple[Held, Held]:
    """What each member of a group holds before a collective, and after it.

    Args:
        kind: the kind, as HLO spells it.
        size: how many members the group has.
        pairs: of a permutation, each sender and its receiver, by their places in the group.

    Raises:
        ValueError: the kind is not known here.
    """
    members = range(size)
    everybody = tuple(members)
    whole = tuple((Piece((i,)),) for i in members)
    cut = tuple(tuple(Piece((i,), k) for k in members) for i in members)
    if kind == CollectiveKind.ALL_GATHER:
        joined = tuple(Piece((i,)) for i in members)
        return tuple(_only(i, joined[i], size) for i in members), (joined,) * size
    if kind == CollectiveKind.REDUCE_SCATTER:
        return cut, tuple(_only(i, Piece(everybody, i), size) for i in members)
    if kind == CollectiveKind.ALL_REDUCE:
        return whole, ((Piece(everybody),),) * size
    if kind in TO_ALL:
        return cut, tuple(tuple(Piece((i,), k) for i in members) for k in members)
    if kind == CollectiveKind.COLLECTIVE_PERMUTE:
        sender = {target: source for source, target in pairs}
        return whole, tuple((Piece((sender[i],) if i in sender else ()),) for i in members)
    if kind == CollectiveKind.COLLECTIVE_BROADCAST:
        return whole, ((Piece((0,)),),) * size
    raise ValueError(f"{kind} is not known here")


def ring_steps(kind: str, size: int, pairs: Sequence[tuple[int, int]] = ()) -> tuple[Step, ...]:
    """How it is done when each device sends to the next one in a ring, step by step.

    The first is how things stand before anything is sent. An all-to-all shows what has arrived,
    and goes one place further round the ring in each step; a permutation is a single step.

    Args:
        kind: the kind, as HLO spells it.
        size: how many members the group has.
        pairs: of a permutation, each sender and its receiver, by their places in the group.

    Raises:
        ValueError: the kind is not known here.
    """
    before, after = before_and_after(kind, size, pairs)
    if kind == CollectiveKind.ALL_REDUCE:
        cut, scattered = before_and_after(CollectiveKind.REDUCE_SCATTER, size)
        return (*_reducing(cut), *_gathering(scattered)[1:])
    if kind == CollectiveKind.REDUCE_SCATTER:
        return _reducing(before)
    if kind == CollectiveKind.ALL_GATHER:
        return _gathering(before)
    if kind in TO_ALL:
        return _exchanging(after)
    if kind == CollectiveKind.COLLECTIVE_BROADCAST:
        return _passing_on(before)
    arrived = frozenset((target, 0) for _, target in pairs)
    return _start(before), Step(after, arrived, Fraction(1))


def _only(place: int, piece: Piece, size: int) -> tuple[Piece | None, ...]:
    return tuple(piece if k == place else None for k in range(size))


def _start(held: Held) -> Step:
    return Step(held, frozenset(), Fraction(0))


def _gathering(held: Held) -> tuple[Step, ...]:
    """Each passes on what it received last, until everybody has everything."""
    size, steps = len(held), [_start(held)]
    for s in range(1, size):
        slots = [list(row) for row in steps[-1].held]
        arrived = [(i, (i - s) % size) for i in range(size)]
        for i, k in arrived:
            slots[i][k] = steps[-1].held[i - 1][k]
        steps.append(_step(slots, arrived))
    return tuple(steps)


def _reducing(held: Held) -> tuple[Step, ...]:
    """Each passes on a sum that grows as it goes round, and keeps no copy of it."""
    size, steps = len(held), [_start(held)]
    for s in range(1, size):
        last, slots = steps[-1].held, [list(row) for row in steps[-1].held]
        arrived = [(i, (i - 1 - s) % size) for i in range(size)]
        for i, k in arrived:
            passed, own = last[i - 1][k], last[i][k]
            assert passed is not None
            assert own is not None
            met = (*passed.sources, *own.sources)
            slots[i][k] = Piece(tuple(sorted(met)) if len(met) == size else met, k)
            slots[i - 1][k] = None
        steps.append(_step(slots, arrived))
    return tuple(steps)


def _exchanging(after: Held) -> tuple[Step, ...]:
    """In step s each sends a piece to the one s places on."""
    size = len(after)
    steps = [_start(tuple(_only(i, after[i][i] or Piece(()), size) for i in range(size)))]
    for s in range(1, size):
        slots = [list(row) for row in steps[-1].held]
        arrived = [(i, (i - s) % size) for i in range(size)]
        for i, k in arrived:
            slots[i][k] = after[i][k]
        steps.append(_step(slots, arrived))
    return tuple(steps)


def _passing_on(held: Held) -> tuple[Step, ...]:
    """The first one's buffer goes from each to the next."""
    steps = [_start(held)]
    for s in range(1, len(held)):
        slots = [list(row) for row in steps[-1].held]
        slots[s] = slots[s - 1]
        steps.append(Step(tuple(map(tuple, slots)), frozenset({(s, 0)}), Fraction(1)))
    return tuple(steps)


def _step(slots: list[list[Piece | None]], arrived: list[tuple[int, int]]) -> Step:
    return Step(tuple(map(tuple, slots)), frozenset(arrived), Fraction(1, len(slots)))


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
