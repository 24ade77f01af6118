"""Notebook 00: one innocent line, for which devices send nine times what they have to.

The budgets are those of 3.6, which has the same line without the constraint in its prompt.
"""

from typing import Final

import numpy as np

from autograder.artifacts import Argument
from autograder.judge import Budget, CommunicatesAtMost, Computes, Exercise, Mistake, PlacedLike

GRID: Final = (("x", 4), ("y", 2))
BLOCKS: Final = "0 1\n2 3\n4 5\n6 7"
SIZES: Final = (32, 16)

FIRST_LINE: Final = Exercise(
    id="0.1",
    title="One line",
    afterwards="For the innocent line, each device sends 7,168 bytes. A constraint on m.T, on the "
    "sum or, here, even on m saves eight ninths of them. Constraints change where values are, and "
    "never the values.",
    requirements=(
        Computes(
            "repaired",
            "repaired(m) must be m + m.T.",
            lambda m: m + m.T,
            tuple((Argument((size, size), GRID, ("x", "y"), mode="auto"),) for size in SIZES),
            mistakes={
                "added-to-itself": Mistake(
                    lambda m: 2 * m, says="These are the values of m + m. Is m.T in your line?"
                ),
                "turned-alone": Mistake(lambda m: m.T, says="These are the values of m.T alone."),
                "turned-twice": Mistake(
                    lambda m: 2 * np.transpose(m), says="These are the values of m.T + m.T."
                ),
            },
        ),
        PlacedLike("repaired", BLOCKS, tuple((size, size) for size in SIZES), drawn=False),
        CommunicatesAtMost(
            "repaired",
            tuple(
                (
                    Budget("all-to-all", bytes=size * size // 2),
                    Budget("collective-permute", bytes=size * size // 2),
                )
                for size in SIZES
            ),
        ),
    ),
    hints=(
        "The line is `return m + m.T`. m has the layout of the picture. Which other arrays are in "
        "this line, and should have it, too?",
        "`with_sharding_constraint(a, blocks)` returns a, in the layout `blocks`. Use what it "
        "returns in place of a.",
        "m.T is not in blocks. Put `with_sharding_constraint(…, blocks)` around it, or around the "
        "whole sum.",
    ),
    diagnoses={
        "replicated": "Every device has all of the sum. What does your line ask for in `blocks`: "
        "the sum, m.T, or something else? Only what with_sharding_constraint returns has the "
        "layout, and in a compiled function jax.device_put asks for nothing.",
        "all-gather": "Is something gathered on the way, such as complete rows or the whole "
        "array? Each device needs only an eighth of m.T.",
        "too-many-bytes": "Is the array resharded more than once on the way?",
        "grid": "The result must be in blocks, as m is.",
        "transposed": "The result must have the layout of m, not that of m.T.",
    },
    about=(CommunicatesAtMost,),
)

EXERCISES: Final = (FIRST_LINE,)
