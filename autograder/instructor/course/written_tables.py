"""Tables that an instructor writes or exports: CSV files, as spreadsheets and platforms save them.

They are read as a person means them: with a mark of the encoding before them or without, with
commas, semicolons or tabs between columns. What cannot be understood is refused with the line that
it stands in, for a table that is half understood would be a class that is half there.
"""

import csv
import io
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from autograder.instructor.course.class_file import ClassError
from autograder.instructor.course.names import printable

MOST_BYTES: Final = 2**22
"""The most bytes of a table; one of four hundred students has some forty thousand."""

SEPARATORS: Final = ",;\t"
"""What may stand between columns: spreadsheets choose it by the country they are in."""


class WrittenTableError(ClassError):
    """A table cannot be understood; the message says where and what to do about it."""


def read_table(
    path: Path, needed: Collection[str], also_called: Mapping[str, str] | None = None
) -> list[tuple[int, dict[str, str]]]:
    """Read a table whose first line names its columns.

    Args:
        path: of the file.
        needed: the columns that there must be. Names are compared without regard to case, and
            with underscores for blanks.
        also_called: other names of columns, each with the one that is meant.

    Returns:
        Of each row that is not empty the number of its line, and what stands in each column.

    Raises:
        WrittenTableError: it cannot be read, or understood.
    """
    lines = list(io.StringIO(_text(path), newline=""))  # which ends lines at line breaks alone
    first = 1
    if lines and lines[0].lower().startswith("sep="):  # what a spreadsheet is told so
        lines, first = lines[1:], 2
    if not lines or not lines[0].strip():
        raise WrittenTableError(
            f"{path.name} does not begin with the names of its columns. Its first line should have "
            f"{_listed(needed)}."
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
    names = _names(path, [(also_called or {}).get(name, name) for name in _words(columns)], needed)
    for line, row in rows:
        if len(row) > len(names) and any(row[len(names) :]):
            raise WrittenTableError(
                f"{path.name}, line {line}: there are {len(row)} cells, and {len(names)} columns. "
                f"If a name has a {_word(separator)} in it, put it in quotation marks."
            )
    return [(line, dict(zip(names, _filled(row, len(names)), strict=True)))
            for line, row in rows if any(row)]  # fmt: skip


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise WrittenTableError(f"{path.name} cannot be opened: {error.strerror}.") from None
    if len(data) > MOST_BYTES:
        raise WrittenTableError(
            f"{path.name} has more than {MOST_BYTES // 2**20} MB, and is no table of a class."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrittenTableError(
            f"{path.name} is not in UTF-8 (line {line} is the first that is not), so its names "
            f'would come out wrong. Save it again as "CSV UTF-8".'
        ) from None
    if "\0" in text:
        raise WrittenTableError(f"{path.name} is no text. Save it as a CSV, not as a workbook.")
    return unicodedata.normalize("NFC", text)


def _words(columns: Sequence[str]) -> list[str]:
    return ["_".join(column.lower().split()) for column in columns]


def _names(path: Path, columns: Sequence[str], needed: Collection[str]) -> list[str]:
    """The names of columns; those without one at the end are not there."""
    names = list(columns)
    while names and not names[-1]:
        names.pop()
    missing = [name for name in needed if name not in names]
    if missing:
        raise WrittenTableError(
            f"{path.name} has no column {_listed(missing)}. Its first line should name its "
            f"columns, and has: {_listed([printable(name) for name in names])}."
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise WrittenTableError(
            f"{path.name} has several columns called {_listed([printable(n) for n in twice])}. "
            f"Keep one of them."
        )
    return names


def _filled(row: Sequence[str], columns: int) -> list[str]:
    return [*row[:columns], *[""] * (columns - len(row))]


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _word(separator: str) -> str:
    return {",": "comma", ";": "semicolon"}.get(separator, "tab")
