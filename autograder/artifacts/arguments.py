"""The arguments that an exercise gives a function: shape, dtype, mesh, spec and values."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final, Literal, Self

import jax
import msgspec
import numpy as np

DOMINATED: Final = 0.95
"""The sum of a row's other numbers in a dominant matrix, relative to the one on the diagonal."""


class Adjustment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of some sampled values, so that every sample has a case that is rare by chance.

    Attributes:
        block: where these values begin and end along the first dimensions.
        add: a constant that is added to them.
        keep: whether the sampled values stay. Otherwise, the constant takes their place.
    """

    block: tuple[tuple[int, int], ...]
    add: float
    keep: bool = True


class Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array argument: its shape and dtype, how it is sharded, and how its values are sampled.

    Attributes:
        shape: global shape, in elements.
        axes: names and sizes of the mesh axes, over the devices in order.
        spec: for each dimension the mesh axes that it is sharded over, as `jax.P` takes them.
        dtype: the name of its NumPy dtype.
        mode: the type of every mesh axis.
        scale: the standard deviation of its values, which are normally distributed. Integers are
            sampled uniformly from `[0, scale)`.
        shift: a constant that is added to all values.
        matrix: the kind of matrix, for the argument of a solver. `positive-definite`: symmetric,
            with eigenvalues from 1 to `condition`. `dominant`: can be factorised without pivoting,
            because in each row the diagonal outweighs the rest; rows become smaller from the
            first to the last by a factor of `condition`. With more than two dimensions, all but
            the last one count rows.
        condition: the condition number of such a matrix, roughly.
        adjustments: changes of some values after they are sampled.
    """

    shape: tuple[int, ...]
    axes: tuple[tuple[str, int], ...]
    spec: tuple[str | tuple[str, ...] | None, ...] = ()
    dtype: str = "float32"
    mode: Literal["explicit", "auto"] = "explicit"
    scale: float = 1.0
    shift: float = 0.0
    matrix: Literal["", "positive-definite", "dominant"] = ""
    condition: float = 1.0
    adjustments: tuple[Adjustment, ...] = ()

    def but(self, **changes: Any) -> Self:
        """Return a copy with some attributes changed."""
        return msgspec.structs.replace(self, **changes)

    def sample(self, generator: np.random.Generator) -> np.ndarray:
        """Sample values for it."""
        values = self._sample(generator)
        for adjustment in self.adjustments:
            block = tuple(slice(start, stop) for start, stop in adjustment.block)
            values[block] = adjustment.keep * values[block] + adjustment.add
        return values

    def _sample(self, generator: np.random.Generator) -> np.ndarray:
        if np.issubdtype(self.dtype, np.integer):
            integers = generator.integers(0, int(self.scale), self.shape) + int(self.shift)
            return integers.astype(self.dtype)
        if self.matrix:
            return self._sample_matrix(generator).reshape(self.shape).astype(self.dtype)
        values = self.scale * generator.standard_normal(self.shape) + self.shift
        if np.issubdtype(self.dtype, np.complexfloating):
            values = values + 1j * self.scale * generator.standard_normal(self.shape)
        return np.asarray(values).astype(self.dtype)

    def _sample_matrix(self, generator: np.random.Generator) -> np.ndarray:
        n = self.shape[-1]
        noise = generator.standard_normal((n, n))
        magnitudes = np.geomspace(1, self.condition, n)
        if self.matrix == "positive-definite":
            basis, _ = np.linalg.qr(noise)
            matrix = (basis * magnitudes) @ basis.T
            return np.asarray((matrix + matrix.T) / 2)
        signs = np.diag(generator.choice([-1.0, 1.0], n))
        # A high power leaves a few large numbers in each row. With small ones only, elimination
        # would subtract so little that an error in it passes for rounding. And no number is so
        # small that dividing by it, as some mistakes do, makes rounding errors outgrow the rest.
        others = np.sign(noise) * (np.abs(noise) ** 5 + 3)
        np.fill_diagonal(others, 0)
        others *= DOMINATED / np.abs(others).sum(1, keepdims=True)
        return np.asarray((signs + others) / magnitudes[:, None])


def describe_arguments(arguments: Sequence[Argument]) -> str:
    """Describe arguments: `float32[16,8] on a mesh of x=4, y=2`; without a mesh of one device."""
    shapes = ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arguments)
    axes = ", ".join(f"{name}={size}" for name, size in arguments[0].axes)
    is_single = all(size == 1 for _, size in arguments[0].axes)
    return shapes if is_single else f"{shapes} on a mesh of {axes}"


def rebuild_mesh(argument: Argument) -> jax.sharding.Mesh:
    """Make the mesh that an argument is sharded on, from the first devices in order."""
    names = tuple(name for name, _ in argument.axes)
    sizes = tuple(size for _, size in argument.axes)
    kind = {"explicit": jax.sharding.AxisType.Explicit, "auto": jax.sharding.AxisType.Auto}
    return jax.make_mesh(sizes, names, axis_types=(kind[argument.mode],) * len(names))


def sharding_of(argument: Argument) -> jax.NamedSharding:
    """Return the sharding of an argument."""
    return jax.NamedSharding(rebuild_mesh(argument), jax.P(*argument.spec))


def override_mesh(mesh: jax.sharding.Mesh) -> AbstractContextManager[object]:
    """Replace the current mesh within a `with` block, because a learner may have set one for good.

    If there is no current mesh, none is set.
    """
    if jax.sharding.get_abstract_mesh().empty:
        return nullcontext()
    return jax.set_mesh(mesh)


@contextmanager
def override_debugging() -> Iterator[None]:
    """Switch JAX's debugging off within a `with` block, because a learner may have left it on.

    With `jax_disable_jit`, JAX compiles no program, and with `jax_debug_nans`, it donates nothing.
    """
    settings: dict[str, Callable[[bool], AbstractContextManager[object]]] = {
        "jax_disable_jit": jax.disable_jit,
        "jax_debug_nans": jax.debug_nans,
    }
    with ExitStack() as stack:
        for name, setting in settings.items():
            # JAX would compile everything again for a setting that is given, and not changed
            if getattr(jax.config, name):
                stack.enter_context(setting(False))
        yield


def sharding_on_prime_axes(argument: Argument) -> jax.NamedSharding:
    """Return the same sharding on a mesh whose axes have prime sizes.

    On this mesh JAX can describe layouts that the argument's own mesh has no spec for: blocks of 2
    by 4 on a mesh of 4 by 2, for example.
    """
    factors = {
        name: [(f"{name}.{i}", prime) for i, prime in enumerate(_prime_factors(size))]
        for name, size in argument.axes
    }
    axes = [axis for small_axes in factors.values() for axis in small_axes]
    mesh = jax.make_mesh(
        tuple(size for _, size in axes),
        tuple(name for name, _ in axes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
    )
    spec = [
        tuple(small for axis in _axis_names(entry) for small, _ in factors[axis])
        for entry in argument.spec
    ]
    return jax.NamedSharding(mesh, jax.P(*spec))


def _axis_names(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the mesh axes that one entry of a spec names."""
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def _prime_factors(size: int) -> list[int]:
    """Factorise a number: `[2, 2, 3]` for 12."""
    for prime in range(2, size + 1):
        if size % prime == 0:
            return [prime, *_prime_factors(size // prime)]
    return []
