"""What JAX's errors on layouts and programs usually mean, and what they are diagnosed as."""

import linecache
import re
from typing import Final

import jax

from autograder.errors.messages import said

MEANINGS: Final = (
    # what JAX's message has in it: a diagnosis, and what it usually means
    (
        r"incompatible devices.*device ids \[\d+\] on",
        "one-device",
        "Something in it was placed on one device alone, and the arguments are on several: a "
        "program runs on one list of devices.",
    ),
    (
        r"Received incompatible devices",
        "different-devices",
        "Two meshes in it have their devices in different orders, or not the same devices: a "
        "program runs on one list of devices.",
    ),
    (
        r"can only refer to Auto axes|cannot contain axis names that are of type|acts as an assert",
        "other-modes-verb",
        "with_sharding_constraint speaks of Auto axes; jax.reshard and out_sharding of Explicit "
        "ones. Look at the mode of the mesh.",
    ),
    (
        r"ambiguous how the output should be sharded",
        "ambiguous",
        "JAX asks how the result is to be laid out, since its rules allow more than one way.",
    ),
    (
        r"get_mesh.* can only be used outside of",
        "get-mesh",
        "The check compiles your function, and while it is compiled jax.sharding.get_mesh() cannot "
        "be asked. jax.sharding.get_abstract_mesh() can; and in the body of a shard_map, "
        "lax.axis_size tells how many devices there are along an axis.",
    ),
    (
        r"not under a mesh context",
        "bare-spec",
        "A spec alone names no mesh: jax.NamedSharding(mesh, spec) joins the two.",
    ),
    (
        r"is not found in mesh|not found in the mesh|must refer to an axis marked as manual",
        "unknown-axis",
        "The spec names an axis that the mesh does not have.",
    ),
    (
        r"Length of device assignment|should match the aval mesh|Mesh for all inputs should",
        "from-outside",
        "Two arrays or shardings in it are on different meshes. Is something from outside of the "
        "function used in it, or is its argument not used at all?",
    ),
    (
        r"unexpected keyword argument 'out_sharding'",
        "no-out-sharding",
        "This operation takes no out_sharding; jax.reshard lays its result out.",
    ),
    (
        r"on sharded dims where out dim|cannot be sharded on the axis being rolled over",
        "untypable",
        "On Explicit axes every array on the way has a type that says how it is cut, and for this "
        "step JAX can write none down. On an island (jax.sharding.auto_axes) nobody asks for the "
        "types in between; the island's out_sharding must name the Explicit mesh, or no axes are "
        "opened.",
    ),
    (
        r"out_specs which require replication",
        "not-replicated",
        "out_specs leaves an axis out, which says that all devices along it return the same; and "
        "as far as JAX can tell, what the body returns may differ. Often a psum is missing. (After "
        "an all_gather all have the same, but its type does not say so.) The check is the only one "
        "to notice: leave it on.",
    ),
    (
        r"scatter dimension size",
        "untiled",
        "Without tiled=True the dimension that is scattered must be as long as there are devices, "
        "and it goes away; with it, it must be a multiple. It is dimension 0, unless "
        "scatter_dimension says otherwise.",
    ),
    (
        r"contracting dimensions to have the same shape",
        "blocks-do-not-fit",
        "The two blocks do not go together: of the contracted dimension, a device has more of the "
        "one than of the other. Gather what is missing (axis= says along which dimension, "
        "tiled=True joins the blocks), or slice what is too much.",
    ),
    (
        r"sources and destinations must be unique",
        "wrong-pairs",
        "Each device of this mesh may send once and receive once. If the pairs are for another "
        "number of devices: lax.axis_size tells it.",
    ),
    (
        r"manual axis types do not match|varying manual axes",
        "varying-mismatch",
        "Two values that must have the same type differ in this: one is the same on all devices "
        "along an axis, the other is not. A loop's carry that starts as a plain constant is the "
        "usual case; jax.lax.pcast(value, axis_name, to='varying') makes it one that may vary.",
    ),
    (
        r"not evenly divisible|does not evenly divide",
        "does-not-divide",
        "A dimension is to be cut into more parts than divide it. Look at which dimension each "
        "entry of the spec speaks of.",
    ),
    (
        r"does not match the specs of the input",
        "other-specs",
        "With Explicit axes in_specs must say how the argument is laid out already; jax.reshard "
        "lays it out anew before.",
    ),
    (
        r"which is too long to be compatible",
        "rank",
        "A spec has more entries than the array has dimensions. In the body, a dimension that was "
        "indexed or summed away is gone, and out_specs needs one for each that it names.",
    ),
    (
        r"unbound axis name|axis name .* not found|found an unbound",
        "unbound-axis",
        "The mesh has no axis of that name, or the call stands outside of shard_map's body.",
    ),
    (
        r"should match the mesh passed to shard_map",
        "other-mesh",
        "A shard_map in it has a mesh already. Without `mesh=` it takes the current one, whichever "
        "that is.",
    ),
)
"""What JAX's errors on layouts usually mean: the first that fits."""

DIAGNOSES: Final = frozenset(
    {"raised", "asks-for-numbers", "only-the-first", *(name for _, name, _ in MEANINGS)}
)
"""What an answer that raised may be diagnosed with."""


def meaning_of(error: BaseException) -> tuple[str, str]:
    """A diagnosis of an error that JAX raised in a learner's function, and what it usually means.

    Returns:
        `"raised"` and nothing where nothing is known of such an error.
    """
    if isinstance(
        error, jax.errors.TracerArrayConversionError | jax.errors.ConcretizationTypeError
    ):
        return (
            "asks-for-numbers",
            "While a function is compiled there are no numbers yet: what asks an array for its "
            "numbers (NumPy, float(), an `if`) cannot be part of a program for many devices.",
        )
    if _is_jaxs_assertion(error):
        return "unbound-axis", (
            "JAX says no more here. Does a collective name an axis that the mesh does not have?"
        )
    words = said(error)
    for pattern, diagnosis, meaning in MEANINGS:
        if re.search(pattern, words, re.IGNORECASE):
            return diagnosis, meaning
    return "raised", ""


def _is_jaxs_assertion(error: BaseException) -> bool:
    """Whether it is an assertion without a message that is not written in the learner's line."""
    step = error.__traceback__
    if not isinstance(error, AssertionError) or said(error) or step is None:
        return False
    while step.tb_next is not None:
        step = step.tb_next
    if str(step.tb_frame.f_globals.get("__name__", "")).startswith("jax."):
        return True  # its frames are there, or left out
    return "assert" not in linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno)
