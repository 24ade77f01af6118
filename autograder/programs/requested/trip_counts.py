"""How often the body of a StableHLO `while` runs."""

from typing import Any

import numpy as np


def trip_count(loop: Any) -> int | None:
    """How often the body of a StableHLO `while` runs; None where that is not written in it.

    Every `scan` and `fori_loop` of known length counts from a constant to a constant.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    test = condition.operations[len(condition.operations) - 1].operands[0].owner
    if getattr(test, "name", "") != "stablehlo.compare" or "LT" not in str(
        test.attributes["comparison_direction"]
    ):
        return None
    counter = _place(test.operands[0], condition)
    if counter is None:
        return None
    start, limit = _constant(loop.operands[counter]), _constant(test.operands[1])
    grown = body.operations[len(body.operations) - 1].operands[counter].owner
    if getattr(grown, "name", "") != "stablehlo.add":
        return None
    places = [_place(operand, body) for operand in grown.operands]
    if counter not in places:
        return None
    step = _constant(grown.operands[1 - places.index(counter)])
    if start is None or limit is None or not step or step < 0:
        return None
    return max(0, -((start - limit) // step))


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
