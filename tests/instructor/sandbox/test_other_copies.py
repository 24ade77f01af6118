"""Copies of a course that kernels would see: hidden, or said where they cannot be."""

import subprocess
import sys

import pytest

from autograder.instructor.sandbox import (
    ExposedError,
    Sandbox,
    bubblewrap,
    read_sandbox_environment,
    sandbox,
)
from autograder.instructor.sandbox import hidden_copies as copies

LOOK = """
import os, sys
for folder, _, files in os.walk(sys.argv[1]):
    print(*(os.path.relpath(os.path.join(folder, file), sys.argv[1]) for file in files
            if os.path.getsize(os.path.join(folder, file)) and os.access(
                os.path.join(folder, file), os.R_OK)), sep="\\n", end="\\n")
"""


def write(folder, *files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("what is right")


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """One more folder that kernels see all of, as they do an environment of Python's."""
    folder = tmp_path / "environment"
    write(folder, "lib/python3.11/site-packages/rich/__init__.py", "pyvenv.cfg")
    own = bubblewrap.list_visible_folders()
    monkeypatch.setattr(bubblewrap, "list_visible_folders", lambda: [*own, folder])
    monkeypatch.setattr(sandbox, "list_visible_folders", bubblewrap.list_visible_folders)
    copies._find_copies.cache_clear()
    yield folder
    copies._find_copies.cache_clear()


def seen(folder, empty):
    """The files in a folder that what runs in the sandbox can read."""
    look = [sys.executable, "-I", "-S", "-c", LOOK, str(folder)]
    command = Sandbox().command(look, read_sandbox_environment(), packages=empty)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


KEPT = {"lib/python3.11/site-packages/rich/__init__.py", "pyvenv.cfg"}
PLACES = {
    "installed": ["lib/python3.11/site-packages/autograder/exercises/nb01.py"],
    "installed for the system": ["local/lib/python3.11/dist-packages/autograder/__init__.py"],
    "a checkout that pip made": [
        "src/shardlings/pyproject.toml", "src/shardlings/autograder/__init__.py",
        "src/shardlings/solutions/01/01.ipynb", "src/shardlings/.git/objects/pack",
    ],
    "a package in a checkout's own folder": [
        "src/course/.git/HEAD", "src/course/solutions/01.ipynb",
        "src/course/packages/one/pyproject.toml", "src/course/packages/one/autograder/a.py",
    ],
    "a course beside": ["share/heat/nbgrader_config.py", "share/heat/solutions/01/01.ipynb"],
}  # fmt: skip


@pytest.mark.bubblewrap
@pytest.mark.parametrize("place", PLACES)
def test_another_copy_is_hidden(prefix, tmp_path, place):
    write(prefix, *PLACES[place])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert seen(prefix, empty) == KEPT


@pytest.mark.bubblewrap
def test_all_that_another_course_has_installed_is_hidden(prefix, tmp_path, monkeypatch):
    site = prefix / "lib/python3.11/site-packages"
    write(site, "heat/asked.py", "heat_right/__init__.py", "heat_too.py", "others/__init__.py")
    parts = (site / "heat", site / "heat_right", site / "heat_too.py", tmp_path / "elsewhere")
    monkeypatch.setattr(copies, "parts_of_courses", lambda: parts)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert seen(prefix, empty) == {*KEPT, "lib/python3.11/site-packages/others/__init__.py"}


@pytest.mark.parametrize(
    "files", [("pyproject.toml", "autograder/__init__.py"), ("nbgrader_config.py",)]
)
def test_an_environment_in_a_checkouts_own_folder_is_refused(prefix, files):
    write(prefix, *files)
    with pytest.raises(ExposedError, match="Make the virtual environment in a folder of its own"):
        copies.hide_copies([prefix])
    copies._find_copies.cache_clear()
    with pytest.raises(ExposedError, match="in a course's own folder"):
        copies.hide_copies(
            [prefix.parent, prefix / "lib"]
        )  # as where the course lies in the system's


def test_an_environment_in_another_projects_folder_is_not(prefix):
    write(prefix, "pyproject.toml", ".git/HEAD", *PLACES["installed"])
    hidden = str(prefix / "lib/python3.11/site-packages/autograder")
    assert copies.hide_copies([prefix]) == ["--tmpfs", hidden, "--remount-ro", hidden]
