"""Explain programs that cannot be judged."""

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp


class ProgramError(ValueError):
    """An exported program cannot be judged.

    Attributes:
        diagnosis: why, in a word or two.
        mapped: whether there is a `shard_map` in it, as far as is known.
    """

    def __init__(self, diagnosis: str, sentence: str, mapped: bool = True) -> None:
        super().__init__(sentence)
        self.diagnosis = diagnosis
        self.mapped = mapped


UNREDUCED: Final = (
    "unreduced",
    "The result is still unreduced: each device holds a part of every sum, and the parts have to "
    "be added up before anybody can read it. jax.reshard does that.",
)
"""The diagnosis of what is still to be added up, and the sentence."""


TRANSFORM_IN_OTHER_ORDER: Final = (
    "error-of-xla",
    "XLA compiles this program for a CPU and then fails to run it, by an error of its own: its "
    "Fourier transform works only on arrays in row-major order, and the compiler chose another "
    "order for one. This does not tell whether your values are right. It usually happens where "
    "the result of a transform is gathered or scattered along another dimension than the first: "
    "gather first and transform then, or exchange with an all-to-all, after which the transform "
    "runs.",
)
"""The diagnosis of a program that fails in XLA's transform, and the sentence."""


def refuse_unreduced(results: Sequence[Any]) -> None:
    """What is still unreduced has no values: JAX neither prints nor, in part, exports it.

    Nor have random keys, which are no numbers.
    """
    if any(jnp.issubdtype(r.dtype, jax.dtypes.extended) for r in results):
        raise ProgramError(
            "dtype", "The function returned random keys; expected an array of numbers."
        )
    if any(getattr(getattr(r.sharding, "spec", None), "unreduced", None) for r in results):
        raise ProgramError(*UNREDUCED)
