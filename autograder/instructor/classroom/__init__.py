"""A class: graded, judged again, and reported, by whoever holds its gradebook.

In: a `Course` with submissions. Out: grades in the gradebook, feedback pages, a table, CSVs, and
a sentence for each submission that has no grade.
"""

from autograder.instructor.classroom.grading import grade_class
from autograder.instructor.classroom.regrading import regrade_class

__all__ = [
    "grade_class",
    "regrade_class",
]
