"""Accept or reject the files beside a submitted notebook.

Beside a notebook, only data and Python files are accepted. Formgrader serves these files from its
own address, so an HTML or SVG file there could do whatever the instructor can.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from autograder.instructor.commands import list_some, printable

ACCEPTED_SUFFIXES: Final = frozenset({
    ".bin", ".csv", ".dat", ".gif", ".h5", ".jpeg", ".jpg", ".json", ".npy", ".npz", ".parquet",
    ".pkl", ".png", ".py", ".safetensors", ".toml", ".tsv", ".txt", ".yaml", ".yml",
})  # fmt: skip
"""The endings of files that an exercise may need."""

MAX_NAMED_FILES: Final = 5

EXCHANGE_FILES: Final = ("timestamp.txt", "submission_secret.txt")
"""Files that nbgrader's exchange writes beside a notebook."""


def is_accepted_file(name: Path) -> bool:
    """Check whether a file beside a notebook is accepted.

    Folders with a dot in their name are not, because they may be hidden or have the name of a
    feedback page. Hidden files are not either: no exercise needs them, and whether a glob pattern
    matches them varies.

    Args:
        name: the file's path in the submission's folder.
    """
    if name.name.startswith("."):
        return False
    return name.suffix.lower() in ACCEPTED_SUFFIXES and not any(
        "." in folder for folder in name.parts[:-1]
    )


def describe_rejected_files(names: Sequence[Path]) -> str:
    """Return a sentence that lists rejected files; empty if there are none."""
    if not names:
        return ""
    some = list_some([printable(str(name)) for name in sorted(names)], MAX_NAMED_FILES)
    return (
        f"Not everything beside the notebook was taken: {some} had to be left out. A "
        f"file is taken if its name ends with {', '.join(sorted(ACCEPTED_SUFFIXES))} and does not "
        f"begin with a dot, and if its folders have no dot in their names."
    )
