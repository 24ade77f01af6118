"""Cases for functions that several processes call, as plain data.

A case holds no values but the seeds that they are sampled from. Whoever starts the processes
samples them, and gives each process its own share alone: what a function knows of the rest, its
processes have sent each other. The judge samples them again to know what is right. Values are small
whole numbers, so that sums come out the same in whatever order they are added up.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import jax
import msgspec
import numpy as np
from msgspec.structs import replace

from autograder.errors import ShortError
from autograder.processes.isolation import refuse_to_write

Spec = tuple[str | tuple[str, ...] | None, ...]

MAX_VALUE: Final = 8
"""Values are whole numbers between its opposite and it."""


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One argument of a function, as plain data.

    Attributes:
        kind: what the function is given: the `mesh`; a `sharding` on it; a global `array` laid out
            by the spec; `rows`, a table of which a process has those alone that its devices hold
            by the spec; whole `values`, the same in each process; a `folder` for files, empty or
            with a table's rows in it; a plain `number`; or the `shape` itself.
        shape: an array's or a table's, in elements.
        spec: for each dimension the mesh axes that it is cut over, as `jax.P` takes them.
        seed: what values are drawn from.
        batch: of rows, how many there are in a batch: then each process has its share of each
            batch; 0 for the whole table at once.
        number: the plain number; of a folder, how many files a table's rows are cut into.
    """

    kind: Literal["mesh", "sharding", "array", "rows", "values", "folder", "number", "shape"]
    shape: tuple[int, ...] = ()
    spec: Spec = ()
    seed: int = 0
    batch: int = 0
    number: int = 0

    def values(self) -> np.ndarray:
        """The values of an array, a table or a folder's files."""
        drawn = np.random.default_rng(self.seed).integers(1 - MAX_VALUE, MAX_VALUE, self.shape)
        return drawn.astype(np.float32)


class ProcessCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a function by several processes.

    Attributes:
        processes: how many.
        axes: the names and sizes of the mesh's axes, over all eight devices.
        given: what the function is called with.
        order: the numbers of the devices as the mesh has them, row by row; by default in order.
    """

    processes: int
    axes: tuple[tuple[str, int], ...]
    given: tuple[Given, ...]
    order: tuple[int, ...] = ()

    def devices_of(self, process: int) -> range:
        """The numbers of the devices that a process has: they are shared out in order."""
        share = math.prod(size for _, size in self.axes) // self.processes
        return range(process * share, (process + 1) * share)

    def mesh(self) -> jax.sharding.Mesh:
        """The mesh, over the devices of all processes; its axes are Auto."""
        names, sizes = tuple(n for n, _ in self.axes), tuple(s for _, s in self.axes)
        everywhere = jax.devices()
        devices = [everywhere[i] for i in self.order or range(math.prod(sizes))]
        kinds = (jax.sharding.AxisType.Auto,) * len(names)
        return jax.sharding.Mesh(np.array(devices).reshape(sizes), names, axis_types=kinds)

    def share_of(self, process: int) -> "Share":
        """What one process is given: of each array what its devices hold, and no seed."""
        known = tuple(replace(each, seed=0) for each in self.given)
        held = tuple(self._held(each, process) for each in self.given)
        return Share(replace(self, given=known), process, held)

    def _held(self, given: Given, process: int) -> np.ndarray | None:
        """An array's or a table's values, with zeros where another process has them alone."""
        if given.kind == "values":
            return given.values()
        if given.kind not in ("array", "rows"):
            return None
        here = self.is_here(given, process)
        if given.kind == "rows":  # of a row, a process reads all
            rows = np.any(here, axis=tuple(range(1, here.ndim)), keepdims=True)
            here = np.broadcast_to(rows, given.shape)
        return np.where(here, given.values(), np.float32(0))

    def is_here(self, given: Given, process: int) -> np.ndarray:
        """For each number of an array or a table, whether a device of a process holds it.

        Returns:
            Truth values, of the shape that is given.
        """
        sizes = dict(self.axes)
        order = self.order or range(math.prod(sizes.values()))
        grid = np.array(order).reshape([*sizes.values()])
        batch = (given.batch or given.shape[0], *given.shape[1:])
        here = np.zeros(batch, bool)
        for device in self.devices_of(process):
            (where,) = np.argwhere(grid == device)
            at = dict(zip(sizes, where.tolist(), strict=True))
            block = []
            for dimension, size in enumerate(batch):
                entry = given.spec[dimension] if dimension < len(given.spec) else None
                names = (entry,) if isinstance(entry, str) else entry or ()
                number, parts = 0, 1
                for name in names:
                    number, parts = number * sizes[name] + at[name], parts * sizes[name]
                step = size // parts
                block.append(slice(number * step, (number + 1) * step))
            here[tuple(block)] = True
        return np.concatenate([here] * (given.shape[0] // batch[0]))

    def __str__(self) -> str:
        """Such as `2 processes, on a mesh of x=4, y=2`."""
        number = f"{self.processes} process{'es' * (self.processes > 1)}"
        axes = ", ".join(f"{name}={size}" for name, size in self.axes)
        order = f" with its devices in the order {' '.join(map(str, self.order))}"
        return f"{number}, on a mesh of {axes}{order * bool(self.order)}"


@dataclass(frozen=True)
class Share:
    """What one process is given of a case, and nothing that only others have.

    Attributes:
        case: the case, without the seeds of its values.
        process: the process.
        held: for each of its arguments, the values, with zeros where they are not here.
    """

    case: ProcessCase
    process: int
    held: tuple[np.ndarray | None, ...]

    def arguments(self, folders: Path) -> tuple[Any, ...]:
        """The function's arguments, made in the process.

        Args:
            folders: where the files of all processes are.
        """
        if not any(given.kind == "folder" for given in self.case.given):
            sys.addaudithook(refuse_to_write)
        mesh = self.case.mesh()
        return tuple(
            self._made(given, held, mesh, folders)
            for given, held in zip(self.case.given, self.held, strict=True)
        )

    def _made(
        self, given: Given, held: np.ndarray | None, mesh: jax.sharding.Mesh, folders: Path
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
                return _folder(given, self.process, folders)


class NotHereError(ShortError, IndexError):
    """A process asked for rows that another one has."""


class Rows:
    """A table on disk, of which this process has some rows alone; it is read as NumPy's are.

    Attributes:
        shape: of the whole table.
        dtype: of its numbers.
        refused: the first error that somebody was given who asked for rows that are not here.
    """

    __module__ = "builtins"  # JAX's messages name its type, and where that stands helps nobody

    def __init__(self, table: np.ndarray, here: np.ndarray) -> None:
        self._table, self._here = table, here
        self.shape, self.dtype, self.ndim = table.shape, table.dtype, table.ndim
        self.refused: NotHereError | None = None

    def __repr__(self) -> str:
        """Such as `rows of a table of shape (16, 4)`; JAX's messages quote it."""
        return f"rows of a table of shape {self.shape}"

    def __len__(self) -> int:
        """The number of rows of the whole table."""
        return len(self._table)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Some of the rows, or some columns of them.

        Raises:
            NotHereError: some of them are not here.
        """
        rows = index[0] if isinstance(index, tuple) else index
        asked = np.atleast_1d(np.arange(len(self._table))[rows])
        missing = asked[~self._here[asked]]
        if len(missing):
            error = NotHereError(
                f"process {jax.process_index()} has {_ranges(np.flatnonzero(self._here))} on its "
                f"disk, and not {_ranges(missing)}"
            )
            self.refused = self.refused or error
            raise error
        return np.array(self._table[index])

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """The whole table, as NumPy's functions ask for it."""
        return self[:]


def _ranges(rows: np.ndarray) -> str:
    """Such as `rows 0 to 7 and 16 to 23`; ends are counted in."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return "rows " + " and ".join(f"{r[0]} to {r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)


def _folder(given: Given, process: int, folders: Path) -> Path:
    """A folder with files for all to read; or an empty one, for this process to write."""
    if given.shape:
        return folders / "common"
    own = folders / f"process {process}"
    own.mkdir(exist_ok=True)
    return own


def write_files(case: ProcessCase, folders: Path) -> None:
    """Write the files that a case's processes are to read."""
    for given in case.given:
        if given.kind == "folder" and given.shape:
            (folders / "common").mkdir(exist_ok=True)
            for name, block in files_of(given.values(), given.number).items():
                np.save(folders / "common" / name, block)


def files_of(table: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """A table's rows as files: what is in each, by its name, such as `4-8.npy` for rows 4 to 7."""
    step = len(table) // count
    return {
        f"{start}-{start + step}.npy": table[start : start + step]
        for start in range(0, len(table), step)
    }


def files_written(folders: Path, processes: int) -> Sequence[tuple[str, Path]]:
    """The files that processes wrote: pairs of a name and a place, a name twice if two wrote it."""
    return [
        (path.name, path)
        for process in range(processes)
        for path in sorted((folders / f"process {process}").glob("*"))
    ]
