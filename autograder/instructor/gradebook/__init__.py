"""The gradebook: its address, its lock, its backups, and fingerprints of the grades in it.

In: the address of a database, which is a file or on a PostgreSQL server. Out: locks; dated backups,
made before grades change; what is wrong with a gradebook; fingerprints and scores of each student's
grades, as feedback pages show them.
"""

from autograder.instructor.gradebook.backups import (
    ON_A_SERVER,
    back_up,
    backups,
    find_damage,
    gradebook_file,
    has_grades,
    rename_damaged,
    restore_backup,
    temporary_copy,
)
from autograder.instructor.gradebook.database import (
    ADDRESS_VARIABLE,
    BusyError,
    GradebookError,
    hold_folder_lock,
    hold_server_lock,
    is_server,
    parse_address,
    shown,
)
from autograder.instructor.gradebook.shown_grades import ShownGrades, read_auto_scores, shown_grades

__all__ = [
    "ADDRESS_VARIABLE",
    "ON_A_SERVER",
    "BusyError",
    "GradebookError",
    "ShownGrades",
    "back_up",
    "backups",
    "find_damage",
    "gradebook_file",
    "has_grades",
    "hold_folder_lock",
    "hold_server_lock",
    "is_server",
    "parse_address",
    "read_auto_scores",
    "rename_damaged",
    "restore_backup",
    "shown",
    "shown_grades",
    "temporary_copy",
]
