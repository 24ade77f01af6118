"""The basis of a grade: which files its fingerprints cover."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from autograder.exercises import EXERCISES, NOTEBOOKS
from autograder.exercises import notebooks as modules
from autograder.instructor.pipeline import Basis, basis, fingerprint_submission
from autograder.instructor.sandbox import find_package_folders


def test_fingerprints_of_exercises_cover_their_notebooks_modules(monkeypatch):
    fingerprinted: list[str] = []

    def fingerprint_files(files, folder):
        fingerprinted.extend(path.stem for path in files)
        return ""

    monkeypatch.setattr(basis, "fingerprint_files", fingerprint_files)
    every = {path.stem for path in Path(modules.__file__).parent.glob("nb*.py")}
    single = [(each, exercises) for each, exercises in NOTEBOOKS.items() if exercises]
    mixed = ("nb01", "nb06"), (EXERCISES["1.1"], EXERCISES["6.2"])  # an instructor's own notebook
    for numbers, exercises in [((f"nb{n[:2]}",), exercises) for n, exercises in single] + [mixed]:
        fingerprinted.clear()
        basis._fingerprint_exercises(exercises)
        assert set(fingerprinted) & every == {n for n in every if n[:4] in numbers}
        assert "catalogue" in fingerprinted


def test_a_change_of_what_runs_no_notebook_runs_none_again(monkeypatch):
    fingerprinted: set[Path] = set()

    def fingerprint_files(files, folder):
        fingerprinted.update(files)
        return ""

    monkeypatch.setattr(basis, "fingerprint_files", fingerprint_files)
    basis._fingerprint_grading_package()
    _, package = find_package_folders()
    for name in basis.NOT_FOR_RUNNING:
        excluded = package / name
        assert excluded.is_file() or [*excluded.glob("*.py")], name
        assert not [path for path in fingerprinted if path.is_relative_to(excluded)], name
    assert package / "instructor" / "pipeline" / "grading.py" in fingerprinted


def test_what_runs_a_notebook_is_in_the_basis():
    """Exercises and the judge have fingerprints of their own."""
    excluded = tuple(
        "autograder." + name.removesuffix(".py").replace("/", ".")
        for name in basis.NOT_FOR_RUNNING
        if name not in basis.REJUDGEABLE
    )
    code = (
        "import sys, autograder.instructor.calibration, autograder.instructor.nbgrader_plugins; "
        "import autograder.instructor.one_submission, autograder.sandboxed.kernel; "
        "print(*sys.modules, sep='\\n')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "autograder.instructor.pipeline.grading" in done.stdout.split()
    assert not [module for module in done.stdout.split() if module.startswith(excluded)]


def test_a_files_content_cannot_look_like_another_file(tmp_path):
    """Students choose the names and contents of files."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (one / "a").write_bytes(b"1b\x002")
    (one / "c").write_bytes(b"3")
    (two / "a").write_bytes(b"1")
    (two / "b").write_bytes(b"2c\x003")
    assert fingerprint_submission(one) != fingerprint_submission(two)


def test_a_basis_of_another_version_is_not_read():
    """Otherwise all submissions would seem to have changed."""
    here = Basis("", "", "", "", "", "", "", {}, 2)
    kept = msgspec.json.encode(here)
    assert msgspec.json.decode(kept, type=Basis) == here
    for form in (b"", b',"form":1'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(kept.replace(b',"form":2', form), type=Basis)
