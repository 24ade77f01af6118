"""The ways to multiply sharded matrices, and their costs: compared with compiled programs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardlings import communication
from shardlings.layouts import Layout
from shardlings.programs import MACHINES, communication_seconds, wire_bytes
from tests.conftest import fewer
from tests.playground.cases import batches, meshes
from tests.playground.steps import STEP, grid_of, in_bytes, spec_of, take_step

FLOAT_BYTES = 4

WAYS = f"""(i, j, k, mesh, A, B, C) => matmuls.waysOf({{i, j, k}}, layouts.parseMesh(mesh),
  {{A: layouts.parseSpec(A), B: layouts.parseSpec(B), C: layouts.parseSpec(C)}}).map((way) => ({{
    sent: way.sent, flops: way.flops, repeats: way.repeats,
    seconds: course.machines.map(
      (machine) => matmuls.timesOf(way, machine, {FLOAT_BYTES}).communicating),
    A: way.moves.A.map({STEP}), B: way.moves.B.map({STEP}), C: way.moves.C.map({STEP})}}))"""


@st.composite
def matmul_arguments(draw, most):
    """Draw i, j, k, a mesh and the specs of A, B and C, as links write them."""
    sizes = draw(meshes(most).filter(lambda drawn: len(drawn) <= 3))
    devices = math.prod(size for _, size in sizes)
    lengths = [devices * draw(st.integers(2, 4)) for _ in "ijk"]
    specs = []
    for _ in "ABC":
        entries: list[list[str]] = [[], []]
        for name in draw(st.permutations([name for name, _ in sizes])):
            at = draw(st.integers(-1, 1))
            if at >= 0:
                entries[at].append(name)
        specs.append(",".join(".".join(names) or "-" for names in entries))
    return [*lengths, ",".join(f"{name}:{size}" for name, size in sizes), *specs]


@batches(matmul_arguments(most=16), 500)
def test_there_is_a_way_and_none_leaves_work_out(ask, drawn):
    for arguments, ways in zip(drawn, ask(WAYS, drawn), strict=True):
        i, j, k, mesh = arguments[:4]
        devices = math.prod(int(axis.split(":")[1]) for axis in mesh.split(","))
        assert ways
        for way in ways:
            assert 2 * i * j * k / devices <= way["flops"] <= 2 * i * j * k
            assert way["flops"] == pytest.approx(way["repeats"] * 2 * i * j * k / devices)
            steps = [*way["A"], *way["B"], *way["C"]]
            assert way["sent"] == pytest.approx(sum(step["sent"] for step in steps))


def rebuild_mesh(text):
    sizes = {name: int(size) for name, size in (axis.split(":") for axis in text.split(","))}
    devices = np.array(jax.devices()[: math.prod(sizes.values())])
    return jax.sharding.Mesh(devices.reshape(*sizes.values()), tuple(sizes))


@settings(max_examples=fewer(60))
@given(matmul_arguments(most=8), st.integers(0, 99))
@example((64, 32, 64, "x:4,y:2", "x,-", "x,-", "y,-"), 2)  # with a collective-permute
@example((64, 32, 64, "x:2,y:4", "x,-", "x,-", "y,x"), 3)
@example((64, 32, 64, "x:2,y:2", "x,-", "x,-", "y,-"), 2)
def test_each_way_multiplies_and_compiles_to_those_bytes_and_operations(ask, arguments, number):
    i, j, k, text, *specs = arguments
    ways = ask(WAYS, [arguments])[0]
    mesh, (left, right, out) = rebuild_mesh(text), map(spec_of, specs)
    way = ways[number % len(ways)]

    def body(a, b):
        for step in way["A"]:
            a = take_step(a, step, mesh)
        for step in way["B"]:
            b = take_step(b, step, mesh)
        c = a @ b
        for step in way["C"]:
            c = take_step(c, step, mesh)
        return c

    f = jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(left, right), out_specs=out, check_vma=False)
    )
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-4, 5, shape).astype(np.float32) for shape in ((i, j), (j, k)))
    x, y = (jax.device_put(v, jax.NamedSharding(mesh, s)) for v, s in ((a, left), (b, right)))
    z = f(x, y)
    np.testing.assert_array_equal(z, a @ b)
    assert Layout.of(z) == Layout.of(jax.NamedSharding(mesh, out), (i, k))
    report = communication(f, x, y)
    steps = [*way["A"], *way["B"], *way["C"]]
    planned = in_bytes((s["kind"], FLOAT_BYTES * s["sent"]) for s in steps if s["kind"] != "slice")
    assert in_bytes((c.kind, wire_bytes(c)) for c in report.collectives) == planned
    for machine, seconds in zip(MACHINES.values(), way["seconds"], strict=True):
        took = sum(communication_seconds(c, machine) for c in report.collectives)
        assert seconds == pytest.approx(took), machine.name
    sums = sum(s["kind"] in ("all-reduce", "reduce-scatter") for s in steps)
    assert (
        way["flops"] <= report.flops <= way["flops"] * (1 + sums) + 16
    )  # sums, and slices' places


COMPILED = [
    ("x,-", "-,y", "x,y"), ("-,x", "x,-", "-,-"), ("-,x", "x,-", "x,-"), ("x,y", "y,-", "x,-"),
    ("x,-", "x,-", "x,-"), ("x,-", "x,y", "x,y"), ("y,-", "x,-", "y,-"), ("x,y", "x,y", "x,y"),
]  # fmt: skip


@pytest.mark.parametrize("specs", COMPILED, ids=" ".join)
def test_xla_takes_one_of_the_ways(ask, specs):
    sizes = (64, 32, 64)
    (ways,) = ask(WAYS, [[*sizes, "x:4,y:2", *specs]])
    mesh = grid_of("x:4,y:2")
    left, right, out = (jax.NamedSharding(mesh, spec_of(spec)) for spec in specs)
    x, y = (
        jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
        for shape, sharding in ((sizes[:2], left), (sizes[1:], right))
    )
    f = jax.jit(jnp.dot, out_shardings=out)
    compiled = in_bytes((c.kind, wire_bytes(c)) for c in communication(f, x, y).collectives)
    planned = [
        in_bytes(
            (step["kind"], FLOAT_BYTES * step["sent"])
            for name in "ABC"
            for step in way[name]
            if step["kind"] != "slice"
        )
        for way in ways
    ]
    assert compiled in planned


def test_emulated_devices_may_send_twice_the_bytes_and_the_code_says_so(page):
    mesh = grid_of("x:4,y:2")
    left, right, out = (jax.NamedSharding(mesh, spec_of(spec)) for spec in ("x,-", "x,y", "x,y"))
    x, y = (jax.ShapeDtypeStruct((64, 64), jnp.bfloat16, sharding=s) for s in (left, right))
    (gather,) = communication(jax.jit(jnp.dot, out_shardings=out), x, y).collectives
    assert wire_bytes(gather) / (3 * 16 * 32) in (2, 4)  # bytes for each element of three blocks
    page.evaluate("location.hash = '#v1/matmul'")
    page.get_by_text("XLA may send bfloat16 as float32; the last line").wait_for()


@pytest.mark.parametrize("machine", MACHINES)
def test_times_are_those_of_the_notebooks(ask, machine):
    (ways,) = ask(WAYS, [[64, 32, 64, "x:4,y:2", "x,-", "x,-", "x,-"]])
    way = next(
        w for w in ways if [step["kind"] for step in w["B"]] == ["all-gather"] and not w["A"]
    )
    mesh = grid_of("x:4,y:2")
    old, new = (jax.NamedSharding(mesh, spec_of(s)) for s in ("x,-", "-,-"))
    b = jax.ShapeDtypeStruct((32, 64), np.float32, sharding=old)
    (gather,) = communication(jax.jit(lambda b: b, out_shardings=new), b).collectives
    number = list(MACHINES).index(machine)
    assert way["seconds"][number] == pytest.approx(communication_seconds(gather, MACHINES[machine]))
    times = """(flops, name) => matmuls.timesOf({flops, moves: {}},
      course.machines.find((machine) => machine.name === name), 4)"""
    (found,) = ask(times, [[way["flops"], machine]])
    assert found["computing"] == pytest.approx(2 * 64 * 32 * 64 / 4 / MACHINES[machine].flops)
