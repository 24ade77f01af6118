"""Does every notebook run to its end, every time, on one core and on two?

Each solution notebook is run from its first cell to its last in a kernel of its own, many times:
pinned to one core, and to two. What counts is that no kernel dies and no cell raises (F4: eight
emulated devices on few cores are where kernels die).

    python benchmarks/notebooks.py                     20 runs of each, for each number of cores
    python benchmarks/notebooks.py --runs 2 08 09      fewer, of some
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

SOLUTIONS = Path(__file__).parent.parent / "solutions"


def ends_well(path: Path) -> bool:
    """Run a notebook once, in a kernel that inherits this process's cores."""
    notebook = nbformat.read(path, 4)
    with tempfile.TemporaryDirectory() as state:
        os.environ["SHARDLINGS_STATE"] = state
        try:
            NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
        except (CellExecutionError, DeadKernelError, TimeoutError) as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
            return False
    return True


def main() -> int:
    """Print a table; the exit status says whether every run ended well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "notebooks", nargs="*", help="the beginnings of their names; all by default"
    )
    chosen = parser.parse_args()
    beginnings = tuple(chosen.notebooks) or ("",)
    paths = [p for p in sorted(SOLUTIONS.glob("*/*.ipynb")) if p.stem.startswith(beginnings)]
    every, all_well = sorted(os.sched_getaffinity(0)), True
    for cores in chosen.cores:
        os.sched_setaffinity(0, set(every[:cores]))
        for path in paths:
            start = time.perf_counter()
            ended = sum(ends_well(path) for _ in range(chosen.runs))
            seconds = (time.perf_counter() - start) / chosen.runs
            all_well &= ended == chosen.runs
            print(
                f"{path.stem:28} {cores} core{'s' * (cores > 1)}: {ended} of {chosen.runs} ended "
                f"well, {seconds:.1f} s each",
                flush=True,
            )
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
