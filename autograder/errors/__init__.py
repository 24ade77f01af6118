"""Decide whose error an error is, and explain what it usually means.

In: exceptions raised by the learner's code, by JAX, or by the autograder. Out: a short sentence, a
diagnosis, and whose error it is: the learner's (`TheirError`) or ours (`Fault`, which leads to no
score). The tested versions of JAX are here too, because every report of a fault names them. This
package imports no other.
"""

from autograder.errors.blame import (
    Fault,
    ShortError,
    TheirError,
    UsageError,
    address,
    explanation,
    first_line,
    frame_owner,
    theirs,
)
from autograder.errors.cell_lines import line_among, line_in_cell, note_blank_lines, their_error
from autograder.errors.jax_errors import (
    DIAGNOSES,
    SAYS,
    before_jaxs_words,
    meaning_of,
    under_its_name,
    what_it_raised,
    wordless_of_jax,
)
from autograder.errors.jax_versions import TESTED, remark_on_version, versions_in_words

__all__ = [
    "DIAGNOSES",
    "SAYS",
    "TESTED",
    "Fault",
    "ShortError",
    "TheirError",
    "UsageError",
    "address",
    "before_jaxs_words",
    "explanation",
    "first_line",
    "frame_owner",
    "line_among",
    "line_in_cell",
    "meaning_of",
    "note_blank_lines",
    "remark_on_version",
    "their_error",
    "theirs",
    "under_its_name",
    "versions_in_words",
    "what_it_raised",
    "wordless_of_jax",
]
