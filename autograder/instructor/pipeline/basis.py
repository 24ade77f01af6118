"""The basis of a grade: fingerprints of everything it depends on. If one changes, it is stale.

Calibration has a fingerprint of its own, and so has the package, which workers on other machines
need to have in the same version.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from nbgrader.api import Gradebook
from nbgrader.utils import find_all_files
from traitlets.config import Config

from autograder.exercises import BY_GRADE_ID, Exercise, folders_of_courses
from autograder.instructor.pipeline.machine import read_jax_versions, read_processor_model
from autograder.instructor.sandbox import (
    find_package_folders,
    has_bubblewrap,
    has_call_filter,
)

CONFIGURABLE_LIMITS: Final = ("Sandbox", "Execute", "CaptureEvidence", "JudgeEvidence")
"""Configurable classes whose settings, on a command line, may change scores."""


def fingerprint_files(paths: Iterable[Path], folder: Path) -> str:
    """Compute a fingerprint of the names and contents of files in a folder.

    Modification times are not part of it, because they cannot be trusted.
    """
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(folder)}\0".encode(errors="surrogateescape"))
        with path.open("rb") as file:  # may be as large as a whole submission
            # digests have a fixed length, so no content can look like the next file's name
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def fingerprint_submission(folder: Path) -> str:
    """Compute a fingerprint of all files in a submission.

    Raises:
        OSError: a file cannot be read.
    """
    paths = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return fingerprint_files((path for path in paths if path.is_file()), folder)


def fingerprint_assignment(coursedir: Any, config: Config, assignment: str) -> str:
    """Compute the fingerprint that a calibration holds for.

    It covers the assignment's notebooks, the package, the configuration and the environment,
    including the paths of Python and the package. The course's path and the points of exercises are
    not part of it, because calibration checks that the solution earns all points, however many.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the course.
        config: the configuration that submissions are graded by.
        assignment: the assignment's name.
    """
    return hashlib.sha256(json.dumps([
        *_fingerprint_notebooks(coursedir, assignment),
        _fingerprint_package_files(),
        _configuration(coursedir, config),
        _environment(),
    ]).encode()).hexdigest()  # fmt: skip


def _fingerprint_notebooks(coursedir: Any, assignment: str) -> Iterator[str]:
    """Yield fingerprints of the solution, the released notebook, and the files beside them."""
    for directory in (coursedir.source_directory, coursedir.release_directory):
        folder = Path(coursedir.format_path(directory, ".", assignment))
        files = [Path(file) for file in find_all_files(str(folder), coursedir.ignore)]
        yield fingerprint_files((file for file in files if file.suffix != ".ipynb"), folder)
        for file in sorted(file for file in files if file.suffix == ".ipynb"):
            name = str(file.relative_to(folder)).encode(errors="surrogateescape")
            yield hashlib.sha256(name + b"\0" + _without_points(file)).hexdigest()


def _without_points(file: Path) -> bytes:
    """Return the contents of a notebook without the points of this course's exercises."""
    contents = file.read_bytes()
    try:
        notebook = json.loads(contents)
        for cell in notebook["cells"]:
            metadata = cell["metadata"].get("nbgrader", {})
            if metadata.get("grade_id") in BY_GRADE_ID:
                metadata.pop("points", None)
                metadata.pop("checksum", None)  # which includes the points
        return json.dumps(notebook, sort_keys=True).encode(errors="surrogateescape")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return contents


def _fingerprint_package_files() -> list[str]:
    folders = find_package_folders()
    return [*map(str, folders), *(fingerprint_files(f.rglob("*.py"), f) for f in folders)]


def _configuration(coursedir: Any, config: Config) -> list[str]:
    file = Path(coursedir.root, "nbgrader_config.py")
    contents = file.read_text(encoding="utf-8") if file.exists() else ""
    limits = {name: config[name] for name in CONFIGURABLE_LIMITS if name in config}
    return [contents, json.dumps(limits, sort_keys=True, default=str)]


def _environment() -> list[Any]:
    """Describe Python, the installed packages, the machine, and its sandbox."""
    return [
        sys.version,
        sys.prefix,
        _installed_packages(),
        platform.platform(),
        read_processor_model(),
        os.cpu_count(),
        has_bubblewrap(),
        has_call_filter(),
    ]


@functools.cache  # reading 200 files takes 0.1 s, for each submission
def _installed_packages() -> list[str]:
    """Return the names and versions of all installed distributions."""
    return sorted({f"{found.name} {found.version}" for found in importlib.metadata.distributions()})


REJUDGEABLE: Final = frozenset({"exercises", "judge", "points"})
"""The attributes of a basis for which evidence can be judged again when they change.

If anything else has changed, the notebook has to run again.
"""

NOT_FOR_RUNNING: Final = (
    "exercises", "judge", "instructor/authoring", "instructor/classroom", "instructor/collecting",
    "instructor/exporters.py", "instructor/gradescope.py",
)  # fmt: skip
"""The folders and modules of the package that have no effect on running a notebook.

`instructor/pages` has none either, but feedback pages of unchanged grades are not made again, so
pages by other code would stay.
"""


class Basis(msgspec.Struct, frozen=True):
    """The basis of a grade: fingerprints of everything it depends on.

    Attributes:
        submission: a fingerprint of the submission.
        cells: a fingerprint of the cells that nbgrader restores in each submission, the files
            beside the notebook, and the points of cells that have no exercise.
        plans: a fingerprint of the exercises' plans, which say what a kernel captures.
        package: a fingerprint of the code that runs notebooks and captures answers.
        jax: the versions of JAX and jaxlib.
        exercises: a fingerprint of the exercises.
        judge: a fingerprint of the judge.
        points: the points of each exercise, by the name of its graded cell.
        format_version: the version of this format, in files `form`; another cannot be read.
    """

    submission: str
    cells: str
    plans: str
    package: str
    jax: str
    exercises: str
    judge: str
    points: dict[str, float]
    format_version: Literal[2] = msgspec.field(name="form")

    def changed(self, now: "Basis") -> set[str]:
        """Return the names of the attributes that have changed."""
        return {n for n in self.__struct_fields__ if getattr(self, n) != getattr(now, n)}

    def rejudged_with(self, now: "Basis") -> "Basis":
        """Return the basis of a grade whose kept evidence was judged again by the current judge."""
        return msgspec.structs.replace(self, **{name: getattr(now, name) for name in REJUDGEABLE})


def current_basis(coursedir: Any, assignment: str) -> Basis:
    """Compute the current basis of an assignment's grades, without a submission's fingerprint.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the course.
        assignment: the name of an assignment in the gradebook.
    """
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        notebooks = gradebook.find_assignment(assignment).notebooks
        cells = sorted((book.name, *cell) for book in notebooks for cell in _describe_cells(book))
        points = {
            cell.name: cell.max_score
            for book in notebooks
            for cell in book.grade_cells
            if cell.name in BY_GRADE_ID
        }
    source = coursedir.format_path(coursedir.source_directory, ".", assignment)
    other_files = map(Path, find_all_files(source, [*coursedir.ignore, "*.ipynb"]))
    # an instructor's own assignment may contain exercises of any notebook
    exercises = [exercise for name, exercise in BY_GRADE_ID.items() if name in points]
    plans = [exercise.plan(0) for exercise in exercises]
    return Basis(
        submission="",
        cells=_digest([cells, fingerprint_files(other_files, Path(source))]),
        plans=_digest([msgspec.json.encode(plan).decode() for plan in plans]),
        package=_fingerprint_grading_package(),
        jax=" ".join(read_jax_versions()),
        exercises=_fingerprint_exercises(exercises),
        judge=_fingerprint_judge(),
        points=points,
        format_version=2,
    )


def _describe_cells(notebook: Any) -> Iterator[tuple[Any, ...]]:
    """Yield what the gradebook has about a notebook's cells, without the points of exercises."""
    for cell in notebook.source_cells:
        yield cell.name, "source", cell.cell_type, cell.locked, cell.source
    for cell in notebook.solution_cells:
        yield cell.name, "solution"
    for cell in (*notebook.grade_cells, *notebook.task_cells):
        yield cell.name, "graded", None if cell.name in BY_GRADE_ID else cell.max_score


def _fingerprint_grading_package() -> str:
    library, folder = find_package_folders()
    excluded = {folder / name for name in NOT_FOR_RUNNING}
    files = (p for p in folder.rglob("*.py") if not excluded & {p, *p.parents})
    return _digest(
        [fingerprint_files(library.rglob("*.py"), library), fingerprint_files(files, folder)]
    )


def _fingerprint_judge() -> str:
    _, folder = find_package_folders()
    return fingerprint_files((folder / "judge").rglob("*.py"), folder)


def _fingerprint_exercises(exercises: Iterable[Exercise]) -> str:
    """Compute a fingerprint of some exercises' modules, and of code that all exercises share."""
    folder = find_package_folders()[1] / "exercises"
    # a notebook may have several modules, all named after its number
    prefixes = tuple({f"nb{exercise.id.partition('.')[0].zfill(2)}_" for exercise in exercises})
    files = (
        p
        for p in folder.rglob("*.py")
        if p.parent.name != "notebooks" or p.stem.startswith(prefixes)
    )
    other_courses = [
        fingerprint_files(course.rglob("*.py"), course) for course in folders_of_courses()
    ]
    return _digest([fingerprint_files(files, folder), *other_courses])


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


@functools.cache  # the running code does not change
def read_versions() -> tuple[str, ...]:
    """Return our packages' fingerprints, and the versions of JAX and Python."""
    python = ".".join(platform.python_version_tuple()[:2])
    packages = (fingerprint_files(f.rglob("*.py"), f) for f in find_package_folders())
    return *packages, " ".join(read_jax_versions()), python
