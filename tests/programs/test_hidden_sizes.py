"""Sizes that are hidden: no choice that depends on one is made by the compiler."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from autograder import communication
from autograder.programs.program_sizes import hide_sizes
from tests.helpers import sharding

MANY = 4096
P = jax.P


def one_of(x):
    """One, as a whole number that a compiler knows whatever x is."""
    number = lax.convert_element_type(x.sum(), jnp.int32)
    return (number == number).astype(jnp.int32)


def by_a_sum(x, whole, part, size):
    return jnp.where(jnp.ones(size).sum() > 500, part, whole)


def by_a_product(x, whole, part, size):
    return jnp.where(jnp.dot(jnp.ones(size), jnp.ones(size)) > 500, part, whole)


def by_an_iota(x, whole, part, size):
    return jnp.where(lax.iota(jnp.int32, size).max() > 500, part, whole)


def by_what_is_equal_to_itself(x, whole, part, size):
    one = one_of(x)
    much, little = (jnp.broadcast_to(one, (n,)).sum() for n in (size, 500))
    return jnp.where(much > little, part, whole)


def by_an_index(x, whole, part, size):
    one = one_of(x)
    much, little = (jnp.broadcast_to(one, (n,)).sum() for n in (size, 500))
    both = jnp.stack([whole, part])
    return lax.dynamic_index_in_dim(both, jnp.minimum(much // little, 1), keepdims=False)


def by_a_branch(x, whole, part, size):
    return lax.cond(jnp.ones(size).sum() > 500, lambda: part, lambda: whole)


def by_a_loops_counter(x, whole, part, size):
    def body(i, _):
        power = jnp.exp(i.astype(jnp.float32))
        much, little = (jnp.broadcast_to(power, (n,)).sum() for n in (size, 500))
        return jnp.where(much > little, part, whole)

    return lax.fori_loop(0, 1, body, part)


def by_what_a_loop_carries(x, whole, part, size):
    def body(carry, _):
        one, _ = carry
        much, little = (jnp.broadcast_to(one, (n,)).sum() for n in (size, 500))
        return (one, jnp.where(much > little, part, whole)), None

    return lax.scan(body, (jnp.float32(1), part), length=1)[0][1]


def compiled(choose, hide):
    """The report on a program that needs an all-gather, unless `choose` leaves it out."""
    layout = sharding("x", x=8)
    mesh: Any = layout.mesh

    @jax.jit
    def program(x):
        def body(mine):
            whole = lax.all_gather(mine, "x", tiled=True)
            part = lax.pcast(jnp.concatenate([mine] * 8), (), to="varying")
            return choose(mine, whole, part, MANY)[:8]

        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)

    lowered = program.lower(jax.ShapeDtypeStruct((MANY,), jnp.float32, sharding=layout))
    if hide:
        hide_sizes(lowered.compiler_ir("stablehlo"))
    return communication(lowered.compile(), mesh=mesh)


ATTACKS = [
    by_a_sum,
    by_a_product,
    by_an_iota,
    by_what_is_equal_to_itself,
    by_an_index,
    by_a_branch,
    by_a_loops_counter,
    by_what_a_loop_carries,
]


@pytest.mark.parametrize("choose", ATTACKS)
def test_what_a_choice_by_size_would_drop_stays_in_the_program(choose):
    (gather,) = compiled(choose, hide=True).collectives
    assert gather.kind == "all-gather"


@pytest.mark.parametrize("choose", [by_a_sum, by_what_is_equal_to_itself])
def test_a_compiler_that_knows_the_size_would_drop_it(choose):
    assert not compiled(choose, hide=False).collectives


def test_a_loop_of_known_length_is_still_known():
    layout = sharding("x", x=8)
    mesh: Any = layout.mesh

    @jax.jit
    def program(x):
        def body(mine):
            return lax.fori_loop(0, 5, lambda i, c: lax.ppermute(c, "x", [(0, 1), (1, 0)]), mine)

        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)

    lowered = program.lower(jax.ShapeDtypeStruct((MANY,), jnp.float32, sharding=layout))
    hide_sizes(lowered.compiler_ir("stablehlo"))
    report = communication(lowered.compile(), mesh=mesh)
    assert sum(c.times or 0 for c in report.collectives) == 5
