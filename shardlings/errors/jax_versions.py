"""The supported versions of JAX, and a warning for any other."""

import re
from typing import Final

import jax

TESTED_JAX_VERSIONS: Final = ("0.8.2", "0.10.2", "0.12.0.1")
"""The versions that `requirements/` pins, oldest first. A test compares them."""

CRASHING: Final = "0.11.2"
"""A version whose compiler crashes on `x.at[:].set(y)` within `shard_map`. 0.12 does not."""


def version_warning(version: str = "") -> str:
    """Return a warning if a version of JAX is outside the tested range, or else nothing.

    Args:
        version: the version; by default, that of the installed JAX.
    """
    version = version or jax.__version__
    if _numbers(version) < _numbers(TESTED_JAX_VERSIONS[0]):
        which = "older"
    elif _numbers(version) > _numbers(TESTED_JAX_VERSIONS[-1]):
        which = "newer"
    else:
        return ""
    return (
        f"This is JAX {version}, which is {which} than any that Shardlings was tested with "
        f"({TESTED_JAX_VERSIONS[0]} to {TESTED_JAX_VERSIONS[-1]}), so results may be wrong."
    )


def crash_warning(version: str = "") -> str:
    """Return a warning if a version of JAX is known to crash, or else nothing.

    Args:
        version: the version; by default, that of the installed JAX.
    """
    if _numbers(version or jax.__version__) != _numbers(CRASHING):
        return ""
    return (
        f"This is JAX {CRASHING}. Its compiler crashes on an assignment to all of an array within "
        f"shard_map, such as x.at[:].set(y), and then the kernel dies. Write y in its place, or "
        f"install another version of JAX."
    )


def versions_in_words() -> str:
    """Return a sentence with the installed version of JAX and the tested ones."""
    *others, newest = TESTED_JAX_VERSIONS
    return (
        f"This is JAX {jax.__version__}, and Shardlings is tested with JAX {', '.join(others)} and "
        f"{newest}."
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (0, 13, 0) for `0.13.0.dev2026`."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()
