"""Authoring: what somebody needs who writes an exercise.

In: an exercise's id, an answer to try, a bank of known answers. Out: stubs to fill in, the verdict
on an answer, each entry of a bank, and notebooks filled in with them.
"""

from autograder.instructor.authoring import bank
from autograder.instructor.authoring.answer_runner import CellError, Sitting, answered
from autograder.instructor.authoring.exercise_cells import cell_of, solution
from autograder.instructor.authoring.exercise_stubs import StubError, write_stubs
from autograder.instructor.authoring.try_command import NothingToTryError, try_answers

__all__ = [
    "CellError",
    "NothingToTryError",
    "Sitting",
    "StubError",
    "answered",
    "bank",
    "cell_of",
    "solution",
    "try_answers",
    "write_stubs",
]
