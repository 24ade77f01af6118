"""Grade one submission, without the class's gradebook or folders.

In: a submission's bytes, and the facts of its assignment, which can be sent to any machine. Out: a
record with scores, verdicts and evidence, and the graded notebooks; or why there are none. The
basis of a grade, by which stale grades are found, and reading and writing records are here too.
"""

from autograder.instructor.pipeline.basis import (
    JUDGED,
    Basis,
    fingerprint_assignment,
    fingerprint_submission,
    of_grades,
    versions,
)
from autograder.instructor.pipeline.facts import (
    Calibration,
    Facts,
    compiled_before,
    facts_of,
    keep_compiled,
    memory,
    remembered,
    time_limit,
    usual_seconds,
)
from autograder.instructor.pipeline.grading import (
    OtherPackageError,
    Outcome,
    Submission,
    failed,
    grade,
    graded_notebook,
    is_told,
    submission_in,
)
from autograder.instructor.pipeline.record import (
    GradedNotebook,
    Record,
    Records,
    State,
    UnreadableRecordError,
    encoded_verdicts,
    write_anew,
)

__all__ = [
    "JUDGED",
    "Basis",
    "Calibration",
    "Facts",
    "GradedNotebook",
    "OtherPackageError",
    "Outcome",
    "Record",
    "Records",
    "State",
    "Submission",
    "UnreadableRecordError",
    "compiled_before",
    "encoded_verdicts",
    "facts_of",
    "failed",
    "fingerprint_assignment",
    "fingerprint_submission",
    "grade",
    "graded_notebook",
    "is_told",
    "keep_compiled",
    "memory",
    "of_grades",
    "remembered",
    "submission_in",
    "time_limit",
    "usual_seconds",
    "versions",
    "write_anew",
]
