"""Exporters for nbgrader: grades and feedback as learning platforms take them.

In: a gradebook, and the records of what was graded. Out: files, by nbgrader's own command:
`nbgrader export --exporter=autograder.instructor.exporters.Canvas`.
"""

from autograder.instructor.exporters.canvas import Canvas
from autograder.instructor.exporters.gradescope import Gradescope
from autograder.instructor.exporters.moodle import Moodle

__all__ = ["Canvas", "Gradescope", "Moodle"]
