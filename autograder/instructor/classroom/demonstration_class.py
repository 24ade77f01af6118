"""A demonstration class, made from the released notebooks, the solutions and the bank."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nbformat

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring import answered, bank, cell_of, solution
from autograder.instructor.course import Course

QUICK: Final = ("01_sharding_basics", "06_shard_map_matmul")
"""One on layouts and one on programs: no other two are graded as quickly."""

NOT_AMONG_OTHERS: Final = (
    "grading/submitted/ has a class already, so no demonstration class was added to it. To see a "
    "demonstration, move grading/ out of the way first."
)


def assignments(course: Course, whole: bool) -> list[str]:
    """What the class hands in: two notebooks, or all that are graded."""
    graded = [assignment for assignment in course.assignments() if NOTEBOOKS.get(assignment)]
    return graded if whole else [a for a in graded if a in QUICK] or graded


def announced(assignments: Sequence[str]) -> str:
    """What is said before the class is graded."""
    return (
        f"Nothing has been handed in yet, so five made-up students hand in: "
        f"{', '.join(assignments)}. Remove grading/ before your own class comes, or to see them "
        f"hand in every notebook (make grade DEMO=all)."
    )


def fill(course: Course, assignments: Sequence[str]) -> None:
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
