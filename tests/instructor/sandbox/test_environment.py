"""A kernel gets only those of the grader's environment variables that it needs."""

import json
import os
import sys

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.sandbox import has_bubblewrap
from tests.helpers import pretend_bubblewrap

LOOK = """
import json, os, sys, tempfile, pathlib, jax
print(json.dumps({
    "names": sorted(os.environ), "safe": sys.flags.safe_path, "devices": jax.device_count(),
    "home": str(pathlib.Path.home()), "temporary": tempfile.gettempdir(), "prefix": sys.prefix,
    "beside": __import__("beside").WORD,
}))
"""


@pytest.mark.parametrize("sandboxed", [True, False])
def test_a_kernel_is_told_what_it_needs_and_nothing_else(tmp_path, monkeypatch, sandboxed):
    if sandboxed and not has_bubblewrap():
        pytest.skip("there is no bubblewrap here")
    pretend_bubblewrap(monkeypatch, sandboxed)
    monkeypatch.setenv("A_SECRET", "of the grader's")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    (notebook / "beside.py").write_text("WORD = 'found'")
    for module in ("json", "IPython", "autograder"):
        (notebook / f"{module}.py").write_text("raise SystemExit('in the way')")
    cell = new_code_cell(LOOK)
    CaptureEvidence(timeout=100).preprocess(
        new_notebook(cells=[cell]), {"metadata": {"path": str(notebook)}}
    )
    found = json.loads(cell.outputs[0].text)
    assert not {"A_SECRET", "PYTHONSTARTUP"} & set(found["names"])
    assert len(found["names"]) < 25
    assert found["safe"]
    assert found["devices"] == 8
    assert found["beside"] == "found"
    assert found["prefix"] == sys.prefix
    if not sandboxed:
        assert found["home"] == os.environ["HOME"]
        assert found["temporary"] == os.environ.get("TMPDIR", "/tmp")
