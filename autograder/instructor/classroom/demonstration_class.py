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
from autograder.instructor.authoring import answered, bank, cell_of, solution
from autograder.instructor.classroom.grading import grade_class
from autograder.instructor.course import Course, printable
from autograder.instructor.gradebook import VARIABLE

QUICK_ASSIGNMENTS: Final = ("01_sharding_basics", "06_shard_map_matmul")
"""One on layouts and one on programs; no other two are graded as quickly."""

DEMO_FOLDER: Final = "demo"

STUDENTS: Final = (
    "ada-all-right", "ben-typical-mistakes", "cleo-other-mistakes", "dana-untouched", "emil-broken",
)  # fmt: skip

COPIED_FILES: Final = ("nbgrader_config.py", "pyproject.toml")
"""What a course needs besides its notebooks."""


class DemonstrationError(RuntimeError):
    """Something in the demonstration's folder is not its own; the message says what."""


def demonstrate(course: Course, console: Console, whole: bool = False) -> int:
    """Have five made-up students hand in to a course apart, and grade them.

    Args:
        course: whose notebooks they answer; nothing in it changes but its folder `demo/`.
        console: what to write on.
        whole: over all notebooks, and not over two.

    Returns:
        The exit status of grading them.

    Raises:
        DemonstrationError: the folder has something else in it.
    """
    os.environ.pop(VARIABLE, None)  # a class's gradebook on a server is not for made-up students
    apart = Course(course.root / DEMO_FOLDER)
    _look_around(apart)
    for name in COPIED_FILES:
        if (course.root / name).exists():
            apart.root.mkdir(exist_ok=True)
            shutil.copy(course.root / name, apart.root / name)
    shutil.rmtree(apart.solutions, ignore_errors=True)
    shutil.copytree(course.solutions, apart.solutions)
    chosen = choose_assignments(apart, whole)
    for assignment in chosen:
        apart.release(assignment)
    hand_in_notebooks(apart, chosen)
    console.print(
        f"Five made-up students hand in: {', '.join(chosen)}. Their class is a course of its own, "
        f"in {DEMO_FOLDER}/, and has nothing to do with yours.",
        highlight=False,
    )
    if not whole:
        console.print("make demo ALL=1 has them hand in every notebook.", highlight=False)
    return grade_class(apart, console)


def _look_around(apart: Course) -> None:
    """See to it that nothing of somebody's own is written over.

    Raises:
        DemonstrationError: there is something.
    """
    if not apart.root.is_dir():
        return
    own = {*COPIED_FILES, apart.solutions.name, apart.released.name, apart.grading.name}
    others = [path.name for path in apart.root.iterdir() if path.name not in own]
    others += [f"grading/submitted/{path.name}" for path in apart.submitted.glob("*")
               if path.name not in STUDENTS]  # fmt: skip
    if others:
        raise DemonstrationError(
            f"{DEMO_FOLDER}/ is where the demonstration class is made, and it has something "
            f"else in it: "
            f"{', '.join(sorted(map(printable, others))[:5])}. Move that elsewhere; your own class "
            f"belongs in grading/submitted/."
        )


def choose_assignments(course: Course, whole: bool) -> list[str]:
    """What the class hands in: two notebooks, or all that are graded."""
    graded = [assignment for assignment in course.assignments() if NOTEBOOKS.get(assignment)]
    return graded if whole else [a for a in graded if a in QUICK_ASSIGNMENTS] or graded


def hand_in_notebooks(course: Course, assignments: Sequence[str]) -> None:
    """Hand in five notebooks for each assignment, as five students would."""
    for assignment in assignments:
        exercises = NOTEBOOKS[assignment]
        known = bank.load(course.solutions / assignment / "bank.py")
        wrong = {e.id: [k for k in known if k.exercise == e.id and k.score < 1] for e in exercises}
        solved = nbformat.read(course.solutions / assignment / f"{assignment}.ipynb", 4)
        students = {
            "ada-all-right": {e.id: solution(cell_of(solved, e.id).source) for e in exercises},
            "ben-typical-mistakes": {i: answers[0].code for i, answers in wrong.items()},
            "cleo-other-mistakes": {i: answers[-1].code for i, answers in wrong.items()},
            "dana-untouched": {},
        }
        released = course.released / assignment / f"{assignment}.ipynb"
        for student, answers in students.items():
            filled = answered(nbformat.read(released, 4), answers)
            nbformat.write(filled, _place(course, student, assignment))
        text = released.read_text()
        _place(course, "emil-broken", assignment).write_text(text[: len(text) // 2])


def _place(course: Course, student: str, assignment: str) -> Path:
    folder = course.submitted / student / assignment
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{assignment}.ipynb"
