"""Behaviour of JAX that exercises rely on. A test that fails is good news for JAX's users.

Each test holds a weakness of JAX or XLA that an exercise teaches or that its limits allow for. When
one fails, JAX now behaves better, and its message names the exercises that are out of date. (Where
old code breaks or warns is another page: `docs/what_moved.md`, and `test_moved.py`.)
"""

import jax
import jax.numpy as jnp
import pytest
from jax import NamedSharding, P, lax
from jax.lax import with_sharding_constraint
from jax.sharding import AxisType

from shardlings import communication
from shardlings.layouts import Layout
from shardlings.programs.compiled import read_executable

LINE, GRID = {"x": 8}, {"x": 4, "y": 2}


def given(shape, axes, *spec, mode=AxisType.Auto, dtype=jnp.float32):
    """An argument, laid out on a mesh over all devices."""
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(mode,) * len(axes))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def report(function, *arguments):
    with jax.set_mesh(arguments[0].sharding.mesh):
        return communication(function, *arguments)


def result(function, argument):
    """Return the layout of the result without a current mesh, under which some of this raises."""
    compiled = jax.jit(function).lower(argument).compile()
    return Layout.of(compiled.output_shardings, jax.eval_shape(function, argument).shape)


# Where the newest JAX does better, and older ones that are supported do not, the texts speak of
# both, and a test names both outcomes: a third one is news.


def better(exercises):
    return f"JAX {jax.__version__} now behaves better: update exercise {exercises}."


ROWS = given((64, 32), LINE, "x")
SEED = given((), LINE, dtype=jnp.uint32)
WHERE = given((), LINE, dtype=jnp.int32)
BLOCKS = given((16, 16), GRID, "x", "y")
EXPLICIT_BLOCKS = given((16, 16), GRID, "x", "y", mode=AxisType.Explicit)


def test_a_sum_with_the_transpose_gathers():
    assert report(lambda x: x + x.T, BLOCKS).bytes == 2816, better("2.7 and 3.6")


def test_each_modes_verb_does_nothing_on_the_other_mode():
    def constrained(x):
        return with_sharding_constraint(x, NamedSharding(EXPLICIT_BLOCKS.sharding.mesh, P()))

    def resharded(x):
        return jax.reshard(x, NamedSharding(BLOCKS.sharding.mesh, P()))

    asked_for = Layout.of(NamedSharding(BLOCKS.sharding.mesh, P()), (16, 16))
    assert result(constrained, EXPLICIT_BLOCKS) != asked_for, better("3.2 and 9.5")
    assert result(resharded, BLOCKS) != asked_for, better("3.2 and 9.5")


def test_device_put_is_dropped_within_jit():
    def put(x):
        return jax.device_put(x, NamedSharding(BLOCKS.sharding.mesh, P("y", "x")))

    assert result(put, BLOCKS) == Layout.of(BLOCKS.sharding, (16, 16)), better("3.1, 9.2 and 9.5")


def test_jit_on_a_cpu_scatters_by_an_all_reduce():
    def scattered(a, b):
        return with_sharding_constraint(a @ b, P("x"))

    a, b = given((16, 16), LINE, None, "x"), given((16, 16), LINE, "x")
    read = report(scattered, a, b).collectives
    assert [c.kind for c in read] == ["reduce-scatter"], "canonical, in any case"
    with jax.set_mesh(a.sharding.mesh):
        compiled = jax.jit(scattered).lower(a, b).compile()
    program = read_executable(compiled.runtime_executable())
    opcodes = {i.opcode for body in program.computations.values() for i in body.values()}
    assert "all-reduce" in opcodes, better("3.3, whose budgets allow for both")


def test_a_checkpoint_in_a_python_loop_may_be_undone():
    """Before JAX 0.12 each layer is gathered once; since then, once forward and once back."""

    def gradient(w, x):
        def body(w, x):
            @jax.checkpoint
            def layer(h, mine):
                return jnp.tanh(h @ lax.all_gather(mine, "x", tiled=True))

            def error(w):
                h = x
                for mine in w:
                    h = layer(h, mine)
                return jnp.sum(h**2)

            return jax.grad(error)(w)

        rows = P(None, "x")
        return jax.shard_map(body, in_specs=(rows, P("x")), out_specs=rows)(w, x)

    made = report(gradient, given((8, 64, 64), LINE, None, "x"), given((16, 64), LINE, "x"))
    assert sum(c.kind == "all-gather" for c in made.collectives) in (8, 16), better("8.4")


def test_without_the_flag_random_numbers_talk():
    def noisy(seed, x):
        return x + jax.random.uniform(jax.random.key(seed), x.shape)

    with jax.threefry_partitionable(False):
        rows = report(noisy, SEED, given((64, 64), LINE, "x"))
        columns = report(noisy, SEED, given((64, 64), LINE, None, "x"))
    assert (rows.bytes, columns.bytes) == (21504, 0), better("9.1")


def test_an_uneven_constraint_ends_in_copies():
    table = given((17, 16), LINE)
    rows = NamedSharding(table.sharding.mesh, P("x"))
    made = result(lambda t: with_sharding_constraint(t, rows), table)
    assert made == Layout.of(table.sharding, table.shape), better("9.4 and 9.5")


@pytest.mark.parametrize(
    ("function", "arguments", "cost"),
    [
        (lambda x, i: x[i], (ROWS, WHERE), 8192),
        (lambda x: jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]), (ROWS,), 2048),
    ],
)
def test_an_index_moves_more_than_it_needs(function, arguments, cost):
    assert report(function, *arguments).bytes >= cost, better("9.6")


def test_the_direct_way_gathers():
    cube = given((16, 16, 16), GRID, "y", None, "x")
    direct = report(lambda x: with_sharding_constraint(x, P(None, ("x", "y"), None)), cube)
    assert direct.bytes == 24576, better("9.7")


def test_a_transform_of_a_box_gathers_it():
    box = given((16, 16, 16), GRID, "x", "y")
    made = report(jnp.fft.fftn, box)
    assert (made.bytes, {c.kind for c in made.collectives}) == (40960, {"all-gather"}), better(
        "10.1"
    )


def test_there_and_back_again_a_transform_ends_in_an_error_of_xlas():
    """If this fails, 10.5 and the cheat sheet, which mention the error, are out of date."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    box = jax.device_put(jnp.ones((8, 12, 4)), NamedSharding(mesh, P("x", "y")))
    there_and_back = jax.jit(lambda f: jnp.fft.ifftn(jnp.fft.fftn(f) * 2))
    with pytest.raises(jax.errors.JaxRuntimeError, match="fft_thunk"):
        jax.block_until_ready(there_and_back(box))


def test_a_transform_that_is_gathered_along_another_dimension_ends_in_an_error_of_xlas():
    """If this fails, `has_unrunnable_fft` refuses programs that run."""

    def body(mine):
        return lax.all_gather(jnp.fft.fft(mine), "y", axis=1, tiled=True)[:1, :1]

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    spec = P("x", "y")
    mapped = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    box = jax.device_put(jnp.ones((8, 12, 4)), NamedSharding(mesh, spec))
    with pytest.raises(jax.errors.JaxRuntimeError, match="fft_thunk"):
        jax.block_until_ready(jax.jit(mapped)(box))


def test_a_system_of_equations_is_gathered():
    matrix, side = given((64, 64), LINE, "x"), given((64,), LINE, "x")
    made = report(jnp.linalg.solve, matrix, side)
    assert max(c.bytes for c in made.collectives if c.kind == "all-gather") == 16384, better(
        "10.6, and what stands above it"
    )


def test_a_transform_along_a_whole_dimension_may_gather():
    """jax-ml/jax#15680: before JAX 0.12 the cube is gathered, in two steps; since then, nothing."""
    cube = given((16, 16, 16), GRID, "x", "y", dtype=jnp.complex64)
    assert report(lambda x: jnp.fft.fft(x, axis=-1), cube).bytes in (0, 40960), better("10.2")
