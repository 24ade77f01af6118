"""Display pictures where the reader is: HTML in a notebook, coloured text in a terminal."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autograder.pictures.block_drawings import blocks_as_html
from autograder.pictures.block_pictures import Picture
from autograder.pictures.block_text import blocks_for_terminal, pictures_as_text
from autograder.pictures.device_contents import (
    Row,
    holdings_as_html,
    holdings_as_text,
    holdings_for_terminal,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def display(page: str, text: str, terminal: "Callable[[], RenderableType]") -> None:
    """Show HTML where a notebook is listening, with the same in text; else what rich renders.

    Args:
        page: the HTML.
        text: the same in words, for a notebook that is read without pictures.
        terminal: makes the same for a terminal.
    """
    if _in_notebook():
        from IPython.display import display as publish

        publish({"text/html": page, "text/plain": text}, raw=True)
    else:
        from rich.console import Console

        Console().print(terminal())


def display_blocks(pictures: Sequence[Picture]) -> None:
    """Show pictures of blocks, side by side."""
    page, text = blocks_as_html(pictures), pictures_as_text(pictures)
    display(page, text, lambda: blocks_for_terminal(pictures))


def display_holdings(rows: Sequence[Row]) -> None:
    """Show what each device holds of some arrays."""
    display(holdings_as_html(rows), holdings_as_text(rows), lambda: holdings_for_terminal(rows))


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
