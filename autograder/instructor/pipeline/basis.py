"""What a grade rests on. Where any of it has become another, the grade is to be made anew."""

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from nbgrader.api import Gradebook
from nbgrader.utils import find_all_files

import autograder
from autograder.exercises import BY_GRADE_ID, Exercise, folders_of_courses
from autograder.instructor.pipeline.fingerprint import fingerprint_files

JUDGED: Final = frozenset({"exercises", "judge", "points"})
"""What evidence can be judged again by; where anything else has changed, it has to be made anew."""

APART: Final = ("exercises", "judge", "instructor/authoring", "instructor/classroom")
"""What of the package is not needed to run a notebook: what is right, and what is seen of it."""


class Basis(msgspec.Struct, frozen=True):
    """What a grade rests on, most of it in a few letters that are others where it is another.

    Attributes:
        submission: what was handed in.
        cells: what of the notebook nbgrader gives back to each submission, the files beside it, and
            the points of cells that are not judged here.
        plans: what of the answers a kernel is to capture.
        package: what of the package runs notebooks and captures answers.
        jax: the versions of JAX and its library.
        exercises: what is asked, and what is right.
        judge: what compares the two.
        points: of each exercise, by the name of its graded cell.
        form: how the letters are made; a basis of another form cannot be compared, nor read.
    """

    submission: str
    cells: str
    plans: str
    package: str
    jax: str
    exercises: str
    judge: str
    points: dict[str, float]
    form: Literal[2]

    def changed(self, now: "Basis") -> set[str]:
        """The names of what is another now."""
        return {n for n in self.__struct_fields__ if getattr(self, n) != getattr(now, n)}

    def but_judged_by(self, now: "Basis") -> "Basis":
        """The same, where the evidence that there was has been judged by what there is now."""
        return msgspec.structs.replace(self, **{name: getattr(now, name) for name in JUDGED})


def of_grades(coursedir: Any, assignment: str) -> Basis:
    """What grades of an assignment rest on, whatever was handed in.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the course.
        assignment: one that the gradebook knows.
    """
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        notebooks = gradebook.find_assignment(assignment).notebooks
        cells = sorted((book.name, *cell) for book in notebooks for cell in _cells(book))
        points = {
            cell.name: cell.max_score
            for book in notebooks
            for cell in book.grade_cells
            if cell.name in BY_GRADE_ID
        }
    source = coursedir.format_path(coursedir.source_directory, ".", assignment)
    beside = map(Path, find_all_files(source, [*coursedir.ignore, "*.ipynb"]))
    # an assignment of the instructor's own may have an exercise of any notebook in it
    exercises = [exercise for name, exercise in BY_GRADE_ID.items() if name in points]
    plans = [exercise.plan(0) for exercise in exercises]
    return Basis(
        submission="",
        cells=_digest([cells, fingerprint_files(beside, Path(source))]),
        plans=_digest([msgspec.json.encode(plan).decode() for plan in plans]),
        package=_package(),
        jax=_jax(),
        exercises=_exercises(exercises),
        judge=fingerprint_files((_folder() / "judge").rglob("*.py"), _folder()),
        points=points,
        form=2,
    )


def _cells(notebook: Any) -> Iterator[tuple[Any, ...]]:
    """What the gradebook knows of a notebook's cells, but for the points of exercises."""
    for cell in notebook.source_cells:
        yield cell.name, "source", cell.cell_type, cell.locked, cell.source
    for cell in notebook.solution_cells:
        yield cell.name, "solution"
    for cell in (*notebook.grade_cells, *notebook.task_cells):
        yield cell.name, "graded", None if cell.name in BY_GRADE_ID else cell.max_score


def _folder() -> Path:
    return Path(autograder.__file__).parent


def _package() -> str:
    folder = _folder()
    apart = {folder / name for name in APART}
    return fingerprint_files((p for p in folder.rglob("*.py") if not apart & {*p.parents}), folder)


def _jax() -> str:
    return " ".join(importlib.metadata.version(name) for name in ("jax", "jaxlib"))


def _exercises(exercises: Iterable[Exercise]) -> str:
    """The modules of some exercises, what exercises are made of, and other courses' packages."""
    folder = _folder() / "exercises"
    # a module is called by its notebook's number; 11 has two
    own = tuple({f"nb{exercise.id.partition('.')[0].zfill(2)}_" for exercise in exercises})
    files = (
        p for p in folder.rglob("*.py") if p.parent.name != "notebooks" or p.stem.startswith(own)
    )
    others = [fingerprint_files(course.rglob("*.py"), course) for course in folders_of_courses()]
    return _digest([fingerprint_files(files, folder), *others])


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()
