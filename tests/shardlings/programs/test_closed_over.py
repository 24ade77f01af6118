"""An array that a function closes over is a constant of the program, and the report says so."""

import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType

from shardlings import communication
from tests.helpers import sharding

N = 128
W = jax.device_put(np.random.default_rng(0).random((N, N), np.float32), sharding(None, "x", x=8))
X = jax.device_put(np.ones((8, N), np.float32), sharding("x", x=8))
LARGE = jnp.asarray(np.random.default_rng(1).random((512, 512), np.float32))
BOTH = {"w": W, "b": jnp.ones(N)}


def directly(x):
    return x @ W


def in_a_loop(x):
    return lax.scan(lambda c, _: (c @ W, None), x, None, length=3)[0]


def in_a_branch(x):
    return lax.cond(x.sum() > 0, lambda v: v @ W, lambda v: v, x)


def through_a_tree(x):
    return x @ BOTH["w"] + BOTH["b"]


inner = jax.jit(directly)


def through_a_jitted_function(x):
    return inner(x) + 1


def twice(x):
    return x @ W @ W


CLOSED = [directly, in_a_loop, in_a_branch, through_a_tree, through_a_jitted_function, twice]


@pytest.mark.parametrize("program", CLOSED)
def test_a_sharded_array_is_named_with_its_line_and_the_cure(program):
    report = communication(program, X)
    (found,) = report.closed_over
    assert (found.shape, found.dtype, found.bytes, found.axes) == ((N, N), "float32", 65536, ("x",))
    assert found.where is not None
    assert "W" in linecache.getline(__file__, found.where.line).upper()
    said = (
        "The function closes over an array of float32 (128, 128), which makes it a constant of the "
        "program: every device holds all of its 65,536 bytes. Outside of the program it is sharded "
        f"over x. It is used in test_closed_over.py:{found.where.line}. Pass it as an argument."
    )
    assert said in " ".join(str(report).split())


@pytest.mark.parametrize("program", [directly, in_a_loop, twice])
def test_its_bytes_are_in_the_peak_once(program):
    closed = communication(program, X).peak_bytes
    opened = communication(lambda x: x + 1, X).peak_bytes
    assert W.nbytes < closed < W.nbytes + 20 * opened


def test_an_argument_is_not_closed_over():
    report = communication(lambda x, w: x @ w, X, W)
    assert report.closed_over == ()
    assert "closes over" not in str(report)
    assert report.peak_bytes < W.nbytes


def test_an_array_with_reduced_axes_is_named_by_those_over_which_it_is_sharded():
    explicit = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(explicit):
        weights = jax.reshard(np.asarray(W), jax.P("x", reduced={"y"}))
        (found,) = communication(lambda: jnp.sin(weights)).closed_over
    assert (found.bytes, found.axes) == (65536, ("x",))


def test_small_tables_and_keys_are_not_worth_a_sentence():
    key = jax.random.key(0)
    report = communication(lambda x: x + jnp.arange(N) * jax.random.uniform(key, (N,)), X)
    assert report.closed_over == ()


def test_a_large_array_on_one_device_is():
    (found,) = communication(lambda x: x @ LARGE, jnp.ones((8, 512))).closed_over
    assert (found.bytes, found.axes) == (2**20, ())


def test_of_many_a_few_are_named():
    draw = np.random.default_rng(3)
    arrays = [jax.device_put(draw.random((N, N), np.float32), W.sharding) for _ in range(5)]
    report = communication(lambda x: sum(x @ a for a in arrays), X)
    assert len(report.closed_over) == 5
    assert str(report).count("closes over an array") == 3
    assert "It closes over 2 more such arrays." in str(report)


def test_what_the_compiler_does_not_need_is_not_named():
    for program in (lambda x: x * W[0, :], lambda x: (x @ W, 2 * x)[1]):
        report = communication(program, X)
        assert report.closed_over == ()
        assert report.peak_bytes < W.nbytes


def test_a_large_array_of_numpys_is_one_too():
    table = np.random.default_rng(2).random((512, 512), np.float32)
    (found,) = communication(lambda x: x @ table, jnp.ones((8, 512))).closed_over
    assert (found.bytes, found.axes) == (2**20, ())


def test_a_compiled_program_still_counts_its_constants():
    compiled = jax.jit(directly).lower(X).compile()
    report = communication(compiled)
    assert report.closed_over == ()
    assert report.peak_bytes > W.nbytes
