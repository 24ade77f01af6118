"""Render documents as HTML with a Jinja template, as plain text, and for a terminal with Rich.

HTML has few styles, all inline: nbgrader's feedback pages keep only plain ones. Words have no
colours of their own, so they can be read in light and dark themes.
"""

import functools
import re
import textwrap
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shardlings.documents.document import (
    Block,
    Document,
    Figure,
    Fold,
    Heading,
    Pairs,
    Paragraph,
    SideBySide,
    Table,
    inline_parts,
    plain_text,
)

if TYPE_CHECKING:
    import jinja2
    from rich.console import RenderableType

EXPONENT: Final = re.compile(r"\de-\d")
"""The end of a number such as 1.3e-05."""

MAX_CELL_CHARACTERS: Final = 60
"""Longer text in a table's cell is wrapped, except in the last column."""


def as_html(document: Document) -> str:
    """Render a document as one HTML element; an empty document is empty text."""
    return _template().render(document=document).strip() if document.blocks else ""


def template_environment(folder: Path) -> "jinja2.Environment":
    """Return a Jinja environment that escapes values and loads templates from a folder."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@functools.cache
def _template() -> "jinja2.Template":
    environment = template_environment(Path(__file__).parent)
    environment.filters |= {"kind": _class_name, "parts": inline_parts, "words": _split_words}
    environment.tests["with_exponent"] = EXPONENT.search
    return environment.get_template("document.html.jinja")


def _class_name(part: object) -> str:
    return type(part).__name__


def _split_words(text: str) -> list[str]:
    """Split a text into its words and the white space between them."""
    return re.split(r"(\s+)", text)


def as_text(document: Document) -> str:
    """Render a document as plain text."""
    lines = "\n".join(line for block in document.blocks for line in _lines(block))
    return lines.removeprefix("\n")  # the empty line above a figure that comes first


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Heading() | Paragraph():
            yield plain_text(block.content)
        case Pairs():
            width = max((len(label) for label, _ in block.pairs), default=0) + 1
            for label, content in block.pairs:
                yield f"{label + ':':<{width}} {plain_text(content)}"
        case Table():
            yield from _table_lines(block)
        case Figure():
            if block.text is not None:
                yield from ("", block.text())
        case SideBySide():
            for document in block.documents:
                yield from (as_text(document), "")
        case Fold():
            pass


def _table_lines(table: Table) -> Iterator[str]:
    rows = [_wrapped([*map(plain_text, row.cells)]) for row in table.rows]
    head = [list(table.headings)] if table.headings else []
    lines = [*head, *chain.from_iterable(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    align = [">" if side == "r" else "<" for side in table.align or "l" * len(widths)]

    def joined(cells: list[str]) -> str:
        columns = zip(cells, align, widths, strict=True)
        return "  ".join(f"{cell:{side}{width}}" for cell, side, width in columns).rstrip()

    yield from map(joined, head)
    for row, cells in zip(table.rows, rows, strict=True):
        yield from map(plain_text, row.above)
        yield from map(joined, cells)
        yield from (f"  {plain_text(content)}" for content in row.below)


def _wrapped(cells: list[str]) -> list[list[str]]:
    """Return a row's lines: more than one where text is wrapped."""
    *most, last = cells
    wrapped = [textwrap.wrap(text, MAX_CELL_CHARACTERS) or [""] for text in most]
    last_lines = last.splitlines() or [""]
    return [list(line) for line in zip_longest(*wrapped, last_lines, fillvalue="")]


def as_rich(document: Document) -> "RenderableType":
    """Render a document for a terminal; what is wide is wrapped within its column."""
    from rich.console import Group

    return Group(*(part for block in document.blocks for part in _renderables(block)))


def _renderables(block: Block) -> "Iterator[RenderableType]":
    from rich.table import Table as RichTable
    from rich.text import Text

    match block:
        case Heading():
            yield Text(plain_text(block.content), style="bold")
        case Pairs():
            grid = RichTable.grid(padding=(0, 1))
            for label, content in block.pairs:
                grid.add_row(Text(f"{label}:", style="bold"), Text(plain_text(content)))
            yield grid
        # Rich has no cells that span columns, so a table with lines above or below rows is text.
        case Table() if not any(row.above or row.below for row in block.rows):
            yield _rich_table(block)
        case Figure() if block.rich is not None:
            yield block.rich()
        case SideBySide():
            yield from map(as_rich, block.documents)
        case _:
            yield from map(Text, _lines(block))


def _rich_table(table: Table) -> "RenderableType":
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=None, pad_edge=False, header_style="dim", show_header=bool(table.headings)
    )
    columns = len(table.headings or table.rows[0].cells)
    headings = table.headings or ("",) * columns
    for heading, side in zip(headings, table.align or "l" * columns, strict=True):
        drawn.add_column(Text(heading), justify="right" if side == "r" else "left", overflow="fold")
    for row in table.rows:
        style = "bold" if row.is_bold else ""
        drawn.add_row(*(Text(plain_text(cell), style=style) for cell in row.cells))
    return drawn


class ShownAsDocument:
    """The base of objects that notebooks, terminals and `print` show as a document."""

    def document(self) -> Document:
        """Return what is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The document as text."""
        return as_text(self.document())

    __repr__ = __str__

    def __rich__(self) -> "RenderableType":
        """The document for a terminal."""
        return as_rich(self.document())

    def _repr_html_(self) -> str:
        """The document as HTML."""
        return as_html(self.document())
