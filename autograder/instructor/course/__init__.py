"""The course as it lies on a disk: its folders, its gradebook's lock, and what was handed in.

In: a folder with `nbgrader_config.py`. Out: `Course`; why a submission cannot be taken, before
anything of it is copied, opened or run; and its notebook, read and written anew by a process of its
own.
"""

from autograder.instructor.course.course import BusyError, Course, NAMESPACE, ReleaseError, reason
from autograder.instructor.course.files_beside import is_taken, left_out
from autograder.instructor.course.handed_in import cannot_be_copied, cannot_be_taken
from autograder.instructor.course.names import printable, readable, without_controls
from autograder.instructor.course.notebook_rewriting import BASE64, MOST_PICTURED, PICTURES
from autograder.instructor.course.reading_apart import (
    HandedIn,
    ReaderFailedError,
    UnreadableError,
    cannot_be_read,
    read_apart,
)

__all__ = [
    "BASE64",
    "MOST_PICTURED",
    "NAMESPACE",
    "PICTURES",
    "BusyError",
    "Course",
    "HandedIn",
    "ReaderFailedError",
    "ReleaseError",
    "UnreadableError",
    "cannot_be_copied",
    "cannot_be_read",
    "cannot_be_taken",
    "is_taken",
    "left_out",
    "printable",
    "read_apart",
    "readable",
    "reason",
    "without_controls",
]
