"""Every benchmark runs to its end with the package as it is, at its smallest.

What it measures here means nothing, so its exit status, which says whether a ratio holds, is not
looked at.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SMALLEST: Final = {
    "after_attacks.py": ("--rounds", "1"),
    "class.py": ("--size", "1", "02"),
    "dead_kernel.py": ("--runs", "1", "--bare-runs", "0"),
    "growth.py": ("--students", "1", "2", "--", "02"),
    "kept.py": ("--seconds", "1", "--kills", "0"),
    "killed.py": ("--times", "1"),
    "large_report.py": ("--devices", "8", "--layers", "2"),
    "latency.py": (),
    "mutants.py": ("--help",),  # it runs all tests before it does anything
    "notebooks.py": ("--runs", "1", "--cores", "2", "--", "02"),
    "reading.py": ("--lengths", "5", "10"),
    "regrading.py": (),
    "sandbox.py": ("--runs", "1"),
    "steady.py": ("--size", "1", "02"),
    "two_versions.py": ("HEAD", "--runs", "1"),
}
"""The arguments with which each benchmark takes the least time."""


def test_each_benchmark_is_run_here():
    assert set(SMALLEST) == {path.name for path in Path(ROOT, "benchmarks").glob("*.py")}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.crowded) if name == "steady.py" else name
        for name in SMALLEST  # steady.py keeps every core busy
    ],
)
def test_it_runs_to_its_end(name):
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / name, *SMALLEST[name]],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1), done.stderr  # 2: its arguments are not understood
    assert done.stdout, "it printed nothing"
