"""Cases: what a function is called with in several processes, as plain data.

A case holds no values, but the seeds for sampling them. The process that starts the others samples
the values and gives each its own share, so a function learns of the rest only by communication. The
judge samples them again. Values are small integers, so that sums do not depend on their order.
"""

import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import jax
import msgspec
import numpy as np
from msgspec.structs import replace

from autograder.processes.interruptions import (
    BatchUsedError,
    Interruption,
    kill_at_change,
    kill_this_process,
    restore_size_signal,
)
from autograder.processes.isolation import refuse_to_write
from shardlings.errors import ShortError, first_line

Spec = tuple[str | tuple[str, ...] | None, ...]

MAX_VALUE: Final = 8
"""Values are integers whose absolute value is less than this."""


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

    def values(self) -> np.ndarray:
        """Sample the values of an array, a table or a folder's files, as float32."""
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

    def _values_held(self, given: CaseArgument, process: int) -> np.ndarray | None:
        """Sample an argument's values, and set those that the process does not hold to zero."""
        if given.kind == "values":
            return given.values()
        if given.kind not in ("array", "rows", "batches", "weights-file"):
            return None
        here = self.is_here(given, process)
        if given.kind == "batches":
            readable = self.readable_batches(given)
            here[: readable.start * given.batch] = False
            here[readable.stop * given.batch :] = False
        if given.kind == "rows":  # a process holds all columns of its rows
            rows = np.any(here, axis=tuple(range(1, here.ndim)), keepdims=True)
            here = np.broadcast_to(rows, given.shape)
        return np.where(here, given.values(), np.float32(0))

    def is_here(self, given: CaseArgument, process: int) -> np.ndarray:
        """Check which elements of an array or a table the devices of a process hold.

        Returns:
            Booleans, in the argument's shape.
        """
        sizes = dict(self.axes)
        order = self.order or range(math.prod(sizes.values()))
        grid = np.array(order).reshape([*sizes.values()])
        batch = (given.batch or given.shape[0], *given.shape[1:])
        here = np.zeros(batch, bool)
        for device in self.devices_of(process):
            (position,) = np.argwhere(grid == device)
            coordinates = dict(zip(sizes, position.tolist(), strict=True))
            block = []
            for dimension, size in enumerate(batch):
                entry = given.spec[dimension] if dimension < len(given.spec) else None
                names = (entry,) if isinstance(entry, str) else entry or ()
                shard, shards = 0, 1
                for name in names:
                    shard = shard * sizes[name] + coordinates[name]
                    shards *= sizes[name]
                step = size // shards
                block.append(slice(shard * step, (shard + 1) * step))
            here[tuple(block)] = True
        return np.concatenate([here] * (given.shape[0] // batch[0]))

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

    def arguments(self, folders: Path) -> tuple[Any, ...]:
        """Make the function's arguments, in the process.

        A process without a `folder` may not write files from now on.

        Args:
            folders: the folder with the files of all processes.
        """
        if not any(given.kind in ("folder", "shared-folder") for given in self.case.given):
            sys.addaudithook(refuse_to_write)
        mesh = self.case.mesh()
        return tuple(
            self._make_argument(given, held, mesh, folders)
            for given, held in zip(self.case.given, self.held, strict=True)
        )

    def _make_argument(
        self, given: CaseArgument, held: np.ndarray | None, mesh: jax.sharding.Mesh, folders: Path
    ) -> Any:
        sharding = jax.NamedSharding(mesh, jax.P(*given.spec))
        values = np.zeros(()) if held is None else held
        match given.kind:
            case "mesh":
                return mesh
            case "sharding":
                return sharding
            case "number":
                return given.number
            case "shape":
                return given.shape
            case "values":
                return values
            case "array":
                return jax.make_array_from_callback(given.shape, sharding, lambda i: values[i])
            case "rows":
                here = self.case.is_here(given, self.process)
                return Rows(values, np.any(here, axis=tuple(range(1, here.ndim))))
            case "folder":
                return _make_folder(given, self.process, folders)
            case "shared-folder":
                (folders / "shared").mkdir(exist_ok=True)
                return folders / "shared"
            case "weights-file":
                size = values.itemsize * math.prod(sharding.shard_shape(given.shape))
                here = self.case.is_here(given, self.process)
                budget = size * len(self.case.devices_of(self.process))
                return WeightsFile(values, here, given.number, budget)
            case "weights-entry":
                return _describe_weights(given)
            case "batches":
                return Batches(given, values, sharding, self, folders / "shared")


class NoSuchPartError(ShortError, IndexError):
    """A table, or a batch of it, was asked for by an index that it does not have."""


@contextmanager
def _as_wrong_index(asked: str) -> Iterator[None]:
    """Raise any error of a `with` block as one of an index, which a learner's function chose."""
    try:
        yield
    except Exception as error:
        raise NoSuchPartError(f"{asked} ({first_line(error)})") from error


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
        with _as_wrong_index("a batch has a whole number"):
            step = int(step)
        count = len(self._table) // self.given.batch
        if not 0 <= step < count:
            raise NoSuchPartError(
                f"there is no batch {step}: there are {count}, with the numbers 0 to {count - 1}"
            )
        case, readable = self._share.case, self._share.case.readable_batches(self.given)
        if step < readable.start:
            raise BatchUsedError(
                f"batch {step} was asked for once more: a process was killed before it had batch "
                f"{readable.start + 1}, so training can go on from batch {readable.start} at least"
            )
        kill = case.interruption
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


class RowsNotHereError(ShortError, IndexError):
    """A process asked for rows that only another process has."""


class Rows:
    """A table on disk, of which this process has only some rows; it is indexed like an array.

    Attributes:
        shape: the shape of the whole table.
        dtype: the dtype of its values.
        refused: the first error raised for rows that this process does not have.
    """

    __module__ = "builtins"  # JAX's messages name its type; its module would only distract

    def __init__(self, table: np.ndarray, here: np.ndarray) -> None:
        self._table, self._here = table, here
        self.shape, self.dtype, self.ndim = table.shape, table.dtype, table.ndim
        self.refused: RowsNotHereError | None = None

    def __repr__(self) -> str:
        """Such as `rows of a table of shape (16, 4)`; JAX's messages quote it."""
        return f"rows of a table of shape {self.shape}"

    def __len__(self) -> int:
        """The number of rows of the whole table."""
        return len(self._table)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Return some of the rows, or some columns of them.

        Raises:
            RowsNotHereError: this process does not have all of them.
            NoSuchPartError: the table has none of these.
        """
        asked = f"a table of shape {self.shape} cannot be indexed like this"
        with _as_wrong_index(asked):
            rows = index[0] if isinstance(index, tuple) else index
            indexed = np.atleast_1d(np.arange(len(self._table))[rows])
        missing = indexed[~self._here[indexed]]
        if len(missing):
            rows_here = _describe_rows(np.flatnonzero(self._here))
            error = RowsNotHereError(
                f"process {jax.process_index()} has {rows_here} on its "
                f"disk, and not {_describe_rows(missing)}"
            )
            self.refused = self.refused or error
            raise error
        with _as_wrong_index(asked):
            part = np.array(self._table[index])
        return part

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """Return the whole table.

        Raises:
            RowsNotHereError: this process does not have all of it.
        """
        return self[:]


class ReadRefusedError(ShortError, ValueError):
    """A process read bytes of a file that its devices do not need.

    Attributes:
        diagnosis: `outside-the-array`; `of-another-process`, for other blocks of the array; or
            `reads-too-much`, for more bytes than its devices' blocks have.
    """

    def __init__(self, diagnosis: str, message: str) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


class WeightsFile:
    """A file with an array, of which a process may read what its devices need, and no more.

    It is called with an offset and a size, in bytes, and returns bytes.

    Attributes:
        refused: the first error raised for bytes that the process does not need.
    """

    __module__ = "builtins"  # as for Rows

    def __init__(self, array: np.ndarray, here: np.ndarray, before: int, budget: int) -> None:
        # The contents are in a closure, because attributes would give all bytes to anyone.
        self._read = _reader(array, here, before, budget)
        self.refused: ReadRefusedError | None = None

    def __call__(self, offset: int, size: int) -> bytes:
        """Return so many bytes of the file, from an offset on.

        Raises:
            NoSuchPartError: the file does not have these bytes.
            ReadRefusedError: the process does not need them.
        """
        try:
            return self._read(offset, size)
        except ReadRefusedError as error:
            self.refused = self.refused or error
            raise


def _reader(
    array: np.ndarray, here: np.ndarray, before: int, budget: int
) -> Callable[[int, int], bytes]:
    """Return a function that reads what a process needs of a file, for `WeightsFile`."""
    contents = bytes(before) + array.tobytes() + bytes(before)
    places = range(before, before + array.nbytes)
    needed = np.pad(np.repeat(here.ravel(), array.itemsize), before)
    total = 0

    def read(offset: int, size: int) -> bytes:
        nonlocal total
        with _as_wrong_index("an offset and a size are whole numbers of bytes"):
            first, count = operator.index(offset), operator.index(size)
        if first < 0 or count < 0 or first + count > len(contents):
            raise NoSuchPartError(
                f"the file has {len(contents):,} bytes, and not {count:,} from {first:,} on"
            )
        process, asked = jax.process_index(), f"{count:,} bytes from {first:,} on"
        missing = np.flatnonzero(~needed[first : first + count])
        outside = [byte for byte in (first, first + count - 1) if byte not in places]
        if missing.size and outside:
            raise ReadRefusedError(
                "outside-the-array",
                f"process {process} read {asked}, and the array has bytes {places.start:,} to "
                f"{places.stop - 1:,}",
            )
        if missing.size:
            byte = f"{first + int(missing[0]):,}"
            raise ReadRefusedError(
                "of-another-process",
                f"process {process} read {asked}, and byte {byte} is of another process",
            )
        total += count
        if total > budget:
            raise ReadRefusedError(
                "reads-too-much",
                f"process {process} has read {total:,} bytes, and the blocks of its devices have "
                f"{budget:,}",
            )
        return contents[first : first + count]

    return read


def _describe_weights(given: CaseArgument) -> dict[str, Any]:
    """Return the entry of a weights file's header, in the form of safetensors."""
    size = math.prod(given.shape) * np.dtype(np.float32).itemsize
    return {
        "dtype": "F32",
        "shape": [*given.shape],
        "data_offsets": [given.number, given.number + size],
    }


def _describe_rows(rows: np.ndarray) -> str:
    """Describe row numbers as ranges, such as `rows 0 to 7 and 16 to 23`."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return "rows " + " and ".join(f"{r[0]} to {r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)


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
