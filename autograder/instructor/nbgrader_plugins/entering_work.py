"""What a worker has made, entered as nbgrader enters what it has graded itself."""

from typing import Any

from nbgrader.utils import temp_attrs

from autograder.instructor.nbgrader_plugins.careful_autograde import CarefulAutograde
from autograder.instructor.nbgrader_plugins.stopped_autograde import capture_log
from autograder.instructor.worker import Work


class EnterWork(CarefulAutograde):
    """Grades a submission whose work is done."""

    made: Work
    sent: str

    def _found(self) -> set[str]:
        """Nothing: whoever had it graded has seen to it that the grader passes its own test."""
        return set()

    def submission_of(self, assignment: str, student: str) -> str:
        """What was handed in when it was sent to a worker."""
        return self.sent

    def made_of(self, student: str, assignment: str, notebook: str) -> Work:
        """What the worker has made."""
        return self.made


def enter_work(
    api: Any, student: str, assignment: str, made: Work, sent: str = ""
) -> dict[str, Any]:
    """Enter a submission's grades, and write its files.

    Args:
        api: nbgrader's, of the course.
        student: who handed it in.
        assignment: what they handed in.
        made: what a worker has made of it.
        sent: what of it was sent to the worker, in a few letters; nothing where that is not known.

    Returns:
        What nbgrader's own `api.autograde` says of it.
    """
    with temp_attrs(api.coursedir, assignment_id=assignment, student_id=student):
        enter = EnterWork(coursedir=api.coursedir, parent=api)
        enter.made, enter.sent, enter.force, enter.create_student = made, sent, True, True
        done: dict[str, Any] = capture_log(enter)
    return done
