"""The course's folders, and nbgrader's own interface to them."""

from functools import cached_property
from pathlib import Path
from typing import Any

from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader


class Course:
    """One checkout of the course, with a class's grades in `grading/`.

    Attributes:
        root: the folder with `nbgrader_config.py`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.solutions = self.root / "solutions"
        self.released = self.root / "course"
        self.grading = self.root / "grading"
        self.submitted = self.grading / "submitted"
        self.autograded = self.grading / "autograded"
        self.feedback = self.grading / "feedback"

    @cached_property
    def api(self) -> Any:
        """The interface of nbgrader, as Formgrader uses it, with this checkout's configuration."""
        config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        self.grading.mkdir(exist_ok=True)
        return NbGraderAPI(CourseDirectory(config=config), config=config)

    def assignments(self) -> list[str]:
        """The ids of all notebooks that have a source, in order."""
        return sorted(path.stem for path in self.solutions.glob("*/*.ipynb"))

    def submissions(self) -> list[tuple[str, str]]:
        """Pairs of a student and an assignment that was handed in, in order."""
        known = set(self.assignments())
        return sorted(
            (folder.parent.name, folder.name)
            for folder in self.submitted.glob("*/*")
            if folder.is_dir() and folder.name in known
        )

    def release(self, assignment: str) -> None:
        """Make the notebook that students open, and enter the assignment into the gradebook.

        Raises:
            RuntimeError: nbgrader could not; the message is its log.
        """
        done = self.api.generate_assignment(assignment, force=True, create=True)
        if not done["success"]:
            raise RuntimeError(f"{assignment} cannot be released:\n{done['log']}\n{done['error']}")
