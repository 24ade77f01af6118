"""Explain errors that a learner's function raised while JAX traced or compiled it.

Each explanation has a diagnosis, what the error usually means, the line that raised it, and JAX's
own message.
"""

import dis
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax

from autograder.explanations.operands import (
    NOT_GATHERED,
    describe_ungathered_operand,
    is_outside_of_bodies,
)
from shardlings.errors import (
    describe_error,
    first_line,
    frames_of,
    last_line,
    line_in_cell,
    message_of,
    unwrap,
)

RAISED: Final = "raised"
"""The diagnosis of an error that is not known."""

BLOCKS_DO_NOT_FIT: Final = "blocks-do-not-fit"
"""The diagnosis of a matmul whose operands differ in the length of the contracted dimension."""

UNBOUND: Final = (
    "A collective names an axis that the mesh does not have, or it is called outside the body of a "
    "shard_map."
)
"""The meaning of an unbound axis. JAX's own message is sometimes empty."""

RAISE: Final = dis.opmap["RAISE_VARARGS"]
"""The opcode of `raise` and of a failing `assert`."""

REDUCTION_OR_AXIS: Final = (
    "Is a reduction over {axes} missing (lax.psum for a sum, lax.pmax for a maximum), or should "
    "out_specs name {axes}? (check_vma=False only hides this, unless the values are equal and JAX "
    "cannot prove it, as after an all_gather.)"
)
"""The question about a result that may differ along axes that out_specs leaves out."""

JAX_SAYS: Final = "JAX says: "
"""The text before JAX's own message, which comes last."""

NOT_DIVIDED: Final = re.compile(
    r"parameter '(\w+)'[^\n]*? maps array axis (\d+) \(of size (\d+)\) to (mesh ax[^\n]*?), but "
)
"""JAX's line on an argument of a `shard_map` whose dimension is not a multiple of the number of
shards; it is not the first line of the message."""

NOT_REPLICATED: Final = re.compile(
    r"(?s)applied to the function '(?P<body>[^']*)'.*?"
    r"out_specs(?P<place>\S*) is [^\n]*?"
    r"(?:and not \{(?P<several>[^}]+)\}|replicated across mesh axis '(?P<one>[^']+)')"
)
"""JAX's lines on the first result that may differ along axes that out_specs leaves out."""

TYPE: Final = r"\w+\[[^\]]*\](?:\{[^}]*\})?"
"""The type of an array, as JAX writes it: `float32[8@x,4]{U:y}`."""

MEANINGS: Final = (
    # A pattern in JAX's message, the diagnosis, and what the error usually means. A named group of
    # the pattern replaces its name in the meaning. What is in brackets is left out if the error was
    # raised outside the bodies of shard_maps.
    (
        r"incompatible devices.*device ids \[\d+\] on",
        "one-device",
        "Something that the function uses is on one device only, and its arguments are on several: "
        "a program runs on one list of devices.",
    ),
    (
        r"Received incompatible devices",
        "different-devices",
        "Two meshes in the program have different devices, or the same devices in different "
        "orders: a program runs on one list of devices.",
    ),
    (
        r"can only refer to Auto axes|cannot contain axis names that are of type|acts as an assert",
        "other-modes-verb",
        "with_sharding_constraint is for Auto axes; jax.reshard and out_sharding are for Explicit "
        "axes. Look at the mode of the mesh.",
    ),
    (
        r"ambiguous how the output should be sharded",
        "ambiguous",
        "JAX's rules allow more than one layout for the result, so it asks which one you want.",
    ),
    (
        r"ShapeDtypeStruct|Non-hashable static arguments",
        "static-argument",
        "Is an argument static, by static_argnums or static_argnames of jax.jit? A static argument "
        "needs its value when JAX compiles the function, and the check compiles it before there "
        "are values. Make it an ordinary argument.",
    ),
    (
        r"get_mesh.* can only be used outside of",
        "get-mesh",
        "The check compiles your function, and jax.sharding.get_mesh() cannot be called in what is "
        "being compiled. jax.sharding.get_abstract_mesh() can; and in the body of a shard_map, "
        "lax.axis_size tells how many devices there are along an axis.",
    ),
    (
        r"not under a mesh context|requires a non-empty mesh in context",
        "bare-spec",
        "A spec by itself names no mesh: jax.NamedSharding(mesh, spec) joins the two.",
    ),
    (
        r"must refer to an axis marked as manual \(frozenset\(\)\)",
        "nested-shard-map",
        "A shard_map is called where no axis of the mesh is left for it. In the body of another "
        "one over the same mesh, all are in use. Is there one around it?",
    ),
    (
        r"is not found in mesh|not found in the mesh|must refer to an axis marked as manual",
        "unknown-axis",
        "The spec names an axis that the mesh does not have.",
    ),
    (
        r"Length of device assignment|should match the aval mesh|Mesh for all inputs should",
        "from-outside",
        "Two arrays or shardings in the program are on different meshes. Does the function use "
        "something from outside, or does it not use its argument at all?",
    ),
    (
        r"unexpected keyword argument 'out_sharding'",
        "no-out-sharding",
        "This operation takes no out_sharding; use jax.reshard on its result.",
    ),
    (
        r"on sharded dims where out dim|cannot be sharded on the axis being rolled over",
        "untypable",
        "With Explicit axes, the type of every intermediate array says how it is sharded, and for "
        "this step there is no such type. Within jax.sharding.auto_axes, intermediate arrays need "
        "none. Its out_sharding must be on the Explicit mesh; otherwise it has no effect. If it "
        "has axes=, only the axes in it are Auto there, and all others stay Explicit.",
    ),
    (
        r"(?P<operation>\w+) operation with inputs: (?P<inputs>.*) produces an illegally sharded",
        "same-axis-twice",
        "`{operation}` is called on arrays of types {inputs}. With these, two dimensions of its "
        "result would be sharded over the same mesh axis, which is impossible. Are the arguments "
        "in the right order, and is this the operation that you mean?",
    ),
    (
        r"out_specs which require replication",
        "not-replicated",
        "A result of the body may differ from device to device, but out_specs leaves out an axis, "
        "which promises the same value on all devices along it. "
        f"{REDUCTION_OR_AXIS.format(axes='this axis')}",
    ),
    (
        r"(?s)different lengths of .*pjit out_shardings.* length (?P<given>\d+), but .* "
        r"length (?P<expected>\d+)",
        "other-structure",
        "out_shardings of jax.jit has another number of entries than the function has results: "
        "{given}, and {expected} are expected. It may also be one sharding or spec for all of "
        "them.",
    ),
    (
        r"(?s)(?:pjit|shard_map) (?P<what>out_s\w+).* type\s+<class '(?P<given>\w+)'>.* type\s+"
        r"<class '(?P<expected>\w+)'>",
        "other-structure",
        "{what} is a {given} where the function returns a {expected}: both have to be built alike.",
    ),
    (
        r"pytree structure error",
        "other-structure",
        "Two structures do not agree, such as what the body of a shard_map returns and its "
        "out_specs: a list and a tuple, or one with more entries than the other.",
    ),
    (
        r"Cannot interpret value of type <class '[\w.]*Sharding'> as an abstract array",
        "sharding-for-array",
        "A sharding stands where an array is expected. In with_sharding_constraint and device_put, "
        "the array comes first.",
    ),
    (
        r"shardings leaf specifications are expected to be .* but got",
        "no-sharding",
        "The layout that with_sharding_constraint is asked for is neither a sharding nor a spec. A "
        "mesh alone, or an array, is none: jax.NamedSharding(mesh, spec) makes one.",
    ),
    (
        r"Using \*pspec is dangerous|'(P|PartitionSpec)' object has no attribute '_is_concrete'",
        "unreduced-elsewhere",
        "Only some functions of JAX accept a spec with reduced or unreduced axes: "
        "jax.sharding.reshard does, constraints and `device=` do not.",
    ),
    (
        r"'sharding' attribute is not available on traced",
        "asks-for-sharding",
        "While JAX compiles a function, its arrays are on no device yet, and have no sharding. On "
        "Auto axes the compiler chooses it; say what you want by out_shardings of jax.jit, or by a "
        "constraint.",
    ),
    (
        r"cannot be unreduced",
        "unreduced-operand",
        "An operand is unreduced: each device has a part of a sum that was not added up. `reduced` "
        "is another word: the array is whole on each device, and its gradient may stay unreduced. "
        "Which of the two is meant?",
    ),
    (
        r"Size of label '(?P<label>.)' for operand \d+ \((?P<one>\d+)\) does not match previous "
        r"terms \((?P<other>\d+)\)",
        "letter-of-two-lengths",
        "In an einsum, the letter {label} stands for a dimension of length {other} in one array "
        "and of length {one} in another. [In the body of a shard_map, these are the lengths of "
        "blocks. Is one of the two arrays sharded along this dimension, and the other not?]",
    ),
    (
        r"Cannot lower jaxpr with verifier errors",
        "nested-shard-map",
        "JAX made a program that its compiler refuses. A shard_map in the body of another one can "
        "be the reason: inside, both take blocks of blocks along the same axes. Is there one?",
    ),
    (
        r"unreduced axes should be equal to the contracting specs\. Got unreduced axes=frozenset\("
        r"\{(?P<given>[^}]*)\}\) and contracting spec=\((?P<axes>[^)]*?),?\)",
        "other-unreduced-axes",
        "Partial sums arise along the mesh axes over which the contracting dimension is sharded: "
        "here {axes}. The out_sharding says unreduced={{{given}}}. It has to name the same axes.",
    ),
    (
        r"[lr]hs is unreduced while [lr]hs is not",
        "one-side-unreduced",
        "One side of an operation is unreduced, so that each device has a part of it, and the "
        "other is complete. A reshard to a spec without unreduced axes, such as `P()`, adds the "
        "parts up. In a loop it would do so in every turn: does a sum over the turns begin with "
        "the same type as what is added to it? Is a gradient taken of weights that are `reduced`, "
        "so that it is unreduced?",
    ),
    (
        r"unreduced rule for (?P<operation>\w+) is not implemented",
        "unreduced-operand",
        "An operand is unreduced: each device has a part of a sum that was not added up, and JAX "
        "has no rule for this operation ({operation}) on such an array. After a reshard that adds "
        "the parts up, it is an array like any other.",
    ),
    (
        r"Denominator should be reduced along the same axes numerator is unreduced on",
        "unreduced-operand",
        "The numerator is unreduced: each device has a part of a sum that was not added up. After "
        "a reshard that adds the parts up, it is an array like any other.",
    ),
    (
        r"spmd_axis_name cannot appear in shard_map",
        "axis-in-specs",
        "The spmd_axis_name of a vmap is the mesh axis that shards the dimension which vmap adds. "
        "The specs of the shard_map name this axis already, for another dimension.",
    ),
    (
        r"tiled reduce_scatter operand scatter dimension size (?P<size>\d+) must be divisible by "
        r"shard_count (?P<count>\d+)",
        "scatter-does-not-divide",
        "psum_scatter splits a dimension of a device's block into {count} pieces, one for each "
        "device, and here its length is {size}, which is not a multiple of {count}. Does the block "
        "have everything that is to be split, or did something have to be gathered before this "
        "line? The dimension is 0, unless scatter_dimension says otherwise.",
    ),
    (
        r"scatter dimension size",
        "untiled",
        "Without tiled=True, the scattered dimension must have one element for each device. If "
        "each device is to keep several, write tiled=True; then the length must be a multiple of "
        "the number of devices. It is dimension 0, unless scatter_dimension says otherwise.",
    ),
    (
        r"all_to_all requires the size of the mapped axis",
        "untiled",
        "Without tiled=True, the dimension that is split must be as long as there are devices, and "
        "is dropped. With tiled=True, its length must be a multiple of the number of devices.",
    ),
    (
        r"all_to_all split_axis .* divisible by the size of the named axis \(",
        "split-over-several-axes",
        "This all_to_all runs over several axes of the mesh at once. It splits dimension "
        "split_axis of a device's block into as many pieces as there are devices along all of "
        "them, and the block's dimension is not a multiple of that.",
    ),
    (
        r"all_to_all split_axis .* divisible by the size of the named axis",
        "split-does-not-divide",
        "An all_to_all splits dimension split_axis of a device's block into one piece for each "
        "device along the axis, and this dimension is not a multiple of their number. A block has "
        "only a part of a dimension that in_specs or an earlier collective has sharded.",
    ),
    (
        r"only real valued inputs supported for rfft",
        "real-input",
        "rfft, rfft2 and rfftn take real numbers, and return only half of the waves. This array is "
        "complex.",
    ),
    (
        r"(?P<operation>\w+) got incompatible shapes for broadcasting: (?P<one>\([\d, ]*\)), "
        r"(?P<other>\([\d, ]*\))",
        "shapes-do-not-fit",
        "`{operation}` is called on arrays of shapes {one} and {other}, which do not fit together. "
        "[If it stands in the body of a shard_map, these are the shapes of blocks: do in_specs "
        "give the body the blocks that it is meant to get, and is this the operation that you "
        "mean? A collective may change a block's shape too.]",
    ),
    (
        r"Cannot broadcast to shape with fewer dimensions: arr_shape=(?P<one>\([\d, ]*\)) "
        r"shape=(?P<other>\([\d, ]*\))",
        "shapes-do-not-fit",
        "An array of shape {one} is put where one of shape {other} belongs. [In the body of a "
        "shard_map, these are the shapes of blocks.]",
    ),
    (
        r"Incompatible shapes for broadcasting: shapes=\[(?P<one>\(\d+, [\d, ]*\)), "
        r"(?P<other>\(\d+,\))\]",
        "shapes-do-not-fit",
        "The shapes of two arrays do not fit together: {one} and {other}. Is the second one number "
        "for each row? Indexed by `:, None`, it is a column.",
    ),
    (
        r"Incompatible shapes for broadcasting",
        "shapes-do-not-fit",
        "The shapes of two arrays do not fit together. [If this is in the body of a shard_map, "
        "shapes are those of blocks: do in_specs give the body the blocks that it is meant to "
        "get? A collective may change a block's shape too.]",
    ),
    (
        r"contracting dimensions to have the same shape, got \((?P<one>\d+),\) and "
        r"\((?P<other>\d+),\)",
        BLOCKS_DO_NOT_FIT,
        "A matmul is called on arrays that do not fit together: along the contracted dimension, "
        "the left one has length {one} and the right one {other}. Are they in the right order? "
        "[If it stands in the body of a shard_map, these are blocks: do in_specs give the body the "
        "blocks that it is meant to get, and what do a transpose or a collective before the "
        "matmul make of them?]",
    ),
    (
        r"contracting dimensions to have the same shape",
        BLOCKS_DO_NOT_FIT,
        "A matmul is called on arrays that do not fit together: their contracted dimensions have "
        "different lengths. [If it stands in the body of a shard_map, these are blocks: do "
        "in_specs give the body the blocks that it is meant to get?]",
    ),
    (
        r"can only accept axis_name which corresponds to one of .* axes: (?P<axes>\(?.*?\)?) and "
        r"input state: .*'invarying'",
        "same-along-an-axis",
        "This collective runs over the axes {axes}, and along one of them all devices hold the "
        "same value, as far as JAX can tell. Over which axis do the devices have different parts?",
    ),
    (
        r"Unsupported pcast from=varying, to='varying'",
        "varies-already",
        "A pcast makes a value varying along an axis, and this one varies along it already: "
        "in_specs shards it over the axis, or it is computed from something that varies. Then it "
        "needs no pcast. Or is each device meant to have all of it? Then in_specs has to replicate "
        "it.",
    ),
    (
        r"sources and destinations must be unique",
        "wrong-pairs",
        "Each device may send once and receive once. If your pairs are for another number of "
        "devices, lax.axis_size tells how many there are.",
    ),
    (
        r"(?s)carry input and carry output must have equal types.*to the initial carry value",
        "varying-mismatch",
        "The carry of the loop starts with a value that is the same on all devices along an axis, "
        "and a step makes one that may vary. Start it with "
        "jax.lax.pcast(value, axis_name, to='varying').",
    ),
    (
        r"(?s)carry input and carry output must have equal types"
        r".*(?:manual axis types|varying manual axes) do not match",
        "varying-mismatch",
        "The carry of the loop may vary along an axis, and a step makes one that is the same on "
        "all devices, as a psum does. If that is meant, jax.lax.pcast(value, axis_name, "
        "to='varying') gives it the type of the carry again.",
    ),
    (
        r"manual axis types do not match|varying manual axes",
        "varying-mismatch",
        "Two values must have the same type, but one is the same on all devices along an axis and "
        "the other may vary. Is one of them made by a psum? Or does a loop's carry start as a "
        "plain constant? jax.lax.pcast(value, axis_name, to='varying') gives a constant the type "
        "of a value that may vary.",
    ),
    (
        r"(?s)carry input and carry output must have equal types.*? has type (?P<one>" + TYPE + ")"
        r".*? has type (?P<other>\w+\[[^\]]*\]\{U:(?P<axis>\w+)\})",
        "carry-unreduced",
        "What a loop carries has the type {one} before a step and {other} after it, which is a sum "
        "that is still unreduced over {axis}. Should the loop begin with an unreduced sum, or each "
        "step reduce its own?",
    ),
    (
        r"(?s)carry input and carry output must have equal types.*? has type (?P<one>" + TYPE + ")"
        r".*? has type (?P<other>" + TYPE + ")",
        "carry-changes",
        "What a loop carries has the type {one} before a step and {other} after it. [In the body "
        "of a shard_map, these are types of blocks.]",
    ),
    (
        r"carry input and carry output must have equal types",
        "carry-changes",
        "What a loop carries has another type after a step than before it. [In the body "
        "of a shard_map: is it computed with a block of something that the step needs whole?]",
    ),
    (
        r"buffer size must be a multiple of element size",
        "bytes-left-over",
        "np.frombuffer is given a number of bytes that is not a multiple of an element's bytes. Is "
        "a size counted in elements where bytes are meant?",
    ),
    (
        r"cannot reshape array",
        "does-not-reshape",
        "A reshape keeps the number of elements. Take every size from the array itself[, which, if "
        "this is the body of a shard_map, is one device's block].",
    ),
    (
        r"slice (indices must have|entries must be) static",
        "slice-at-run-time",
        "A slice ends or begins at a number that is known only when the program runs, but shapes "
        "have to be known when JAX compiles it. Keep the array's shape, and mask what should not "
        "count.",
    ),
    (
        r"boolean indices must be concrete",
        "mask-as-index",
        "A mask as an index selects as many elements as it has True, which is known only when the "
        "program runs, but shapes have to be known when JAX compiles it. jnp.where(mask, a, b) "
        "keeps the shape.",
    ),
    (
        r"This reshape is not supported.*sharding of the output",
        "reshape-of-a-sharded-dimension",
        "On Explicit axes, a reshape that joins or splits a sharded dimension has to be told the "
        "layout of its result.",
    ),
    (
        r"vmap in_axes must be .* len\(in_axes\)=(?P<given>\d+), len\(args\)=(?P<count>\d+)",
        "in-axes-length",
        "The length of in_axes is {given}, and the mapped function gets {count} arguments. in_axes "
        "has an entry for each argument, or it is one number for all of them.",
    ),
    (
        r"vmap in_axes must be an int, None, or a tuple .* but got (?P<given>\w+)",
        "in-axes",
        "The second argument of jax.vmap is in_axes, and here it is {given}; expected the "
        "number of the dimension that is mapped, or None.",
    ),
    (
        r"array axis (?P<d>\d+) is partitioned (?P<count>\d+) times, but the dimension size is "
        r"(?P<size>\d+) \(full shape: (?P<shape>\([\d, ]*\))",
        "does-not-divide",
        "Dimension {d} of an array of shape {shape} has the size {size}, which is no multiple of "
        "{count}, the number of its shards.",
    ),
    (
        r"not evenly divisible|does not evenly divide",
        "does-not-divide",
        "A dimension's size is not a multiple of its number of shards. Look at which dimension "
        "each entry of the spec is for.",
    ),
    (
        r"Expected shard shape .* doesn't match the single device array shape",
        "block-shape",
        "A device was given a block of another shape than its shard has.",
    ),
    (
        r"does not match the specs of the input",
        "other-specs",
        "With Explicit axes, in_specs must match the argument's layout. To change the layout, use "
        "jax.reshard first.",
    ),
    (
        r"which is too long to be compatible",
        "rank",
        "A spec has more entries than its array has dimensions. A dimension that the body indexes "
        "or sums over is gone from its result, and out_specs is about the result.",
    ),
    (
        r"only valid for values of rank at least (?P<entries>\d+), but .* of rank (?P<rank>0)",
        "rank",
        "A spec has more entries ({entries}) than its array has dimensions ({rank}). A number has "
        "none, so its spec is P().",
    ),
    (
        r"only valid for values of rank at least (?P<entries>\d+), but .* of rank (?P<rank>\d+)",
        "rank",
        "A spec has more entries ({entries}) than its array has dimensions ({rank}).",
    ),
    (
        r"unbound axis name|axis name .* not found|found an unbound",
        "unbound-axis",
        UNBOUND,
    ),
    (
        r"should match the mesh passed to shard_map",
        "other-mesh",
        "A part of the program runs on a mesh that is not the current one. Does a shard_map name "
        "a mesh? Without `mesh=` it uses the current one. (A pmap always makes a mesh of its own.)",
    ),
)
"""The usual meanings of JAX's errors. The first pattern that matches counts."""

NUMPY_RESHAPE: Final = re.compile(
    r"cannot reshape array of size (?P<size>\d+) into shape \((?P<shape>[\d,]+)\)"
)
"""NumPy's message on a reshape; JAX's tells the shape of the array, too."""

NO_ARRAY: Final = re.compile(
    r"Invoked with types: (?P<given>\w+)|of type <class '(?P<type>[\w.]+)'> is not a valid JAX type"
)
"""JAX's lines on something that is not an array and stands where one is expected."""

PAIRS: Final = re.compile(r"must be unique, got [(\[](?P<pairs>.*)[)\]]")
"""JAX's line on the pairs of a ppermute."""

CALLBACK: Final = "make_array_from_callback"

DIAGNOSES: Final = frozenset(
    {
        RAISED,
        "callback-returns-none",
        "callback-returns-no-array",
        "asks-for-numbers",
        "only-the-first",
        NOT_GATHERED,
        *(name for _, name, _ in MEANINGS),
    }
)
"""The diagnoses of answers that raise an error."""


def explain_error(
    error: BaseException, function: Callable[..., object], axes: Sequence[str]
) -> tuple[str, str]:
    """Return a diagnosis of an error, and an explanation that ends with JAX's own message.

    Args:
        error: the error.
        function: the learner's function.
        axes: the names of the mesh axes of its arguments.
    """
    diagnosis, meaning = diagnose_jax_error(error)
    if diagnosis == BLOCKS_DO_NOT_FIT and (ungathered := describe_ungathered_operand(error)):
        diagnosis, meaning = NOT_GATHERED, ungathered
    if diagnosis == "static-argument" and not _has_static_argument(error, function):
        diagnosis, meaning = RAISED, ""
    if not meaning:
        return diagnosis, f"Your function raised {describe_error(error, function)}."
    where = line_in_cell(error, function)
    place = f" {where[:1].upper()}{where[1:]}." if where else ""
    if diagnosis == "unbound-axis" and not message_of(error):
        quoted = re.findall(r"""['"](\w+)['"]""", last_line(error, function))
        unknown = {*quoted} - {*axes}
        if len(unknown) == 1:
            meaning = (
                f"A collective names the axis {unknown.pop()!r}, which the mesh does not have."
            )
        return diagnosis, f"{meaning} {_list_axes(axes)}{place}"
    if diagnosis in ("unbound-axis", "unknown-axis"):
        meaning = f"{meaning} {_list_axes(axes)}"
    if diagnosis == "does-not-divide":
        meaning = f"{meaning}{_undivided_dimension(message_of(error))}"
    if reshape := NUMPY_RESHAPE.fullmatch(message_of(error)):
        lengths = [int(length) for length in reshape["shape"].split(",") if length]
        return diagnosis, (
            f"NumPy cannot reshape an array of {reshape['size']} elements into the shape "
            f"{tuple(lengths)}, which has {math.prod(lengths)}.{place}"
        )
    if diagnosis == "bytes-left-over":  # NumPy says no more than that
        return diagnosis, f"{meaning}{place}"
    message = first_line(error)
    is_cut_short = message_of(error).strip().startswith(f"{message}:")
    if not message.endswith("…"):
        message += " …" if is_cut_short else "."
    return diagnosis, f"{meaning}{place} {JAX_SAYS}{type(error).__name__}: {message}"


def diagnose_jax_error(error: BaseException) -> tuple[str, str]:
    """Return a diagnosis of an error that JAX raised, and what the error usually means.

    Returns:
        `RAISED` and an empty string for an unknown error.
    """
    if isinstance(error, jax.errors.TracerIntegerConversionError):
        return (
            "asks-for-numbers",
            "While JAX compiles a function, its arrays have no numbers yet, nor has what "
            "lax.axis_index gives. Such a value can neither index a Python list nor count a Python "
            "loop. It can index an array: put what is in the list into one, with jnp.stack.",
        )
    if isinstance(
        error, jax.errors.TracerArrayConversionError | jax.errors.ConcretizationTypeError
    ):
        return (
            "asks-for-numbers",
            "While JAX compiles a function, its arrays have no numbers yet, so NumPy, float() or "
            "an `if` on an array cannot be part of it.",
        )
    if isinstance(error, AssertionError) and is_jax_error_without_message(error):
        return "unbound-axis", UNBOUND
    if isinstance(error, IndexError) and (explanation := _pair_beyond_the_axis(error)):
        return "wrong-pairs", explanation
    message = message_of(error)
    no_array = NO_ARRAY.search(message)
    if no_array and _is_raised_in_callback(error):
        given = no_array["given"] or no_array["type"]
        if given == "NoneType":
            return (
                "callback-returns-none",
                f"The callback of jax.{CALLBACK} returned None. Does it have a `return`?",
            )
        return (
            "callback-returns-no-array",
            f"The callback of jax.{CALLBACK} returned something of type {given}; expected an array "
            f"with the numbers of a block.",
        )
    for pattern, diagnosis, meaning in MEANINGS:
        match = re.search(pattern, message, re.IGNORECASE)
        if match:
            on_blocks = "" if is_outside_of_bodies(error) else r"\1"
            meaning = re.sub(r"\[(.*?)\]", on_blocks, meaning).strip()
            if diagnosis == "wrong-pairs":
                meaning = _devices_beyond_the_axis(message) or meaning
            if diagnosis == "not-replicated" and (varying := _varying_result(message)):
                return diagnosis, varying  # names of axes and results may contain braces
            return diagnosis, meaning.format(**match.groupdict())
    return RAISED, ""


def _is_raised_in_callback(error: BaseException) -> bool:
    """Check whether JAX raised an error in `make_array_from_callback`, or in what this called."""
    traceback, names = error.__traceback__, []
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        is_jaxs = str(frame.f_globals.get("__name__", "")).startswith("jax.")
        names.append(frame.f_code.co_name if is_jaxs else "")
    return bool(names and names[-1]) and CALLBACK in names


def is_jax_error_without_message(error: BaseException) -> bool:
    """Check whether an error has no message and was raised by JAX, not by a line of the learner's.

    JAX may have removed its own frames from the traceback. Then the innermost line of the learner's
    is a call, and not a `raise` or an `assert`.
    """
    innermost = error.__traceback__
    if message_of(error) or innermost is None:
        return False
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    frame = innermost.tb_frame
    if str(frame.f_globals.get("__name__", "")).startswith("jax."):
        return True
    return frame.f_code.co_code[innermost.tb_lasti] != RAISE


def _has_static_argument(error: BaseException, function: Callable[..., object]) -> bool:
    """Check whether an error is about static arguments of a function, or of one that it calls.

    A static argument of the function itself is given a `ShapeDtypeStruct` by the check. One that
    the function made, for example by `jax.eval_shape`, says nothing about static arguments. If JAX
    has traced all of the function, and compiles it, it has met one that is a constant.
    """
    if "static arguments" in message_of(error):
        return True
    code = getattr(unwrap(function), "__code__", None)
    frames = [frame for frame, _ in frames_of(error.__traceback__) if frame.f_code is code]
    return not frames or any(
        isinstance(frame.f_locals.get(name), jax.ShapeDtypeStruct)
        for frame in frames
        for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]
    )


def insert_before_jax_message(explanation: str, sentence: str) -> str:
    """Insert a sentence into an explanation, before JAX's own message.

    Args:
        explanation: from `explain_error`.
        sentence: the sentence to insert.
    """
    ours, says, jaxs = explanation.partition(f" {JAX_SAYS}")
    return f"{f'{ours} {sentence}'.strip()}{says}{jaxs}"


def copy_name(wrapper: Callable[..., Any], function: Callable[..., object]) -> Callable[..., Any]:
    """Give a wrapper the name of the function that it calls, because JAX's messages quote it.

    Args:
        wrapper: the wrapper, which is changed and returned.
        function: the function that it calls.
    """
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and name.isidentifier():
        wrapper.__name__ = wrapper.__qualname__ = name
    return wrapper


def _undivided_dimension(message: str) -> str:
    """Return which dimension in_specs cannot shard evenly, or nothing if JAX does not say."""
    match = NOT_DIVIDED.search(message)
    if match is None:
        return ""
    name, dimension, size, axes = match.groups()
    return f" Here in_specs shards dimension {dimension} of {name}, of size {size}, over {axes}."


def _devices_beyond_the_axis(message: str) -> str:
    """Say that pairs name devices that the axis does not have; empty if they do not.

    JAX counts modulo the size of the axis, and then calls pairs such as (0, 1) and (2, 3) equal.
    """
    match = PAIRS.search(message)
    pairs = re.findall(r"\((-?\d+), (-?\d+)\)", match["pairs"] if match else "")
    ends = [[int(number) for number in end] for end in zip(*pairs, strict=True)]
    if not ends or any(len({*end}) < len(end) or min(end) < 0 for end in ends):
        return ""
    last = max(map(max, ends))
    return (
        f"These pairs go up to device {last}, but the axis of this ppermute has fewer than "
        f"{last + 1} devices. (JAX counts on from 0 again, and then two pairs have the same "
        f"sender or receiver.) Is {last + 1} the size of another axis? lax.axis_size tells the "
        f"size of each."
    )


def _pair_beyond_the_axis(error: IndexError) -> str:
    """Say that a pair names a device that the axis does not have; empty if the error is another.

    JAX looks the devices up in a list when it lowers a `ppermute`.
    """
    frame = next((frame for frame, _ in reversed(frames_of(error.__traceback__))), None)
    if frame is None or frame.f_code.co_name != "_pcollectives_lowering_common":
        return ""
    if frame.f_globals.get("__name__") != "jax._src.lax.parallel":
        return ""  # somebody's own function
    numbers = [number for pair in frame.f_locals.get("perm", ()) for number in pair]
    which = f"device {max(numbers)}" if numbers and min(numbers) >= 0 else "a device"
    return (
        f"A pair of a ppermute names {which}, but the axis has fewer devices: they are "
        f"numbered from 0 to one less than lax.axis_size."
    )


def _varying_result(message: str) -> str:
    """Say which result of a body may differ along which axes; empty if JAX does not name them."""
    match = NOT_REPLICATED.search(message)
    if match is None:
        return ""
    is_named = match["body"].isidentifier() and not match["body"].startswith("_")  # JAX's own do
    body = f"`{match['body']}`" if is_named else "the body"
    result = f"result {match['place']} of {body}" if match["place"] else f"the result of {body}"
    axes = " and ".join((match["one"] or match["several"]).split(","))
    return (
        f"{result[:1].upper()}{result[1:]} may differ from device to device along {axes}, but "
        f"out_specs promises the same value on all of them. {REDUCTION_OR_AXIS.format(axes=axes)}"
    )


def _list_axes(axes: Sequence[str]) -> str:
    return f"The mesh has {'the axes' if len(axes) > 1 else 'one axis,'} {' and '.join(axes)}."
