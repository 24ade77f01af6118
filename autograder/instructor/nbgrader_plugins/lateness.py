"""Lateness and its penalty: from the class's files into the gradebook.

nbgrader has due dates, extensions, times and penalties, and reads none of them from a file. It
fails on a `timestamp.txt` that it cannot read, and believes any time in one that it can. The
exchange's file cannot be told from a student's own: `nbgrader collect` copies what it finds. So
these times count only where the configuration says that no student can have written them.
"""

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from nbgrader.api import Gradebook
from nbgrader.apps import api
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc

from autograder.instructor.course import (
    ClassError,
    Course,
    read_class_file,
    read_times,
    written_when,
)

MAX_TIMESTAMP_BYTES: Final = 100


def written_time(folder: Path) -> datetime | None:
    """The time that a folder's `timestamp.txt` says; None where it says none that can be read."""
    path = folder / "timestamp.txt"
    try:
        with path.open("rb") as file:
            said = file.read(MAX_TIMESTAMP_BYTES).decode().strip()
        return parse_utc(said) if said else None
    except Exception:  # what is no time raises many kinds of error, and is no time
        return None


def _existing(_: Any, dest_path: str) -> datetime | None:
    """In place of nbgrader's: which of two copies is the newer one, where both say it."""
    return written_time(Path(dest_path))


def install_timestamps() -> None:
    """Have nbgrader read times so."""
    CourseDirectory.get_existing_timestamp = _existing


class LatePenalty(LateSubmissionPlugin):
    """Takes off what `[late]` in `grading/class.toml` says; without it, nbgrader's own does."""

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """What is taken off of a notebook's score.

        Raises:
            ClassError: the file cannot be understood.
        """
        course = Course(Path(self.config.CourseDirectory.root))
        late = read_class_file(course.grading, course.assignments()).late
        if late is None:
            own: float | None = super().late_submission_penalty(
                student_id, score, total_seconds_late
            )
            return own
        return round(late.share(total_seconds_late) * score, 4)


class Times:
    """When things are due, and when they were handed in.

    Args:
        course: whose.
        believed: whether the `timestamp.txt` beside a submission is believed, too.

    Attributes:
        rules: what the class's file says.
        written: the times that the instructor wrote down, by student and assignment.

    Raises:
        ClassError: one of the two files cannot be understood.
    """

    def __init__(self, course: Course, believed: bool) -> None:
        self.course, self.believed = course, believed
        self.rules = read_class_file(course.grading, course.assignments())
        self.written = read_times(course.grading, self.rules.zone)

    def handed_in(self, student: str, assignment: str) -> datetime | None:
        """When somebody last handed in, as nbgrader writes times; None where that is not known."""
        if times := self.written.get((student, assignment)):
            return _naive(times[-1])
        folder = self.course.submitted / student / assignment
        return written_time(folder) if self.believed else None

    def due(self, assignment: Any) -> datetime | None:
        """When an assignment of the gradebook is due for all, as nbgrader writes times."""
        if self.rules.due is None:
            there: datetime | None = assignment.duedate
            return there
        due = self.rules.due.get(assignment.name)
        return None if due is None else _naive(due)

    def enter(self, submission: Any) -> None:
        """Tell the gradebook when a submission was due, and made.

        Args:
            submission: nbgrader's; what is entered is not committed.
        """
        student, assignment = submission.student_id, submission.assignment
        due = self.due(assignment)
        extension = submission.extension
        if self.rules.extensions is not None:
            aware = None if due is None else due.replace(tzinfo=UTC)
            extension = self.rules.extension(student, assignment.name, aware)
        assignment.duedate = due
        submission.extension = extension if due is not None else None  # to which it is added
        submission.timestamp = self.handed_in(student, assignment.name)


def times_of(course: Course) -> Times:
    """The times of a course, as its configuration has them read.

    Raises:
        ClassError: what the class's files say cannot be understood.
    """
    return Times(course, course.api.config.CarefulAutograde.get("believe_timestamps", False))


def _submitted(self: Any, assignment_id: str, student_id: str) -> datetime | None:
    """In place of nbgrader's: what Formgrader compares with the time in the gradebook.

    Where the two are not the same, it takes what was handed in for not graded.
    """
    course = Course(Path(self.coursedir.root))
    believed = self.config.CarefulAutograde.get("believe_timestamps", False)
    try:
        return _times(course.root, believed, written_when(course.grading)).handed_in(
            student_id, assignment_id
        )
    except ClassError:  # the commands say what is wrong
        return None


@functools.lru_cache(maxsize=1)  # Formgrader asks for each student
def _times(root: Path, believed: bool, _: object) -> Times:
    return Times(Course(root), believed)


def install_submission_times() -> None:
    """Have Formgrader compare the times that the gradebook has."""
    api.NbGraderAPI.get_submitted_timestamp = _submitted


def settle_lateness(course: Course) -> None:
    """Bring times and penalties of all that is in the gradebook in step with the class's files.

    Nothing is graded for it. A penalty is made anew also where a score has become another since, by
    hand say.

    Raises:
        ClassError: what the class's files say cannot be understood.
    """
    times, about = times_of(course), course.api.coursedir
    with Gradebook(about.db_url, about.course_id) as gradebook:
        for each in (each for a in gradebook.assignments for each in a.submissions):
            times.enter(each)
            if each.total_seconds_late > 0 or each.late_submission_penalty:
                assign_penalties(each, course.api.config)
        gradebook.db.commit()


def assign_penalties(submission: Any, config: Any) -> None:
    """Find what is taken off of each notebook of a submission for being late.

    Args:
        submission: nbgrader's, whose times and scores are entered; nothing is committed.
        config: the course's, which says by which plugin; it is nbgrader's own way to find it.
    """
    assigning = AssignLatePenalties(config=config)
    assigning.init_plugin()
    seconds = submission.total_seconds_late
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = None
        if seconds > 0:
            taken_off = assigning.plugin_inst.late_submission_penalty(
                submission.student_id, notebook.score, seconds
            )
            if taken_off is not None:
                taken_off = assigning._check_late_penalty(notebook, taken_off)
            notebook.late_submission_penalty = taken_off


def _naive(when: datetime) -> datetime:
    """A time in UTC that does not say so, as in the gradebook."""
    return when.astimezone(UTC).replace(tzinfo=None)
