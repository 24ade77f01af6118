"""Names that strangers chose, of files, folders and students, as they can be written down."""

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
