"""What each exercise asks: one module a notebook, and the one place that finds them all."""

import reprlib
from typing import Final

from autograder.exercise import Exercise
from autograder.exercises import (
    computation_follows_data,
    constraints,
    neural_networks,
    shard_map,
    shard_map_matmul,
    sharding_basics,
    sharp_bits,
)

NOTEBOOKS: Final[dict[str, tuple[Exercise, ...]]] = {
    "01_sharding_basics": sharding_basics.EXERCISES,
    "02_computation_follows_data": computation_follows_data.EXERCISES,
    "03_constraints": constraints.EXERCISES,
    "05_shard_map": shard_map.EXERCISES,
    "06_shard_map_matmul": shard_map_matmul.EXERCISES,
    "08_neural_networks": neural_networks.EXERCISES,
    "09_sharp_bits": sharp_bits.EXERCISES,
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
    if not isinstance(exercise_id, str | float | None):
        kind = type(exercise_id).__name__
        raise UnknownExerciseError(
            f'What comes first is the id of an exercise, such as "1.1"; {kind} came.'
        )
    if isinstance(exercise_id, str) and exercise_id in EXERCISES:
        return EXERCISES[exercise_id]
    if str(exercise_id) in EXERCISES:
        raise UnknownExerciseError(f'The id of an exercise is a string: write "{exercise_id}".')
    raise UnknownExerciseError(
        f"There is no exercise {reprlib.repr(exercise_id)}. An exercise is named by a string, "
        f"one of {', '.join(EXERCISES)}."
    )
