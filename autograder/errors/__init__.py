"""Decide whose error an error is, and say what it usually means.

In: exceptions, from the learner's code, from JAX, or from ours. Out: a short sentence, a
diagnosis, and whether it is theirs (`TheirError`) or ours (`Fault`, which leads to no score).
Which versions of JAX were tested stands here too, for that is said of every error of ours.
Nothing below this room.
"""

from autograder.errors.blame import Fault, TheirError, address, explanation, theirs
from autograder.errors.blame import whose as frame_owner
from autograder.errors.cell_lines import line_among, line_in_cell, note_blank_lines, their_error
from autograder.errors.jax_errors import DIAGNOSES, meaning_of, wordless_of_jax
from autograder.errors.jax_versions import TESTED, remark_on_version, versions_in_words
from autograder.errors.messages import (
    ShortError,
    UsageError,
    first_line,
)
from autograder.errors.raised import SAYS, before_jaxs_words, under_its_name, what_it_raised

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
