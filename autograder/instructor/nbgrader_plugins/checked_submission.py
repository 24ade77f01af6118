"""Of a submission, what is graded: its notebook written anew, and the files that are taken.

This stands between nbgrader's `Autograde` and the converter that it rests on, where files are
copied and the notebook is read.
"""

import shutil
from pathlib import Path
from typing import Any

from nbformat.v4 import new_markdown_cell
from nbgrader.converters import BaseConverter
from nbgrader.utils import find_all_files

from autograder.instructor.course import NAMESPACE, is_taken, left_out, read_apart
from autograder.instructor.nbgrader_plugins import notes


class CheckedSubmission(BaseConverter):
    """Takes of a submission nothing that it has not looked at."""

    _sanitizing: bool
    """Whether it is the notebook that was handed in that is read, and not the copy: nbgrader's."""

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
        self.not_taken = left_out([name for name in names if not is_taken(name)])
        if self.not_taken:
            self.log.warning("%s, %s: %s", student_id, assignment_id, self.not_taken)

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Convert a notebook; one that was handed in is not opened here.

        Raises:
            UnreadableError: it cannot be read.
            ReaderFailedError: no notebook can be read here.
        """
        if not self._sanitizing:
            super().convert_single_notebook(notebook_filename)
            return
        path = Path(notebook_filename)
        handed_in = read_apart(path, self.config)
        notebook = handed_in.notebook
        said = [sentence for sentence in (*handed_in.said, self.not_taken) if sentence]
        if said:
            notebook.cells.insert(0, _told(said))
        resources = self.init_single_notebook_resources(notebook_filename)
        resources["metadata"] = {"path": str(path.parent), "name": path.stem}
        output, resources = self.exporter.from_notebook_node(notebook, resources=resources)
        self.write_single_notebook(output, resources)
        notes.begin(Path(self.writer.build_directory), path.stem, said)


def _told(sentences: list[str]) -> Any:
    """A cell above all others that says what is missing; names in it are text, not markdown."""
    text = "\n\n".join(f"    {sentence}" for sentence in sentences)
    return new_markdown_cell(text, metadata={NAMESPACE: {"told": True}})


def is_told(cell: Any) -> bool:
    """Whether a cell is one that was put above what was handed in."""
    return "told" in cell.metadata.get(NAMESPACE, {})
