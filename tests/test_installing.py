"""`make` shows the stages of installing, uses pip if uv fails, and marks only a success.

Nothing is installed here. PYTHON is a script that keeps a diary, and fails where it is told to.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")

PYTHON = f"""#!/bin/sh
diary() {{
    echo "$1" >> "$DIARY"
    case " $FAILING " in *" $1 "*) echo "no $1 today" >&2; exit 1; esac
}}
case "$*" in
    -c*) shift; exec "{sys.executable}" -c "import sys; $VERSION; exec(sys.argv.pop(1))" "$@";;
    "-m venv"*) diary venv; mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; touch "$3/bin/pip"
        chmod +x "$3/bin/pip";;
    *config*) exit 1;;
    *install*" uv") diary uv-itself; cp "$0" "${{0%python}}uv";;
    "-m pip install"*) diary "by-pip";;
    "pip install"*) diary "by-uv"; echo "$UV_DEFAULT_INDEX" >> "$DIARY";;
esac
"""


@pytest.fixture
def make(tmp_path):
    """Run `make .venv/installed` in a bare checkout: the exit status, what is said, the diary."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    for file in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    python, diary = tmp_path / "my python", tmp_path / "diary"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def make(target=".venv/installed", failing="", version="pass", **variables):
        diary.write_text("")
        settings = {"DIARY": str(diary), "FAILING": failing, "VERSION": version, **variables}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "MAKE"))}
        done = subprocess.run(
            ["make", "-C", str(tmp_path), target, f"PYTHON={python}"],
            capture_output=True, text=True, check=False, env={**kept, **settings},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr, diary.read_text().split()

    return make


def test_each_stage_is_said_and_a_second_make_does_nothing(make, tmp_path):
    status, said, diary = make()
    assert status == 0, said
    assert diary == ["venv", "uv-itself", "by-uv"]
    stages = [line for line in said.splitlines() if line.startswith("Installing")]
    assert [line.split(":")[0] for line in stages] == [f"Installing {i}/3" for i in (1, 2, 3)]
    assert all(re.search(r" … \d+ s$", line) for line in stages)
    assert (tmp_path / ".venv" / "installed").exists()
    assert make()[2] == []


@pytest.mark.parametrize("failing", ["by-uv", "uv-itself"])
def test_where_uv_cannot_pip_does_and_it_is_said_why(make, tmp_path, failing):
    status, said, diary = make(failing=failing)
    assert status == 0, said
    assert diary[-1] == "by-pip"
    assert said.count("so pip does it:") == 1
    assert f"{failing} today" in said
    assert (tmp_path / ".venv" / "installed").exists()


@pytest.mark.parametrize("failing", ["by-uv by-pip", "uv-itself by-pip", "venv"])
def test_what_fails_leaves_no_mark_and_says_why_and_what_to_do(make, tmp_path, failing):
    make()
    (tmp_path / ".venv" / "bin" / "pip").unlink()  # and so the environment is made again
    os.utime(tmp_path / ".venv" / "installed", (0, 0))  # older than pyproject.toml
    status, said, _ = make(failing=failing)
    assert status != 0
    assert not (tmp_path / ".venv" / "installed").exists()
    assert f"no {failing.split()[-1]} today" in said
    assert "The installation did not succeed" in said
    assert "run make again" in said
    assert make()[0] == 0


def test_an_old_python_installs_nothing(make, tmp_path):
    status, said, diary = make(version="sys.version_info = (3, 10)")
    assert status != 0
    assert diary == []
    assert "Shardlings needs Python 3.11 or newer, and " in said
    assert "Say which to use: make PYTHON=python3.12 ..." in said


def test_the_oldest_is_installed_alike(make, tmp_path):
    assert make(".venv-oldest/installed")[0] == 0
    assert (tmp_path / ".venv-oldest" / "installed").exists()


def test_the_index_that_pip_is_told_of_is_uvs_too(make):
    assert make(PIP_INDEX_URL="file:///somewhere")[2][-1] == "file:///somewhere"


def test_an_environment_may_be_within_another_system(make, tmp_path):
    within = tmp_path / "within"
    within.write_text('#!/bin/sh\necho within >> "$DIARY"\nexec "$@"\n')
    within.chmod(0o755)
    diary = make(WITHIN=str(within))[2]
    assert diary[-3:] == ["within", "by-uv", "within"], "the last compiles the course's own code"
    steps = [entry for entry in diary if entry != "within"]
    assert all(diary[diary.index(step) - 1] == "within" for step in steps)


NAMES = {
    "backticks": "a`touch hit`b",
    "quotes": "a'; touch hit; '\"; touch hit; \"",
    "of make": "a$(shell touch hit)${USER}$$b",
    "an option": "--again",
    "not English": "Zoë Núñez, a\\b",
}


@pytest.mark.parametrize("by_environment", [False, True])
@pytest.mark.parametrize(
    ("target", "variable", "option"),
    [
        ("grade", "STUDENT", "--student="),
        ("grade", "ASSIGNMENT", "--assignment="),
        ("grade", "SCHEDULER", "--scheduler="),
        ("collect", "FROM", ""),
        ("restore", "FROM", ""),
        ("try", "FILE", ""),
        ("exercise", "NOTEBOOK", "--notebook="),
    ],
)
def test_what_make_is_given_is_a_text_and_nothing_else(
    tmp_path, target, variable, option, by_environment, subtests
):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    make = ["make", "-C", str(tmp_path), "-s", "-o", ".venv/installed", "BIN=bin", target]
    for title, name in NAMES.items():
        with subtests.test(title):
            said = [] if by_environment else [f"{variable}={name}"]
            done = subprocess.run(
                [*make, *said],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "USER": "me", **({variable: name} if by_environment else {})},
            )
            assert done.stdout.splitlines()[-1] == f"{option}{name}"
    assert not (tmp_path / "hit").exists()
