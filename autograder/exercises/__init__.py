"""The exercises: what is asked, and what is right; one module for each notebook.

In: nothing but layouts and arguments to describe. Out: each `Exercise`, by its id or by its
notebook: its requirements with their references, cases, hints and lessons. A kernel that grades
has no copy of this room.
"""

from autograder.exercises.exercise import Exercise, Requirement, pictured
from autograder.exercises.requirements_on_designs import Designs
from autograder.exercises.requirements_on_layouts import (
    Feeds,
    PlacedLike,
    RunsIn,
    Timed,
    Trades,
)
from autograder.exercises.requirements_on_processes import Expected, OnProcesses
from autograder.exercises.requirements_on_programs import (
    Arrays,
    Ask,
    Budget,
    CommunicatesAtMost,
    Computes,
    FitsIn,
    Requests,
    WorksAtMost,
    allowed,
)
from autograder.exercises.requirements_on_values import (
    AnyOf,
    AnyOrder,
    Predicts,
    Returns,
    ways_of,
)

# isort: split
# Last, since it loads the exercises of other courses, and those import what stands above.
from autograder.exercises.catalogue import (
    BY_GRADE_ID,
    EXERCISES,
    NOTEBOOKS,
    UnknownExerciseError,
    find,
    module_of,
)
from autograder.exercises.other_courses import CourseError, folders_of_courses, parts_of_courses

__all__ = [
    "BY_GRADE_ID",
    "EXERCISES",
    "NOTEBOOKS",
    "AnyOf",
    "AnyOrder",
    "Arrays",
    "Ask",
    "Budget",
    "CommunicatesAtMost",
    "Computes",
    "CourseError",
    "Designs",
    "Exercise",
    "Expected",
    "Feeds",
    "FitsIn",
    "OnProcesses",
    "PlacedLike",
    "Predicts",
    "Requests",
    "Requirement",
    "Returns",
    "RunsIn",
    "Timed",
    "Trades",
    "UnknownExerciseError",
    "WorksAtMost",
    "allowed",
    "find",
    "folders_of_courses",
    "module_of",
    "parts_of_courses",
    "pictured",
    "ways_of",
]
