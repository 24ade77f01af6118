"""The playground's layouts, and why it refuses one, are JAX's and the package's."""

import math
import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from shardlings.layouts import Layout
from shardlings.programs.numbers_in_words import bytes_with_unit, count_in_words, time_in_words
from tests.playground.cases import Case, batches, cases

LAYOUT = """(shape, mesh, devices, spec) => {
  const layout = layouts.layoutOf(
    layouts.parseShape(shape), layouts.parseMesh(mesh, devices), layouts.parseSpec(spec));
  return {blocks: Object.fromEntries(layout.placements.map((p) => [p.device, p.block])),
    words: layouts.describe(layout), bytes: layouts.blockBytes(layout, "bfloat16"),
    code: layouts.layoutAsCode(layout, "float32"), link: layouts.specAsLink(layout.spec),
    again: layouts.specAsCode(layouts.parseSpec(layouts.specAsLink(layout.spec)))};
}"""


def test_a_shape_may_have_crosses(ask):
    assert ask("layouts.parseShape", [["8x16"], ["8 × 16"], ["8, 16"]]) == [[8, 16]] * 3


@batches(cases(), 3000)
def test_each_device_holds_the_block_that_it_holds_in_jax(ask, drawn):
    for case, found in zip(drawn, ask(LAYOUT, [case.texts for case in drawn]), strict=True):
        refusal = case.refusal
        assert found.get("refusal", "") == refusal
        if not refusal:
            assert {int(i): block for i, block in found["blocks"].items()} == case.blocks
            sizes = [[end - first for first, end in block] for block in case.blocks.values()]
            assert {2 * math.prod(size) for size in sizes} == {found["bytes"]}


@batches(cases(valid=True), 500)
def test_a_layout_is_described_as_in_the_notebooks(ask, drawn):
    drawn = [case for case in drawn if math.prod(case.shape)]
    for case, found in zip(drawn, ask(LAYOUT, [case.texts for case in drawn]), strict=True):
        assert found["words"] == case.layout.describe()
        assert found["again"] == case.texts[-1]


@pytest.mark.filterwarnings("ignore:The default axis_types will change:DeprecationWarning")  # 0.8
@batches(cases(valid=True), 100)
def test_the_code_makes_the_layout(ask, drawn):
    drawn = [case for case in drawn if max(case.devices) < jax.device_count()]
    for case, found in zip(drawn, ask(LAYOUT, [case.texts for case in drawn]), strict=True):
        made: dict[str, Any] = {}
        exec(found["code"], made)
        assert Layout.of(made["x"]) == case.layout


CODE = """(shape, mesh, spec, dtype) => layouts.layoutAsCode(layouts.layoutOf(
  layouts.parseShape(shape), layouts.parseMesh(mesh), layouts.parseSpec(spec)), dtype)"""


@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_the_code_runs_on_a_machine_with_one_device_and_makes_the_type(ask, dtype):
    (code,) = ask(CODE, [["8, 16", "x:2, y:4", 'P("y", "x")', dtype]])
    code = code.replace("# jax.config", "jax.config")
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    environment["JAX_PLATFORMS"] = "cpu"
    script = f"{code}\nprint(x.sharding.num_devices, x.dtype)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["8", dtype]


@pytest.mark.parametrize(
    ("text", "entries", "unreduced"),
    [
        ('P("x", None)', [["x"], []], []),
        ("P('x',)", [["x"]], []),
        ('P(("x"))', [["x"]], []),
        ('P(("x",), "y")', [["x"], ["y"]], []),
        ('jax.sharding.PartitionSpec(("y", "x"))', [["y", "x"]], []),
        ('P("x", unreduced={"y"})', [["x"]], ["y"]),
        ("P()", [], []),
        ("", [], []),
        ("y.x,-", [["y", "x"], []], []),
        ("x,unreduced=y.z", [["x"]], ["y", "z"]),
    ],
)
def test_a_spec_is_read_as_python_reads_it(ask, text, entries, unreduced):
    assert ask("layouts.parseSpec", [[text]]) == [{"entries": entries, "unreduced": unreduced}]


@pytest.mark.parametrize(
    ("shape", "mesh", "devices", "spec", "words"),
    [
        ("8", "x:0", "", "P()", "The axis 'x' has size 0."),
        ("8", "x:1000, y:1000", "", "P()", "1000 × 1000 = 1,000,000 devices"),
        ("8", "x:2, x:2", "", "P()", "Two axes of the mesh are called 'x'"),
        ("8", "x 2", "", "P()", "'x 2' is not a name, a colon and a size. Did you mean x:2?"),
        ("8", "2x4", "", "P()", "Did you mean x:2, y:4?"),
        ("8", "(2, 4)", "", "P()", "Did you mean x:2, y:4?"),
        ("8", "{'a': 2; 'b': 4}", "", "P()", "Did you mean a:2, b:4?"),
        ("8", 'jax.make_mesh((2, 4), ("a", "b"))', "", "P()", "Did you mean a:2, b:4?"),
        ("8", "x:-2", "", "P()", "'x:-2' is not a name, a colon and a size."),
        ("8", "x:2", "3, 3", "P()", "Device 3 is in the mesh twice."),
        ("8", "x:2", "0-3", "P()", "has 2 places, and 4 devices are given"),
        ("8, -2", "x:2", "", "P()", "'-2' is not one"),
        ("2, 2, 2, 2", "x:2", "", "P()", "up to 3 dimensions"),
        ("8", "x:2", "", 'P("x"', "has a bracket that is never closed"),
        ("8", "x:2", "", "P(0)", "cannot be read from '0' on"),
        ("8", "x:2", "", "P(P.UNCONSTRAINED)", "leaves a dimension to the compiler"),
        ("8", "x:2", "", 'P("x", unreduced={"x"})', "names the axis 'x' twice"),
    ],
)
def test_wrong_input_is_refused_with_the_rule(ask, shape, mesh, devices, spec, words):
    (found,) = ask(LAYOUT, [[shape, mesh, devices, spec]])
    assert words in found["refusal"]


PARTIAL = """(shape, mesh, spec) => {
  const layout = layouts.layoutOf(
    layouts.parseShape(shape), layouts.parseMesh(mesh), layouts.parseSpec(spec));
  return [layouts.describe(layout), layouts.sharersOf(layout, layout.placements[0])];
}"""


@pytest.mark.parametrize(
    ("spec", "words", "copies", "sums"),
    [
        ("P(unreduced={'x'})", "2 partial sums of it in 4 copies, on", [1, 2, 3], [4, 5, 6, 7]),
        ("P('y', unreduced={'x'})", "4 blocks of (2,), 2 partial sums of each, on", [], [4]),
        ("P(unreduced={'x', 'y'})", "(8,), 8 partial sums of it, on", [], [1, 2, 3, 4, 5, 6, 7]),
        ("P('x')", "2 blocks of (4,), 4 copies of each, on", [1, 2, 3], []),
    ],
)
def test_partial_sums_are_not_called_copies(ask, spec, words, copies, sums):
    ((sentence, sharers),) = ask(PARTIAL, [["8", "x:2, y:4", spec]])
    assert words in sentence
    assert sharers == {"copies": copies, "sums": sums}


def test_jax_refuses_what_the_page_says_it_refuses():
    devices = np.array(jax.devices())
    with pytest.raises(ValueError, match="Number of devices"):
        jax.make_mesh((1000, 1000), ("x", "y"))
    with pytest.raises((ValueError, IndexError)):
        jax.make_mesh((0,), ("x",))
    mesh = jax.sharding.Mesh(devices, ("x",))
    with pytest.raises(ValueError, match="overlap"):
        jax.NamedSharding(mesh, jax.P("x", unreduced={"x"}))
    empty = jax.device_put(jnp.zeros((0, 8)), jax.NamedSharding(mesh, jax.P("x", None)))
    assert empty.addressable_shards[0].data.shape == (0, 8)


@batches(st.integers(0, 10**16) | st.integers(0, 10**6), 1000)
def test_numbers_are_in_words_as_in_the_notebooks(ask, numbers):
    calls = [[number] for number in numbers]
    assert ask("words.count", calls) == [count_in_words(number) for number in numbers]
    assert ask("words.bytes", calls) == [bytes_with_unit(number) for number in numbers]
    seconds = [number / 1e10 for number in numbers if number]
    assert ask("words.time", [[s] for s in seconds]) == [time_in_words(s) for s in seconds]


def test_numbers_halfway_between_two_are_rounded_as_in_python(ask):
    seconds = [3.305e-6, 1.125e-6, 1.135e-6, 2.675e-3]
    assert ask("words.time", [[s] for s in seconds]) == [time_in_words(s) for s in seconds]


def test_a_case_on_real_devices_has_real_devices():
    case = Case((("x", 2),), (7, 6), (4,), (("x",),))
    assert case.mesh.devices.tolist() == [jax.devices()[7], jax.devices()[6]]
