"""`nbgrader autograde` and Formgrader's autograding, with the same grading as `make grade`.

`LockedAutograde` finds submissions as nbgrader's converter does, grades them with
`pipeline.grade`, and enters their records (`entering.py`). Ctrl-C stops it; nbgrader itself would
treat an interrupt as the failure of one submission and go on with the next. Control characters in
students' names are escaped in the log.
"""

import dataclasses
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from nbgrader import utils
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import api, autogradeapp
from nbgrader.converters import Autograde, NbGraderException
from traitlets import Bool

from autograder.instructor.calibration import CalibrationError, calibrate
from autograder.instructor.commands import (
    STOPPED,
    STOPPED_STATUSES,
    keep_temporary_files,
    printable,
    stop_on_signal,
)
from autograder.instructor.course import (
    BusyError,
    ClassError,
    Course,
    GradebookError,
    find_unsafe_file,
)
from autograder.instructor.nbgrader_plugins.entering import enter, enter_failure
from autograder.instructor.nbgrader_plugins.lateness import Times
from autograder.instructor.pipeline import (
    AssignmentFacts,
    Basis,
    Records,
    State,
    collect_facts,
    current_basis,
    fingerprint_submission,
    grade,
    read_submission,
)
from autograder.instructor.sandbox import ROOT_WARNING, NoSandboxError, Sandbox, is_root


class ControlEscaper(logging.Filter):
    """Escapes control characters in log messages, except newlines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape a record's message; every record is logged."""
        record.msg = "\n".join(map(printable, record.getMessage().split("\n")))
        record.args = ()
        return True


def escape_log(log: logging.Logger) -> None:
    """Escape control characters in everything that a logger logs."""
    if not any(isinstance(log_filter, ControlEscaper) for log_filter in log.filters):
        log.addFilter(ControlEscaper())


class _InterruptibleApp:
    """An nbgrader application that remembers whether it was interrupted."""

    def __init__(self, app: Any) -> None:
        self.app, self.log = app, app.log
        self.interrupt: KeyboardInterrupt | None = None

    def start(self) -> None:
        """Start the application.

        Raises:
            KeyboardInterrupt: it was interrupted; the exception is kept as well.
        """
        try:
            self.app.start()
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
            raise


def capture_log(app: Any, fmt: str = "[%(levelname)s] %(message)s") -> dict[str, Any]:
    """Run an application as nbgrader's `capture_log` does, but let an interrupt through.

    nbgrader catches it like any error, so it would stop only one submission.

    Raises:
        KeyboardInterrupt: the application was interrupted.
    """
    interruptible = _InterruptibleApp(app)
    result: dict[str, Any] = utils.capture_log(interruptible, fmt)
    if interruptible.interrupt is not None:
        raise interruptible.interrupt
    return result


def _make_stoppable(start: Any) -> Any:
    """Wrap the `start` of an nbgrader command to log, when it is stopped, that grades are kept."""

    def start_stoppable(self: Any) -> None:
        try:
            with stop_on_signal(keep_temporary_files()):
                start(self)
        except SystemExit as end:
            if end.code in STOPPED_STATUSES:
                self.log.error(STOPPED)
            raise

    start_stoppable.is_ours = True  # type: ignore[attr-defined]
    return start_stoppable


def install_stopping() -> None:
    """Make nbgrader's autograding stop at an interrupt."""
    api.capture_log = capture_log
    app = autogradeapp.AutogradeApp
    if not hasattr(app.start, "is_ours"):
        app.start = _make_stoppable(app.start)


class LockedAutograde(Autograde):
    """Grades submissions while it holds the class's lock.

    It refuses submissions with links or special files. It grades nothing of an assignment whose
    calibration fails, that is, whose own solution and released notebook are not graded correctly.
    """

    calibrate = Bool(
        True, help="Grade an assignment's solution and released notebook before any submission."
    ).tag(config=True)
    believe_timestamps = Bool(
        False,
        help="Trust the time in a submission's `timestamp.txt`. Only safe if the program that "
        "fills the folder of submissions writes every such file, and no student can.",
    ).tag(config=True)

    def start(self) -> None:
        """Grade the chosen submissions.

        Raises:
            NbGraderException: another process is grading here, or a submission could not be graded.
        """
        escape_log(self.log)
        if is_root():
            self.log.warning(ROOT_WARNING)
        self.course = Course(Path(self.coursedir.root))
        try:
            with self.course.hold_lock(self.coursedir.db_url):
                super().start()
        except (BusyError, GradebookError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def convert_notebooks(self) -> None:
        """Grade the submissions that were found.

        Raises:
            NbGraderException: a submission could not be graded; or none could, because calibration
                failed, there is no sandbox, or one of the class's files has a mistake.
        """
        submissions = list(self._find_submissions())
        try:
            Sandbox(config=self.config).check()
            Times(self.course, self.believe_timestamps)  # raises if the class's files have mistakes
            for assignment in sorted({assignment for _, assignment, _ in submissions}):
                self.log.info("Calibrating %s, unless that was done before", assignment)
                if passing := calibrate(self.config, assignment):
                    self.log.warning(passing)
        except (CalibrationError, ClassError, NoSandboxError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None
        self.facts_and_bases: dict[str, tuple[AssignmentFacts, Basis]] = {}
        failed = []
        for student, assignment, names in submissions:
            try:
                self._grade(student, assignment, names)
            except GradebookError:
                raise
            except Exception as error:
                self.log.error("%s, %s: %s: %s", student, assignment, type(error).__name__, error)
                failed.append(f"{student}, {assignment}")
        if failed:
            message = f"These could not be graded, as it says above: {'; '.join(failed)}"
            self.log.error(message)
            raise NbGraderException(message)

    def _find_submissions(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield each submission to grade: the student, the assignment, and the notebooks' names."""
        pattern = self._format_source("(?P<assignment>.*)", "(?P<student>.*)", escape=True)
        excluded = (self.coursedir.student_id_exclude or "").split(",")
        for folder in sorted(self.assignments):
            match = re.match(pattern, folder)
            if match is not None and match["student"] not in excluded:
                names = sorted(Path(path).stem for path in self.assignments[folder])
                yield match["student"], match["assignment"], names

    def _grade(self, student: str, assignment: str, names: Sequence[str]) -> None:
        """Grade a submission, unless its grade is up to date, and enter the outcome.

        Raises:
            NbGraderException: it could not be graded or entered.
        """
        folder = Path(self._format_source(assignment, student))
        records = Records(self.course.records)
        record = records.get(student, assignment)
        problem = find_unsafe_file(folder)
        if problem and record is not None:
            self.log.error("%s, %s is left as it was graded: %s", student, assignment, problem)
            return
        if problem:
            raise NbGraderException(problem)
        facts, basis = self._load_facts(assignment)
        basis = replace(basis, submission=fingerprint_submission(folder))
        graded_folder = self.course.autograded / student / assignment
        is_up_to_date = (
            record is not None
            and not record.is_due_again
            and record.basis == basis
            and all((graded_folder / f"{name}.ipynb").exists() for name in record.notebooks)
        )
        if is_up_to_date and not self.force:
            self.log.info("Skipping %s, %s: it is graded already", student, assignment)
            return
        self._check_student(student)
        notebooks = [name for name in names if name in facts.time_limits]
        for name in {*names} - {*notebooks}:
            self.log.warning("Skipping unknown notebook: %s", name)
        if not notebooks:
            raise NbGraderException("the submission has no notebook of this assignment")
        self.run_pre_convert_hook()
        self.log.info("Autograding %s", folder)
        is_partial = self.coursedir.notebook_id != "*"
        submission = read_submission(folder, student, assignment, notebooks, self.coursedir.ignore)
        submission = dataclasses.replace(submission, is_partial=is_partial)
        if submission.rejected_files:
            self.log.warning("%s, %s: %s", student, assignment, submission.rejected_files)
        outcome = grade(submission, facts, parent=self)
        if outcome.record.state is not State.GRADED:
            enter_failure(self.course, student, assignment, outcome, basis)
            raise NbGraderException(outcome.details or outcome.record.why)
        outcome = dataclasses.replace(outcome, record=replace(outcome.record, basis=basis))
        times = Times(self.course, self.believe_timestamps)
        enter(self.course, times, submission, facts, outcome)
        self.run_post_convert_hook()

    def _load_facts(self, assignment: str) -> tuple[AssignmentFacts, Basis]:
        """Return an assignment's facts and the basis of its grades, computed once."""
        if assignment not in self.facts_and_bases:
            facts = collect_facts(self.coursedir, self.config, assignment)
            self.facts_and_bases[assignment] = facts, current_basis(self.coursedir, assignment)
        return self.facts_and_bases[assignment]

    def _check_student(self, student: str) -> None:
        """Check that the gradebook knows a student, unless unknown students are added to it.

        Raises:
            NbGraderException: it does not.
        """
        if self.create_student:
            return
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            try:
                gradebook.find_student(student)
            except MissingEntry:
                raise NbGraderException(
                    f"No student with ID {student!r} exists in the database"
                ) from None


def install_autograde() -> None:
    """Make nbgrader and Formgrader use `LockedAutograde`."""
    autogradeapp.Autograde = api.Autograde = LockedAutograde
