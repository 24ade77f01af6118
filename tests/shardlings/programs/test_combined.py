"""Collectives that XLA combines into one instruction are read as what they are by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P, lax

from shardlings import communication
from tests.helpers import sharding

N = 64


def placed(*spec):
    return jax.device_put(np.ones((N, N), np.float32), sharding(*spec, x=8))


ROWS, COLUMNS = placed("x"), placed(None, "x")


def loss(w1, w2, x):
    hidden = jnp.tanh(x @ w1)
    return jnp.mean((hidden @ w2) ** 2)


def gradients(w1, w2, x):
    return jax.grad(loss, argnums=(0, 1))(w1, w2, x)


def with_the_loss(w1, w2, x):
    value, grads = jax.value_and_grad(loss, argnums=(0, 1))(w1, w2, x)
    return *grads, value


def with_a_norm(w1, w2, x):
    grads = gradients(w1, w2, x)
    return *grads, jnp.sqrt(sum(jnp.sum(g * g) for g in grads))


def with_metrics(w1, w2, x):
    grads = gradients(w1, w2, x)
    return *grads, {"mean": x.mean(), "rows": jnp.sum(x > 0.5), "top": jnp.max(x)}


def with_two_losses(w1, w2, x):
    return *gradients(w1, w2, x), loss(w1, w2, x), jnp.mean(jnp.abs(x @ w1))


def in_a_loop(w1, w2, x, step=gradients):
    def turn(carry, _):
        g1, g2, *more = step(*carry, x)
        return (carry[0] - g1, carry[1] - g2), more

    (w1, w2), losses = lax.scan(turn, (w1, w2), None, length=3)
    return w1, w2, losses


def in_a_loop_with_losses(w1, w2, x):
    return in_a_loop(w1, w2, x, with_the_loss)


def report_on(f, w1, w2):
    """Report on a step whose first two results have the layouts of its weights."""
    shapes = jax.eval_shape(f, w1, w2, ROWS)
    others = jax.tree.map(lambda _: sharding(x=8), shapes[2:])
    step = jax.jit(f, out_shardings=(w1.sharding, w2.sharding, *others))
    return communication(step, w1, w2, ROWS)


def large(report):
    """Return kind and bytes of each line's collectives of arrays; a loss is a few numbers."""
    return sorted((c.kind, c.total_bytes) for c in report.collectives if c.bytes > 100)


@pytest.mark.parametrize("weights", [(ROWS, ROWS), (ROWS, COLUMNS), (COLUMNS, COLUMNS)], ids=str)
@pytest.mark.parametrize("more", [with_the_loss, with_a_norm, with_metrics, with_two_losses])
def test_no_gradient_changes_its_kind_because_of_what_is_returned_with_it(more, weights):
    alone = large(report_on(gradients, *weights))
    assert [kind for kind, _ in alone].count("reduce-scatter") == 2
    assert large(report_on(more, *weights)) == alone


def test_in_a_loop_too():
    report = report_on(in_a_loop_with_losses, ROWS, COLUMNS)
    assert large(report) == large(report_on(in_a_loop, ROWS, COLUMNS))
    losses = [c for c in report.collectives if c.bytes < 100]
    assert {(c.kind, c.bytes, c.times) for c in losses} == {("all-reduce", 4, 3)}


def test_a_slice_whose_offset_a_loop_carries_is_a_devices_own():
    """XLA computes it once, before the loop, from a table and the partition's number."""

    def step(weights, x):
        def loss(weights):
            return (lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, weights)[0] ** 2).mean()

        return weights - 0.1 * jax.grad(loss)(weights)

    def given(shape, *spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding(*spec, data=4, model=2))

    report = communication(step, given((6, 64, 64), None, "data"), given((16, 32, 64), "data"))
    assert [(c.kind, c.axes, c.times, c.bytes) for c in report.collectives] == [
        ("all-gather", ("data",), 6, 64 * 64 * 4),
        ("all-gather", ("data",), 6, 64 * 64 * 4),
        ("reduce-scatter", ("data",), 6, 64 * 64 * 4),
    ]


def test_each_part_has_its_own_line():
    report = report_on(with_the_loss, ROWS, COLUMNS)
    first = loss.__code__.co_firstlineno
    lines = {(c.kind, c.where.line - first) for c in report.collectives if c.where is not None}
    assert lines == {
        ("all-gather", 1), ("reduce-scatter", 1), ("all-gather", 2), ("reduce-scatter", 2),
        ("all-reduce", 2),
    }  # fmt: skip


def test_two_sums_of_one_line_are_one_collective():
    def sums(x, y):
        return jax.tree.map(lambda v: lax.psum(v, "x"), (x, y))

    step = jax.shard_map(sums, mesh=ROWS.sharding.mesh, in_specs=P("x"), out_specs=P())
    report = communication(step, ROWS, ROWS)
    (both,) = report.collectives
    assert (both.kind, both.shapes) == ("all-reduce", ((8, N), (8, N)))
    assert "2 × (8, 64), combined" in str(report)


def test_the_pieces_of_an_all_to_all_are_one():
    swapped = jax.jit(lambda x: x, out_shardings=COLUMNS.sharding)
    (found,) = communication(swapped, ROWS).collectives
    assert found.kind == "all-to-all"


@pytest.mark.parametrize(
    ("slice_of", "kind"),
    [
        (lambda i: i, "reduce-scatter"),
        (lambda i: (i + 1) % 8, "reduce-scatter"),
        (lambda i: lax.rem(i + 1, 8), "reduce-scatter"),
        (lambda i: i ^ 1, "reduce-scatter"),
        (lambda i: -i + 7, "reduce-scatter"),
        (lambda i: (i * 3) % 8, "reduce-scatter"),
        (lambda i: lax.div(3 * i - 8, 3) + 3, "all-reduce"),
        (lambda i: (i.astype(jnp.uint8) + jnp.uint8(250)).astype(jnp.int32) - 250, "all-reduce"),
        (lambda i: i // 2, "all-reduce"),
        (lambda i: 0 * i, "all-reduce"),
    ],
)
def test_who_keeps_which_slice_decides_what_it_is(slice_of, kind):
    """Division rounds towards zero, and eight bits wrap around: two devices keep the same slice."""

    def keep(x):
        first = slice_of(lax.axis_index("x")) * 8
        return lax.dynamic_slice_in_dim(lax.psum(x, "x"), first, 8)

    step = jax.shard_map(
        keep, mesh=ROWS.sharding.mesh, in_specs=P(), out_specs=P("x"), check_vma=False
    )
    (found,) = communication(step, jnp.ones((N, N))).collectives
    assert found.kind == kind
