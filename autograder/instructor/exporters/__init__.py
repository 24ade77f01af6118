"""Exporters for nbgrader: grades and feedback as learning platforms take them, and verdicts.

In: a gradebook, and what is kept beside graded notebooks. Out: files, by nbgrader's own command:
`nbgrader export --exporter=autograder.instructor.exporters.Canvas`.
"""

from autograder.instructor.exporters.canvas import Canvas
from autograder.instructor.exporters.gradescope import Gradescope
from autograder.instructor.exporters.moodle import Moodle
from autograder.instructor.exporters.verdict_lines import Verdicts

__all__ = ["Canvas", "Gradescope", "Moodle", "Verdicts"]
