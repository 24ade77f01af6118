"""Names that students choose: which files are accepted, and how to print any text safely.

Beside a notebook, only data and Python files are accepted. Formgrader serves these files from its
own address, so an HTML or SVG file there could do whatever the instructor can.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CONTROLS: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
"""Control characters, by code, with the Unicode symbols for them."""


def with_noun(number: float, noun: str) -> str:
    """Return a number with its noun: `1 point`, `2.5 points`."""
    return f"{number:,g} {noun}{'s' * (number != 1)}"


def begin_sentence(clause: str) -> str:
    """Return a clause with a capital at its beginning, unless that is the name of a file."""
    first = clause.partition(" ")[0].rstrip(",.:")
    return clause if set("./_") & set(first) else f"{clause[:1].upper()}{clause[1:]}"


def escape_surrogates(text: str) -> str:
    """Escape what cannot be encoded as UTF-8: names of files may contain lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def show_control_characters(text: str) -> str:
    """Replace control characters by symbols."""
    return escape_surrogates(text).translate(CONTROLS)


INVISIBLE: Final = re.compile(
    "[\0-\b\v-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Control characters, but for tabs and the ends of lines, and marks that change the direction of
text. Joiners, which emoji and some scripts need, are not among them."""


def show_invisible_characters(text: str) -> str:
    """Make text of several lines safe for a page: replace invisible characters by symbols."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return INVISIBLE.sub(lambda found: _visible_character(found[0]), lines)


def printable(text: str) -> str:
    """Make text safe for one line of a terminal: replace invisible characters by symbols.

    A folder's name may contain characters that move the cursor or reverse the line.
    """
    return "".join(c if c.isprintable() else _visible_character(c) for c in escape_surrogates(text))


def _visible_character(character: str) -> str:
    return CONTROLS.get(ord(character)) or (" " if character.isspace() else "�")


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


def list_some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Join the first names, and say how many more there are.

    For example:

        >>> list_some(["ann", "bob", "cleo"], 2)
        'ann, bob and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


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
