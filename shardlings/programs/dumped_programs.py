"""Report on a program that XLA has dumped where it ran: on TPUs, on GPUs, or on another machine.

A job writes its programs if its `XLA_FLAGS` have `--xla_dump_to=FOLDER --xla_dump_hlo_as_proto`:
what JAX made of each (`….before_optimizations.hlo.pb`), and what runs on a device
(`….after_optimizations.hlo.pb`); without the second flag, both as text (`….txt`). A serialised
module is an `HloProto`, of which an `HloModuleProto` is a part. Text is parsed by XLA itself.
"""

import importlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from shardlings.errors import ShortError, first_line
from shardlings.programs.collective import MACHINES, MeshLike, explain_unknown_machine
from shardlings.programs.compiled import (
    UnreadableProgramError,
    count_flops,
    count_int8_operations,
    read_collectives,
    read_dumped_module,
)
from shardlings.programs.numbers_in_words import bytes_with_unit
from shardlings.programs.report import MACHINE, Report

BEFORE: Final = "before_optimizations"
AFTER: Final = "after_optimizations"

DUMPED: Final = re.compile(
    r"(?P<module>.+?)\.(?P<backend>(sm_\d+\.)?\w+_)?"  # a GPU's generation is written sm_9.0
    rf"(?P<stage>{BEFORE}|{AFTER})(?P<form>\.hlo\.pb|\.pb|\.txt)"
)
"""Matches the names that XLA gives to dumped programs."""

PARTITIONS: Final = re.compile(r"HloModule .*?\bnum_partitions=(\d+)")
REPLICAS: Final = re.compile(r"HloModule .*?\breplica_count=(\d+)")

MAX_LISTED: Final = 10
"""The most files that an error message lists."""

MAX_DUMP_BYTES: Final = 1 << 30


class DumpError(ShortError, ValueError):
    """A dump cannot be reported on; the message says why and what to do."""


class DumpedDevice(NamedTuple):
    """A device of the machine where a program was dumped.

    Attributes:
        id: its number.
    """

    id: int


@dataclass(frozen=True, eq=False)
class DumpedMesh:
    """A mesh of the machine where a program was dumped.

    Attributes:
        devices: its devices, an array of `DumpedDevice`.
        axis_names: the names of its axes, in order.
    """

    devices: npt.NDArray[Any]
    axis_names: tuple[str, ...]

    @classmethod
    def of(cls, axes: Mapping[str, int], ids: Sequence[int] = ()) -> "DumpedMesh":
        """Return the mesh with these axes, by name and size, and ids of devices, in order."""
        sizes = tuple(axes.values())
        count = int(np.prod(sizes))
        devices = np.empty(count, object)
        for place, number in enumerate(ids or range(count)):
            devices[place] = DumpedDevice(number)
        return cls(devices.reshape(sizes), tuple(axes))


def read_dump(
    path: str | Path,
    *,
    mesh: Mapping[str, int] | jax.sharding.Mesh | None = None,
    machine: str = MACHINE,
    steps: bool = False,
) -> Report:
    """Report on a program that XLA has dumped, as `communication` does for one of this process.

    For example, `read_dump("dump", mesh={"data": 8, "model": 4}, machine="H100 NVLink")`.

    Args:
        path: a file that XLA has dumped, or a folder with one program.
        mesh: the mesh that names the axes, or the sizes of its axes by their names. By default, it
            is read from the program before optimisation, which XLA dumps beside the other one.
        machine: the machine to estimate times for: a name in
            `shardlings.programs.collective.MACHINES`.
        steps: whether to draw the steps of each collective in a ring, and to play them.

    Returns:
        A `Report`. Its memory is unknown if the program was dumped as text.

    Raises:
        DumpError: there is no such file, it is no dumped program, the folder has several, or the
            mesh has another number of devices.
    """
    if not isinstance(machine, str) or machine not in MACHINES:
        raise DumpError(explain_unknown_machine(machine))
    file = _find_program(Path(path))
    name = DUMPED.fullmatch(file.name)
    try:
        dumped = read_dumped_module(*_read_module(file))
    except UnreadableProgramError as error:
        raise DumpError(f"{file} is not a program that can be read here. {error}") from error
    program = dumped.program
    named = _as_mesh(mesh) if mesh is not None else _find_mesh(file, dumped.meshes)
    if named is not None and named.devices.size != program.partitions:
        if mesh is not None:
            raise DumpError(
                f"The mesh has {named.devices.size} devices, and the program was compiled for "
                f"{program.partitions}."
            )
        named = None
    flops = count_flops(program)
    return Report(
        tuple(
            read_collectives(
                program, named, is_emulated=name is not None and name["backend"] == "cpu_"
            )
        ),
        named,
        float("inf") if flops is None else flops,
        dumped.allocated,
        machine,
        steps,
        int8_operations=count_int8_operations(program),
        is_unoptimised=name is not None and name["stage"] == BEFORE,
        source=_explain_source(file, name["stage"] if name is not None else ""),
    )


def _find_program(path: Path) -> Path:
    """Return the file of a program: itself, or the one of a folder that is dumped there.

    Raises:
        DumpError: there is none, or there are several.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise DumpError(f"There is no file or folder {path}.")
    programs: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        name = DUMPED.fullmatch(file.name)
        if name is not None and name["stage"] == AFTER:
            is_better = name["module"] not in programs or name["form"] != ".txt"
            programs |= {name["module"]: file} if is_better else {}
    if not programs:
        raise DumpError(
            f"{path} has no program that XLA has dumped, such as module_0001.jit_step.{AFTER}"
            f".hlo.pb. Run the job with XLA_FLAGS="
            f'"--xla_dump_to={path} --xla_dump_hlo_as_proto".'
        )
    if len(programs) > 1:
        largest = sorted(programs.values(), key=lambda file: -file.stat().st_size)
        listed = [
            f"{file.name} ({bytes_with_unit(file.stat().st_size)})" for file in largest[:MAX_LISTED]
        ]
        more = f", and {len(largest) - MAX_LISTED} more" if len(largest) > MAX_LISTED else ""
        raise DumpError(
            f"{path} has {len(programs)} programs. Name one of them, such as the largest: "
            f"{', '.join(listed)}{more}."
        )
    (program,) = programs.values()
    return program


def _read_module(file: Path) -> tuple[bytes, int]:
    """Return a serialised program, and its number of partitions, or 0 if the module has it.

    Raises:
        DumpError: the file cannot be read, or is no program.
    """
    try:
        if file.stat().st_size > MAX_DUMP_BYTES:
            raise DumpError(f"{file} is larger than {bytes_with_unit(MAX_DUMP_BYTES)}.")
        contents = file.read_bytes()
    except OSError as error:
        raise DumpError(f"{file} cannot be read: {error}.") from None
    if not contents.lstrip().startswith(b"HloModule"):
        return contents, 0
    text = contents.decode(errors="replace")
    try:
        module = _hlo().hlo_module_from_text(text)
    except Exception as error:  # XLA raises many types
        raise DumpError(f"XLA cannot read the text in {file}: {first_line(error)}") from error
    heading = text.lstrip().partition("\n")[0]
    counts = [int(match[1]) for each in (PARTITIONS, REPLICAS) if (match := each.match(heading))]
    return module.as_serialized_hlo_module_proto(), max(counts, default=1)


def _hlo() -> Any:
    """Return the module with XLA's parser of text."""
    try:
        return importlib.import_module("jaxlib._hlo")
    except ImportError:  # before JAX 0.9
        return importlib.import_module("jaxlib._jax")


def _as_mesh(mesh: Mapping[str, int] | jax.sharding.Mesh) -> MeshLike:
    if isinstance(mesh, jax.sharding.Mesh):
        return mesh
    is_right = isinstance(mesh, Mapping) and all(
        isinstance(name, str) and isinstance(size, int) and size > 0 for name, size in mesh.items()
    )
    if not is_right or not mesh:
        raise DumpError(
            'A mesh is a jax.sharding.Mesh, or the sizes of its axes: mesh={"data": 8, "model": 4}.'
        )
    return DumpedMesh.of(mesh)


def _find_mesh(file: Path, meshes: Sequence[Mapping[str, int]]) -> MeshLike | None:
    """Return the mesh that a program names, or the program that was dumped before it was optimised.

    None if they name none, or several.
    """
    name = DUMPED.fullmatch(file.name)
    if not meshes and name is not None and name["stage"] == AFTER:
        for form in (".hlo.pb", ".pb", ".txt"):
            before = file.with_name(f"{name['module']}.{BEFORE}{form}")
            if before.is_file():
                with suppress(DumpError, UnreadableProgramError):  # it only gives names
                    meshes = read_dumped_module(*_read_module(before)).meshes
                break
    return DumpedMesh.of(meshes[0]) if len(meshes) == 1 else None


def _explain_source(file: Path, stage: str) -> str:
    if stage == BEFORE:
        return (
            f"Read from {file.name}, the program before it was optimised and partitioned. Its "
            f"collectives are only those that it requests itself, and its operations are counted "
            f"for all devices together."
        )
    return f"Read from {file.name}."
