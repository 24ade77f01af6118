"""What each exercise asks: one module a notebook, and the one place that finds them all."""

from typing import Final

from autograder.exercise import Exercise
from autograder.exercises import sharding_basics

NOTEBOOKS: Final[dict[str, tuple[Exercise, ...]]] = {
    "01_sharding_basics": sharding_basics.EXERCISES,
}
"""The exercises of each notebook, by the notebook's nbgrader assignment id, in order."""

EXERCISES: Final[dict[str, Exercise]] = {
    exercise.id: exercise for exercises in NOTEBOOKS.values() for exercise in exercises
}


class UnknownExerciseError(LookupError):
    """There is no exercise of that name; the message lists those that there are."""


def find(exercise_id: object) -> Exercise:
    """The exercise with an id such as `"1.4"`.

    Raises:
        UnknownExerciseError: there is none.
    """
    if isinstance(exercise_id, str) and exercise_id in EXERCISES:
        return EXERCISES[exercise_id]
    raise UnknownExerciseError(
        f"There is no exercise {exercise_id!r}. An exercise is named by a string, one of "
        f"{', '.join(EXERCISES)}."
    )
