"""The facts that grading needs about an assignment, as data that can be sent to any machine.

nbgrader's preprocessors look up a notebook's cells in a gradebook, so the facts include a small
database with this assignment's cells and no students.

Two facts come from calibration. The time limit is a multiple of the time that the solution took
here. The compilation cache was filled by the assignment's own two notebooks, and is valid for one
calibration, one version of JAX and one kind of processor. It contains machine code, so it is only
used if nobody else could have written to it.
"""

import copy
import importlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from nbgrader.api import (
    Gradebook,
    GradeCell,
    Notebook,
    SolutionCell,
    SourceCell,
    TaskCell,
)
from nbgrader.converters import Autograde
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import find_all_files
from traitlets.config import Config

from autograder.instructor.pipeline.basis import read_versions
from autograder.instructor.pipeline.demonstrations import Demonstrations, find_demonstrations
from autograder.instructor.pipeline.machine import fingerprint_machine
from autograder.instructor.pipeline.seeds import read_secret
from autograder.instructor.sandbox import prune_cache

TIME_FACTOR: Final = 20
"""The time limit of a submission, as a multiple of the solution's time."""

MIN_TIME_LIMIT_SECONDS: Final = 60
"""The smallest time limit, because a machine may be slow for a while."""


class Calibration(msgspec.Struct, frozen=True):
    """The result of a successful calibration.

    Attributes:
        fingerprint: the state for which it is valid; see `fingerprint_assignment`.
        seconds: the time that grading the solution took.
        cells: the time of each code cell of the solution in seconds, by notebook.
        passing: a sentence about tests that also pass in the released notebook.
    """

    fingerprint: str
    seconds: float
    cells: dict[str, list[float]]
    passing: str = ""


def calibration_file(root: Path, assignment: str) -> Path:
    """Return the file with an assignment's last successful calibration."""
    return root / "grading" / "calibration" / f"{assignment}.json"


def read_calibration(file: Path) -> Calibration | None:
    """Read a calibration; return None if there is none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Calibration)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def solution_seconds(root: Path, assignment: str) -> float:
    """Return how many seconds grading an assignment's solution took here; 0 if unknown."""
    calibration = read_calibration(calibration_file(root, assignment))
    return calibration.seconds if calibration is not None else 0.0


def time_limit(config: Config, assignment: str, notebook: str) -> int | None:
    """Return how many seconds a notebook may run, by calibration; None if that does not decide.

    Args:
        config: the configuration of grading. If it sets `Sandbox.seconds` or turns off calibration,
            the result is None.
        assignment: the assignment's name.
        notebook: the notebook's name, without `.ipynb`.
    """
    root = config.CourseDirectory.get("root")
    is_set = "Sandbox.seconds" in config or config.LockedAutograde.get("calibrate") is False
    if is_set or root is None:
        return None
    calibration = read_calibration(calibration_file(Path(root), assignment))
    cells = calibration.cells.get(f"{notebook}.ipynb") if calibration is not None else None
    return (
        max(MIN_TIME_LIMIT_SECONDS, round(TIME_FACTOR * sum(cells))) if cells is not None else None
    )


DIGEST_CHARACTERS: Final = 16
"""The number of characters of each digest in a folder's name."""

UNFINISHED: Final = "unfinished"
"""The end of a cache's name while it is filled, in place of the digests."""


def find_compiled(config: Config, assignment: str) -> str:
    """Return the folder of an assignment's compilation cache; empty if there is none.

    Args:
        config: the configuration of grading; `Sandbox.compiled` takes precedence.
        assignment: the assignment's name.
    """
    root = config.CourseDirectory.get("root")
    if "Sandbox.compiled" in config:
        return str(config.Sandbox.compiled)
    if root is None or config.LockedAutograde.get("calibrate") is False:
        return ""
    try:
        calibration = read_calibration(calibration_file(Path(root), assignment))
    except OSError:  # on a worker's machine, the course's path may be somebody else's folder
        return ""
    folder = calibration and _cache_folder(Path(root), assignment, calibration.fingerprint)
    return str(folder) if folder and _only_we_can_write(folder, Path(root)) else ""


def begin_compiled(root: Path, assignment: str) -> Path:
    """Return the empty folder that a calibration fills; it is kept by `keep_compiled`.

    Those of all assignments are in one folder, so that one warm server fills them all.

    Args:
        root: the course's folder.
        assignment: the assignment's name.
    """
    folder = _caches(root) / f"{assignment}.{UNFINISHED}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def keep_compiled(filled: Path, root: Path, assignment: str, state: str) -> None:
    """Keep a calibration's compilation cache, in place of earlier ones.

    Args:
        filled: the folder with the cache, which is moved or removed.
        root: the course's folder.
        assignment: the assignment's name.
        state: the calibration's fingerprint.
    """
    if not any(filled.iterdir()):  # as without a sandbox
        filled.rmdir()
        return
    prune_cache(filled)
    folder = _cache_folder(root, assignment, state)
    for earlier in _caches(root).iterdir():
        if earlier.name.rpartition(".")[0] == assignment and earlier != filled:
            shutil.rmtree(earlier, ignore_errors=True)
    filled.rename(folder)  # atomically


def _caches(root: Path) -> Path:
    return root / "grading" / "cache"


def _cache_folder(root: Path, assignment: str, state: str) -> Path:
    digest = f"{state[:DIGEST_CHARACTERS]}-{fingerprint_machine()[:DIGEST_CHARACTERS]}"
    return _caches(root) / f"{assignment}.{digest}"


def _only_we_can_write(folder: Path, root: Path) -> bool:
    """Check whether only we can write to a cache, its files and its parent folders up to a root."""
    if sys.platform == "win32":  # has no sandbox, and so no cache
        return False
    parents = [folder, *folder.parents]
    try:
        folders = parents[: parents.index(root) + 1]
        return all(_is_ours(path, stat.S_ISDIR) for path in folders) and all(
            _is_ours(file, stat.S_ISREG) for file in folder.iterdir()
        )
    except OSError:
        return False


def _is_ours(path: Path, is_type: Callable[[int], bool]) -> bool:
    """Check whether a path is of a type, is no link, and only we or root can write to it."""
    status = path.lstat()
    others = stat.S_IWOTH if _is_private_group(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP
    is_owner = status.st_uid in (0, os.getuid())
    return is_type(status.st_mode) and is_owner and not status.st_mode & others


def _is_private_group(group: int) -> bool:
    """Check whether a group is root's, or has our user's name and no other member."""
    if group == 0:
        return True
    groups, users = importlib.import_module("grp"), importlib.import_module("pwd")
    try:
        name, entry = users.getpwuid(os.getuid()).pw_name, groups.getgrgid(group)
    except KeyError:
        return False
    return bool(entry.gr_name == name) and {*entry.gr_mem} <= {name}


KEPT_COLUMNS: Final[Mapping[Any, Sequence[str]]] = {
    GradeCell: ("name", "max_score", "cell_type"),
    SolutionCell: ("name",),
    TaskCell: ("name", "max_score", "cell_type"),
    SourceCell: ("name", "cell_type", "source", "checksum", "locked"),
}
"""The kinds of cells in a gradebook, and the columns of each that are copied."""


@dataclass(frozen=True)
class AssignmentFacts:
    """The facts of an assignment that grading a submission needs.

    Attributes:
        assignment: the assignment's name.
        gradebook: the file of a gradebook with the assignment's cells and no students.
        files: the contents of the files beside the assignment's source, by path.
        config: nbgrader's configuration, without the address of the class's gradebook.
        sanitize_preprocessors: nbgrader's preprocessors that prepare a notebook for running.
        grade_preprocessors: those that run and judge it, without those that enter grades.
        time_limits: each notebook's time limit in seconds; None if the configuration decides.
        versions: the versions of the package and JAX, which a worker must have, too.
        secret: the class's secret, from which the seeds of inputs are derived.
        demonstrations: each released notebook's own cells, with the names that they bind.
    """

    assignment: str
    gradebook: bytes
    files: Mapping[str, bytes]
    config: Config
    sanitize_preprocessors: Sequence[Any]
    grade_preprocessors: Sequence[Any]
    time_limits: Mapping[str, int | None]
    versions: tuple[str, ...]
    secret: bytes
    demonstrations: Mapping[str, Demonstrations]


def collect_facts(coursedir: Any, config: Config, assignment: str) -> AssignmentFacts:
    """Collect the facts of an assignment.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the course.
        config: the configuration that submissions are graded by.
        assignment: the name of an assignment in the gradebook.
    """
    autograde = Autograde(coursedir=coursedir, config=config)
    gradebook, notebooks = _copy_without_students(coursedir, assignment)
    return AssignmentFacts(
        assignment,
        gradebook,
        dict(_read_files(autograde, assignment)),
        _without_address(config),
        list(autograde.sanitize_preprocessors),
        [each for each in autograde.autograde_preprocessors if not _writes_gradebook(each)],
        {name: time_limit(config, assignment, name) for name in notebooks},
        read_versions(),
        read_secret(Path(coursedir.root)),
        dict(_read_demonstrations(coursedir, assignment)),
    )


def _read_demonstrations(coursedir: Any, assignment: str) -> Iterator[tuple[str, Demonstrations]]:
    """Yield the name of each released notebook, and its own cells with the names that they bind."""
    folder = Path(coursedir.format_path(coursedir.release_directory, ".", assignment))
    for file in sorted(folder.glob("*.ipynb")):
        yield file.stem, find_demonstrations(nbformat.read(file, 4))


def _without_address(config: Config) -> Config:
    """Copy a configuration without the gradebook's address; a worker has its own gradebook."""
    copied = copy.deepcopy(config)
    copied.CourseDirectory.pop("db_url", None)
    return copied


def _writes_gradebook(preprocessor: Any) -> bool:
    """Check whether a preprocessor is one of nbgrader's that write to the gradebook."""
    kinds = (AssignLatePenalties, SaveAutoGrades)
    return isinstance(preprocessor, type) and issubclass(preprocessor, kinds)


def _read_files(autograde: Any, assignment: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files beside the source, without those that students may replace."""
    coursedir = autograde.coursedir
    source = Path(coursedir.format_path(coursedir.source_directory, ".", assignment))
    replaceable = {*autograde.exclude_overwriting.get(assignment, ())}
    for file in sorted(find_all_files(str(source), [*coursedir.ignore, "*.ipynb"])):
        name = str(Path(file).relative_to(source))
        if name not in replaceable:
            yield name, Path(file).read_bytes()


def _copy_without_students(coursedir: Any, assignment: str) -> tuple[bytes, list[str]]:
    """Make a gradebook with one assignment's cells; return its file and the notebooks' names."""
    with tempfile.TemporaryDirectory(prefix="shardlings-") as folder:
        file = Path(folder, "gradebook.db")
        with (
            Gradebook(coursedir.db_url, coursedir.course_id) as original,
            Gradebook(f"sqlite:///{file}") as copied,
        ):
            session: Any = copied.db
            new_assignment = copied.update_or_create_assignment(assignment)
            names = []
            for notebook in original.find_assignment(assignment).notebooks:
                names.append(notebook.name)
                new_notebook = Notebook(
                    name=notebook.name, kernelspec=notebook.kernelspec, assignment=new_assignment
                )
                cells = [*notebook._base_cells, *notebook.source_cells]
                session.add_all([new_notebook, *(_copy_cell(cell, new_notebook) for cell in cells)])
            session.commit()
        return file.read_bytes(), names


def _copy_cell(cell: Any, notebook: Any) -> Any:
    """Copy a cell into another gradebook's notebook."""
    kind = next(kind for kind in KEPT_COLUMNS if isinstance(cell, kind))
    return kind(notebook=notebook, **{name: getattr(cell, name) for name in KEPT_COLUMNS[kind]})
