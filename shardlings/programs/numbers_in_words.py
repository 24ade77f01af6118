"""Write counts, bytes and times: exact while they are small, rounded when they are large.

`humanize` has similar functions, which round from 1,000 on (`2.8 kB`). Learners compare small
counts of bytes with what they computed, so these have to be exact.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

SCALES: Final = (("quadrillion", 1e15), ("trillion", 1e12), ("billion", 1e9), ("million", 1e6))

EXACT_BYTES: Final = 100_000
"""Fewer bytes are written in full."""


class Unit(NamedTuple):
    """A unit for all numbers of a column.

    Attributes:
        name: its name, such as `KiB`.
        size: how many bytes, or seconds, it has.
    """

    name: str
    size: float

    def write(self, amount: float) -> str:
        """Return an amount in this unit, such as `1,024`, `16.8`, `0.125` or `< 0.001`."""
        number = amount / self.size
        decimals = 0 if self.size == 1 else sum(number < limit for limit in (100, 10, 1))
        written = f"{number:,.{decimals}f}"
        if number and not float(written.replace(",", "")):
            return f"< {10**-decimals:g}"
        return written.rstrip("0").rstrip(".") if decimals else written

    def write_with_name(self, amount: float) -> str:
        """Return an amount in this unit and the unit's name, such as `4 MiB`."""
        return f"{self.write(amount)} {self.name}"


BYTES: Final = Unit("bytes", 1)

BINARY_UNITS: Final = tuple(
    Unit(name, float(1 << 10 * power))
    for power, name in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)
)

TIME_UNITS: Final = (Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1.0))


def choose_byte_unit(amounts: Iterable[float]) -> Unit:
    """Return the unit for numbers of bytes, in which the largest has at least two digits."""
    largest = max(amounts, default=0)
    if largest < EXACT_BYTES:
        return BYTES
    return max((unit for unit in BINARY_UNITS if largest >= 10 * unit.size), key=lambda u: u.size)


def choose_time_unit(seconds: Iterable[float]) -> Unit:
    """Return the unit for times, in which the longest is at least 1; microseconds if none is."""
    longest = max(seconds, default=0)
    return max(
        (unit for unit in TIME_UNITS if longest >= unit.size),
        key=lambda unit: unit.size,
        default=TIME_UNITS[0],
    )


def count_in_words(count: float) -> str:
    """Return a count such as `2,816` or `137 billion`."""
    for word, factor in SCALES:
        if count >= (10 if word == "million" else 1) * factor:
            return f"{_rounded(count / factor)} {word}"
    return f"{count:,.0f}"


def bytes_with_unit(count: float) -> str:
    """Return a number of bytes with its unit, such as `2,816 bytes` or `128 MiB`."""
    unit = choose_byte_unit([count])
    return "1 byte" if count == 1 else f"{unit.write(count)} {unit.name}"


def bandwidth_in_words(bytes_per_second: float) -> str:
    """Return a link's speed as vendors publish it, such as `100 GB`."""
    return f"{_rounded(bytes_per_second / 1e9)} GB"


def runs_in_words(runs: int | None, is_most: bool = False) -> str:
    """Return how often something runs: `× 7`, `× ?` if that is unknown, and nothing for once.

    Args:
        runs: how often; None if it is unknown.
        is_most: whether it may run less often.
    """
    if runs is None:
        return "× ?"
    if is_most:
        return f"× {runs:,} at most"
    return f"× {runs:,}" if runs != 1 else ""


def time_in_words(seconds: float) -> str:
    """Return a time such as `3.36 ms` or `under 1 µs`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{_rounded(seconds * factor)} {unit}"
    return "under 1 µs"


def write_apart(amount: float, limit: float, *formats: Callable[[float], str]) -> tuple[str, str]:
    """Write an amount and the limit that it exceeds, so that one can see which is which.

    Args:
        amount: the amount.
        limit: its limit.
        *formats: ways to write a number, coarse ones first.

    Returns:
        Both, in the first format in which they differ; in the last one if they differ in none.
    """
    pair = "", ""
    for write in formats:
        pair = write(amount), write(limit)
        if pair[0] != pair[1]:
            break
    return pair


def write_bytes_apart(amount: float, limit: float) -> tuple[str, str]:
    """Write bytes and the limit that they exceed: in full, if they would look alike in a unit."""
    return write_apart(amount, limit, bytes_with_unit, BYTES.write_with_name)


def _rounded(number: float) -> str:
    """Return three significant digits, and never an exponent: `1,000` for 999.9."""
    return f"{float(f'{number:.3g}'):,.12g}"
