"""Describe the shards of an array on the devices of one process."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from autograder.errors import UsageError
from autograder.layouts import Block, Layout, Shape


@dataclass(frozen=True, repr=False)
class AddressableShards:
    """An array as one process sees it: what leaves the process in the array's place.

    Attributes:
        shape: the array's global shape, in elements.
        dtype: the NumPy name of its type.
        shards: for each device of the process, by its number among all devices, which block of the
            array it holds, and the block's values.
        layout: which block each device holds, those of all processes; `show` draws it.
    """

    shape: Shape
    dtype: str
    shards: tuple[tuple[int, Block, np.ndarray], ...]
    layout: Layout

    @classmethod
    def of(cls, array: jax.Array) -> "AddressableShards":
        """What this process holds of an array."""
        number = {device: i for i, device in enumerate(jax.devices())}
        indices = array.sharding.devices_indices_map(array.shape)
        return cls(
            array.shape,
            array.dtype.name,
            tuple(
                (number[shard.device], _block(shard.index, array.shape), np.asarray(shard.data))
                for shard in sorted(array.addressable_shards, key=lambda s: number[s.device])
            ),
            Layout.from_blocks(
                array.shape,
                {number[device]: _block(index, array.shape) for device, index in indices.items()},
            ),
        )

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """Refuse to be taken for the whole array."""
        raise UsageError(
            f"Of this array of shape {self.shape}, only what one process holds came back. Its "
            f".shards have it: for each device its number, its block, and the block's values."
        )

    def __repr__(self) -> str:
        """Such as `float32[16,4]: 4 of its shards are here, (2, 4) on each of devices 0 to 3`."""
        sizes = ",".join(map(str, self.shape))
        if not self.shards:
            return f"{self.dtype}[{sizes}]: none of its shards are here"
        numbers = [device for device, _, _ in self.shards]
        block = self.shards[0][2].shape
        said = f"one of its shards is here, {block} on device {numbers[0]}"
        if numbers[1:]:
            said = f"{len(numbers)} of its shards are here, {block} on each of devices "
            said += f"{numbers[0]} to {numbers[-1]}"
        return f"{self.dtype}[{sizes}]: {said}"


def leaving(result: Any) -> Any:
    """A result as it can leave its process, with `AddressableShards` for arrays that are shared.

    An array on one device only, which no other process knows of, is a NumPy array.
    """
    return jax.tree.map(_leaving, result)


def _leaving(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):  # random keys
        value = jax.random.key_data(value)
    if len(value.sharding.device_set) == 1:
        return np.asarray(value)
    return AddressableShards.of(value)


def _block(index: tuple[slice, ...], shape: Shape) -> Block:
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))
