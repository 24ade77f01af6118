"""nbgrader's own grading, made careful: a lock, a test of itself, a look before it copies.

nbgrader has hooks before and after a submission, and ignores what they raise. So a converter of
ours takes the place of its own, for the command line, Formgrader and `make grade` alike.
"""

import re
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps import api, autogradeapp
from nbgrader.converters import Autograde, NbGraderException
from traitlets import Bool

from autograder.instructor.calibration import CalibrationError, calibrate
from autograder.instructor.course import BusyError, Course, UnreadableError, cannot_be_copied
from autograder.instructor.nbgrader_plugins.checked_submission import CheckedSubmission
from autograder.instructor.nbgrader_plugins.printable_log import keep_printable


class CarefulAutograde(Autograde, CheckedSubmission):
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
        try:
            with Course(Path(self.coursedir.root)).alone():
                super().start()
        except BusyError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def convert_notebooks(self) -> None:
        """Grade what was found.

        Raises:
            NbGraderException: grading does not get the assignment's own notebooks right.
        """
        for assignment in sorted(self._found()):
            self.log.info("Calibrating %s, unless that was done before", assignment)
            try:
                calibrate(self.coursedir, self.config, assignment)
            except CalibrationError as error:
                self.log.error(str(error))
                raise NbGraderException(str(error)) from None
        super().convert_notebooks()

    def _found(self) -> set[str]:
        """The assignments of which there are submissions to grade."""
        pattern = self._format_source("(?P<assignment_id>.*)", "(?P<student_id>.*)", escape=True)
        matches = (re.match(pattern, folder) for folder in self.assignments)
        return {match["assignment_id"] for match in matches if match is not None}

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Whether a submission is to be graded.

        Raises:
            NbGraderException: its files cannot be taken. nbgrader removes what there is of its
                results, and goes on with the next.
        """
        why = cannot_be_copied(Path(self._format_source(assignment_id, student_id)))
        if why and Path(self._format_dest(assignment_id, student_id)).exists():
            self.log.error("%s, %s is left as it was graded: %s", student_id, assignment_id, why)
            return False
        if why:
            raise NbGraderException(why)
        return bool(super().init_destination(assignment_id, student_id))

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy what is taken of a submission, and enter it into the gradebook."""
        super().init_assignment(assignment_id, student_id)
        if not self.believe_timestamps:  # what nbgrader has just entered may be the student's word
            with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
                gradebook.update_or_create_submission(assignment_id, student_id, timestamp=None)

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Grade one notebook.

        Raises:
            NbGraderException: it cannot be read.
        """
        try:
            super().convert_single_notebook(notebook_filename)
        except UnreadableError as error:
            raise NbGraderException(str(error)) from None


def install() -> None:
    """Have nbgrader grade carefully."""
    autogradeapp.Autograde = api.Autograde = CarefulAutograde
