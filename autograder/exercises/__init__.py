"""The exercises, with one module for each notebook.

In: the judge's kinds of requirement, which this package exports, too. Out: each `Exercise`, by its
id or by its notebook, with its requirements, references, cases, hints and lessons. Kernels that run
submissions have no copy of this package.
"""

from autograder.judge import (
    AnyOrder,
    ArrayFunction,
    Budget,
    CommunicatesAtMost,
    Computes,
    Differentiates,
    Donates,
    Exercise,
    Expected,
    FitsIn,
    KeepsLayouts,
    Mistake,
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
    Terms,
    TrainsFast,
    WorksAtMost,
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
    "AnyOrder",
    "ArrayFunction",
    "Budget",
    "CommunicatesAtMost",
    "Computes",
    "CourseError",
    "Differentiates",
    "Donates",
    "Exercise",
    "Expected",
    "FitsIn",
    "KeepsLayouts",
    "Mistake",
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
    "Terms",
    "TrainsFast",
    "UnknownExerciseError",
    "WorksAtMost",
    "find",
    "folders_of_courses",
    "module_of",
    "parts_of_courses",
]
