"""Show the results of Python functions, and calls of these, as short Python code."""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final

import jax

from autograder.judge.comparing_results import NON_FINITE_NUMBERS, is_same

MAX_RESULT_CHARACTERS: Final = 160

MAX_CALL_CHARACTERS: Final = 120
"""The middle of a longer call is left out."""

MAX_LINE_CHARACTERS: Final = 120

OF_TYPE: Final = re.compile(r"\{'of type': '([^']*)'\}")
"""Matches what stands for something that is no plain data."""

LONG_NUMBER: Final = re.compile(r"(\d{8})\d{24,}(\d{8})")
"""An integer whose middle digits are left out."""

LONG_FLOAT: Final = re.compile(r"\b\d+\.\d{5,}(?:e[+-]?\d+)?|\b\d{8,}\.\d+")
"""A float with more digits than anybody compares by eye."""


def show_plain(value: Any, right: Any = None) -> str:
    """Return plain data as Python code.

    Evidence has only lists, so a list is shown as a spec, a list or a tuple, depending on `right`.
    """
    if isinstance(value, dict):
        return f"something of type {value.get('of type')}"
    if isinstance(right, jax.P) and isinstance(value, list):
        entries = (tuple(e) if isinstance(e, list) else e for e in value)
        return f"P({', '.join(map(repr, entries))})"
    return _shorten_result(OF_TYPE.sub(r"<\1>", repr(_with_containers_of(value, right))))


def show_first_difference(
    actual: Any, right: Any, lines: Sequence[str] = ()
) -> tuple[str, str] | None:
    """Return the first entry that differs in two long lists: the expected one, and the actual one.

    Args:
        actual: the learner's result.
        right: the right result.
        lines: the line of a text that each entry of the right result comes from.
    """
    if not isinstance(actual, list) or not isinstance(right, list):
        return None
    pairs = zip_longest(actual, right)
    place = next((i for i, pair in enumerate(pairs) if not is_same(*pair)), len(right))
    line = f", for `{lines[place][:MAX_LINE_CHARACTERS]}`," if place < len(lines) else ""
    expected, got = (
        f"{show_plain(each[place])} as entry {place + 1} of {len(each)}"
        if place < len(each)
        else f"{len(each)} entries"
        for each in (right, actual)
    )
    return f"{expected}{line}", got


def show_word(value: Any) -> str:
    """Return a string in quotes, or what else it is."""
    return _shorten_result(repr(value)) if isinstance(value, str) else describe_returned_kind(value)


def shorten_call(call: str) -> str:
    """Shorten a call to its beginning and its end; its numbers stay exact."""
    call = shorten_floats(LONG_NUMBER.sub(r"\1…\2", call), exactly=True)
    return call if len(call) <= MAX_CALL_CHARACTERS else f"{call[:70]} … {call[-30:]}"


def _shorten_result(text: str) -> str:
    """Shorten a result to what can be compared by eye."""
    text = LONG_NUMBER.sub(r"\1…\2", text)
    return text if len(text) <= MAX_RESULT_CHARACTERS else f"{text[:MAX_RESULT_CHARACTERS]}…"


def shorten_floats(text: str, exactly: bool = False) -> str:
    """Round long floats in a result or a call to six digits; `exactly`: if this loses nothing."""

    def rounded(match: re.Match[str]) -> str:
        short = f"{float(match[0]):.6g}"
        return match[0] if exactly and float(short) != float(match[0]) else short

    return text if "'" in text else LONG_FLOAT.sub(rounded, text)  # not within quotes


def describe_kind(value: Any) -> str:
    """Describe the type of plain data."""
    if value in NON_FINITE_NUMBERS:
        return str(value)
    if isinstance(value, dict):
        return f"something of type {value.get('of type')}"
    kinds = {bool: "a bool", int: "a number", float: "a number", str: "a string", list: "a list"}
    kinds[tuple] = "a tuple"
    return kinds.get(type(value), "None")


def describe_returned_kind(value: Any) -> str:
    """Describe the type of plain data that was returned; evidence has only lists."""
    return "a list, a tuple or a spec" if isinstance(value, list) else describe_kind(value)


def _with_containers_of(value: Any, right: Any, is_list: bool = False) -> Any:
    """Convert the lists in plain data to tuples where the right result has tuples.

    Where the right result has neither, a list becomes what its surrounding list became. A string
    that stands for infinity or NaN becomes that number, unless a string is right.
    """
    if not isinstance(value, list | tuple):
        return float(value) if value in NON_FINITE_NUMBERS and not isinstance(right, str) else value
    is_list = isinstance(right, list) if isinstance(right, list | tuple) else is_list
    right_parts = right if isinstance(right, list | tuple) and right else [None]
    parts = [
        _with_containers_of(v, right_parts[min(i, len(right_parts) - 1)], is_list)
        for i, v in enumerate(value)
    ]
    return parts if is_list else tuple(parts)
