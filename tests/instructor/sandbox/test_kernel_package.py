"""A kernel that grades finds no right answers, importable or not."""

import compileall
import json
import struct
import subprocess
import sys
import sysconfig
from importlib.util import cache_from_source
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.exercises import NOTEBOOKS, PlacedLike, find
from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.sandbox import (
    has_bubblewrap,
    hidden_copies,
    kernel,
    read_sandbox_environment,
    sandbox,
)
from autograder.instructor.sandbox.kernel import copy_kernel_packages
from tests.conftest import ROOT, some_of
from tests.helpers import copy_folder, pretend_bubblewrap

LOOK = """
import gc, importlib, importlib.metadata, json, os, pkgutil, stat, sys
import autograder

def importable(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True

RIGHT = ("autograder.exercises", "autograder.judge")
found = {
    "modules": [m.name for m in pkgutil.walk_packages(autograder.__path__, "autograder.")],
    "imported": sorted(filter(importable, ("autograder.exercises", "autograder.judge",
                                           "autograder.instructor", "tests", "solutions"))),
    "loaded": [m for m in sys.modules if m.startswith(RIGHT)],
    "elsewhere": [str(e) for e in importlib.metadata.entry_points(group="shardlings.exercises")],
    "objects": [repr(o)[:80] for o in gc.get_objects()
                if str(getattr(type(o), "__module__", "")).startswith(RIGHT)],
}
needles = [needle.encode() for needle in NEEDLES]
holding, looked_at = [], 0
for folder, folders, files in os.walk("/", onerror=None):
    if folder in ("/proc", "/sys", "/dev"):
        folders.clear()
        continue
    if folder.startswith("/usr/") and not ("/usr/local" in folder or "-packages" in folder):
        continue  # the system's own packages brought it
    for name in files:
        path = os.path.join(folder, name)
        try:
            about = os.lstat(path)
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                continue
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue
        looked_at += 1
        if any(needle in text for needle in needles):
            holding.append(path)
print(json.dumps({**found, "holding": holding, "looked_at": looked_at}))
"""

LARGEST = 2**18
"""The most bytes of a file that is looked into: what is larger is a library of machine code."""


def needles():
    """Words that stand in what each notebook's exercises are written in, and nowhere else."""
    for exercises in NOTEBOOKS.values():
        for words in (exercises[0].hints[0], exercises[-1].hints[-1]):
            yield words[:40]


def run(tmp_path, *cells):
    """The outputs of a notebook's cells, run as a submission is."""
    graded = new_code_cell('check("1.1", ...)', metadata={"nbgrader": {"grade_id": "ex-1-1-check"}})
    first = new_code_cell("from autograder import *\nfrom shardlings import *")
    notebook = new_notebook(cells=[first, *map(new_code_cell, cells), graded])
    CaptureEvidence(timeout=300).preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    return [cell.outputs for cell in notebook.cells[1:]]


def said(outputs):
    assert [o.output_type for o in outputs] == ["stream"], outputs
    return outputs[0].text


@pytest.mark.bubblewrap
def test_nothing_that_is_right_is_to_be_found(tmp_path):
    words = some_of(sorted(set(needles())), at_least=4)
    code = f"NEEDLES, LARGEST = {words!r}, {LARGEST}\n{LOOK}"
    found = json.loads(said(run(tmp_path, code)[0]))
    assert found.pop("looked_at") > 5_000
    assert "autograder.evidence.plans" in found["modules"]
    left_out = ("exercises", "judge", "instructor")
    assert not [m for m in found.pop("modules") if m.split(".")[1] in left_out]
    assert found == {key: [] for key in found}


def test_the_needles_are_what_the_exercises_hold():
    """Else a search for them would find nothing, whatever was there."""
    folder = ROOT / "autograder" / "exercises" / "notebooks"
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    known = [needle for needle in needles() if needle in text]
    assert len(known) == 2 * len(NOTEBOOKS)


@pytest.mark.parametrize("sandboxed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_shows_an_exercise_does_nothing_and_what_shows_an_array_does(
    tmp_path, monkeypatch, sandboxed
):
    if sandboxed and not has_bubblewrap():
        pytest.skip("there is no bubblewrap here")
    pretend_bubblewrap(monkeypatch, sandboxed)
    shown, silent, unknown, graded = run(
        tmp_path,
        "import jax; show(jax.numpy.ones(8))",
        'target("1.1"); hint("1.1"); progress()',
        'check("1.2", ...)',
    )
    assert "text/html" in shown[0].data
    assert silent == []
    assert unknown[0].ename == "UnknownExercise"  # else nbgrader would give full marks
    said = "'1.2' is not an exercise of this notebook, so nothing was submitted."
    assert unknown[0].evalue == said
    assert graded[0].data["text/plain"] == "1.1: handed in"


def test_who_forgets_the_plans_is_told_what_to_do_and_nothing_has_failed(tmp_path):
    forgets = "from autograder.evidence import plans; plans._given = None"
    calls = ("progress()", 'hint("1.1")', 'target("1.1")')
    _, *said, graded = run(tmp_path, forgets, *calls)
    for (error,) in (*said, graded):
        assert error.ename == "UsageError"
        assert "its plans are gone, so nothing is handed in. Restart the kernel" in error.evalue
        assert len(error.traceback) == 1


def test_a_kernel_finds_a_part_of_the_package(tmp_path):
    copy_kernel_packages(tmp_path)
    names = {path.name for path in (tmp_path / "autograder").iterdir()}
    assert {"evidence", "notebook.py"} <= names
    assert not {"exercises", "judge", "instructor", "__pycache__"} & names


@pytest.mark.bubblewrap
def test_another_courses_package_is_seen_by_its_judge_and_by_no_kernel(tmp_path, monkeypatch):
    """Here it is rich that is taken for one: a package that is really installed."""
    rich = Path(sysconfig.get_path("purelib"), "rich")
    for module in (sandbox, hidden_copies):
        monkeypatch.setattr(module, "folders_of_courses", lambda: (rich,))
    copy_kernel_packages(tmp_path)
    look = [sys.executable, "-c", "import rich; print(rich.__file__)"]
    found = [
        subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for command in (
            sandbox.Sandbox().command(look, read_sandbox_environment()),
            sandbox.Sandbox().command(look, read_sandbox_environment(), packages=tmp_path),
        )
    ]
    assert found == ["/shardlings/rich/__init__.py\n", "None\n"]


def test_targets_that_a_kernel_does_not_draw_stand_in_the_verdict():
    from autograder.instructor.nbgrader_plugins.judge_evidence import write_verdict
    from autograder.judge import verdict_without_evidence

    cell = new_code_cell()
    write_verdict(cell, verdict_without_evidence(find("1.1"), "no-evidence", "It was not run."), 1)
    page = nbformat.from_dict(cell).outputs[0].data["text/html"]
    (asked,) = [r for r in find("1.1").requirements if isinstance(r, PlacedLike)]
    assert f'aria-label="Expected: {asked.target().describe()}' in page


def test_a_kernel_need_not_compile_the_package_again(tmp_path, monkeypatch):
    """Bytecode is valid as long as it names its source's size and time of change."""
    package = tmp_path / "autograder"
    copy_folder(ROOT / "autograder", package)
    compileall.compile_dir(package / "evidence", force=True, quiet=1)
    monkeypatch.setattr(kernel, "find_package_folders", lambda: (ROOT / "shardlings", package))
    (tmp_path / "copy").mkdir()
    copy_kernel_packages(tmp_path / "copy")
    source = tmp_path / "copy" / "autograder" / "evidence" / "plans.py"
    changed, size = struct.unpack("<LL", Path(cache_from_source(str(source))).read_bytes()[8:16])
    assert (changed, size) == (int(source.stat().st_mtime), source.stat().st_size)
