"""Meshes, shardings and captured answers that many tests use."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

if TYPE_CHECKING:
    from autograder.evidence import Evidence
    from autograder.exercises import Exercise


def mesh(**axes: int) -> jax.sharding.Mesh:
    """Return a mesh over the first devices, in order, with Auto axes."""
    sizes = tuple(axes.values())
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    return jax.sharding.Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def sharding(*spec: object, **axes: int) -> jax.NamedSharding:
    """Return a sharding over such a mesh: `sharding("x", None, x=4, y=2)`."""
    return jax.NamedSharding(mesh(**axes), jax.P(*spec))


def capture(exercise: "Exercise", answers: Mapping[str, object], seed: int) -> "Evidence":
    """Capture the evidence for answers to an exercise."""
    from autograder import evidence  # what tests the library has no autograder

    return evidence.capture(exercise.plan(seed), answers)


def copy_folder(source: Path, to: Path) -> Path:
    """Copy a folder of the checkout, which may be read-only, so that the copy can be changed."""
    shutil.copytree(source, to)
    for path in (to, *to.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return to


def pretend_bubblewrap(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """Make the package behave as if bubblewrap were installed, or were not."""
    from autograder.instructor.sandbox import Sandbox, has_bubblewrap

    # without bubblewrap, grading only goes on if the configuration does not require it
    monkeypatch.setitem(Sandbox._static_immutable_initial_values, "required", there)
    for module in list(sys.modules.values()):
        if getattr(module, "has_bubblewrap", None) is has_bubblewrap:
            monkeypatch.setattr(module, "has_bubblewrap", lambda: there)


ON_ONE_CORE = "import os, time\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
SPINS = "import time\nbegan = time.process_time()\nwhile time.process_time() - began < %s: pass\n"
"""Code that uses a number of seconds of CPU time."""


@contextmanager
def crowd() -> Iterator[None]:
    """Keep the first core busy with fifteen other processes, as on an overloaded machine."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system cannot bind a process to a core")
    spins = [sys.executable, "-c", ON_ONE_CORE + SPINS % 600]
    # each in a session of its own, because Linux shares CPU time fairly between sessions
    processes = [subprocess.Popen(spins, start_new_session=True) for _ in range(15)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
