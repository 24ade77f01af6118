"""What is known of an assignment, whoever hands in, as data that can be sent to any machine.

nbgrader's preprocessors ask a gradebook what the cells of a notebook are to be. They are given one:
a file with this assignment's cells in it, and nobody's grades.
"""

import copy
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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

from autograder.instructor.pipeline.time_limits import time_limit
from autograder.instructor.pipeline.versions import versions

KINDS: Final[Mapping[Any, Sequence[str]]] = {
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
    kind = next(kind for kind in KINDS if isinstance(cell, kind))
    return kind(notebook=notebook, **{name: getattr(cell, name) for name in KINDS[kind]})
