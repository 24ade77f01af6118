"""`docs/communication.md`: its examples run, and print what the page says."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec

import jax
import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "communication.md").read_text()

FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))

OUTPUTS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def _on_disk(tmp_path, monkeypatch):
    """Write the page's files into an empty folder, from where they import each other."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def run_tests(module):
    tests = {n: f for n, f in vars(importlib.import_module(module)).items() if n[:5] == "test_"}
    assert tests
    for test in tests.values():
        test()


def test_the_report_is_that_of_the_page(tmp_path, capsys):
    runpy.run_path(str(tmp_path / "look.py"))
    shown, _ = OUTPUTS
    printed = capsys.readouterr().out
    assert {*without_lines(shown.removesuffix("…\n"))} <= {*without_lines(printed)}
    if jax.__version__.startswith("0.10."):
        assert without_versions(printed).startswith(without_versions(shown).removesuffix("…\n"))


def test_the_limits_hold():
    run_tests("test_mlp")


def test_the_failure_is_that_of_the_page():
    with pytest.raises(AssertionError) as raised:
        run_tests("test_columns")
    _, shown = OUTPUTS
    assert without_lines(f"{raised.value}\n") == without_lines(shown)
    if jax.__version__.startswith("0.10."):
        assert without_versions(f"{raised.value}\n") == without_versions(shown)


def without_lines(text):
    """Leave out the lines of code as well, which compilers of other JAX versions note otherwise."""
    return sorted(line for line in without_versions(text).splitlines() if "mlp.py:" not in line)


def without_versions(text):
    """Leave out the memory and the small operations that compilers of other JAX versions add."""
    return re.sub(r"on each device [\d.]+ \w+ float.*", "", text)


def test_the_parts_have_the_names_of_the_page(tmp_path, capsys):
    runpy.run_path(str(tmp_path / "parts.py"))
    printed = capsys.readouterr().out
    assert "block_0" in printed
    assert "backward" in printed


JOB = """
from mlp import SPECS, jax, make_mesh, sharded, step
from shardlings import emulate_devices

emulate_devices(8)
mesh = make_mesh()
up, down = sharded(mesh, (1024, 4096), *SPECS["up"]), sharded(mesh, (4096, 1024), *SPECS["down"])
params = {"up": up, "down": down}
jax.jit(step).lower(params, sharded(mesh, (8192, 1024), "data")).compile()
"""


def test_a_dumped_program_is_read(tmp_path, monkeypatch, capsys):
    (tmp_path / "job.py").write_text(JOB)
    flags = "--xla_dump_to=dump --xla_dump_hlo_as_proto"
    assert flags in PAGE
    variables = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
    subprocess.run([sys.executable, "job.py"], cwd=tmp_path, env=variables, check=True)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("dumped.py")
    assert "Read from module_" in capsys.readouterr().out


def test_the_limits_hold_for_a_tpu():
    if find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed")
    run_tests("test_on_tpus")


def test_the_limits_hold_for_flax():
    pytest.importorskip("flax")
    run_tests("test_transformer")
