"""Render documents as HTML, by a Jinja template.

Styles are inline, and few: nbgrader's feedback pages keep only plain ones. Words have no colours of
their own, so they can be read in light and dark themes.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.documents.document import Document, inline_parts

if TYPE_CHECKING:
    import jinja2


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
    environment.filters |= {"kind": _kind, "parts": inline_parts}
    return environment.get_template("document.html.jinja")


def _kind(part: object) -> str:
    return type(part).__name__
