"""Programs in which some devices never reach a collective are found before they run."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings.programs.requested import (
    Source,
    find_unreached_collective,
    unreached_collectives,
)
from tests.conftest import ROOT

GRID = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
BLOCKS = jax.P("x", "y")
INDEX, SHARDS = {Source.INDEX}, {Source.SHARDS}


def over_x(a):
    return lax.psum(a, "x") / 4


def to_the_next(a, axis="x"):
    size = lax.axis_size(axis)
    return lax.ppermute(a, axis, [(i, (i + 1) % size) for i in range(size)])


def rounds_by_index(a):
    return lax.fori_loop(0, lax.axis_index("x") + 1, lambda _, a: over_x(a), a)


def rounds_by_index_in_a_carry(a):
    """The number of rounds is carried, and changes on its way."""
    start = (lax.axis_index("x"), a)
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, over_x(c[1])), start)[1]


def rounds_by_values(a):
    return lax.while_loop(lambda a: jnp.abs(a).max() > 0.5, lambda a: over_x(a) * 0.5, a)


def sum_in_the_condition(a):
    def goes_on(c):
        return (over_x(c[1]).sum() > 0.5) & (c[0] < lax.axis_index("x"))

    return lax.while_loop(goes_on, lambda c: (c[0] + 1, c[1] * 0.5), (0, a))[1]


def in_an_inner_loop(a):
    def step(_, a):
        return lax.fori_loop(0, 2, lambda _, a: over_x(a), a)

    return lax.fori_loop(0, lax.axis_index("x"), step, a)


def in_a_function(a):
    return lax.fori_loop(0, lax.axis_index("x"), lambda _, a: jax.jit(over_x)(a), a)


def in_one_branch(a):
    return lax.cond(lax.axis_index("x") == 0, over_x, lambda a: a, a)


def in_one_of_many(a):
    return lax.switch(lax.axis_index("x"), [lambda a: a, over_x, lambda a: -a, jnp.sin], a)


def by_both(a):
    is_mine = (lax.axis_index("x") == 0) | (a.sum() > 1)
    return lax.cond(is_mine, over_x, lambda a: a, a)


def permuted_along_the_other_axis(a):
    """XLA lets all devices wait for each other in a permutation, whatever its pairs."""
    return lax.fori_loop(0, lax.axis_index("x"), lambda _, a: to_the_next(a, "y"), a)


def one_sum_and_two(a):
    return lax.cond(lax.axis_index("x") == 0, over_x, lambda a: over_x(over_x(a)), a)


HANGS = {
    rounds_by_index: ("all-reduce", True, INDEX),
    rounds_by_index_in_a_carry: ("all-reduce", True, INDEX),
    rounds_by_values: ("all-reduce", True, SHARDS),
    sum_in_the_condition: ("all-reduce", True, INDEX),
    in_an_inner_loop: ("all-reduce", True, INDEX),
    in_a_function: ("all-reduce", True, INDEX),
    in_one_branch: ("all-reduce", False, INDEX),
    in_one_of_many: ("all-reduce", False, INDEX),
    by_both: ("all-reduce", False, INDEX | SHARDS),
    permuted_along_the_other_axis: ("collective-permute", True, INDEX),
    one_sum_and_two: ("all-reduce", False, INDEX),
}


def no_collective_inside(a):
    """Devices may go round differently often, if they do not wait for each other."""
    rounds = lax.axis_index("x") + 1
    return over_x(lax.fori_loop(0, rounds, lambda _, a: a * 0.5, a))


def along_the_other_axis(a):
    """All devices that add up their blocks go round equally often."""
    return lax.fori_loop(0, lax.axis_index("x") + 1, lambda _, a: lax.psum(a, "y"), a)


def until_the_sum_is_small(a):
    def goes_on(a):
        return lax.psum(jnp.abs(a).sum(), ("x", "y")) > 0.5

    return lax.while_loop(goes_on, lambda a: over_x(a) * 0.1, a)


def until_the_gathered_are_small(a):
    """The largest of all is the same on all devices, although JAX's type says that it varies."""

    def goes_on(a):
        return lax.all_gather(jnp.abs(a).max(), ("x", "y")).max() > 0.5

    return lax.while_loop(goes_on, lambda a: to_the_next(a) * 0.1, a)


def rounds_that_are_equal(a):
    rounds = (lax.axis_index("x") + 8) // 8 + jnp.where(lax.axis_index("y") < 2, 1, 5)
    return lax.fori_loop(0, rounds, lambda _, a: over_x(a), a)


def rounds_of_the_slowest(a):
    rounds = lax.pmax(lax.axis_index("x"), "x")
    return lax.fori_loop(0, rounds, lambda _, a: over_x(a), a)


def rounds_from_the_first(a):
    """A value that one device sends to all is the same on all of them."""
    n = jnp.where(lax.axis_index("x") == 0, a.sum(), 0)
    return lax.while_loop(lambda c: c[0] > 0.5, lambda c: (c[0] / 2, over_x(c[1])),
                          (lax.psum(lax.psum(n, "x"), "y"), a))[1]  # fmt: skip


def counted_beside_values(a):
    """A loop counts alike on all devices, and carries other values that differ."""
    carried = (0, a, lax.axis_index("x"))
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, over_x(c[1]) + c[2], -c[2]), carried
    )[1]


def checkpointed_in_a_scan(a):
    """A barrier takes a counter and values together, and gives each back as it is."""
    step = jax.checkpoint(lambda c, _: (over_x(jnp.sin(c)), None))
    return jax.grad(lambda a: lax.scan(step, a, None, length=3)[0].sum())(a)


def the_same_sum_in_both(a):
    """Devices meet in a sum of which each branch has its own."""
    is_first = lax.axis_index("x") == 0
    return lax.cond(is_first, lambda a: over_x(a) * 2, lambda a: over_x(jnp.sin(a)), a)


def branches_that_all_choose_alike(a):
    return lax.cond(lax.axis_index("x") >= 0, over_x, lambda a: a, a)


def unused(a):
    """Nothing depends on the sum, so it is never computed."""
    carried = (a, a)
    return lax.fori_loop(0, lax.axis_index("x"), lambda _, c: (over_x(c[0]), c[1] * 0.5), carried)[
        1
    ]


def scattered_by_the_other(a):
    """A piece of a sum over x is the same on all devices of y that started with the same."""
    same = lax.psum(a, "y")
    piece = lax.psum_scatter(same.sum(1).repeat(2)[:4], "x", tiled=True)
    rounds = jnp.int32(jnp.abs(piece[0])) + 1
    return lax.fori_loop(0, rounds, lambda _, a: lax.psum(a, "y") / 2, a)


FINE = (
    no_collective_inside,
    along_the_other_axis,
    until_the_sum_is_small,
    until_the_gathered_are_small,
    rounds_that_are_equal,
    rounds_of_the_slowest,
    rounds_from_the_first,
    counted_beside_values,
    checkpointed_in_a_scan,
    the_same_sum_in_both,
    branches_that_all_choose_alike,
    unused,
    scattered_by_the_other,
)


def lowered(body, in_specs=BLOCKS, **more):
    mapped = jax.jit(
        jax.shard_map(body, mesh=GRID, in_specs=in_specs, out_specs=BLOCKS, check_vma=False, **more)
    )
    taken = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=jax.NamedSharding(GRID, BLOCKS))
    return mapped.lower(taken)


def find(body, **more):
    return find_unreached_collective(lowered(body, **more).compiler_ir("stablehlo"), GRID)


@pytest.mark.parametrize(("body", "expected"), HANGS.items(), ids=lambda each: "")
def test_a_program_that_can_hang_is_found(body, expected):
    found = find(body)
    assert found is not None, body.__name__
    assert (found.collective.kind, found.is_in_loop, found.sources) == expected, body.__name__


@pytest.mark.parametrize("body", FINE, ids=lambda body: body.__name__)
def test_a_program_that_ends_is_not_refused(body):
    """Each is run, too: a program that hangs ends the process."""
    assert find(body) is None
    values = jax.device_put(np.ones((8, 8), np.float32), jax.NamedSharding(GRID, BLOCKS))
    jax.block_until_ready(lowered(body).compile()(values))


RUN = """
from shardlings.devices import emulate_devices
emulate_devices(8)
import jax, numpy as np
from tests.shardlings.programs import test_unreached_collectives as those
values = np.zeros((8, 8), np.float32)
values[-1, -1] = 100
values = jax.device_put(values, jax.NamedSharding(those.GRID, those.BLOCKS))
jax.block_until_ready(those.lowered(those.{name}).compile()(values))
"""


@pytest.mark.slow
@pytest.mark.parametrize("body", HANGS, ids=lambda body: body.__name__)
def test_a_program_that_is_refused_can_hang(body):
    limits = " ".join(
        f"--xla_cpu_collective_call_{name}_timeout_seconds=2"
        for name in ("warn_stuck", "terminate")
    )
    values = {**os.environ, "XLA_FLAGS": limits}
    command = [sys.executable, "-c", RUN.format(name=body.__name__)]
    ran = subprocess.run(command, cwd=ROOT, env=values, capture_output=True, check=False, text=True)
    assert ran.returncode, body.__name__
    assert "Termination timeout" in ran.stderr


def test_a_loop_over_an_argument_that_all_devices_have_is_fine():
    def until_small(a):
        return lax.while_loop(lambda a: jnp.abs(a).max() > 0.5, lambda a: over_x(a) * 0.1, a)[
            :2, :4
        ]

    assert find(until_small, in_specs=jax.P()) is None
    assert find(until_small) is not None


def test_an_axis_that_is_left_to_the_compiler_is_not_split():
    def until_small(a):
        return lax.while_loop(lambda a: jnp.abs(a).max() > 0.5, lambda a: lax.psum(a, "y") * 0.1, a)

    def find_over_y(rows_and_columns):
        columns = jax.P(None, "y")
        mapped = jax.shard_map(until_small, mesh=GRID, axis_names={"y"}, check_vma=False,
                               in_specs=rows_and_columns, out_specs=columns)  # fmt: skip
        taken = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=jax.NamedSharding(GRID, BLOCKS))
        return find_unreached_collective(
            jax.jit(mapped).lower(taken).compiler_ir("stablehlo"), GRID
        )

    found = find_over_y(jax.P(None, "y"))
    assert found is not None
    assert found.sources == SHARDS
    assert find_over_y(jax.P()) is None


def test_a_program_that_is_too_long_counts_as_harmless(monkeypatch):
    monkeypatch.setattr(unreached_collectives, "MAX_STEPS", 10)
    assert find(rounds_by_index) is None
