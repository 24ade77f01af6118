"""Check names of files, folders and students, which strangers chose, and print them safely.

Only data and Python files beside a notebook are accepted. Formgrader serves such files from its own
address, so an HTML or SVG file there could do whatever the instructor can.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

CONTROLS: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
"""Control characters, and Unicode's pictures of them."""


def readable(text: str) -> str:
    """Text that can be written down: names of files, and parts of notebooks, need not be."""
    return text.encode("utf-8", "backslashreplace").decode()


def without_controls(text: str) -> str:
    """Text that is as it was, but for control characters, which are symbols."""
    return readable(text).translate(CONTROLS)


def printable(text: str) -> str:
    """Text that is safe on one line of a terminal: what cannot be seen there is a symbol instead.

    A folder's name can hold what moves the cursor, or turns the line round.
    """
    return "".join(c if c.isprintable() else _symbol(c) for c in readable(text))


def _symbol(character: str) -> str:
    return CONTROLS.get(ord(character)) or (" " if character.isspace() else "�")


ACCEPTED_SUFFIXES: Final = frozenset({
    ".bin", ".csv", ".dat", ".gif", ".h5", ".jpeg", ".jpg", ".json", ".npy", ".npz", ".parquet",
    ".pkl", ".png", ".py", ".safetensors", ".toml", ".tsv", ".txt", ".yaml", ".yml",
})  # fmt: skip
"""Of files that an exercise may need."""

MAX_NAMED_FILES: Final = 5

EXCHANGE_FILES: Final = ("timestamp.txt", "submission_secret.txt")
"""nbgrader's exchange writes these beside a notebook."""


def is_taken(name: Path) -> bool:
    """Whether a file of this name, from the submission's folder on, is copied.

    A folder with a dot in its name may be hidden, or be called like a page that is still to be
    written. A file whose name begins with one is nothing that an exercise needs, and patterns of
    files take it or leave it.
    """
    if name.name.startswith("."):
        return False
    return name.suffix.lower() in ACCEPTED_SUFFIXES and not any(
        "." in folder for folder in name.parts[:-1]
    )


def left_out(names: Sequence[Path]) -> str:
    """What is said of files that are not taken; empty where there are none."""
    if not names:
        return ""
    some = ", ".join(printable(str(name)) for name in sorted(names)[:MAX_NAMED_FILES])
    more = f" and {len(names) - MAX_NAMED_FILES:,} more" if len(names) > MAX_NAMED_FILES else ""
    return (
        f"Not everything beside the notebook was taken: {some}{more} had to stay away. Files are "
        f"taken whose names end with {', '.join(sorted(ACCEPTED_SUFFIXES))}, and do not begin "
        f"with a dot, in "
        f"folders whose names have no dot."
    )
