"""Explain why a sharding has no layout, or does not fit a shape."""

import math

import jax

from autograder.layouts.blocks import Shape
from autograder.layouts.specs import as_typed, entries


def refusal(sharding: jax.sharding.Sharding) -> str:
    """Why a sharding has no layout, whatever the shape; empty where it has one."""
    mesh = sharding.mesh if isinstance(sharding, jax.NamedSharding) else None
    if isinstance(mesh, jax.sharding.AbstractMesh):
        return (
            "The sharding's mesh is abstract: it has axis names and no devices. "
            "Use one that jax.make_mesh made."
        )
    return not_of_devices(mesh)


def not_of_devices(mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None) -> str:
    """What a mesh holds that is no device; empty where there is nothing such."""
    devices = mesh.devices.flat if isinstance(mesh, jax.sharding.Mesh) else ()
    other = next((device for device in devices if not isinstance(device, jax.Device)), None)
    if other is None:
        return ""
    return (
        f"The mesh holds {type(other).__name__} in place of devices. The "
        f"numbers in pictures are the devices' ids: index np.array(jax.devices()) with them."
    )


def does_not_fit(sharding: jax.sharding.Sharding, shape: Shape) -> str:
    """Why a sharding refuses a shape: too many dimensions named, or sizes that do not divide."""
    if not isinstance(sharding, jax.NamedSharding):
        return f"{sharding} does not fit an array of shape {shape}."
    spec, sizes = sharding.spec, dict(sharding.mesh.shape)
    if len(spec) > len(shape):
        return (
            f"The spec {as_typed(spec)} has {len(spec)} entries, "
            f"and an array of shape {shape} has {len(shape)}."
        )
    for dimension, (size, names) in enumerate(zip(shape, entries(spec), strict=False)):
        axes = names if isinstance(names, tuple) else (names,)
        count = math.prod(sizes.get(name, 1) for name in axes)
        if size % count:
            return (
                f"{as_typed(spec)} cuts dimension {dimension} into {count} blocks, and its size, "
                f"{size}, is not a multiple of {count}: JAX wants equal blocks."
            )
    return f"{as_typed(spec)} on a mesh of {sizes} does not fit an array of shape {shape}."
