"""The gradebook: its address, its lock, its backups, and what pages show of it.

In: the address of a database, a file or a server's. Out: locks; dated copies, made before grades
change; what is wrong with it; digests and scores of each student's grades.
"""

from autograder.instructor.gradebook.backups import (
    ON_A_SERVER,
    back_up,
    backups,
    file_of,
    has_grades,
    put_back,
    readable_copy,
    set_aside,
    trouble_in,
)
from autograder.instructor.gradebook.database import (
    VARIABLE,
    BusyError,
    GradebookError,
    held_anywhere,
    held_here,
    is_server,
    shown,
    take_address,
)
from autograder.instructor.gradebook.shown_grades import ShownGrades, auto_scores, shown_grades

__all__ = [
    "ON_A_SERVER",
    "VARIABLE",
    "BusyError",
    "GradebookError",
    "ShownGrades",
    "auto_scores",
    "back_up",
    "backups",
    "file_of",
    "has_grades",
    "held_anywhere",
    "held_here",
    "is_server",
    "put_back",
    "readable_copy",
    "set_aside",
    "shown",
    "shown_grades",
    "take_address",
    "trouble_in",
]
