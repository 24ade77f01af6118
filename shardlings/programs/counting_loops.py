"""Recognise loops that count, in compiled and in requested programs alike.

Every `scan` and every `fori_loop` of known length counts: one of the values that it carries from
round to round starts at a constant, grows by a constant, and is compared with a constant. HLO and
StableHLO write this differently, so each reader has a function that describes a value as a
`LoopValue`. Which loops count, and how often they run, is decided here.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class LoopValue(NamedTuple):
    """A description of a value in or before a loop; empty for a value that is none of these.

    Attributes:
        carried: the position of the value among those that the loop carries.
        constant: the integer that the value is.
        addends: the two values whose sum it is.
    """

    carried: int | None = None
    constant: int | None = None
    addends: Sequence[Any] = ()


class Counter(NamedTuple):
    """The value by which a loop counts: from `start`, in steps of `step`, while below `limit`.

    Attributes:
        position: its position among the values that the loop carries.
        start: the first value; None if the program computes it.
        limit: what it is compared with; None if the program computes it.
        step: what each round adds, at least 1.
    """

    position: int
    start: int | None
    limit: int | None
    step: int

    @property
    def trip_count(self) -> int | None:
        """The number of rounds of the loop; None if the program computes the start or the limit."""
        if self.start is None or self.limit is None:
            return None
        return max(0, -((self.start - self.limit) // self.step))


def find_counter(
    describe: Callable[[Any], LoopValue],
    *,
    compared: Sequence[Any],
    initial: Sequence[Any],
    updated: Sequence[Any],
) -> Counter | None:
    """Find the value by which a loop counts upwards; None if it does not count.

    Where the limit is no constant, the caller has to check that it stays the same in each round.

    Args:
        describe: a function that describes a value of this kind of program.
        compared: the two operands of the comparison, "less than", that ends the loop.
        initial: the values that the loop carries into its first round.
        updated: the values that its body returns.
    """
    counter, limit = map(describe, compared)
    position = counter.carried
    if position is None:
        return None
    addends = describe(updated[position]).addends
    if not addends:
        return None
    left, right = map(describe, addends)
    if left.carried == position:
        step = right.constant
    elif right.carried == position:
        step = left.constant
    else:
        return None
    if not step or step < 0:
        return None
    return Counter(position, describe(initial[position]).constant, limit.constant, step)
