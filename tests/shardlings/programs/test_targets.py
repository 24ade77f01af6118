"""`communication(…, target=…)` compiles for a TPU, too.

Some tests need libtpu. The others use replies of its compiler that were recorded once.
"""

import html
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.programs import (
    CommunicationError,
    TargetReports,
    compile_and_report,
    tpu_programs,
)
from shardlings.programs.tpu_process import Compiled
from shardlings.programs.tpu_programs import (
    TargetError,
    export_for_tpus,
    name_arguments,
    refuse_target,
)
from tests.helpers import mesh, sharding

BLOCKS = jax.device_put(np.ones((16, 16), np.float32), sharding("x", "y", x=4, y=2))
RECORDED = Path(__file__).parent / "recorded" / "tpu-v5e-2x4"
V5E = "v5e:2x4"
needs_libtpu = pytest.mark.skipif(
    find_spec("libtpu") is None,
    reason='a TPU\'s compiler is not installed: pip install ".[tpu]"',
)


def add_transpose(x):
    return x + x.T


@pytest.fixture
def recorded(monkeypatch):
    """Return a function that replaces the TPU's compiler by a recorded reply."""

    def recorded(name):
        reply = Compiled((RECORDED / f"{name}.pb").read_bytes(), 256.0, (2048, 8192, 0, 0))
        monkeypatch.setattr(tpu_programs, "refuse_target", refuse_target)
        monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
        monkeypatch.setattr(tpu_programs, "_compile_elsewhere", lambda *_: reply)

    return recorded


def test_both_reports_are_shown(recorded):
    recorded("add_transpose")
    both = communication(add_transpose, BLOCKS, target=V5E)
    assert isinstance(both, TargetReports)
    assert both.cpu is not None
    assert (both.cpu.bytes, both.tpu.bytes) == (2816, 2048)
    assert {c.axes for c in both.tpu.collectives} == {("x", "y")}
    assert both.tpu.peak_bytes == 10240
    assert both.differences() == (
        "The TPU's compiler makes 2 all-gathers, of 2,048 bytes, where the CPU's makes 4 "
        "all-gathers, of 2,816 bytes; each device sends as much. Small arrays take more memory on "
        "a TPU, which keeps a matrix in tiles of 8 by 128 numbers or more."
    )
    text = str(both)
    assert text.index("Compiled for the CPU here") < text.index("Compiled for v5e:2x4, by the TPU")
    assert text.endswith(both.differences())
    page = both._repr_html_()
    assert page.count("<table") == 2
    assert "where the CPU's makes 4" in html.unescape(page)


def test_equal_collectives_are_reported_as_equal(recorded):
    recorded("psum")
    psum = jax.shard_map(
        lambda a: lax.psum(a, "x"),
        mesh=mesh(x=4, y=2), in_specs=jax.P("x", "y"), out_specs=jax.P(None, "y"),
    )  # fmt: skip
    both = communication(psum, BLOCKS, target=V5E)
    assert both.differences().startswith(
        "Both compilers make the same collectives, of the same bytes."
    )


def send_pieces(a, sizes):
    """Send rows in pieces of sizes that only the running program knows."""

    def body(a, sizes):
        places = jnp.arange(8, dtype=jnp.int32)
        room = jnp.zeros((64, 4), a.dtype)
        return lax.ragged_all_to_all(
            a, room, places, sizes[0], places, sizes[0], axis_name=("x", "y")
        )

    rows = jax.P(("x", "y"))
    grid = mesh(x=4, y=2)
    return jax.shard_map(body, mesh=grid, in_specs=rows, out_specs=rows, check_vma=False)(a, sizes)


ROWS = sharding(("x", "y"), x=4, y=2)
PIECES = (
    jax.ShapeDtypeStruct((128, 4), jnp.float32, sharding=ROWS),
    jax.ShapeDtypeStruct((8, 8), jnp.int32, sharding=ROWS),
)


def test_what_the_cpus_compiler_lacks_is_reported_for_the_tpu_alone(recorded):
    with pytest.raises(
        CommunicationError, match=r"ragged-all-to-all.*communication\(…, target=…\)"
    ):
        communication(send_pieces, *PIECES)
    recorded("psum")  # whatever it is
    both = communication(send_pieces, *PIECES, target=V5E)
    assert both.cpu is None
    assert both.tpu.collectives[0].kind == "all-reduce"
    text = str(both)
    assert text.startswith("Compiled for v5e:2x4, by the TPU's own compiler")
    assert "There is no program for the CPU here to compare it with. The compiler refused" in text
    assert "target=" not in text


def test_a_mistake_is_not_asked_of_the_tpus_compiler(recorded):
    recorded("psum")
    with pytest.raises(CommunicationError, match="Your function raised TypeError"):
        communication(lambda x: x @ jnp.ones((3, 3)), BLOCKS, target=V5E)


@needs_libtpu
def test_a_ragged_exchange_is_compiled_for_a_tpu():
    (found,) = communication(send_pieces, *PIECES, target=V5E).tpu.collectives
    assert (found.kind, found.axes) == ("ragged-all-to-all", ("x", "y"))


def test_an_exported_program_has_layouts_and_no_devices():
    auto = mesh(x=4, y=2)
    given = {"a": BLOCKS, "b": jnp.ones(3)}
    artifact, layouts, devices = export_for_tpus(
        lambda tree, by: lax.with_sharding_constraint(
            tree["a"] * by, jax.NamedSharding(auto, jax.P("y"))
        ),
        (given, 2.0),
        {},
    )
    assert artifact
    assert devices == 8
    blocks, *others = layouts
    assert blocks is not None
    assert blocks[:4] == ((4, 2), ("x", "y"), ("Auto", "Auto"), tuple(range(8)))
    assert blocks.spec == jax.P("x", "y")
    assert others == [None, None]


@pytest.mark.parametrize("target", ["H100", "", "v5e", "v5e:", "v5e:2", 3, ["v5e:2x4"], "v5e:2x4 "])
def test_an_invalid_target_is_refused(target):
    with pytest.raises(CommunicationError) as raised:
        communication(jnp.sin, BLOCKS, target=target)
    assert "the name of a TPU topology, such as 'v5e:2x4' (8 devices), 'v5e:2x2'" in str(
        raised.value
    )


def test_without_libtpu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: None)
    with pytest.raises(CommunicationError) as raised:
        communication(jnp.sin, BLOCKS, target=V5E)
    assert 'pip install ".[tpu]"' in str(raised.value)
    assert f'pip install "jax[tpu]=={jax.__version__}"' in str(raised.value)


@pytest.mark.skipif(find_spec("libtpu") is not None, reason="the compiler is installed here")
def test_a_refusal_of_the_other_process_is_reported(monkeypatch):
    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
    with pytest.raises(CommunicationError, match="The TPU's compiler does not start: "):
        communication(jnp.sin, BLOCKS, target=V5E)


def test_systems_other_than_linux_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TargetError, match="only on Linux"):
        refuse_target(V5E)


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (jax.jit(lambda x: x).lower(BLOCKS).compile(), (), "This is lowered already, for the dev"),
        (
            jax.jit(lambda x, n: x * n, static_argnums=1),
            (BLOCKS, 3),
            "is compiled into the program",
        ),
        (lambda x: x @ jnp.ones((3, 3)), (BLOCKS,), "Your function raised TypeError: dot_general"),
    ],
)
def test_a_function_that_cannot_be_exported_is_refused(function, arguments, says, recorded):
    recorded("psum")
    with pytest.raises(CommunicationError) as raised:
        communication(function, *arguments, target=V5E)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("status", "written", "says"),
    [
        (
            -6,
            b"F0000 a check\nThe last line.",
            "ended with status -6, and this program is not comp",
        ),
        (1, b"", "it printed nothing"),
    ],
)
def test_a_crash_of_the_compiler_is_reported(status, written, says, monkeypatch):
    def crash(command, **_):
        return subprocess.CompletedProcess(command, status, b"", written)

    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
    monkeypatch.setattr(subprocess, "run", crash)
    with pytest.raises(CommunicationError, match=says):
        communication(jnp.sin, BLOCKS, target=V5E)


def test_a_compiler_that_does_not_answer_times_out(monkeypatch):
    def time_out(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
    monkeypatch.setattr(subprocess, "run", time_out)
    with pytest.raises(CommunicationError, match="did not finish within 300 seconds"):
        communication(jnp.sin, BLOCKS, target=V5E)


@needs_libtpu
def test_compiling_for_a_tpu_leaves_the_devices_here_alone(capfd):
    before = jax.devices()
    both = communication(add_transpose, BLOCKS, target=V5E)
    assert {c.kind for c in both.tpu.collectives} == {"all-gather"}
    assert all(c.where and c.where.file == __file__ for c in both.tpu.collectives)
    assert jax.devices() == before
    assert float((BLOCKS * 2).sum()) == 512
    assert capfd.readouterr() == ("", "")


@needs_libtpu
def test_scaled_arguments_are_bfloat16_on_a_tpu():
    rows = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))
    product = communication(lambda x: x.T @ x, rows, scaled={16: 2048}, target=V5E)
    assert {c.dtypes for c in product.tpu.collectives} == {("bf16",)}
    assert product.cpu is not None
    assert product.tpu.bytes == product.cpu.bytes == 2048 * 2048 * 2
    assert product.tpu.scaled == product.cpu.scaled


@needs_libtpu
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("v5e:9x9", "There is no topology 'v5e:9x9'. Examples: 'v5e:2x4'"),
        ("v5e:2x2", "The program is for 8 devices, and 'v5e:2x2' has 4."),
    ],
)
def test_a_topology_with_another_number_of_devices_is_refused(target, says):
    with pytest.raises(CommunicationError) as raised:
        communication(add_transpose, BLOCKS, target=target)
    assert says in str(raised.value)


@needs_libtpu
def test_a_program_that_needs_too_much_memory_is_refused():
    with pytest.raises(CommunicationError, match="needs more memory than a chip has"):
        communication(lambda x: x @ x, BLOCKS, scaled={16: 1 << 18}, target=V5E)


@needs_libtpu
def test_a_mesh_of_some_devices_is_compiled_for_a_smaller_topology():
    grid = jax.sharding.Mesh(np.array(jax.devices())[::2].reshape(2, 2), ("x", "y"))
    x = jax.device_put(np.ones((16, 16), np.float32), jax.NamedSharding(grid, jax.P("x", "y")))
    both = communication(lambda x: x.sum(0), x, target="v5e:2x2")
    (found,) = both.tpu.collectives
    assert found.axes == ("x",)
    assert {frozenset(group) for group in found.groups} == {frozenset((0, 4)), frozenset((2, 6))}


def test_arguments_have_the_names_that_jax_gives_them():
    def function(params, x, *rest):
        return params["w"] @ x + rest[0]

    named = name_arguments(function, ({"v": 1.0, "w": [1.0, 2.0]}, 1.0, 2.0), {})
    assert named == {
        "args[0]": "params['v']", "args[1]": "params['w'][0]", "args[2]": "params['w'][1]",
        "args[3]": "x", "args[4]": "rest[0]",
    }  # fmt: skip
    jitted = jax.jit(lambda a, b: a + b)
    assert name_arguments(jitted, (1.0, 2.0), {}) == {"args[0]": "a", "args[1]": "b"}
    assert name_arguments(len, (1.0, 2.0), {}) == {}


@needs_libtpu
def test_a_report_on_a_tpu_names_arguments():
    x = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
    rows = communication(lambda x: x + x.T, x, target="v5e:2x4").tpu.rows()
    assert any(row.arrays.startswith("x ") for row in rows)


@pytest.mark.parametrize(
    ("asked", "target", "machine"),
    [
        (None, "v5p:2x2x2", "TPU v5p"),
        (None, "v5e:2x4", "TPU v5e"),
        (None, "v4:2x2x2", "TPU v5e"),  # whose speeds are not known here
        ("H100 NVLink", "v5p:2x2x2", "H100 NVLink"),
    ],
)
def test_times_are_those_of_the_target(monkeypatch, asked, target, machine):
    def compile_for_tpus(target, function, args, kwargs, mesh, machine, steps):
        return communication(function, *args, machine=machine)

    monkeypatch.setattr(compile_and_report, "compile_for_tpus", compile_for_tpus)
    monkeypatch.setattr(compile_and_report, "refuse_target", lambda target: None)
    compared = communication(add_transpose, BLOCKS, target=target, machine=asked)
    assert compared.cpu is not None
    assert compared.tpu.machine == compared.cpu.machine == machine


def test_products_of_8_bit_integers_are_counted_on_both(recorded, monkeypatch):
    def multiply(x):
        return jnp.matmul(x, x, preferred_element_type=jnp.int32)

    integers = jax.device_put(np.ones((16, 16), np.int8), sharding("x", x=8))
    executable: Any = jax.jit(multiply).lower(integers).compile().runtime_executable()
    (module,) = executable.hlo_modules()  # of the CPU, as if the TPU's compiler had made it
    recorded("add_transpose")
    reply = Compiled(module.as_serialized_hlo_module_proto(), 0.0, (0, 0, 0, 0))
    monkeypatch.setattr(tpu_programs, "_compile_elsewhere", lambda *_: reply)
    both = communication(multiply, integers, target=V5E)
    assert both.cpu is not None
    assert both.tpu.int8_operations == both.cpu.int8_operations == 2 * 16**3 / 8
