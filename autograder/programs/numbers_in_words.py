"""Counts and times as one writes them: exact while they are small, rounded where they are large."""


def count_in_words(count: float) -> str:
    """`2,816`, and `137 billion`."""
    for word, factor in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if count >= (10 if word == "million" else 1) * factor:
            return f"{count / factor:,.3g} {word}"
    return f"{count:,.0f}"


def bytes_in_words(count: float) -> str:
    """`2,816`, and `134 MB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= (10 if unit == "MB" else 1) * factor:
            return f"{count / factor:,.3g} {unit}"
    return f"{count:,.0f}"


def sized(count: float) -> str:
    """`2,816 bytes`, and `134 MB`."""
    words = bytes_in_words(count)
    return words if words.endswith("B") else f"{words} bytes"


def time_in_words(seconds: float) -> str:
    """`3.36 ms`; below a microsecond, only that."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.3g} {unit}"
    return "under 1 µs"
