"""The writer: one process enters what workers have made, a submission at a time.

It is nbgrader's own way of grading, with the work done. Killed at any moment, it leaves a grade
that is known to be unfinished: what a grade rests on is remembered last.
"""

from autograder.instructor.calibration import Basis
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.classroom.what_changed import Bases
from autograder.instructor.course import Course, reason
from autograder.instructor.nbgrader_plugins import enter_work
from autograder.instructor.worker import Outcome


def entered(
    course: Course, bases: Bases, student: str, assignment: str, basis: Basis | None, found: Outcome
) -> Failure | None:
    """Enter what became of a submission; what went wrong, if anything did.

    Args:
        course: where.
        bases: what its grades rest on.
        student: who handed it in.
        assignment: what they handed in.
        basis: what the grade rests on; None where that was not looked at.
        found: what became of it.
    """
    if found.work is None:
        course.forget(student, assignment)  # so that it is tried again
        return Failure(student, assignment, found.why, theirs=found.theirs)
    done = enter_work(
        course.api, student, assignment, found.work, basis.submission if basis else ""
    )
    if not done["success"]:
        return Failure(student, assignment, f"grading failed. {reason(done)}", theirs=False)
    feedback = course.api.generate_feedback(assignment, student, force=True)
    if not feedback["success"]:
        return Failure(student, assignment, f"no feedback page. {reason(feedback)}", theirs=False)
    if basis is not None:
        bases.remember(student, assignment, basis)
    return None
