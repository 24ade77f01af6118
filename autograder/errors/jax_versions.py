"""The supported versions of JAX, and a remark on any other."""

import re
from typing import Final

import jax

TESTED: Final = ("0.8.2", "0.10.2", "0.12.0.1")
"""The versions that `requirements/` pins, from the oldest to the newest; a test compares them."""


def remark_on_version(version: str = "") -> str:
    """What is to be said of a version of JAX; nothing of one within the range that was tested.

    Args:
        version: the version; by default that of the JAX at hand.
    """
    version = version or jax.__version__
    if _numbers(version) < _numbers(TESTED[0]):
        which = "older"
    elif _numbers(version) > _numbers(TESTED[-1]):
        which = "newer"
    else:
        return ""
    return (
        f"This is JAX {version}, which is {which} than any that Shardlings was tested with "
        f"({TESTED[0]} to {TESTED[-1]}), so verdicts may be wrong."
    )


def versions_in_words() -> str:
    """Which JAX this is, and which ones were tested, in a sentence."""
    *others, newest = TESTED
    return (
        f"This is JAX {jax.__version__}, and Shardlings is tested with JAX {', '.join(others)} and "
        f"{newest}."
    )


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: 0, 13 and 0 of `0.13.0.dev2026`."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()
