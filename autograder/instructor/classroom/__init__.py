"""Grade a class, regrade it, and report on it.

In: a `Course` with submissions, the roster, and the class's file. Out: grades in the gradebook,
feedback pages, a table, CSVs, a report, and the reason for each submission that has no grade.
"""

from autograder.instructor.classroom.choice import Choice, choose
from autograder.instructor.classroom.demonstration_class import demonstrate
from autograder.instructor.classroom.feedback_command import renew_feedback, report_class
from autograder.instructor.classroom.grade_tables import write_csv
from autograder.instructor.classroom.grading import grade_class, read_class
from autograder.instructor.classroom.rebuilding import list_backups, restore
from autograder.instructor.classroom.regrading import regrade_class
from autograder.instructor.classroom.roster import (
    LOGIN_COLUMNS,
    MAX_ID_CHARACTERS,
    Person,
    RosterError,
    is_folder_name,
    read_roster,
)
from autograder.instructor.classroom.submission_states import (
    StateRow,
)
from autograder.instructor.classroom.withdrawing import withdraw
from autograder.instructor.classroom.workers import Workers

__all__ = [
    "LOGIN_COLUMNS",
    "MAX_ID_CHARACTERS",
    "Choice",
    "Person",
    "RosterError",
    "StateRow",
    "Workers",
    "choose",
    "demonstrate",
    "grade_class",
    "is_folder_name",
    "list_backups",
    "read_class",
    "read_roster",
    "regrade_class",
    "renew_feedback",
    "report_class",
    "restore",
    "withdraw",
    "write_csv",
]
