"""Of a conditional, one branch runs: sums, limits and times count the dearest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P, lax

from shardlings import communication
from shardlings.programs import MACHINES, Collective, take_costliest_branches
from tests.helpers import sharding

X = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
GATHERED, ADDED = 64 * 64 * 4, 8 * 64 * 4
"""The bytes of the buffers of `gather` and `add`."""


def gather(v):
    return lax.all_gather(v, "x", tiled=True).sum() + 0 * v


def add(v):
    return lax.psum(v, "x")


def both(v):
    return add(v) + gather(v)


def nothing(v):
    return 2 * v


def report_on(f):
    mapped = jax.shard_map(
        f, mesh=X.sharding.mesh, in_specs=(P(), P("x")), out_specs=P("x"), check_vma=False
    )
    return communication(jax.jit(mapped), jnp.int32(1), X)


def switch(*branches):
    return lambda i, v: lax.switch(i, branches, v)


def twice(i, v):
    return lax.cond(i > 1, gather, add, lax.cond(i > 0, add, nothing, v))


def nested(i, v):
    return lax.cond(i > 0, lambda u: lax.cond(i > 1, add, both, u), gather, v)


def in_a_loop(i, v):
    return lax.scan(lambda c, _: (lax.cond(i > 0, gather, add, c), None), v, None, length=5)[0]


def beside_another(i, v):
    return lax.cond(i > 0, gather, nothing, add(v))


@pytest.mark.parametrize(
    ("program", "gathered", "added"),
    [
        (switch(gather, add), GATHERED, 0),
        (switch(gather, add, both), GATHERED, ADDED),
        (switch(nothing, add, nothing), 0, ADDED),
        (twice, GATHERED, ADDED),
        (nested, GATHERED, ADDED),
        (in_a_loop, 5 * GATHERED, 0),
        (beside_another, GATHERED, ADDED),
    ],
)
def test_sums_are_those_of_the_dearest_branch(program, gathered, added):
    report = report_on(program)
    assert report.bytes == gathered + added
    assert report.sent == round(7 / 8 * gathered + 2 * 7 / 8 * added)
    assert report.communication_seconds == pytest.approx(
        report.sent / MACHINES[report.machine].link
    )
    assert "the sums count the branch that costs most" in str(report)


def test_limits_hold_for_each_kind_by_itself():
    report = report_on(switch(gather, add, both))
    assert report.at_most({"all-gather": GATHERED, "all-reduce": ADDED})
    with pytest.raises(AssertionError, match="by all-gather over x"):
        report.at_most({"all-gather": GATHERED - 1, "all-reduce": ADDED})
    with pytest.raises(AssertionError, match="by all-reduce over x"):
        report.at_most({"all-gather": GATHERED})


def test_a_picture_says_how_often_one_branch_runs():
    def same_line(i, v):
        return lax.cond(i > 0, lambda u: add(2 * u), lambda u: add(3 * u), v)

    said = str(report_on(same_line))
    assert "The program does this 2 times." not in said


def test_a_picture_says_that_a_branch_may_not_be_taken():
    def loop(i, v):
        def step(v, _):
            return lax.cond(i > 0, add, lambda u: u, v), None

        return lax.scan(step, v, length=3)[0]

    assert "The program does this 3 times at most." in str(report_on(loop))


def test_a_picture_says_that_its_bytes_are_those_of_one_turn():
    def endless(_, v):
        return lax.while_loop(lambda u: u.sum() < 100, add, v)

    assert "bytes in one turn of its loop." in str(report_on(endless))


def test_a_program_without_branches_says_nothing_of_them():
    assert "branch that costs" not in str(report_on(lambda _, v: both(v)))


def test_of_nested_conditionals_the_dearest_path_is_taken():
    def collective(size, *branches):
        return Collective("all-gather", ("x",), ((0, 1),), 0, size, branches=branches)

    program = [
        collective(1),
        collective(10, (0, 0)),
        collective(4, (0, 1)),
        collective(5, (0, 1), (1, 0)),
        collective(7, (0, 1), (1, 1)),
        collective(3, (2, 0)),
    ]
    taken = take_costliest_branches(program, lambda c: c.total_bytes)
    assert [c.bytes for c in taken] == [1, 4, 7, 3]
