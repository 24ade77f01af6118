"""nbgrader's configuration of this course; what is set below the last line wins."""

from pathlib import Path

from autograder.instructor.nbgrader_plugins import configure

c = get_config()
configure(c, Path(__file__).resolve().parent)
