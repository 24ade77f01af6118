"""What moves between two layouts: compared with JAX's blocks, and with compiled programs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from shardlings import communication
from shardlings.layouts import Layout
from shardlings.programs import wire_bytes
from tests.conftest import fewer
from tests.playground.cases import batches, moves
from tests.playground.steps import STEP, grid_of, in_bytes, spec_of, take_step

FLOAT_BYTES = 4

PLAN = f"""(shape, mesh, before, after) => {{
  const [from, to] = [before, after].map((spec) => layouts.layoutOf(
    layouts.parseShape(shape), layouts.parseMesh(mesh), layouts.parseSpec(spec)));
  return {{received: reshards.elementsToReceive(from, to),
    steps: reshards.planSteps(from, to).map({STEP})}};
}}"""


def received(move):
    """Return how many elements each device lacks of its new block, by JAX's blocks."""
    old, new = move.before.blocks, move.after.blocks
    lacking = []
    for device, block in new.items():
        both = [
            max(0, min(a[1], b[1]) - max(a[0], b[0]))
            for a, b in zip(block, old[device], strict=True)
        ]
        lacking.append(math.prod(end - first for first, end in block) - math.prod(both))
    return lacking


@batches(moves(), 1000)
def test_a_device_receives_at_least_what_it_lacks(ask, drawn):
    for move, found in zip(drawn, ask(PLAN, [move.texts for move in drawn]), strict=True):
        lacking = received(move)
        assert found["received"] == lacking
        sent = sum(step["sent"] for step in found["steps"])
        assert sent >= np.mean(lacking) - 1e-6
        assert bool(found["steps"]) == (move.before.blocks != move.after.blocks)


def take_steps(move, steps):
    """Return the function that takes all steps, on whole arrays."""
    mesh = move.before.mesh

    def body(block):
        for step in steps:
            block = take_step(block, step, mesh)
        return block

    return jax.jit(
        jax.shard_map(
            body, mesh=mesh, in_specs=move.before.spec, out_specs=move.after.spec, check_vma=False
        )
    )


@settings(max_examples=fewer(60))
@given(moves(most=8))
def test_the_steps_lead_to_the_new_layout_and_compile_to_those_bytes(ask, move):
    (found,) = ask(PLAN, [move.texts])
    x = jax.device_put(
        jnp.arange(math.prod(move.before.shape), dtype=np.float32).reshape(move.before.shape),
        jax.NamedSharding(move.before.mesh, move.before.spec),
    )
    stepwise = take_steps(move, found["steps"])
    y = stepwise(x)
    assert Layout.of(y) == move.after.layout
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data, np.asarray(x)[shard.index])
    planned = in_bytes((step["kind"], FLOAT_BYTES * step["sent"]) for step in found["steps"])
    compiled = communication(stepwise, x).collectives
    assert in_bytes((c.kind, wire_bytes(c)) for c in compiled) == {
        kind: count for kind, count in planned.items() if kind != "slice"
    }


SINGLE = [  # mesh, spec before, spec after
    ("x:8", "x,-", "-,-"), ("x:8", "x,-", "-,x"), ("x:8", "-,-", "x,-"),
    ("x:4,y:2", "x,y", "x,-"), ("x:4,y:2", "x.y,-", "x,-"), ("x:4,y:2", "x.y,-", "-,-"),
    ("x:4,y:2", "x.y,-", "x,y"), ("x:4,y:2", "x,-", "x,y"), ("x:4,y:2", "y,-", "y,x"),
    ("x:4,y:2", "x.y,-", "y.x,-"), ("x:2,y:2,z:2", "x,y", "y,x"), ("x:2,y:2,z:2", "x,y", "z,y"),
    ("x:2,y:2,z:2", "x,y.z", "x,y"), ("x:2,y:2,z:2", "-,y", "y,-"),
]  # fmt: skip


@pytest.mark.parametrize(("mesh", "before", "after"), SINGLE)
def test_xla_compiles_a_plan_of_one_step_to_that_collective(ask, mesh, before, after):
    (found,) = ask(PLAN, [["64, 64", mesh, before, after]])
    assert len(found["steps"]) == 1
    grid = grid_of(mesh)
    old, new = (jax.NamedSharding(grid, spec_of(text)) for text in (before, after))
    x = jax.ShapeDtypeStruct((64, 64), np.float32, sharding=old)
    compiled = communication(jax.jit(lambda x: x, out_shardings=new), x).collectives
    planned = in_bytes((s["kind"], FLOAT_BYTES * s["sent"]) for s in found["steps"])
    assert in_bytes((c.kind, wire_bytes(c)) for c in compiled) == planned


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("unreduced=x", "-", ["all-reduce"]),
        ("unreduced=x", "x", ["reduce-scatter"]),
        ("unreduced=x.y", "y", ["reduce-scatter", "all-reduce"]),
        ("y,unreduced=x", "y.x", ["reduce-scatter"]),
    ],
)
def test_partial_sums_are_added_up(ask, before, after, kinds):
    (found,) = ask(PLAN, [["64", "x:4,y:2", before, after]])
    assert [step["kind"] for step in found["steps"]] == kinds


def test_whole_sums_are_not_made_partial(ask):
    (found,) = ask(PLAN, [["64", "x:4,y:2", "-", "unreduced=x"]])
    assert "makes sums whole, and never partial" in found["refusal"]


def test_a_permutation_has_one_source_for_each_device(ask):
    (found,) = ask(PLAN, [["64", "x:4,y:2", "x.y", "y.x"]])
    (step,) = found["steps"]
    senders = [sources[0] for sources in step["sources"] if sources]
    assert len(senders) == len(set(senders)) == 6


SPLIT = """(shape, mesh, before, after) => reshards.elementsIfSplit(...[before, after].map((spec) =>
  layouts.layoutOf(layouts.parseShape(shape), layouts.parseMesh(mesh), layouts.parseSpec(spec))))"""


@pytest.mark.parametrize(
    ("size", "mesh", "planned", "split"), [(16, "x:4,y:2", 240, 192), (16, "x:2,y:4", 240, 192)]
)
def test_xla_sends_less_if_it_splits_an_axis(ask, size, mesh, planned, split):
    """Exercise 3.1: the page says why `communication` reports fewer bytes than it plans."""
    move = [f"{size}, {size}", mesh, "x,y", "y,x"]
    (found,) = ask(PLAN, [move])
    assert FLOAT_BYTES * sum(step["sent"] for step in found["steps"]) == planned
    assert ask(SPLIT, [move]) == [split / FLOAT_BYTES]
    grid = grid_of(mesh)
    before, after = (jax.NamedSharding(grid, spec_of(spec)) for spec in move[2:])
    x = jax.ShapeDtypeStruct((size, size), np.float32, sharding=before)
    report = communication(jax.jit(lambda x: x, out_shardings=after), x)
    assert sum(wire_bytes(c) for c in report.collectives) == split


def test_a_mesh_with_too_many_prime_factors_is_not_searched(ask):
    assert ask(SPLIT, [["512, 512", "x:32,y:16", "x,y", "y,x"]]) == [None]
