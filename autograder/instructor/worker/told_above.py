"""A cell above all others of a notebook that says what of it, or beside it, is missing."""

from collections.abc import Sequence
from typing import Any

from nbformat.v4 import new_markdown_cell

from autograder.instructor.course import NAMESPACE


def told_above(sentences: Sequence[str]) -> Any:
    """Such a cell; names in it are text, not markdown."""
    text = "\n\n".join(f"    {sentence}" for sentence in sentences)
    return new_markdown_cell(text, metadata={NAMESPACE: {"told": True}})


def is_told(cell: Any) -> bool:
    """Whether a cell is one that was put above what was handed in."""
    return "told" in cell.metadata.get(NAMESPACE, {})
