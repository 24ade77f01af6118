"""Cases: what a function is called with in several processes, as plain data.

A case holds no values, but the seeds for sampling them. The process that starts the others samples
the values and gives each its own share, so a function learns of the rest only by communication. The
judge samples them again. Values are small integers, so that sums do not depend on their order,
except for those of a file of weights: only all bits of a float32 can hold these.
"""

import math
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import jax
import msgspec
import numpy as np
from msgspec.structs import replace

from autograder.processes.disks import (
    Ask,
    Disk,
    FileDisk,
    NoSuchPartError,
    Rows,
    RowsDisk,
    WeightsFile,
    as_wrong_index,
)
from autograder.processes.interruptions import (
    BatchUsedError,
    Interruption,
    kill_at_change,
    kill_this_process,
    restore_size_signal,
)
from autograder.processes.isolation import refuse_to_write

Spec = tuple[str | tuple[str, ...] | None, ...]

MAX_VALUE: Final = 8
"""Values that are integers have an absolute value less than this."""


class CaseArgument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One argument of a function, as plain data.

    Attributes:
        kind: the kind of argument: the `mesh`; a `sharding` on it; a global `array`, sharded by the
            spec; `rows`, a table of which each process has only the rows that its devices hold by
            the spec; `values`, a NumPy array that is the same in each process; a `folder` for
            files, either empty or with a table's rows in files; a `shared-folder`, which is empty
            at first, and which all processes read and write; `batches`, a function that returns a
            batch of a table by its number, as one array; a `weights-file`, a function that reads
            bytes of a file with one array; its `weights-entry`, which says where they are; a
            `number`; or a `shape`.
        shape: the shape of the array or table, in elements.
        spec: the entries of the partition spec.
        seed: the seed for sampling the values.
        batch: for `rows` and `batches`, the number of rows in a batch, if each process has its
            share of each batch; 0 if it has its share of the whole table.
        number: the `number`; for a `folder`, the number of files that hold a table's rows; for a
            `weights-file` and its entry, the number of bytes before the array.
    """

    kind: Literal[
        "mesh",
        "sharding",
        "array",
        "rows",
        "batches",
        "values",
        "folder",
        "shared-folder",
        "weights-file",
        "weights-entry",
        "number",
        "shape",
    ]
    shape: tuple[int, ...] = ()
    spec: Spec = ()
    seed: int = 0
    batch: int = 0
    number: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of an array's values, which are float32."""
        return math.prod(self.shape) * np.dtype(np.float32).itemsize

    def values(self) -> np.ndarray:
        """Sample the values of an array, a table or a folder's files, as float32."""
        if self.kind == "weights-file":  # no sums; and integers would survive a coarser type
            return np.random.default_rng(self.seed).standard_normal(self.shape, np.float32)
        integers = np.random.default_rng(self.seed).integers(1 - MAX_VALUE, MAX_VALUE, self.shape)
        return integers.astype(np.float32)


class ProcessCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a function by several processes.

    Attributes:
        processes: the number of processes.
        axes: the names and sizes of the mesh axes, over all eight devices.
        given: the function's arguments.
        order: the numbers of the mesh's devices, in row-major order; by default 0, 1, 2, ….
        interruption: a kill in the middle; the function is then called again, in the same folder.
        is_resumed: whether this is the call after the kill.
    """

    processes: int
    axes: tuple[tuple[str, int], ...]
    given: tuple[CaseArgument, ...]
    order: tuple[int, ...] = ()
    interruption: Interruption | None = None
    is_resumed: bool = False

    def call_after_kill(self) -> "ProcessCase":
        """Return the call that follows the interruption; without one, this call."""
        if self.interruption is None:
            return self
        return replace(self, processes=self.interruption.resumed_by, is_resumed=True)

    def readable_batches(self, given: CaseArgument) -> range:
        """Return the numbers of the batches that can be read in this call."""
        count = given.shape[0] // given.batch
        if self.interruption is None:
            return range(count)
        if self.is_resumed:
            return range(self.interruption.step - 1, count)
        return range(self.interruption.step)

    def number_of(self, given: CaseArgument) -> int:
        """Return a number as this call is given it: fewer steps if the next call makes the rest."""
        ends = self.interruption
        if ends is not None and ends.process is None and not self.is_resumed:
            return min(given.number, ends.step)
        return given.number

    def devices_of(self, process: int) -> range:
        """Return the numbers of a process's devices; process 0 has the first ones."""
        count = math.prod(size for _, size in self.axes) // self.processes
        return range(process * count, (process + 1) * count)

    def mesh(self) -> jax.sharding.Mesh:
        """Make the mesh, over the devices of all processes; its axes are Auto."""
        names, sizes = tuple(n for n, _ in self.axes), tuple(s for _, s in self.axes)
        all_devices = jax.devices()
        devices = [all_devices[i] for i in self.order or range(math.prod(sizes))]
        kinds = (jax.sharding.AxisType.Auto,) * len(names)
        return jax.sharding.Mesh(np.array(devices).reshape(sizes), names, axis_types=kinds)

    def share_of(self, process: int) -> "ProcessShare":
        """Return what one process is given: only the values that it holds, and no seeds."""
        seedless = tuple(replace(argument, seed=0) for argument in self.given)
        held = tuple(self._values_held(argument, process) for argument in self.given)
        return ProcessShare(replace(self, given=seedless), process, held)

    def disks_of(self, process: int) -> dict[int, Disk]:
        """Return what a process may read, by the numbers of its arguments, for its parent."""
        disks: dict[int, Disk] = {}
        for number, given in enumerate(self.given):
            if given.kind not in ("rows", "weights-file"):
                continue
            values, here = given.values(), self.is_here(given, process)
            if given.kind == "rows":  # a process has all columns of its rows
                rows = np.any(here, axis=tuple(range(1, here.ndim)))
                disks[number] = RowsDisk(process, values, rows)
            else:
                blocks = [values[self._block_of(given, i)] for i in self.devices_of(process)]
                budget = sum(block.nbytes for block in blocks)
                disks[number] = FileDisk(process, values, here, given.number, budget)
        return disks

    def _values_held(self, given: CaseArgument, process: int) -> np.ndarray | None:
        """Sample an argument's values, and set those that the process does not hold to zero."""
        if given.kind == "values":
            return given.values()
        if given.kind not in ("array", "batches"):
            return None
        here = self.is_here(given, process)
        if given.kind == "batches":
            readable = self.readable_batches(given)
            here[: readable.start * given.batch] = False
            here[readable.stop * given.batch :] = False
        return np.where(here, given.values(), np.float32(0))

    def is_here(self, given: CaseArgument, process: int) -> np.ndarray:
        """Check which elements of an array or a table the devices of a process hold.

        Returns:
            Booleans, in the argument's shape.
        """
        batch = (given.batch or given.shape[0], *given.shape[1:])
        here = np.zeros(batch, bool)
        for device in self.devices_of(process):
            here[self._block_of(given, device)] = True
        return np.concatenate([here] * (given.shape[0] // batch[0]))

    def _block_of(self, given: CaseArgument, device: int) -> tuple[slice, ...]:
        """Return the block of an array, or of one batch of a table, that a device holds."""
        sizes = dict(self.axes)
        order = self.order or range(math.prod(sizes.values()))
        (position,) = np.argwhere(np.array(order).reshape([*sizes.values()]) == device)
        coordinates = dict(zip(sizes, position.tolist(), strict=True))
        block = []
        for dimension, size in enumerate((given.batch or given.shape[0], *given.shape[1:])):
            entry = given.spec[dimension] if dimension < len(given.spec) else None
            names = (entry,) if isinstance(entry, str) else entry or ()
            shard, shards = 0, 1
            for name in names:
                shard = shard * sizes[name] + coordinates[name]
                shards *= sizes[name]
            step = size // shards
            block.append(slice(shard * step, (shard + 1) * step))
        return tuple(block)

    def __str__(self) -> str:
        """Such as `2 processes, on a mesh of x=4, y=2`."""
        number = f"{self.processes} process{'es' * (self.processes > 1)}"
        axes = ", ".join(f"{name}={size}" for name, size in self.axes)
        order = f" with its devices in the order {' '.join(map(str, self.order))}"
        return f"{number}, on a mesh of {axes}{order * bool(self.order)}"


@dataclass(frozen=True)
class ProcessShare:
    """One process's share of a case; it does not hold the values of other processes.

    Attributes:
        case: the case, without its seeds.
        process: the number of the process.
        held: the values of each argument, with zeros in place of those of other processes; None
            for an argument without values.
    """

    case: ProcessCase
    process: int
    held: tuple[np.ndarray | None, ...]

    def arguments(self, folders: Path, ask: Ask) -> tuple[Any, ...]:
        """Make the function's arguments, in the process.

        A process without a `folder` may not write files from now on.

        Args:
            folders: the folder with the files of all processes.
            ask: asks the parent for what is on a disk.
        """
        if not any(given.kind in ("folder", "shared-folder") for given in self.case.given):
            sys.addaudithook(refuse_to_write)
        mesh = self.case.mesh()
        return tuple(
            self._make_argument(number, mesh, folders, ask) for number in range(len(self.held))
        )

    def _make_argument(self, number: int, mesh: jax.sharding.Mesh, folders: Path, ask: Ask) -> Any:
        given, held = self.case.given[number], self.held[number]
        sharding = jax.NamedSharding(mesh, jax.P(*given.spec))
        values = np.zeros(()) if held is None else held
        match given.kind:
            case "mesh":
                return mesh
            case "sharding":
                return sharding
            case "number":
                return self.case.number_of(given)
            case "shape":
                return given.shape
            case "values":
                return values
            case "array":
                return jax.make_array_from_callback(given.shape, sharding, lambda i: values[i])
            case "rows":
                return Rows(given.shape, number, ask)
            case "folder":
                return _make_folder(given, self.process, folders)
            case "shared-folder":
                (folders / "shared").mkdir(exist_ok=True)
                return folders / "shared"
            case "weights-file":
                return WeightsFile(2 * given.number + given.bytes, number, ask)
            case "weights-entry":
                return _describe_weights(given)
            case "batches":
                return Batches(given, values, sharding, self, folders / "shared")


class Batches:
    """A table that is read batch by batch, each as one array; reading is when a kill can happen.

    Attributes:
        given: the table, its batches, and their spec.
    """

    __module__ = "builtins"  # as for Rows

    def __init__(
        self,
        given: CaseArgument,
        table: np.ndarray,
        sharding: jax.NamedSharding,
        share: ProcessShare,
        folder: Path,
    ) -> None:
        self.given, self._table, self._sharding = given, table, sharding
        self._share, self._folder, self._is_counting = share, folder, False
        if share.case.interruption is not None:
            restore_size_signal()

    def __call__(self, step: int) -> jax.Array:
        """Return batch number `step`, which all processes read.

        Raises:
            NoSuchPartError: there is no such batch.
            BatchUsedError: it was used long before the kill.
        """
        with as_wrong_index("a batch has a whole number"):
            step = int(step)
        count = len(self._table) // self.given.batch
        if not 0 <= step < count:
            raise NoSuchPartError(
                f"there is no batch {step}: there are {count}, with the numbers 0 to {count - 1}"
            )
        case, readable = self._share.case, self._share.case.readable_batches(self.given)
        if step < readable.start:
            kill = case.interruption
            why = f"a process was killed before it had batch {readable.start + 1}"
            if kill is not None and kill.process is None:
                why = f"the first call made {kill.step} steps"
            raise BatchUsedError(
                f"batch {step} was asked for once more: {why}, so resume from batch "
                f"{readable.start} at least"
            )
        kill = case.interruption
        if kill is not None and kill.process is None and step >= readable.stop:
            raise NoSuchPartError(
                f"there is no batch {step}: this call is to make {readable.stop} steps"
            )
        if kill is not None and not case.is_resumed:
            if step >= readable.stop and kill.process == self._share.process:
                kill_this_process()
            if step >= readable.stop:
                threading.Event().wait()  # the other one is about to die
            is_last = step == readable.stop - 1 and kill.process == self._share.process
            if is_last and kill.change and not self._is_counting:
                self._is_counting = True
                kill_at_change(self._folder, kill.change)
        rows = self._table[step * self.given.batch : (step + 1) * self.given.batch]
        return jax.make_array_from_callback(rows.shape, self._sharding, lambda i: rows[i])


def _describe_weights(given: CaseArgument) -> dict[str, Any]:
    """Return the entry of a weights file's header, in the form of safetensors."""
    return {
        "dtype": "F32",
        "shape": [*given.shape],
        "data_offsets": [given.number, given.number + given.bytes],
    }


def _make_folder(given: CaseArgument, process: int, folders: Path) -> Path:
    """Return the folder that all processes read, or make an empty one for this process."""
    if given.shape:
        return folders / "common"
    folder = folders / f"process {process}"
    folder.mkdir(exist_ok=True)
    return folder


def write_files(case: ProcessCase, folders: Path) -> None:
    """Write the files that a case's processes read."""
    for given in case.given:
        if given.kind == "folder" and given.shape:
            (folders / "common").mkdir(exist_ok=True)
            for name, block in table_files(given.values(), given.number).items():
                np.save(folders / "common" / name, block)


def table_files(table: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Divide a table's rows into files.

    Returns:
        The rows in each file, by the file's name, such as `4-8.npy` for rows 4 to 7.
    """
    step = len(table) // count
    return {
        f"{start}-{start + step}.npy": table[start : start + step]
        for start in range(0, len(table), step)
    }


def written_files(folders: Path, processes: int) -> Sequence[tuple[str, Path]]:
    """Return the name and path of each file that a process wrote; names may repeat."""
    return [
        (path.name, path)
        for process in range(processes)
        for path in sorted((folders / f"process {process}").glob("*"))
    ]
