"""Describe how results of plain functions differ, if all differ in the same way."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

Pairs = Sequence[tuple[Any, Any]]
"""What came and what is right, as plain data, for each case in which they differ."""
LONGEST_LINE: Final = 120
"""The most characters that are shown of a line."""

MAX_SHOWN_LINES: Final = 6


def how_results_differ(pairs: Pairs) -> str:
    """Say how results differ from the right ones, if in all these cases alike; else nothing."""
    looks = (_kinds, _lengths, _orders, _inner_lengths, _numbers, _bools)
    return next(filter(None, (look(pairs) for look in looks)), "")


def _kinds(pairs: Pairs) -> str:
    """Whether results are of another kind: numbers for lists, or lists nested otherwise."""
    if all(isinstance(c, list) and _is_number(r) for c, r in pairs):
        return "it is a list or tuple, and should be one number"
    if not all(isinstance(r, list) for _, r in pairs):
        return ""
    if all(_is_number(c) for c, _ in pairs):
        return "it is one number, and should be a list or tuple"
    if not all(isinstance(c, list) for c, _ in pairs):
        return ""
    if not any(c for c, _ in pairs):
        return "it is empty"
    came, wanted = ({_depth(pair[i]) for pair in pairs} for i in (0, 1))
    if len(wanted) == len(came) == 1 and came != wanted:
        more = max(came) > max(wanted)
        return f"its lists are nested {'more' if more else 'less'} deeply than they should be"
    return ""


def _lengths(pairs: Pairs) -> str:
    """Whether there are more entries, or fewer, in every case."""
    if not all(isinstance(c, list) and isinstance(r, list) for c, r in pairs):
        return ""
    if all(len(c) == len(r) for c, r in pairs):
        return ""
    came, wanted = next((c, r) for c, r in pairs if len(c) != len(r))
    entries = "entry" if len(came) == 1 else "entries"
    if all(len(c) == 1 for c, _ in pairs):
        return "it has a single entry each time"
    if all(len(c) == len(r) - 1 for c, r in pairs):
        return f"it has one entry too few, such as {len(came)} {entries} for {len(wanted)}"
    if all(len(c) == len(r) + 1 for c, r in pairs):
        return f"it has one entry too many, such as {len(came)} {entries} for {len(wanted)}"
    if all(each in c for c, r in pairs for each in r):
        return "the right entries are in it, and others too"
    if all(each in r for c, r in pairs for each in c):
        return "what is in it is right, and some is missing"
    return ""


ORDERS: Final[dict[str, Callable[[list[Any]], list[Any]]]] = {
    "its entries are right, but in the opposite order": lambda r: r[::-1],
    "its entries are right, but each is one place too late": lambda r: r[-1:] + r[:-1],
    "its entries are right, but each is one place too early": lambda r: r[1:] + r[:1],
    "each of its entries is what the first one should be": lambda r: r[:1] * len(r),
    "each entry is right, but in the opposite order": lambda r: [
        each[::-1] if isinstance(each, list) else each for each in r
    ],
}
"""Orders in which entries can have been put, in words."""


def _orders(pairs: Pairs) -> str:
    """Whether the right entries or numbers are there, in other places."""
    if not all(isinstance(c, list) and isinstance(r, list) for c, r in pairs):
        return ""
    for words, order in ORDERS.items():
        if all(c == order(r) for c, r in pairs):
            return words
    if all(_sorted(c) == _sorted(r) for c, r in pairs):
        return "its entries are right, but in another order"
    if not all(_nested(c) and _nested(r) and len(c) == len(r) for c, r in pairs):
        return ""
    if all(_sorted(a) == _sorted(b) for c, r in pairs for a, b in zip(c, r, strict=True)):
        return "each entry has the right numbers, but in another order"
    if all(_sorted(_flat(c)) == _sorted(_flat(r)) for c, r in pairs):
        return "the right numbers are in it, but in other places"
    return ""


def _inner_lengths(pairs: Pairs) -> str:
    """Whether entries are too long or too short."""
    if not all(_nested(c) and _nested(r) and len(c) == len(r) for c, r in pairs):
        return ""
    lengths = [(len(a), len(b)) for c, r in pairs for a, b in zip(c, r, strict=True)]
    off = [(came, wanted) for came, wanted in lengths if came != wanted]
    if not off:
        return ""
    came, wanted = off[0]
    numbers = "number" if came == 1 else "numbers"
    return f"an entry has {came} {numbers}, for example, and should have {wanted}"


def _numbers(pairs: Pairs) -> str:
    """Whether every number is off by a factor, or by as much."""
    if not all(_shape(c) == _shape(r) for c, r in pairs):
        return ""
    numbers = [
        (a, b) for c, r in pairs for a, b in zip(_flat(c), _flat(r), strict=True)
    ]  # fmt: skip
    if not numbers or not all(_is_number(n) and math.isfinite(n) for pair in numbers for n in pair):
        return ""
    step, *others = {a - b for a, b in numbers}
    if not others:
        return f"every number is {abs(step)} too {'large' if step > 0 else 'small'}"
    factors = {Fraction(a) / Fraction(b) for a, b in numbers if b}
    if len(factors) == 1 and all(a == 0 for a, b in numbers if not b):
        by = factors.pop()
        if by.denominator == 1:
            return f"every number is {by.numerator} times what it should be"
        if by.numerator == 1:
            return f"every number is 1/{by.denominator} of what it should be"
    if all(a <= b for a, b in numbers):
        return "numbers are too small, and none is too large"
    if all(a >= b for a, b in numbers):
        return "numbers are too large, and none is too small"
    return ""


def _bools(pairs: Pairs) -> str:
    """Whether it is True each time where it should not be, or False."""
    for value in (True, False):
        if all(c is value and r is (not value) for c, r in pairs):
            return f"it is {value} there, and should be {not value}"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nested(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, list) for each in value)


def _sorted(entries: list[Any]) -> list[str]:
    """Entries of any kind, in an order of their own."""
    return sorted(map(repr, entries))


def _flat(value: Any) -> list[Any]:
    """All that is in lists within lists, one after the other."""
    if isinstance(value, list):
        return [each for inner in value for each in _flat(inner)]
    return [value]


def _depth(value: Any) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _shape(value: Any) -> Any:
    return [_shape(each) for each in value] if isinstance(value, list) else 0


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
