"""Release an assignment as a whole, or not at all, and keep the gradebook's cells in step with it.

nbgrader removes the old release before it makes the new one, enters cells while it is still making
it, and refuses to add or remove a cell once somebody has submitted. Here cells are entered after
the release is complete, and every submission gets a place for each new grade. When a submission is
graded, its cells get back their metadata, which editors and students lose.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import (
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SolutionCell,
    SourceCell,
    TaskCell,
)
from nbgrader.apps import api, generateassignmentapp
from nbgrader.converters import GenerateAssignment, NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor, SaveCells
from traitlets import Unicode

from autograder.instructor.course import NAMESPACE, BusyError, Course, GradebookError


@dataclass(frozen=True)
class Cells:
    """What the gradebook is to know of a notebook.

    Attributes:
        kernelspec: which kernel it is for, as JSON.
        about: of each cell, by its kind and its name.
    """

    kernelspec: str
    about: Mapping[type, Mapping[str, Mapping[str, Any]]]


class GatherCells(SaveCells):
    """nbgrader's `SaveCells`, which leaves it to the converter to enter what it has found."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Put what is to be entered among a notebook's resources."""
        nb, resources = super().preprocess(nb, resources)
        about = {
            GradeCell: self.new_grade_cells,
            SolutionCell: self.new_solution_cells,
            TaskCell: self.new_task_cells,
            SourceCell: self.new_source_cells,
        }
        kernelspec = json.dumps(nb.metadata.get("kernelspec", {}))
        resources[NAMESPACE] = {"cells": Cells(kernelspec, about)}
        return nb, resources

    def _create_notebook(self, nb: Any) -> None:
        """Enter nothing, in place of nbgrader's."""


def enter(gradebook: Gradebook, assignment: str, notebooks: Mapping[str, Cells]) -> list[str]:
    """Have the gradebook know of notebooks what it is to know. It is for the caller to commit.

    The grades and comments of a cell that has gone go with it. For a new one, each submission that
    there is has a grade without a score.

    Args:
        gradebook: one that knows the assignment.
        assignment: its name.
        notebooks: what is to be known of each of its notebooks, by name.

    Returns:
        The names of the cells that have gone.
    """
    session: Any = gradebook.db
    gone: list[str] = []
    with session.no_autoflush:  # what is half made is not to be written
        for name, cells in notebooks.items():
            try:
                notebook = gradebook.find_notebook(name, assignment)
            except MissingEntry:
                notebook = Notebook(name=name, assignment=gradebook.find_assignment(assignment))
                session.add(notebook)
            notebook.kernelspec = cells.kernelspec
            for kind, about in cells.about.items():
                gone += _enter(session, notebook, kind, about)
    session.flush()
    return gone


def _enter(
    session: Any, notebook: Notebook, kind: Any, about: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Update, add and remove a notebook's cells of one kind; the names of those removed."""
    cells: list[Any] = notebook.source_cells if kind is SourceCell else notebook._base_cells
    there = {cell.name: cell for cell in cells if isinstance(cell, kind)}
    for name, known in about.items():
        if name in there:
            for attribute, value in known.items():
                setattr(there[name], attribute, value)
        else:
            cell = kind(name=name, notebook=notebook, **known)
            session.add_all([cell, *_places(notebook, cell)])
    for name in there.keys() - about.keys():
        for handed_in in _of_submissions(there[name]):
            session.delete(handed_in)
        session.delete(there[name])
        yield name


def _places(notebook: Notebook, cell: Any) -> Iterator[Grade | Comment]:
    """What each submission that there is has to have for a new cell."""
    for submitted in notebook.submissions:
        if isinstance(cell, GradeCell | TaskCell):
            yield Grade(cell=cell, notebook=submitted)
        if isinstance(cell, SolutionCell | TaskCell):
            yield Comment(cell=cell, notebook=submitted)


def _of_submissions(cell: Any) -> list[Grade | Comment]:
    """What submissions have for a cell: `GradeCell` has no comments, and `SourceCell` nothing."""
    return [*(getattr(cell, "grades", None) or ()), *(getattr(cell, "comments", None) or ())]


class RestoreCells(NbGraderPreprocessor):
    """Restore the nbgrader metadata of every cell that the released notebook has.

    nbgrader believes a submission's own word on whether a cell is graded, by whom and for how many
    points, and stops at a cell that is there twice or not at all. Here a cell is known by its
    `grade_id`, or, where an editor dropped its metadata, by its cell id, which is the same; a
    second cell of that name, or one of an unknown name, becomes an ordinary cell; and a graded cell
    that is missing, be it a check, an essay or a task that was added since, is added at the end.
    `OverwriteCells`, which comes after this, restores sources.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Write what the gradebook has over what came."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(about["notebook"], about["assignment"])
            graded = {cell.name for cell in notebook.grade_cells}
            tasks = {cell.name for cell in notebook.task_cells}
            points = {c.name: c.max_score for c in (*notebook.grade_cells, *notebook.task_cells)}
            solutions = {cell.name for cell in notebook.solution_cells}
            known = {
                cell.name: {
                    "grade_id": cell.name,
                    "grade": cell.name in graded,
                    "solution": cell.name in solutions,
                    "locked": cell.locked,
                    "task": cell.name in tasks,
                    "cell_type": cell.cell_type,
                    "checksum": cell.checksum,
                    "schema_version": 3,
                    **({"points": points[cell.name]} if cell.name in points else {}),
                }
                for cell in notebook.source_cells
            }
            sources = {cell.name: cell.source for cell in notebook.source_cells}
        missing = dict(known)
        named = [cell for cell in nb.cells if _name(cell) in known]
        for cell in nb.cells:
            name = _name(cell)
            if name not in known and cell.get("id") in known and not _has(named, cell["id"]):
                name = cell["id"]
            cell.metadata.pop("nbgrader", None)
            if name in missing:
                cell.metadata["nbgrader"] = missing.pop(name)
        for name, metadata in missing.items():
            if metadata["grade"] or metadata["task"]:
                new = new_code_cell if metadata["cell_type"] == "code" else new_markdown_cell
                nb.cells.append(new(sources[name], metadata={"nbgrader": metadata}))
        return nb, resources


def _name(cell: Any) -> str | None:
    """The name that a cell's metadata gives it, if that is a name at all."""
    about = cell.metadata.get("nbgrader")
    name = about.get("grade_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def _has(cells: list[Any], name: str) -> bool:
    return any(_name(cell) == name for cell in cells)


class Publish(NbGraderPreprocessor):
    """Write the repository's address into a notebook, and unpair it from its text twin."""

    pyproject = Unicode("pyproject.toml", help="Where the repository's address stands.").tag(
        config=True
    )

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Replace `{{repository}}` and `{{repository_name}}` in every cell."""
        nb.metadata.pop("jupytext", None)
        if any("{{repository" in cell.source for cell in nb.cells):  # a course need not have one
            address = repository(Path(self.pyproject))
            for cell in nb.cells:
                named = cell.source.replace("{{repository}}", address)
                cell.source = named.replace("{{repository_name}}", urlparse(address).path[1:])
        return nb, resources


def repository(pyproject: Path) -> str:
    """The address of the course's repository, from `pyproject.toml`."""
    address: str = tomllib.loads(pyproject.read_text())["project"]["urls"]["Repository"]
    return address.removesuffix("/")


class CarefulGenerateAssignment(GenerateAssignment):
    """Makes a release beside the one that there is, and then replaces it, file by file."""

    def start(self) -> None:
        """Release what was asked for, while nobody grades; the gradebook is copied before.

        Raises:
            NbGraderException: somebody grades here, or a release could not be made.
        """
        try:
            with Course(Path(self.coursedir.root)).alone(self.coursedir.db_url):
                super().start()
        except (BusyError, GradebookError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Whether an assignment is to be released; nbgrader decides it on a copy.

        One that is there, as in a fresh clone, and that the gradebook has not heard of, is.
        """
        self.cells: dict[str, Cells] = {}
        released = self._released(assignment_id, student_id)
        copy = _beside(released)
        shutil.rmtree(copy, ignore_errors=True)  # of a release that was killed
        if released.exists():
            shutil.copytree(released, copy)
        wanted = super().init_destination(assignment_id, student_id) or self._is_new(assignment_id)
        if not wanted:
            shutil.rmtree(copy, ignore_errors=True)
        return bool(wanted)

    def _is_new(self, assignment_id: str) -> bool:
        """Whether the gradebook knows none of its notebooks."""
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            try:
                return not gradebook.find_assignment(assignment_id).notebooks
            except MissingEntry:
                return True

    def write_single_notebook(self, output: str, resources: Any) -> None:
        """Write a notebook, and note what the gradebook is to know of it."""
        super().write_single_notebook(output, resources)
        if NAMESPACE in resources:
            self.cells[resources["nbgrader"]["notebook"]] = resources[NAMESPACE]["cells"]

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        """Put what was made in its place: this is the last that nbgrader does of a release.

        The gradebook keeps what it is told only if the files are in place.
        """
        super().set_permissions(assignment_id, student_id)
        released = self._released(assignment_id, student_id)
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            gone = enter(gradebook, assignment_id, self.cells)
            _replace(released, _beside(released))
            gradebook.db.commit()
        if gone:
            names = ", ".join(sorted(set(gone)))
            self.log.warning("Cells that are gone, and what was graded of them: %s", names)

    def _released(self, assignment_id: str, student_id: str) -> Path:
        """Where the release is in the end."""
        return Path(os.path.normpath(super()._format_dest(assignment_id, student_id)))

    def _format_dest(self, assignment_id: str, student_id: str, escape: bool = False) -> str:
        """Where nbgrader makes it; it is this that it removes where it fails."""
        return str(_beside(self._released(assignment_id, student_id)))


def install_release() -> None:
    """Have nbgrader release carefully."""
    generateassignmentapp.GenerateAssignment = api.GenerateAssignment = CarefulGenerateAssignment


def _beside(released: Path) -> Path:
    """A folder beside another one, so that files can be moved from one to the other at once."""
    return released.with_name(f".{released.name}.new")


def _replace(old: Path, new: Path) -> None:
    """Move a folder's files over another's, one by one, so that at no time any is missing."""
    made = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    for name in made:
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / name, old / name)
    for path in [path for path in old.rglob("*") if path.is_file()]:
        if path.relative_to(old) not in made:
            path.unlink()
    shutil.rmtree(new)
