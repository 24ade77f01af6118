"""What do the walls cost a submission?

A kernel is started, asked for one sum, and ended: in the sandbox and without it, by turns, as
grading does. What counts is the difference, within one run.

    python benchmarks/sandbox.py              10 of each
    python benchmarks/sandbox.py --runs 3     fewer
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import nbformat
from traitlets.config import Config

from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.sandbox import has_bubblewrap

UNWALLED_TOO = Config({"Sandbox": {"required": False}})
"""Half of the notebooks are to run without a sandbox."""

NOTEBOOK = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])


def seconds(walled: bool) -> float:
    """How long one small notebook takes; without a path there is no bubblewrap."""
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = path if walled else ""
    has_bubblewrap.cache_clear()
    has_bubblewrap()  # found out before it is timed
    try:
        start = time.perf_counter()
        done, _ = CaptureEvidence(config=UNWALLED_TOO).preprocess(
            nbformat.from_dict(NOTEBOOK), {"metadata": {"path": str(Path.cwd())}}
        )
        taken = time.perf_counter() - start
    finally:
        os.environ["PATH"] = path
    assert done.cells[0].outputs[0].data["text/plain"] == "2"
    return taken


def main() -> int:
    """Print both medians and their difference; the exit status says whether it is under 0.3 s."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    if not has_bubblewrap():
        print("There is no bubblewrap here, so there is nothing to measure.")
        return 0
    pairs = [(seconds(True), seconds(False)) for _ in range(runs)]
    within, without = (statistics.median(times) for times in zip(*pairs, strict=True))
    added = within - without
    print(f"In the sandbox {within:.2f} s, without it {without:.2f} s: it adds {added:.2f} s,")
    print(f"{within / without - 1:+.0%} of a notebook that does nothing.")
    return 0 if added < 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
