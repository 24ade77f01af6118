"""The course's folders, nbgrader's own interface to them, and files that lie where none belong."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cached_property
from os.path import isdir  # which is false of what may not be looked at
from pathlib import Path
from typing import Any, Final

from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from autograder.instructor.course.names import printable
from autograder.instructor.gradebook import (
    GradebookError,
    back_up,
    file_of,
    held_anywhere,
    held_here,
    is_server,
    shown,
    trouble_in,
)

SUBMISSION_PATH: Final = "grading/submitted/<student>/<assignment>/<assignment>.ipynb"

MAX_NAMED: Final = 10
"""How many files are named that are misplaced in the same way."""


def misplaced(submitted: Path, assignments: Sequence[str]) -> Iterator[str]:
    """What is not looked at, in sentences.

    Args:
        submitted: the folder with submissions.
        assignments: the names of all assignments.
    """
    students = sorted(folder for folder in submitted.glob("*") if not _is_hidden(folder))
    yield from _listed(
        [printable(file.name) for file in students if not isdir(file)],
        "directly in grading/submitted/",
        f"A notebook belongs in {SUBMISSION_PATH}; a zip file of a learning platform is taken "
        f"in with make "
        f"collect FROM=<file>",
    )
    known = set(assignments)
    for student in filter(isdir, students):
        yield from _of_student(student, assignments, known)


def _of_student(student: Path, assignments: Sequence[str], known: set[str]) -> Iterator[str]:
    shown = f"grading/submitted/{printable(student.name)}"
    if not os.access(student, os.R_OK | os.X_OK):
        yield f"{shown} was left alone: whoever grades may not look into it."
        return
    inside = sorted(each for each in student.iterdir() if not _is_hidden(each))
    yield from _listed(
        [printable(file.name) for file in inside if not isdir(file)],
        f"directly in {shown}/",
        f"A notebook belongs in {SUBMISSION_PATH}",
    )
    folders = [folder.name for folder in inside if isdir(folder)]
    folders = [folder for folder in folders if folder not in known]
    if folders and student.name in known:
        yield (
            f"{shown} was left alone: {student.name} is the name of an assignment, and not of a "
            f"student, whose folder is the outer one: {SUBMISSION_PATH}. In it {_are(folders)}: "
            f"if that is who handed it in, exchange the names of the two folders."
        )
        return
    for folder in folders:
        near = get_close_matches(folder, assignments, 1)
        meant = f"Is {near[0]} meant? " if near else ""
        yield (
            f"{shown}/{printable(folder)} was left alone: there is no assignment of that name. "
            f"{meant}There are {', '.join(assignments)}."
        )


def _listed(names: Sequence[str], where: str, what_to_do: str) -> Iterator[str]:
    if names:
        lies, was = ("lies", "was") if len(names) == 1 else ("lie", "were")
        yield f"{_some(names)} {lies} {where}, and {was} left alone. {what_to_do}."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"


def _are(names: Sequence[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    return f"{verb} {_some([printable(name) for name in names])}"


def _is_hidden(path: Path) -> bool:
    """Whether it is of those that systems leave everywhere."""
    return path.name.startswith(".") or path.name in ("__MACOSX", "Thumbs.db", "desktop.ini")


class ReleaseError(RuntimeError):
    """A notebook cannot be made from its source; the message says which and why."""


NAMESPACE: Final = "shardlings"
"""What is ours stands under this name in nbconvert's resources, and in a cell's metadata."""

HELD: set[Path] = set()
"""The roots of the courses whose grades this process holds."""


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
        self.backups = self.grading / "backups"
        self.records = self.grading / "records"

    @cached_property
    def api(self) -> Any:
        """The interface of nbgrader, as Formgrader uses it, with this checkout's configuration."""
        config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        before = logging.root.manager.disable
        logging.disable()  # it looks whether there is an exchange, and complains that there is none
        try:
            return NbGraderAPI(CourseDirectory(config=config), config=config)
        finally:
            logging.disable(before)

    def assignments(self) -> list[str]:
        """The ids of all notebooks that have a source, in order."""
        folders = sorted(folder for folder in self.solutions.glob("*") if folder.is_dir())
        return [f.name for f in folders if (f / f"{f.name}.ipynb").exists()]

    def submissions(self) -> list[tuple[str, str]]:
        """Pairs of a student and an assignment that was handed in, in order."""
        known = set(self.assignments())
        handed_in = self.submitted.glob("*/*")
        return sorted((f.parent.name, f.name) for f in handed_in if isdir(f) and f.name in known)

    @contextmanager
    def alone(self, url: str = "", rebuilds: bool = False) -> Iterator[None]:
        """Hold the course's grades, so that no other grading writes them.

        Before anything else the gradebook is copied. Within it, the same process may hold them
        again.

        Args:
            url: the gradebook, where it is not the one that the course's configuration names.
            rebuilds: whether the caller makes a gradebook again that is lost or damaged.

        Raises:
            BusyError: another process holds them.
            GradebookError: the gradebook cannot be reached or copied, or is lost or damaged.
        """
        if self.root in HELD:
            yield
            return
        self.grading.mkdir(exist_ok=True)
        url = url or self.api.coursedir.db_url
        if self.api.coursedir.groupshared:
            share(self.grading, file_of(url))
        with held_here(self.grading / ".lock"), held_anywhere(url):
            trouble = self.trouble(url)
            if trouble and not rebuilds:
                raise GradebookError(f"{trouble} make grade makes it again.")
            if not trouble:
                back_up(url, self.backups)
            HELD.add(self.root)
            try:
                yield
            finally:
                HELD.remove(self.root)
                if self.api.coursedir.groupshared:  # SQLite gives a new file to its owner alone
                    share(self.grading, file_of(url))

    def trouble(self, url: str = "") -> str:
        """What is wrong with the gradebook, in a sentence; empty where nothing is.

        Where nothing has been graded yet there need not be one.
        """
        own = self.api.coursedir.db_url
        if is_server(own) or url not in ("", own):
            return ""
        url = own
        trouble, is_graded = trouble_in(file_of(url)), any(self.records.glob("*/*.json"))
        if not is_graded and not trouble.startswith("is damaged"):
            return ""
        return f"The gradebook {shown(url)} {trouble}." if trouble else ""

    def misplaced(self) -> list[str]:
        """What lies among the submissions and is none, in sentences."""
        return list(misplaced(self.submitted, self.assignments()))

    def release(self, assignment: str) -> None:
        """Make the notebook that students open, and enter its cells into the gradebook.

        Raises:
            ReleaseError: nbgrader could not. Both are as they were.
        """
        done = self.api.generate_assignment(assignment, force=True, create=True)
        if not done["success"]:
            raise ReleaseError(f"{assignment} cannot be released: {reason(done)}")

    def cannot_release(self, assignment: str) -> str:
        """Release an assignment; why that cannot be done, and nothing where it is done."""
        try:
            self.release(assignment)
        except ReleaseError as error:
            return str(error)
        return ""


def share(folder: Path, gradebook: Path) -> None:
    """Have all that is made in a class's folder from here on be its whole group's, to write to.

    Only an owner can change who may write; what another of the group owns is so already.
    """
    os.umask(0o002)
    for path, mode in ((folder, 0o2770), (gradebook, 0o660)):
        with suppress(OSError):
            if path.stat().st_mode & mode != mode:
                path.chmod(path.stat().st_mode & 0o7777 | mode)


def reason(done: dict[str, str]) -> str:
    """What stopped nbgrader: the first exception in its log, for those after say less."""
    lines = [line.strip() for line in (done["log"] or "").splitlines()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    errors = [re.sub(r"^autograder[\w.]*\.(\w+: )", r"\1", line) for line in errors]
    return errors[0] if errors else done["error"] or "nbgrader says no more."
