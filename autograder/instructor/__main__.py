"""`python -m autograder.instructor`: what `make` calls to release, grade and write exercises."""

import argparse
import sys
import warnings
from pathlib import Path
from typing import Final

from rich.console import Console
from sqlalchemy.exc import SAWarning

from autograder.exercises import CourseError, UnknownExerciseError
from autograder.instructor.authoring import (
    CellError,
    NothingToTryError,
    StubError,
    try_answers,
    write_stubs,
)
from autograder.instructor.classroom import grade_class, regrade_class
from autograder.instructor.course import BusyError, Course, ReleaseError

TROUBLES: Final = (
    BusyError, CellError, CourseError, NothingToTryError, ReleaseError, StubError,
    UnknownExerciseError,
)  # fmt: skip
"""Errors whose message says all that their reader needs."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    chosen = _parsed(arguments)
    course, console = Course(chosen.root), Console()
    try:
        return _run(chosen, course, console)
    except TROUBLES as error:
        console.print(str(error), markup=False, highlight=False)
        return 1


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m autograder.instructor", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the course's folder")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("release", help="make course/ from solutions/")
    grade = commands.add_parser("grade", help="grade what is new in grading/submitted/")
    grade.add_argument("--again", action="store_true", help="grade everything again")
    grade.add_argument(
        "--demo", choices=("quick", "all"), default="quick",
        help="where nothing was handed in: a demonstration class over two notebooks, or over all",
    )  # fmt: skip
    commands.add_parser("regrade", help="judge again what was handed in, from kept evidence")
    exercise = commands.add_parser("exercise", help="write the stubs of a new exercise")
    exercise.add_argument("id", help="what it is to be called, such as 1.9")
    exercise.add_argument("--notebook", default="", help="the notebook, if it has none yet")
    tried = commands.add_parser("try", help="show the verdict on each answer in a file")
    tried.add_argument("file", type=Path, help="code of an answer, or a bank of them")
    tried.add_argument("--exercise", default="", help="which one, where the file does not say so")
    chosen = parser.parse_args(arguments)
    if not (chosen.root / "nbgrader_config.py").exists():
        parser.error(f"{chosen.root} has no nbgrader_config.py; give the course's folder as --root")
    return chosen


def _run(chosen: argparse.Namespace, course: Course, console: Console) -> int:
    # nbgrader's own sessions; it says this of each new submission, and nothing is wrong.
    warnings.filterwarnings("ignore", category=SAWarning)
    match chosen.command:
        case "grade":
            return grade_class(course, console, chosen.again, chosen.demo == "all")
        case "regrade":
            return regrade_class(course, console)
        case "release":
            for assignment in course.assignments():
                course.release(assignment)
                console.print(f"course/{assignment}/{assignment}.ipynb")
        case "exercise":
            written = write_stubs(course.root, chosen.id, chosen.notebook)
            console.print(f"Stubs of {chosen.id} stand at the end of these, to be filled in:")
            for path in (written.module, written.notebook, written.bank):
                console.print(f"  {path}", soft_wrap=True, highlight=False)
        case "try":
            return try_answers(course.root, console, chosen.file, chosen.exercise)
    return 0


if __name__ == "__main__":
    sys.exit(main())
