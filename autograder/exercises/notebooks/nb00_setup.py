"""Notebook 00: one innocent line, which sends eleven times what it has to.

The budgets are those of 3.6, which has the same line without the constraint in its prompt.
"""

from typing import Final

import numpy as np

from autograder.artifacts import Argument
from autograder.judge import Budget, CommunicatesAtMost, Computes, Exercise, PlacedLike

GRID: Final = (("x", 4), ("y", 2))
BLOCKS: Final = "0 1\n2 3\n4 5\n6 7"
SIZES: Final = (16, 32)

FIRST_LINE: Final = Exercise(
    id="0.1",
    title="One line",
    afterwards="A constraint changes where values are, and never the values. So you can try one, "
    "and look at the report again.",
    requirements=(
        Computes(
            "mended",
            "mended(x) must be x + x.T.",
            lambda x: x + x.T,
            tuple((Argument((size, size), GRID, ("x", "y"), mode="auto"),) for size in SIZES),
            mistakes={
                "added-to-itself": lambda x: 2 * x,
                "turned-alone": lambda x: x.T,
                "turned-twice": lambda x: 2 * np.transpose(x),
            },
        ),
        PlacedLike("mended", BLOCKS, tuple((size, size) for size in SIZES)),
        CommunicatesAtMost(
            "mended",
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
        "The line is `return x + x.T`. Which of its arrays do not have the layout of the picture?",
        "`with_sharding_constraint(y, blocks)` returns y, in the layout `blocks`. Use what it "
        "returns in place of y.",
        "x.T is not in blocks. Put `with_sharding_constraint(…, blocks)` around it, or around the "
        "whole sum.",
    ),
    diagnoses={
        "replicated": "The compiler has not been told in which layout the sum should be. Does "
        "something in your line say so, of x.T or of the sum, and is what it returns used?",
        "all-gather": "Is something gathered on the way, such as complete rows or the whole "
        "array? Each device needs only an eighth of x.T.",
        "too-many-bytes": "Is the array resharded more than once on the way?",
        "grid": "The result must be in blocks, as x is.",
        "transposed": "The result must have the layout of x, not that of x.T.",
        "added-to-itself": "These are the values of x + x. Is x.T in your line?",
        "turned-alone": "These are the values of x.T alone.",
        "turned-twice": "These are the values of x.T + x.T.",
    },
    about=(CommunicatesAtMost,),
)

EXERCISES: Final = (FIRST_LINE,)
