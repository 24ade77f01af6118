"""Display pictures and figures: as HTML in a notebook, and as coloured text in a terminal."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from autograder.pictures.block_drawings import (
    DeviceBlocks,
    blocks_as_html,
    blocks_for_terminal,
    pictures_as_text,
    values_as_html,
    values_as_text,
    values_for_terminal,
)
from autograder.pictures.block_pictures import Picture
from autograder.pictures.figures import shown_figure_as_html

if TYPE_CHECKING:
    from rich.console import RenderableType


def display(page: str, text: str, terminal: "Callable[[], RenderableType]") -> None:
    """Display HTML and text in a notebook, or a rich renderable in a terminal.

    Args:
        page: the HTML.
        text: the same content as text, for readers of the notebook who do not see HTML.
        terminal: returns the same content for a terminal; called only there.
    """
    if _in_notebook():
        from IPython.display import display as publish

        publish({"text/html": page, "text/plain": text}, raw=True)
    else:
        from rich.console import Console

        Console().print(terminal())


def display_blocks(pictures: Sequence[Picture]) -> None:
    """Display pictures of blocks, side by side."""
    page, text = blocks_as_html(pictures), pictures_as_text(pictures)
    display(page, text, lambda: blocks_for_terminal(pictures))


def display_values(arrays: Sequence[DeviceBlocks]) -> None:
    """Display a table of the numbers that each device holds."""
    page, text = values_as_html(arrays), values_as_text(arrays)
    display(page, text, lambda: values_for_terminal(arrays))


def show_figures_in_page_colours() -> None:
    """Have a notebook show every matplotlib figure in the colours of its page, light or dark.

    It shows them as SVG (see `figures.py`); those that are too large for that stay as they are.
    """
    if _in_notebook():
        formatter = _shell().display_formatter.formatters["text/html"]
        # the base class, because matplotlib's inline backend removes what `Figure` itself has
        formatter.for_type_by_name("matplotlib.figure", "FigureBase", shown_figure_as_html)


def _in_notebook() -> bool:
    return hasattr(_shell(), "kernel")


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
