"""Words of messages: lists, suggestions, durations, and text of strangers that is safe to print."""

import difflib
import re
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from humanize import precisedelta

CONTROLS: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
"""Control characters, by code, with the Unicode symbols for them."""


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
    return INVISIBLE.sub(lambda match: _visible_character(match[0]), lines)


def printable(text: str) -> str:
    """Make text safe for one line of a terminal: replace invisible characters by symbols.

    A folder's name may contain characters that move the cursor or reverse the line.
    """
    text = escape_surrogates(text)
    if text.isprintable():  # nearly all are, and a class has many
        return text
    return "".join(c if c.isprintable() else _visible_character(c) for c in text)


def describe_no_file(path: Path, shown: str = "") -> str:
    """Say why a path is no regular file: `There is no file a.zip`, or `docs is a folder`.

    Args:
        path: the path.
        shown: the path as it was given; by default, the path itself.
    """
    name = printable(shown or str(path))
    if path.is_dir():
        return f"{name} is a folder"
    return f"{name} is not a regular file" if path.exists() else f"There is no file {name}"


def _visible_character(character: str) -> str:
    return CONTROLS.get(ord(character)) or (" " if character.isspace() else "�")


def list_some(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Join the first names, and say how many more there are.

    For example:

        >>> list_some(["ann", "bob", "cleo"], 2)
        'ann, bob and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def suggest_names(name: str, names: Collection[str], how_near: float = 0.5) -> str:
    """Return a question that suggests similar names; empty if there are none."""
    matches = difflib.get_close_matches(name, names, 3, how_near)
    matches = matches or [other for other in names if name and other.startswith(name)][:3]
    return f" Is it {' or '.join(map(printable, matches))}?" if matches else ""


def describe_duration(seconds: float) -> str:
    """Describe a duration to the minute: `1 day and 31 minutes`."""
    if seconds < 60:
        return "less than a minute"
    whole = timedelta(minutes=seconds // 60)
    return precisedelta(whole, "minutes", suppress=("months", "years"), format="%d")
