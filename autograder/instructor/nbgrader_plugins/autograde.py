"""`nbgrader autograde` and Formgrader's autograding, by the same function as `make grade`.

Our converter finds submissions as nbgrader's does; `pipeline` grades them, and `entering` enters
their records. Ctrl-C stops it: nbgrader would take an interrupt for the failure of one submission
and go on with the next. Control characters in students' names are escaped in the log.
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
from autograder.instructor.course import (
    STATUSES,
    STOPPED,
    BusyError,
    ClassError,
    Course,
    GradebookError,
    cannot_be_copied,
    printable,
    stoppable,
)
from autograder.instructor.nbgrader_plugins.entering import enter, enter_failure
from autograder.instructor.nbgrader_plugins.lateness import Times
from autograder.instructor.pipeline import (
    Basis,
    Facts,
    Records,
    State,
    facts_of,
    fingerprint_submission,
    grade,
    of_grades,
    submission_in,
)
from autograder.instructor.sandbox import ROOT_WARNING, NoSandboxError, Sandbox, is_root


class Printable(logging.Filter):
    """Shows what cannot be seen as symbols, in what is logged; lines stay lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a record; none is left out."""
        record.msg = "\n".join(map(printable, record.getMessage().split("\n")))
        record.args = ()
        return True


def keep_printable(log: logging.Logger) -> None:
    """Have everything that is said on a log made printable."""
    if not any(isinstance(each, Printable) for each in log.filters):
        log.addFilter(Printable())


class _Watched:
    """Something that nbgrader starts, whose interrupt is not forgotten."""

    def __init__(self, app: Any) -> None:
        self.app, self.log = app, app.log
        self.interrupt: KeyboardInterrupt | None = None

    def start(self) -> None:
        """Start it.

        Raises:
            KeyboardInterrupt: it was interrupted, which is kept, too.
        """
        try:
            self.app.start()
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
            raise


def capture_log(app: Any, fmt: str = "[%(levelname)s] %(message)s") -> dict[str, Any]:
    """Nbgrader's own, but for an interrupt, which stops more than one submission.

    Raises:
        KeyboardInterrupt: there was one.
    """
    watched = _Watched(app)
    done: dict[str, Any] = utils.capture_log(watched, fmt)
    if watched.interrupt is not None:
        raise watched.interrupt
    return done


def _stopping(start: Any) -> Any:
    """The start of one of nbgrader's commands, which says what is kept where it is stopped."""

    def started(self: Any) -> None:
        try:
            with stoppable():
                start(self)
        except SystemExit as end:
            if end.code in STATUSES:
                self.log.error(STOPPED)
            raise

    started.is_ours = True  # type: ignore[attr-defined]
    return started


def install_stopping() -> None:
    """Have nbgrader stop so."""
    api.capture_log = capture_log
    app = autogradeapp.AutogradeApp
    if not hasattr(app.start, "is_ours"):
        app.start = _stopping(app.start)


class CarefulAutograde(Autograde):
    """Grades while nobody else does, and refuses what it would have to follow or wait for.

    Nothing of an assignment is graded where the course's own notebooks are not graded right.
    """

    calibrate = Bool(
        True, help="Grade an assignment's solution and released notebook before any submission."
    ).tag(config=True)
    believe_timestamps = Bool(
        False,
        help="Believe the time in a submission's `timestamp.txt`. Only where whatever fills the "
        "folder of submissions writes each of them, and no student can.",
    ).tag(config=True)

    def start(self) -> None:
        """Grade what was asked for.

        Raises:
            NbGraderException: somebody else grades here, or a submission could not be graded.
        """
        keep_printable(self.log)
        if is_root():
            self.log.warning(ROOT_WARNING)
        self.course = Course(Path(self.coursedir.root))
        try:
            with self.course.alone(self.coursedir.db_url):
                super().start()
        except (BusyError, GradebookError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def convert_notebooks(self) -> None:
        """Grade what was found.

        Raises:
            NbGraderException: a submission could not be graded, or nothing could: grading does not
                get the assignment's own notebooks right, or what the class's files say cannot be
                understood.
        """
        found = list(self._found())
        try:
            Sandbox(config=self.config).check()
            Times(self.course, self.believe_timestamps)  # to see that they can be understood
            for assignment in sorted({assignment for _, assignment, _ in found}):
                self.log.info("Calibrating %s, unless that was done before", assignment)
                calibrate(self.coursedir, self.config, assignment)
        except (CalibrationError, ClassError, NoSandboxError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None
        self.known: dict[str, tuple[Facts, Basis]] = {}
        failed = []
        for student, assignment, names in found:
            try:
                self._grade(student, assignment, names)
            except Exception as error:
                self.log.error("%s, %s: %s: %s", student, assignment, type(error).__name__, error)
                failed.append(f"{student}, {assignment}")
        if failed:
            why = f"These could not be graded, as it says above: {'; '.join(failed)}"
            self.log.error(why)
            raise NbGraderException(why)

    def _found(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Whose submissions of what are to be graded, and which of their notebooks."""
        pattern = self._format_source("(?P<assignment>.*)", "(?P<student>.*)", escape=True)
        excluded = (self.coursedir.student_id_exclude or "").split(",")
        for folder in sorted(self.assignments):
            match = re.match(pattern, folder)
            if match is not None and match["student"] not in excluded:
                names = sorted(Path(path).stem for path in self.assignments[folder])
                yield match["student"], match["assignment"], names

    def _grade(self, student: str, assignment: str, names: Sequence[str]) -> None:
        """Grade a submission, unless that was done, and enter what became of it.

        Raises:
            NbGraderException: it could not be graded, or entered.
        """
        folder = Path(self._format_source(assignment, student))
        records = Records(self.course.records)
        record = records.get(student, assignment)
        why = cannot_be_copied(folder)
        if why and record is not None:
            self.log.error("%s, %s is left as it was graded: %s", student, assignment, why)
            return
        if why:
            raise NbGraderException(why)
        facts, basis = self._known(assignment)
        basis = replace(basis, submission=fingerprint_submission(folder))
        graded = self.course.autograded / student / assignment
        stands = (
            record is not None
            and not record.again
            and record.basis == basis
            and all((graded / f"{name}.ipynb").exists() for name in record.notebooks)
        )
        if stands and not self.force:
            self.log.info("Skipping what has been graded as it is: %s, %s", student, assignment)
            return
        self._see_that_it_is_known(student)
        there = [name for name in names if name in facts.seconds]
        for name in {*names} - {*there}:
            self.log.warning("Skipping unknown notebook: %s", name)
        if not there:
            raise NbGraderException("there is no notebook of this assignment in what was handed in")
        self.run_pre_convert_hook()
        self.log.info("Autograding %s", folder)
        is_partial = self.coursedir.notebook_id != "*"
        submission = submission_in(folder, student, assignment, there, self.coursedir.ignore)
        submission = dataclasses.replace(submission, is_partial=is_partial)
        if submission.not_taken:
            self.log.warning("%s, %s: %s", student, assignment, submission.not_taken)
        outcome = grade(submission, facts, parent=self)
        if outcome.record.state is not State.GRADED:
            enter_failure(self.course, student, assignment, outcome, basis)
            raise NbGraderException(outcome.details or outcome.record.why)
        outcome = dataclasses.replace(outcome, record=replace(outcome.record, basis=basis))
        times = Times(self.course, self.believe_timestamps)
        enter(self.course, times, submission, facts, outcome)
        self.run_post_convert_hook()

    def _known(self, assignment: str) -> tuple[Facts, Basis]:
        """What is known of an assignment, and what its grades rest on, once for all students."""
        if assignment not in self.known:
            facts = facts_of(self.coursedir, self.config, assignment)
            self.known[assignment] = facts, of_grades(self.coursedir, assignment)
        return self.known[assignment]

    def _see_that_it_is_known(self, student: str) -> None:
        """See that a student is in the gradebook, where only those are to be graded.

        Raises:
            NbGraderException: they are not.
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
    """Have nbgrader grade carefully."""
    autogradeapp.Autograde = api.Autograde = CarefulAutograde
