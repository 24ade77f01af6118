"""Find the part of a model that a collective belongs to, and the pass in which it runs.

JAX writes a path of names beside each operation, such as
`jit(step)/transpose(jvp(Decoder))/while/body/block_0/down/dot_general`. Linen, Haiku, Equinox and
`jax.named_scope` add names to it. NNX adds none; there, the classes whose `__call__` is in the
stack of calls say as much.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from typing import Final

from shardlings.errors import is_own_file
from shardlings.programs.code_lines import is_library
from shardlings.programs.collective import Frame

FORWARD: Final = "forward"
BACKWARD: Final = "backward"
RECOMPUTED: Final = "recomputed"
OUTSIDE: Final = "outside"

PASSES: Final = (FORWARD, BACKWARD, RECOMPUTED, OUTSIDE)
"""The passes of training; what is no part of a gradient is outside of them."""

TRANSFORMS: Final = re.compile(
    r"(?:jvp|transpose|vmap|linearize|partial_eval|remat|checkpoint|pmap|mesh_cast)\((.*)\)"
)
"""Matches what JAX writes around the name of a part that it has transformed."""

CONTROL: Final = re.compile(
    r"|jit\(.*\)|pjit|while|body|cond|scan|closed_call|shard_map|checkpoint|remat\d?|branch_\d+_fun"
    r"|rematted_computation|call_exported|core_call|custom_(?:jvp|vjp)_call\w*|xla_call|named_call"
)
"""Matches names that JAX adds by itself."""

CHECKPOINT: Final = "checkpoint"
REMATERIALISED: Final = "rematted_computation"

CALL: Final = ".__call__"


def find_part(op_name: str, stack: Sequence[Frame]) -> tuple[str, ...]:
    """Return the path of names to the part of a model, the outermost first; empty if unknown.

    Args:
        op_name: JAX's path to an operation.
        stack: the lines of source that it comes from, the innermost first.
    """
    names = _names(op_name)[:-1]
    place = names.index(CHECKPOINT) if CHECKPOINT in names else 0
    # of a part with a checkpoint, the backward pass has the names before it twice
    named = (*_once(_scopes(names[:place])), *_scopes(names[place:]))
    return named or _called_classes(stack)


def find_pass(op_name: str) -> str:
    """Return the pass in which an operation runs, one of `PASSES`."""
    names = _names(op_name)
    if REMATERIALISED in names:
        return RECOMPUTED
    if any("transpose(" in name for name in names):
        return BACKWARD
    return FORWARD if any("jvp(" in name for name in names) else OUTSIDE


def _scopes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that somebody has given: none of JAX's own, and no subscripts of einsum."""
    inner = map(_without_transforms, names)
    return tuple(name for name in inner if not CONTROL.fullmatch(name) and "->" not in name)


def _once(scopes: tuple[str, ...]) -> tuple[str, ...]:
    half = len(scopes) // 2
    return scopes[:half] if scopes[:half] == scopes[half:] else scopes


def _called_classes(stack: Sequence[Frame]) -> tuple[str, ...]:
    """Return the classes that are called, from the first of the program's own on."""
    # what called `communication` is no part of the program
    program = list(takewhile(lambda frame: not is_own_file(frame.file), stack))
    calls = [frame for frame in reversed(program) if frame.function.endswith(CALL)]
    return tuple(
        frame.function.removesuffix(CALL).rpartition(".")[2]
        for frame in dropwhile(is_library, calls)
        if not frame.function.startswith("_")
    )


def _names(op_name: str) -> list[str]:
    """Split a path at its slashes, but not within brackets.

    Of operations that the compiler has merged, which it writes as `jit(f)/(one/path:another/path)`,
    this is the first.
    """
    names = list(_split(op_name, "/"))
    if names and names[-1].startswith("(") and names[-1].endswith(")"):
        first = next(_split(names[-1][1:-1], ":"))
        return [*names[:-1], *_names(first)]
    return names


def _split(text: str, separator: str) -> Iterator[str]:
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == separator and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _without_transforms(name: str) -> str:
    while inner := TRANSFORMS.fullmatch(name):
        name = inner[1]
    return name
