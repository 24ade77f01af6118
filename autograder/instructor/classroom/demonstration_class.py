"""A demonstration class, made from the released notebooks, the solutions and the bank.

It is a separate course in `demo/`, with its own notebooks, gradebook and pages, so it never touches
a real class.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nbformat
from rich.console import Console

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import bank, extract_solution, fill_in_answers, find_cell
from autograder.instructor.classroom.grading import grade_class
from autograder.instructor.commands import printable
from autograder.instructor.course import Course
from autograder.instructor.gradebook import ADDRESS_VARIABLE
from shardlings.errors import ShortError

QUICK_ASSIGNMENTS: Final = ("01_sharding_basics", "06_shard_map_matmul")
"""One notebook on layouts and one on programs, the two that are graded fastest."""

DEMO_FOLDER: Final = "demo"

STUDENTS: Final = (
    "ada-all-right", "ben-typical-mistakes", "cleo-other-mistakes", "dana-untouched", "emil-broken",
)  # fmt: skip

COPIED_FILES: Final = ("nbgrader_config.py", "pyproject.toml")
"""The files that a course needs besides its notebooks."""


class DemonstrationError(ShortError, RuntimeError):
    """The demonstration cannot be made; the message says why."""


def demonstrate(course: Course, console: Console, whole: bool = False) -> int:
    """Submit notebooks of five made-up students to a separate course, and grade them.

    Args:
        course: the course whose notebooks they answer; only its folder `demo/` is written to.
        console: where output is printed.
        whole: use all notebooks instead of two.

    Returns:
        The exit status of grading.

    Raises:
        DemonstrationError: the folder `demo/` has something else in it or is a file, or there are
            no solutions, or a bank is missing.
    """
    os.environ.pop(ADDRESS_VARIABLE, None)  # made-up students must not enter a class's gradebook
    demo = Course(course.root / DEMO_FOLDER)
    _check_folder(course.root / DEMO_FOLDER)
    _check_solutions(course)
    for name in COPIED_FILES:
        if (course.root / name).exists():
            demo.root.mkdir(exist_ok=True)
            shutil.copy(course.root / name, demo.root / name)
    shutil.rmtree(demo.solutions, ignore_errors=True)
    shutil.copytree(course.solutions, demo.solutions)
    chosen = choose_assignments(demo, whole)
    for assignment in chosen:
        demo.release(assignment)
    hand_in_notebooks(demo, chosen)
    console.print(
        f"Five made-up students hand in: {', '.join(chosen)}. Their class is a course of its own, "
        f"in {DEMO_FOLDER}/, and has nothing to do with yours.",
        highlight=False,
    )
    if not whole:
        console.print("make demo ALL=1 has them hand in every notebook.", highlight=False)
    return grade_class(demo, console)


def _check_folder(folder: Path) -> None:
    """Check that the demonstration's folder has no files of somebody else, and is no file itself.

    Raises:
        DemonstrationError: it has, or is.
    """
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise DemonstrationError(
            f"{DEMO_FOLDER}/ is where the demonstration class is made, and {DEMO_FOLDER} is not a "
            f"folder. Move it elsewhere."
        )
    demo = Course(folder)
    folders = {demo.solutions.name, demo.released.name, demo.grading.name}
    others = [path.name for path in demo.root.iterdir()
              if path.name not in (folders if path.is_dir() else COPIED_FILES)]  # fmt: skip
    others += [f"grading/submitted/{path.name}" for path in demo.submitted.glob("*")
               if path.name not in STUDENTS]  # fmt: skip
    if others:
        raise DemonstrationError(
            f"{DEMO_FOLDER}/ is where the demonstration class is made, and it has something else "
            f"in it: {', '.join(sorted(map(printable, others))[:5])}. "
            f"Move that elsewhere; your own class belongs in grading/submitted/."
        )


def _check_solutions(course: Course) -> None:
    """Check that a course has notebooks that the made-up students can answer.

    Raises:
        DemonstrationError: it has none.
    """
    if not course.solutions.is_dir():
        raise DemonstrationError(
            f"There is no folder {printable(str(course.solutions))}, which should have the "
            f"notebooks that the made-up students answer."
        )
    if not choose_assignments(course, whole=True):
        raise DemonstrationError(
            f"No notebook in {printable(str(course.solutions))} has exercises that the made-up "
            f"students could answer."
        )


def choose_assignments(course: Course, whole: bool) -> list[str]:
    """Return the assignments that the class submits: two of them, or all that are graded."""
    graded = [assignment for assignment in course.assignments() if NOTEBOOKS.get(assignment)]
    return graded if whole else [a for a in graded if a in QUICK_ASSIGNMENTS] or graded


def hand_in_notebooks(course: Course, assignments: Sequence[str]) -> None:
    """Submit five notebooks for each assignment, as five students would.

    An exercise without a wrong answer in the bank is left unanswered by those who answer wrongly.

    Raises:
        DemonstrationError: an assignment has no bank.
    """
    for assignment in assignments:
        exercises = NOTEBOOKS[assignment]
        try:
            known_answers = bank.load(course.solutions / assignment / "bank.py")
        except FileNotFoundError:
            raise DemonstrationError(
                f"There is no solutions/{assignment}/bank.py, which has the wrong answers that the "
                f"made-up students hand in."
            ) from None
        wrong_answers = {
            e.id: [k for k in known_answers if k.exercise == e.id and k.score < 1]
            for e in exercises
        }
        wrong = {exercise: answers for exercise, answers in wrong_answers.items() if answers}
        solved = nbformat.read(course.solutions / assignment / f"{assignment}.ipynb", 4)
        students = {
            "ada-all-right": {
                e.id: extract_solution(find_cell(solved, e.id).source) for e in exercises
            },
            "ben-typical-mistakes": {i: answers[0].code for i, answers in wrong.items()},
            "cleo-other-mistakes": {i: answers[-1].code for i, answers in wrong.items()},
            "dana-untouched": {},
        }
        released = course.released / assignment / f"{assignment}.ipynb"
        for student, answers in students.items():
            filled = fill_in_answers(nbformat.read(released, 4), answers)
            nbformat.write(filled, _notebook_path(course, student, assignment))
        text = released.read_text()
        _notebook_path(course, "emil-broken", assignment).write_text(text[: len(text) // 2])


def _notebook_path(course: Course, student: str, assignment: str) -> Path:
    folder = course.submitted / student / assignment
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{assignment}.ipynb"
