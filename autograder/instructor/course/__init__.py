"""The course as it lies on a disk: its folders, its gradebook's lock, and what was handed in.

In: a folder with `nbgrader_config.py`. Out: `Course`, and why a submission cannot be taken,
before anything of it is copied, opened or run.
"""

from autograder.instructor.course.course import BusyError, Course, NAMESPACE, ReleaseError, reason
from autograder.instructor.course.handed_in import cannot_be_copied, cannot_be_read, printable, readable, why_not

__all__ = [
    "BusyError",
    "Course",
    "NAMESPACE",
    "ReleaseError",
    "cannot_be_copied",
    "cannot_be_read",
    "printable",
    "readable",
    "reason",
    "why_not",
]
