"""Hidden sizes: the compiler does not evaluate conditions that depend on a size."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from autograder.artifacts.program_sizes import hide_sizes
from shardlings import communication
from tests.helpers import sharding

ROWS = 4096
P = jax.P


def one_that_depends_on(x):
    """Return 1, as an integer that a compiler knows without knowing x."""
    number = lax.convert_element_type(x.sum(), jnp.int32)
    return (number == number).astype(jnp.int32)


def by_a_sum(x, whole, part, size):
    return jnp.where(jnp.ones(size).sum() > 500, part, whole)


def by_a_product(x, whole, part, size):
    return jnp.where(jnp.dot(jnp.ones(size), jnp.ones(size)) > 500, part, whole)


def by_an_iota(x, whole, part, size):
    return jnp.where(lax.iota(jnp.int32, size).max() > 500, part, whole)


def by_equality_with_itself(x, whole, part, size):
    one = one_that_depends_on(x)
    large, small = (jnp.broadcast_to(one, (n,)).sum() for n in (size, 500))
    return jnp.where(large > small, part, whole)


def by_an_index(x, whole, part, size):
    one = one_that_depends_on(x)
    large, small = (jnp.broadcast_to(one, (n,)).sum() for n in (size, 500))
    both = jnp.stack([whole, part])
    return lax.dynamic_index_in_dim(both, jnp.minimum(large // small, 1), keepdims=False)


def by_a_branch(x, whole, part, size):
    return lax.cond(jnp.ones(size).sum() > 500, lambda: part, lambda: whole)


def by_a_loop_counter(x, whole, part, size):
    def body(i, _):
        power = jnp.exp(i.astype(jnp.float32))
        large, small = (jnp.broadcast_to(power, (n,)).sum() for n in (size, 500))
        return jnp.where(large > small, part, whole)

    return lax.fori_loop(0, 1, body, part)


def by_a_loop_carry(x, whole, part, size):
    def body(carry, _):
        one, _ = carry
        large, small = (jnp.broadcast_to(one, (n,)).sum() for n in (size, 500))
        return (one, jnp.where(large > small, part, whole)), None

    return lax.scan(body, (jnp.float32(1), part), length=1)[0][1]


def report_on(choose, hide):
    """Compile a program that needs an all-gather unless `choose` drops it; return its report."""
    layout = sharding("x", x=8)
    mesh: Any = layout.mesh

    @jax.jit
    def program(x):
        def body(block):
            whole = lax.all_gather(block, "x", tiled=True)
            part = lax.pcast(jnp.concatenate([block] * 8), (), to="varying")
            return choose(block, whole, part, ROWS)[:8]

        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)

    lowered = program.lower(jax.ShapeDtypeStruct((ROWS,), jnp.float32, sharding=layout))
    if hide:
        hide_sizes(lowered.compiler_ir("stablehlo"))
    return communication(lowered.compile(), mesh=mesh)


ATTACKS = [
    by_a_sum,
    by_a_product,
    by_an_iota,
    by_equality_with_itself,
    by_an_index,
    by_a_branch,
    by_a_loop_counter,
    by_a_loop_carry,
]


@pytest.mark.parametrize("choose", ATTACKS)
def test_a_hidden_size_keeps_the_collective_in_the_program(choose):
    (gather,) = report_on(choose, hide=True).collectives
    assert gather.kind == "all-gather"


@pytest.mark.parametrize("choose", [by_a_sum, by_equality_with_itself])
def test_a_known_size_lets_the_compiler_drop_the_collective(choose):
    assert not report_on(choose, hide=False).collectives


def test_a_loops_trip_count_stays_known():
    layout = sharding("x", x=8)
    mesh: Any = layout.mesh

    @jax.jit
    def program(x):
        def body(block):
            return lax.fori_loop(0, 5, lambda i, c: lax.ppermute(c, "x", [(0, 1), (1, 0)]), block)

        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)

    lowered = program.lower(jax.ShapeDtypeStruct((ROWS,), jnp.float32, sharding=layout))
    hide_sizes(lowered.compiler_ir("stablehlo"))
    report = communication(lowered.compile(), mesh=mesh)
    assert sum(c.times or 0 for c in report.collectives) == 5
