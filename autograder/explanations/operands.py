"""Find out whether an error is about blocks, and which operand of a matmul is still one."""

import dis
import math
from types import FrameType
from typing import Any, Final

import jax

from shardlings.errors import frame_owner

NOT_GATHERED: Final = "not-gathered"
"""The diagnosis of a matmul one of whose operands is a device's block, and shorter for it."""


def describe_ungathered_operand(error: BaseException) -> str:
    """Say which operand of a failed matmul is a device's block of the length that fits.

    Returns:
        Sentences for the learner; empty unless both operands are names, and one is shorter by the
        number of devices along a mesh axis, or along all of them.
    """
    frame, instruction = _learners_frame(error)
    if frame is None:
        return ""
    names = _operand_names(frame, instruction)
    values: list[Any] = [frame.f_locals.get(name) for name in names]
    if len(values) != 2 or not all(isinstance(value, jax.Array) for value in values):
        return ""
    if not 0 < min(value.ndim for value in values) <= max(value.ndim for value in values) <= 2:
        return ""  # an untiled all_gather adds a dimension
    lengths = values[0].shape[-1], values[1].shape[0]
    short = lengths.index(min(lengths))
    if not min(lengths) or max(lengths) / min(lengths) not in _block_counts(values[short]) - {1}:
        return ""
    dimensions = [
        name if value.ndim == 2 else "elements"
        for name, value in zip(("columns", "rows"), values, strict=True)
    ]
    block, whole = names[short], names[1 - short]
    return (
        f"Here `{block}` has {min(lengths)} {dimensions[short]}, and `{whole}` has {max(lengths)} "
        f"{dimensions[1 - short]}, so they differ by a number of devices. Is `{block}` a block "
        f"that has to be gathered before this line? Does `{whole}` have to be sliced, or was it "
        f"gathered along the wrong dimension? Or do in_specs have to change?"
    )


def is_outside_of_bodies(error: BaseException) -> bool:
    """Check whether the learner's line that raised an error has arrays, and none is a block.

    In the body of a shard_map, arrays are blocks.
    """
    frame, _ = _learners_frame(error)
    values = list(frame.f_locals.values()) if frame is not None else []
    arrays = [value for value in values if isinstance(value, jax.Array)]
    return bool(arrays) and not any(jax.typeof(array).sharding.mesh.manual_axes for array in arrays)


def _learners_frame(error: BaseException) -> tuple[FrameType | None, int]:
    """Return the learner's innermost frame that an error passed, and its instruction."""
    innermost: tuple[FrameType | None, int] = None, 0
    traceback = error.__traceback__
    while traceback is not None:
        if frame_owner(traceback.tb_frame) == "theirs":
            innermost = traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next
    return innermost


def _operand_names(frame: FrameType, instruction: int) -> list[str]:
    """Return the names of the operands of `a @ b` or `jnp.dot(a, b)`; other code may have none."""
    names: list[str] = []
    earlier = [each for each in dis.get_instructions(frame.f_code) if each.offset < instruction]
    for each in reversed(earlier):
        if each.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            names = [*loaded, *names]
        elif each.opname != "PRECALL" or names:
            break
    return names[-2:]


def _block_counts(value: Any) -> set[int]:
    """Return the numbers of blocks that an array in a body may be one of: none outside of one.

    Where JAX knows the axes along which the array varies, the others make no blocks of it.
    """
    kind = jax.typeof(value)
    mesh = kind.sharding.mesh
    known = getattr(kind, "vma", None)  # in old versions of JAX
    if known is None:
        known = getattr(getattr(kind, "manual_axis_type", None), "varying", None)
    varies = known or mesh.manual_axes  # none are known with check_vma=False
    sizes = [mesh.shape[axis] for axis in mesh.manual_axes if axis in varies]
    return {*sizes, math.prod(sizes)}
