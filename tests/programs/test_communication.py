"""`communication` reports what a program says to whom; the tests read what it says."""

import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import communication
from autograder.programs import CommunicationError, Report
from tests.helpers import mesh, sharding

BLOCKS = jax.device_put(np.ones((16, 16), np.float32), sharding("x", "y", x=4, y=2))


def add_transpose(x):
    return x + x.T


def test_the_disaster_is_four_gathers_and_2816_bytes():
    report = communication(add_transpose, BLOCKS)
    assert isinstance(report, Report)
    assert {c.kind for c in report.collectives} == {"all-gather"}
    assert sorted(c.axes for c in report.collectives) == [("x",), ("x",), ("y",), ("y",)]
    assert report.bytes == 2816
    (line,) = report.lines()
    assert line[1] == 2816
    assert line[0].startswith("test_communication.py:")
    assert line[0].endswith("return x + x.T")


def test_it_shows_itself_as_a_table_and_a_picture():
    report = communication(add_transpose, BLOCKS, machine="TPU v5p")
    said = str(report)
    assert "on TPU v5p" in said
    assert said.count("all-gather") == 4
    assert "4 collectives, 2,816 bytes" in said
    page = ET.fromstring(report._repr_html_())
    pictures = page.findall(".//{http://www.w3.org/2000/svg}svg")
    assert len(pictures) == 2
    over_x = next(p for p in pictures if "over x" in p.get("aria-label", ""))
    assert "0 to 2; 2 to 4; 4 to 6; 6 to 0" in over_x.get("aria-label", "")


def test_a_program_that_keeps_to_itself_says_so():
    report = communication(jnp.sin, BLOCKS)
    assert report.collectives == ()
    assert str(report).startswith("no communication; on each device")
    assert report.peak_bytes == 2 * 16 * 16 * 4 // 8


def test_work_is_counted_for_each_device():
    whole = communication(jnp.sin, jnp.ones((16, 16)))
    assert whole.peak_bytes == 8 * communication(jnp.sin, BLOCKS).peak_bytes
    square = jax.jit(lambda a: a @ a)
    alone = communication(square, jnp.ones((64, 64)))
    rows = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
    assert communication(square, rows).flops == pytest.approx(alone.flops / 8, rel=0.05)


def test_loops_branches_and_permutations():
    def ring(a):
        def step(carry, _):
            return lax.ppermute(carry, "x", [(i, (i + 1) % 4) for i in range(4)]), None

        return lax.scan(step, a, None, length=7)[0]

    program = jax.shard_map(
        ring, mesh=mesh(x=4, y=2), in_specs=jax.P("x", "y"), out_specs=jax.P("x", "y")
    )
    report = communication(program, BLOCKS)
    (found,) = report.collectives
    assert found.times == 7
    assert report.bytes == 7 * 128
    assert report.rows()[0][:4] == ("collective-permute", "x", "7", "128")


def test_what_is_compiled_already_is_taken_as_it_is():
    compiled = jax.jit(add_transpose).lower(BLOCKS).compile()
    assert communication(compiled).bytes == 2816
    assert communication(jax.jit(add_transpose), BLOCKS).bytes == 2816


def test_a_permuted_mesh_names_its_own_axes_and_devices():
    devices = np.array(jax.devices())[[7, 0, 6, 1, 5, 2, 4, 3]].reshape(4, 2)
    grid = jax.sharding.Mesh(devices, ("x", "y"))
    x = jax.device_put(np.ones((8, 8), np.float32), jax.NamedSharding(grid, jax.P("x", "y")))
    (found,) = communication(lambda x: x.sum(1), x).collectives
    assert found.axes == ("y",)
    assert {frozenset(group) for group in found.groups} == {
        frozenset(pair) for pair in ((7, 0), (6, 1), (5, 2), (4, 3))
    }


def fails(x):
    return x @ jnp.ones((3, 3))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: communication(add_transpose), "Hand them in too: communication(f, x)."),
        (
            lambda: communication(3),  # type: ignore[arg-type]
            "int came. Hand in the function and its arguments",
        ),
        (lambda: communication(fails, BLOCKS), "Your function raised TypeError: dot_general"),
        (lambda: communication(fails, BLOCKS), "(line 2 of fails)"),
        (
            lambda: communication(
                jnp.add, BLOCKS,
                jax.device_put(
                    np.ones((16, 16)),
                    jax.NamedSharding(jax.sharding.Mesh(jax.devices()[::-1], ("x",)), jax.P("x")),
                ),
            ),
            "The arguments are on different meshes: one has devices [0, 1, 2, 3, 4, 5, 6, 7]",
        ),
        (
            lambda: communication(
                jnp.sin,
                jax.ShapeDtypeStruct(
                    (16,), jnp.float32,
                    sharding=jax.NamedSharding(
                        jax.sharding.AbstractMesh((16,), ("x",)), jax.P("x")
                    ),
                ),
            ),
            "laid out over 16 devices, and this process has 8",
        ),
        (lambda: communication(jnp.sin, BLOCKS, machine="abacus"), "There is no machine 'abacus'"),
    ],
)  # fmt: skip
def test_misuse_gets_a_sentence(call, says):
    with pytest.raises(CommunicationError) as raised:
        call()
    assert says in str(raised.value)
    assert raised.value._render_traceback_()
