"""nbgrader's own grading, made careful: with a lock, and a look before anything is copied.

nbgrader has hooks before and after a submission, and ignores what they raise. So a converter of
ours takes the place of its own, for the command line, Formgrader and `make grade` alike.
"""

from pathlib import Path

from nbgrader.apps import api, autogradeapp
from nbgrader.converters import Autograde, NbGraderException

from autograder.instructor.course import BusyError, Course
from autograder.instructor.handed_in import cannot_be_copied, cannot_be_read


class CarefulAutograde(Autograde):
    """Grades while nobody else does, and refuses what it would have to follow or wait for."""

    def start(self) -> None:
        """Grade what was asked for.

        Raises:
            NbGraderException: somebody else grades here, or a submission could not be graded.
        """
        try:
            with Course(Path(self.coursedir.root)).alone():
                super().start()
        except BusyError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

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

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Grade one notebook.

        Raises:
            NbGraderException: it cannot be read.
        """
        why = cannot_be_read(Path(notebook_filename))
        if why:
            raise NbGraderException(why)
        super().convert_single_notebook(notebook_filename)


def install() -> None:
    """Have nbgrader grade carefully."""
    autogradeapp.Autograde = api.Autograde = CarefulAutograde
