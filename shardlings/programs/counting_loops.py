"""Recognise loops that count, in compiled and in requested programs alike.

Every `scan` and every `fori_loop` of known length counts: one of the values that it carries from
round to round starts at a constant, grows or shrinks by a constant, and is compared with a
constant. HLO and StableHLO write this differently, so each reader has a function that describes a
value as a `LoopValue`. Which loops count, and how often they run, is decided here.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

MIRRORED: Final = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
"""The comparisons that end a loop, each with the one that says the same of swapped operands."""


class LoopValue(NamedTuple):
    """A description of a value in or before a loop; empty for a value that is none of these.

    Attributes:
        carried: the position of the value among those that the loop carries.
        constant: the integer that the value is.
        addends: the two values whose sum it is.
        is_difference: whether it is their difference.
    """

    carried: int | None = None
    constant: int | None = None
    addends: Sequence[Any] = ()
    is_difference: bool = False


class LoopCounter(NamedTuple):
    """The value by which a loop counts: from `start`, in steps of `step`, while below `limit`.

    Attributes:
        position: its position among the values that the loop carries.
        start: the first value; None if the program computes it.
        limit: what it is compared with; None if the program computes it.
        step: what each round adds; less than 0 if the loop counts down.
        is_inclusive: whether the loop still runs when the value is the limit.
    """

    position: int
    start: int | None
    limit: int | None
    step: int
    is_inclusive: bool = False

    @property
    def trip_count(self) -> int | None:
        """The number of rounds of the loop; None if the program computes the start or the limit."""
        if self.start is None or self.limit is None:
            return None
        distance = self.limit - self.start if self.step > 0 else self.start - self.limit
        size = abs(self.step)
        return max(0, distance // size + 1 if self.is_inclusive else -(-distance // size))

    @property
    def last(self) -> int | None:
        """The value after the last round; None if the number of rounds is unknown."""
        rounds = self.trip_count
        return None if rounds is None or self.start is None else self.start + rounds * self.step


def find_counter(
    describe: Callable[[Any], LoopValue],
    *,
    compared: Sequence[Any],
    initial: Sequence[Any],
    updated: Sequence[Any],
    comparison: str = "LT",
) -> LoopCounter | None:
    """Find the value by which a loop counts; None if it does not count.

    Where the limit is no constant, the caller has to check that it stays the same in each round.

    Args:
        describe: a function that describes a value of this kind of program.
        compared: the two operands of the comparison that ends the loop.
        initial: the values that the loop carries into its first round.
        updated: the values that its body returns.
        comparison: the direction of the comparison, as HLO names it: "LT" for "less than".
    """
    counter, limit = map(describe, compared)
    if counter.carried is None:
        counter, limit, comparison = limit, counter, MIRRORED.get(comparison, "")
    position = counter.carried
    if position is None or comparison not in MIRRORED:
        return None
    sum_ = describe(updated[position])
    if not sum_.addends:
        return None
    left, right = map(describe, sum_.addends)
    if left.carried == position:
        step = right.constant
    elif right.carried == position and not sum_.is_difference:
        step = left.constant
    else:
        return None
    if not step:
        return None
    step = -step if sum_.is_difference else step
    if (step > 0) != comparison.startswith("L"):
        return None  # it counts away from its limit
    start = describe(initial[position]).constant
    return LoopCounter(position, start, limit.constant, step, comparison.endswith("E"))
