"""Tell whose error an error is, and where it was raised.

In: exceptions raised by the user's code, by JAX, or by this library. Out: whose error it is, its
message in a line, and the user's line that raised it. The tested versions of JAX are here too,
because every report of a fault names them. This package imports no other.
"""

from shardlings.errors.blame import (
    ShortError,
    TheirError,
    UsageError,
    add_own_folder,
    first_line,
    frame_owner,
    frames_of,
    is_installed,
    is_own_file,
    message_of,
    owner_of_globals,
    theirs,
)
from shardlings.errors.cell_lines import (
    describe_error,
    last_cell_line,
    last_line,
    line_in_cell,
    remember_blank_lines,
    unwrap,
)
from shardlings.errors.jax_versions import (
    TESTED_JAX_VERSIONS,
    crash_warning,
    version_warning,
    versions_in_words,
)

__all__ = [
    "TESTED_JAX_VERSIONS",
    "ShortError",
    "TheirError",
    "UsageError",
    "add_own_folder",
    "crash_warning",
    "describe_error",
    "first_line",
    "frame_owner",
    "frames_of",
    "is_installed",
    "is_own_file",
    "last_cell_line",
    "last_line",
    "line_in_cell",
    "message_of",
    "owner_of_globals",
    "remember_blank_lines",
    "theirs",
    "unwrap",
    "version_warning",
    "versions_in_words",
]
