"""The gradebook: its address, its lock, its backups, and fingerprints of the grades in it.

In: the address of a database, which is a file or on a PostgreSQL server. Out: locks; dated backups,
made before grades change; what is wrong with a gradebook; fingerprints and scores of each student's
grades, as feedback pages show them.
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
