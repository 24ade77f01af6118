"""`communication` reports a program's collectives and costs; the tests read the report."""

import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.programs import MACHINES, CommunicationError, Report
from shardlings.programs.collective import Frame
from shardlings.programs.report import place_of, source_of
from tests.helpers import mesh, sharding

BLOCKS = jax.device_put(np.ones((16, 16), np.float32), sharding("x", "y", x=4, y=2))


SVG = "{http://www.w3.org/2000/svg}"


def add_transpose(x):
    return x + x.T


def test_adding_the_transpose_takes_four_all_gathers_and_2816_bytes():
    report = communication(add_transpose, BLOCKS)
    assert isinstance(report, Report)
    assert {c.kind for c in report.collectives} == {"all-gather"}
    assert sorted(c.axes for c in report.collectives) == [("x",), ("x",), ("y",), ("y",)]
    assert report.bytes == 2816
    ((line,),) = {row.lines for row in report.rows()}
    assert place_of(line).startswith("test_communication.py:")
    assert source_of(line) == "return x + x.T"


def test_a_report_is_shown_as_a_table_and_pictures():
    report = communication(add_transpose, BLOCKS)
    said = str(report)
    assert "return x + x.T" in said
    assert "4 collectives, 2,816 bytes" in said
    assert "a · · ·  a b c d" in said
    page = ET.fromstring(report._repr_html_())
    described = [svg.get("aria-label", "") for svg in page.iter(f"{SVG}svg")]
    assert len(described) == 2 * 3  # for each axis the mesh, before and after
    assert "The mesh, x 4 by y 2. Groups of devices: 0, 2, 4, 6; 1, 3, 5, 7." in described
    assert any("over x, after: device 0 holds a b c d; device 2" in said for said in described)


def test_a_line_of_code_is_shown_once_above_its_numbers():
    page = ET.fromstring(communication(add_transpose, BLOCKS)._repr_html_())
    assert [code.text for code in page.iter("code")] == ["return x + x.T"]
    first = next(page.iter("tr")).findall("th")
    assert [cell.text for cell in first] == [
        "line and collective", "over", "bytes", "sent, in bytes",
    ]  # fmt: skip
    *_, last = page.iter("tr")
    assert ["".join(cell.itertext()) for cell in last] == ["all together", "", "2,816", "1,792"]


def seven_layers(x, w):
    for _ in range(7):
        x = jnp.tanh(x @ w @ w.T)
    return x


W = jax.device_put(np.ones((16, 64), np.float32), sharding("y", x=4, y=2))


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("/home/me/01.py", "01.py:7"), ("/tmp/ipykernel_71/2408.py", "line 7"),
        ("/home/me/train.py", "train.py:7"),
    ],
)  # fmt: skip
def test_only_a_cell_of_a_notebook_is_without_a_name(file, place):
    assert place_of(Frame(file, 7, "f")) == place


def test_equal_collectives_are_one_row():
    report = communication(seven_layers, on_auto_mesh(BLOCKS), on_auto_mesh(W))
    assert len(report.collectives) == 7
    (row,) = report.rows()
    assert (row.kind, row.over, row.runs_in_words) == ("all-reduce", "y", "× 7")
    assert (row.bytes, row.sent) == (report.bytes, report.sent)
    assert "does this 7 times." in str(report)


def on_auto_mesh(x):
    """Return an array with the same spec on a mesh with Auto axes."""
    auto = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    return jax.device_put(np.asarray(x), jax.NamedSharding(auto, x.sharding.spec))


def test_small_collectives_are_not_timed():
    said = str(communication(add_transpose, BLOCKS))
    assert "starting a message costs more than sending it" in said
    assert "µs" not in said
    assert "computing" not in said


def test_a_scaled_program_is_timed_and_not_run():
    x, w = on_auto_mesh(BLOCKS), on_auto_mesh(W)
    report = communication(seven_layers, x, w, scaled={16: 8192, 64: 32768}, machine="TPU v5p")
    (row,) = report.rows()
    product = 8192 // 4 * 32768 * 2  # a quarter of the rows, 2 bytes a number
    assert row.bytes == row.sent == 7 * product  # an all-reduce of two sends half of it twice
    machine = MACHINES["TPU v5p"]
    assert report.communication_seconds == pytest.approx(row.sent / machine.link)
    assert report.compute_seconds == pytest.approx(
        7 * 2 * 2 * 8192**2 * 32768 / 8 / machine.flops, 0.01
    )
    said = " ".join(str(report).split())
    assert said.startswith(
        "Scaled up, and not run: 8,192 in place of 16, 32,768 in place of 64, "
        "floating-point numbers as bfloat16."
    )
    assert "7 collectives, 896 MiB of buffers, 896 MiB sent; on each device" in said
    assert "On TPU v5p, computing takes" in said
    assert "communication is hidden behind computing" in said
    page = ET.fromstring(report._repr_html_())
    (bar,) = [label for svg in page.iter(f"{SVG}svg") if (label := svg.get("aria-label"))]
    assert bar.startswith("Each of the 8 devices, in order: computing ")
    assert bar.count("all-reduce over y 671 µs") == 7


def test_integers_are_not_counted_as_bfloat16():
    whole = on_auto_mesh(jax.device_put(np.ones((16, 16), np.int32), sharding("x", x=4, y=2)))
    report = communication(lambda x: x.sum(0), whole, scaled={16: 32})
    floats = communication(lambda x: x.sum(0), whole.astype(np.float32), scaled={16: 32})
    assert report.bytes == 2 * floats.bytes > 0


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 2), ("bfloat16", 2), ("float8_e4m3fn", 1), ("int32", 4)]
)
def test_scaled_memory_is_that_of_each_type(dtype, size):
    x = jax.ShapeDtypeStruct((16,), dtype, sharding=sharding("x", x=8))
    memory = communication(lambda x: x + 1, x, scaled={16: 2**20}).peak_bytes
    # the argument, the result, and one number
    assert memory == pytest.approx(2 * size * 2**20 // 8, abs=4)


def test_scaled_temporaries_shrink_in_proportion_to_what_is_computed():
    def sort(x):
        return jnp.sort(x.at[3].set(0))[::-1]

    for dtype, share in (("float32", 0.5), ("int32", 1)):
        x = jax.device_put(np.ones(16, dtype), sharding("x", x=8))
        larger = jax.ShapeDtypeStruct((2**20,), dtype, sharding=x.sharding)
        plain, scaled = communication(sort, larger), communication(sort, x, scaled={16: 2**20})
        assert plain.peak_bytes > 3 * larger.size * 4 / 8
        assert scaled.peak_bytes == pytest.approx(share * plain.peak_bytes, rel=0.01)


def test_each_array_of_a_scaled_collective_counts_by_its_own_type():
    dtypes = "float32", "bfloat16", "int32"
    arrays = [jax.device_put(jnp.ones(16, dtype), sharding("x", x=8)) for dtype in dtypes]
    add = jax.shard_map(
        lambda *each: lax.psum(each, "x"), mesh=mesh(x=8), in_specs=jax.P("x"), out_specs=jax.P()
    )
    report = communication(add, *arrays, scaled={16: 16384})
    assert report.bytes == 2048 * (2 + 2 + 4)


def test_steps_are_drawn_on_request():
    plain, steps = (communication(add_transpose, BLOCKS, steps=s) for s in (False, True))
    assert "step by step" not in plain._repr_html_()
    page = steps._repr_html_()
    assert page.count("step by step") >= 2
    assert "step 3" in page


def test_a_program_without_communication():
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
    assert [(r.kind, r.over, r.runs_in_words, r.bytes) for r in report.rows()] == [
        ("collective-permute", "x", "× 7", 7 * 128)
    ]
    assert "896 (128 each)" in str(report)


def test_a_compiled_function_is_accepted():
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
        (lambda: communication(add_transpose), "Pass them, too: communication(f, x)."),
        (
            lambda: communication(3),  # type: ignore[call-overload]
            "but got int. Pass the function and its arguments",
        ),
        (lambda: communication(fails, BLOCKS), "Your function raised TypeError: dot_general"),
        (
            lambda: communication(fails, BLOCKS),
            "of test_communication.py: `return x @ jnp.ones((3, 3))`)",
        ),
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
        (
            lambda: communication(jnp.sin, BLOCKS, scaled={17: 8192}),
            "No argument has a dimension of 17, so there is nothing to scale. The sizes of their "
            "dimensions are: 16.",
        ),
        (
            lambda: communication(jnp.sin, BLOCKS, scaled={16: 0}),
            "A size is a positive whole number; scaled has 16: 0.",
        ),
        (
            lambda: communication(lambda x: x + jnp.ones(16), BLOCKS, scaled={16: 32}),
            "With 32 in place of 16, this program cannot be compiled. A size that is written in "
            "the function stays as it is",
        ),
        (
            lambda: communication(jax.jit(jnp.sin).lower(BLOCKS).compile(), scaled={16: 32}),
            "This is lowered already, for one size.",
        ),
        (lambda: communication(jnp.sin, BLOCKS, machine="abacus"), "There is no machine 'abacus'"),
    ],
)  # fmt: skip
def test_misuse_is_explained(call, says):
    with pytest.raises(CommunicationError) as raised:
        call()
    assert says in str(raised.value)
    assert raised.value._render_traceback_()


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (3, "A machine is a name, one of 'TPU v5e', 'TPU v5p', 'H100 NVLink', "
            "'H100 100G Ethernet', but got int."),
        (["TPU v5e"], "'H100 100G Ethernet', but got list."),
        ("TPU v5E", "Did you mean 'TPU v5e'?"),
        ("v5p", "Did you mean 'TPU v5p'?"),
        ("H100 NVlinks", "Did you mean 'H100 NVLink'?"),
        ("H100 Ethernet", "Did you mean 'H100 100G Ethernet'?"),
        ("abacus", "There is no machine 'abacus' here; there are 'TPU v5e', 'TPU v5p', 'H100 NV"
                   "Link', 'H100 100G Ethernet'."),
    ],
)  # fmt: skip
def test_an_unknown_machine_is_explained(machine, says):
    with pytest.raises(CommunicationError) as raised:
        communication(jnp.sin, BLOCKS, machine=machine)
    assert str(raised.value).endswith(says)


def test_the_arrays_of_a_row_are_named_where_that_is_known():
    report = communication(add_transpose, BLOCKS)
    assert {row.arrays for row in report.rows()} == {
        "x (8, 4) → (8, 16)", "x (4, 8) → (4, 16)", "x (8, 16) → (16, 16)", "x (4, 16) → (16, 16)",
    }  # fmt: skip
    (computed,) = communication(lambda x: jnp.sin(x).sum(0), BLOCKS).rows()
    assert computed.arrays == "(8,)"
    nested = communication(lambda p: p["w"] + p["w"].T, {"w": BLOCKS}).rows()
    assert all(row.arrays.startswith("p['w'] (") for row in nested)


def test_what_the_compiler_combines_is_said_to_be_combined():
    def both(a):
        return lax.psum(a, "x"), lax.psum(a.sum(0), "x")

    out_specs = (jax.P(None, "y"), jax.P("y"))
    mapped = jax.shard_map(both, mesh=mesh(x=4, y=2), in_specs=jax.P("x", "y"), out_specs=out_specs)
    arrays = [row.arrays for row in communication(mapped, BLOCKS).rows()]
    assert arrays in (["(4, 8) and (8,), combined"], ["(8,) and (4, 8), combined"])


def test_the_pieces_of_an_all_to_all_are_one_array():
    def turned(x):
        return lax.with_sharding_constraint(x, sharding(None, "x", x=8))

    rows = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))
    (row,) = communication(turned, rows).rows()
    assert row.arrays == "x in 8 pieces of (2, 1, 2)"
