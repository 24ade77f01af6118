"""`communication(…, target=…)`: a TPU's compiler beside the CPU's; what it is told and how it ends.

Where libtpu is installed, it is asked; elsewhere, programs that it made once take its place.
"""

import subprocess
import sys
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import communication
from autograder.programs import CommunicationError, ComparedReports, tpu_programs
from autograder.programs.tpu_programs import TargetError, export_for_tpus, refuse_target
from tests.conftest import ROOT
from tests.helpers import mesh, sharding

BLOCKS = jax.device_put(np.ones((16, 16), np.float32), sharding("x", "y", x=4, y=2))
RECORDED = ROOT / "tests" / "programs" / "recorded" / "tpu-v5e-2x4"
V5E = "v5e:2x4"
installed = pytest.mark.skipif(
    find_spec("libtpu") is None,
    reason='a TPU\'s compiler is not installed: pip install ".[tpu]"',
)


def add_transpose(x):
    return x + x.T


@pytest.fixture
def recorded(monkeypatch):
    """Have what was recorded take the place of a TPU's compiler."""

    def recorded(name):
        reply = (RECORDED / f"{name}.pb").read_bytes(), 256.0, (2048, 8192, 0, 0)
        monkeypatch.setattr(tpu_programs, "refuse_target", refuse_target)
        monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
        monkeypatch.setattr(tpu_programs, "_compile_elsewhere", lambda *_: reply)

    return recorded


def test_two_reports_stand_side_by_side(recorded):
    recorded("add_transpose")
    both = communication(add_transpose, BLOCKS, target=V5E)
    assert isinstance(both, ComparedReports)
    assert (both.cpu.bytes, both.tpu.bytes) == (2816, 2048)
    assert {c.axes for c in both.tpu.collectives} == {("x", "y")}
    assert both.tpu.peak_bytes == 10240
    assert both.differences() == (
        "The TPU's compiler makes 2 all-gathers, of 2,048 bytes, where the CPU's makes 4 "
        "all-gathers, of 2,816 bytes; each device sends as much. Small arrays take more memory on "
        "a TPU, which keeps a matrix in tiles of 8 by 128 numbers or more."
    )
    said = str(both)
    assert said.index("Compiled for the CPU here") < said.index("Compiled for v5e:2x4, by the TPU")
    assert said.endswith(both.differences())
    page = both._repr_html_()
    assert page.count("<table") == 2
    assert "where the CPU&#x27;s makes 4" in page


def test_what_is_the_same_is_called_so(recorded):
    recorded("psum")
    summed = jax.shard_map(
        lambda a: lax.psum(a, "x"),
        mesh=mesh(x=4, y=2), in_specs=jax.P("x", "y"), out_specs=jax.P(None, "y"),
    )  # fmt: skip
    both = communication(summed, BLOCKS, target=V5E)
    assert both.differences().startswith(
        "Both compilers make the same collectives, of the same bytes."
    )


def test_an_exported_program_names_no_devices_and_keeps_how_it_is_laid_out():
    auto = mesh(x=4, y=2)
    given = {"a": BLOCKS, "b": jnp.ones(3)}
    artifact, layouts, devices = export_for_tpus(
        lambda tree, by: lax.with_sharding_constraint(
            tree["a"] * by, jax.NamedSharding(auto, jax.P("y"))
        ),
        (given, 2.0),
    )
    assert artifact
    assert devices == 8
    blocks, *others = layouts
    assert blocks is not None
    assert blocks[:4] == ((4, 2), ("x", "y"), ("Auto", "Auto"), tuple(range(8)))
    assert blocks.spec == jax.P("x", "y")
    assert others == [None, None]


@pytest.mark.parametrize("target", ["H100", "", "v5e", "v5e:", "v5e:2", 3, ["v5e:2x4"], "v5e:2x4 "])
def test_what_is_no_topology_is_told_so(target):
    with pytest.raises(CommunicationError) as raised:
        communication(jnp.sin, BLOCKS, target=target)
    assert "the name of a TPU topology, such as 'v5e:2x4' (8 devices), 'v5e:2x2'" in str(
        raised.value
    )


def test_without_a_compiler_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: None)
    with pytest.raises(CommunicationError) as raised:
        communication(jnp.sin, BLOCKS, target=V5E)
    assert 'pip install ".[tpu]"' in str(raised.value)
    assert f'pip install "jax[tpu]=={jax.__version__}"' in str(raised.value)


def test_elsewhere_than_on_linux_there_is_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TargetError, match="on Linux only"):
        refuse_target(V5E)


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (jax.jit(lambda x: x).lower(BLOCKS).compile(), (), "This is compiled already, for the dev"),
        (
            jax.jit(lambda x, n: x * n, static_argnums=1),
            (BLOCKS, 3),
            "takes as static is part of the program",
        ),
        (lambda x: x @ jnp.ones((3, 3)), (BLOCKS,), "Your function raised TypeError: dot_general"),
    ],
)
def test_what_cannot_be_handed_on_is_told_so(function, arguments, says, recorded):
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
        (1, b"", "it says nothing"),
    ],
)
def test_a_compiler_that_dies_is_told_of(status, written, says, monkeypatch):
    def died(command, **_):
        return subprocess.CompletedProcess(command, status, b"", written)

    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
    monkeypatch.setattr(subprocess, "run", died)
    with pytest.raises(CommunicationError, match=says):
        communication(jnp.sin, BLOCKS, target=V5E)


def test_a_compiler_that_does_not_answer_is_given_up(monkeypatch):
    def waits(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(tpu_programs, "find_spec", lambda _: True)
    monkeypatch.setattr(subprocess, "run", waits)
    with pytest.raises(CommunicationError, match="did not come to an end in 300 seconds"):
        communication(jnp.sin, BLOCKS, target=V5E)


@installed
def test_the_compiler_is_asked_and_the_devices_here_stay_as_they_are(capfd):
    before = jax.devices()
    both = communication(add_transpose, BLOCKS, target=V5E)
    assert {c.kind for c in both.tpu.collectives} == {"all-gather"}
    assert all(c.where and c.where.file == __file__ for c in both.tpu.collectives)
    assert jax.devices() == before
    assert float((BLOCKS * 2).sum()) == 512
    assert capfd.readouterr() == ("", "")


@installed
def test_scaled_up_it_is_given_true_bfloat16():
    rows = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))
    product = communication(lambda x: x.T @ x, rows, scaled={16: 2048}, target=V5E)
    assert {c.dtypes for c in product.tpu.collectives} == {("bf16",)}
    assert product.tpu.bytes == product.cpu.bytes == 2048 * 2048 * 2
    assert product.tpu.scaled == product.cpu.scaled


@installed
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("v5e:9x9", "There is no topology 'v5e:9x9'. There are, for example, 'v5e:2x4'"),
        ("v5e:2x2", "The program is for 8 devices, and 'v5e:2x2' has 4."),
    ],
)
def test_a_topology_of_other_devices_is_refused(target, says):
    with pytest.raises(CommunicationError) as raised:
        communication(add_transpose, BLOCKS, target=target)
    assert says in str(raised.value)


@installed
def test_what_no_chip_has_room_for_is_told_so():
    with pytest.raises(CommunicationError, match="needs more memory than a chip has"):
        communication(lambda x: x @ x, BLOCKS, scaled={16: 1 << 18}, target=V5E)


@installed
def test_half_of_the_devices_are_half_of_a_topology():
    grid = jax.sharding.Mesh(np.array(jax.devices())[::2].reshape(2, 2), ("x", "y"))
    x = jax.device_put(np.ones((16, 16), np.float32), jax.NamedSharding(grid, jax.P("x", "y")))
    both = communication(lambda x: x.sum(0), x, target="v5e:2x2")
    (found,) = both.tpu.collectives
    assert found.axes == ("x",)
    assert {frozenset(group) for group in found.groups} == {frozenset((0, 4)), frozenset((2, 6))}
