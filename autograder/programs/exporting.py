"""Export functions as StableHLO, which is data and no Python."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.errors import TheirError, theirs
from autograder.programs.arguments import Argument, current, mesh_of, placed
from autograder.programs.program_errors import ProgramError, refuse_unreduced
from autograder.programs.remembered_meshes import meshes_forgotten

NOT_EXPORTABLE: Final = (
    "JAX traced your function but could not export it: {}. Most often the function calls back into "
    "Python, for example with jax.debug.print. Remove that call, and check again."
)
"""What is said where a function can be traced and not exported."""


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
