"""The basis of a grade: fingerprints of all it depends on. If one changes, the grade is stale.

Calibration has a fingerprint too, and so has the package that other machines' workers must have.
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

import autograder
from autograder.exercises import BY_GRADE_ID, Exercise, folders_of_courses
from autograder.instructor.sandbox import has_bubblewrap, has_call_filter

LIMITS: Final = ("Sandbox", "Execute", "CaptureEvidence", "JudgeEvidence")
"""What may be configured otherwise on a command line, and change what a submission gets."""


def fingerprint_files(paths: Iterable[Path], folder: Path) -> str:
    """The names and contents of files in a folder; times of files are not to be trusted."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(folder)}\0".encode(errors="surrogateescape"))
        with path.open("rb") as file:  # which may be as large as all that is taken
            # a digest has one length, so no content can look like the next file's name
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def fingerprint_submission(folder: Path) -> str:
    """All that somebody handed in.

    Raises:
        OSError: some of it may not be read.
    """
    return fingerprint_files((path for path in folder.rglob("*") if path.is_file()), folder)


def fingerprint_assignment(coursedir: Any, config: Config, assignment: str) -> str:
    """An assignment's own notebooks, the package, the configuration and the environment.

    Where the course lies has no part in it; where Python and the package lie has. The points of
    exercises have none: whatever they are, a solution earns all of them or it does not.
    """
    return hashlib.sha256(json.dumps([
        *_notebooks(coursedir, assignment),
        _package_files(),
        _configuration(coursedir, config),
        _environment(),
    ]).encode()).hexdigest()  # fmt: skip


def _notebooks(coursedir: Any, assignment: str) -> Iterator[str]:
    """The solution and the released notebook, and what nbgrader copies beside them."""
    for directory in (coursedir.source_directory, coursedir.release_directory):
        folder = Path(coursedir.format_path(directory, ".", assignment))
        files = [Path(file) for file in find_all_files(str(folder), coursedir.ignore)]
        yield fingerprint_files((file for file in files if file.suffix != ".ipynb"), folder)
        for file in sorted(file for file in files if file.suffix == ".ipynb"):
            name = str(file.relative_to(folder)).encode(errors="surrogateescape")
            yield hashlib.sha256(name + b"\0" + _without_points(file)).hexdigest()


def _without_points(file: Path) -> bytes:
    """A notebook of the course's own, but for the points of its exercises; or any other file."""
    whole = file.read_bytes()
    try:
        notebook = json.loads(whole)
        for cell in notebook["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if about.get("grade_id") in BY_GRADE_ID:
                about.pop("points", None)
                about.pop("checksum", None)  # nbgrader's, over points and what is here anyway
        return json.dumps(notebook, sort_keys=True).encode(errors="surrogateescape")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return whole


def _package_files() -> list[str]:
    folder = Path(autograder.__file__).parent
    return [str(folder), fingerprint_files(folder.rglob("*.py"), folder)]


def _configuration(coursedir: Any, config: Config) -> list[str]:
    file = Path(coursedir.root, "nbgrader_config.py")
    written = file.read_text(encoding="utf-8") if file.exists() else ""
    limits = {name: config[name] for name in LIMITS if name in config}
    return [written, json.dumps(limits, sort_keys=True, default=str)]


def _environment() -> list[Any]:
    """Python, what is installed beside it, the machine, and its sandbox."""
    return [
        sys.version,
        sys.prefix,
        _installed(),
        platform.platform(),
        _processor(),
        os.cpu_count(),
        has_bubblewrap(),
        has_call_filter(),
    ]


@functools.cache  # to read two hundred files takes a tenth of a second, for each submission
def _installed() -> list[str]:
    """The names and versions of all distributions."""
    return sorted({f"{found.name} {found.version}" for found in importlib.metadata.distributions()})


def _processor() -> str:
    """The processor's kind, as Linux says it; `platform` knows only its family."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    models = (line for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


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


@functools.cache  # what runs is what was there when it was imported
def versions() -> tuple[str, ...]:
    """Return the package's fingerprint, and the versions of JAX and Python."""
    folder = _folder()
    python = ".".join(platform.python_version_tuple()[:2])
    return fingerprint_files(folder.rglob("*.py"), folder), _jax(), python
