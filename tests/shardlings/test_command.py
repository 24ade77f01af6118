"""The command `shardlings`, and the fixture with stored baselines, each in a project of its own."""

import json
import os
import subprocess
import sys

import pytest

from shardlings.pytest_plugin import CommunicationBaseline

TRAIN = """
import jax
import jax.numpy as jnp
from jax import NamedSharding, P


def step(w, x):
    return ((x @ w) ** 2).mean()


def step_arguments():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, P("data"))
    whole = NamedSharding(mesh, P())
    return (
        jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=whole),
        jax.ShapeDtypeStruct((128, 64), jnp.float32, sharding=rows),
    )


def broken(x):
    return x


def leave():
    raise SystemExit(0)


leaves, leave_arguments, leaves_arguments = leave, leave, lambda: ()


def alone(x):
    return x


def alone_arguments():
    return jnp.ones(8)
"""
WORSE = TRAIN.replace("sharding=whole", "sharding=rows")

TEST = """
from shardlings import communication, emulate_devices

emulate_devices(8)

import train


def test_step(communication_baseline):
    report = communication(train.step, *train.step_arguments())
    communication_baseline.check(report)
    communication_baseline.check(report, name="once more")


class TestAgain:
    def test_step(self, communication_baseline):
        communication_baseline.check(communication(train.step, *train.step_arguments()))


def test_misuse(communication_baseline):
    import pytest

    with pytest.raises(TypeError, match="but got str"):
        communication_baseline.check("x")
    communication_baseline.checked.add("")
    with pytest.raises(ValueError, match="gives each a name"):
        communication_baseline.check(communication(lambda: 1))
"""

PARAMETRIZED = """
import pytest
from shardlings import communication


@pytest.mark.parametrize("case", ["n-2", "n<2", "n>2", "n::2", "8", "8-", "8 "])
def test_step(case, communication_baseline):
    communication_baseline.check(communication(lambda x: x, 1.0))
"""


@pytest.fixture
def project(tmp_path):
    """Return a function that runs a module of Python's in a project; the first word is its name."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "test_train.py").write_text(TEST)
    variables = {n: v for n, v in os.environ.items() if n not in ("XLA_FLAGS", "PYTEST_ADDOPTS")}

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, env=variables, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        return done.returncode, f"{done.stdout}{done.stderr}"

    run.folder = tmp_path  # type: ignore[attr-defined]
    return run


def test_a_function_is_reported_on_and_two_reports_are_compared(project):
    status, said = project("shardlings", "report", "train.py:step")
    assert status == 0, said
    assert "train.py:8 return ((x @ w) ** 2).mean()" in said
    assert "all-reduce one number  data" in said
    status, before = project("shardlings", "report", "train.py:step", "--json")
    assert json.loads(before)["schema"] == 1
    (project.folder / "before.json").write_text(before)
    (project.folder / "train.py").write_text(WORSE)
    _, now = project("shardlings", "report", "train.py:step", "--json")
    (project.folder / "now.json").write_text(now)
    status, said = project("shardlings", "compare", "before.json", "now.json")
    assert status == 1
    assert "new" in said
    assert "all-gather" in said
    assert "Buffers of collectives: 4 bytes before" in said
    assert project("shardlings", "compare", "now.json", "before.json")[0] == 0
    assert project("shardlings", "compare", "now.json", "now.json")[0] == 0


def test_a_page_is_one_file_that_loads_nothing(project):
    status, said = project("shardlings", "report", "train.py:step", "--html", "report.html")
    assert (status, said) == (0, "")
    page = (project.folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "all-reduce" in page
    assert "src=" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_parts_have_no_json(project):
    status, said = project("shardlings", "report", "train.py:step", "--by-part", "--json")
    assert status == 2
    assert "--json: not allowed with argument --by-part" in said


def test_what_cannot_be_reported_on_says_what_to_do(project):
    (project.folder / "script.py").write_text("import sys\n\nsys.exit(0)\n")
    for words, said in {
        ("report", "train.py:nothing"): "train.py has no function nothing.",
        ("report", "train.py:broken"): "train.py has no function broken_arguments.",
        ("report", "nowhere.py:step"): "There is no file",
        ("report", "train"): "train is not a file and a function in it",
        ("report", "train.py:"): "train.py: is not a file and a function in it",
        ("read", "dump", "--mesh", "data=²"): "is not written as data=8,model=4",
        ("read", "dump", "--mesh", "data=8,data=4"): "names an axis twice",
        ("report", "train.py:step", "--machine", "abacus"): "There is no machine 'abacus' here",
        ("report", "train.py:step", "--html", "no/r.html"): "no/r.html cannot be written",
        ("report", "train.py:step", "--devices", "2"): "step_arguments() raised ValueError",
        ("report", "train.py:leave"): "leave_arguments() ended the program with sys.exit(0)",
        ("report", "train.py:leaves"): "SystemExit",
        ("report", "script.py:step"): "script.py ended the program with sys.exit(0), so there is",
        ("compare", "a", "b", "--tolerance", "nan"): "'nan' is not a share that is 0 or more",
        ("compare", "a", "b", "--tolerance=-1"): "'-1' is not a share that is 0 or more",
        ("compare", "no.json", "no.json"): "no.json cannot be read",
        ("compare", "train.py", "train.py"): "not a report that this version",
    }.items():
        status, printed = project("shardlings", *words)
        assert status == 2, words
        assert said in printed
        assert "Traceback" not in printed
    status, said = project("shardlings", "report", "train.py:alone", "--devices", "2")
    assert status == 0
    assert "no communication" in said


def test_a_test_fails_when_a_step_communicates_more_than_its_baseline(project):
    quiet = ("pytest", "-q", "-p", "no:cacheprovider")
    status, said = project(*quiet)
    assert status == 1
    assert "There is no baseline" in said
    assert "pytest --update-communication writes it, to be committed." in said
    assert project(*quiet, "--update-communication")[0] == 0
    names = sorted(path.name for path in (project.folder / "communication").iterdir())
    assert names == [
        "test_train-TestAgain-test_step.json", "test_train-test_step-once-more.json",
        "test_train-test_step.json",
    ]  # fmt: skip
    assert project(*quiet)[0] == 0
    (project.folder / "train.py").write_text(WORSE)
    status, said = project(*quiet)
    assert status == 1
    assert "Buffers of collectives: 4 bytes before" in said
    assert "all-gather" in said
    assert "train.py:8" in said
    assert "If that is meant, pytest --update-communication writes" in said
    assert project(*quiet, "--update-communication")[0] == 0
    assert project(*quiet)[0] == 0
    (project.folder / "communication" / names[0]).write_text("{")
    status, said = project(*quiet)
    assert status == 1
    assert "not a report that this version of shardlings stored" in said


def test_each_test_has_a_baseline_of_its_own(project):
    (project.folder / "test_train.py").write_text(PARAMETRIZED)
    quiet = ("pytest", "-q", "-p", "no:cacheprovider")
    assert project(*quiet, "--update-communication")[0] == 0
    names = sorted(path.name for path in (project.folder / "communication").iterdir())
    assert len(names) == 7, names
    assert {"test_train-test_step-8.json", "test_train-test_step-n-2.json"} < {*names}
    assert project(*quiet)[0] == 0


@pytest.mark.parametrize(
    ("test", "name", "file"),
    [
        ("test_train-test_step", "", "test_train-test_step.json"),
        ("test_train-TestAgain-test_step", "a-b", "test_train-TestAgain-test_step-a-b.json"),
        ("test_train-test_step", "once more", "test_train-test_step-once-more.json"),
        ("test_train-test_step[float32-1.5]", "", "test_train-test_step-float32-1.5.json"),
        ("test_train-test_step[-1]", "grad", "test_train-test_step--1--grad.json"),
    ],
)  # fmt: skip
def test_a_name_that_fits_a_file_is_kept(tmp_path, test, name, file):
    assert CommunicationBaseline(tmp_path, test, is_updated=False)._path(name).name == file
