"""Explanations of errors for a learner.

In: an exception that the learner's code raised, or JAX on it, or one of our own. Out: a diagnosis
and an explanation, or a `Fault`, which leads to no score. The library tells whose an error is.
"""

from pathlib import Path

from autograder.explanations.faults import Fault, explain_fault, report_address
from autograder.explanations.jax_errors import (
    BLOCKS_DO_NOT_FIT,
    DIAGNOSES,
    JAX_SAYS,
    RAISED,
    copy_name,
    diagnose_jax_error,
    explain_error,
    insert_before_jax_message,
    is_jax_error_without_message,
)
from autograder.explanations.operands import NOT_GATHERED
from shardlings.errors import add_own_folder

add_own_folder(Path(__file__).parents[1])

__all__ = [
    "BLOCKS_DO_NOT_FIT",
    "DIAGNOSES",
    "JAX_SAYS",
    "NOT_GATHERED",
    "RAISED",
    "Fault",
    "copy_name",
    "diagnose_jax_error",
    "explain_error",
    "explain_fault",
    "insert_before_jax_message",
    "is_jax_error_without_message",
    "report_address",
]
