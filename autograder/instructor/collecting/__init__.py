"""Submissions taken in from learning platforms: Canvas, Moodle, and folders for each student.

In: a zip file that strangers filled, and the roster. Out: `grading/submitted/`, by nbgrader's own
collector, and a summary of what was taken and what not.
"""

from autograder.instructor.collecting.collect import CollectError, collect

__all__ = ["CollectError", "collect"]
