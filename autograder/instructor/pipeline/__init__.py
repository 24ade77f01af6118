"""Grade one submission, without the class's gradebook or folders.

In: a submission's bytes, and the facts of its assignment, which can be sent to any machine. Out: a
record with scores, verdicts and evidence, and the graded notebooks; or why there are none. The
basis of a grade, by which stale grades are found, and reading and writing records are here too.
"""

from autograder.instructor.pipeline.basis import (
    REJUDGEABLE,
    Basis,
    current_basis,
    fingerprint_assignment,
    fingerprint_submission,
    read_versions,
)
from autograder.instructor.pipeline.demonstrations import find_unused
from autograder.instructor.pipeline.facts import (
    AssignmentFacts,
    Calibration,
    begin_compiled,
    calibration_file,
    collect_facts,
    find_compiled,
    keep_compiled,
    read_calibration,
    solution_seconds,
    time_limit,
)
from autograder.instructor.pipeline.grading import (
    GRADING_FAILED,
    Outcome,
    Submission,
    describe_failure,
    failed_outcome,
    grade,
    is_note,
    read_submission,
)
from autograder.instructor.pipeline.record import (
    GradedNotebook,
    Record,
    Records,
    State,
    UnreadableRecordError,
    encoded_verdicts,
)

__all__ = [
    "GRADING_FAILED",
    "REJUDGEABLE",
    "AssignmentFacts",
    "Basis",
    "Calibration",
    "GradedNotebook",
    "Outcome",
    "Record",
    "Records",
    "State",
    "Submission",
    "UnreadableRecordError",
    "begin_compiled",
    "calibration_file",
    "collect_facts",
    "current_basis",
    "describe_failure",
    "encoded_verdicts",
    "failed_outcome",
    "find_compiled",
    "find_unused",
    "fingerprint_assignment",
    "fingerprint_submission",
    "grade",
    "is_note",
    "keep_compiled",
    "read_calibration",
    "read_submission",
    "read_versions",
    "solution_seconds",
    "time_limit",
]
