"""Due dates, submission times and late penalties: from the class's files into the gradebook.

nbgrader's gradebook stores all of these, but nbgrader reads only submission times from files: from
a `timestamp.txt` beside each submission. It fails if it cannot read one, and trusts any time in it.
A student may have written that file, because `nbgrader collect` copies whatever it finds. So these
times count only if `LockedAutograde.believe_timestamps` says that no student can write them.
"""

import functools
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from nbgrader.api import SubmittedAssignment
from nbgrader.apps import api
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from autograder.instructor.course import (
    TIMES_FILE,
    ClassError,
    CollectedTime,
    Course,
    modification_times,
    read_class_file,
    read_collected_times,
    read_times,
)
from autograder.instructor.gradebook import as_naive_utc, as_utc, read_penalties

MAX_TIMESTAMP_BYTES: Final = 100


def read_timestamp(folder: Path) -> datetime | None:
    """Return the time in a folder's `timestamp.txt`; None if it cannot be read."""
    path = folder / "timestamp.txt"
    try:
        with path.open("rb") as file:
            text = file.read(MAX_TIMESTAMP_BYTES).decode().strip()
        return parse_utc(text) if text else None
    except Exception:  # text that is not a time can raise many kinds of error
        return None


def _get_existing_timestamp(_: Any, dest_path: str) -> datetime | None:
    """Replace nbgrader's method, with which it finds the newer of two copies of a submission."""
    return read_timestamp(Path(dest_path))


def install_timestamps() -> None:
    """Make nbgrader read `timestamp.txt` with `read_timestamp`, which never fails."""
    CourseDirectory.get_existing_timestamp = _get_existing_timestamp


class LatePenalty(LateSubmissionPlugin):
    """Deducts what `[late]` in `grading/class.toml` says; without it, what nbgrader deducts."""

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """Return the points to deduct from a notebook's score, or None.

        Raises:
            ClassError: `grading/class.toml` has a mistake.
        """
        course = Course(Path(self.config.CourseDirectory.root))
        late = read_class_file(course.grading, course.assignments()).late
        if late is None:
            penalty: float | None = super().late_submission_penalty(
                student_id, score, total_seconds_late
            )
            return penalty
        return round(late.share(total_seconds_late) * score, 4)


class Times:
    """The due dates and submission times of a course.

    Args:
        course: the course.
        believe_timestamps: whether to trust the `timestamp.txt` beside a submission as well.

    Attributes:
        rules: the rules in the class's file.
        written: the submission times that the instructor wrote down, by student and assignment.
        collected: what platforms say about when submissions arrived, by student.

    Raises:
        ClassError: one of the class's two files has a mistake.
    """

    def __init__(self, course: Course, believe_timestamps: bool) -> None:
        self.course, self.believe_timestamps = course, believe_timestamps
        self.rules = read_class_file(course.grading, course.assignments())
        self.written = read_times(course.grading, self.rules.zone)
        self.collected = read_collected_times(course.grading)

    def handed_in(self, student: str, assignment: str) -> datetime | None:
        """Return when a student last submitted, as a naive time in UTC; None if it is not known."""
        return self.find(student, assignment)[0]

    def find(self, student: str, assignment: str) -> tuple[datetime | None, str]:
        """Return when a student last submitted, as a naive UTC time, and where that is from."""
        if times := self.written.get((student, assignment)):
            return as_naive_utc(times[-1]), f"grading/{TIMES_FILE}"
        collected = self.by_platform(student, assignment)
        if collected.time is not None:
            return as_naive_utc(collected.time), collected.source
        folder = self.course.submitted / student / assignment
        time = read_timestamp(folder) if self.believe_timestamps else None
        return time, "timestamp.txt" if time is not None else ""

    def by_platform(self, student: str, assignment: str) -> CollectedTime:
        """Return what a platform says about a submission; empty if none says anything."""
        return self.collected.get(student, {}).get(assignment, CollectedTime())

    def due(self, assignment: Any) -> datetime | None:
        """Return when an assignment of the gradebook is due for the class, as a naive UTC time."""
        if self.rules.due is None:
            duedate: datetime | None = assignment.duedate
            return duedate
        due = self.rules.due.get(assignment.name)
        return None if due is None else as_naive_utc(due)

    def enter_times(self, submission: Any) -> None:
        """Enter a submission's due date, extension and time into the gradebook; the caller commits.

        Args:
            submission: the gradebook's submission.
        """
        student, assignment = submission.student_id, submission.assignment
        due = self.due(assignment)
        extension = submission.extension
        if self.rules.extensions is not None:
            aware = None if due is None else as_utc(due)
            extension = self.rules.extension(student, assignment.name, aware)
        new = (
            (assignment, "duedate", due),
            (submission, "extension", extension if due is not None else None),  # is added to it
            (submission, "timestamp", self.handed_in(student, assignment.name)),
        )
        for entry, name, value in new:
            if getattr(entry, name) != value:  # what is set is looked at again when it is committed
                setattr(entry, name, value)


def load_times(course: Course) -> Times:
    """Return the times of a course; its configuration says whether to trust `timestamp.txt`.

    Raises:
        ClassError: one of the class's files has a mistake.
    """
    return Times(course, course.api.config.LockedAutograde.get("believe_timestamps", False))


def _get_submitted_timestamp(self: Any, assignment_id: str, student_id: str) -> datetime | None:
    """Replace nbgrader's method, whose time Formgrader compares with the one in the gradebook.

    If the two differ, Formgrader shows the submission as not graded.
    """
    course = Course(Path(self.coursedir.root))
    believe_timestamps = self.config.LockedAutograde.get("believe_timestamps", False)
    try:
        return _cached_times(
            course.root, believe_timestamps, modification_times(course.grading)
        ).handed_in(student_id, assignment_id)
    except ClassError:  # the commands report the mistake
        return None


@functools.lru_cache(maxsize=1)  # Formgrader asks once for each student
def _cached_times(root: Path, believe_timestamps: bool, _: object) -> Times:
    return Times(Course(root), believe_timestamps)


def install_submission_times() -> None:
    """Make Formgrader read submission times from the class's files, as the gradebook does."""
    api.NbGraderAPI.get_submitted_timestamp = _get_submitted_timestamp


def settle_lateness(course: Course) -> None:
    """Update the times and penalties of all submissions in the gradebook from the class's files.

    Nothing is graded. Penalties are also recomputed if a score has changed, for example manually.

    Raises:
        ClassError: one of the class's files has a mistake.
    """
    times = load_times(course)
    query = select(SubmittedAssignment).options(joinedload(SubmittedAssignment.assignment))
    with course.open_gradebook() as gradebook:
        penalties = read_penalties(gradebook)
        for submission in gradebook.db.scalars(query).all():
            times.enter_times(submission)
            if submission.total_seconds_late > 0 or penalties.get(submission.id):
                assign_penalties(submission, times)
        gradebook.db.commit()


def assign_penalties(submission: Any, times: Times) -> None:
    """Compute the late penalty of each notebook of a submission; the caller commits.

    Args:
        submission: the gradebook's submission, whose times and scores have been entered.
        times: the course's times; the course's configuration names the late-penalty plugin.
    """
    assigner = AssignLatePenalties(config=times.course.api.config)
    assigner.init_plugin()
    due, handed_in = (when and as_utc(when) for when in (submission.duedate, submission.timestamp))
    seconds = times.rules.seconds_late(due, handed_in)
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = None
        if seconds > 0:
            penalty = assigner.plugin_inst.late_submission_penalty(
                submission.student_id, notebook.score, seconds
            )
            if penalty is not None:
                penalty = assigner._check_late_penalty(notebook, penalty)
            notebook.late_submission_penalty = penalty
