"""Take submissions from learning platforms: Canvas, Moodle, and folders for each student.

In: a zip file with files that students wrote, and the roster. Out: submissions in
`grading/submitted/`, and a summary of accepted and rejected files.
"""

from autograder.instructor.collecting.collect import collect

__all__ = ["collect"]
