"""The collectives that a program requests are read exactly, whatever contains them."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.programs import requested
from tests.helpers import mesh, sharding

REDUCE, GATHER, SCATTER = "all-reduce", "all-gather", "reduce-scatter"
SWAP, PERMUTE = "all-to-all", "collective-permute"
X, Y, BOTH = ("x",), ("y",), ("x", "y")
RING = [(i, (i + 1) % 4) for i in range(4)]


def requests_of(body):
    """Return what a `shard_map` body requests, for blocks of 4 by 8 on a mesh of 4 by 2."""
    grid = mesh(x=4, y=2)
    blocks = jax.P("x", "y")
    function = jax.shard_map(body, mesh=grid, in_specs=blocks, out_specs=blocks, check_vma=False)
    argument = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding("x", "y", x=4, y=2))
    module = jax.jit(function).lower(argument).compiler_ir("stablehlo")
    return [
        (c.kind, c.axes, c.bytes_in, c.bytes_out, c.times, c.is_conditional)
        for c in requested.read_collectives(module, grid)
    ]


def psum_in_scan(a):
    return lax.scan(lambda c, _: (lax.psum(c, "x"), None), a, None, length=5)[0]


def ragged(block):
    """Send one row to each device along `x`, which XLA's CPU compiler does not support."""
    to, one = jnp.arange(4, dtype=jnp.int32), jnp.ones(4, jnp.int32)
    return lax.ragged_all_to_all(block, block, to, one, to, one, axis_name="x")


def nested(a):
    def outer(c, _):
        return psum_in_scan(lax.pmax(c, "y")), None

    return lax.scan(outer, a, None, length=3)[0]


def pcast(a):
    """A cast to a varying type sends nothing."""
    return lax.pcast(jnp.zeros(a.shape), ("x", "y"), to="varying") + a


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (lambda a: lax.psum(a, "x"), [(REDUCE, X, 128, 128, 1, False)]),
        (lambda a: lax.pmean(a, ("x", "y")), [(REDUCE, BOTH, 128, 128, 1, False)]),
        (lambda a: lax.pmax(a, "y"), [(REDUCE, Y, 128, 128, 1, False)]),
        (lambda a: lax.all_gather(a, "x"), [(GATHER, X, 128, 512, 1, False)]),
        (lambda a: lax.all_gather(a, "y", tiled=True), [(GATHER, Y, 128, 256, 1, False)]),
        (lambda a: lax.psum_scatter(a, "x")[None], [(SCATTER, X, 128, 32, 1, False)]),
        (lambda a: lax.psum_scatter(a, "x", tiled=True), [(SCATTER, X, 128, 32, 1, False)]),
        (lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), [(SWAP, X, 128, 128, 1, False)]),
        (lambda a: lax.all_to_all(a, "x", 0, 0), [(SWAP, X, 128, 128, 1, False)]),
        (lambda a: lax.ppermute(a, "x", RING), [(PERMUTE, X, 128, 128, 1, False)]),
        (ragged, [("ragged-all-to-all", X, 128, 128, 1, False)]),
        (pcast, []),
        (psum_in_scan, [(REDUCE, X, 128, 128, 5, False)]),
        (nested, [(REDUCE, Y, 128, 128, 3, False), (REDUCE, X, 128, 128, 15, False)]),
        (
            lambda a: lax.fori_loop(2, 9, lambda i, c: lax.psum(c, "x"), a),
            [(REDUCE, X, 128, 128, 7, False)],
        ),
        (
            lambda a: lax.while_loop(lambda c: c.sum() < 3, lambda c: lax.psum(c, "x"), a),
            [(REDUCE, X, 128, 128, None, False)],
        ),
        (
            lambda a: lax.cond(a.sum() > 0, lambda c: lax.psum(c, "x"), lambda c: c, a),
            [(REDUCE, X, 128, 128, 1, True)],
        ),
        (jax.vmap(lambda row: lax.psum(row, "x")), [(REDUCE, X, 128, 128, 1, False)]),
        (
            lambda a: jax.jit(psum_in_scan)(jax.jit(psum_in_scan)(a)),
            [(REDUCE, X, 128, 128, 5, False)] * 2,
        ),
        (
            lambda a: sum(lax.psum((a, a[0]), "x")),
            [(REDUCE, X, 128, 128, 1, False), (REDUCE, X, 32, 32, 1, False)],
        ),
        (lambda a: lax.psum(a.astype(jnp.bfloat16), "x"), [(REDUCE, X, 64, 64, 1, False)]),
        (lambda a: lax.psum(a.astype(jnp.complex64), "x"), [(REDUCE, X, 256, 256, 1, False)]),
        (lambda a: lax.all_gather(a > 0, "x", tiled=True), [(GATHER, X, 32, 128, 1, False)]),
        (lambda a: a + 1, []),
    ],
)  # fmt: skip
def test_requests_are_read_exactly(body, wanted):
    assert requests_of(body) == wanted


def test_what_the_compiler_adds_was_not_requested():
    argument = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding("x", "y", x=4, y=2))
    lowered = jax.jit(lambda x: x + x.T).lower(argument)
    assert requested.read_collectives(lowered.compiler_ir("stablehlo"), mesh(x=4, y=2)) == []


DECLARED = """
module attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @"a\\22 mesh" = <["x"=4, "y\\22>]"=2], device_ids=[7, 0, 6, 1, 5, 2, 4, 3]>
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = GROUPS}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
ALONG = '#stablehlo.replica_group_mesh_axes<mesh = @"a\\22 mesh", axes = [AXES]>'


def module_with(groups):
    """Return a module whose collective has these groups, if this JAX knows their form."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    if groups.startswith("#") and not hasattr(stablehlo, "ReplicaGroupMeshAxesAttr"):
        pytest.skip("this JAX writes groups only as tables")
    lowered: Any = jax.jit(jnp.sin).lower(1.0).compiler_ir("stablehlo")
    context = lowered.context
    with context:
        return ir.Module.parse(DECLARED.replace("GROUPS", groups), context)


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        ("dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>", {(0, 1, 2), (3,)}),
        (
            ALONG.replace("AXES", '#stablehlo.axis_ref<name = "y\\22>]">'),
            {(7, 0), (6, 1), (5, 2), (4, 3)},
        ),
        (ALONG.replace("AXES", '#stablehlo.axis_ref<name = "x">'), {(7, 6, 5, 4), (0, 1, 2, 3)}),
    ],
)
def test_groups_are_read_as_a_table_and_along_axes(groups, wanted):
    (found,) = requested.read_collectives(module_with(groups), mesh(x=8))
    assert {tuple(group) for group in found.groups} == wanted


def test_groups_along_a_part_of_an_axis_are_not_guessed_at():
    part = '#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>'
    module = module_with(ALONG.replace("AXES", part))
    with pytest.raises(ValueError, match="along a part of the axis 'x'"):
        requested.read_collectives(module, mesh(x=8))


def carried_but_unused(a):
    """A value that the loop only carries for itself is in no result."""
    rest = lax.fori_loop(0, 5, lambda _, c: (c[0] + 1, lax.psum(c[1], "x")), (a, a))
    return rest[0]


def carried_across(a):
    """The sum is in the result, one round later."""
    return lax.fori_loop(0, 5, lambda _, c: (c[0] + c[1], lax.psum(c[1], "x")), (a, a))[0]


def stacked_but_unused(a):
    return lax.scan(lambda c, _: (2 * c, lax.psum(c, "x")), a, None, length=3)[0]


def stacked(a):
    return lax.scan(lambda c, _: (2 * c, lax.psum(c, "x")), a, None, length=3)[1].sum(0)


def summed(a):
    return lax.psum(a, "x")


def composed(a):
    return lax.composite(lambda a: lax.composite(summed, name="in.it")(a), name="a.sum")(a)


def composed_but_unused(a):
    def both(a):
        return a + 1, lax.psum(a, "x")

    return lax.composite(both, name="a.pair")(a)[0]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (carried_but_unused, []),
        (carried_across, [(REDUCE, X, 128, 128, 5, False)]),
        (stacked_but_unused, []),
        (stacked, [(REDUCE, X, 128, 128, 3, False)]),
        (composed, [(REDUCE, X, 128, 128, 1, False)]),
        (composed_but_unused, []),
        (lambda a: jax.jit(summed)(a), [(REDUCE, X, 128, 128, 1, False)]),
        (lambda a: jax.jit(summed)(jax.jit(summed)(a)), [(REDUCE, X, 128, 128, 1, False)] * 2),
        (lambda a: lax.cond(a.sum() > 0, summed, lambda a: a, a),
         [(REDUCE, X, 128, 128, 1, True)]),
    ],
)  # fmt: skip
def test_only_collectives_that_a_result_depends_on_count(body, wanted):
    assert requests_of(body) == wanted


TABLE = np.sin(np.arange(256, dtype=np.float32)).reshape(16, 16)


def kept(c):
    return jax.shard_map(lambda b: b, in_specs=jax.P("x"), out_specs=jax.P("x"))(c)


@pytest.mark.parametrize(
    ("function", "outside"),
    [
        (lambda a: kept(2 * a), 256),
        (lambda a: kept(a @ a), 2 * 16**3),
        (lambda a: kept((a[:, :, None] * a[None]).sum(1)), 2 * 16**3),
        (lambda a: kept(lax.fori_loop(0, 3, lambda _, c: c @ a, a)), 3 * 2 * 16**3),
        (lambda a: kept(jnp.linalg.solve(a, a)), math.inf),
        (lambda a: kept(lax.while_loop(lambda c: c.sum() < 9, lambda c: 2 * c, a)), math.inf),
        (lambda a: kept(a.T.reshape(4, 64)[::-1].reshape(16, 16)), 0),
        (lambda a: kept(a) + (a @ a), 2 * 16**3),
        (lambda a: kept(a) + TABLE @ TABLE, 0),  # depends on no argument
        (lambda a: kept(a) + lax.while_loop(lambda t: t.sum() < a.sum(), lambda t: t @ t, TABLE),
         math.inf),
        (lambda a: kept(a) + (a + TABLE) @ TABLE, 2 * 16**3),
        (lambda a: (kept(a), a @ a)[0], 0),  # dead
        (lambda a: jax.shard_map(lambda b: b @ b.T, in_specs=jax.P("x"),
                                 out_specs=jax.P("x"))(a), 0),
    ],
)  # fmt: skip
def test_work_outside_of_shard_map_is_counted(function, outside):
    argument = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding("x", x=4))
    with jax.set_mesh(mesh(x=4)):
        module = jax.jit(function).lower(argument).compiler_ir("stablehlo")
    assert requested.count_flops_outside_shard_map(module) == pytest.approx(outside, abs=600)


def counting(dtype, step, limit):
    """Return a function that adds 1 in each round of a loop that counts from 0 to a limit."""

    def count(a):
        end = a.sum().astype(dtype) if limit is None else limit
        start = jnp.zeros((), dtype), a
        return lax.while_loop(lambda c: c[0] < end, lambda c: (c[0] + step, c[1] + 1), start)

    return count


@pytest.mark.parametrize(
    ("dtype", "step", "limit", "is_sure"),
    [
        ("int32", 1, 9, True), ("int32", 3, 9, True), ("int32", 1, None, True),
        ("int32", 2, None, False), ("int8", 1, 127, True), ("int8", 2, 126, True),
        ("int8", 2, 127, False), ("uint8", 2, 254, True), ("uint8", 2, 255, False),
    ],
)  # fmt: skip
def test_a_counter_that_may_step_over_the_largest_number_need_not_end(dtype, step, limit, is_sure):
    argument = jax.ShapeDtypeStruct((4,), jnp.float32)
    module = jax.jit(counting(dtype, step, limit)).lower(argument).compiler_ir("stablehlo")
    assert requested.is_sure_to_end(module) == is_sure


@pytest.mark.parametrize(
    "body",
    [
        lambda a: lax.psum(a, "x"),
        lambda a: sum(lax.psum((a, a[0]), ("x", "y"))),
        lambda a: lax.all_gather(a, "x", tiled=True)[:4],
        lambda a: lax.psum_scatter(a, "x", tiled=True).repeat(4, 0),
        lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True).reshape(a.shape),
        lambda a: lax.all_to_all(a, "x", 0, 0),
        lambda a: lax.ppermute(a, "x", RING),
        lambda a: lax.all_gather(a > 0, "x", tiled=True)[:4].astype(a.dtype),
        psum_in_scan,
        lambda a: lax.cond(a.sum() > 0, lambda c: lax.psum(c, "x"), lambda c: c, a),
        lambda a: jax.jit(psum_in_scan)(jax.jit(psum_in_scan)(a)),
    ],
)
def test_with_requests_taken_out_only_what_the_compiler_adds_is_left(body):
    grid, blocks = mesh(x=4, y=2), jax.P("x", "y")
    mapped = jax.shard_map(body, mesh=grid, in_specs=blocks, out_specs=blocks, check_vma=False)
    argument = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding("x", "y", x=4, y=2))
    for function, alone in ((mapped, True), (lambda a: mapped(a) + a.T, False)):
        assert communication(function, argument).collectives
        lowered = jax.jit(lambda a, function=function: function(a)).lower(argument)
        module: Any = lowered.compiler_ir("stablehlo")
        requested.remove_collectives(module, grid)
        assert module.operation.verify()
        assert (not communication(lowered.compile()).collectives) is alone


def test_the_specs_of_arguments_are_found_through_calls_and_for_unchanged_arguments_only():
    grid = mesh(x=4, y=2)

    def added_up(rows, columns):
        return jax.shard_map(
            lambda a, b: (a.sum() + b.sum())[None],
            mesh=grid,
            in_specs=(rows, columns),
            out_specs=jax.P(("x", "y")),
            check_vma=False,
        )

    @jax.jit
    def function(a, b):
        dead = added_up(jax.P("y"), jax.P("y"))(a, b)
        inner = jax.jit(added_up(jax.P("x"), jax.P(None, ("x", "y"))))
        some_axes = jax.shard_map(
            lambda a: lax.psum(a.sum(), "x"),
            mesh=grid,
            in_specs=jax.P("x"),
            out_specs=jax.P(),
            axis_names={"x"},
        )
        return (inner(a, b) + added_up(jax.P(), jax.P())(2 * a, b), dead)[0] + some_axes(a)

    given = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding("x", "y", x=4, y=2))
    exported = jax.export.export(function)(given, given)
    module = jax.jit(exported.call).lower(given, given).compiler_ir("stablehlo")
    assert requested.find_specs_of_arguments(module) == (
        (0, (("x",), ())),
        (1, ((), ("x", "y"))),
        (1, ((), ())),
    )


@pytest.mark.parametrize(
    ("function", "is_constrained"),
    [
        (lambda a: 2 * a, False),
        (lambda a: lax.with_sharding_constraint(2 * a, jax.P("y")), True),
        (lambda a: lax.with_sharding_constraint(a, jax.P("y")) * 2, False),  # an argument
        (lambda a: (a, lax.with_sharding_constraint(2 * a, jax.P("y")))[0], False),  # dead
        (lambda a: jax.jit(lambda b: lax.with_sharding_constraint(2 * b, jax.P()))(a) + 1, True),
    ],
)
def test_a_constraint_counts_if_a_result_depends_on_it(function, is_constrained):
    grid = mesh(x=4, y=2)
    argument = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding("x", x=4, y=2))
    with jax.set_mesh(grid):
        # exporting calls it from `main`, which constrains arguments and results itself
        called = jax.jit(lambda a: jax.jit(function)(a))
        module = called.lower(argument).compiler_ir("stablehlo")
    assert requested.is_constrained(module) == is_constrained
