"""Refuse programs that cannot be judged: unknown operations or attributes, unsafe custom calls.

An exported program may be forged, so only what is known is accepted. XLA prints some attributes'
keys without escaping them, so a key with a quotation mark and a brace in it could make a program's
text look like another program. An operation with an unknown region could contain anything.

A custom call's attributes tell a routine how large its matrices are and where they begin. The
routine does not check them: for operands of another size it would read and write memory that it
does not own. So a custom call is accepted only if it is exactly what JAX itself writes for those
operands.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count, product
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import linalg

MALFORMED: Final = "malformed"
"""The diagnosis of evidence that is not what was planned, so it may be forged."""

IN_A_CONTAINER: Final = "in-a-container"


class ProgramError(ValueError):
    """An exported program cannot be judged; the message says why.

    Attributes:
        diagnosis: the reason in a word or two, by which exercises look up lessons.
        has_shard_map: whether the program contains a `shard_map`; True if that is unknown.
    """

    def __init__(self, diagnosis: str, sentence: str, has_shard_map: bool = True) -> None:
        super().__init__(sentence)
        self.diagnosis = diagnosis
        self.has_shard_map = has_shard_map


UNREDUCED: Final = (
    "unreduced",
    "The result is still unreduced: each device holds a part of every sum, and the parts have to "
    "be added up before anybody can read it. jax.reshard does that.",
)
"""Diagnosis and message for an unreduced result."""


def refuse_unreduced(results: Sequence[Any]) -> None:
    """Refuse results without readable values: unreduced arrays, and random keys.

    JAX does not print unreduced arrays, and exports only some of them.

    Args:
        results: arrays, or their types.

    Raises:
        ProgramError: there is such a result.
    """
    if any(jnp.issubdtype(r.dtype, jax.dtypes.extended) for r in results):
        raise ProgramError(
            "dtype", "The function returned random keys; expected an array of numbers."
        )
    if any(r.dtype == jax.dtypes.float0 for r in results):
        raise ProgramError(
            "dtype",
            "The function returned a gradient with respect to integers, which has no numbers (its "
            "dtype is float0); expected an array of numbers.",
        )
    if any(getattr(getattr(r.sharding, "spec", None), "unreduced", None) for r in results):
        raise ProgramError(*UNREDUCED)


ROUTINES: Final[Mapping[str, tuple[Callable[..., Any], ...]]] = {
    "lapack_sgetrf_ffi": (linalg.lu,),
    "lapack_strsm_ffi": tuple(
        partial(
            linalg.triangular_solve,
            left_side=left,
            lower=lower,
            transpose_a=turned,
            unit_diagonal=unit,
        )
        for left, turned, lower, unit in product(
            (True, False), (False, True), (True, False), (True, False)
        )
    ),
}
"""The routines that `jnp.linalg.solve` calls, and the functions of JAX that write these calls."""

DEFAULT_ATTRIBUTES: Final = {
    ("api_version", "1 : i32"),
    ("backend_config", '""'),
    ("called_computations", "[]"),
    ("has_side_effect", "false"),
}
"""Default values, which an exported program contains and a program just lowered omits."""

MATRIX_TYPE: Final = re.compile(r"tensor<(?P<sizes>(\d{1,6}x){2,8})f32>")
"""The type of an operand as MLIR writes it, which contains no name that an author could choose."""

ATTRIBUTE_NAME: Final = re.compile(r"[A-Za-z_][\w.\-]{0,200}", re.ASCII)
"""Names that attributes may have: letters, digits, dots, underscores and hyphens."""

WITH_REGIONS: Final = frozenset(
    {
        "builtin.module", "func.func", "sdy.manual_computation",
        "stablehlo.while", "stablehlo.case", "stablehlo.if",
        "stablehlo.all_reduce", "stablehlo.reduce_scatter",
        "stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.select_and_scatter",
        "stablehlo.scatter", "stablehlo.sort", "stablehlo.map",
    }
)  # fmt: skip
"""Operations whose regions are understood: parts of a program, or how to combine two numbers."""

DIALECTS: Final = frozenset({"builtin", "func", "stablehlo", "chlo", "sdy"})
"""The MLIR dialects of the programs that JAX writes."""

COMMUNICATES_OUTSIDE: Final = frozenset(
    {"stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed"}
)
"""Operations that communicate with the host, or with other devices without being counted."""

MAX_ATTRIBUTE_DEPTH: Final = 20
"""Levels of nested lists and dictionaries; JAX writes four."""

MAX_NESTED_ATTRIBUTES: Final = 100_000
"""Entries of the lists and dictionaries in all attributes together.

An entry counts each time it occurs: MLIR stores equal attributes once, so a short program can
describe lists of lists of exponential size.
"""

NEEDS_GLOBAL_DEVICE_IDS: Final = (
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.reduce_scatter",
)
"""Collectives whose groups contain device ids only if an attribute says so.

Otherwise they contain replica ids, and a group of one replica is all devices.
"""


class CustomCall(NamedTuple):
    """A custom call as StableHLO writes it; equal ones do the same."""

    target: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: frozenset[tuple[str, str]]


TOP_K: Final = "mhlo.topk"
"""The call that JAX before 0.9 exports for `lax.top_k`; later ones export an operation."""

TOP_K_ATTRIBUTES: Final = re.compile(r"\{k = (?P<k>\d{1,9}) : i64\}")

TENSOR_TYPE: Final = re.compile(r"tensor<(?P<sizes>(?:\d{1,9}x){1,8})(?P<dtype>[a-z]\w{1,7})>")


def refuse_custom_calls(module: Any) -> None:
    """Refuse custom calls of unknown routines, and ones that JAX would write differently.

    Args:
        module: the program's StableHLO.

    Raises:
        ProgramError: there is such a call.
    """
    for call in read_custom_calls(module):
        if _is_top_k(call):
            continue
        if call.target not in ROUTINES:
            raise ProgramError(
                "custom-call",
                f"The program calls the routine {call.target!r}, which an answer may not use: it "
                f"must compute its result with operations of jax.numpy and jax.lax. (Of linear "
                f"algebra, only jnp.linalg.solve is accepted, in float32.)",
            )
        callers = ROUTINES[call.target]
        if call not in (_call_by_jax(call.target, caller, call.operands) for caller in callers):
            raise ProgramError(
                "custom-call",
                f"The program calls {call.target!r} in a way in which JAX would not call it for "
                f"such operands.",
            )


def _is_top_k(call: CustomCall) -> bool:
    """Check whether a call is what JAX exports for `lax.top_k` of these operands."""
    attributes = dict(call.attributes)
    chosen = TOP_K_ATTRIBUTES.fullmatch(attributes.pop("mhlo.attributes", ""))
    types = [TENSOR_TYPE.fullmatch(each) for each in (*call.operands, *call.results)]
    known = [each for each in types if each is not None]
    if call.target != TOP_K or chosen is None or len(known) != len(types) or len(types) != 3:
        return False
    given, *results = [each["sizes"].split("x")[:-1] for each in known]
    return (
        attributes == {"mhlo.version": "1 : i64"}
        and len(call.operands) == 1
        and all(sizes == [*given[:-1], chosen["k"]] for sizes in results)
        and int(chosen["k"]) <= int(given[-1])
        and [each["dtype"] for each in known[1:]] == [known[0]["dtype"], "i32"]
    )


def read_custom_calls(module: Any) -> list[CustomCall]:
    """Return the custom calls in a StableHLO module."""
    from jax.extend.mlir import ir

    calls: list[CustomCall] = []

    def visit(operation: Any) -> Any:
        if operation.name.endswith("custom_call"):
            calls.append(_read_call(operation))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return calls


def _read_call(operation: Any) -> CustomCall:
    from jax.extend.mlir import ir

    attributes = {
        (name, str(value))  # one that cannot be read is None, which JAX does not write
        for name, value in list_named_attributes(operation.attributes)
        if name != "call_target_name"
    }
    return CustomCall(
        ir.StringAttr(operation.attributes["call_target_name"]).value,
        tuple(str(operand.type) for operand in operation.operands),
        tuple(str(result.type) for result in operation.results),
        frozenset(attributes - DEFAULT_ATTRIBUTES),
    )


@cache
def _call_by_jax(
    target: str, caller: Callable[..., Any], operands: tuple[str, ...]
) -> CustomCall | None:
    """Return the call that JAX writes for a routine; None if it writes none for these operands.

    This also makes JAX register the routine in this process. A program that was exported elsewhere
    would kill the process by calling an unregistered one.

    Args:
        target: the name of the routine.
        caller: the function of JAX that calls it, one of `ROUTINES[target]`.
        operands: the types of the operands, as MLIR writes them.
    """
    shapes = []
    for operand in operands:
        matrix = MATRIX_TYPE.fullmatch(operand)
        if matrix is None:
            return None
        shapes.append(tuple(map(int, re.findall(r"\d+", matrix["sizes"]))))
    try:
        lowered = jax.jit(caller).lower(
            *(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes)
        )
    except Exception:  # of any type, and all mean that JAX does not call the routine for these
        return None
    calls = read_custom_calls(lowered.compiler_ir("stablehlo"))
    return next((call for call in calls if call.target == target), None)


def refuse_unknown_operations(module: Any) -> None:
    """Refuse unknown operations and attributes.

    Args:
        module: the program's StableHLO.

    Raises:
        ProgramError: there is one.
    """
    from jax.extend.mlir import ir

    problems: list[str] = []
    counter = count(1)

    def visit(operation: Any) -> Any:
        if (
            operation.name.partition(".")[0] not in DIALECTS
            or operation.name in COMMUNICATES_OUTSIDE
        ):
            problems.append(f"an operation {operation.name!r}")
        if operation.name in NEEDS_GLOBAL_DEVICE_IDS and not _has_global_device_ids(operation):
            problems.append(f"an operation {operation.name!r} without global device ids")
        if len(operation.regions) and operation.name not in WITH_REGIONS:
            problems.append(f"an operation {operation.name!r} that contains other operations")
        problems.extend(_attribute_problems(operation.attributes, counter))
        return ir.WalkResult.INTERRUPT if problems else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if problems:
        raise ProgramError(
            "not-understood",
            f"The program cannot be judged, because it contains {problems[0]}. A program that JAX "
            f"makes from jax.numpy, jax.lax and jax.shard_map can be judged.",
        )


def _has_global_device_ids(operation: Any) -> bool:
    """Check whether a collective's groups contain device ids, as JAX always writes them."""
    names = {name for name, _ in list_named_attributes(operation.attributes)}
    return {"channel_handle", "use_global_device_ids"} <= names


def _attribute_problems(attributes: Any, counter: Iterator[int]) -> Iterator[str]:
    """Yield what is wrong with an operation's attributes, and with those nested in them.

    Args:
        attributes: a dictionary of attributes.
        counter: counts the nested attributes of the whole program.
    """
    from jax.extend.mlir import ir

    pending = deque([(name, attribute, 0) for name, attribute in list_named_attributes(attributes)])
    while pending:
        name, attribute, depth = pending.popleft()
        if not ATTRIBUTE_NAME.fullmatch(name):
            yield f"an attribute {name[:80]!r}"
        if not isinstance(attribute, ir.DictAttr | ir.ArrayAttr):
            continue
        if depth == MAX_ATTRIBUTE_DEPTH:
            yield f"an attribute {name!r} nested more than {MAX_ATTRIBUTE_DEPTH} levels deep"
            return
        nested = (
            list_named_attributes(attribute)
            if isinstance(attribute, ir.DictAttr)
            else ((name, inner) for inner in attribute)  # under the name of their list
        )
        for inner_name, inner in nested:
            if next(counter) > MAX_NESTED_ATTRIBUTES:
                yield f"more than {MAX_NESTED_ATTRIBUTES:,} nested attributes"
                return
            pending.append((inner_name, inner, depth + 1))


def list_named_attributes(attributes: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of attributes.

    An attribute that MLIR's Python bindings cannot read is yielded as None. Such an attribute
    contains no others.
    """
    for number in range(len(attributes)):
        try:
            # only the name: reading the value of one without a class here ends the process
            name = attributes[number].name
        except RuntimeError:  # some versions cannot read an empty name
            yield "", None
            continue
        try:
            yield name, attributes[name]
        except TypeError:  # complex numbers
            yield name, None
