"""The course on disk: its folders, the lock for grading, the class's files, and submissions.

In: a folder with `nbgrader_config.py`. Out: a `Course`; the reason why a submission cannot be
accepted, before any of it is copied, opened or run; its notebook, rewritten in the sandbox.
"""

from autograder.instructor.course.class_file import (
    TIMES_FILE,
    ClassError,
    ClassRules,
    WrittenTableError,
    in_words,
    near,
    read_class_file,
    read_table,
    read_times,
    written_when,
    zone_of,
)
from autograder.instructor.course.course import (
    NAMESPACE,
    Course,
    ReleaseError,
    reason,
)
from autograder.instructor.course.names import (
    EXCHANGE_FILES,
    is_taken,
    left_out,
    printable,
    readable,
    without_controls,
)
from autograder.instructor.course.notebook_rewriting import (
    BASE64,
    MAX_PICTURE_CHARACTERS,
    PICTURE_TYPES,
)
from autograder.instructor.course.reading_submissions import (
    MAX_NOTEBOOK_BYTES,
    MAX_SUBMISSION_BYTES,
    HandedIn,
    ReaderFailedError,
    UnreadableError,
    cannot_be_copied,
    cannot_be_read,
    cannot_be_taken,
    read_apart,
)
from autograder.instructor.course.stopping import STATUSES, STOPPED, stoppable
from autograder.instructor.gradebook import BusyError, GradebookError

__all__ = [
    "BASE64",
    "EXCHANGE_FILES",
    "MAX_NOTEBOOK_BYTES",
    "MAX_PICTURE_CHARACTERS",
    "MAX_SUBMISSION_BYTES",
    "NAMESPACE",
    "PICTURE_TYPES",
    "STATUSES",
    "STOPPED",
    "TIMES_FILE",
    "BusyError",
    "ClassError",
    "ClassRules",
    "Course",
    "GradebookError",
    "HandedIn",
    "ReaderFailedError",
    "ReleaseError",
    "UnreadableError",
    "WrittenTableError",
    "cannot_be_copied",
    "cannot_be_read",
    "cannot_be_taken",
    "in_words",
    "is_taken",
    "left_out",
    "near",
    "printable",
    "read_apart",
    "read_class_file",
    "read_table",
    "read_times",
    "readable",
    "reason",
    "stoppable",
    "without_controls",
    "written_when",
    "zone_of",
]
