"""The exercises, with one module for each notebook.

In: the judge's kinds of requirement, which this package exports, too. Out: each `Exercise`, by its
id or by its notebook, with its requirements, references, cases, hints and lessons. Kernels that run
submissions have no copy of this package.
"""

from autograder.judge import (
    AnyOf,
    AnyOrder,
    ArrayFunction,
    Budget,
    CommunicatesAtMost,
    Computes,
    Differentiates,
    Exercise,
    Expected,
    FitsIn,
    KeepsLayouts,
    MovesFewBytes,
    OnProcesses,
    PlacedLike,
    Predicts,
    RecomputesAtMost,
    RequestedCollective,
    Requests,
    Requirement,
    Resumes,
    ResumesAfterTornWrites,
    Returns,
    RunsFast,
    RunsWithinBudgets,
    Satisfies,
    SavesAtMost,
    Timed,
    TrainsFast,
    WorksAtMost,
    alternatives_of,
)

# isort: split
# Last: it loads the exercises of other courses, which import the names above from here.
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
    "ArrayFunction",
    "Budget",
    "CommunicatesAtMost",
    "Computes",
    "CourseError",
    "Differentiates",
    "Exercise",
    "Expected",
    "FitsIn",
    "KeepsLayouts",
    "MovesFewBytes",
    "OnProcesses",
    "PlacedLike",
    "Predicts",
    "RecomputesAtMost",
    "RequestedCollective",
    "Requests",
    "Requirement",
    "Resumes",
    "ResumesAfterTornWrites",
    "Returns",
    "RunsFast",
    "RunsWithinBudgets",
    "Satisfies",
    "SavesAtMost",
    "Timed",
    "TrainsFast",
    "UnknownExerciseError",
    "WorksAtMost",
    "alternatives_of",
    "find",
    "folders_of_courses",
    "module_of",
    "parts_of_courses",
]
