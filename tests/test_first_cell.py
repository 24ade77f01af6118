"""A notebook's first cell, in Colab: it installs the notebook's release, and names a newer one."""

import importlib.util
import os
import shlex
import subprocess
import sys
import tomllib

import nbformat
import pytest

from tests.conftest import ROOT

pytest.importorskip("IPython", reason="notebooks run where IPython is installed")
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASE = f"v{PROJECT['version']}"
ADDRESS = PROJECT["urls"]["Repository"]
GIT = ("git", "-c", "user.name=ann", "-c", "user.email=ann@example.edu")

# A package that pip builds without an index: the project makes its own wheel.
PACKAGE = {
    "pyproject.toml": """\
[build-system]
requires = []
build-backend = "wheel"
backend-path = ["."]
""",
    "wheel.py": """\
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{folder}/shardlings-1-py3-none-any.whl", "w") as wheel:
        wheel.write("told.py")
        about = "shardlings-1.dist-info"
        lines = "Metadata-Version: 2.1", "Name: shardlings", "Version: 1", "Provides-Extra: course"
        wheel.writestr(f"{about}/METADATA", "\\n".join(lines) + "\\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{about}/RECORD", "")
    return "shardlings-1-py3-none-any.whl"
""",
}


def changed_since(release, folder, *paths):
    """What has changed since a release; nothing if there is no such release."""
    if not git(folder, "tag", "--list", release):
        return []
    return git(folder, "diff", "--name-only", release, "--", *paths).splitlines()


def git(folder, *arguments):
    """What git prints about a repository; nothing in a copy that is none."""
    command = [*GIT, "-C", folder, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def repository(tmp_path):
    """A function that makes a repository of releases, the last of which is the main branch."""
    folder = tmp_path / "repository"

    def make(*releases):
        subprocess.run([*GIT, "init", "-q", "-b", "main", folder], check=True)
        for name, text in PACKAGE.items():
            (folder / name).write_text(text)
        for release in releases:
            (folder / "told.py").write_text(f"RELEASE = {release!r}\n")
            git(folder, "add", ".")
            git(folder, "commit", "-qm", release)
            if release != "main":
                git(folder, "tag", release)
        return f"file://localhost{folder}"  # as an address, it has a host

    return make


def first_cell(address):
    """The first cell of all notebooks, in a course that lives at an address."""
    paths = (ROOT / "course").glob("*/*.ipynb")
    notebooks = [nbformat.read(path, 4) for path in paths]
    first, *others = {
        next(cell.source for cell in notebook.cells if cell.cell_type == "code")
        for notebook in notebooks
    }
    assert not others
    return first.replace(ADDRESS, address)


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the cell where there is no package, with any `%pip`."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))

    def run(cell, pip):
        shell.register_magic_function(pip, magic_name="pip")
        assert shell.run_cell(cell).success
        return capsys.readouterr().out

    return run


NEWER = "v10.0.0"
NOT_FOUND = f"Release {RELEASE} was not found, so this installs the main branch."


@pytest.mark.parametrize(
    ("releases", "branch", "said"),
    [
        ((RELEASE, "main"), RELEASE, []),
        (("v0.0.1", RELEASE), RELEASE, []),
        ((RELEASE, "v9.0.0", NEWER), RELEASE, [f"from {RELEASE}. A newer release, {NEWER}: file:"]),
        (("v0.0.1", "main"), "main", [NOT_FOUND]),
        (("main",), "main", [NOT_FOUND]),
    ],
)
def test_it_installs_the_notebooks_release_or_says_why_not(repository, run, releases, branch, said):
    address, installed = repository(*releases), list[str]()
    lines = run(first_cell(address), installed.append).splitlines()
    assert installed == [f'install --quiet "shardlings[course] @ git+{address}@{branch}"']
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))


def test_a_folder_can_be_installed_without_a_network(run, monkeypatch, tmp_path):
    monkeypatch.setenv("SHARDLINGS_SOURCE", f"{tmp_path}[course]")
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    installed = list[str]()
    run(first_cell(ADDRESS), installed.append)
    assert installed == [f'install --quiet "{tmp_path}[course]"']


def test_pip_installs_the_notebooks_release_though_there_is_a_newer_one(
    repository, run, tmp_path, monkeypatch
):
    target = tmp_path / "target"
    monkeypatch.setenv("PIP_TARGET", str(target))

    def pip(line):
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *shlex.split(line)]
        subprocess.run(command, check=True, env={**os.environ, "PIP_NO_INDEX": "1"})

    run(first_cell(repository(RELEASE, NEWER)), pip)
    assert (target / "told.py").read_text() == f"RELEASE = {RELEASE!r}\n"


def test_notebooks_whose_version_is_released_are_those_of_the_release(repository, tmp_path):
    """Else a notebook on the main branch would install a package that does not go with it."""
    assert not changed_since(RELEASE, ROOT, "autograder", "course"), (
        f"{RELEASE} is released, and what learners use has changed since: raise the version in "
        f"pyproject.toml and run make release (docs/releasing.md)."
    )
    repository(RELEASE, "main")
    assert changed_since(RELEASE, tmp_path / "repository", "told.py") == ["told.py"]
    assert not changed_since(RELEASE, tmp_path / "repository", "wheel.py")
    assert not changed_since(NEWER, tmp_path / "repository", "told.py")
