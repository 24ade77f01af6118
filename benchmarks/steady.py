"""Does a class get the same verdicts, however many workers grade it, and however busy the machine?

A class hands in the known answers of notebooks. It is graded by 1, 2, 4 and 8 workers, on an idle
machine and beside processes that keep every core busy, by two workers of a Dask scheduler, and by
`nbgrader autograde`. Scores, diagnoses and sentences have to be equal to the letter each time.

    python benchmarks/steady.py                      all known answers of all notebooks; some hours
    python benchmarks/steady.py --size 2 01 06       two submissions of some notebooks
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import nbformat

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import bank, fill_in_answers

ROOT: Final = Path(__file__).parent.parent

WORKERS: Final = (1, 2, 4, 8)

SPINS: Final = "while True: pass"

GRADE: Final = ("-m", "autograder.instructor", "grade")


def main() -> int:
    """Print each way of grading, and what differs; the exit status says whether anything does."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=0, help="submissions of each notebook, at most")
    parser.add_argument("notebooks", nargs="*", default=[""])
    chosen = parser.parse_args()
    assignments = [name for name in NOTEBOOKS if name.startswith(tuple(chosen.notebooks))]
    with tempfile.TemporaryDirectory(prefix="steady-") as folder:
        root = Path(folder)
        count = sum(1 for _ in _hand_in(root, assignments, chosen.size))
        print(f"{count} submissions of {', '.join(assignments)}:", flush=True)
        wanted: dict[str, Any] = {}
        differences = 0
        for way, graded in _grade_in_all_ways(root, assignments):
            wanted = wanted or graded
            differing = [name for name in wanted if graded.get(name) != wanted[name]]
            differences += len(differing)
            print(f"  {way}: {'the same' if not differing else 'ANOTHER'}", flush=True)
            for name in differing:
                print(f"    {name}\n      {wanted[name]}\n      {graded.get(name)}", flush=True)
    return 1 if differences else 0


def _hand_in(root: Path, assignments: Sequence[str], size: int) -> Iterator[Path]:
    """Make a course whose class hands in each known answer of some notebooks."""
    for name in ("course", "solutions"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    for assignment in assignments:
        known = bank.load(ROOT / "solutions" / assignment / "bank.py")
        answers = {
            exercise.id: [entry.code for entry in known if entry.exercise == exercise.id]
            for exercise in NOTEBOOKS[assignment]
        }
        needed = max(map(len, answers.values()), default=0)
        for number in range(min(needed, size or needed)):
            chosen = {exercise: its[number % len(its)] for exercise, its in answers.items() if its}
            released = ROOT / "course" / assignment / f"{assignment}.ipynb"
            notebook = fill_in_answers(nbformat.read(released, 4), chosen)
            folder = root / "grading" / "submitted" / f"student-{number:02}" / assignment
            folder.mkdir(parents=True)
            nbformat.write(notebook, folder / f"{assignment}.ipynb")
            yield folder


def _grade_in_all_ways(
    root: Path, assignments: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Grade the class in each way; yield the way and what each exercise of each student got."""
    for is_loaded in (False, True):
        for workers in WORKERS:
            way = f"{workers} workers{', every core busy' if is_loaded else ''}"
            with _keep_busy() if is_loaded else contextlib.nullcontext():
                yield _timed(way, root, [*GRADE, "--again", "--workers", str(workers)])
    with _start_scheduler(2) as address:
        yield _timed("2 workers of Dask", root, [*GRADE, "--again", "--scheduler", address])
    began = time.monotonic()
    for assignment in assignments:
        _run(root, ["-m", "nbgrader", "autograde", assignment, "--force"])
    yield f"nbgrader autograde, {time.monotonic() - began:.0f} s", _read_verdicts(root)


def _timed(way: str, root: Path, command: Sequence[str]) -> tuple[str, dict[str, Any]]:
    began = time.monotonic()
    _run(root, command)
    return f"{way}, {time.monotonic() - began:.0f} s", _read_verdicts(root)


def _run(root: Path, command: Sequence[str]) -> None:
    """Run a command in the course, which has to succeed."""
    with (root / "log.txt").open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *command],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        print((root / "log.txt").read_text()[-2000:])


def _read_verdicts(root: Path) -> dict[str, Any]:
    """Return the verdict on each exercise of each submission, from the class's records."""
    found: dict[str, Any] = {}
    for file in sorted((root / "grading" / "records").glob("*/*.json")):
        record = json.loads(file.read_bytes())
        student = f"{file.parent.name}, {file.stem}"
        found[student] = [record["state"], record.get("why", "")]
        for notebook in record["notebooks"].values():
            found[f"{student}: scores"] = notebook["scores"]
            found |= {
                f"{student}: {verdict['exercise']}": verdict for verdict in notebook["verdicts"]
            }
    return found


@contextlib.contextmanager
def _keep_busy() -> Iterator[None]:
    """Keep every core busy with two other processes."""
    processes = [
        subprocess.Popen([sys.executable, "-c", SPINS], start_new_session=True)
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _start_scheduler(workers: int) -> Iterator[str]:
    """Start a Dask scheduler with workers on this machine; yield its address."""
    port = random.randint(20000, 40000)
    address = f"tcp://127.0.0.1:{port}"
    commands = (
        ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)),
        ("distributed.cli.dask_worker", address, "--nthreads", "1", "--nworkers", str(workers)),
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", *command, "--no-dashboard"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
