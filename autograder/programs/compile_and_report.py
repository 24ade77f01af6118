"""`communication(f, *args)`: the collectives of a compiled function, and what they cost."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, overload

import jax

from autograder.errors import ShortError, TheirError, first_line, their_error, theirs
from autograder.programs.collective import MACHINES, no_such_machine
from autograder.programs.compared_reports import ComparedReports
from autograder.programs.compiled import operations, program_of
from autograder.programs.compiled import read as collectives_of
from autograder.programs.report import MACHINE, Report
from autograder.programs.scaled_arguments import (
    ScalingError,
    in_bfloat16,
    scaled_up,
    sizes_in_words,
)
from autograder.programs.tpu_programs import TargetError, compile_for_tpus, refuse_target


class CommunicationError(ShortError, ValueError):
    """A function's communication cannot be read; the message says why and what to do."""


@overload
def communication(
    function: Callable[..., Any],
    *args: Any,
    machine: str = MACHINE,
    mesh: jax.sharding.Mesh | None = None,
    scaled: Mapping[int, int] | None = None,
    steps: bool = False,
    target: None = None,
) -> Report: ...


@overload
def communication(
    function: Callable[..., Any],
    *args: Any,
    machine: str = MACHINE,
    mesh: jax.sharding.Mesh | None = None,
    scaled: Mapping[int, int] | None = None,
    steps: bool = False,
    target: str,
) -> ComparedReports: ...


def communication(
    function: Callable[..., Any],
    *args: Any,
    machine: str = MACHINE,
    mesh: jax.sharding.Mesh | None = None,
    scaled: Mapping[int, int] | None = None,
    steps: bool = False,
    target: str | None = None,
) -> Report | ComparedReports:
    """Compile a function for its arguments, and report what the program communicates.

    Nothing is run, so a program can be asked about at a size that no laptop holds:
    `communication(f, x, w, scaled={16: 8192})` replaces every dimension of 16 by one of 8,192.

    Args:
        function: a function, jitted or not, or what `jax.jit(f).lower(...).compile()` gave.
        *args: its arguments: arrays, laid out as they are to be, or their `jax.ShapeDtypeStruct`.
        machine: what to reckon seconds for: one of `autograder.programs.collective.MACHINES`.
        mesh: the mesh to name axes by, where it is not that of the arguments.
        scaled: for sizes of the arguments' dimensions, other sizes, in elements. Floating-point
            numbers are then counted as bfloat16, and the times to compute and to communicate
            stand side by side in place of pictures.
        steps: whether to draw how a ring does each collective, step by step.
        target: a TPU topology, such as "v5e:2x4", of as many devices as the program has here: its
            compiler is asked, too, which needs libtpu, some seconds, and no TPU. With `scaled`, it
            is given true bfloat16, which the CPU's only counts.

    Returns:
        A `Report`, which shows itself as a table and as pictures of what each collective does; with
        a target a `ComparedReports`, whose `.cpu` and `.tpu` are such reports.

    Raises:
        CommunicationError: there is nothing to compile, or it does not compile, or not at that
            size, or not for that target.
    """
    if target is not None:
        return _compared(function, args, machine, mesh, scaled, steps, target)
    if not isinstance(machine, str) or machine not in MACHINES:
        raise CommunicationError(no_such_machine(machine))
    compiled = (
        _compile_scaled(function, args, scaled)
        if scaled
        else function
        if isinstance(function, jax.stages.Compiled)
        else _compile(function, args)
    )
    executable = compiled.runtime_executable()
    if executable is None:
        raise CommunicationError("This program was compiled in a form that cannot be read.")
    program = program_of(executable)
    flops = operations(program)
    mesh = mesh or _mesh(args) or _mesh((compiled.input_shardings, compiled.output_shardings))
    report = Report(
        tuple(collectives_of(program, mesh)),
        mesh,
        math.inf if flops is None else flops,
        _peak_bytes(compiled.memory_analysis()),
        machine,
        steps,
    )
    return in_bfloat16(report, scaled) if scaled else report


def _compared(
    function: Any,
    args: tuple[Any, ...],
    machine: str,
    mesh: jax.sharding.Mesh | None,
    sizes: Mapping[int, int] | None,
    steps: bool,
    target: str,
) -> ComparedReports:
    """The reports of the CPU's compiler and of a TPU's."""
    try:
        refuse_target(target)
        if isinstance(function, jax.stages.Compiled):
            raise TargetError(
                "This is compiled already, for the devices here. Hand in the function itself, and "
                f"its arguments: communication(f, x, target={target!r})."
            )
        here = communication(function, *args, machine=machine, mesh=mesh, scaled=sizes, steps=steps)
        given = scaled_up(args, sizes, bfloat16=True) if sizes else args
        there = compile_for_tpus(target, function, given, here.mesh, machine, steps)
    except TargetError as error:
        raise CommunicationError(str(error)) from error
    if sizes:
        there = replace(there, scaled=sizes_in_words(sizes))
    return ComparedReports(here, there, target)


def _compile_scaled(
    function: Any, args: tuple[Any, ...], sizes: Mapping[int, int]
) -> jax.stages.Compiled:
    """Compile for larger arguments; what goes wrong there and not here has a cause of its own."""
    if isinstance(function, jax.stages.Compiled):
        raise CommunicationError(
            "This is compiled already, for one size. Hand in the function itself, and its "
            "arguments: communication(f, x, scaled={16: 8192})."
        )
    try:
        larger = scaled_up(args, sizes)
    except ScalingError as error:
        raise CommunicationError(str(error)) from None
    try:
        return _compile(function, tuple(larger))
    except CommunicationError as error:
        raise CommunicationError(
            f"With {sizes_in_words(sizes)}, this program cannot be compiled. A size that is "
            f"written in the function stays as it is, and each new size has to divide among the "
            f"devices as the old one did. {error}"
        ) from error


def _peak_bytes(memory: Any) -> int:
    """Arguments, results and what is between; what a result shares with an argument counts once."""
    if memory is None:
        return 0
    return int(
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )


def _compile(function: Any, args: tuple[Any, ...]) -> jax.stages.Compiled:
    if not callable(function):
        raise CommunicationError(
            f"communication compiles a function; {type(function).__name__} came. "
            f"Hand in the function and its arguments: communication(f, x)."
        )
    if not args and _wants_arguments(function):
        raise CommunicationError(
            "What a program communicates depends on how its arguments are laid out. Hand them in "
            "too: communication(f, x)."
        )
    _on_the_same_devices(args)
    try:
        with theirs():
            jitted = function if hasattr(function, "lower") else jax.jit(function)
            lowered = jitted.lower(*args)
    except TheirError as raised:
        said = their_error(raised.error, function)
        raise CommunicationError(f"Your function raised {said}") from raised.error
    try:
        compiled: jax.stages.Compiled = lowered.compile()
    except Exception as error:  # the compiler's refusals come in many types
        raise CommunicationError(f"The compiler refused it: {first_line(error)}") from error
    return compiled


def _wants_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )


def _on_the_same_devices(args: tuple[Any, ...]) -> None:
    meshes = []
    for leaf in jax.tree.leaves(args):
        sharding = getattr(leaf, "sharding", None)
        mesh = getattr(sharding, "mesh", None)
        if isinstance(mesh, jax.sharding.Mesh) and mesh.size > 1:
            meshes.append([device.id for device in mesh.devices.flat])
        elif isinstance(mesh, jax.sharding.AbstractMesh) and mesh.size > jax.device_count():
            raise CommunicationError(
                f"An argument is laid out over {mesh.size} devices, and this process has "
                f"{jax.device_count()}."
            )
    for ids in meshes:
        if ids != meshes[0]:
            raise CommunicationError(
                f"The arguments are on different meshes: one has devices {meshes[0]} in this "
                f"order, another {ids}. A program runs on one; put them on the same."
            )


def _mesh(things: Iterable[Any]) -> jax.sharding.Mesh | None:
    """The first mesh of several devices among arrays and shardings."""
    for thing in jax.tree.leaves(list(things)):
        mesh = getattr(getattr(thing, "sharding", thing), "mesh", None)
        if isinstance(mesh, jax.sharding.Mesh) and mesh.size > 1:
            return mesh
    return None
