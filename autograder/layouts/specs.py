"""Partition specs, as every supported version of JAX has them."""

from typing import Any

import jax


def entries(spec: jax.P) -> tuple[Any, ...]:
    """The entries of a partition spec, one for each dimension that it speaks of.

    Newer versions of JAX refuse to count through one that has unreduced axes too.
    """
    partitions: tuple[Any, ...] | None = getattr(spec, "partitions", None)
    return tuple(spec) if partitions is None else partitions
