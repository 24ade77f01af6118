"""Export functions as StableHLO, which is data and not Python.

`jax.shard_map` without `mesh=` returns a function that remembers the current mesh of its first
call, and refuses to run on any other. A learner who created it at the top of a cell could not call
it for two meshes, which JAX's documentation does not say. So remembered meshes are removed while a
function is exported for an exercise's arguments. They are in the closure of JAX's wrapper
(`wrapped` in `jax/_src/shard_map.py`, the same from 0.8.2 to 0.12), as an `AbstractMesh`. A mesh
that was passed as `mesh=` is usually a `Mesh`, and stays.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts.arguments import Argument, override_mesh, rebuild_mesh, sharding_of
from autograder.artifacts.program_checks import ProgramError, refuse_unreduced
from shardlings.errors import TheirError, theirs

MAX_OBJECTS: Final = 10_000
"""The maximum number of objects that are searched; a learner's function refers to a few dozen."""

NOT_EXPORTABLE: Final = (
    "JAX traced your function but could not export it: {}. Most often the function calls back into "
    "Python, for example with jax.debug.print. Remove that call, and check again."
)
"""The message for a function that can be traced and not exported."""


@contextmanager
def forget_meshes(function: Callable[..., Any]) -> Iterator[None]:
    """Remove the meshes that a function's `shard_map`s remember, within a `with` block.

    Afterwards the meshes are restored, because the learner's next call is on a mesh of their own.

    Args:
        function: the function; `shard_map`s that it uses through others are found too.
    """
    saved = []
    for inner in _referenced_functions(function):
        if inner.__code__.co_qualname != "_shard_map.<locals>.wrapped":
            continue
        cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True))
        mesh_cell, names_cell = cells.get("mesh"), cells.get("axis_names")
        if mesh_cell is None or names_cell is None:
            continue
        mesh = mesh_cell.cell_contents
        if mesh is None or isinstance(mesh, jax.sharding.AbstractMesh):
            saved.append((mesh_cell, mesh, names_cell, names_cell.cell_contents))
            mesh_cell.cell_contents = None
            if mesh is not None and names_cell.cell_contents == frozenset(mesh.axis_names):
                names_cell.cell_contents = frozenset()
    try:
        yield
    finally:
        for mesh_cell, mesh, names_cell, names in saved:
            mesh_cell.cell_contents, names_cell.cell_contents = mesh, names


def _referenced_functions(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """Yield the Python functions that a function refers to, directly or through others.

    References are followed through closures, globals, defaults, partials, containers, bound
    methods, jitted functions, and objects whose class a cell defines.
    """
    pending: list[Any] = [function]
    seen: set[int] = set()
    while pending and len(seen) < MAX_OBJECTS:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, FunctionType):
            yield item
            pending += [cell.cell_contents for cell in item.__closure__ or () if _is_set(cell)]
            pending += [item.__globals__[name] for name in _global_names(item.__code__)
                        if name in item.__globals__]  # fmt: skip
        elif type(item) is partial:
            pending += [item.func, *item.args, *item.keywords.values()]
        elif type(item) in (list, tuple):
            pending += item
        elif type(item) is dict:
            pending += item.values()
        elif type(item) is MethodType:
            pending += [item.__self__, item.__func__]
        elif type(item) is SimpleNamespace or type(item).__module__ == "__main__":
            attributes = getattr(item, "__dict__", {})
            pending += [type(item).__dict__.get("__call__"), *attributes.values()]
        if type(item) is FunctionType:
            pending += [*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
        if type(item) is FunctionType or hasattr(type(item), "lower"):  # the result of jax.jit
            pending.append(getattr(item, "__wrapped__", None))


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function's code and the functions in it look up, globals included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _is_set(cell: Any) -> bool:
    """Check whether the variable of a closure's cell has a value yet."""
    try:
        cell.cell_contents  # noqa: B018  raises if it has none
    except ValueError:
        return False
    return True


def export(
    function: Callable[..., Any], arguments: Sequence[Argument], under_mesh: bool = False
) -> bytes:
    """Export a function for an exercise's arguments.

    Args:
        function: the function.
        arguments: its arguments.
        under_mesh: whether to make their mesh the current one while the function is traced.

    Returns:
        The exported program, serialised.

    Raises:
        ProgramError: it can be traced, but its results cannot be judged.
        TheirError: it cannot be traced or exported, for an error of the learner's.
    """
    mesh, structs = rebuild_mesh(arguments[0]), structs_of(arguments)
    with forget_meshes(function), jax.set_mesh(mesh) if under_mesh else override_mesh(mesh):
        return _export(function, structs, arguments[0].mode)


def structs_of(arguments: Sequence[Argument]) -> list[jax.ShapeDtypeStruct]:
    """Return the shapes, types and shardings of arguments, for which JAX can trace a function."""
    return [
        jax.ShapeDtypeStruct(a.shape, np.dtype(a.dtype), sharding=sharding_of(a)) for a in arguments
    ]


def find_donated_arguments(
    function: Callable[..., Any], arguments: Sequence[Argument], under_mesh: bool = False
) -> tuple[int, ...]:
    """Return the numbers, from 0, of the arguments that a jitted function donates.

    The exported program lacks donations that no result fits into, if the results' shardings are
    given, and has all of them if they are not.

    Args:
        function: the function, which can be exported for the arguments.
        arguments: its arguments.
        under_mesh: whether to make their mesh the current one while the function is traced.
    """
    if not hasattr(function, "lower") or not hasattr(function, "trace"):
        return ()
    mesh, structs = rebuild_mesh(arguments[0]), structs_of(arguments)
    current = jax.set_mesh(mesh) if under_mesh else override_mesh(mesh)
    with forget_meshes(function), current, theirs():
        taken = jax.tree.leaves(function.trace(*structs).args_info)
    return tuple(i for i, each in enumerate(taken) if getattr(each, "donated", False) is True)


def export_laid_out(
    function: Callable[..., Any], structs: Sequence[jax.ShapeDtypeStruct], mesh: jax.sharding.Mesh
) -> bytes:
    """Export a function for arguments whose shardings a learner chose.

    Args:
        function: the function.
        structs: its arguments' shapes, dtypes and shardings.
        mesh: the mesh of these shardings, which is the current mesh while the function is traced.

    Returns:
        The exported program, serialised.

    Raises:
        ProgramError: it can be traced, but its results cannot be judged.
        TheirError: it cannot be traced or exported, for an error of the learner's.
    """
    with forget_meshes(function), jax.set_mesh(mesh):
        return _export(function, structs)


def _export(
    function: Callable[..., Any], structs: Sequence[jax.ShapeDtypeStruct], mode: str = ""
) -> bytes:
    """Export a function in the current mesh.

    Args:
        function: the function.
        structs: its arguments' shapes, dtypes and shardings.
        mode: "explicit" or "auto", if the results have to be on a mesh with axes of this type.
    """
    from jax import export as jax_export

    with theirs():
        jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
        results = jax.tree.leaves(jax.eval_shape(jitted, *structs))
    refuse_unreduced(results)
    try:
        with theirs():
            exported = jax_export.export(jitted)(*structs)
        if mode:  # checked last, so that errors of JAX come first
            _refuse_other_mode(results, mode)
        with theirs():
            return bytes(exported.serialize())
    except TheirError as refused:
        if isinstance(refused.error, NotImplementedError):
            raise ProgramError("not-exportable", NOT_EXPORTABLE.format(refused)) from refused
        raise


def _refuse_other_mode(results: Sequence[Any], mode: str) -> None:
    """Refuse results on a mesh with other axis types than the arguments' mesh.

    Code that uses such a result would have to be written for the other axis type, even though the
    blocks are in the right places. This is checked while the function is traced, because in some
    JAX versions an exported program does not contain the axis types.
    """
    explicit = jax.sharding.AxisType.Explicit
    has_explicit_axes = [
        r.sharding is not None and explicit in (r.sharding.mesh.axis_types or ()) for r in results
    ]
    if any(is_explicit != (mode == "explicit") for is_explicit in has_explicit_axes):
        other_mode = "Auto" if mode == "explicit" else "Explicit"
        raise ProgramError(
            "other-mode",
            f"The argument is on a mesh with {mode.title()} axes, and the result is on one with "
            f"{other_mode} axes, so whatever uses the result next would have to be written for the "
            f"other mode.",
        )
