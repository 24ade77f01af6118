"""Of a submission, what is graded: its notebook, by the worker's function, and the files it takes.

This stands between nbgrader's `Autograde` and the converter that it rests on, where files are
copied, and where a notebook would be read, run and written.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.converters import BaseConverter
from nbgrader.utils import find_all_files

from autograder.instructor.course import is_taken, left_out
from autograder.instructor.worker import Facts, Work, facts_of, is_saving, submission_in, work


class CheckedSubmission(BaseConverter):
    """Takes of a submission nothing that it has not looked at."""

    autograde_preprocessors: list[Any]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._facts: dict[str, Facts] = {}

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy the files beside the notebook that an exercise may need, and none else."""
        source = Path(self._format_source(assignment_id, student_id))
        copy = Path(self._format_dest(assignment_id, student_id))
        ignored = [*self.coursedir.ignore, "*.ipynb"]
        names = [Path(file).relative_to(source) for file in find_all_files(str(source), ignored)]
        for name in filter(is_taken, names):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).unlink(missing_ok=True)  # nbgrader leaves it read-only
            shutil.copy(source / name, copy / name)
        not_taken = left_out([name for name in names if not is_taken(name)])
        if not_taken:
            self.log.warning("%s, %s: %s", student_id, assignment_id, not_taken)

    def made_of(self, student: str, assignment: str, notebook: str) -> Work:
        """What is made of a notebook, and what is to lie beside it. It is made here and now.

        Raises:
            UnreadableError: it cannot be read.
            ReaderFailedError: no notebook can be read here.
        """
        folder = Path(self._format_source(assignment, student))
        handed_in = submission_in(folder, student, assignment, [notebook], self.coursedir.ignore)
        return work(handed_in, self.facts(assignment), self)

    def facts(self, assignment: str) -> Facts:
        """What is known of an assignment, once for all who handed it in."""
        if assignment not in self._facts:
            self._facts[assignment] = facts_of(self, assignment)
        return self._facts[assignment]

    def enter(self, made: Work, notebook: str, about: Any) -> None:
        """Enter what was made of a notebook: its files, and then its grades.

        Args:
            made: that.
            notebook: its name.
            about: what nbgrader knows of it.
        """
        who = about["nbgrader"]
        folder = Path(self._format_dest(who["assignment"], who["student"]))
        folder.mkdir(parents=True, exist_ok=True)
        for name, contents in made.kept.items():
            write_anew(folder / name, contents)
        self.exporter._preprocessors = []
        passes = list(self.autograde_preprocessors)
        saving = next((n for n, each in enumerate(passes) if is_saving(each)), len(passes))
        for each in passes[saving:]:
            self.exporter.register_preprocessor(each)
        graded = nbformat.reads(made.notebooks[notebook], 4)
        output, _ = self.exporter.from_notebook_node(graded, resources=about)
        write_anew(folder / f"{notebook}.ipynb", output.encode())


def write_anew(path: Path, contents: bytes) -> None:
    """Write a file that is there wholly, as it was or as it is to be, whenever this is killed."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.write_bytes(contents)
    os.replace(beside, path)
