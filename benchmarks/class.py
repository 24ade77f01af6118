"""How many submissions are graded in the time that stock nbgrader takes for one?

A class hands in answers of the banks, no two submissions alike. It is graded by stock nbgrader: its
own preprocessors, in the same folders, where every check judges in the student's kernel. It is
graded here, by one worker and by one on each of two cores, from the same files. Then the points of
an exercise are changed, and it is graded once more. All of it runs on two cores, in one go; the
grader's test of itself, which is made once for a class of any size, is timed apart.

In most classes, most answers are right and the same program. `--alike` makes two thirds of them so,
each in lines of its own.

    python benchmarks/class.py                         forty submissions of 02, 03, 06 and 08
    python benchmarks/class.py --alike                 the same of a class with many right answers
    python benchmarks/class.py --size 4 03 06          fewer, of some
    python benchmarks/class.py --sizes 50 200 800 -- 02   how three commands grow with a class
"""

import argparse
import math
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import nbformat
import psutil

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import bank, fill_in_answers

ROOT: Final = Path(__file__).parent.parent

CORES: Final = 2

GOAL: Final = 4
"""How many times as many submissions as stock nbgrader are to be graded in its time."""

LONGEST: Final = 4 * 3600
"""How many seconds one command may take."""

STOCK: Final = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.course_id = "stock"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "released"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.md", "bank.py"]
c.ClearSolutions.code_stub = {{"python": "# YOUR CODE HERE"}}
c.Execute.timeout = 30
"""
"""nbgrader's configuration with nothing of ours in it."""


def main() -> int:
    """Print the ratios; the exit status says whether the goal was met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=40, help="the number of submissions")
    parser.add_argument("--sizes", type=int, nargs="+", help="grade classes of these sizes here")
    parser.add_argument("--alike", action="store_true", help="two thirds of the answers right")
    parser.add_argument("notebooks", nargs="*", default=["02", "03", "06", "08"])
    chosen = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    assignments = [name for name in NOTEBOOKS if name.startswith(tuple(chosen.notebooks))]
    if chosen.sizes:
        _print_growth(assignments, sorted(chosen.sizes), chosen.alike)
        return 0
    with tempfile.TemporaryDirectory(prefix="shardlings-class-") as folder:
        place = Path(folder)
        class_ = list(_hand_in(place / "submitted", assignments, chosen.size, chosen.alike))
        print(
            f"{len(class_)} submissions of {', '.join(assignments)}, on {CORES} cores:", flush=True
        )
        ours = _course(place / "ours", place / "submitted")
        once = _calibrated(ours, assignments)
        print(f"  the grader's test of itself, once for a class: {once:.0f} s", flush=True)
        two = _graded(ours, "graded by two workers", len(class_), workers=CORES)
        _change_points(ours, assignments[0])
        again = _graded(ours, "with other points", len(class_), workers=CORES)
        _forget(ours)
        one = _graded(ours, "graded by one worker", len(class_), workers=1)
        stock = _stock(place / "stock", place / "submitted", assignments, len(class_))
    print(f"{stock / two:.1f} times stock nbgrader's throughput, pages and table included;")
    print(
        f"{one / two:.1f} times one worker's; with other points, {two / again:.0f} times as fast."
    )
    return 0 if stock / two >= GOAL else 1


def _print_growth(assignments: Sequence[str], sizes: Sequence[int], alike: bool) -> None:
    """Print what three commands take for classes of some sizes, and how they grow at the end.

    The exponent is that of the power of the size: 1 is linear.
    """
    costs: dict[str, list[float]] = {"graded": [], "nothing new": [], "reported on": []}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="shardlings-class-") as folder:
            place = Path(folder)
            list(_hand_in(place / "submitted", assignments, size, alike))
            root = _course(place / "ours", place / "submitted")
            _calibrated(root, assignments)
            for what, took in costs.items():
                command = "report" if what == "reported on" else "grade"
                python = [sys.executable, "-m", "autograder.instructor", command]
                took.append(_timed(root, python, workers=CORES))
        held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        took_each = ", ".join(f"{what} in {took[-1]:.0f} s" for what, took in costs.items())
        print(f"{size} submissions: {took_each}; at most {held:.0f} MiB a process", flush=True)
    if len(sizes) > 1:
        for what, took in costs.items():
            power = math.log(took[-1] / took[-2]) / math.log(sizes[-1] / sizes[-2])
            print(f"{what}: grows by the power of {power:.2f}")


def _hand_in(place: Path, assignments: Sequence[str], size: int, alike: bool) -> Iterator[Path]:
    """The files of a class, no two alike: each exercise gets its bank's answers in turn.

    If `alike`, it gets a right one two times out of three, below a comment of each student's own.
    """
    for number in range(size):
        assignment, turn = assignments[number % len(assignments)], number // len(assignments)
        known = bank.load(ROOT / "solutions" / assignment / "bank.py")
        answers = {}
        for step, exercise in enumerate(NOTEBOOKS[assignment], 1):
            its = [entry for entry in known if entry.exercise == exercise.id]
            answers[exercise.id] = its[(turn * step + turn) % len(its)].code
            if alike and (turn + step) % 3:
                right = next(entry for entry in its if entry.score == 1)
                answers[exercise.id] = "# my own lines\n" * (number + 1) + right.code
        path = ROOT / "course" / assignment / f"{assignment}.ipynb"
        notebook = fill_in_answers(nbformat.read(path, 4), answers)
        notebook.cells.append(nbformat.v4.new_code_cell(f"me = {number}"))
        file = place / f"student-{number:03}" / assignment / f"{assignment}.ipynb"
        file.parent.mkdir(parents=True)
        nbformat.write(notebook, file)
        yield file


def _course(root: Path, submitted: Path) -> Path:
    """A course with a class in it, which has not been graded."""
    for name in ("course", "solutions"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(submitted, root / "grading" / "submitted")
    return root


def _calibrated(root: Path, assignments: Sequence[str]) -> float:
    """Release the notebooks and have the grader test itself; how long it took."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from autograder.instructor.calibration import calibrate, find_exposed_answers\n"
        "from autograder.instructor.course import Course\n"
        "course = Course(Path.cwd())\n"
        "config = course.api.config\n"
        "exposed = find_exposed_answers(config, sys.argv[1:])\n"
        "for each in sys.argv[1:]:\n"
        "    course.try_release(each)\n"
        "    calibrate(config, each, exposed[each])\n"
    )
    return _timed(root, [sys.executable, "-W", "ignore", "-c", code, *assignments])


def _graded(root: Path, what: str, size: int, workers: int) -> float:
    """Grade as `make grade` does, and say how long it took."""
    before = _processor_seconds()
    took = _timed(root, [sys.executable, "-m", "autograder.instructor", "grade"], workers)
    used = (_processor_seconds() - before) / size
    print(
        f"  {what}: {took:.0f} s, {took / size:.1f} s and {used:.1f} core-seconds each", flush=True
    )
    return took


def _processor_seconds() -> float:
    """The CPU time of all processes of this machine, which should have nothing else to do."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _change_points(root: Path, assignment: str) -> None:
    """Give an exercise of the source other points."""
    path = root / "solutions" / assignment / f"{assignment}.ipynb"
    notebook = nbformat.read(path, 4)
    first = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("points"))
    first.metadata["nbgrader"]["points"] += 3
    nbformat.write(notebook, path)


def _forget(root: Path) -> None:
    """Remove all grades, and keep what the grader knows of itself."""
    for name in ("autograded", "feedback", "records"):
        shutil.rmtree(root / "grading" / name)
    for file in (root / "grading").glob("gradebook*"):
        file.unlink()


def _stock(root: Path, submitted: Path, assignments: Sequence[str], size: int) -> float:
    """Grade the class by stock nbgrader, pages included; how long it took."""
    shutil.copytree(ROOT / "solutions", root / "solutions")
    shutil.copytree(submitted, root / "grading" / "submitted")
    (root / "nbgrader_config.py").write_text(STOCK.format(root=str(root)))
    nbgrader = [sys.executable, "-W", "ignore", "-m", "nbgrader"]
    for assignment in assignments:
        _timed(root, [*nbgrader, "generate_assignment", assignment, "--create", "--force"])
    took = sum(_timed(root, [*nbgrader, "autograde", each]) for each in assignments)
    pages = sum(_timed(root, [*nbgrader, "generate_feedback", each]) for each in assignments)
    graded = len(list((root / "grading" / "autograded").glob("*/*/*.ipynb")))
    if graded != size:
        print(f"  stock nbgrader graded {graded} of them, and gave up on the others", flush=True)
    each = (took + pages) / size
    print(
        f"  graded by stock nbgrader: {took:.0f} s, and pages in {pages:.0f} s, {each:.1f} s each",
        flush=True,
    )
    return took + pages


def _timed(root: Path, command: Sequence[str], workers: int = 1) -> float:
    """Run a command in a course's folder; how long it took."""
    # nbgrader runs `alembic` by name
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    began = time.perf_counter()
    with (root / "log.txt").open("ab") as log:
        subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "PATH": path, "SHARDLINGS_WORKERS": str(workers)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=LONGEST,
            check=False,  # a class has wrong answers, and its table says so
        )
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
