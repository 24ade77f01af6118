"""Meshes and shardings that many tests use."""

import jax
import numpy as np
from jax.sharding import AxisType


def mesh(**axes: int) -> jax.sharding.Mesh:
    """A mesh over the first devices, in order, with Auto axes."""
    sizes = tuple(axes.values())
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    return jax.sharding.Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def sharding(*spec: object, **axes: int) -> jax.NamedSharding:
    """`sharding("x", None, x=4, y=2)`."""
    return jax.NamedSharding(mesh(**axes), jax.P(*spec))
