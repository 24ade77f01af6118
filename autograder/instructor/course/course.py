"""A course: its folders, nbgrader's API for them, its lock, and misplaced files in it."""

import logging
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from difflib import get_close_matches
from functools import cache, cached_property, partial
from os.path import exists, isdir, join  # no errors, but False, for a path without permission
from pathlib import Path
from typing import Any, Final

from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from autograder.instructor.commands import list_some, printable
from autograder.instructor.course.class_tables import read_withdrawn
from autograder.instructor.course.reading_submissions import (
    explain_missing_notebook,
    find_unsafe_file,
)
from autograder.instructor.course.written_tables import compose_name
from autograder.instructor.gradebook import (
    GradebookError,
    back_up,
    explain_rebuild,
    find_damage,
    gradebook_file,
    has_grades,
    hide_secrets,
    hold_folder_lock,
    hold_server_lock,
    is_server,
    watch_file,
)
from shardlings.errors import ShortError

SUBMISSION_PATH: Final = "grading/submitted/<student>/<assignment>/<assignment>.ipynb"

MAX_NAMED_FILES: Final = 10
"""The maximum number of names in one sentence about misplaced files."""


def find_misplaced_files(
    submitted: Path, assignments: Sequence[str], left_out: Collection[str] = ()
) -> Iterator[str]:
    """Yield a sentence for each kind of file or folder that grading ignores.

    Args:
        submitted: the folder with submissions.
        assignments: the names of all assignments.
        left_out: students about whose folders nothing is said.
    """
    folders = (f for f in submitted.glob("*") if compose_name(f.name) not in left_out)
    students = sorted(folder for folder in folders if not _is_hidden(folder))
    yield from _describe_misplaced(
        [printable(file.name) for file in students if not isdir(file)],
        "directly in grading/submitted/",
        f"A notebook belongs in {SUBMISSION_PATH}; a zip file of a learning platform is taken "
        f"in with make "
        f"collect FROM=<file>",
    )
    known = set(assignments)
    for student in filter(isdir, students):
        yield from _misplaced_of_student(student, assignments, known)


def _is_open(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def _misplaced_of_student(
    student: Path, assignments: Sequence[str], known: set[str]
) -> Iterator[str]:
    shown = f"grading/submitted/{printable(student.name)}"
    if not _is_open(student):
        yield (
            f"{shown} was skipped: this account may not read it. Run chmod u+rx "
            f"{shlex.quote(shown)}, then make grade."
        )
        return
    paths = sorted(each for each in student.iterdir() if not _is_hidden(each))
    yield from _describe_misplaced(
        [printable(file.name) for file in paths if not isdir(file)],
        f"directly in {shown}/",
        f"A notebook belongs in {SUBMISSION_PATH}",
    )
    folders = [folder.name for folder in paths if isdir(folder)]
    folders = [folder for folder in folders if folder not in known]
    if folders and student.name in known:
        yield (
            f"{shown} was skipped: {student.name} is the name of an assignment, and not of a "
            f"student, whose folder is the outer one: {SUBMISSION_PATH}. In it "
            f"{_list_with_verb(folders)}: if that is who handed it in, exchange the names of the "
            f"two folders."
        )
        return
    for folder in folders:
        similar = get_close_matches(folder, assignments, 1)
        meant = f"Is {similar[0]} meant? " if similar else ""
        yield (
            f"{shown}/{printable(folder)} was skipped: there is no assignment of that name. "
            f"{meant}There are {', '.join(assignments)}."
        )


def _describe_misplaced(names: Sequence[str], where: str, what_to_do: str) -> Iterator[str]:
    if names:
        are, were = ("is", "was") if len(names) == 1 else ("are", "were")
        some = list_some(names, MAX_NAMED_FILES)
        yield f"{some} {are} {where}, and {were} skipped. {what_to_do}."


def _list_with_verb(names: Sequence[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    return f"{verb} {list_some([printable(name) for name in names], MAX_NAMED_FILES)}"


def _is_hidden(path: Path) -> bool:
    """Check whether a path is hidden, or one that operating systems leave everywhere."""
    return path.name.startswith(".") or path.name in ("__MACOSX", "Thumbs.db", "desktop.ini")


class ReleaseError(ShortError, RuntimeError):
    """A notebook cannot be generated from its source; the message says which and why."""


NAMESPACE: Final = "shardlings"
"""The key of our data in nbconvert's resources and in cells' metadata."""

NOT_RUN: Final = "NotRun"
"""The name of the error that stands in for a test's, if the kernel died before it had ended."""

REBUILDING_FILE: Final = "gradebook.rebuilding"
"""The marker file of a rebuild of the gradebook; it has the time of the backup that is used."""

COPY_NUMBER: Final = re.compile(r"(?:[ _-]?\(\d{1,3}\)|-Copy\d{1,3}|[ _-]copy)+$", re.IGNORECASE)
"""Matches what browsers, JupyterLab and file managers add to the name of a copy."""

NOT_REBUILT: Final = (
    "The gradebook is being made again, and that was stopped before its end, so its scores are "
    "old. make grade goes on with it."
)

LOCKED_ROOTS: set[Path] = set()
"""The roots of the courses whose lock this process holds."""


class Course:
    """A checkout of the course, with a class's grades in `grading/`.

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
        """The API of nbgrader with this checkout's configuration, as Formgrader uses it."""
        config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        old_level = logging.root.manager.disable
        logging.disable()  # it warns that there is no exchange
        try:
            return NbGraderAPI(CourseDirectory(config=config), config=config)
        finally:
            logging.disable(old_level)

    def assignments(self) -> list[str]:
        """Return the names of all assignments, in order."""
        folders = sorted(folder for folder in self.solutions.glob("*") if folder.is_dir())
        return [f.name for f in folders if (f / f"{f.name}.ipynb").exists()]

    def notebooks(self) -> dict[str, str]:
        """Return the assignment of each notebook, by the notebook's name.

        An assignment's folder may have other notebooks beside that of its name. A name that several
        assignments have is left out, unless it is the name of one.
        """
        first = {name: name for name in self.assignments()}
        assignments_by_name: dict[str, list[str]] = {}
        for assignment in first:
            for path in sorted((self.solutions / assignment).glob("[!.]*.ipynb")):
                assignments_by_name.setdefault(path.stem, []).append(assignment)
        return {
            name: assignments[0]
            for name, assignments in assignments_by_name.items()
            if len(assignments) == 1
        } | first

    def has_submitted_files(self) -> bool:
        """Check whether there is anything in the folder with submissions, except hidden files.

        Raises:
            OSError: the folder cannot be read.
        """
        return any(not path.name.startswith(".") for path in list_folder(self.submitted))

    def submissions(self, everybody: bool = False) -> list[tuple[str, str]]:
        """Return the student and the assignment of each submission, in order.

        Args:
            everybody: whether to include students who have withdrawn.
        """
        known = set(self.assignments())
        left_out = {} if everybody else read_withdrawn(self.grading)
        students = (f for f in list_folder(self.submitted) if compose_name(f.name) not in left_out)
        return sorted(
            (folder.name, assignment)
            for folder in students
            for assignment in known.intersection(_list_folders(folder))
        )

    def has_graded_notebook(self, student: str, assignment: str) -> bool:
        """Check whether a submission's graded notebook, of its assignment's name, is kept."""
        return exists(join(self.autograded, student, assignment, f"{assignment}.ipynb"))

    def find_submission_problem(self, student: str, assignment: str) -> str:
        """Return why a submission cannot be graded, before its notebooks are read; or empty."""
        folder = self.submitted / student / assignment
        path = folder / f"{assignment}.ipynb"
        problem = find_unsafe_file(folder)
        if problem or path.is_file():
            return problem
        names = [name for name, other in self.notebooks().items() if other == assignment]
        return explain_missing_notebook(path, names)

    def find_closed_students(self) -> list[str]:
        """Return the students whose folders with submissions may not be read here."""
        folders = filter(isdir, list_folder(self.submitted))
        return [folder.name for folder in folders if not _is_open(folder)]

    @contextmanager
    def hold_lock(self, url: str = "", rebuilds: bool = False, keep: str = "") -> Iterator[None]:
        """Hold the course's lock within a `with` block, so that nobody else writes grades.

        The gradebook is backed up first. The process that holds the lock may enter again.

        Args:
            url: the gradebook's address, if it is not the one in the course's configuration.
            rebuilds: whether the caller will rebuild a lost or damaged gradebook.
            keep: the name of an old backup that is not deleted, because the caller restores it.

        Raises:
            BusyError: another process holds the lock.
            GradebookError: the gradebook cannot be reached or backed up, or is lost or damaged,
                also while the block is at work.
        """
        if self.root in LOCKED_ROOTS:
            yield
            return
        self.grading.mkdir(exist_ok=True)
        url = url or self.api.coursedir.db_url
        is_shared = self.api.coursedir.groupshared
        sharing = share_folder(self.grading, gradebook_file(url)) if is_shared else nullcontext()
        with sharing, hold_folder_lock(self.grading / ".lock"), hold_server_lock(url):
            trouble = self.explain_trouble(url)
            if trouble and not rebuilds:
                raise GradebookError(trouble)
            if not trouble:
                back_up(url, self.backups, keep)
            file, explain = gradebook_file(url), partial(explain_rebuild, self.backups)
            with self.within_callers_lock(), watch_file(file, explain):
                yield

    @contextmanager
    def within_callers_lock(self) -> Iterator[None]:
        """Work within the course's lock, which the process that asked for the work holds."""
        if self.root in LOCKED_ROOTS:
            yield
            return
        LOCKED_ROOTS.add(self.root)
        try:
            yield
        finally:
            LOCKED_ROOTS.remove(self.root)

    def find_trouble(self, url: str = "") -> str:
        """Return a sentence about what is wrong with the gradebook; empty if it is sound.

        Before the first grading it may be missing. Only the configured gradebook is checked, and
        only if it is a file.

        Raises:
            GradebookError: that cannot be known now, because it is locked or cannot be read.
        """
        configured_url = self.api.coursedir.db_url
        if is_server(configured_url) or url not in ("", configured_url):
            return ""
        url = configured_url
        trouble = find_damage(gradebook_file(url))
        is_graded = any(map(list_folder, list_folder(self.records)))
        if not is_graded and not trouble.startswith("is damaged"):
            return ""
        if not trouble and any(self.autograded.glob("*/*/*.ipynb")) and not has_grades(url):
            # any command of nbgrader makes an empty gradebook in the place of a lost one
            trouble = "has no grades, although submissions were graded"
        return f"The gradebook {hide_secrets(url)} {trouble}." if trouble else ""

    def explain_trouble(self, url: str = "") -> str:
        """Return what is wrong with the gradebook, and what can be made again of it; or nothing.

        Raises:
            GradebookError: that cannot be known now, because it is locked or cannot be read.
        """
        trouble = self.find_trouble(url)
        if trouble:
            return f"{trouble} {explain_rebuild(self.backups)}"
        is_own = url in ("", self.api.coursedir.db_url)
        return NOT_REBUILT if is_own and (self.grading / REBUILDING_FILE).exists() else ""

    def find_misplaced_files(self, student: str = "") -> list[str]:
        """Return sentences about solutions and submissions that grading ignores.

        Args:
            student: the only student whose files they may name; empty for all.
        """
        left_out: Collection[str] = read_withdrawn(self.grading)
        if student:
            names = {compose_name(path.name) for path in self.submitted.glob("*")}
            left_out = names - {compose_name(student)}
        return [
            *self.find_misnamed_solutions(),
            *find_misplaced_files(self.submitted, self.assignments(), left_out),
            *self._find_copies(student),
        ]

    def _find_copies(self, only: str) -> Iterator[str]:
        """Yield a sentence for each assignment with notebooks beside those that are graded."""
        copies: dict[str, list[str]] = {}  # by the notebook that they are beside
        renamed: list[str] = []
        graded_in = cache(self._list_graded_notebooks)
        for student, assignment in self.submissions():
            if only not in ("", student):
                continue
            graded = graded_in(assignment)
            submission = self.submitted / student / assignment
            if exists(submission / f"{assignment}.ipynb"):
                submitted = {path.name for path in submission.glob("[!.]*.ipynb")}
                for name in sorted(submitted - graded):
                    meant = _without_copy_number(name)
                    if meant in graded - submitted:
                        renamed.append(f"{name} of {student} (to {meant})")
                        continue
                    original = meant if meant in graded else f"{assignment}.ipynb"
                    copies.setdefault(original, []).append(f"{name} of {student}")
        if renamed:
            yield f"These notebooks are not graded until they are renamed: {', '.join(renamed)}."
        for original, names in copies.items():
            yield (
                f"Beside {original} there {_list_with_verb(names)}. What is graded is {original}, "
                f"and a copy may be newer: ask which one counts, and leave only that."
            )

    def _list_graded_notebooks(self, assignment: str) -> set[str]:
        return {path.name for path in (self.solutions / assignment).glob("*.ipynb")}

    def find_misnamed_solutions(self) -> Iterator[str]:
        """Yield a sentence for each folder in `solutions/` with notebooks of other names."""
        for folder in sorted(self.solutions.glob("[!.]*")):
            if why := self.explain_misnamed(folder.name):
                yield why

    def explain_misnamed(self, name: str) -> str:
        """Return why a folder in `solutions/` is no assignment; empty if it is, or is not there."""
        folder = self.solutions / name
        names = sorted(printable(path.name) for path in folder.glob("[!.]*.ipynb"))
        if not names or (folder / f"{name}.ipynb").exists():
            return ""
        name = printable(name)
        rename = "Rename it" if len(names) == 1 else "Rename one of them"
        return (
            f"solutions/{name} was skipped: an assignment has a notebook of its own name, "
            f"{name}.ipynb, and there {_list_with_verb(names)}. {rename}, or give each a folder of "
            f"its own name."
        )

    def release(self, assignment: str) -> None:
        """Generate the notebook that students open, and enter its cells into the gradebook.

        Raises:
            ReleaseError: nbgrader failed; notebook and gradebook are unchanged.
        """
        done = self.api.generate_assignment(assignment, force=True, create=True)
        if not done["success"]:
            why = find_first_exception(done)
            if "Outdated schema version" in why:
                why = f"{why}. nbgrader update solutions/{assignment} brings its cells up to date."
            raise ReleaseError(f"{assignment} cannot be released: {why}")

    def open_gradebook(self) -> Gradebook:
        """Return the gradebook, to be closed by a `with` block."""
        return Gradebook(self.api.coursedir.db_url, self.api.coursedir.course_id)

    def make_feedback_page(self, student: str, assignment: str) -> str:
        """Make the feedback pages of a submission; return why that failed, or nothing."""
        done = self.api.generate_feedback(assignment, student, force=True)
        return "" if done["success"] else find_first_exception(done)

    def try_release(self, assignment: str) -> str:
        """Release an assignment; return the error message, empty if there was no error."""
        try:
            self.release(assignment)
        except ReleaseError as error:
            return str(error)
        return ""


def _without_copy_number(name: str) -> str:
    """Return a notebook's name as it was before a browser or JupyterLab numbered a copy of it."""
    return COPY_NUMBER.sub("", name.removesuffix(".ipynb")) + ".ipynb"


def list_folder(folder: Path) -> list[Path]:
    """Return the paths in a folder, in order; none if it is not there or is no folder.

    Raises:
        OSError: the folder cannot be read, which a glob does not tell from an empty one.
    """
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _list_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder; none if it is no folder, or may not be read."""
    not_listed = suppress(FileNotFoundError, NotADirectoryError, PermissionError)
    with not_listed, os.scandir(folder) as entries:
        return [e.name for e in entries if e.is_dir(follow_symlinks=False) or isdir(e.path)]
    return []


@contextmanager
def share_folder(folder: Path, gradebook: Path) -> Iterator[None]:
    """Let the whole group write to a class's folder, its gradebook, and files made meanwhile.

    Only a file's owner can change its permissions. Where another member of the group is the owner,
    they were changed when that member graded.
    """
    old_umask = os.umask(0o002)
    try:
        _let_group_write(folder, gradebook)
        yield
    finally:
        _let_group_write(folder, gradebook)  # SQLite lets only the owner write a new file
        os.umask(old_umask)


def _let_group_write(folder: Path, gradebook: Path) -> None:
    for path, mode in ((folder, 0o2770), (gradebook, 0o660)):
        with suppress(OSError):
            if path.stat().st_mode & mode != mode:
                path.chmod(path.stat().st_mode & 0o7777 | mode)


def find_first_exception(done: dict[str, str]) -> str:
    """Return why nbgrader failed: the first exception in its log, as later ones say less.

    A sentence of ours about the gradebook comes after the database's own error. If the log has no
    exception, nbgrader's error is a traceback, whose last line is one. An exception's name is
    without its module, and an error of ours is a sentence that needs no name.
    """
    written = f"{done.get('log', '')}\n{done.get('error', '')}"
    lines = [line.strip() for line in written.splitlines()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    errors.sort(key=lambda line: f".{GradebookError.__name__}:" not in line)
    errors = [re.sub(r"^autograder[\w.]*\.\w+: ", "", line) for line in errors]
    errors = [re.sub(r"^(\w+\.)+(\w+: )", r"\2", line) for line in errors]
    return errors[0] if errors else "nbgrader says no more."
