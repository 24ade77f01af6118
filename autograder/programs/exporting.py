"""Export functions as StableHLO, which is data and no Python.

What `jax.shard_map` gives without `mesh=` takes the current mesh of its first call, and keeps it:
made once, at the top of a cell, it serves one mesh and refuses the next. Nobody who reads JAX's
documentation would expect that. So the mesh is forgotten while a function is traced for arguments
of ours. A mesh that was given is a `Mesh`, most often, and stays; one that was remembered is an
`AbstractMesh`, in the closure of JAX's wrapper (`wrapped`, in `jax/_src/shard_map.py`, the same
from 0.8.2 to 0.12).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final

import jax
import numpy as np

from autograder.errors import TheirError, theirs
from autograder.programs.arguments import Argument, current, mesh_of, placed
from autograder.programs.program_errors import ProgramError, refuse_unreduced

MAX_OBJECTS: Final = 10_000
"""A learner's function reaches a few dozen."""
NOT_EXPORTABLE: Final = (
    "JAX traced your function but could not export it: {}. Most often the function calls back into "
    "Python, for example with jax.debug.print. Remove that call, and check again."
)
"""What is said where a function can be traced and not exported."""


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


def export(
    function: Callable[..., Any], arguments: Sequence[Argument], under_mesh: bool = False
) -> bytes:
    """Export a function for one list of argument layouts.

    Args:
        function: what to export.
        arguments: what it is to be given.
        under_mesh: whether their mesh is the current one while it is traced.

    Raises:
        ProgramError: it can be traced, but its results are none to hand in.
        TheirError: it cannot be traced or exported; what the function or JAX raised is in it.
    """
    structs = [
        jax.ShapeDtypeStruct(a.shape, np.dtype(a.dtype), sharding=placed(a)) for a in arguments
    ]
    mesh = mesh_of(arguments[0])
    with meshes_forgotten(function), jax.set_mesh(mesh) if under_mesh else current(mesh):
        return _exported(function, structs, arguments[0].mode)


def export_laid_out(
    function: Callable[..., Any], structs: Sequence[jax.ShapeDtypeStruct], mesh: jax.sharding.Mesh
) -> bytes:
    """Export a function for arguments that are laid out as somebody chose, their mesh current.

    Args:
        function: what to export.
        structs: what it is to be given, with shardings.
        mesh: the mesh of these.

    Raises:
        ProgramError: it can be traced, but its results are none to hand in.
        TheirError: it cannot be traced or exported; what the function or JAX raised is in it.
    """
    with meshes_forgotten(function), jax.set_mesh(mesh):
        return _exported(function, structs)


def _exported(
    function: Callable[..., Any], structs: Sequence[jax.ShapeDtypeStruct], mode: str = ""
) -> bytes:
    """The same in the current mesh; with a mode, the results' types have to be of that."""
    from jax import export as jax_export

    with theirs():
        jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
        results = jax.tree.leaves(jax.eval_shape(jitted, *structs))
    refuse_unreduced(results)
    try:
        with theirs():
            exported = jax_export.export(jitted)(*structs)
        if mode:  # after all that JAX itself refuses
            _refuse_other_mode(results, mode)
        with theirs():
            return bytes(exported.serialize())
    except TheirError as refused:
        if isinstance(refused.error, NotImplementedError):
            raise ProgramError("not-exportable", NOT_EXPORTABLE.format(refused)) from refused
        raise


def _refuse_other_mode(results: Sequence[Any], mode: str) -> None:
    """A result whose type speaks the other mode's language is of no use to the program around it.

    The blocks are where they were asked for, and an exported program does not tell the modes apart
    on every version of JAX, so this is said here, where the function is traced, and nowhere else.
    """
    explicit = jax.sharding.AxisType.Explicit
    typed = [
        r.sharding is not None and explicit in (r.sharding.mesh.axis_types or ()) for r in results
    ]
    if any(t != (mode == "explicit") for t in typed):
        came = "Auto" if mode == "explicit" else "Explicit"
        raise ProgramError(
            "other-mode",
            f"The argument is on a mesh with {mode.title()} axes, and the result is on one with "
            f"{came} axes, so whatever uses the result next would have to be written for the "
            f"other mode.",
        )
