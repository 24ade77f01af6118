"""The course's folders, and nbgrader's own interface to them."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from os.path import isdir  # which is false of what may not be looked at
from pathlib import Path
from typing import Any, Final

from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

if sys.platform != "win32":
    import fcntl


class ReleaseError(RuntimeError):
    """A notebook cannot be made from its source; the message says which and why."""


NAMESPACE: Final = "shardlings"
"""What is ours stands under this name in nbconvert's resources, and in a cell's metadata."""

HELD: set[Path] = set()
"""The roots of the courses whose grades this process holds."""


class BusyError(RuntimeError):
    """Somebody else is grading here."""


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
        return NbGraderAPI(CourseDirectory(config=config), config=config)

    def assignments(self) -> list[str]:
        """The ids of all notebooks that have a source, in order."""
        folders = sorted(folder for folder in self.solutions.glob("*") if folder.is_dir())
        return [f.name for f in folders if (f / f"{f.name}.ipynb").exists()]

    def submissions(self) -> list[tuple[str, str]]:
        """Pairs of a student and an assignment that was handed in, in order."""
        known = set(self.assignments())
        handed_in = self.submitted.glob("*/*")
        return sorted((f.parent.name, f.name) for f in handed_in if isdir(f) and f.name in known)

    def unknown_submissions(self) -> list[Path]:
        """Folders of students whose name is no assignment's, in order."""
        known = set(self.assignments())
        return sorted(f for f in self.submitted.glob("*/*") if isdir(f) and f.name not in known)

    def closed_folders(self) -> list[Path]:
        """Folders of students in which whoever grades may not look, in order."""
        folders = sorted(filter(isdir, self.submitted.glob("*")))
        return [folder for folder in folders if not os.access(folder, os.R_OK | os.X_OK)]

    def remembered(self, student: str, assignment: str) -> str:
        """What `remember` was last told of a submission; empty where nothing."""
        place = self._memory(student, assignment)
        return place.read_text() if place.exists() else ""

    def remember(self, student: str, assignment: str, fingerprint: str) -> None:
        """Keep, beside a graded submission, which one it was that was graded."""
        place = self._memory(student, assignment)
        place.unlink(missing_ok=True)
        place.write_text(fingerprint)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the course's grades, so that no other grading writes them, and keep a copy.

        Within it, the same process may hold them again.

        Raises:
            BusyError: another process holds them.
        """
        if self.root in HELD:
            yield
            return
        self.grading.mkdir(exist_ok=True)
        with (self.grading / ".lock").open("w") as lock:
            try:
                if sys.platform != "win32":  # which has no such locks
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyError(
                    "Another grading is at work in this folder. Wait for its end; if it was "
                    "killed, its lock went with it."
                ) from None
            HELD.add(self.root)
            try:
                self._back_up()
                yield
            finally:
                HELD.remove(self.root)

    def _back_up(self) -> None:
        """Copy the gradebook, as it is, to `gradebook.backup.db` beside it."""
        book = self.grading / "gradebook.db"
        if book.exists():
            with (
                closing(sqlite3.connect(book)) as kept,
                closing(sqlite3.connect(book.with_name("gradebook.backup.db"))) as copy,
            ):
                kept.backup(copy)

    def _memory(self, student: str, assignment: str) -> Path:
        return self.autograded / student / assignment / f"{assignment}.graded"

    def release(self, assignment: str) -> None:
        """Make the notebook that students open, and enter the assignment into the gradebook.

        Raises:
            ReleaseError: nbgrader could not.
        """
        done = self.api.generate_assignment(assignment, force=True, create=True)
        if not done["success"]:
            raise ReleaseError(f"{assignment} cannot be released: {reason(done)}")


def reason(done: dict[str, str]) -> str:
    """What stopped nbgrader: the first exception in its log, for those after say less."""
    lines = [line.strip() for line in (done["log"] or "").splitlines()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    return errors[0] if errors else done["error"] or "nbgrader says no more."
