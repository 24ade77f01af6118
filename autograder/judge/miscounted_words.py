"""Explain lists of words in which some are counted too often or too seldom."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

LONGEST_LINE: Final = 120
"""The most characters that are shown of a line."""

MAX_SHOWN_LINES: Final = 6


def lines_in_question(case: Sequence[Any], came: Any, right: Any) -> str:
    """List the lines of a long text that mention a word counted too often or too seldom.

    A call with such a text is shown in part only, and nobody can see what was read wrong in it.
    """
    if not too_many_and_too_few(came, right):
        return ""
    texts = [each for each in case if isinstance(each, str) and each.count("\n") > 1]
    counted, wanted = Counter(came), Counter(right)
    word = next((w for w in dict.fromkeys([*right, *came]) if counted[w] != wanted[w]), "")
    lines = [line.strip() for text in texts for line in text.splitlines() if word in line]
    if not word or not lines:
        return ""
    shown = "; ".join(f"`{line[:LONGEST_LINE]}`" for line in lines[:MAX_SHOWN_LINES])
    more = f" and {len(lines) - MAX_SHOWN_LINES} more" if len(lines) > MAX_SHOWN_LINES else ""
    return f" The lines that mention {word!r} are {shown}{more}."


def too_many_and_too_few(came: Any, right: Any) -> str:
    """Say how often words are in a list, where that is not as often as it should be."""
    lists = isinstance(came, list) and isinstance(right, list)
    if not lists or not all(isinstance(each, str) for each in [*came, *right]):
        return ""
    counted, wanted = Counter(came), Counter(right)
    differ = [word for word in dict.fromkeys([*right, *came]) if counted[word] != wanted[word]]
    if not differ:
        return ""
    off = (f"{word!r} {counted[word]} times in place of {wanted[word]}" for word in differ[:3])
    return f" In the case below, the list has {', '.join(off)}."
