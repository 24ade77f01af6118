"""How much longer does grading take than at an earlier commit?

Four students who hand in the solution are graded by the package of a commit and by this one, by
turns, with plain `nbgrader autograde`, in a checkout of each. What counts is the ratio of the
medians, within one run; calibration is done before, and not counted.

    python benchmarks/two_versions.py                      five of each
    python benchmarks/two_versions.py 79587b4 --runs 3     fewer, and against another commit
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASSIGNMENT = "01_sharding_basics"
STUDENTS = 4
BEFORE = "79587b4"
"""The last commit at which notebooks were parsed in the grading process, and programs as text."""


def checkout(commit: str, folder: Path) -> Path:
    """A commit's files, with a right submission."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    for number in range(STUDENTS):
        submitted = folder / "grading" / "submitted" / f"honest-{number}" / ASSIGNMENT
        submitted.mkdir(parents=True)
        shutil.copy(folder / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", submitted)
    nbgrader(folder, "generate_assignment", ASSIGNMENT, "--force")
    nbgrader(folder, "autograde", ASSIGNMENT)
    return folder


def nbgrader(folder: Path, *arguments: str) -> float:
    """How many seconds one of nbgrader's commands takes, by the package in a folder."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - begin


def main() -> int:
    """Print both medians and their ratio; the exit status says whether it is below 1.15."""
    parser = argparse.ArgumentParser()
    parser.add_argument("commit", nargs="?", default=BEFORE)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{chosen.commit}^{{commit}}"], cwd=ROOT, check=False
    )
    if known.returncode:
        print(f"There is no commit {chosen.commit} in this clone, so there is nothing to measure.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = checkout(chosen.commit, Path(folder, "before"))
        after = checkout("HEAD", Path(folder, "after"))
        again = "autograde", ASSIGNMENT, "--force"
        pairs = [(nbgrader(before, *again), nbgrader(after, *again)) for _ in range(chosen.runs)]
    old, new = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"At {chosen.commit} {old:.1f} s, now {new:.1f} s: a ratio of {new / old:.2f}.")
    return 0 if new / old < 1.15 else 1


if __name__ == "__main__":
    sys.exit(main())
