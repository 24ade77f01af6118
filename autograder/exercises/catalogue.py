"""Find an exercise by its id, its notebook, or the name of its graded cell."""

import reprlib
from typing import Final

from autograder.exercises.notebooks import (
    nb00_setup,
    nb01_sharding_basics,
    nb02_computation_follows_data,
    nb03_constraints,
    nb04_communication_cost,
    nb05_shard_map,
    nb06_shard_map_matmul,
    nb07_pmap_migration,
    nb08_neural_networks,
    nb09_sharp_bits,
    nb10_fft_and_solvers,
    nb11_beyond_one_process,
    nb11_capstone,
    nb11_resuming,
    nb12_large_models,
    nb13_a_real_trainer,
    nb14_serving,
)
from autograder.exercises.other_courses import CourseError, iterate_notebooks, module_elsewhere
from autograder.judge import Exercise
from shardlings.errors import ShortError

_OURS: Final[dict[str, tuple[Exercise, ...]]] = {
    "00_setup": nb00_setup.EXERCISES,
    "01_sharding_basics": nb01_sharding_basics.EXERCISES,
    "02_computation_follows_data": nb02_computation_follows_data.EXERCISES,
    "03_constraints": nb03_constraints.EXERCISES,
    "04_communication_cost": nb04_communication_cost.EXERCISES,
    "05_shard_map": nb05_shard_map.EXERCISES,
    "06_shard_map_matmul": nb06_shard_map_matmul.EXERCISES,
    "07_pmap_migration": nb07_pmap_migration.EXERCISES,
    "08_neural_networks": nb08_neural_networks.EXERCISES,
    "09_sharp_bits": nb09_sharp_bits.EXERCISES,
    "10_fft_and_solvers": nb10_fft_and_solvers.EXERCISES,
    "11_beyond_one_process": (
        *nb11_beyond_one_process.EXERCISES,
        *nb11_capstone.CAPSTONE,
        *nb11_resuming.RESUMING,
    ),
    "12_large_models": nb12_large_models.EXERCISES,
    "13_a_real_trainer": nb13_a_real_trainer.EXERCISES,
    "14_serving": nb14_serving.EXERCISES,
}
_OTHERS: Final = dict(iterate_notebooks())

NOTEBOOKS: Final = {**_OURS, **_OTHERS}
"""The exercises of each notebook, by the notebook's nbgrader assignment id, in order.

The notebooks of other installed courses come last.
"""

EXERCISES: Final[dict[str, Exercise]] = {
    exercise.id: exercise for exercises in NOTEBOOKS.values() for exercise in exercises
}

BY_GRADE_ID: Final[dict[str, Exercise]] = {
    exercise.grade_id: exercise for exercise in EXERCISES.values()
}
"""The exercises by the names of their graded cells in nbgrader."""

_names = [*_OURS, *_OTHERS, *(e.id for exercises in NOTEBOOKS.values() for e in exercises)]
_duplicate = next((name for name in _names if _names.count(name) > 1), "")
if _duplicate:
    raise CourseError(
        f"Two installed courses both have {_duplicate}. The names of notebooks and exercises must "
        f"be unique among all installed courses."
    )


class UnknownExerciseError(ShortError, LookupError):
    """There is no exercise with that id; the message lists all ids."""


def find(exercise_id: object) -> Exercise:
    """Return the exercise with an id such as `"1.4"`.

    Raises:
        UnknownExerciseError: there is no such exercise.
    """
    if not isinstance(exercise_id, str | float | None):
        kind = type(exercise_id).__name__
        raise UnknownExerciseError(
            f'The first argument must be the id of an exercise, such as "1.1"; got {kind}.'
        )
    if isinstance(exercise_id, str) and exercise_id in EXERCISES:
        return EXERCISES[exercise_id]
    meant = [f'"{each}"' for each in (f"{exercise_id}", f"{exercise_id}0") if each in EXERCISES]
    if isinstance(exercise_id, float) and meant:  # 10.10 is the number 10.1
        raise UnknownExerciseError(
            f"The id of an exercise is a string: write {' or '.join(meant)}."
        )
    raise UnknownExerciseError(
        f"There is no exercise {reprlib.repr(exercise_id)}. The id must be a string, one of "
        f"{', '.join(EXERCISES)}."
    )


def module_of(notebook: str) -> str:
    """Return the name of the module with a notebook's exercises, by its assignment id."""
    own_module = f"{__name__.rpartition('.')[0]}.notebooks.nb{notebook}"
    return module_elsewhere(notebook) or own_module
