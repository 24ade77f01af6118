"""The gradebook itself: where it is, who may write to it, copies of it, and what is shown of it.

In: the address of a database, a file or a server's. Out: locks; dated copies, made before grades
change; digests of each student's grades.
"""

from autograder.instructor.gradebook.address import (
    VARIABLE,
    GradebookError,
    is_server,
    shown,
    take_address,
)
from autograder.instructor.gradebook.backups import back_up, backed_up, backups
from autograder.instructor.gradebook.copies import put_back, readable_copy
from autograder.instructor.gradebook.holding import BusyError, held_anywhere, held_here
from autograder.instructor.gradebook.shown_grades import Shown, shown_grades

__all__ = [
    "VARIABLE",
    "BusyError",
    "GradebookError",
    "Shown",
    "back_up",
    "backed_up",
    "backups",
    "held_anywhere",
    "held_here",
    "is_server",
    "put_back",
    "readable_copy",
    "shown",
    "shown_grades",
    "take_address",
]
