"""Notebook 12: large models, and where their time goes. Its exercises are in two modules."""

from typing import Final

from autograder.exercises.notebooks.nb12_planning import (
    LATENCY,
    OVERLAP,
    PIPELINES,
    TOPOLOGY,
    ZERO,
)
from autograder.exercises.notebooks.nb12_programs import (
    ACTIVATIONS,
    EXPERTS,
    MIXED_PRECISION,
    RING_ATTENTION,
    TRAINER,
)

EXERCISES: Final = (
    LATENCY,
    TOPOLOGY,
    PIPELINES,
    ZERO,
    RING_ATTENTION,
    OVERLAP,
    TRAINER,
    ACTIVATIONS,
    EXPERTS,
    MIXED_PRECISION,
)
