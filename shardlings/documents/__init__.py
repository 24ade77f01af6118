"""Documents of headings, sentences, tables and pictures, rendered as HTML, as text and for Rich.

In: an immutable `Document`, made of blocks such as `Paragraph` and `Table`. Out: HTML for notebooks
and feedback pages, plain text, or what Rich prints in a terminal. Nothing here knows JAX, an
exercise or a verdict. Jinja and Rich are imported when a document is first rendered with them.
"""

from shardlings.documents.document import (
    Badge,
    Bar,
    Block,
    Code,
    Content,
    Document,
    Figure,
    Fold,
    Heading,
    Inline,
    Link,
    Pairs,
    Paragraph,
    SideBySide,
    Small,
    Table,
    TableRow,
    plain_text,
)
from shardlings.documents.renderers import (
    ShownAsDocument,
    as_html,
    as_rich,
    as_text,
    template_environment,
)
from shardlings.documents.wording import with_noun

__all__ = [
    "Badge",
    "Bar",
    "Block",
    "Code",
    "Content",
    "Document",
    "Figure",
    "Fold",
    "Heading",
    "Inline",
    "Link",
    "Pairs",
    "Paragraph",
    "ShownAsDocument",
    "SideBySide",
    "Small",
    "Table",
    "TableRow",
    "as_html",
    "as_rich",
    "as_text",
    "plain_text",
    "template_environment",
    "with_noun",
]
