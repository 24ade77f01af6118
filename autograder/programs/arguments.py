"""Arguments of a function: their shapes, meshes and specs, and arrays laid out so."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Self

import jax
import msgspec
import numpy as np

Shape = tuple[int, ...]


class Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array that a function under judgement is given: what it is, and how it is laid out.

    Attributes:
        shape: global shape, in elements.
        axes: the mesh's axis names and sizes, over the devices in order.
        spec: for each dimension the axes it is split over, as `jax.P` takes them.
        dtype: the NumPy name of its type.
        mode: the mode of every mesh axis.
        scale: how large its values are: they are drawn from a normal distribution, times this.
            Integers are drawn from 0 up to it.
        shift: what is added to them.
        matrix: of matrices that a solver is given, what sort they are: `positive-definite` and
            symmetric, with eigenvalues from 1 up to `condition`; or `dominant`, which can be
            factorised without exchanging rows: in each row the diagonal outweighs the rest, and
            the rows grow smaller, until the last is one of `condition` parts of the first. Where
            there are more than two dimensions, all but the last count rows.
        condition: how badly conditioned such a matrix is.
    """

    shape: Shape
    axes: tuple[tuple[str, int], ...]
    spec: tuple[str | tuple[str, ...] | None, ...] = ()
    dtype: str = "float32"
    mode: Literal["explicit", "auto"] = "explicit"
    scale: float = 1.0
    shift: float = 0.0
    matrix: Literal["", "positive-definite", "dominant"] = ""
    condition: float = 1.0

    def but(self, **changes: Any) -> Self:
        """The same with some of it changed."""
        return msgspec.structs.replace(self, **changes)

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        """Fresh values for it."""
        if np.issubdtype(self.dtype, np.integer):
            whole = generator.integers(0, int(self.scale), self.shape) + int(self.shift)
            return whole.astype(self.dtype)
        if self.matrix:
            return self._matrix(generator).reshape(self.shape).astype(self.dtype)
        drawn = self.scale * generator.standard_normal(self.shape) + self.shift
        if np.issubdtype(self.dtype, np.complexfloating):
            drawn = drawn + 1j * self.scale * generator.standard_normal(self.shape)
        return np.asarray(drawn).astype(self.dtype)

    def _matrix(self, generator: np.random.Generator) -> np.ndarray:
        n = self.shape[-1]
        drawn = generator.standard_normal((n, n))
        sizes = np.geomspace(1, self.condition, n)
        if self.matrix == "positive-definite":
            basis, _ = np.linalg.qr(drawn)
            made = (basis * sizes) @ basis.T
            return np.asarray((made + made.T) / 2)
        signs = np.diag(generator.choice([-1.0, 1.0], n))
        return np.asarray((signs + drawn / (2 * n)) / sizes[:, None])


def described(arguments: Sequence[Argument]) -> str:
    """Arguments in words: their shapes, and the mesh that they are on."""
    shapes = ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arguments)
    axes = ", ".join(f"{name}={size}" for name, size in arguments[0].axes)
    return f"{shapes} on a mesh of {axes}"


def mesh_of(argument: Argument) -> jax.sharding.Mesh:
    """The mesh that an argument is to be laid out on, over the first devices in order."""
    names = tuple(name for name, _ in argument.axes)
    sizes = tuple(size for _, size in argument.axes)
    kind = {"explicit": jax.sharding.AxisType.Explicit, "auto": jax.sharding.AxisType.Auto}
    return jax.make_mesh(sizes, names, axis_types=(kind[argument.mode],) * len(names))


def placed(argument: Argument) -> jax.NamedSharding:
    """The sharding that an argument is to have."""
    return jax.NamedSharding(mesh_of(argument), jax.P(*argument.spec))


def current(mesh: jax.sharding.Mesh) -> AbstractContextManager[object]:
    """Makes a mesh the current one, where another is: a learner may have set one for good."""
    if jax.sharding.get_abstract_mesh().empty:
        return nullcontext()
    return jax.set_mesh(mesh)


def finely_placed(argument: Argument) -> jax.NamedSharding:
    """The same sharding, on a mesh whose axes have prime sizes: it can describe many more."""
    factors = {
        name: [(f"{name}.{i}", prime) for i, prime in enumerate(_prime_factors(size))]
        for name, size in argument.axes
    }
    axes = [axis for split in factors.values() for axis in split]
    mesh = jax.make_mesh(
        tuple(size for _, size in axes),
        tuple(name for name, _ in axes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
    )
    spec = [
        tuple(name for whole in _names(entry) for name, _ in factors[whole])
        for entry in argument.spec
    ]
    return jax.NamedSharding(mesh, jax.P(*spec))


def _names(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The mesh axes that one entry of a spec names."""
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def _prime_factors(size: int) -> list[int]:
    """`[2, 2, 3]` for 12."""
    for prime in range(2, size + 1):
        if size % prime == 0:
            return [prime, *_prime_factors(size // prime)]
    return []
