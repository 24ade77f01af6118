"""Find the lines of code that a reader of a report looks for.

XLA notes for each collective the line that made it, the line that called that one, and so on. If a
helper such as `gather` is used ten times, the helper's own line says little; the ten lines that
call it say which array is gathered. So a collective is shown at its caller's line if

- the function that communicates is called from several lines of the program, or
- it communicates in one line only, so that the line that calls it says as much.

A function that is written inside its caller, or that the caller hands on, as in
`jax.grad(loss)(w)` or `jax.shard_map(body, ...)`, is no helper: its lines are the ones to look at.
Neither is a library's function, whose lines nobody can change; they are shown below the user's.
"""

import ast
import linecache
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise, zip_longest
from typing import Final

from shardlings.errors import is_installed, is_own_file
from shardlings.programs.collective import Collective, Frame

COMPILED: Final = re.compile(r"jit\(([^()]+)\)/")
"""The beginning of JAX's path of names to an operation, with the name of the compiled function."""

Calls = tuple[Frame, ...]
"""Lines of code, each of which calls the next."""


def lines_of(collectives: Sequence[Collective]) -> list[Calls]:
    """Return for each collective the lines of code that cause it.

    Args:
        collectives: all collectives of a program, because they decide what a helper is.

    Returns:
        For each collective, the line to look at, and then the lines of the helpers that it calls,
        the innermost last; nothing if no line is known.
    """
    program = _name_program(collectives)
    paths = [_own_calls(collective, program) for collective in collectives]
    callers = _callers(paths)
    paths = [tuple(_without_lines_around(path, callers)) for path in paths]
    callers, callees = _callers(paths), defaultdict[Calls, set[Frame]](set)
    for path in paths:
        for depth, frame in enumerate(path):
            callees[path[:depth]].add(frame)

    def from_caller(path: Calls) -> Calls:
        shown = max((i for i, frame in enumerate(path) if not is_library(frame)), default=0)
        while shown and (len(callers[path[shown]]) > 1 or len(callees[path[:shown]]) == 1):
            shown -= 1
        return path[shown:]

    return [from_caller(path) for path in paths]


def _name_program(collectives: Sequence[Collective]) -> str:
    """Return the name of the function that was compiled; empty if it is unknown."""
    paths = (path for collective in collectives for path in collective.op_names)
    return next((match[1] for path in paths if (match := COMPILED.match(path))), "")


def _own_calls(collective: Collective, program: str) -> Calls:
    """Return the user's lines, the outermost first, and a library's if it is the innermost.

    What called the compiled function is no part of the program. JAX notes it if the function was
    traced before, in a call elsewhere.
    """
    calls: list[Frame] = []
    for frame in collective.stack:  # the innermost first
        if is_own_file(frame.file) and calls:
            break  # what called `communication` is no part of the program
        if frame.function == "<module>" and calls:
            break
        if not is_own_file(frame.file) and (not calls or not is_library(frame)):
            calls.append(frame)
    own = [i for i, frame in enumerate(calls) if frame.function.rpartition(".")[2] == program]
    if own:
        calls = calls[: own[-1] + 1]
    return tuple(frame for frame, _ in groupby(reversed(calls)))


def _callers(paths: Sequence[Calls]) -> dict[Frame, set[Frame]]:
    callers = defaultdict[Frame, set[Frame]](set)
    for path in paths:
        for caller, callee in pairwise(path):
            callers[callee].add(caller)
    return callers


def _without_lines_around(path: Calls, callers: dict[Frame, set[Frame]]) -> Iterator[Frame]:
    """Yield a path's lines without those that only surround, or hand on, the function below."""
    for caller, callee in zip_longest(path, path[1:]):
        if callee is None or len(callers[callee]) > 1 or not _is_no_helper(callee, caller):
            yield caller


def _is_no_helper(callee: Frame, caller: Frame) -> bool:
    """Check whether a function is written inside the one that calls it, or handed on by it."""
    if callee.function.startswith(f"{caller.function}.<locals>."):
        return True
    name = callee.function.rpartition(".")[2]
    return any(
        isinstance(argument, ast.Name | ast.Attribute) and _last_name(argument) == name
        for call in ast.walk(_statement(caller))
        if isinstance(call, ast.Call) and _last_name(call.func) != "partial"
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
    )


def _last_name(node: ast.expr) -> str:
    """Return `loss` for `loss` and for `model.loss`."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _statement(frame: Frame) -> ast.AST:
    """Return the innermost statement that a line belongs to; an empty one if it cannot be read."""
    around = [
        node
        for node in _statements("".join(linecache.getlines(frame.file)))
        if node.lineno <= frame.line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=ast.Pass())


@lru_cache(maxsize=8)  # a program's lines are mostly in a few files
def _statements(source: str) -> list[ast.stmt]:
    """Return all statements of a file, however deep; none if it cannot be parsed."""
    try:
        return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    except (SyntaxError, ValueError):
        return []


def is_library(frame: Frame) -> bool:
    """Check whether a line is in Python's own modules, or in an installed package."""
    return is_installed(frame.file)
