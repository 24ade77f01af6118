"""Programs at several sizes: which differences are accepted."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from autograder.artifacts import ProgramError
from autograder.artifacts.program_sizes import (
    _outline,
    refuse_another_program,
    short_float_types,
    walk,
)
from tests.helpers import sharding

SIZES = ((4096, 64, 192), (1024, 32, 160))
"""The argument's rows and columns, each at the real size and at two small ones."""


def lowered(f, rows, columns):
    x = jax.ShapeDtypeStruct((rows, columns), jnp.float32, sharding=sharding("x", x=8))
    return jax.jit(f).lower(x)


def modules(f, sizes=SIZES):
    return [
        lowered(f, rows, columns).compiler_ir("stablehlo")
        for rows, columns in zip(*sizes, strict=True)
    ]


def compare_sizes(f, sizes=SIZES):
    refuse_another_program(modules(f, sizes), jax.sharding.Mesh(jax.devices(), ("x",)), sizes)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x @ x.T).mean(),
        lambda x: jnp.tril(x.reshape(8, -1, x.shape[1])).sum(1) / x.shape[1] ** 0.5,
        lambda x: lax.fori_loop(0, 4, lambda _, c: c + x.sum(0), x[0]),
        lambda x: jnp.concatenate([x, x], 1),
        lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :],
        lambda x: jnp.pad(x, ((0, x.shape[0]), (0, 0))),
    ],
)
def test_sizes_that_follow_from_the_arguments_are_accepted(f):
    compare_sizes(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[: min(x.shape[0], 512)] * 2,
        lambda x: x[:, : x.shape[1] // 2 if x.shape[1] > 500 else x.shape[1]],
        lambda x: x.sum() if x.shape[0] > 1000 else x.sum() + 0 * x.max(),
        lambda x: x[:192],
        # which of two values an operation takes
        lambda x: jnp.where(True, *((x, 2 * x) if x.shape[0] > 1000 else (2 * x, x))),
        # in which order two numbers are compared
        lambda x: jnp.where(
            (lax.gt if x.shape[0] > 1000 else lax.lt)(jnp.float32(1), jnp.float32(2)), x, 2 * x
        ),
        # which third is sliced depends on the size
        lambda x: lax.slice_in_dim(
            jnp.concatenate([x, 2 * x, x]),
            (2 if x.shape[0] > 1000 else 1) * x.shape[0],
            (3 if x.shape[0] > 1000 else 2) * x.shape[0],
        ),
        # whether row 100 is in the first half
        lambda x: jnp.concatenate([x, 2 * x])[100:101],
        # whether the array begins before the padding does
        lambda x: lax.pad(x, 0.0, ((0, x.shape[0], 0), (8, 8, 0))),
    ],
)
def test_other_differences_are_refused(f):
    with pytest.raises(ProgramError, match="real size"):
        compare_sizes(f)


def test_the_refusal_names_the_first_operation_that_differs_and_its_line():
    def branch_on_rows(x):
        y = jnp.sin(x)
        if x.shape[0] > 1000:
            return jnp.cos(y)
        return jnp.tanh(y)

    line = branch_on_rows.__code__.co_firstlineno
    with pytest.raises(ProgramError) as refused:
        compare_sizes(branch_on_rows)
    assert (
        f"The first difference is `cosine` (line {line + 3}) at the real size, and `tanh` "
        f"(line {line + 4}) at a small one." in str(refused.value)
    )


def test_the_refusal_names_no_line_of_a_librarys_function():
    def take_fewer_turns(x):
        for _ in range(2 if x.shape[0] > 1000 else 1):
            x = jnp.linalg.norm(x) * jnp.where(x > 0, x, -x)
        return x

    with pytest.raises(ProgramError) as refused:
        compare_sizes(take_fewer_turns)
    assert "`call`" not in str(refused.value)


def test_the_refusal_names_the_line_of_a_size_that_is_written_in():
    def cut_rows(x):
        return x[:48] * 2

    line = cut_rows.__code__.co_firstlineno + 1
    with pytest.raises(ProgramError, match=rf"part of an array \(line {line}\). At the real"):
        compare_sizes(cut_rows)


def test_a_first_element_is_refused_where_it_is_the_whole_at_a_small_size():
    def take_first(x):
        return lax.slice(x, (0, 0), (x.shape[0], 1), (1, 1))

    compare_sizes(take_first)
    with pytest.raises(ProgramError, match="at a small one 0 to 1 of 1, which is another part"):
        compare_sizes(take_first, ((4096, 64, 192), (1024, 1, 160)))


def test_a_dimension_that_is_constant_at_all_sizes_is_accepted():
    compare_sizes(lambda x: jnp.broadcast_to(x.sum(), (3, 5)))


def renamed(module, names):
    """Return a copy of a module with other names for its functions."""
    text = str(module)
    for name, other in names.items():
        assert f"@{name}(" in text
        text = text.replace(f"@{name}(", f"@{other}(")
    with module.context:
        return type(module).parse(text)


def calling_two(x):
    return jax.jit(jnp.sin)(x) + jax.jit(jnp.cos)(x)


def test_names_of_functions_do_not_matter_but_which_function_is_called_does():
    large, *small = modules(calling_two)
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    small = [renamed(each, {}) for each in small]
    refuse_another_program([renamed(large, {"sin": "sin_71", "cos": "a"}), *small], mesh, SIZES)
    text = str(large)
    first = next(line for line in text.splitlines() if "call @" in line)
    with large.context:
        twice = type(large).parse(text.replace(first, first.replace("@sin(", "@cos(")))
    with pytest.raises(ProgramError, match="real size"):
        refuse_another_program([twice, *small], mesh, SIZES)


def test_each_value_has_a_number_of_its_own():
    def outline(f):
        vectors = [jax.ShapeDtypeStruct((8,), jnp.float32)] * 3
        return _outline([*walk(jax.jit(f).lower(*vectors).compiler_ir("stablehlo"))])

    minuends = [outline(lambda a, b, c: (a + b) * b - c), outline(lambda a, b, c: c - (a + b) * b)]
    assert minuends[0] != minuends[1]
    assert outline(lambda a, b, c: (a + b) * c) != outline(lambda a, b, c: (a + b) * b)


def test_float_types_of_less_than_32_bits_are_found_by_their_names_in_jax():
    def short(x):
        for dtype in (jnp.float8_e4m3fn, jnp.int8, jnp.bfloat16, jnp.float16, jnp.float32):
            x = x.astype(dtype)
        return x

    module = jax.jit(short).lower(jnp.ones(8)).compiler_ir("stablehlo")
    assert set(short_float_types(module)) == {"float8_e4m3fn", "bfloat16", "float16"}


def test_packed_numbers_are_refused():
    with pytest.raises(ProgramError, match="packs numbers into others"):
        compare_sizes(lambda x: lax.bitcast_convert_type(x.astype(jnp.float16), jnp.uint16))
    with jax.enable_x64(True), pytest.raises(ProgramError, match="or has floating-point"):
        compare_sizes(lambda x: x.astype(jnp.float64) * 2)
