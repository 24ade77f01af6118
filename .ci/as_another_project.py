"""Use the library as another project does: from its wheel, where there is nothing of the course.

The wheel and the sdist are built and looked at; a fresh environment gets the wheel and what it asks
for, and then pytest. There the library's own tests and the examples of its page are run, and an
empty project stores a baseline, has it fail, and compares two reports on the command line.

    python .ci/as_another_project.py     from a checkout's environment, which has uv
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

UV: Final = (sys.executable, "-m", "uv")

TOOLS: Final = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")

TESTS: Final = ("__init__.py", "conftest.py", "durations.py", "helpers.py", "browser.py",
                "shardlings", "test_communication_page.py")  # fmt: skip

COURSE_ONLY: Final = {"cloudpickle", "matplotlib", "nbgrader", "jupyterlab", "psutil", "ipython"}

TRAINER: Final = """\
import jax
import jax.numpy as jnp
from jax import NamedSharding, P

from shardlings import emulate_devices

emulate_devices(8)
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


def step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)


def step_arguments():
    w = jax.ShapeDtypeStruct((64, 32), jnp.float32, sharding=NamedSharding(mesh, P()))
    x = jax.ShapeDtypeStruct((128, 64), jnp.float32, sharding=NamedSharding(mesh, P("data")))
    return w, x
"""

TEST: Final = """\
import train
from shardlings import communication


def test_step(communication_baseline):
    communication_baseline.check(communication(train.step, *train.step_arguments()))
"""

TIMES_IMPORTS: Final = """\
import time
began = time.perf_counter()
import jax
between = time.perf_counter()
from shardlings import communication
print((time.perf_counter() - between) / (between - began))
"""


def main() -> None:
    """Try all of it, and exit with a sentence where something is not as it should be."""
    with tempfile.TemporaryDirectory(prefix="another-project-") as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        python = install(folder / "venv", wheel)
        look_around(python, folder)
        run([*UV, "pip", "install", "--quiet", "--python", str(python),
             "-c", str(ROOT / "requirements/lock.txt"), *TOOLS])  # fmt: skip
        use_in_a_project(python, folder / "project")
        run_tests(python, folder / "checkout")


def build(folder: Path) -> Path:
    """Build the wheel and the sdist, and have them checked; return the wheel."""
    run([*UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)])
    built = sorted(folder.glob("shardlings-*"))
    run([*UV, "tool", "run", "--quiet", "twine", "check", "--strict", *map(str, built)])
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(folder: Path, wheel: Path) -> Path:
    """Install the wheel into an environment of its own; return its Python."""
    run([*UV, "venv", "--quiet", "--python", sys.executable, str(folder)])
    python = folder / "bin" / "python"
    run([*UV, "pip", "install", "--quiet", "--python", str(python),
         "-c", str(ROOT / "requirements/lock.txt"), str(wheel)])  # fmt: skip
    return python


def look_around(python: Path, folder: Path) -> None:
    """Look at what was installed, what an import costs, and what the course says that is not there.

    Raises:
        SystemExit: something is wrong.
    """
    listed = run([*UV, "pip", "list", "--quiet", "--python", str(python), "--format", "freeze"])
    packages = {line.partition("==")[0].lower() for line in listed.splitlines()}
    if too_many := packages & COURSE_ONLY:
        sys.exit(f"The library brings what only the course needs: {', '.join(sorted(too_many))}")
    (ours,) = folder.glob("venv/lib/*/site-packages/shardlings")
    run([str(python), "-c", TIMES_IMPORTS])  # which leaves bytecode behind, of JAX and of ours
    costs = [float(run([str(python), "-c", TIMES_IMPORTS]))]
    for made in ours.rglob("__pycache__"):
        shutil.rmtree(made)
    costs.append(float(run([str(python), "-B", "-c", TIMES_IMPORTS])))
    print(
        f"{len(packages)} packages; importing `communication` takes {costs[0]:.0%} of what "
        f"importing JAX takes, and {costs[1]:.0%} where it has no bytecode",
        flush=True,
    )
    said = run([str(python), "-c", "import autograder"], status=1)
    if 'pip install "shardlings[course]"' not in said:
        sys.exit(f"What importing the course says is not what to install:\n{said}")


def use_in_a_project(python: Path, folder: Path) -> None:
    """Store a baseline, have it fail, and compare the two on the command line.

    Raises:
        SystemExit: something is wrong.
    """
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    (folder / "test_train.py").write_text(TEST)
    pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    shardlings = str(python.parent / "shardlings")
    run([*pytest, "--update-communication"], folder)
    run(pytest, folder)
    report = [shardlings, "report", "train.py:step"]
    (folder / "before.json").write_text(run([*report, "--json"], folder))
    (folder / "train.py").write_text(TRAINER.replace("(x @ w)", "(x @ w - (x @ w).mean(0))"))
    said = run(pytest, folder, status=1)
    (folder / "after.json").write_text(run([*report, "--json", "--html", "page.html"], folder))
    compared = run([shardlings, "compare", "before.json", "after.json"], folder, status=1)
    for words in (said, compared):
        if "all-reduce" not in words or "train.py" not in words:
            sys.exit(f"A new all-reduce was not named, with its line:\n{words}")
    if "<table" not in (folder / "page.html").read_text():
        sys.exit("The HTML of a report has no table.")


def run_tests(python: Path, folder: Path) -> None:
    """Run the library's tests where there is no checkout of the packages."""
    (folder / "tests").mkdir(parents=True)
    for name in TESTS:
        copy = shutil.copytree if (ROOT / "tests" / name).is_dir() else shutil.copy
        copy(ROOT / "tests" / name, folder / "tests" / name)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "communication.md", folder / "docs")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    shutil.copy(ROOT / "pyproject.toml", folder)
    command = [str(python), "-m", "pytest", "-n", "4", "--dist", "loadscope",
               "-m", "not slow and not crowded", "tests"]  # fmt: skip
    variables = os.environ | {"SHARDLINGS_EVERY": "30"}
    sys.exit(subprocess.run(command, cwd=folder, env=variables, check=False).returncode)


def run(
    command: Sequence[str],
    folder: Path = ROOT,
    status: int = 0,
    variables: dict[str, str] | None = None,
) -> str:
    """Run a command, and return what it prints.

    Raises:
        SystemExit: its exit status is another one.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept | (variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != status:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
