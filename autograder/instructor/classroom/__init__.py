"""A class: graded, judged again, and reported, by whoever holds its gradebook.

In: a `Course` with submissions, and what its instructor wrote of the class. Out: grades in the
gradebook, feedback pages, a table, CSVs, a report, and a sentence for each submission that has no
grade.
"""

from autograder.instructor.classroom.choice import EVERYTHING, Choice, UnknownNameError, choose
from autograder.instructor.classroom.class_standing import class_as_it_stands
from autograder.instructor.classroom.demonstration_class import DemonstrationError, demonstrate
from autograder.instructor.classroom.grade_csvs import write_csv
from autograder.instructor.classroom.grading import grade_class
from autograder.instructor.classroom.handing_back import hand_back, report_class
from autograder.instructor.classroom.kept_answers import Submission, kept_answers
from autograder.instructor.classroom.regrading import regrade_class
from autograder.instructor.classroom.restoring import list_backups, restore
from autograder.instructor.classroom.roster import (
    OF_ONE_ASSIGNMENT,
    Person,
    RosterError,
    read_roster,
)
from autograder.instructor.classroom.schedulers import SchedulerError
from autograder.instructor.classroom.side_by_side import Workers
from autograder.instructor.classroom.submission_states import Row

__all__ = [
    "EVERYTHING",
    "OF_ONE_ASSIGNMENT",
    "Choice",
    "DemonstrationError",
    "Person",
    "RosterError",
    "Row",
    "SchedulerError",
    "Submission",
    "UnknownNameError",
    "Workers",
    "choose",
    "class_as_it_stands",
    "demonstrate",
    "grade_class",
    "hand_back",
    "kept_answers",
    "list_backups",
    "read_roster",
    "regrade_class",
    "report_class",
    "restore",
    "write_csv",
]
