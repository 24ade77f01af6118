"""nbgrader's own releasing, made careful: a release is made as a whole, or not at all.

nbgrader removes what was released, and then makes it anew, or fails to; and it tells the gradebook
of each notebook while others may still fail.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import api, generateassignmentapp
from nbgrader.converters import GenerateAssignment, NbGraderException

from autograder.instructor.course import NAMESPACE, BusyError, Course, GradebookError
from autograder.instructor.nbgrader_plugins.saved_cells import Cells, enter


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
