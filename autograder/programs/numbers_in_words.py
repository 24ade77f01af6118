"""Write counts, bytes and times: exact while they are small, rounded when they are large.

`humanize` has similar functions, which round from 1,000 on (`2.8 kB`). Learners compare small
counts of bytes with what they computed, so these have to be exact.
"""

from typing import Final

SCALES: Final = (("quadrillion", 1e15), ("trillion", 1e12), ("billion", 1e9), ("million", 1e6))


def count_in_words(count: float) -> str:
    """Return a count such as `2,816` or `137 billion`."""
    for word, factor in SCALES:
        if count >= (10 if word == "million" else 1) * factor:
            return f"{_rounded(count / factor)} {word}"
    return f"{count:,.0f}"


def bytes_in_words(count: float) -> str:
    """Return a number of bytes for a column of them, such as `2,816` or `134 MB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= (10 if unit == "MB" else 1) * factor:
            return f"{_rounded(count / factor)} {unit}"
    return f"{count:,.0f}"


def bytes_with_unit(count: float) -> str:
    """Return a number of bytes with its unit, such as `2,816 bytes` or `134 MB`."""
    words = bytes_in_words(count)
    return words if words.endswith("B") else f"{words} bytes"


def time_in_words(seconds: float) -> str:
    """Return a time such as `3.36 ms` or `under 1 µs`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{_rounded(seconds * factor)} {unit}"
    return "under 1 µs"


def _rounded(number: float) -> str:
    """Return three significant digits, and never an exponent: `1,000` for 999.9."""
    return f"{float(f'{number:.3g}'):,.12g}"
