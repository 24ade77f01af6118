"""What becomes of a submission, whatever happens: a value that every machine can send."""

import traceback
from dataclasses import dataclass

from autograder.instructor import walls
from autograder.instructor.calibration import versions
from autograder.instructor.course import UnreadableError
from autograder.instructor.worker.facts import Facts
from autograder.instructor.worker.submission import Submission
from autograder.instructor.worker.working import Work, work


class OtherPackageError(RuntimeError):
    """A worker has another version of the package or of JAX than whoever gave it work."""


@dataclass(frozen=True)
class Outcome:
    """What became of a submission.

    Attributes:
        work: what has been made of it; None where something went wrong.
        why: what went wrong, in a sentence.
        theirs: whether that is what was handed in, and not the grading.
        details: how it came up, for whoever looks for it.
        where: the address of the worker that it was; empty where it was nobody else's.
    """

    work: Work | None
    why: str = ""
    theirs: bool = False
    details: str = ""
    where: str = ""


def outcome(submission: Submission, facts: Facts, walled: bool = False) -> Outcome:
    """Grade a submission; an error is an outcome, too.

    Args:
        submission: what was handed in.
        facts: what is known of its assignment.
        walled: whether there are walls where the class is, so that there have to be here.
    """
    try:
        if facts.versions != versions():
            raise OtherPackageError(
                "This worker has another version of the package or of JAX. Install the one that "
                "grades there, too."
            )
        if walled and not walls.works():
            raise walls.NoSandboxError(walls.UNPROTECTED)
        return Outcome(work(submission, facts))
    except UnreadableError as error:
        return Outcome(None, str(error), theirs=True)
    except Exception as error:
        said = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        return Outcome(None, f"grading failed. {said}", details=traceback.format_exc())
