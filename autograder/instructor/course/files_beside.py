"""Which files beside a notebook are taken: data and Python, and nothing that a browser opens.

Formgrader serves what lies beside a graded notebook from its own address. A page or a drawing there
could do whatever the instructor can.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from autograder.instructor.course.names import printable

TAKEN: Final = frozenset({
    ".bin", ".csv", ".dat", ".gif", ".h5", ".jpeg", ".jpg", ".json", ".npy", ".npz", ".parquet",
    ".pkl", ".png", ".py", ".safetensors", ".toml", ".tsv", ".txt", ".yaml", ".yml",
})  # fmt: skip
"""What the names of files end with that an exercise may need."""

NAMED: Final = 5
"""How many files are named that are left out."""

EXCHANGED: Final = ("timestamp.txt", "submission_secret.txt")
"""What nbgrader's exchange writes beside a notebook: no student is to, and it is no answer."""


def is_taken(name: Path) -> bool:
    """Whether a file of this name, from the submission's folder on, is copied.

    A folder with a dot in its name may be hidden, or be called like a page that is still to be
    written. A file whose name begins with one is nothing that an exercise needs, and patterns of
    files take it or leave it.
    """
    if name.name.startswith("."):
        return False
    return name.suffix.lower() in TAKEN and not any("." in folder for folder in name.parts[:-1])


def left_out(names: Sequence[Path]) -> str:
    """What is said of files that are not taken; empty where there are none."""
    if not names:
        return ""
    some = ", ".join(printable(str(name)) for name in sorted(names)[:NAMED])
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return (
        f"Not everything beside the notebook was taken: {some}{more} had to stay away. Files are "
        f"taken whose names end with {', '.join(sorted(TAKEN))}, and do not begin with a dot, in "
        f"folders whose names have no dot."
    )
