"""Measure how the time and memory of an instructor's commands grow with a class.

Each student hands in every assignment. To end within an hour, students share what they hand in:
there are a few different notebooks of each assignment, and each of them is graded once and entered
for all who handed it in. So this measures what a command does for a submission besides running and
judging it, which `class.py` measures.

    python benchmarks/growth.py                          50, 200 and 800 students, 13 assignments
    python benchmarks/growth.py --students 20 40 -- 02 03    other numbers, of some assignments
"""

import argparse
import itertools
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nbformat
import psutil

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import bank, fill_in_answers

ROOT: Final = Path(__file__).parent.parent

DIFFERENT: Final = 4
"""The number of different notebooks that are handed in of each assignment."""

COMMANDS: Final = {
    "grade all": ["grade"],
    "nothing new": ["grade"],
    "report": ["report"],
    "other points": ["grade"],
}
"""The commands that are timed, in order; before the last, an exercise gets other points."""


def main() -> None:
    """Print the seconds and the memory of each command and size, and how they grow."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", type=int, nargs="+", default=[50, 200, 800])
    parser.add_argument("notebooks", nargs="*", default=[f"{n:02}" for n in range(1, 14)])
    chosen = parser.parse_args()
    assignments = [name for name in NOTEBOOKS if name.startswith(tuple(chosen.notebooks))]
    with tempfile.TemporaryDirectory(prefix="shardlings-growth-") as folder:
        notebooks = {name: _answered(name) for name in assignments}
        took: dict[str, list[float]] = {command: [] for command in COMMANDS}
        for students in sorted(chosen.students):
            root = _make_course(Path(folder, str(students)))
            _hand_in(root, notebooks, students)
            print(f"{students} students, {students * len(assignments)} submissions:", flush=True)
            for command, arguments in COMMANDS.items():
                if command == "other points":
                    _change_points(root, assignments[0])
                seconds, held = _run(root, arguments)
                took[command].append(seconds)
                print(f"  {command}: {seconds:.1f} s, at most {held:.0f} MiB", flush=True)
            shutil.rmtree(root)
    for command, all_seconds in took.items():
        sizes = itertools.pairwise(zip(sorted(chosen.students), all_seconds, strict=True))
        for (small, fast), (large, slow) in sizes:
            power = math.log(slow / fast) / math.log(large / small)
            print(f"{command}, {small} to {large} students: the power of {power:.2f}")


def _answered(assignment: str) -> list[str]:
    """Return some different notebooks of an assignment, with answers of its bank in turn."""
    known = bank.load(ROOT / "solutions" / assignment / "bank.py")
    path = ROOT / "course" / assignment / f"{assignment}.ipynb"
    made = []
    for number in range(DIFFERENT):
        answers = {}
        for exercise in NOTEBOOKS[assignment]:
            its = [entry for entry in known if entry.exercise == exercise.id]
            answers[exercise.id] = its[number % len(its)].code
        made.append(nbformat.writes(fill_in_answers(nbformat.read(path, 4), answers)))
    return made


def _make_course(root: Path) -> Path:
    for name in ("course", "solutions"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    return root


def _hand_in(root: Path, notebooks: dict[str, list[str]], students: int) -> None:
    for number in range(students):
        for assignment, different in notebooks.items():
            folder = root / "grading" / "submitted" / f"student-{number:03}" / assignment
            folder.mkdir(parents=True)
            text = different[number % len(different)]
            (folder / f"{assignment}.ipynb").write_text(text, encoding="utf-8")


def _change_points(root: Path, assignment: str) -> None:
    path = root / "solutions" / assignment / f"{assignment}.ipynb"
    notebook = nbformat.read(path, 4)
    first = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("points"))
    first.metadata["nbgrader"]["points"] += 3
    nbformat.write(notebook, path)


def _run(root: Path, arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command in a course; return its seconds, and the MiB of its main process at most."""
    # nbgrader runs `alembic` by name
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "autograder.instructor", *arguments]
    began, held = time.perf_counter(), 0.0
    with (root / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=root, env={**os.environ, "PATH": path}, stdout=log, stderr=log
        )
        ended = threading.Event()

        def watch() -> None:
            nonlocal held
            watched = psutil.Process(process.pid)
            while not ended.wait(0.05):
                try:
                    held = max(held, watched.memory_info().rss / 2**20)
                except psutil.NoSuchProcess:
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        process.wait()
        took = time.perf_counter() - began
        ended.set()
        watcher.join()
    return took, held


if __name__ == "__main__":
    main()
