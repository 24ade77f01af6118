"""Compile one program for a TPU that is not there; `tpu_programs.py` runs this as a script.

libtpu needs a process of its own, because it is not made to be used beside another backend: it
writes to stderr and to /tmp, and a program that it does not understand may end the process, which
would be the learner's kernel. To start quickly, this script does not import the package.
"""

import os
import pickle
import sys
from typing import Any, Final, NamedTuple

ENVIRONMENT: Final = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "",  # the caller's flags are for emulated devices
    "TPU_SKIP_MDS_QUERY": "1",  # otherwise it may look for Google's metadata server, for minutes
    "TPU_LOG_DIR": "disabled",
    "JAX_ENABLE_COMPILATION_CACHE": "0",  # the caller's cache may have programs for the CPU
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",  # its lock protects a chip, and there is no chip
}
"""Environment variables that keep libtpu from looking for a TPU, and from writing logs."""


class NamedLayout(NamedTuple):
    """An argument's `NamedSharding` as data, without devices.

    Attributes:
        shape: the mesh's shape.
        names: the names of the mesh axes.
        modes: the names of the axis types.
        order: the id of each device in the mesh, in order.
        spec: the partition spec.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...]
    modes: tuple[str, ...]
    order: tuple[int, ...]
    spec: Any


class Compiled(NamedTuple):
    """A program compiled for a TPU.

    Attributes:
        module: the HLO module, serialised by XLA.
        flops: floating-point operations on each device, by XLA's count.
        memory: bytes on each device: of arguments, results and temporaries, and the bytes that
            results share with arguments.
    """

    module: bytes
    flops: float
    memory: tuple[int, int, int, int]


class Refusal(NamedTuple):
    """The reason why a program cannot be compiled.

    Attributes:
        reason: what failed: "start", "topology", "devices" or "program".
        message: the compiler's message; for "devices", the number of the topology's devices.
    """

    reason: str
    message: str


class TargetRefusedError(Exception):
    """A program cannot be compiled; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def compile_for_topology(
    topology: str, artifact: bytes, layouts: list[NamedLayout | None]
) -> Compiled:
    """Compile an exported program for the devices of a topology.

    Args:
        topology: the name of a topology, such as "v5e:2x4".
        artifact: the program, exported for TPUs.
        layouts: the layout of each argument; None if it is replicated.

    Raises:
        TargetRefusedError: there is no such topology, it has another number of devices, or the
            compiler refuses the program or does not start.
    """
    import jax
    from jax import export

    devices = _devices(topology)
    exported = export.deserialize(bytearray(artifact))
    if exported.nr_devices != len(devices):
        raise TargetRefusedError(Refusal("devices", str(len(devices))))
    first = next((layout for layout in layouts if layout is not None), None)
    arguments = [
        jax.ShapeDtypeStruct(
            aval.shape,
            aval.dtype,
            sharding=_sharding(layout or _replicated(first, devices), devices),
        )
        for aval, layout in zip(exported.in_avals, layouts, strict=True)
    ]
    try:
        compiled = jax.jit(exported.call).lower(*arguments).compile()
    except Exception as error:  # the compiler raises many types
        raise TargetRefusedError(Refusal("program", str(error))) from error
    executable: Any = compiled.runtime_executable()
    (module,) = executable.hlo_modules()
    memory: Any = compiled.memory_analysis()
    return Compiled(
        module.as_serialized_hlo_module_proto(),
        float((compiled.cost_analysis() or {}).get("flops", 0)),
        (
            memory.argument_size_in_bytes,
            memory.output_size_in_bytes,
            memory.temp_size_in_bytes,
            memory.alias_size_in_bytes,
        ),
    )


def _devices(topology: str) -> list[Any]:
    """Return the devices of a topology, in order."""
    from jax.experimental import topologies

    # by default, libtpu assumes 2 by 2 chips per host, even for a topology of one chip
    is_one_chip = topology.partition(":")[2] in ("1x1", "1x1x1")
    bounds: Any = {"chips_per_host_bounds": (1, 1, 1)} if is_one_chip else {}
    try:
        description = topologies.get_topology_desc(platform="tpu", topology_name=topology, **bounds)
    except Exception as error:  # libtpu raises many types
        reason = "topology" if "INVALID_ARGUMENT" in str(error) else "start"
        raise TargetRefusedError(Refusal(reason, str(error))) from error
    return list(description.devices)


def _replicated(first: NamedLayout | None, devices: list[Any]) -> NamedLayout:
    """Return the layout of a replicated argument, on another argument's mesh if there is one."""
    import jax

    if first is not None:
        return first._replace(spec=jax.P())
    return NamedLayout((len(devices),), ("all",), ("Auto",), tuple(range(len(devices))), jax.P())


def _sharding(layout: NamedLayout, devices: list[Any]) -> Any:
    """Return an argument's sharding with the given devices in place of the original ones."""
    import jax
    import numpy as np

    ranks = np.argsort(np.argsort(layout.order))  # of devices 0, 2, 4 and 6, device 4 has rank 2
    grid = np.array(devices, dtype=object)[ranks].reshape(layout.shape)
    modes = tuple(getattr(jax.sharding.AxisType, mode) for mode in layout.modes)
    mesh = jax.sharding.Mesh(grid, layout.names, axis_types=modes)
    return jax.NamedSharding(mesh, layout.spec)


def main() -> None:
    """Read a request from standard input, and write the reply to standard output.

    Both are pickled tuples of numbers, bytes and specs, because the other process cannot load
    classes of a script. The reply is a pair: the fields of `Compiled` and those of `Refusal`, one
    of which is None. Pickle is safe here, because both processes run our own code.
    """
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that libtpu prints to stderr, and not into the reply
    topology, artifact, plain_layouts = pickle.load(sys.stdin.buffer)
    layouts = [layout and NamedLayout(*layout) for layout in plain_layouts]
    compiled: Compiled | None = None
    refusal: Refusal | None = None
    try:
        compiled = compile_for_topology(topology, artifact, layouts)
    except TargetRefusedError as error:
        refusal = error.refusal
    pickle.dump((compiled and tuple(compiled), refusal and tuple(refusal)), stdout)
    stdout.close()
    os._exit(0)  # without waiting for libtpu's threads


if __name__ == "__main__":
    main()
