"""Compile programs with a TPU's compiler, in a process of its own and without a TPU.

The function is exported as StableHLO, which does not name devices, so the function may use a mesh
of CPU devices. The program is then compiled for the devices of a topology, with the arguments
sharded over them as they are sharded here. The other process runs `tpu_process.py`.
"""

import dataclasses
import inspect
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import invalidate_caches
from importlib.util import find_spec
from typing import Any, Final

import jax

from shardlings.errors import TheirError, describe_error, first_line, theirs
from shardlings.programs import tpu_process
from shardlings.programs.compiled import (
    UnreadableProgramError,
    count_flops_xla_omits,
    count_int8_operations,
    read_collectives,
    read_module,
)
from shardlings.programs.lowering import as_jitted
from shardlings.programs.report import Report
from shardlings.programs.tpu_process import Compiled, NamedLayout, Refusal

TOPOLOGIES: Final = (
    "'v5e:2x4' (8 devices), 'v5e:2x2' (4), 'v5e:1x1' (1), 'v5e:4x4' (16), 'v6e:2x4' (8) and "
    "'v5p:2x2x2' (8)"
)
"""Examples for error messages."""

COMPILER_SECONDS: Final = 300
"""The compiler's time limit."""

TPU_NAME: Final = re.compile(r"v\d+[a-z]*:\d{1,3}(x\d{1,3}){1,2}")


class TargetError(ValueError):
    """A program cannot be compiled for a target; the message says why and what to do."""


def refuse_target(target: object) -> None:
    """Refuse a target that is not a topology's name, or that cannot be compiled for here.

    Raises:
        TargetError: the target is refused, or libtpu is not installed.
    """
    if not isinstance(target, str) or not TPU_NAME.fullmatch(target):
        shown = repr(target) if isinstance(target, str) else f"{type(target).__name__} {target!r}"
        raise TargetError(
            f"A target is the name of a TPU topology, such as {TOPOLOGIES}; got {shown[:80]}."
        )
    if sys.platform != "linux":
        raise TargetError(
            "A program can be compiled for TPUs only on Linux, because libtpu exists only there. "
            "Colab and Kaggle run Linux."
        )
    invalidate_caches()  # libtpu may have been installed a moment ago
    if find_spec("libtpu") is None:
        raise TargetError(
            "Compiling for TPUs needs their compiler, libtpu, which is not installed. In a "
            'checkout of the course, pip install ".[tpu]" does it; elsewhere, with this JAX, '
            f'pip install "jax[tpu]=={jax.__version__}". It takes about 700 MB; no TPU is needed.'
        )


def compile_for_tpus(
    target: str,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    mesh: jax.sharding.Mesh | None,
    machine: str,
    steps: bool,
) -> Report:
    """Compile a function for a TPU topology, and report its communication.

    Args:
        target: the topology.
        function: the function, which is known to compile for the CPU.
        args: its arguments, of which only shapes, dtypes and shardings matter.
        kwargs: those that are given by name.
        mesh: the mesh by which axes and devices are named.
        machine: the name of the machine to estimate times for.
        steps: whether to draw the steps of each collective in a ring.

    Raises:
        TargetError: there is no such topology, it has another number of devices, or the compiler
            refuses the program.
    """
    artifact, layouts, devices = export_for_tpus(function, args, kwargs)
    compiled = _compile_elsewhere(target, artifact, layouts, devices)
    try:
        program = read_module(compiled.module)
    except UnreadableProgramError as error:
        raise TargetError(
            f"What the TPU's compiler made of this program cannot be read here. {error}"
        ) from error
    uncounted = count_flops_xla_omits(program)
    arguments, results, temporaries, shared = compiled.memory
    names = name_arguments(function, args, kwargs)
    collectives = [
        dataclasses.replace(c, names=tuple(names.get(name, "") for name in c.names))
        for c in read_collectives(program, mesh)
    ]
    return Report(
        tuple(collectives),
        mesh,
        float("inf") if uncounted is None else compiled.flops + uncounted,
        arguments + results + temporaries - shared,
        machine,
        steps,
        int8_operations=count_int8_operations(program),
    )


def name_arguments(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Map names in an exported program, such as `args[0]`, to those of the function's arguments.

    Args:
        function: the function.
        args: its arguments.
        kwargs: those that are given by name.

    Returns:
        Nothing if the names of the function's parameters are unknown.
    """
    try:
        named = inspect.signature(function).bind_partial(*args).arguments
    except (TypeError, ValueError):
        return {}
    paths = [
        f"{name}{jax.tree_util.keystr(path)}"
        for name, value in (*named.items(), *sorted(kwargs.items()))
        for path, _ in jax.tree_util.tree_flatten_with_path(value)[0]
    ]
    return {f"args[{number}]": path for number, path in enumerate(paths)}


def export_for_tpus(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[bytes, list[NamedLayout | None], int]:
    """Export a function for TPUs.

    Returns:
        The exported program, the layout of each argument, and the number of devices.

    Raises:
        TargetError: it cannot be exported.
    """
    from jax import export

    leaves = jax.tree.leaves((tuple(args), dict(kwargs)))
    jitted = as_jitted(function)
    try:
        with theirs():
            lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=("tpu",))
        # JAX has no exported program depend on most custom calls, because another version might
        # read it. Here it is this one.
        checks = list(map(export.DisabledSafetyCheck.custom_call, _name_custom_calls(lowered)))
        export_now = export.export(jitted, platforms=("tpu",), disabled_checks=checks)
        with theirs():
            exported = export_now(*args, **kwargs)
    except TheirError as raised:
        message = describe_error(raised.error, function)
        raise TargetError(f"JAX cannot export your function for a TPU: {message}") from raised.error
    if len(exported.in_avals) != len(leaves):
        raise TargetError(
            "A static argument of jax.jit is compiled into the program. Bind it first: "
            "communication(functools.partial(f, n=3), x, target=…)."
        )
    # a pytree may have classes of the learner's, which the other process does not know
    flat = dataclasses.replace(
        exported,
        in_tree=jax.tree.structure((tuple(leaves), {})),
        out_tree=jax.tree.structure([0] * len(exported.out_avals)),
    )
    try:
        artifact = bytes(flat.serialize())
    except Exception as error:  # JAX raises many types
        raise TargetError(f"JAX cannot serialise your function: {first_line(error)}") from error
    return artifact, list(map(_layout_of, leaves)), exported.nr_devices


def _name_custom_calls(lowered: Any) -> list[str]:
    """Return the routines that a lowered program calls by name."""
    from jax.extend.mlir import ir

    names: set[str] = set()

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            names.add(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    lowered.compiler_ir("stablehlo").operation.walk(look)
    return sorted(names)


def _layout_of(leaf: Any) -> NamedLayout | None:
    sharding = getattr(leaf, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    if not isinstance(sharding, jax.NamedSharding) or mesh is None:
        return None
    has_devices = isinstance(mesh, jax.sharding.Mesh)
    order = [d.id for d in mesh.devices.flat] if has_devices else range(mesh.size)
    return NamedLayout(
        tuple(mesh.axis_sizes),
        tuple(mesh.axis_names),
        tuple(mode.name for mode in mesh.axis_types),
        tuple(order),
        sharding.spec,
    )


def _compile_elsewhere(
    target: str, artifact: bytes, layouts: Sequence[NamedLayout | None], devices: int
) -> Compiled:
    """Compile a program in another process.

    Raises:
        TargetError: the program is refused, or the process does not finish.
    """
    request = (target, artifact, [layout and tuple(layout) for layout in layouts])
    try:
        done = subprocess.run(
            [sys.executable, "-P", tpu_process.__file__],
            input=pickle.dumps(request),
            capture_output=True,
            timeout=COMPILER_SECONDS,
            env={**os.environ, **tpu_process.ENVIRONMENT},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TargetError(
            f"The TPU's compiler did not finish within {COMPILER_SECONDS} seconds."
        ) from None
    if done.returncode or not done.stdout:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            "it printed nothing"
        ]
        raise TargetError(
            f"The TPU's compiler ended with status {done.returncode}, and this program is not "
            f"compiled: {last[0][:300]}"
        )
    compiled, refusal = pickle.loads(done.stdout)
    if refusal is not None:
        raise TargetError(_explain_refusal(target, Refusal(*refusal), devices))
    return Compiled(*compiled)


def _explain_refusal(target: str, refusal: Refusal, devices: int) -> str:
    reason, message = refusal
    if reason == "start":
        return f"The TPU's compiler does not start: {_first_line(message)}"
    if reason == "topology":
        return f"There is no topology {target!r}. Examples: {TOPOLOGIES}."
    if reason == "devices":
        return (
            f"The program is for {_count_devices(devices)}, and {target!r} has {message}. "
            f"Examples of topologies: {TOPOLOGIES}."
        )
    if "RESOURCE_EXHAUSTED" in message or "Ran out of memory" in message:
        return (
            f"On {target}, this program needs more memory than a chip has. {_first_line(message)}"
        )
    return f"The compiler for {target} refused it: {_first_line(message)}"


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0][:300]


def _count_devices(devices: int) -> str:
    return "one device" if devices == 1 else f"{devices} devices"
