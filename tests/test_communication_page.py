"""`docs/communication.md`: its examples run, and print what the page says."""

import importlib
import re
import runpy
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


def test_the_limits_hold_for_a_tpu():
    if find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed")
    run_tests("test_on_tpus")


def test_the_limits_hold_for_flax():
    pytest.importorskip("flax")
    run_tests("test_transformer")
