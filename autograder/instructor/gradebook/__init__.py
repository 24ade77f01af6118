"""The gradebook: its address, its lock, its backups, and the marks and times in it.

In: the address of a database, which is a file or on a PostgreSQL server. Out: locks; dated backups,
made before grades change; what is wrong with a gradebook; marks; fingerprints and scores of each
student's grades, as feedback pages show them.
"""

from autograder.instructor.gradebook.backups import (
    ON_A_SERVER,
    back_up,
    count_manual_scores,
    explain_rebuild,
    find_damage,
    find_newest_backup,
    gradebook_file,
    has_grades,
    list_all_backups,
    open_gradebook,
    read_backup_time,
    refuse_damaged,
    rename_damaged,
    restore_backup,
)
from autograder.instructor.gradebook.connections import (
    GradebookError,
    hide_secrets,
    install_engine,
    is_server,
    watch_file,
)
from autograder.instructor.gradebook.database import (
    ADDRESS_VARIABLE,
    BusyError,
    hold_folder_lock,
    hold_server_lock,
    parse_address,
)
from autograder.instructor.gradebook.marks import Mark, read_marks, read_penalties
from autograder.instructor.gradebook.shown_grades import (
    ShownGrades,
    fingerprint_shown_grades,
    read_auto_scores,
)
from autograder.instructor.gradebook.times import as_naive_utc, as_utc

__all__ = [
    "ADDRESS_VARIABLE",
    "ON_A_SERVER",
    "BusyError",
    "GradebookError",
    "Mark",
    "ShownGrades",
    "as_naive_utc",
    "as_utc",
    "back_up",
    "count_manual_scores",
    "explain_rebuild",
    "find_damage",
    "find_newest_backup",
    "fingerprint_shown_grades",
    "gradebook_file",
    "has_grades",
    "hide_secrets",
    "hold_folder_lock",
    "hold_server_lock",
    "install_engine",
    "is_server",
    "list_all_backups",
    "open_gradebook",
    "parse_address",
    "read_auto_scores",
    "read_backup_time",
    "read_marks",
    "read_penalties",
    "refuse_damaged",
    "rename_damaged",
    "restore_backup",
    "watch_file",
]
