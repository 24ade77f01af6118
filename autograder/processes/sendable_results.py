"""The result of a function in one process, in a form that can be sent to its parent."""

from dataclasses import dataclass
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np

from shardlings.errors import UsageError
from shardlings.layouts import Block, Layout, Shape


class ResultNotSendableError(Exception):
    """A function's result cannot be sent to the parent; the message says why and what to do."""


def pickle_result(result: Any) -> bytes:
    """Pickle what a function returned.

    Raises:
        ResultNotSendableError: it cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as error:
        raise ResultNotSendableError(
            f"What your function returns cannot leave its process: {error}. Return what is to be "
            f"known of it, such as its str(…)."
        ) from error


@dataclass(frozen=True, repr=False)
class AddressableShards:
    """The shards of a global array that one process holds.

    Attributes:
        shape: the array's global shape, in elements.
        dtype: the NumPy name of its type.
        shards: for each device of the process, the device's number among all devices, the block
            that it holds, and the block's values.
        layout: the block of each device, those of other processes included; `show` draws it.
    """

    shape: Shape
    dtype: str
    shards: tuple[tuple[int, Block, np.ndarray], ...]
    layout: Layout

    @classmethod
    def of(cls, array: jax.Array) -> "AddressableShards":
        """Return the shards of an array that this process holds."""
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
        """Refuse to be used as the global array."""
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
        block_shape = self.shards[0][2].shape
        shards = f"one of its shards is here, {block_shape} on device {numbers[0]}"
        if numbers[1:]:
            shards = f"{len(numbers)} of its shards are here, {block_shape} on each of devices "
            shards += f"{numbers[0]} to {numbers[-1]}"
        return f"{self.dtype}[{sizes}]: {shards}"


def make_sendable(result: Any) -> Any:
    """Replace the arrays in a result by what can be sent to the parent.

    An array on several devices becomes `AddressableShards`, and an array on one device, which
    belongs to this process alone, becomes a NumPy array.
    """
    return jax.tree.map(_make_leaf_sendable, result)


def _make_leaf_sendable(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):  # random keys
        value = jax.random.key_data(value)
    if len(value.sharding.device_set) == 1:
        return np.asarray(value)
    return AddressableShards.of(value)


def _block(index: tuple[slice, ...], shape: Shape) -> Block:
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))
