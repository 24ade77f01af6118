"""The structure of a document: blocks, and the inline content of their lines, as immutable data.

For example:

    Document((
        Heading("A reduction over one axis"),
        Paragraph(("The mesh axis ", Code("x"), " has 4 devices.")),
        Table(("collective", "bytes"), (TableRow(("all-reduce", "2,816")),), align="lr"),
    ))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType

BLUE: Final = "#3d8fc4"
"""The default colour of a bar, visible in light and dark themes."""


@dataclass(frozen=True)
class Code:
    """Code within a line.

    Attributes:
        text: the code.
        quote: what surrounds it in plain text, such as a backtick.
    """

    text: str
    quote: str = ""


@dataclass(frozen=True)
class Small:
    """Less important words; in HTML they are smaller, and on a line of their own."""

    content: "Content"


@dataclass(frozen=True)
class Badge:
    """A white character on a coloured background, which has to be dark enough for white."""

    text: str
    colour: str


@dataclass(frozen=True)
class Link:
    """Words that link to an address; in plain text only the words are shown."""

    text: str
    address: str


@dataclass(frozen=True)
class Bar:
    """A bar that is filled from the left.

    Attributes:
        share: the filled part, from 0 to 1.
        label: describes the bar for readers who cannot see it.
        squares: how many squares the bar has in plain text.
        colour: the colour of the filled part.
    """

    share: float
    label: str
    squares: int = 16
    colour: str = BLUE


Inline = str | Code | Small | Badge | Link | Bar
Content = Inline | tuple[Inline, ...]
"""A line's content. A `str` is shown verbatim: it contains no markup."""


@dataclass(frozen=True)
class Heading:
    """A line in bold."""

    content: Content


@dataclass(frozen=True)
class Paragraph:
    """One or more sentences."""

    content: Content


@dataclass(frozen=True)
class Pairs:
    """Lines that begin with a label, such as `Expected:` and `Got:`."""

    pairs: tuple[tuple[str, Content], ...]


@dataclass(frozen=True)
class TableRow:
    """A row of a table.

    Attributes:
        cells: one for each column.
        below: lines below the row, as wide as the table.
        is_bold: whether the row is in bold, as a row of totals is.
        above: lines above the row, as wide as the table.
    """

    cells: tuple[Content, ...]
    below: tuple[Content, ...] = ()
    is_bold: bool = False
    above: tuple[Content, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        headings: the columns' headings; none if the columns need no headings.
        rows: the rows; at least one if there are no headings.
        align: for each column `l` (left) or `r` (right, for numbers); empty if all are `l`.
    """

    headings: tuple[str, ...]
    rows: tuple[TableRow, ...]
    align: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture, drawn only when a document is rendered.

    Attributes:
        html: draws it as HTML, with a text alternative of its own.
        text: draws it as text; None if plain text leaves it out.
        rich: draws it for a terminal; None if a terminal shows the text.
    """

    html: Callable[[], str]
    text: Callable[[], str] | None = None
    rich: "Callable[[], RenderableType] | None" = None


@dataclass(frozen=True)
class SideBySide:
    """Documents beside each other where the page is wide enough; in text, below each other."""

    documents: tuple["Document", ...]


@dataclass(frozen=True)
class Fold:
    """Details that a reader can unfold; plain text and terminals leave them out.

    Attributes:
        summary: the line that is always visible.
        blocks: the details.
        is_open: whether they are unfolded at first, as they have to be in print.
    """

    summary: Content
    blocks: tuple["Block", ...]
    is_open: bool = False


Block = Heading | Paragraph | Pairs | Table | Figure | SideBySide | Fold


@dataclass(frozen=True)
class Document:
    """Blocks below each other.

    Attributes:
        edge: the colour of a line along the left side in HTML; empty for no line.
    """

    blocks: tuple[Block, ...]
    edge: str = ""


def inline_parts(content: Content) -> tuple[Inline, ...]:
    """Return the parts of a line's content."""
    return content if isinstance(content, tuple) else (content,)


def plain_text(content: Content) -> str:
    """Return a line's content without any markup."""
    return "".join(map(_plain_part, inline_parts(content)))


def _plain_part(part: Inline) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Bar):
        filled = round(part.share * part.squares)
        return "■" * filled + "□" * (part.squares - filled)
    if isinstance(part, Code):
        return f"{part.quote}{part.text}{part.quote}"
    if isinstance(part, Small):
        return plain_text(part.content)
    return part.text
