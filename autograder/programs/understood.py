"""Check that every operation and name of a program is known; refuse all others.

A compiler prints the keys of some attributes as they are, so a key with a quotation mark and a
brace in it could end a computation in the eyes of whoever reads the compiler's text. And an
operation with a region that nobody here knows could hold anything.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from autograder.programs.program_errors import ProgramError

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
