"""The facts of an assignment that grading needs, as data that can be sent to any machine.

nbgrader's preprocessors ask a gradebook about a notebook's cells, so the facts include a small
database with this assignment's cells and no student.

Two facts come from calibration. The time limit is a multiple of what the solution took here. The
compilation cache is filled by the assignment's own two notebooks, and belongs to one calibration,
one version of JAX and one kind of processor. It is machine code, so a folder that somebody else
could have written is not used.
"""

import copy
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
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

from autograder.instructor.pipeline.basis import versions
from autograder.instructor.sandbox import seal

TIME_FACTOR: Final = 20
"""How many times as long as the solution a submission may take."""

MIN_TIME_LIMIT_SECONDS: Final = 60
"""What is quick here may once be slow."""


class Calibration(msgspec.Struct, frozen=True):
    """A calibration that was passed.

    Attributes:
        fingerprint: the state that it holds for.
        seconds: how long grading the solution took.
        cells: how long each code cell of the solution ran, by notebook.
    """

    fingerprint: str
    seconds: float
    cells: dict[str, list[float]]


def memory(root: Path, assignment: str) -> Path:
    """The file in which a course keeps what its last good calibration of an assignment was."""
    return root / "grading" / "calibration" / f"{assignment}.json"


def remembered(file: Path) -> Calibration | None:
    """The last calibration that was good; None where there was none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Calibration)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def usual_seconds(root: Path, assignment: str) -> float:
    """How long grading an assignment's solution took here; 0 where that is not known."""
    calibration = remembered(memory(root, assignment))
    return calibration.seconds if calibration is not None else 0.0


def time_limit(config: Config, assignment: str, notebook: str) -> int | None:
    """How many seconds a notebook may run; None where that is not for calibration to say.

    Args:
        config: the configuration that it is graded by; `Sandbox.seconds` there wins.
        assignment: which it is of.
        notebook: its name, without what all notebooks end with.
    """
    root = config.CourseDirectory.get("root")
    told = "Sandbox.seconds" in config or config.CarefulAutograde.get("calibrate") is False
    if told or root is None:
        return None
    calibration = remembered(memory(Path(root), assignment))
    cells = calibration.cells.get(f"{notebook}.ipynb") if calibration is not None else None
    return (
        max(MIN_TIME_LIMIT_SECONDS, round(TIME_FACTOR * sum(cells))) if cells is not None else None
    )


SILENT: Final = (0, 10)
"""The JAX from which nothing is said where a program is found. Before, its library warns of each
that the processor may be another, on stderr, which is a part of a notebook's outputs."""

LETTERS: Final = 16
"""How many of each digest's letters a folder's name has."""

ABOUT: Final = ("model name", "flags", "Features", "CPU part")
"""What Linux says of a processor that decides which instructions it knows; by kind, not by core."""


def compiled_before(config: Config, assignment: str) -> str:
    """The folder with what was compiled when an assignment was calibrated; empty where none is.

    Args:
        config: the configuration that it is graded by; `Sandbox.compiled` there wins.
        assignment: which.
    """
    root = config.CourseDirectory.get("root")
    if "Sandbox.compiled" in config:
        return str(config.Sandbox.compiled)
    if root is None or config.CarefulAutograde.get("calibrate") is False:
        return ""
    try:
        calibration = remembered(memory(Path(root), assignment))
    except OSError:  # on a worker's machine, somebody else's folder may have the course's name
        return ""
    folder = calibration and _place(Path(root), assignment, calibration.fingerprint)
    return str(folder) if folder and _is_ours_alone(folder, Path(root)) else ""


def keep_compiled(filled: Path, root: Path, assignment: str, state: str) -> None:
    """Keep what a calibration compiled, in place of what others had.

    Args:
        filled: the folder that it was written to; it is gone afterwards.
        root: the course's folder.
        assignment: which.
        state: what the calibration holds for.
    """
    if not filled.is_dir() or _jax() < SILENT:  # in the first case there was no sandbox
        return
    seal(filled)
    place = _place(root, assignment, state)
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    filled.rename(place)  # so that there is never half of it


def _place(root: Path, assignment: str, state: str) -> Path:
    name = f"{state[:LETTERS]}-{_machine()[:LETTERS]}"
    return root / "grading" / "cache" / assignment / name


def _is_ours_alone(folder: Path, root: Path) -> bool:
    """Whether nobody else can write into a folder, or into any that it is in, up to a root."""
    if sys.platform == "win32":  # without bubblewrap nothing is kept
        return False
    within = [folder, *folder.parents]
    try:
        places = [*within[: within.index(root) + 1], *folder.iterdir()]
        files = (file for part in folder.iterdir() for file in part.iterdir())
        return all(_is_nobody_elses(place, stat.S_ISDIR) for place in places) and all(
            _is_nobody_elses(file, stat.S_ISREG) for file in files
        )
    except OSError:
        return False


def _is_nobody_elses(place: Path, is_one: Callable[[int], bool]) -> bool:
    """Whether only we, or root, can write into a folder or a file; links may lead elsewhere."""
    about = place.lstat()
    others = stat.S_IWOTH if _is_a_group_of_one(about.st_gid) else stat.S_IWOTH | stat.S_IWGRP
    ours = about.st_uid in (0, os.getuid())
    return is_one(about.st_mode) and ours and not about.st_mode & others


def _is_a_group_of_one(group: int) -> bool:
    """Whether a group is root's, or our own and of the same name, as many systems make for each."""
    if group == 0:
        return True
    groups, users = importlib.import_module("grp"), importlib.import_module("pwd")
    try:
        name, found = users.getpwuid(os.getuid()).pw_name, groups.getgrgid(group)
    except KeyError:
        return False
    return bool(found.gr_name == name) and {*found.gr_mem} <= {name}


def _jax() -> tuple[int, ...]:
    return tuple(map(int, importlib.metadata.version("jax").split(".")[:2]))


def _machine() -> str:
    """The versions of JAX and its library, and what the processor here understands."""
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    kinds = sorted({line for line in lines if line.startswith(ABOUT)})
    said = json.dumps([*versions, platform.machine(), *kinds])
    return hashlib.sha256(said.encode()).hexdigest()


KEPT_COLUMNS: Final[Mapping[Any, Sequence[str]]] = {
    GradeCell: ("name", "max_score", "cell_type"),
    SolutionCell: ("name",),
    TaskCell: ("name", "max_score", "cell_type"),
    SourceCell: ("name", "cell_type", "source", "checksum", "locked"),
}
"""The kinds of cells that a gradebook knows, and what it knows of each."""


@dataclass(frozen=True)
class Facts:
    """What a worker has to know of an assignment.

    Attributes:
        assignment: its name.
        gradebook: a gradebook's file with what its cells are.
        files: what the files beside its source hold, by their path.
        config: nbgrader's configuration, which does not say where the class's gradebook is.
        reads: the preprocessors that make of a notebook what is to be run.
        runs: those that run and judge it. Those that enter grades are not here.
        seconds: how long each notebook may run; None where the configuration says so.
        versions: the package's and JAX's, which have to be the worker's, too.
    """

    assignment: str
    gradebook: bytes
    files: Mapping[str, bytes]
    config: Config
    reads: Sequence[Any]
    runs: Sequence[Any]
    seconds: Mapping[str, int | None]
    versions: tuple[str, ...]


def facts_of(coursedir: Any, config: Config, assignment: str) -> Facts:
    """What is known of an assignment here.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the course.
        config: the configuration that submissions are graded by.
        assignment: one that the gradebook knows.
    """
    autograde = Autograde(coursedir=coursedir, config=config)
    gradebook, notebooks = _without_students(coursedir, assignment)
    return Facts(
        assignment,
        gradebook,
        dict(_files(autograde, assignment)),
        _without_address(config),
        list(autograde.sanitize_preprocessors),
        [each for each in autograde.autograde_preprocessors if not _enters(each)],
        {name: time_limit(config, assignment, name) for name in notebooks},
        versions(),
    )


def _without_address(config: Config) -> Config:
    """A configuration without where the class's gradebook is: workers have one of their own."""
    without = copy.deepcopy(config)
    without.CourseDirectory.pop("db_url", None)
    return without


def _enters(preprocessor: Any) -> bool:
    """Whether a preprocessor is one of nbgrader's that write to a gradebook."""
    kinds = (AssignLatePenalties, SaveAutoGrades)
    return isinstance(preprocessor, type) and issubclass(preprocessor, kinds)


def _files(autograde: Any, assignment: str) -> Iterator[tuple[str, bytes]]:
    """The files beside the source, but for those that a student's own may stand in place of."""
    coursedir = autograde.coursedir
    source = Path(coursedir.format_path(coursedir.source_directory, ".", assignment))
    theirs = {*autograde.exclude_overwriting.get(assignment, ())}
    for file in sorted(find_all_files(str(source), [*coursedir.ignore, "*.ipynb"])):
        name = str(Path(file).relative_to(source))
        if name not in theirs:
            yield name, Path(file).read_bytes()


def _without_students(coursedir: Any, assignment: str) -> tuple[bytes, list[str]]:
    """A gradebook that knows the cells of an assignment alone, and the names of its notebooks."""
    with tempfile.TemporaryDirectory(prefix="shardlings-") as folder:
        file = Path(folder, "gradebook.db")
        with (
            Gradebook(coursedir.db_url, coursedir.course_id) as known,
            Gradebook(f"sqlite:///{file}") as anew,
        ):
            session: Any = anew.db
            into = anew.update_or_create_assignment(assignment)
            names = []
            for notebook in known.find_assignment(assignment).notebooks:
                names.append(notebook.name)
                made = Notebook(name=notebook.name, kernelspec=notebook.kernelspec, assignment=into)
                cells = [*notebook._base_cells, *notebook.source_cells]
                session.add_all([made, *(_copy(cell, made) for cell in cells)])
            session.commit()
        return file.read_bytes(), names


def _copy(cell: Any, notebook: Any) -> Any:
    """A cell of another gradebook's notebook."""
    kind = next(kind for kind in KEPT_COLUMNS if isinstance(cell, kind))
    return kind(notebook=notebook, **{name: getattr(cell, name) for name in KEPT_COLUMNS[kind]})
