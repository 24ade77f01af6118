"""A program at two sizes: whether it is the same, and what its compiler is told of sizes."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from autograder.programs import ProgramError
from autograder.programs.same_program import hide_sizes, refuse_another_program
from tests.helpers import sharding

SIZES = ((4096, 64, 192), (1024, 32, 160))
"""Two sizes of the arguments, at the real size and at two small ones."""


def lowered(f, rows, columns):
    x = jax.ShapeDtypeStruct((rows, columns), jnp.float32, sharding=sharding("x", x=8))
    return jax.jit(f).lower(x)


def modules(f):
    return [
        lowered(f, rows, columns).compiler_ir("stablehlo")
        for rows, columns in zip(*SIZES, strict=True)
    ]


def look_at(f):
    refuse_another_program(modules(f), jax.sharding.Mesh(jax.devices(), ("x",)), SIZES)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x @ x.T).mean(),
        lambda x: jnp.tril(x.reshape(8, -1, x.shape[1])).sum(1) / x.shape[1] ** 0.5,
        lambda x: lax.fori_loop(0, 4, lambda _, c: c + x.sum(0), x[0]),
        lambda x: jnp.concatenate([x, x], 1),
    ],
)
def test_what_follows_from_the_arguments_sizes_is_the_same_program(f):
    look_at(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[: min(x.shape[0], 512)] * 2,
        lambda x: x[:, : x.shape[1] // 2 if x.shape[1] > 500 else x.shape[1]],
        lambda x: x.sum() if x.shape[0] > 1000 else x.sum() + 0 * x.max(),
        lambda x: x[:192],
    ],
)
def test_what_does_not_is_refused(f):
    with pytest.raises(ProgramError, match="real size"):
        look_at(f)


def test_a_written_in_size_is_told_apart_from_a_constant_one():
    look_at(lambda x: jnp.broadcast_to(x.sum(), (3, 5)))


def renamed(module, names):
    """The same program, with other names for its functions."""
    text = str(module)
    for name, other in names.items():
        assert f"@{name}(" in text
        text = text.replace(f"@{name}(", f"@{other}(")
    with module.context:
        return type(module).parse(text)


def calling_two(x):
    return jax.jit(jnp.sin)(x) + jax.jit(jnp.cos)(x)


def test_what_functions_are_called_does_not_matter_but_which_of_them_is():
    large, *small = modules(calling_two)
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    refuse_another_program([renamed(large, {"sin": "sin_71", "cos": "a"}), *small], mesh, SIZES)
    text = str(large)
    first = next(line for line in text.splitlines() if "call @" in line)
    with large.context:
        twice = type(large).parse(text.replace(first, first.replace("@sin(", "@cos(")))
    with pytest.raises(ProgramError, match="real size"):
        refuse_another_program([twice, *small], mesh, SIZES)


def test_packed_numbers_are_refused():
    with pytest.raises(ProgramError, match="packs numbers into others"):
        look_at(lambda x: lax.bitcast_convert_type(x.astype(jnp.float16), jnp.uint16))
    with jax.enable_x64(True), pytest.raises(ProgramError, match="64 bits"):
        look_at(lambda x: x.astype(jnp.float64) * 2)


def test_numbers_that_come_from_a_size_are_behind_a_barrier():
    large, small, _ = modules(lambda x: 3 * x / x.size + jnp.arange(x.shape[1]))
    hide_sizes(large, small)
    text = str(large)
    # the number of elements, and the iota; but not the three
    assert text.count("optimization_barrier") == 2
    assert "dense<3.0" in text


def test_a_program_without_such_numbers_stays_as_it_is():
    large, small, _ = modules(lambda x: jnp.where(x > 0, 3 * x, x))
    before = str(large)
    hide_sizes(large, small)
    assert str(large) == before
