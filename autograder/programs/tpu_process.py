"""Compile one program for TPUs that are not there, in a process of its own.

It is a process of its own because libtpu is not made to live beside another backend: it writes to
the error stream and to /tmp, and a program that it does not understand may end the process, which
would be the learner's kernel. So that it starts quickly, nothing of the package is imported here,
and the process is started by this file's path.
"""

import os
import pickle
import sys
from typing import Any, Final, NamedTuple

QUIETLY: Final = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "",  # they are for emulated devices
    "TPU_SKIP_MDS_QUERY": "1",  # or it may look for Google's metadata server, for minutes
    "TPU_LOG_DIR": "disabled",
    "JAX_ENABLE_COMPILATION_CACHE": "0",  # one of programs for the CPU may be at hand
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",  # its lock keeps two from one chip, and there is none
}
"""Environment variables with which libtpu looks for no TPU, and keeps no diary of it."""


class NamedLayout(NamedTuple):
    """How one argument is laid out, without the devices.

    Attributes:
        shape: the mesh's.
        names: of its axes.
        modes: of its axes, by their names.
        order: for each place in the mesh, the number of the device.
        spec: the partition spec.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...]
    modes: tuple[str, ...]
    order: tuple[int, ...]
    spec: Any


class Compiled(NamedTuple):
    """What a TPU's compiler made.

    Attributes:
        module: the program, as XLA serialises it.
        flops: floating-point operations on each device, by XLA's count.
        memory: bytes on each device: of arguments, of results, of what is between, and of what
            results share with arguments.
    """

    module: bytes
    flops: float
    memory: tuple[int, int, int, int]


class TargetRefusedError(Exception):
    """It cannot be compiled: `why` is "start", "topology", "devices" or "program"."""

    def __init__(self, why: str, said: str) -> None:
        super().__init__(said)
        self.why = why


def compile_for(topology: str, artifact: bytes, layouts: list[NamedLayout | None]) -> Compiled:
    """Compile an exported program for the devices of a topology.

    Args:
        topology: such as "v5e:2x4".
        artifact: the program, exported for TPUs.
        layouts: how each argument is laid out; None for one that is whole on each device.

    Raises:
        RefusedError: there is no such topology, it has other devices, or the compiler refuses,
            or does not even start.
    """
    import jax
    from jax import export

    devices = _devices(topology)
    exported = export.deserialize(bytearray(artifact))
    if exported.nr_devices != len(devices):
        raise TargetRefusedError("devices", str(len(devices)))
    first = next((layout for layout in layouts if layout is not None), None)
    arguments = [
        jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=_sharding(layout or _whole(first, devices), devices)
        )
        for aval, layout in zip(exported.in_avals, layouts, strict=True)
    ]
    try:
        compiled = jax.jit(exported.call).lower(*arguments).compile()
    except Exception as error:  # compilers' refusals come in many types
        raise TargetRefusedError("program", str(error)) from error
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
    """The devices of a topology, in order."""
    from jax.experimental import topologies

    # libtpu takes a host to have 2 by 2 chips unless it is told that there is one alone
    alone = topology.partition(":")[2] in ("1x1", "1x1x1")
    bounds: Any = {"chips_per_host_bounds": (1, 1, 1)} if alone else {}
    try:
        description = topologies.get_topology_desc(platform="tpu", topology_name=topology, **bounds)
    except Exception as error:  # of which type, is libtpu's to say
        why = "topology" if "INVALID_ARGUMENT" in str(error) else "start"
        raise TargetRefusedError(why, str(error)) from error
    return list(description.devices)


def _whole(first: NamedLayout | None, devices: list[Any]) -> NamedLayout:
    """The layout of what is whole on each device, on the mesh of the others if there are any."""
    import jax

    if first is not None:
        return first._replace(spec=jax.P())
    return NamedLayout((len(devices),), ("all",), ("Auto",), tuple(range(len(devices))), jax.P())


def _sharding(layout: NamedLayout, devices: list[Any]) -> Any:
    """The sharding of an argument over other devices, each in the place of one that was."""
    import jax
    import numpy as np

    places = np.argsort(np.argsort(layout.order))  # of devices 0, 2, 4 and 6 the third is the third
    grid = np.array(devices, dtype=object)[places].reshape(layout.shape)
    modes = tuple(getattr(jax.sharding.AxisType, mode) for mode in layout.modes)
    mesh = jax.sharding.Mesh(grid, layout.names, axis_types=modes)
    return jax.NamedSharding(mesh, layout.spec)


def main() -> None:
    """Read a request from standard input, and write what came of it to standard output.

    Both are pickled: they are the same program's, and hold tuples, numbers, bytes and specs.
    """
    reply = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libtpu prints is no part of the reply
    topology, artifact, layouts = pickle.load(sys.stdin.buffer)
    try:
        came = tuple(
            compile_for(topology, artifact, [each and NamedLayout(*each) for each in layouts])
        )
    except TargetRefusedError as error:
        came = (error.why, str(error))
    pickle.dump(came, reply)
    reply.close()
    os._exit(0)  # libtpu has threads of its own, which are not waited for


if __name__ == "__main__":
    main()
