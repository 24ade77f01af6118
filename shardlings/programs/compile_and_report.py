"""`communication(f, *args)`: compile a function, and report its collectives and their costs.

With `scaled=`, it is compiled for arguments of a real size, from shapes alone, and its costs are
counted in bfloat16. With `target=`, it is also compiled by a TPU's compiler.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, overload

import jax
import jax.numpy as jnp

from shardlings.programs.closed_over import (
    count_constant_bytes,
    find_closed_over,
    find_constants,
)
from shardlings.programs.collective import MACHINES, Collective, explain_unknown_machine
from shardlings.programs.compiled import (
    Array,
    CompiledProgram,
    count_bytes,
    count_flops,
    count_int8_operations,
    find_root,
    read_collectives,
    read_executable,
)
from shardlings.programs.lowering import (
    ELSEWHERE,
    CommunicationError,
    Compilation,
    RefusedError,
    as_stage,
    compile_function,
    refuse_shared_names,
    suggest_option,
)
from shardlings.programs.report import MACHINE, Report
from shardlings.programs.target_reports import TargetReports
from shardlings.programs.tpu_programs import TargetError, compile_for_tpus, refuse_target


class NotGiven:
    """The default of an option, which tells `communication(f, x, steps=False)` from none given."""

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN: Final[Any] = NotGiven()


@dataclass(frozen=True)
class Options:
    """The options of `communication`, which describes them."""

    machine: str | None = None
    mesh: jax.sharding.Mesh | None = None
    scaled: Mapping[int, int] | None = None
    steps: bool = False
    target: str | None = None


@overload
def communication(
    function: Callable[..., Any],
    *args: Any,
    machine: str | None = None,
    mesh: jax.sharding.Mesh | None = None,
    scaled: Mapping[int, int] | None = None,
    steps: bool = False,
    target: None = None,
    **kwargs: Any,
) -> Report: ...


@overload
def communication(
    function: Callable[..., Any],
    *args: Any,
    machine: str | None = None,
    mesh: jax.sharding.Mesh | None = None,
    scaled: Mapping[int, int] | None = None,
    steps: bool = False,
    target: str,
    **kwargs: Any,
) -> TargetReports: ...


def communication(
    function: Callable[..., Any],
    *args: Any,
    machine: str | None = NOT_GIVEN,
    mesh: jax.sharding.Mesh | None = NOT_GIVEN,
    scaled: Mapping[int, int] | None = NOT_GIVEN,
    steps: bool = NOT_GIVEN,
    target: str | None = NOT_GIVEN,
    **kwargs: Any,
) -> Report | TargetReports:
    """Compile a function for its arguments, and report what the program communicates.

    The program is not run, so it can be of a size that fits no laptop:
    `communication(f, x, w, scaled={16: 8192})` replaces every dimension of 16 by one of 8,192.

    Args:
        function: a function, jitted or not, by JAX or by a library on top of it; or a stage of one,
            with its arguments: a `Traced`, a `Lowered` or a `Compiled`.
        *args: its arguments: sharded arrays, or `jax.ShapeDtypeStruct` with a sharding.
        machine: the machine to estimate times for: a name in
            `shardlings.programs.collective.MACHINES`; None for that of the target, and else for the
            TPU v5e.
        mesh: the mesh by which axes are named, if it is not the arguments' mesh.
        scaled: a dictionary that maps sizes of the arguments' dimensions to other sizes, in
            elements. The report then counts float32 and float64 as bfloat16, and other types as
            they are; its memory is estimated from that. It has no pictures of the collectives,
            which are those of the original size.
        steps: whether to draw the steps of each collective in a ring, and to play them.
        target: a TPU topology, such as "v5e:2x4", with as many devices as the program has here.
            The function is also compiled for it, which takes libtpu and a few seconds, but no TPU.
            With `scaled`, arguments for the TPU are bfloat16; for the CPU, they are only counted
            as such.
        **kwargs: the function's arguments that are given by name. One whose name is that of an
            option above has to be bound first: `functools.partial(f, machine=3.0)`.

    Returns:
        A `Report`, which is displayed as a timeline, a table, and a picture of each collective. Its
        `at_most` limits what the program communicates, in a test. With a target, a
        `TargetReports`, whose `.cpu` and `.tpu` are reports. A program that only the CPU's
        compiler refuses, such as a ragged all-to-all, has the latter alone.

    Raises:
        CommunicationError: the function cannot be compiled, or not at that size, or not for that
            target; or an option has the name of one of its parameters.
        UnreadableProgramError: the compiled program is not understood, most likely because JAX is
            newer than the versions that this library is tested with. The function is not at fault.
    """
    options: dict[str, Any] = {
        "machine": machine, "mesh": mesh, "scaled": scaled, "steps": steps, "target": target,
    }  # fmt: skip
    is_given = {name: value is not NOT_GIVEN for name, value in options.items()}
    refuse_shared_names(function, is_given)
    given = Options(**{name: value for name, value in options.items() if is_given[name]})
    try:
        if given.target is not None:
            return _compare_compilers(function, args, kwargs, given, given.target)
        return _report_here(function, args, kwargs, given)
    except CommunicationError as error:
        if meant := suggest_option(kwargs, function, is_given):
            raise type(error)(f"{error}{meant}") from error
        raise


def _choose_machine(options: Options) -> str:
    machine, target = options.machine, options.target
    if machine is None:
        chip = f"TPU {target.partition(':')[0]}" if isinstance(target, str) else MACHINE
        return chip if chip in MACHINES else MACHINE
    if not isinstance(machine, str) or machine not in MACHINES:
        raise CommunicationError(explain_unknown_machine(machine))
    return machine


def _report_here(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
) -> Report:
    """Compile a function for the devices here; a target is left to the caller."""
    machine, scaled = _choose_machine(options), options.scaled
    compiled, jaxpr = (
        _compile_scaled(function, args, kwargs, scaled)
        if scaled
        else _compile(function, args, kwargs)
    )
    executable = compiled.runtime_executable()
    if executable is None:
        raise CommunicationError("This program was compiled in a form that cannot be read.")
    program = read_executable(executable)
    is_emulated = executable.client.platform == "cpu"
    flops = count_flops(program)
    mesh = (
        options.mesh
        or _first_mesh((args, kwargs))
        or _first_mesh((compiled.input_shardings, compiled.output_shardings))
    )
    report = Report(
        tuple(read_collectives(program, mesh, is_emulated=is_emulated)),
        mesh,
        math.inf if flops is None else flops,
        _peak_bytes(compiled.memory_analysis()) + count_constant_bytes(program),
        machine,
        options.steps,
        int8_operations=count_int8_operations(program),
        closed_over=tuple(find_closed_over(jaxpr, program)) if jaxpr is not None else (),
    )
    if not scaled:
        return report
    memory = _peak_bytes_in_bfloat16(compiled.memory_analysis(), program)
    return replace(count_in_bfloat16(report, scaled), peak_bytes=memory)


def _compare_compilers(
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Options,
    target: str,
) -> TargetReports:
    """Compile a function for the CPU and for a TPU; return both reports."""
    mesh: Any = options.mesh
    sizes = options.scaled
    try:
        refuse_target(target)
        if as_stage(function) is not None:
            raise TargetError(
                "This is lowered already, for the devices here. Pass the function itself, and "
                f"its arguments: communication(f, x, target={target!r})."
            )
        cpu, refusal = None, ""
        try:
            cpu = _report_here(function, args, kwargs, options)
        except RefusedError as error:
            refusal = str(error).removesuffix(ELSEWHERE)
        mesh = cpu.mesh if cpu is not None else mesh or _first_mesh((args, kwargs))
        if sizes:
            args, kwargs = scale_arguments((args, kwargs), sizes, bfloat16=True)
        machine = _choose_machine(options)
        tpu = compile_for_tpus(target, function, args, kwargs, mesh, machine, options.steps)
    except TargetError as error:
        raise CommunicationError(str(error)) from error
    if sizes:
        tpu = replace(tpu, scaled=sizes_in_words(sizes))
    return TargetReports(cpu, tpu, target, refusal)


def _compile(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Compilation:
    _refuse_different_devices((args, kwargs))
    return compile_function(function, args, kwargs)


def _compile_scaled(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], sizes: Mapping[int, int]
) -> Compilation:
    """Compile a function for larger arguments; errors say that it is the new size that failed."""
    if as_stage(function) is not None:
        raise CommunicationError(
            "This is lowered already, for one size. Pass the function itself, and its "
            "arguments: communication(f, x, scaled={16: 8192})."
        )
    try:
        larger_args, larger_kwargs = scale_arguments((args, kwargs), sizes)
    except ScalingError as error:
        raise CommunicationError(str(error)) from None
    try:
        return _compile(function, larger_args, larger_kwargs)
    except CommunicationError as error:
        raise type(error)(
            f"With {sizes_in_words(sizes)}, this program cannot be compiled. A size that is "
            f"written in the function stays as it is, and each new size has to divide among the "
            f"devices as the old one did. {error}"
        ) from error


def _peak_bytes(memory: Any) -> int:
    """Add up arguments, results and temporaries; memory shared by aliased arrays counts once."""
    if memory is None:
        return 0
    return int(
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )


def _peak_bytes_in_bfloat16(memory: Any, program: CompiledProgram) -> int:
    """Estimate the memory of a program whose floating-point numbers were bfloat16.

    Arguments, results and constants shrink by their own types. XLA does not list the temporaries,
    so they shrink in the proportion of everything that the program computes; and memory that a
    result shares with an argument shrinks as the results do.
    """
    held = count_constant_bytes(program) * _share_in_bfloat16(find_constants(program))
    if memory is None:
        return round(held)
    entry = program.computations[program.entry]
    arguments = [a for step in entry.values() if step.opcode == "parameter" for a in step.arrays]
    results = _share_in_bfloat16(find_root(entry).arrays)
    in_use: float = (
        memory.argument_size_in_bytes * _share_in_bfloat16(arguments)
        + (memory.output_size_in_bytes - memory.alias_size_in_bytes) * results
        + memory.temp_size_in_bytes * _share_in_bfloat16(_computed_arrays(program, program.entry))
    )
    return round(held + in_use)


def _computed_arrays(program: CompiledProgram, computation: int) -> Iterator[Array]:
    """Yield the arrays that a computation writes to memory, which those inside a fusion are not."""
    for step in program.computations[computation].values():
        if step.opcode in CALLS:
            for called in step.called:
                yield from _computed_arrays(program, called)
        elif step.opcode not in WRITES_NOTHING:
            yield from step.arrays


def _refuse_different_devices(args: Any) -> None:
    device_ids = []
    for leaf in jax.tree.leaves(args):
        sharding = getattr(leaf, "sharding", None)
        mesh = getattr(sharding, "mesh", None)
        if isinstance(mesh, jax.sharding.Mesh) and mesh.size > 1:
            device_ids.append([device.id for device in mesh.devices.flat])
        elif isinstance(mesh, jax.sharding.AbstractMesh) and mesh.size > jax.device_count():
            raise CommunicationError(
                f"An argument is laid out over {mesh.size} devices, and this process has "
                f"{jax.device_count()}."
            )
    for ids in device_ids:
        if ids != device_ids[0]:
            raise CommunicationError(
                f"The arguments are on different meshes: one has devices {device_ids[0]} in this "
                f"order, another {ids}. A program runs on one; put them on the same."
            )


def _first_mesh(trees: Iterable[Any]) -> jax.sharding.Mesh | None:
    """Return the first mesh of several devices in pytrees of arrays or shardings."""
    for leaf in jax.tree.leaves(list(trees)):
        mesh = getattr(getattr(leaf, "sharding", leaf), "mesh", None)
        if isinstance(mesh, jax.sharding.Mesh) and mesh.size > 1:
            return mesh
    return None


BFLOAT16: Final = 2
"""Bytes of a bfloat16 number, the type in which large models compute."""

WIDER_THAN_BFLOAT16: Final = ("f32", "f64")
"""The HLO types that count as bfloat16 in a scaled program."""

CALLS: Final = ("while", "conditional", "call")
"""The opcodes that run other computations, whose arrays are in memory."""

WRITES_NOTHING: Final = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")


class ScalingError(ValueError):
    """Arguments cannot be scaled; the message says why."""


def scale_arguments(
    arguments: Sequence[Any], sizes: Mapping[int, int], bfloat16: bool = False
) -> list[Any]:
    """Return arguments with other sizes: shapes and shardings without data.

    For a CPU, dtypes do not change, because XLA widens bfloat16 there before it sends it, so its
    bytes would count twice. `count_in_bfloat16` corrects the bytes afterwards. A TPU's compiler
    sends bfloat16 as it is; if it widens an array, it does so on purpose.

    Args:
        arguments: pytrees of arrays. Leaves that are not arrays do not change.
        sizes: a dictionary that maps sizes of dimensions to other sizes.
        bfloat16: whether to replace wider floating-point types by bfloat16.

    Raises:
        ScalingError: `sizes` is not a dictionary with positive values, or no array has such a
            dimension.
    """
    if not isinstance(sizes, Mapping):
        raise ScalingError(
            f"scaled expects a dictionary from sizes to other sizes, such as {{16: 8192}}, but got "
            f"{type(sizes).__name__}."
        )
    arrays = [a for a in jax.tree.leaves(list(arguments)) if hasattr(a, "shape")]
    existing = sorted({size for array in arrays for size in array.shape})
    for old, new in sizes.items():
        if not (isinstance(new, int) and new > 0):
            raise ScalingError(f"A size is a positive whole number; scaled has {old!r}: {new!r}.")
        if old not in existing:
            listed = ", ".join(map(str, existing)) or "none"
            raise ScalingError(
                f"No argument has a dimension of {old!r}, so there is nothing to scale. "
                f"The sizes of their dimensions are: {listed}."
            )

    def scale_leaf(leaf: Any) -> Any:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        shape = tuple(sizes.get(size, size) for size in leaf.shape)
        sharding = getattr(leaf, "sharding", None)
        has_mesh = isinstance(sharding, jax.sharding.NamedSharding)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            return leaf  # a random key, whose size means something else
        wide = bfloat16 and leaf.dtype in (jnp.float32, jnp.float64)
        dtype = jnp.bfloat16 if wide else leaf.dtype
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding if has_mesh else None)

    return [jax.tree.map(scale_leaf, argument) for argument in arguments]


def count_in_bfloat16(report: Report, sizes: Mapping[int, int]) -> Report:
    """Return a scaled program's report with floating-point numbers counted as bfloat16.

    The types of what is in memory are unknown here, so memory is halved, as if all of it was
    float32. `communication(f, x, scaled=…)` knows them.

    Args:
        report: the report on the program as it was compiled.
        sizes: the sizes that were replaced, and by which.
    """
    return replace(
        report,
        collectives=tuple(map(_count_as_bfloat16, report.collectives)),
        peak_bytes=report.peak_bytes // 2,
        scaled=sizes_in_words(sizes),
    )


def sizes_in_words(sizes: Mapping[int, int]) -> str:
    """Describe replaced sizes: `8,192 in place of 16`."""
    return ", ".join(f"{new:,} in place of {old:,}" for old, new in sizes.items())


def _count_as_bfloat16(collective: Collective) -> Collective:
    """Count those of a collective's arrays as bfloat16 that are of a wider floating-point type."""
    if len(collective.dtypes) != len(collective.shapes):
        return collective
    share = _share_in_bfloat16(zip(collective.dtypes, collective.shapes, strict=True))
    return replace(
        collective,
        bytes_in=round(collective.bytes_in * share),
        bytes_out=round(collective.bytes_out * share),
    )


def _share_in_bfloat16(arrays: Iterable[Array]) -> float:
    """Return the share of arrays' bytes that is left if wider floating-point types are bfloat16."""
    before = after = 0
    for dtype, shape in arrays:
        before += count_bytes(dtype, shape)
        after += count_bytes("bf16" if dtype in WIDER_THAN_BFLOAT16 else dtype, shape)
    return after / before if before else 1.0
