"""Tables that an instructor wrote or a spreadsheet saved: the roster, and those beside it.

They are read as spreadsheets and platforms save them: with or without a byte-order mark, separated
by commas, semicolons or tabs. If a line cannot be understood, the whole file is refused, and the
error names the line: with half of a roster, half of the class would be missing.
"""

import codecs
import csv
import io
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from autograder.instructor.commands import printable
from shardlings.errors import ShortError


class ClassError(ShortError, ValueError):
    """A file about a class cannot be understood; the message says where, and what to do."""


def is_written(path: Path) -> bool:
    """Check whether one of a class's files is there, even if it is a link to nothing.

    Raises:
        OSError: that cannot be known.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


MAX_TABLE_BYTES: Final = 2**22
"""A table of 400 students has about 40,000 bytes."""

SEPARATORS: Final = ",;\t"
"""Separators between columns; a spreadsheet's depends on the country."""


class WrittenTableError(ClassError):
    """A table cannot be understood; the message says where, and what to do."""


def read_table(
    path: Path, needed: Collection[str], also_called: Mapping[str, str] | None = None
) -> list[tuple[int, dict[str, str]]]:
    """Read a table whose first line names its columns.

    Args:
        path: the file.
        needed: the columns that the table must have. Names of columns are compared in lower case,
            with underscores in place of spaces.
        also_called: a dictionary that maps other names of columns to these.

    Returns:
        The line number of each row that is not empty, with its cells by column.

    Raises:
        WrittenTableError: it cannot be read or understood.
    """
    lines = list(io.StringIO(_read_text(path), newline=""))  # splits lines at line breaks only
    first = 1
    if lines and lines[0].lower().startswith("sep="):  # a line for Excel that names the separator
        lines, first = lines[1:], 2
    if not lines or not lines[0].strip():
        raise WrittenTableError(
            f"{path.name} does not begin with the names of its columns. Its first line should have "
            f"{_list_names(needed)}."
        )
    separator = max(SEPARATORS, key=lines[0].count)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        rows = [(reader.line_num + first - 1, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise WrittenTableError(
            f"{path.name} cannot be read from line {reader.line_num + first - 1} on: {error}."
        ) from None
    (_, columns), *rows = rows
    columns = [(also_called or {}).get(name, name) for name in map(read_column_name, columns)]
    names = _check_columns(path, columns, needed)
    for line, row in rows:
        if len(row) > len(names) and any(row[len(names) :]):
            raise WrittenTableError(
                f"{path.name}, line {line}: there are {len(row)} cells, and {len(names)} columns. "
                f"If a name has a {_name_separator(separator)} in it, put it in quotation marks."
            )
    return [(line, dict(zip(names, _pad_row(row, len(names)), strict=True)))
            for line, row in rows if any(row)]  # fmt: skip


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TABLE_BYTES + 1)
    except OSError as error:
        raise WrittenTableError(f"{path.name} cannot be opened: {error.strerror}.") from None
    if len(data) > MAX_TABLE_BYTES:
        raise WrittenTableError(
            f"{path.name} has more than {MAX_TABLE_BYTES // 2**20} MB, too many for the table of "
            f"a class."
        )
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # Excel's Unicode text
    try:
        text = data.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrittenTableError(
            f"{path.name} is not in UTF-8 (line {line} is the first that is not), so its names "
            f'would come out wrong. Save it again as "CSV UTF-8".'
        ) from None
    if "\0" in text:
        raise WrittenTableError(f"{path.name} is no text. Save it as a CSV, not as a workbook.")
    return compose_name(text)


def read_column_name(written: str) -> str:
    """Return a column's name as rows of `read_table` have it: `canvas_id` for `Canvas ID`."""
    return "_".join(compose_name(written).lower().split())


def compose_name(written: str) -> str:
    """Return a name with composed letters, as tables have it: `ü` as one character, not two.

    macOS writes names of folders, and what is typed there, with decomposed letters.
    """
    return unicodedata.normalize("NFC", written)


def _check_columns(path: Path, columns: Sequence[str], needed: Collection[str]) -> list[str]:
    """Check the names of columns, and return them without empty ones at the end."""
    names = list(columns)
    while names and not names[-1]:
        names.pop()
    missing = [name for name in needed if name not in names]
    if missing:
        raise WrittenTableError(
            f"{path.name} has no column {_list_names(missing)}. Its first line should name its "
            f"columns, and has: {_list_names([printable(name) for name in names])}."
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise WrittenTableError(
            f"{path.name} has several columns called {_list_names([printable(n) for n in twice])}. "
            f"Keep one of them."
        )
    return names


def _pad_row(row: Sequence[str], columns: int) -> list[str]:
    return [*row[:columns], *[""] * (columns - len(row))]


def _list_names(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _name_separator(separator: str) -> str:
    return {",": "comma", ";": "semicolon"}.get(separator, "tab")
