"""The course opens without an installation of one's own: on Binder, in Codespaces, in containers.

Nothing here has a container runtime. What the files say is compared with the checkout, and Binder's
own repo2docker reads it (https://repo2docker.readthedocs.io/en/latest/configuration/, read on
2026-11-25).
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

IMAGES = sorted((ROOT / "containers").glob("*.Containerfile"))


def targets():
    """The targets in the Makefile."""
    return set(re.findall(r"(?m)^([\w./-]+):", (ROOT / "Makefile").read_text()))


def is_hidden(config_path):
    """Check whether a JupyterLab with this folder of settings hides nbgrader's extension."""
    pytest.importorskip("nbgrader")
    command = [sys.executable, "-m", "jupyter", "labextension", "list"]
    environment = {**os.environ, "JUPYTER_CONFIG_PATH": str(config_path)}
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (line,) = [each for each in listed.stderr.splitlines() if "@jupyter/nbgrader v" in each]
    return "disabled" in line


def test_binder_opens_what_make_lab_opens(tmp_path):
    environment = {**os.environ, "NB_PYTHON_PREFIX": str(tmp_path)}
    subprocess.run([ROOT / "postBuild"], cwd=ROOT, env=environment, check=True)
    assert is_hidden(tmp_path / "etc" / "jupyter")
    assert not is_hidden(tmp_path / "nothing")


def test_the_container_opens_what_make_lab_opens():
    text = (ROOT / "containers" / "learner.Containerfile").read_text()
    (home,) = re.findall(r"^WORKDIR (\S+)$", text, re.MULTILINE)
    (folder,) = re.findall(r"^ENV JUPYTER_CONFIG_PATH=(\S+)$", text, re.MULTILINE)
    assert is_hidden(ROOT / Path(folder).relative_to(home))


def test_codespaces_runs_what_make_has():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    commands = [value for key, value in container.items() if key.endswith("Command")]
    assert commands
    for command in commands:
        make, target = command.split()
        assert make == "make"
        assert target in targets()
    (environment,) = {Path(command.split()[1]).parent.name for command in commands}
    customised = container["customizations"]
    python = customised["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python == f"${{workspaceFolder}}/{environment}/bin/python"
    for name in customised["codespaces"]["openFiles"]:
        assert (ROOT / name).is_file()


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_an_image_is_made_of_what_is_there(image):
    text = image.read_text()
    assert f"docker build -f {image.relative_to(ROOT)} " in text
    for target in re.findall(r"^RUN make (\S+)", text, re.MULTILINE):
        assert target in targets()
    for path in re.findall(r"\b(?:requirements|containers)/[\w.]+\w", text):
        assert (ROOT / path).exists(), path
    for word in re.findall(r"^(?:CMD|ENTRYPOINT) (\[.*\])$", text, re.MULTILINE):
        assert json.loads(word)
    # grading needs both in each image that grades, which grader.Containerfile does
    assert "ENTRYPOINT" not in text or "bubblewrap libseccomp2" in text


def test_no_grades_and_no_environment_get_into_an_image():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv*", "grading", "demo"} <= set(ignored)


DETECT = """
from repo2docker.app import Repo2Docker
for kind in Repo2Docker().buildpacks:
    pack = kind("buildpack-deps:jammy")
    if pack.detect():
        break
print(type(pack).__name__, pack.python_version, pack._should_preassemble_env)
print(*(script for _, script in pack.get_assemble_scripts()))
"""


@pytest.mark.slow
def test_binders_own_tool_finds_the_environment_its_python_and_the_checkout():
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists() or shutil.which("git") is None:
        pytest.skip("there is no uv here")
    done = subprocess.run(
        [uv, "run", "--isolated", "--no-project", "--with", "jupyter-repo2docker", "python", "-c",
         DETECT],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    # False: pip needs the lock file and the package, so the checkout has to be copied first
    assert first == "CondaBuildPack 3.11 False"
    assert '--file "environment.yml"' in "\n".join(rest)


def test_binder_looks_into_the_root_of_the_checkout():
    assert not (ROOT / "binder").exists()
    assert not (ROOT / ".binder").exists()
    (python,) = [
        entry
        for entry in yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
        if isinstance(entry, str) and entry.startswith("python")
    ]
    assert re.fullmatch(r"python=[\d.]+", python)
