"""Compile programs with a TPU's compiler, without a TPU, in a process of its own.

The function is exported, as StableHLO, which names no devices, and compiled for the devices of a
topology, each argument cut over them as it is cut here. So a mesh that the function itself names is
no obstacle.
"""

import dataclasses
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import invalidate_caches
from importlib.util import find_spec
from typing import Any, Final

import jax

from autograder.errors import TheirError, first_line, their_error, theirs
from autograder.programs import tpu_process
from autograder.programs.compiled import UnreadableProgramError, read_module, work_left_out
from autograder.programs.compiled import read as collectives_of
from autograder.programs.report import Report
from autograder.programs.tpu_process import NamedLayout

TOPOLOGIES: Final = (
    "'v5e:2x4' (8 devices), 'v5e:2x2' (4), 'v5e:1x1' (1), 'v5e:4x4' (16), 'v6e:2x4' (8) and "
    "'v5p:2x2x2' (8)"
)
"""Examples, in words."""

COMPILER_SECONDS: Final = 300
"""A compiler that does not answer in this time is given up."""

TPU_NAME: Final = re.compile(r"v\d+[a-z]*:\d{1,3}(x\d{1,3}){1,2}")


class TargetError(ValueError):
    """A program cannot be compiled for a target; the message says why and what to do."""


def refuse_target(target: object) -> None:
    """Refuse what is no topology, and every one where there is no compiler for it.

    Raises:
        TargetError: it does.
    """
    if not isinstance(target, str) or not TPU_NAME.fullmatch(target):
        came = repr(target) if isinstance(target, str) else f"{type(target).__name__} {target!r}"
        raise TargetError(
            f"A target is the name of a TPU topology, such as {TOPOLOGIES}; {came[:80]} came."
        )
    if sys.platform != "linux":
        raise TargetError(
            "A program can be compiled for TPUs on Linux only, for there is no libtpu for "
            "another system. Colab and Kaggle have Linux."
        )
    invalidate_caches()  # it may have been installed a moment ago
    if find_spec("libtpu") is None:
        raise TargetError(
            "To compile for TPUs takes their compiler, libtpu, which is not installed. In a "
            'checkout of the course, pip install ".[tpu]" does it; elsewhere, with this JAX, '
            f'pip install "jax[tpu]=={jax.__version__}". It takes about 700 MB; no TPU is needed.'
        )


def compile_for_tpus(
    target: str,
    function: Any,
    args: Sequence[Any],
    mesh: jax.sharding.Mesh | None,
    machine: str,
    steps: bool,
) -> Report:
    """What a TPU's compiler makes of a function.

    Args:
        target: the topology.
        function: what to compile, which compiles here.
        args: its arguments; of arrays, only how they are laid out is looked at.
        mesh: what to name axes by, and devices.
        machine: what to reckon seconds for.
        steps: whether to draw how a ring does each collective.

    Raises:
        TargetError: there is no such topology, it has other devices, or the compiler refuses.
    """
    artifact, layouts, devices = exported(function, args)
    module, flops, memory = _asked(target, artifact, layouts, devices)
    try:
        program = read_module(module)
    except UnreadableProgramError as error:
        raise TargetError(
            f"What the TPU's compiler made of this program cannot be read here. {error}"
        ) from error
    more = work_left_out(program)
    arguments, results, between, shared = memory
    return Report(
        tuple(collectives_of(program, mesh)),
        mesh,
        float("inf") if more is None else flops + more,
        arguments + results + between - shared,
        machine,
        steps,
    )


def exported(function: Any, args: Sequence[Any]) -> tuple[bytes, list[NamedLayout | None], int]:
    """A function exported for TPUs; how each argument is laid out, and over how many devices.

    Raises:
        TargetError: it cannot be exported.
    """
    from jax import export

    leaves = jax.tree.leaves(tuple(args))
    try:
        with theirs():
            jitted = function if hasattr(function, "lower") else jax.jit(function)
            made = export.export(jitted, platforms=("tpu",))(*args)
    except TheirError as raised:
        said = their_error(raised.error, function)
        raise TargetError(f"For a TPU, JAX cannot export your function: {said}") from raised.error
    if len(made.in_avals) != len(leaves):
        raise TargetError(
            "An argument that jax.jit takes as static is part of the program, and not of its "
            "arguments. Bind it before: communication(functools.partial(f, n=3), x, target=…)."
        )
    # without trees of classes of the learner's, which another process does not know
    flat = dataclasses.replace(
        made,
        in_tree=jax.tree.structure((tuple(leaves), {})),
        out_tree=jax.tree.structure([0] * len(made.out_avals)),
    )
    try:
        artifact = bytes(flat.serialize())
    except Exception as error:  # they come in many types
        raise TargetError(
            f"JAX cannot hand your function on to another compiler: {first_line(error)}"
        ) from error
    return artifact, list(map(_layout, leaves)), made.nr_devices


def _layout(leaf: Any) -> NamedLayout | None:
    sharding = getattr(leaf, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    if not isinstance(sharding, jax.NamedSharding) or mesh is None:
        return None
    concrete = isinstance(mesh, jax.sharding.Mesh)
    order = [d.id for d in mesh.devices.flat] if concrete else range(mesh.size)
    return NamedLayout(
        tuple(mesh.axis_sizes),
        tuple(mesh.axis_names),
        tuple(mode.name for mode in mesh.axis_types),
        tuple(order),
        sharding.spec,
    )


def _asked(
    target: str, artifact: bytes, layouts: Sequence[NamedLayout | None], devices: int
) -> tuple[bytes, float, tuple[int, int, int, int]]:
    """What the other process replies: a module, its operations, and bytes of memory."""
    request = (target, artifact, [each and tuple(each) for each in layouts])
    try:
        done = subprocess.run(
            [sys.executable, "-P", tpu_process.__file__],
            input=pickle.dumps(request),
            capture_output=True,
            timeout=COMPILER_SECONDS,
            env={**os.environ, **tpu_process.QUIETLY},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TargetError(
            f"The TPU's compiler did not come to an end in {COMPILER_SECONDS} seconds."
        ) from None
    if done.returncode or not done.stdout:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it says nothing"]
        raise TargetError(
            f"The TPU's compiler ended with status {done.returncode}, and this program is not "
            f"compiled: {last[0][:300]}"
        )
    came: Any = pickle.loads(done.stdout)
    if len(came) == 2:
        why, said = came
        raise TargetError(_refusal(target, why, said, devices))
    module, flops, memory = came
    return module, flops, memory


def _refusal(target: str, why: str, said: str, devices: int) -> str:
    """Why it was refused, in a sentence or two."""
    if why == "start":
        return f"The TPU's compiler does not start: {_first(said)}"
    if why == "topology":
        return f"There is no topology {target!r}. There are, for example, {TOPOLOGIES}."
    if why == "devices":
        return (
            f"The program is for {_counted(devices)}, and {target!r} has {said}. Topologies are, "
            f"for example, {TOPOLOGIES}."
        )
    if "RESOURCE_EXHAUSTED" in said or "Ran out of memory" in said:
        return f"On {target}, this program needs more memory than a chip has. {_first(said)}"
    return f"The compiler for {target} refused it: {_first(said)}"


def _first(said: str) -> str:
    return said.strip().partition("\n")[0][:300]


def _counted(devices: int) -> str:
    return "one device" if devices == 1 else f"{devices} devices"
