"""Release an assignment completely or not at all, and keep the gradebook's cells up to date.

nbgrader removes the old release before it makes the new one, enters cells while it is still making
it, and refuses to add or remove a cell once somebody has submitted. Here cells are entered after
the release is complete, and each submission gets an empty grade for each new graded cell. When a
submission is graded, the metadata of its cells, which editors and students may lose, is restored.
"""

import json
import os
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
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
from nbgrader.utils import compute_checksum

from autograder.instructor.course import NAMESPACE, BusyError, Course, GradebookError
from autograder.instructor.nbgrader_plugins.publishing import RefusedReleaseError


@dataclass(frozen=True)
class NotebookCells:
    """A released notebook's cells, to be entered into the gradebook.

    Attributes:
        kernelspec: the notebook's kernel specification, as JSON.
        attributes: each cell's attributes in the gradebook, by its gradebook class and its name.
    """

    kernelspec: str
    attributes: Mapping[type, Mapping[str, Mapping[str, Any]]]


class GatherCells(SaveCells):
    """nbgrader's `SaveCells`, except that the converter enters the cells, and later."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Put the cells to enter into the notebook's resources."""
        nb, resources = super().preprocess(nb, resources)
        attributes = {
            GradeCell: self.new_grade_cells,
            SolutionCell: self.new_solution_cells,
            TaskCell: self.new_task_cells,
            SourceCell: self.new_source_cells,
        }
        kernelspec = json.dumps(nb.metadata.get("kernelspec", {}))
        resources[NAMESPACE] = {"cells": NotebookCells(kernelspec, attributes)}
        return nb, resources

    def _create_notebook(self, nb: Any) -> None:
        """Enter nothing, unlike nbgrader's method."""


def enter_cells(
    gradebook: Gradebook, assignment: str, notebooks: Mapping[str, NotebookCells]
) -> list[str]:
    """Enter the cells of an assignment's notebooks into the gradebook; the caller commits.

    A cell that was removed is deleted with its grades and comments. For a new graded cell, each
    existing submission gets a grade without a score.

    Args:
        gradebook: the gradebook, which knows the assignment.
        assignment: the assignment's name.
        notebooks: the cells of each of its notebooks, by the notebook's name.

    Returns:
        The names of the cells that were deleted.
    """
    session: Any = gradebook.db
    deleted: list[str] = []
    with session.no_autoflush:  # else queries would write incomplete rows
        for name, cells in notebooks.items():
            try:
                notebook = gradebook.find_notebook(name, assignment)
            except MissingEntry:
                notebook = Notebook(name=name, assignment=gradebook.find_assignment(assignment))
                session.add(notebook)
            notebook.kernelspec = cells.kernelspec
            for kind, attributes in cells.attributes.items():
                deleted += _update_cells(session, notebook, kind, attributes)
    session.flush()
    return deleted


def _update_cells(
    session: Any, notebook: Notebook, kind: Any, attributes: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Update, add and delete a notebook's cells of one kind; yield the names of deleted ones."""
    cells: list[Any] = notebook.source_cells if kind is SourceCell else notebook._base_cells
    existing = {cell.name: cell for cell in cells if isinstance(cell, kind)}
    for name, values in attributes.items():
        if name in existing:
            for attribute, value in values.items():
                setattr(existing[name], attribute, value)
        else:
            cell = kind(name=name, notebook=notebook, **values)
            session.add_all([cell, *_make_submission_rows(notebook, cell)])
    for name in existing.keys() - attributes.keys():
        for row in _submission_rows(existing[name]):
            session.delete(row)
        session.delete(existing[name])
        yield name


def _make_submission_rows(notebook: Notebook, cell: Any) -> Iterator[Grade | Comment]:
    """Yield the grades and comments that existing submissions need for a new cell."""
    for submitted in notebook.submissions:
        if isinstance(cell, GradeCell | TaskCell):
            yield Grade(cell=cell, notebook=submitted)
        if isinstance(cell, SolutionCell | TaskCell):
            yield Comment(cell=cell, notebook=submitted)


def _submission_rows(cell: Any) -> list[Grade | Comment]:
    """Return submissions' grades and comments for a cell; some kinds of cell lack one or both."""
    return [*(getattr(cell, "grades", None) or ()), *(getattr(cell, "comments", None) or ())]


class RestoreCells(NbGraderPreprocessor):
    """Restores the nbgrader metadata of every cell that the released notebook has.

    nbgrader trusts a submission's metadata, which says whether a cell is graded, how, and for how
    many points, and it stops at a cell that is duplicated or missing. Here a cell is identified by
    its `grade_id`, or, if an editor dropped its metadata, by its cell id, which is the same. Of
    several cells with one name, the last counts, because a test has to be below its answer; of
    several answers, the last that was changed. The others, and cells with an unknown name, become
    ordinary cells. A missing graded cell, such as one that was released later, is added at the end.
    `OverwriteCells`, which runs after this, restores sources.

    A manually graded cell that was missing or duplicated needs a look, because its answer may be
    in another cell.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Replace the submission's metadata by the gradebook's."""
        known, sources = _read_known_cells(resources["nbgrader"])
        copies = _find_copies(nb, known)
        edited = [name for name in copies if _is_test(known[name]) and _is_edited(nb, copies[name])]
        for cell in nb.cells:
            cell.metadata.pop("nbgrader", None)
        for name, indices in copies.items():
            changed = [i for i in indices if nb.cells[i].source.strip() != sources[name].strip()]
            index = (changed if changed and known[name]["solution"] else indices)[-1]
            nb.cells[index] = _with_type(nb.cells[index], known[name]["cell_type"])
            nb.cells[index].metadata["nbgrader"] = known[name]
        missing = [name for name in known if name not in copies and _is_graded(known[name])]
        for name in missing:
            metadata = {"nbgrader": known[name]}
            nb.cells.append(NEW_CELL[known[name]["cell_type"]](sources[name], metadata=metadata))
        manual = {name for name in known if known[name]["grade"] and known[name]["solution"]}
        doubled = {name: copies[name] for name in manual & {*copies} if len(copies[name]) > 1}
        lost = sorted(manual & {*missing})
        deleted = [name for name in missing if _is_test(known[name])]
        resources[NAMESPACE] = {
            "needs_a_look": {*doubled, *lost},
            "notes": list(
                _describe_restored(bool(known) and not copies, lost, doubled, edited, deleted)
            ),
        }
        return nb, resources


NEW_CELL: Final = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


def _read_known_cells(names: Any) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the metadata and the sources of a released notebook's cells, by name."""
    with Gradebook(names["db_url"]) as gradebook:
        notebook = gradebook.find_notebook(names["notebook"], names["assignment"])
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
        return known, {cell.name: cell.source for cell in notebook.source_cells}


def _find_copies(nb: Any, known: Container[str]) -> dict[str, list[int]]:
    """Return the indices of the cells that have each known name."""
    copies: dict[str, list[int]] = {}
    grade_ids = [_read_grade_id(cell) for cell in nb.cells]
    for index, (name, cell) in enumerate(zip(grade_ids, nb.cells, strict=True)):
        if name not in known and cell.get("id") not in grade_ids:
            name = cell.get("id")
        if name is not None and name in known:
            copies.setdefault(name, []).append(index)
    return copies


def _read_grade_id(cell: Any) -> str | None:
    """Return the `grade_id` in a cell's metadata; None if there is none, or it is not text."""
    metadata = cell.metadata.get("nbgrader")
    name = metadata.get("grade_id") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else None


def _with_type(cell: Any, cell_type: str) -> Any:
    """Return a cell, or one of another type in its place, without what only its own type has."""
    if cell.cell_type == cell_type:
        return cell
    new = NEW_CELL[cell_type](cell.source, id=cell.id, metadata=cell.metadata)
    if cell_type != "code" and "attachments" in cell:
        new.attachments = cell.attachments
    return new


def _is_graded(metadata: Mapping[str, Any]) -> bool:
    return bool(metadata["grade"] or metadata["task"])


def _is_test(metadata: Mapping[str, Any]) -> bool:
    return bool(metadata["grade"] and not metadata["solution"])


def _is_edited(nb: Any, indices: Iterable[int]) -> bool:
    """Check whether one of some cells is another than the one whose checksum it still has."""
    for cell in (nb.cells[index] for index in indices):
        metadata = cell.metadata.get("nbgrader")
        released = metadata.get("checksum") if isinstance(metadata, dict) else None
        if released is not None and released != compute_checksum(cell):
            return True
    return False


def _describe_restored(
    has_no_cell: bool,
    lost: Sequence[str],
    doubled: Mapping[str, Sequence[int]],
    edited: Sequence[str],
    deleted: Sequence[str],
) -> Iterator[str]:
    """Yield sentences about cells that were missing or doubled, and about tests that differ."""
    if has_no_cell:
        yield (
            "It has none of the assignment's cells, so all that are graded were added at its end. "
            "Either it is another notebook, or a program removed the metadata of its cells."
        )
    elif lost:
        yield (
            f"Missing cells were added at the end: {', '.join(lost)}. Their answers may be in "
            f"other cells."
        )
    if deleted and not has_no_cell:
        yield f"These tests were missing, and were run at the end: {', '.join(deleted)}."
    if edited:
        yield (
            f"These tests were changed before it was handed in: {', '.join(edited)}. They were run "
            f"as they were released."
        )
    for name, indices in sorted(doubled.items()):
        numbers = " and ".join(str(index + 1) for index in indices)
        yield (
            f"The cell {name} is there {len(indices)} times, as cells {numbers}. All of them are "
            f"read when it is graded by hand."
        )


class ReleaseInPlace(GenerateAssignment):
    """Makes a release beside the old one, and then replaces the old one, file by file."""

    def start(self) -> None:
        """Make the chosen releases, holding the class's lock; the gradebook is backed up first.

        Raises:
            NbGraderException: another process is grading here, or a release could not be made.
        """
        try:
            with Course(Path(self.coursedir.root)).hold_lock(self.coursedir.db_url):
                super().start()
        except (BusyError, GradebookError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Return whether to release an assignment, which nbgrader decides on a copy.

        It is also released if there is a release but the gradebook has none of its notebooks, as
        in a fresh clone.
        """
        self.cells: dict[str, NotebookCells] = {}
        released = self._release_folder(assignment_id, student_id)
        copy = _staging_folder(released)
        shutil.rmtree(copy, ignore_errors=True)  # from a release that was killed
        if released.exists():
            shutil.copytree(released, copy)
        wanted = super().init_destination(assignment_id, student_id) or self._is_new(assignment_id)
        if not wanted:
            shutil.rmtree(copy, ignore_errors=True)
        return bool(wanted)

    def _is_new(self, assignment_id: str) -> bool:
        """Check whether the gradebook has none of an assignment's notebooks."""
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            try:
                return not gradebook.find_assignment(assignment_id).notebooks
            except MissingEntry:
                return True

    def write_single_notebook(self, output: str, resources: Any) -> None:
        """Write a notebook, and keep its cells, which are entered later."""
        super().write_single_notebook(output, resources)
        if NAMESPACE in resources:
            self.cells[resources["nbgrader"]["notebook"]] = resources[NAMESPACE]["cells"]

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        """Set permissions, and then replace the old release and enter its cells.

        This is nbgrader's last step of a release. The cells are committed only once the files are
        in place.
        """
        super().set_permissions(assignment_id, student_id)
        released = self._release_folder(assignment_id, student_id)
        _check_no_solution(_staging_folder(released))
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            deleted = enter_cells(gradebook, assignment_id, self.cells)
            _replace(released, _staging_folder(released))
            gradebook.db.commit()
        if deleted:
            names = ", ".join(sorted(set(deleted)))
            self.log.warning("Deleted these cells, with their grades and comments: %s", names)

    def _release_folder(self, assignment_id: str, student_id: str) -> Path:
        """Return the folder of the finished release."""
        return Path(os.path.normpath(super()._format_dest(assignment_id, student_id)))

    def _format_dest(self, assignment_id: str, student_id: str, escape: bool = False) -> str:
        """Return the folder in which nbgrader makes a release, and which it removes on failure."""
        return str(_staging_folder(self._release_folder(assignment_id, student_id)))


def install_release() -> None:
    """Make nbgrader and Formgrader use `ReleaseInPlace`."""
    generateassignmentapp.GenerateAssignment = api.GenerateAssignment = ReleaseInPlace


def _check_no_solution(folder: Path) -> None:
    """Check that no file beside the notebooks has a solution in it, as a text twin has.

    Raises:
        RefusedReleaseError: one has.
    """
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".ipynb" and b"BEGIN SOLUTION" in path.read_bytes():
            raise RefusedReleaseError(
                f"{path.relative_to(folder)} has BEGIN SOLUTION in it, and files beside a notebook "
                f"are released as they are. Move it, or name it in c.CourseDirectory.ignore at the "
                f"end of nbgrader_config.py."
            )


def _staging_folder(released: Path) -> Path:
    """Return a folder beside another one, on the same disk, so that moving files is atomic."""
    return released.with_name(f".{released.name}.new")


def _replace(old: Path, new: Path) -> None:
    """Move a folder's files over another's, one by one, so that no file is missing at any time."""
    moved = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    for name in moved:
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(new / name, old / name)
    for path in [path for path in old.rglob("*") if path.is_file()]:
        if path.relative_to(old) not in moved:
            path.unlink()
    shutil.rmtree(new)
