"""Compute what each device of a group holds before, during and after a collective.

No data is moved. A device's buffer is a letter, a piece of it a letter with a number, and a sum
lists the devices whose data it contains. A test runs each kind of collective in JAX and compares.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardlings.collective_kinds import CollectiveKind
from shardlings.pictures.svg import text_width

ALL_TO_ALL_KINDS: Final = (CollectiveKind.ALL_TO_ALL, CollectiveKind.RAGGED_ALL_TO_ALL)

SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

SHORT_LABELS: Final = {"add": "Σ", "maximum": "max", "minimum": "min", "multiply": "Π"}
"""The label for the data of all devices combined, by HLO's name of the operation."""


@dataclass(frozen=True)
class Piece:
    """A part of a buffer, or a whole buffer.

    Attributes:
        sources: the devices whose data it contains, as positions in the group. Several are
            combined, and a partial sum in a ring has them in the order in which they were added;
            none means zeros.
        number: which piece of their buffers it is; None for whole buffers.
    """

    sources: tuple[int, ...]
    number: int | None = None


Slots = tuple[Piece | None, ...]
"""The buffer of one device: in each slot a piece, or None where it is empty."""

Held = tuple[Slots, ...]
"""The slots of each device of a group."""


@dataclass(frozen=True)
class Step:
    """One step of a collective in a ring.

    Attributes:
        held: what each device holds after the step.
        arrived: pairs of a device's position in the group and a slot that has just received data.
        share: the fraction of the whole buffer that each sender sends in this step.
    """

    held: Held
    arrived: frozenset[tuple[int, int]]
    share: Fraction


def before_and_after(
    kind: str, size: int, pairs: Sequence[tuple[int, int]] = ()
) -> tuple[Held, Held]:
    """Return what each device of a group holds before a collective, and after it.

    Args:
        kind: HLO's name of the collective, such as `"all-gather"`.
        size: the number of devices in the group.
        pairs: for a permutation, pairs of a sender and a receiver, as positions in the group.

    Raises:
        ValueError: the kind is unknown.
    """
    members = range(size)
    everybody = tuple(members)
    buffers = tuple((Piece((i,)),) for i in members)
    split = tuple(tuple(Piece((i,), k) for k in members) for i in members)
    if kind == CollectiveKind.ALL_GATHER:
        gathered = tuple(Piece((i,)) for i in members)
        return tuple(_only(i, gathered[i], size) for i in members), (gathered,) * size
    if kind == CollectiveKind.REDUCE_SCATTER:
        return split, tuple(_only(i, Piece(everybody, i), size) for i in members)
    if kind == CollectiveKind.ALL_REDUCE:
        return buffers, ((Piece(everybody),),) * size
    if kind in ALL_TO_ALL_KINDS:
        return split, tuple(tuple(Piece((i,), k) for i in members) for k in members)
    if kind == CollectiveKind.COLLECTIVE_PERMUTE:
        sender = {target: source for source, target in pairs}
        return buffers, tuple((Piece((sender[i],) if i in sender else ()),) for i in members)
    if kind == CollectiveKind.COLLECTIVE_BROADCAST:
        return buffers, ((Piece((0,)),),) * size
    raise ValueError(f"{kind} is not known here")


def ring_steps(kind: str, size: int, pairs: Sequence[tuple[int, int]] = ()) -> tuple[Step, ...]:
    """Return the steps of a collective on a ring: in each, a device sends to the next one.

    The first item is the state before anything is sent. An all-to-all is shown by its arrivals: in
    step `s`, what arrives comes from `s` devices back. A permutation is a single step.

    Args:
        kind: HLO's name of the collective, such as `"all-gather"`.
        size: the number of devices in the group.
        pairs: for a permutation, pairs of a sender and a receiver, as positions in the group.

    Raises:
        ValueError: the kind is unknown.
    """
    before, after = before_and_after(kind, size, pairs)
    if kind == CollectiveKind.ALL_REDUCE:
        split, scattered = before_and_after(CollectiveKind.REDUCE_SCATTER, size)
        return (*_reduce_scatter_steps(split), *_all_gather_steps(scattered)[1:])
    if kind == CollectiveKind.REDUCE_SCATTER:
        return _reduce_scatter_steps(before)
    if kind == CollectiveKind.ALL_GATHER:
        return _all_gather_steps(before)
    if kind in ALL_TO_ALL_KINDS:
        return _all_to_all_steps(after)
    if kind == CollectiveKind.COLLECTIVE_BROADCAST:
        return _broadcast_steps(before)
    arrived = frozenset((target, 0) for _, target in pairs)
    return _start(before), Step(after, arrived, Fraction(1))


def find_senders(kind: str, step: Step, pairs: Sequence[tuple[int, int]] = ()) -> dict[int, int]:
    """Map each device that receives something in a step to the device that sends it.

    Args:
        kind: HLO's name of the collective.
        step: one of its steps.
        pairs: for a permutation, pairs of a sender and a receiver.

    Returns:
        Positions in the group.
    """
    if kind == CollectiveKind.COLLECTIVE_PERMUTE:
        return {target: source for source, target in pairs if (target, 0) in step.arrived}
    if kind in ALL_TO_ALL_KINDS:
        return dict(step.arrived)  # a piece's slot is the number of its sender
    return {member: (member - 1) % len(step.held) for member, _ in step.arrived}


def _only(slot: int, piece: Piece, size: int) -> Slots:
    return tuple(piece if k == slot else None for k in range(size))


def _start(held: Held) -> Step:
    return Step(held, frozenset(), Fraction(0))


def _all_gather_steps(held: Held) -> tuple[Step, ...]:
    """In each step, each device passes on the piece that it received last."""
    size, steps = len(held), [_start(held)]
    for s in range(1, size):
        slots = [list(row) for row in steps[-1].held]
        arrived = [(i, (i - s) % size) for i in range(size)]
        for i, k in arrived:
            slots[i][k] = steps[-1].held[i - 1][k]
        steps.append(_step(slots, arrived))
    return tuple(steps)


def _reduce_scatter_steps(held: Held) -> tuple[Step, ...]:
    """In each step, each device passes on a partial sum without keeping it; the receiver adds its
    own piece.
    """
    size, steps = len(held), [_start(held)]
    for s in range(1, size):
        last, slots = steps[-1].held, [list(row) for row in steps[-1].held]
        arrived = [(i, (i - 1 - s) % size) for i in range(size)]
        for i, k in arrived:
            received, own = last[i - 1][k], last[i][k]
            assert received is not None
            assert own is not None
            sources = (*received.sources, *own.sources)
            slots[i][k] = Piece(tuple(sorted(sources)) if len(sources) == size else sources, k)
            slots[i - 1][k] = None
        steps.append(_step(slots, arrived))
    return tuple(steps)


def _all_to_all_steps(after: Held) -> tuple[Step, ...]:
    """In step `s`, each device sends a piece to the device `s` positions further on."""
    size = len(after)
    steps = [_start(tuple(_only(i, Piece((i,), i), size) for i in range(size)))]
    for s in range(1, size):
        slots = [list(row) for row in steps[-1].held]
        arrived = [(i, (i - s) % size) for i in range(size)]
        for i, k in arrived:
            slots[i][k] = after[i][k]
        steps.append(_step(slots, arrived))
    return tuple(steps)


def _broadcast_steps(held: Held) -> tuple[Step, ...]:
    """In each step, one more device receives the first device's buffer from its neighbour."""
    steps = [_start(held)]
    for s in range(1, len(held)):
        slots = [list(row) for row in steps[-1].held]
        slots[s] = slots[s - 1]
        steps.append(Step(tuple(map(tuple, slots)), frozenset({(s, 0)}), Fraction(1)))
    return tuple(steps)


def _step(slots: list[list[Piece | None]], arrived: list[tuple[int, int]]) -> Step:
    return Step(tuple(map(tuple, slots)), frozenset(arrived), Fraction(1, len(slots)))


def piece_label(
    piece: Piece, size: int, operation: str = "add", max_width: float = float("inf")
) -> str:
    """Return the label of a piece: `a₂+b₂+c₂` if it is narrow enough, else a shorter one.

    Args:
        piece: the piece.
        size: the number of devices in the group.
        operation: HLO's name of the operation that combines data, such as `"maximum"`.
        max_width: in pixels.
    """
    number = "" if piece.number is None else str(piece.number).translate(SUBSCRIPTS)
    if not piece.sources:
        return "0"
    if len(piece.sources) == 1:
        return _letter(piece.sources[0]) + number
    letters = [*map(_letter, piece.sources)]
    label = _combined([letter + number for letter in letters], operation)
    if text_width(label) <= max_width:
        return label
    if len(piece.sources) == size:
        return SHORT_LABELS.get(operation, "all") + number
    label = _combined(letters, operation)
    return label if text_width(label) <= max_width else f"{letters[0]}–{letters[-1]}"


def _letter(member: int) -> str:
    """Return `a` for the first device of a group, and `a1` for the 27th."""
    letters = string.ascii_lowercase
    return letters[member % 26] + (str(member // 26) if member >= 26 else "")


def _combined(names: Sequence[str], operation: str) -> str:
    if operation in ("add", "multiply"):
        return {"add": "+", "multiply": "·"}[operation].join(names)
    return f"{SHORT_LABELS.get(operation, operation)}({', '.join(names)})"


def explain_short_label(held: Held, operation: str, max_width: float) -> str:
    """Return a sentence such as "Σ₀ is a₀+b₀+c₀.", or nothing if all labels are written in full."""
    size = len(held)
    pieces = {piece for slots in held for piece in slots if piece is not None}
    combined = sorted((p for p in pieces if len(p.sources) == size), key=lambda p: p.number or 0)
    for piece in combined:
        short, full = (
            piece_label(piece, size, operation, width) for width in (max_width, float("inf"))
        )
        if short != full:
            return f"{short} is {full}."
    return ""


def name_of_result(operation: str) -> str:
    """Return what combined data is called: a sum, or for another operation a result."""
    return "sum" if operation == "add" else "result"


def explain_ring_of_sums(operation: str) -> tuple[str, str]:
    """Return what goes round in the two phases of an all-reduce, each as a clause."""
    result = name_of_result(operation)
    return (
        f"each {result} gains a piece as it goes round",
        f"the finished {result}s go round",
    )


def slots_as_text(slots: Slots, size: int, operation: str = "add") -> str:
    """Return the labels of one device's slots; an empty slot is a dot."""
    return " ".join("·" if p is None else piece_label(p, size, operation) for p in slots)
