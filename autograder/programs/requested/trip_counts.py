"""Find out how often the body of a StableHLO `while` runs, and whether it surely ends."""

from typing import Any, NamedTuple

import numpy as np


def trip_count(loop: Any) -> int | None:
    """How often the body of a StableHLO `while` runs; None where that is not written in it.

    Every `scan` and `fori_loop` of known length counts from a constant to a constant.
    """
    counted = _counted(loop)
    if counted is None or counted.start is None or counted.limit is None:
        return None
    return max(0, -((counted.start - counted.limit) // counted.step))


def is_counted(loop: Any) -> bool:
    """Whether a loop counts up to a number, so that it ends whatever it computes.

    A `fori_loop` between bounds that only the program knows does; a `while_loop` that waits for
    something to become small does not.
    """
    return _counted(loop) is not None


def counting(loop: Any) -> list[tuple[Any, int, Any]]:
    """List the operands by which a loop counts.

    Returns:
        For each an operation, the operand's place in it, and the operand; nothing for a loop whose
        number of rounds is not written in it.
    """
    counted = _counted(loop)
    if counted is None or counted.start is None or counted.limit is None:
        return []
    uses = [(loop, counted.place)]
    for region, place in zip(loop.regions, (0, counted.place), strict=True):
        gives = region.blocks[0].operations[len(region.blocks[0].operations) - 1]
        made = gives.operands[place].owner
        uses += [(gives, place), (made, 0), (made, 1)]
    return [(operation, place, operation.operands[place]) for operation, place in uses]


class _Counted(NamedTuple):
    """A loop that counts: from where and to where, if the program says so, and in which steps.

    `place` says which of the values that the loop carries is the counter.
    """

    place: int
    start: int | None
    limit: int | None
    step: int


def _counted(loop: Any) -> _Counted | None:
    """How a loop counts, if it does."""
    condition, body = (region.blocks[0] for region in loop.regions)
    test = condition.operations[len(condition.operations) - 1].operands[0].owner
    if getattr(test, "name", "") != "stablehlo.compare" or "LT" not in str(
        test.attributes["comparison_direction"]
    ):
        return None
    counter = _place(test.operands[0], condition)
    limit = _constant(test.operands[1])
    given = body.operations[len(body.operations) - 1].operands
    if counter is None or (limit is None and not _stays(test.operands[1], condition, body, given)):
        return None
    grown = given[counter].owner
    if getattr(grown, "name", "") != "stablehlo.add":
        return None
    places = [_place(operand, body) for operand in grown.operands]
    if counter not in places:
        return None
    step = _constant(grown.operands[1 - places.index(counter)])
    if not step or step < 0:
        return None
    return _Counted(counter, _constant(loop.operands[counter]), limit, step)


def _stays(value: Any, condition: Any, body: Any, given: Any) -> bool:
    """Whether a value in a loop's condition is the same in each of its rounds."""
    from jax.extend.mlir import ir

    place = _place(value, condition)
    if place is not None:
        return bool(given[place] == body.arguments[place])
    # whatever stands outside of the loop stays as it is
    return isinstance(value.owner, ir.Block) or value.owner.operation.block != condition


def _place(value: Any, block: Any) -> int | None:
    """Which of a block's arguments a value is."""
    return next((i for i, argument in enumerate(block.arguments) if argument == value), None)


def _constant(value: Any) -> int | None:
    """The number that a value is, if the program says so."""
    owner = value.owner
    if getattr(owner, "name", "") != "stablehlo.constant":
        return None
    try:
        numbers = np.array(owner.attributes["value"])
    except TypeError:  # NumPy has no such numbers: bfloat16, or whole numbers of four bits
        return None
    return int(numbers.reshape(-1)[0]) if numbers.size and numbers.dtype.kind in "iu" else None
