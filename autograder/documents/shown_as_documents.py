"""Show an object as the document that it makes of itself."""

from typing import TYPE_CHECKING

from autograder.documents.document import Document
from autograder.documents.html_renderer import as_html
from autograder.documents.text_renderers import as_rich, as_text

if TYPE_CHECKING:
    from rich.console import RenderableType


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
