"""nbgrader's own grading, made careful: a lock, a test of itself, a look before it copies.

nbgrader has hooks before and after a submission, and ignores what they raise. So a converter of
ours takes the place of its own, for the command line, Formgrader and `make grade` alike.
"""

import os
import re
from pathlib import Path

from nbgrader.apps import api, autogradeapp
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.utils import find_all_files
from traitlets import Bool

from autograder.instructor import walls
from autograder.instructor.calibration import CalibrationError, calibrate, fingerprint
from autograder.instructor.course import (
    BusyError,
    ClassError,
    Course,
    GradebookError,
    UnreadableError,
    cannot_be_copied,
    memory_in,
)
from autograder.instructor.nbgrader_plugins import making
from autograder.instructor.nbgrader_plugins.checked_submission import CheckedSubmission
from autograder.instructor.nbgrader_plugins.lateness import check_times, enter_times
from autograder.instructor.nbgrader_plugins.looked_at import (
    LookedAt,
    ask_again,
    has_same_files,
    is_same,
    noted,
)
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
        if walls.is_root():
            self.log.warning(walls.AS_ROOT)
        try:
            with Course(Path(self.coursedir.root)).alone(self.coursedir.db_url):
                super().start()
        except (BusyError, GradebookError) as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def convert_notebooks(self) -> None:
        """Grade what was found.

        Raises:
            NbGraderException: grading does not get the assignment's own notebooks right, or what
                the class's files say cannot be understood.
        """
        try:
            check_times(self.coursedir, self.believe_timestamps)
        except ClassError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None
        for assignment in sorted(self._found()):
            self.log.info("Calibrating %s, unless that was done before", assignment)
            try:
                calibrate(self.coursedir, self.config, assignment)
            except CalibrationError as error:
                self.log.error(str(error))
                raise NbGraderException(str(error)) from None
        super().convert_notebooks()

    def _format_dest(self, assignment_id: str, student_id: str, escape: bool = False) -> str:
        """Where a submission's results are made, and not where those of before are."""
        return str(making.place(self._graded(assignment_id, student_id, escape)))

    def _graded(self, assignment: str, student: str, escape: bool = False) -> Path:
        return Path(super()._format_dest(assignment, student, escape))

    def _found(self) -> set[str]:
        """The assignments of which there are submissions to grade."""
        pattern = self._format_source("(?P<assignment_id>.*)", "(?P<student_id>.*)", escape=True)
        matches = (re.match(pattern, folder) for folder in self.assignments)
        return {match["assignment_id"] for match in matches if match is not None}

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Whether a submission is to be graded.

        Raises:
            NbGraderException: its files cannot be taken. nbgrader removes what was made of it, and
                goes on with the next.
        """
        handed_in = Path(self._format_source(assignment_id, student_id))
        graded = self._graded(assignment_id, student_id)
        why = cannot_be_copied(handed_in)
        if why and graded.exists():
            self.log.error("%s, %s is left as it was graded: %s", student_id, assignment_id, why)
            return False
        if why:
            raise NbGraderException(why)
        if not self.force and self._is_made(graded) and not self._is_newer(handed_in, graded):
            self.log.info("Skipping existing assignment: %s", graded)
            return False
        self.handed_in = self.submission_of(assignment_id, student_id)
        remembered = Course(Path(self.coursedir.root)).remembered(student_id, assignment_id)
        self.is_same = is_same(remembered, self.handed_in)
        begun = making.begin(graded, with_all=self.coursedir.notebook_id != "*")
        for name in map(Path, self.notebooks):
            (begun / f"{name.stem}.ipynb").unlink(missing_ok=True)
        return bool(super().init_destination(assignment_id, student_id))

    def _is_made(self, graded: Path) -> bool:
        """Whether there are results already of all that is to be graded."""
        if self.coursedir.notebook_id == "*":
            return graded.exists()
        return all((graded / f"{Path(name).stem}.ipynb").exists() for name in self.notebooks)

    def _is_newer(self, handed_in: Path, graded: Path) -> bool:
        """Whether a submission was made after the one that has been graded, as both say."""
        times = [self.coursedir.get_existing_timestamp(str(each)) for each in (handed_in, graded)]
        return None not in times and times[0] > times[1]

    def submission_of(self, assignment: str, student: str) -> str:
        """What was handed in, in a few letters; nothing where that may not be read."""
        try:
            return fingerprint.of_submission(Path(self._format_source(assignment, student)))
        except OSError:
            return ""

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy what is taken of a submission, and enter it into the gradebook.

        Raises:
            NbGraderException: what the class's files say cannot be understood.
        """
        super().init_assignment(assignment_id, student_id)
        try:  # what nbgrader has just entered may be the student's word
            enter_times(self.coursedir, self.believe_timestamps, assignment_id, student_id)
        except ClassError as error:
            raise NbGraderException(str(error)) from None

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Grade one notebook, and enter what was found.

        Raises:
            NbGraderException: it cannot be read.
        """
        resources = self.init_single_notebook_resources(notebook_filename)
        about = resources["nbgrader"]
        resources["metadata"] = {
            "path": str(Path(self._format_dest(about["assignment"], about["student"]))),
            "name": about["notebook"],
        }
        self.log.info("Autograding %s", notebook_filename)
        try:
            made = self.made_of(about["student"], about["assignment"], about["notebook"])
        except UnreadableError as error:
            raise NbGraderException(str(error)) from None
        name, graded = f"{about['notebook']}.ipynb", Path(resources["metadata"]["path"])
        source = self.coursedir.format_path(
            self.coursedir.source_directory, ".", about["assignment"]
        )
        beside = find_all_files(source, [*self.coursedir.ignore, "*.ipynb"])
        names = [os.path.relpath(file, source) for file in beside]
        before = self._graded(about["assignment"], about["student"])
        is_same = self.is_same and has_same_files(before, graded, names)
        looked_at = LookedAt.of(about, before / name, is_same)
        # from here on, the grade that was given before is known to be none
        Course(Path(self.coursedir.root)).forget(about["student"], about["assignment"])
        self.enter(made, about["notebook"], resources)
        looked_at.keep(about, graded / name)

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        """Have what was made be in its place: this is the last that nbgrader does of a submission.

        Raises:
            OSError: that cannot be done; what was there before still is.
        """
        super().set_permissions(assignment_id, student_id)
        if not self.is_same:
            ask_again(self.coursedir, assignment_id, student_id)
        note = memory_in(Path(self._format_dest(assignment_id, student_id)), assignment_id)
        note.unlink(missing_ok=True)
        note.write_text(noted(self.handed_in))
        making.take_place(self._graded(assignment_id, student_id))


def install() -> None:
    """Have nbgrader grade carefully."""
    autogradeapp.Autograde = api.Autograde = CarefulAutograde
