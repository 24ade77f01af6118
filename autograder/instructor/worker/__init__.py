"""One submission's way from what was handed in to what is to be entered, as a function.

In: what was handed in, and the facts of its assignment, as data that can be sent anywhere. Out: the
executed notebook with its verdicts, the evidence, what is to be said, and how long it took; or why
there are none. Nothing here reads or writes a class's gradebook or folders, so that it makes no
difference on which machine it is called, how often, or whether it is killed.
"""

from autograder.instructor.worker.facts import Facts, facts_of, is_saving
from autograder.instructor.worker.notes import add as add_note
from autograder.instructor.worker.notes import kept as kept_notes
from autograder.instructor.worker.outcomes import OtherPackageError, Outcome, outcome
from autograder.instructor.worker.submission import Submission, submission_in
from autograder.instructor.worker.told_above import is_told
from autograder.instructor.worker.working import Work, work

__all__ = [
    "Facts",
    "OtherPackageError",
    "Outcome",
    "Submission",
    "Work",
    "add_note",
    "facts_of",
    "is_saving",
    "is_told",
    "kept_notes",
    "outcome",
    "submission_in",
    "work",
]
