"""Read and write partition specs, the same for every supported version of JAX."""

from collections.abc import Sequence
from typing import Any, Final

import jax

MAX_DRAWN_NAME: Final = 16
"""Characters of an axis's name."""


def entries(spec: jax.P) -> tuple[Any, ...]:
    """The entries of a partition spec, one for each dimension that it speaks of.

    Newer versions of JAX refuse to count through one that has unreduced axes too.
    """
    partitions: tuple[Any, ...] | None = getattr(spec, "partitions", None)
    return tuple(spec) if partitions is None else partitions


def as_typed(spec: jax.P) -> str:
    """A spec as one types it: `P("x", None)`, and not `P('x',)`."""
    parts = [_entry(entry) for entry in entries(spec)]
    for kind in ("unreduced", "reduced"):
        names = getattr(spec, kind, None)
        if names:
            parts.append(f"{kind}={{{', '.join(sorted(_entry(name) for name in names))}}}")
    return f"P({', '.join(parts)})"


def axes_along(spec: jax.P, rank: int) -> tuple[tuple[str, ...], ...]:
    """For each dimension, the names of the mesh axes that cut it."""
    named = tuple(
        tuple(map(str, entry)) if isinstance(entry, tuple) else (entry,) * isinstance(entry, str)
        for entry in entries(spec)
    )
    return (*named, *((),) * (rank - len(named)))[:rank]


def together(names: Sequence[str]) -> str:
    """The axes that cut one dimension: `x`, or `(x, y)`."""
    words = ", ".join(map(shown, names))
    return f"({words})" if len(names) > 1 else words


def shown(name: object) -> str:
    """An axis's name, short enough to be drawn, and of characters that can be."""
    text = "".join(c if c.isprintable() else "·" for c in str(name))
    return text if len(text) <= MAX_DRAWN_NAME else f"{text[: MAX_DRAWN_NAME - 1]}…"


def _entry(entry: object) -> str:
    if isinstance(entry, tuple):
        inside = ", ".join(map(_entry, entry))
        return f"({inside},)" if len(entry) == 1 else f"({inside})"
    if isinstance(entry, str):
        return '"' + entry.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "P.UNCONSTRAINED" if entry is jax.P.UNCONSTRAINED else repr(entry)
