"""An assignment's own two notebooks, graded as anybody's are, in a little course of their own.

The assignment is released into a gradebook of its own, so the class's hears nothing of it. Then the
notebook with solutions and the one that was released are graded as every submission is.
"""

import copy
import logging
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.exercises import BY_GRADE_ID
from autograder.instructor.course import NAMESPACE, reason
from autograder.instructor.pipeline import (
    Record,
    State,
    facts_of,
    grade,
    submission_in,
    write_anew,
)

SOLUTION: Final = "solution"
RELEASED: Final = "released"

LOG: Final = logging.getLogger("shardlings.calibration")
"""What nbgrader says of a trial: nobody's submission, so it is read, and not shown."""

LOG.propagate = False
LOG.addHandler(logging.NullHandler())  # else Python writes warnings to the terminal all the same


class TrialError(RuntimeError):
    """A notebook could not be graded at all."""


@dataclass(frozen=True)
class Graded:
    """How a notebook of an assignment's own did.

    Attributes:
        scores: of each cell that is graded without anybody's help, its score and its points.
        error: the first error that a cell ended in, and which cell; empty where none did.
        seconds: how long grading it took in all.
        cells: how long each of its code cells ran, by notebook.
        notebooks: where it lies, graded, in the course.
    """

    scores: dict[str, tuple[float, float]]
    error: str
    seconds: float
    cells: dict[str, list[float]]
    notebooks: list[Path]


class Trial:
    """A course in which an assignment's own notebooks are handed in.

    Args:
        coursedir: the course that they are from.
        config: its configuration.
        assignment: which.
        folder: where to make this one; what lies there is removed.

    Attributes:
        compiled: where what is compiled meanwhile is written down.
    """

    def __init__(self, coursedir: Any, config: Config, assignment: str, folder: Path) -> None:
        self.real, self.assignment, self.folder = coursedir, assignment, folder
        config = copy.deepcopy(config)
        config.CourseDirectory = Config(self._settings())
        config.CarefulAutograde.calibrate = False  # this is how it is done
        self.compiled = folder / "compiled"
        config.Sandbox.compiled = str(self.compiled)
        self.coursedir = CourseDirectory(config=config)
        self.api = NbGraderAPI(self.coursedir, config=config, log=LOG)

    def _settings(self) -> dict[str, Any]:
        """The real course's settings, with other places to write to."""
        real = self.real
        kept = {name: getattr(real, name) for name in real.trait_names(config=True)}
        within = self.folder.relative_to(real.root)
        return {
            **kept,
            "db_url": f"sqlite:///{self.folder / 'gradebook.db'}",
            "release_directory": str(within / "release"),
            "student_id": "*",
            "student_id_exclude": "",
            "notebook_id": "*",
        }

    def run(self) -> tuple[Graded, Graded]:
        """Grade the solution, and the released notebook.

        Raises:
            TrialError: one of them could not be graded; the message says which, and why.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        made = self.api.generate_assignment(self.assignment, force=True, create=True)
        if not made["success"]:
            raise TrialError(f"The solution cannot be released: {reason(made)}")
        # what a submission's kernel finds compiled is to have nothing of the solution in it
        self.api.config.Sandbox.filled_by = ["judges"]
        solution = self._graded(SOLUTION, self.real.source_directory)
        self.api.config.Sandbox.filled_by = ["kernels", "judges"]
        return solution, self._graded(RELEASED, self.real.release_directory)

    def _graded(self, student: str, directory: str) -> Graded:
        """Grade what a directory of the real course has for the assignment."""
        source = Path(self.real.format_path(directory, ".", self.assignment))
        if not source.is_dir():
            raise TrialError(f"There is no folder {source.relative_to(self.real.root)}.")
        facts = facts_of(self.coursedir, self.api.config, self.assignment)
        there = [name for name in facts.seconds if (source / f"{name}.ipynb").exists()]
        handed_in = submission_in(source, student, self.assignment, there, self.real.ignore)
        began = time.monotonic()
        done = grade(handed_in, facts)
        seconds = round(time.monotonic() - began, 3)
        if done.record.state is not State.GRADED:
            why = done.record.why.removeprefix("grading failed. ")
            raise TrialError(f"The {student} notebook cannot be graded: {why}")
        folder = self.folder / "autograded" / student / self.assignment
        folder.mkdir(parents=True)
        for name, text in done.notebooks.items():
            write_anew(folder / f"{name}.ipynb", text.encode())
        notebooks = {
            f"{name}.ipynb": nbformat.reads(text, 4) for name, text in done.notebooks.items()
        }
        return Graded(
            scores=dict(_scores(done.record, notebooks.values())),
            error=next((e for n in notebooks.values() for e in _errors(n, student)), ""),
            seconds=seconds,
            cells={name: _seconds(notebook) for name, notebook in notebooks.items()},
            notebooks=[(folder / name).relative_to(self.real.root) for name in notebooks],
        )


def _scores(record: Record, notebooks: Iterable[Any]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Scores and points of the cells that are graded by running them, by name."""
    found = {
        name: score for each in record.notebooks.values() for name, score in each.scores.items()
    }
    for cell in (cell for notebook in notebooks for cell in notebook.cells):
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade") and cell.cell_type == "code" and not about.get("solution"):
            yield about["grade_id"], (found[about["grade_id"]] or 0.0, about["points"])


def _errors(notebook: Any, student: str) -> Iterator[str]:
    """What cells ended in that are not graded by it, nor left to be filled in by others."""
    asked = [cell for cell in notebook.cells if _name(cell)]
    if student == RELEASED and not all(map(_is_ours, asked)):
        return  # what others leave to be filled in may raise, and so may what rests on it
    for number, cell in enumerate(notebook.cells, 1):
        expected = "raises-exception" in cell.metadata.get("tags", [])
        if expected or cell.metadata.get("nbgrader", {}).get("grade"):
            continue
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                said = f"{output.ename}: {output.evalue}".splitlines()[0][:200]
                yield f"“{said}”, in cell {number}"


def _name(cell: Any) -> str:
    """What nbgrader calls a cell that is graded or to be filled in."""
    about = cell.metadata.get("nbgrader", {})
    return about.get("grade_id", "") if about.get("grade") or about.get("solution") else ""


def _is_ours(cell: Any) -> bool:
    return bool({_name(cell), f"{_name(cell)}-check"} & BY_GRADE_ID.keys())


def _seconds(notebook: Any) -> list[float]:
    """How long each code cell ran that was run by `CaptureEvidence`."""
    took = (cell.metadata.get(NAMESPACE, {}).get("seconds") for cell in notebook.cells)
    return [seconds for seconds in took if seconds is not None]
