"""Make a `shard_map` forget the mesh of its first call.

What `jax.shard_map` gives without `mesh=` takes the current mesh of its first call, and keeps it:
made once, at the top of a cell, it serves one mesh and refuses the next. Nobody who reads JAX's
documentation would expect that. So the mesh is forgotten while a function is traced for arguments
of ours. A mesh that was given is a `Mesh`, most often, and stays; one that was remembered is an
`AbstractMesh`, in the closure of JAX's wrapper (`wrapped`, in `jax/_src/shard_map.py`, the same
from 0.8.2 to 0.12).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final

import jax

MAX_OBJECTS: Final = 10_000
"""A learner's function reaches a few dozen."""


@contextmanager
def meshes_forgotten(function: Callable[..., Any]) -> Iterator[None]:
    """Within it, each `shard_map` that a function uses, itself or through others, has no mesh yet.

    Afterwards it has the one that it had: the learner's next call is on a mesh of theirs.
    """
    kept = []
    for each in _reached(function):
        if each.__code__.co_qualname != "_shard_map.<locals>.wrapped":
            continue
        cells = dict(zip(each.__code__.co_freevars, each.__closure__ or (), strict=True))
        mesh, names = cells.get("mesh"), cells.get("axis_names")
        if mesh is None or names is None:
            continue
        held = mesh.cell_contents
        if held is None or isinstance(held, jax.sharding.AbstractMesh):
            kept.append((mesh, held, names, names.cell_contents))
            mesh.cell_contents = None
            if held is not None and names.cell_contents == frozenset(held.axis_names):
                names.cell_contents = frozenset()
    try:
        yield
    finally:
        for mesh, held, names, named in kept:
            mesh.cell_contents, names.cell_contents = held, named


def _reached(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """The Python functions that a function is made of, or has a name for."""
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_OBJECTS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            yield each
            waiting += [cell.cell_contents for cell in each.__closure__ or () if _is_full(cell)]
            waiting += [each.__globals__[name] for name in _names(each.__code__)
                        if name in each.__globals__]  # fmt: skip
        elif type(each) is partial:
            waiting += [each.func, *each.args, *each.keywords.values()]
        elif type(each) in (list, tuple):
            waiting += each
        elif type(each) is dict:
            waiting += each.values()
        elif type(each) is MethodType:
            waiting += [each.__self__, each.__func__]
        elif type(each) is SimpleNamespace or type(each).__module__ == "__main__":
            held = getattr(each, "__dict__", {})  # of a class that a cell defines
            waiting += [type(each).__dict__.get("__call__"), *held.values()]
        if type(each) is FunctionType:
            waiting += [*(each.__defaults__ or ()), *(each.__kwdefaults__ or {}).values()]
        if type(each) is FunctionType or hasattr(type(each), "lower"):  # what jax.jit gives
            waiting.append(getattr(each, "__wrapped__", None))


def _names(code: CodeType) -> Iterator[str]:
    """The global names in a function's code, and in that of the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  to look is to ask
    except ValueError:
        return False
    return True
