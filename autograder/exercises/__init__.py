"""The exercises: what is asked, and what is right; one module for each notebook.

In: the judge's kinds of requirement, which are public here too. Out: each `Exercise`, by its id or
by its notebook: its requirements with their references, cases, hints and lessons. A kernel that
grades has no copy of this package.
"""

from autograder.judge import (
    AnyOf,
    AnyOrder,
    Arrays,
    Ask,
    Budget,
    CommunicatesAtMost,
    Computes,
    Designs,
    Exercise,
    Expected,
    Feeds,
    FitsIn,
    OnProcesses,
    PlacedLike,
    Predicts,
    Requests,
    Requirement,
    Returns,
    RunsIn,
    Timed,
    Trades,
    WorksAtMost,
    allowed,
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
    "ways_of",
]
