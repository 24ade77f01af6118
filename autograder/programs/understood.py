"""Check that every operation and name of a program is known; refuse all others.

A compiler prints the keys of some attributes as they are, so a key with a quotation mark and a
brace in it could end a computation in the eyes of whoever reads the compiler's text. And an
operation with a region that nobody here knows could hold anything.

A routine is told by attributes how large its matrices are and where they lie, and believes it: a
call with operands of another size reads and writes memory that is not its own. So a call is taken
only where it is, to the letter, what JAX itself writes for those operands.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.lax import linalg

from autograder.programs.program_errors import ProgramError

WRITERS: Final[Mapping[str, tuple[Callable[..., Any], ...]]] = {
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
"""The routines that an exercise needs, for `jnp.linalg.solve`, and what of JAX's writes calls."""

DEFAULTS: Final = {
    ("api_version", "1 : i32"),
    ("backend_config", '""'),
    ("called_computations", "[]"),
    ("has_side_effect", "false"),
}
"""What an exported program says where another leaves it unsaid."""


MATRICES: Final = re.compile(r"tensor<(?P<sizes>(\d{1,6}x){2,8})f32>")
"""The type of an operand as MLIR writes it: nobody chooses a name in it."""
ATTRIBUTE_NAME: Final = re.compile(r"[A-Za-z_][\w.\-]{0,200}", re.ASCII)
"""What an attribute may be called: letters, digits, dots, underscores and hyphens."""

WITH_REGIONS: Final = frozenset(
    {
        "builtin.module", "func.func", "sdy.manual_computation",
        "stablehlo.while", "stablehlo.case", "stablehlo.if",
        "stablehlo.all_reduce", "stablehlo.reduce_scatter",
        "stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.select_and_scatter",
        "stablehlo.scatter", "stablehlo.sort", "stablehlo.map",
    }
)  # fmt: skip
"""Operations that hold others: whole programs, or what is done to two numbers."""

DIALECTS: Final = frozenset({"builtin", "func", "stablehlo", "chlo", "sdy"})
"""The sets of operations that JAX makes programs of."""

OUTSIDE: Final = frozenset(
    {"stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed"}
)
"""Operations that talk to what is outside of the program, or to other devices uncounted."""

MAX_ATTRIBUTE_DEPTH: Final = 20
"""Of lists and dictionaries; JAX makes four levels."""

MAX_NESTED: Final = 100_000
"""How much lies in the lists and dictionaries of all attributes, counted as often as it is there:
what is written once can be in a list many times, and that list in another one."""

BY_GLOBAL_IDS: Final = ("stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.reduce_scatter")
"""Collectives whose groups are of devices only where they say so; else of replicas, and a group of
one replica is everybody.
"""


class CustomCall(NamedTuple):
    """A custom call as it is written in StableHLO: two that are equal do the same."""

    target: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: frozenset[tuple[str, str]]


def refuse_custom_calls(module: Any) -> None:
    """Refuse a program that calls what it may not, or not as JAX would call it.

    Raises:
        ProgramError: it does.
    """
    for call in custom_calls(module):
        if call.target not in WRITERS:
            raise ProgramError(
                "custom-call",
                f"The program calls {call.target!r}, which is outside of what a program may call "
                f"here: it must compute its result with operations of jax.numpy and jax.lax. (Of "
                f"linear algebra, only jnp.linalg.solve is taken, in float32.)",
            )
        ways = range(len(WRITERS[call.target]))
        if call not in (_written(call.target, way, call.operands) for way in ways):
            raise ProgramError(
                "custom-call",
                f"The program calls {call.target!r}, and not as JAX would for such operands.",
            )


def custom_calls(module: Any) -> list[CustomCall]:
    """The custom calls in a StableHLO module, read from its operations."""
    from jax.extend.mlir import ir

    found: list[CustomCall] = []

    def visit(operation: Any) -> Any:
        if operation.name.endswith("custom_call"):
            found.append(_read(operation))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _read(operation: Any) -> CustomCall:
    from jax.extend.mlir import ir

    attributes = {
        (name, str(operation.attributes[name]))
        for name in map(_name, operation.attributes)
        if name != "call_target_name"
    }
    return CustomCall(
        ir.StringAttr(operation.attributes["call_target_name"]).value,
        tuple(str(operand.type) for operand in operation.operands),
        tuple(str(result.type) for result in operation.results),
        frozenset(attributes - DEFAULTS),
    )


def _name(attribute: Any) -> str:
    """An attribute's name; to go through a dictionary gives pairs on some versions only."""
    return str(getattr(attribute, "name", attribute))


@cache
def _written(target: str, way: int, operands: tuple[str, ...]) -> CustomCall | None:
    """What JAX writes for a routine on operands of these types; None where it does not call it.

    Where a program was exported elsewhere, this is also what has JAX look for the routine here: to
    call one that was never found kills the process.
    """
    matrices = [MATRICES.fullmatch(operand) for operand in operands]
    shapes = [tuple(map(int, re.findall(r"\d+", m["sizes"]))) for m in matrices if m is not None]
    try:
        lowered = jax.jit(WRITERS[target][way]).lower(
            *(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes)
        )
    except Exception:  # they come in many types, and all say that these are no such matrices
        return None
    calls = custom_calls(lowered.compiler_ir("stablehlo"))
    return next((call for call in calls if call.target == target), None)


def refuse_what_is_not_understood(module: Any) -> None:
    """Refuse a StableHLO module that holds what nobody here can read.

    Raises:
        ProgramError: it does.
    """
    from jax.extend.mlir import ir

    strange: list[str] = []
    room = iter(range(MAX_NESTED))

    def visit(operation: Any) -> Any:
        if operation.name.partition(".")[0] not in DIALECTS or operation.name in OUTSIDE:
            strange.append(f"an operation {operation.name!r}")
        if operation.name in BY_GLOBAL_IDS and not _names_devices(operation):
            strange.append(f"an operation {operation.name!r} between others than it names")
        if len(operation.regions) and operation.name not in WITH_REGIONS:
            strange.append(f"an operation {operation.name!r}, which holds others")
        strange.extend(_strange_attributes(operation.attributes, room))
        return ir.WalkResult.INTERRUPT if strange else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if strange:
        raise ProgramError(
            "not-understood",
            f"The program has {strange[0]} in it, which cannot be read here. What JAX itself "
            f"makes of jax.numpy, jax.lax and jax.shard_map can.",
        )


def _names_devices(operation: Any) -> bool:
    """Whether a collective's groups are of devices, as JAX always writes them."""
    names = {name for name, _ in named_attributes(operation.attributes)}
    return {"channel_handle", "use_global_device_ids"} <= names


def _strange_attributes(attributes: Any, room: Iterator[int]) -> Iterator[str]:
    """What cannot be read of an operation's attributes, and of the dictionaries in them.

    Args:
        attributes: a dictionary of attributes.
        room: how much more there may be in the lists and dictionaries of a program.
    """
    from jax.extend.mlir import ir

    waiting = deque([(name, attribute, 0) for name, attribute in named_attributes(attributes)])
    while waiting:
        name, attribute, depth = waiting.popleft()
        if not ATTRIBUTE_NAME.fullmatch(name):
            yield f"an attribute {name[:80]!r}"
        if not isinstance(attribute, ir.DictAttr | ir.ArrayAttr):
            continue
        if depth == MAX_ATTRIBUTE_DEPTH:
            yield f"an attribute {name!r} of more than {MAX_ATTRIBUTE_DEPTH} lists in each other"
            return
        held = (
            named_attributes(attribute)
            if isinstance(attribute, ir.DictAttr)
            else _listed(name, attribute)
        )
        for inner, each in held:
            if next(room, None) is None:
                yield f"more than {MAX_NESTED:,} attributes in lists"
                return
            waiting.append((inner, each, depth + 1))


def _listed(name: str, attributes: Any) -> Iterator[tuple[str, Any]]:
    """What is in a list, under the name of that list."""
    return ((name, attribute) for attribute in attributes)


def named_attributes(attributes: Any) -> Iterator[tuple[str, Any]]:
    """The pairs of a dictionary; of what Python has no class for, which holds nothing, a name."""
    for number in range(len(attributes)):
        try:
            # only the name of the pair: its attribute ends the process where Python has no class
            name = attributes[number].name
        except RuntimeError:  # to show an empty name fails, on some versions
            yield "", None
            continue
        try:
            yield name, attributes[name]
        except TypeError:  # complex numbers
            yield name, None
