"""Words for devices, collectives and arguments, the same in every verdict."""

from collections.abc import Sequence
from typing import Final

from autograder.programs import Argument, Collective, described

NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
"""Small numbers, as they are written in a sentence."""


def between(collective: Collective) -> str:
    """Which devices talk to each other: `over x`, or `between groups of two devices`."""
    if collective.axes:
        return f"over {', '.join(collective.axes)}"
    if collective.traits.in_pairs:  # its groups are pairs, whoever they join
        return "between single devices"
    size = collective.size
    return f"between groups of {NUMBERS[size] if size < len(NUMBERS) else size} devices"


def of_unknown_length(kind: str) -> str:
    """What is said of a collective in a loop that runs nobody knows how often."""
    return (
        f"The {kind} is in a loop whose length is known only when it runs, so its cost cannot be "
        f"computed."
    )


def given(arguments: Sequence[Argument] | str, sentence: str) -> str:
    """A sentence, with the arguments that it holds for, which may be in words already."""
    words = arguments if isinstance(arguments, str) else described(arguments)
    first = (
        sentence[:1].lower() if sentence[1:2].islower() or sentence[1:2] == " " else sentence[:1]
    )
    return f"For {words}, {first}{sentence[1:]}"
