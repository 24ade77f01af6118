"""The transformer's arithmetic: compared with published sizes, and with compiled layers."""

import math
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax import P, lax

from shardlings import communication
from shardlings.programs import MACHINES, wire_bytes
from tests.conftest import fewer

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, BATCH, LENGTH = 2, 16, 32, 4, 2, 8, 8, 16
FLOAT_BYTES = 4
TINY = {
    "layers": LAYERS, "width": WIDTH, "hidden": HIDDEN, "heads": HEADS, "kvHeads": KV_HEADS,
    "headSize": HEAD_SIZE, "vocabulary": 0, "experts": 1, "active": 1,
}  # fmt: skip

WEIGHTS = {
    "q": ((WIDTH, HEADS, HEAD_SIZE), P("fsdp", "tensor")),
    "k": ((WIDTH, KV_HEADS, HEAD_SIZE), P("fsdp", "tensor")),
    "v": ((WIDTH, KV_HEADS, HEAD_SIZE), P("fsdp", "tensor")),
    "o": ((HEADS, HEAD_SIZE, WIDTH), P("tensor", None, "fsdp")),
    "gate": ((WIDTH, HIDDEN), P("fsdp", "tensor")),
    "up": ((WIDTH, HIDDEN), P("fsdp", "tensor")),
    "down": ((HIDDEN, WIDTH), P("tensor", "fsdp")),
}


def normalise(x):
    x = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    return lax.pcast(x, "tensor", to="varying")  # so that its gradient is summed once


def gather(name, weight):
    varying = lax.pcast(weight, ("data", "sequence"), to="varying")
    return lax.all_gather(varying, "fsdp", axis=WEIGHTS[name][1].index("fsdp"), tiled=True)


@jax.checkpoint
def layer(x, shards):
    """One device's part of a layer; x is (sequences, tokens, width)."""
    w = {name: gather(name, shard) for name, shard in shards.items()}
    h = normalise(x)
    q, k, v = (jnp.einsum("bsd,dnh->bsnh", h, w[name]) for name in "qkv")
    k, v = (lax.all_gather(y, "sequence", axis=1, tiled=True) for y in (k, v))
    k, v = (jnp.repeat(y, HEADS // KV_HEADS, axis=2) for y in (k, v))
    scores = jax.nn.softmax(jnp.einsum("bsnh,btnh->bnst", q, k), -1)
    attended = jnp.einsum("bnst,btnh->bsnh", scores, v)
    x += lax.psum(jnp.einsum("bsnh,nhd->bsd", attended, w["o"]), "tensor")
    h = normalise(x)
    return x + lax.psum((jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], "tensor")


def compile_step(data, fsdp, tensor, sequence):
    """Compile the gradients of a few layers' weights; return its report and its memory."""
    sizes = (data, fsdp, sequence, tensor)
    devices = np.array(jax.devices()[: np.prod(sizes)]).reshape(sizes)
    mesh = jax.sharding.Mesh(devices, ("data", "fsdp", "sequence", "tensor"))
    specs = {name: P(None, *spec) for name, (_, spec) in WEIGHTS.items()}
    tokens = P(("data", "fsdp"), "sequence")

    def loss(weights, x):
        y, _ = lax.scan(lambda x, w: (layer(x, w), None), x, weights)
        return lax.psum(jnp.sum(y * y), ("data", "fsdp", "sequence"))

    sharded = jax.shard_map(loss, mesh=mesh, in_specs=(specs, tokens), out_specs=P())

    def argument(shape, spec):
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=jax.NamedSharding(mesh, spec))

    weights = {n: argument((LAYERS, *shape), specs[n]) for n, (shape, _) in WEIGHTS.items()}
    x = argument((BATCH, LENGTH, WIDTH), tokens)
    compiled = jax.jit(jax.grad(sharded)).lower(weights, x).compile()
    return communication(compiled), compiled.memory_analysis()


DEGREES = [(1, 8, 1, 1), (8, 1, 1, 1), (1, 1, 2, 1), (1, 1, 1, 8), (2, 2, 2, 1), (1, 2, 2, 2)]


@pytest.mark.skipif(not hasattr(lax, "pcast"), reason="this JAX has no lax.pcast")
@pytest.mark.parametrize("degrees", DEGREES)
def test_compiled_layers_send_compute_and_hold_what_the_page_says(ask, degrees):
    run = {
        "model": TINY, "batch": BATCH, "length": LENGTH, "itemBytes": FLOAT_BYTES,
        "degrees": dict(zip(("data", "fsdp", "tensor", "sequence"), degrees, strict=True)),
    }  # fmt: skip
    asked = """(run) => ({sent: transformers.sentBytes(run), memory: transformers.memoryOf(run),
      flops: run.model.layers * transformers.flopsOf(run).layer})"""
    (found,) = ask(asked, [[run]])
    report, memory = compile_step(*degrees)
    sent: Counter[tuple[str, str]] = Counter()
    axis_counts: dict[tuple[str, str], int] = {}
    for collective in report.collectives:
        kind, axes = collective.kind, collective.axes
        name = "data" if kind == "all-reduce" and "tensor" not in axes else axes[0]
        if collective.bytes > FLOAT_BYTES:  # not the loss
            sent[name, kind] += wire_bytes(collective) * collective.times
            axis_counts[name, kind] = len(collective.axes)
    norms = FLOAT_BYTES * (LAYERS * 2 * WIDTH + WIDTH) / degrees[1]  # the test's have no weights
    fsdp, replicas = degrees[1], degrees[0] * degrees[3]
    without = {
        ("fsdp", "all-gather"): 2 * (fsdp - 1) * norms,
        ("fsdp", "reduce-scatter"): (fsdp - 1) * norms,
        ("data", "all-reduce"): 2 * (replicas - 1) / replicas * norms,
    }
    planned: Counter[tuple[str, str]] = Counter()
    for term in found["sent"]:
        name = "data" if term["name"].startswith("data") else term["name"].lower()
        assert term["axes"] == axis_counts.get((name, term["kind"]), 1)
        planned[name, term["kind"]] += term["bytes"] - without.get((name, term["kind"]), 0)
    assert {k: v for k, v in planned.items() if v > 1e-6} == pytest.approx(dict(sent))
    weights = next(term["bytes"] for term in found["memory"] if term["name"] == "weights") - norms
    x = FLOAT_BYTES * BATCH * LENGTH * WIDTH / (degrees[0] * degrees[1] * degrees[3])
    assert memory.argument_size_in_bytes == pytest.approx(weights + x)
    assert found["flops"] == pytest.approx(report.flops, rel=0.15)  # softmax and norms are small


MODES = [2**p for p in range(4)]
"""The degrees of each kind of sharding that eight devices allow."""


@settings(max_examples=fewer(100))
@given(
    st.tuples(*[st.sampled_from(MODES)] * 4).filter(lambda sizes: math.prod(sizes) <= 8),
    st.sampled_from([1, 4]),
    st.sampled_from([KV_HEADS, HEADS]),
)
def test_the_code_reports_on_what_the_page_says(ask, degrees, experts, kv_heads):
    model = TINY | {"experts": experts, "active": min(experts, 2), "kvHeads": kv_heads}
    run = {
        "model": model, "batch": BATCH, "length": LENGTH, "itemBytes": FLOAT_BYTES,
        "degrees": dict(zip(("data", "fsdp", "tensor", "sequence"), degrees, strict=True)),
    }  # fmt: skip
    assume(degrees[2] <= kv_heads)
    asked = """(run) => ({sent: transformers.sentBytes(run), memory: transformers.memoryOf(run),
      code: transformerCode.write(run, {dtype: "float32", machine: "TPU v5p"})})"""
    (found,) = ask(asked, [[run]])
    names: dict[str, Any] = {}
    exec(found["code"], names)
    report = names["report"]
    assert report.machine == "TPU v5p"
    assert math.isfinite(report.flops)
    held = sum(
        FLOAT_BYTES * math.prod(each.sharding.shard_shape(each.shape))
        for each in names["parameters"].values()
    )
    small = LAYERS * (2 * WIDTH + (experts > 1) * WIDTH * experts) + WIDTH  # norms, and a router
    weights = next(term["bytes"] for term in found["memory"] if term["name"] == "weights")
    assert held == pytest.approx(weights, abs=FLOAT_BYTES * small)
    sharded = {axis for axis, size in names["mesh"].shape.items() if size > 1}
    assert set().union(*(c.axes for c in report.collectives)) <= sharded
    assert bool(sharded) == bool(report.collectives)

    def compare(kind, axis, name):
        sent = sum(
            wire_bytes(c) * c.times
            for c in report.collectives
            if c.kind == kind and c.axes == (axis,)
        )
        terms = (t for t in found["sent"] if (t["name"], t["kind"]) == (name, kind))
        return sent, sum(term["bytes"] for term in terms)

    gathered, planned = compare("all-gather", "fsdp", "FSDP")
    assert 0.4 * planned <= gathered <= planned  # once or twice
    summed, planned = compare("all-reduce", "tensor", "tensor")
    assert summed == pytest.approx(8 / 5 * planned)  # three for q, k and v, two for gate and up


@pytest.mark.parametrize(
    ("model", "parameters"),
    [  # as Hugging Face counts the published weights
        ("Llama 2 7B", 6_738_415_616),
        ("Llama 3 70B", 70_553_706_496),
        ("Mixtral 8x7B", 46_702_792_704),
    ],
)
def test_models_have_as_many_parameters_as_published(ask, model, parameters):
    count = "(name) => transformers.countParameters(transformers.MODELS[name]).all"
    assert ask(count, [[model]]) == [parameters]


GB = 1e9

PUBLISHED = {  # memory of a chip; chips that such links join
    "https://docs.cloud.google.com/tpu/docs/v5e": (16 * GB, 256),
    "https://docs.cloud.google.com/tpu/docs/v5p": (95 * GB, 8960),
    "https://www.nvidia.com/en-us/data-center/h100/": (80 * GB, 8),
}


def test_memory_and_linked_chips_are_those_that_the_sources_publish(ask):
    (machines,) = ask("() => course.machines", [[]])
    found = {m["source"]: (m["capacity"], m["linked"]) for m in machines}
    ethernet = found.pop("IEEE 802.3bj-2014: 100 Gbit/s")
    assert found == PUBLISHED
    assert ethernet == (80 * GB, None)  # the same chip, and switches join any number


def test_in_a_torus_an_all_reduce_over_two_axes_takes_half_as_long(ask):
    times = """(sequence, name) => transformers.timesOf({model: transformers.MODELS["Llama 2 7B"],
      batch: 64, length: 4096, itemBytes: 2, degrees: {data: 4, fsdp: 1, tensor: 1, sequence}},
      course.machines.find((machine) => machine.name === name)).communicating"""
    sent = """(sequence) => transformers.sentBytes({model: transformers.MODELS["Llama 2 7B"],
      batch: 64, length: 4096, itemBytes: 2, degrees: {data: 4, fsdp: 1, tensor: 1, sequence}})"""
    for sequence in (1, 2):
        (terms,) = ask(sent, [[sequence]])
        both = sum(term["bytes"] for term in terms if term["axes"] == 2)
        assert (both > 0) == (sequence > 1)
        total = sum(term["bytes"] for term in terms)
        for machine in MACHINES.values():
            (took,) = ask(times, [[sequence, machine.name]])
            load = total - both / 2 if machine.torus else total
            assert took == pytest.approx(load / machine.link)


def test_machines_are_those_of_the_notebooks(ask):
    (machines,) = ask("() => course.machines", [[]])
    assert {m["name"]: (m["flops"], m["link"], m["torus"]) for m in machines} == {
        m.name: (m.flops, m.link, m.torus) for m in MACHINES.values()
    }


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            {"tensor": 64},
            "tensor",
            "the heads 64 shards, but the size, 32, is not a multiple",
        ),
        ({"data": 3}, "batch", "the batch 3 shards"),
        ({"fsdp": 512, "data": 2}, "fsdp", "this page goes up to 512"),
    ],
)
def test_what_does_not_divide_is_refused(ask, change, field, words):
    run = """(change) => transformers.explainMisfit({model: transformers.MODELS["Llama 2 7B"],
      degrees: {data: 1, fsdp: 1, tensor: 1, sequence: 1, ...change}, batch: 64, length: 4096})"""
    (refusal,) = ask(run, [[change]])
    assert refusal["field"] == field
    assert words in refusal["message"]
