"""Words for collectives, arguments, shares and times, the same in every verdict."""

from collections.abc import Sequence
from typing import Final

from autograder.artifacts import Argument, describe_arguments
from shardlings.documents import with_noun
from shardlings.programs import Collective

NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def describe_groups(collective: Collective) -> str:
    """Return `over x`, or `between groups of two devices` if the groups are along no mesh axis."""
    if collective.axes:
        return f"over {', '.join(collective.axes)}"
    if collective.traits.has_pairs:
        return "between single devices"
    size = collective.size
    return f"between groups of {NUMBERS[size] if size < len(NUMBERS) else size} devices"


def explain_unknown_length(kind: str) -> str:
    """Return the sentence for a collective in a loop of unknown length."""
    return (
        f"The {kind} is in a loop whose length is known only when it runs, so its cost cannot be "
        f"computed."
    )


def with_arguments(arguments: Sequence[Argument] | str, sentence: str) -> str:
    """Prepend to a sentence the arguments for which it holds: `For float32[8] on …, the …`."""
    words = arguments if isinstance(arguments, str) else describe_arguments(arguments)
    first = (
        sentence[:1].lower() if sentence[1:2].islower() or sentence[1:2] == " " else sentence[:1]
    )
    return f"For {words}, {first}{sentence[1:]}"


def with_article(kind: str) -> str:
    """Return `an all-gather`, or `a reduce-scatter`."""
    return f"{'an' if kind.startswith('a') else 'a'} {kind}"


def in_bytes(number: int) -> str:
    """Return `1 byte`, or `1,024 bytes`."""
    return with_noun(number, "byte")


def in_percent(share: float) -> str:
    """Return `33%`. Only nothing is 0%, and only everything 100%."""
    percent = round(100 * share)
    return f"{min(99, max(1, percent)) if 0 < share < 1 else percent}%"


def in_ms(seconds: float) -> str:
    """Return `1.53 ms`, or `57.8 ms`."""
    ms = 1e3 * seconds
    return f"{ms:,.{2 if ms < 10 else 1}f} ms"
