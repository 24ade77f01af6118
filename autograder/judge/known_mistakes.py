"""Find the known mistake of an exercise that explains what a program gave."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from autograder.judge.comparing_values import (
    LENIENT,
    Arrays,
    Wrong,
    are_alike_where_finite,
    compare_outputs,
)
from autograder.judge.requirements_on_results import ways_of
from autograder.judge.running_programs import Run
from autograder.programs import Ran

ROUGH, EXACT = 1, 2
"""Degrees to which a mistake explains a result; 0 is not at all."""


def known_mistake(
    reference: Arrays, mistakes: Mapping[str, Any], runs: Sequence[Run]
) -> Wrong | None:
    """Find the known mistake that explains what every program gave, preferring an exact match."""
    roughly = None
    for diagnosis, mistaken in mistakes.items():
        likeness = min(
            max(_likeness(way, reference, *run) for way in ways_of(mistaken)) for run in runs
        )
        if likeness == EXACT:
            return diagnosis, "The values are wrong."
        if likeness == ROUGH and roughly is None:
            roughly = diagnosis, "The values are wrong."
    return roughly


def _likeness(
    mistaken: Callable[..., Any],
    reference: Arrays,
    draws: list[list[np.ndarray]],
    ran: Ran,
) -> int:
    """Grade how well a mistake explains what a program gave for every draw of its inputs.

    A rough likeness counts only where it tells the mistake from what is right: of a matrix with a
    large diagonal, the small numbers beside it are lost in that.
    """
    likeness = EXACT
    for inputs, outputs in zip(draws, ran.outputs, strict=True):
        with np.errstate(all="ignore"):
            made = jax.tree.leaves(mistaken(*inputs))
        if not all(map(is_finite, made)):
            if not are_alike_where_finite(outputs, made, LENIENT):
                return 0
            continue
        if compare_outputs(outputs, made) is None:
            continue
        right = jax.tree.leaves(reference(*inputs))
        if compare_outputs(outputs, made, LENIENT) or are_alike_where_finite(made, right, LENIENT):
            return 0
        likeness = ROUGH
    return likeness


def is_finite(output: Any) -> bool:
    """Check whether an array has no infinity and no NaN."""
    wide = np.complex128 if np.iscomplexobj(output) else np.float64
    return bool(np.isfinite(np.asarray(output, wide)).all())
