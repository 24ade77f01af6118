"""What the gradebook knows of a notebook's cells: entered with the release, and migrated.

nbgrader enters cells while it is still making a release, and refuses to add or remove any once
somebody has handed in. Here nothing is entered before all of a release is made, the gradebook's
cells become those of the source, and whoever has handed in gets a place for each new grade.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
from nbgrader.preprocessors import SaveCells

from autograder.instructor.course import NAMESPACE


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
