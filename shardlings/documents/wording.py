"""Words that sentences everywhere need."""


def with_noun(number: float, noun: str) -> str:
    """Return a number with its noun: `1 point`, `2.5 points`, `1,024 bytes`."""
    digits = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{digits} {noun}{'s' * (number != 1)}"
