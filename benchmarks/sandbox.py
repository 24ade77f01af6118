"""What do the walls cost a submission, and what do warm kernels save?

A kernel is started, asked for one sum, and ended, by turns: in a new process without the sandbox,
in a new one within it, and in one that is forked from a warm kernel within it, as grading does.
What counts are the differences, within one run.

    python benchmarks/sandbox.py              10 of each
    python benchmarks/sandbox.py --runs 3     fewer
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from unittest.mock import patch

import nbformat
from traitlets.config import Config

from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.sandbox import Sandbox, has_bubblewrap

UNWALLED_TOO = Config({"Sandbox": {"required": False}})
"""Half of the notebooks are to run without a sandbox."""

NOTEBOOK = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])


def seconds(folder: str, *, is_walled: bool, is_warm: bool = False) -> float:
    """How long one small notebook in a folder takes; without a path there is no bubblewrap."""
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = path if is_walled else ""
    has_bubblewrap.cache_clear()
    has_bubblewrap()  # found out before it is timed
    try:
        with contextlib.ExitStack() as settings:
            if not is_warm:
                no_server = patch.object(Sandbox, "get_warm_server", return_value=None)
                settings.enter_context(no_server)
            start = time.perf_counter()
            done, _ = CaptureEvidence(config=UNWALLED_TOO).preprocess(
                nbformat.from_dict(NOTEBOOK), {"metadata": {"path": folder}}
            )
            taken = time.perf_counter() - start
    finally:
        os.environ["PATH"] = path
    assert done.cells[0].outputs[0].data["text/plain"] == "2"
    return taken


def main() -> int:
    """Print the medians; the exit status says whether the walls cost less than 0.3 s."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    if not has_bubblewrap():
        print("There is no bubblewrap here, so there is nothing to measure.")
        return 0
    with tempfile.TemporaryDirectory() as folder:  # with nothing beside the notebook to copy
        seconds(folder, is_walled=True, is_warm=True)  # the first one starts the warm kernel
        rows = [
            (
                seconds(folder, is_walled=False),
                seconds(folder, is_walled=True),
                seconds(folder, is_walled=True, is_warm=True),
            )
            for _ in range(runs)
        ]
    without, within, warm = (statistics.median(times) for times in zip(*rows, strict=True))
    added = within - without
    print(f"a new kernel without the sandbox     {without:.2f} s")
    print(f"a new kernel within it               {within:.2f} s: the walls cost {added:.2f} s")
    print(f"one forked from a warm one within it {warm:.2f} s")
    return 0 if added < 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
