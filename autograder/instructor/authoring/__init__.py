"""Tools for authors of exercises.

In: an exercise's id, an answer to try, or a bank of known answers. Out: stubs to fill in, the
verdict on an answer, the entries of a bank, and notebooks filled in with answers.
"""

from autograder.instructor.authoring import bank
from autograder.instructor.authoring.exercise_stubs import (
    extract_solution,
    find_cell,
    write_stubs,
)
from autograder.instructor.authoring.trying import (
    NotebookSession,
    fill_in_answers,
    try_answers,
)

__all__ = [
    "NotebookSession",
    "bank",
    "extract_solution",
    "fill_in_answers",
    "find_cell",
    "try_answers",
    "write_stubs",
]
