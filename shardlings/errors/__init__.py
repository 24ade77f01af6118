"""Decide whose error an error is, and explain what it usually means.

In: exceptions raised by the learner's code, by JAX, or by the autograder. Out: a short sentence, a
diagnosis, and whose error it is: the learner's (`TheirError`) or ours (`Fault`, which leads to no
score). The tested versions of JAX are here too, because every report of a fault names them. This
package imports no other.
"""

from shardlings.errors.blame import (
    PACKAGES,
    Fault,
    ShortError,
    TheirError,
    UsageError,
    first_line,
    frame_owner,
    owner_of_globals,
    report_address,
    theirs,
)
from shardlings.errors.cell_lines import (
    describe_error,
    last_cell_line,
    line_in_cell,
    remember_blank_lines,
)
from shardlings.errors.jax_errors import (
    DIAGNOSES,
    JAX_SAYS,
    copy_name,
    diagnose_jax_error,
    explain_error,
    insert_before_jax_message,
    is_jax_error_without_message,
)
from shardlings.errors.jax_versions import (
    TESTED_JAX_VERSIONS,
    crash_warning,
    version_warning,
    versions_in_words,
)

__all__ = [
    "DIAGNOSES",
    "JAX_SAYS",
    "PACKAGES",
    "TESTED_JAX_VERSIONS",
    "Fault",
    "ShortError",
    "TheirError",
    "UsageError",
    "copy_name",
    "crash_warning",
    "describe_error",
    "diagnose_jax_error",
    "explain_error",
    "first_line",
    "frame_owner",
    "insert_before_jax_message",
    "is_jax_error_without_message",
    "last_cell_line",
    "line_in_cell",
    "owner_of_globals",
    "remember_blank_lines",
    "report_address",
    "theirs",
    "version_warning",
    "versions_in_words",
]
