"""`python -m autograder.instructor`: release the notebooks, grade a class, judge it again."""

import argparse
import sys
import warnings
from pathlib import Path

from rich.console import Console
from sqlalchemy.exc import SAWarning

from autograder.instructor.course import BusyError, Course, ReleaseError
from autograder.instructor.grading import grade_class
from autograder.instructor.regrading import regrade_class


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status."""
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
    chosen = parser.parse_args(arguments)
    if not (chosen.root / "nbgrader_config.py").exists():
        parser.error(f"{chosen.root} has no nbgrader_config.py; give the course's folder as --root")
    # nbgrader's own sessions; it says this of each new submission, and nothing is wrong.
    warnings.filterwarnings("ignore", category=SAWarning)
    course, console = Course(chosen.root), Console()
    try:
        if chosen.command == "grade":
            return grade_class(course, console, chosen.again, chosen.demo == "all")
        if chosen.command == "regrade":
            return regrade_class(course, console)
        for assignment in course.assignments():
            course.release(assignment)
            console.print(f"course/{assignment}/{assignment}.ipynb")
    except (ReleaseError, BusyError) as error:
        console.print(str(error), markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
