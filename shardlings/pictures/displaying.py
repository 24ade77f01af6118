"""Display pictures and figures: as HTML in a notebook, and as coloured text in a terminal."""

import contextvars
import html
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from shardlings.documents import Document, Table, TableRow, as_html, as_rich, as_text
from shardlings.pictures.block_drawings import (
    DeviceBlocks,
    blocks_as_html,
    blocks_for_terminal,
    pictures_as_text,
    values_as_html,
    values_as_text,
    values_for_terminal,
)
from shardlings.pictures.block_pictures import Picture
from shardlings.pictures.figures import shown_figure_as_html

if TYPE_CHECKING:
    from rich.console import RenderableType


def display(page: str, text: str, terminal: "Callable[[], RenderableType]") -> None:
    """Display HTML and text in a notebook, or a rich renderable in a terminal.

    Args:
        page: the HTML.
        text: the same content as text, for readers of the notebook who do not see HTML.
        terminal: returns the same content for a terminal; called only there.
    """
    data = {"text/html": page, "text/plain": text}
    if (waiting := _waiting.get()) is not None and waiting.replace(data):
        return
    if _in_notebook():
        from IPython.display import display as publish

        publish(data, raw=True)
    else:
        from rich.console import Console

        Console().print(terminal())


WAIT_SECONDS: Final = 2.0
"""Time until a notebook shows what it is waiting for."""


@contextmanager
def display_waiting(first: str) -> Iterator[Callable[[str], None]]:
    """Show in a notebook what is waited for, if it takes longer than two seconds.

    The first thing that the block displays replaces it; if it displays nothing, it disappears.

    Args:
        first: what is done first.

    Yields:
        A function that takes what is done next.
    """
    waiting = _Waiting(first)
    token = _waiting.set(waiting)
    timer = threading.Timer(WAIT_SECONDS, contextvars.copy_context().run, (waiting.show,))
    timer.daemon = True
    if _in_notebook():
        timer.start()
    try:
        yield waiting.tell
    finally:
        timer.cancel()
        _waiting.reset(token)
        waiting.replace({"text/plain": ""})


class _Waiting:
    """What a notebook shows while it waits."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._handle: Any = None
        self._is_over, self._lock = False, threading.Lock()

    def tell(self, doing: str) -> None:
        """Change what is shown."""
        with self._lock:
            self._doing = doing
            if self._handle is not None and not self._is_over:
                self._handle.update(self._data(), raw=True)

    def show(self) -> None:
        """Begin to show it."""
        from IPython.display import display as publish

        with self._lock:
            if not self._is_over:
                self._handle = publish(self._data(), raw=True, display_id=True)

    def replace(self, data: dict[str, str]) -> bool:
        """Show something else in its place; return whether it was shown."""
        with self._lock:
            was_shown, self._is_over = self._handle is not None and not self._is_over, True
            if was_shown:
                self._handle.update(data, raw=True)
            return was_shown

    def _data(self) -> dict[str, str]:
        words = f"Checking: {self._doing} …"
        return {"text/html": f"<p>{html.escape(words)}</p>", "text/plain": words}


_waiting: Final[ContextVar[_Waiting | None]] = ContextVar("waiting", default=None)


def display_blocks(pictures: Sequence[Picture]) -> None:
    """Display pictures of blocks, side by side."""
    page, text = blocks_as_html(pictures), pictures_as_text(pictures)
    display(page, text, lambda: blocks_for_terminal(pictures))


def display_values(arrays: Sequence[DeviceBlocks]) -> None:
    """Display a table of the numbers that each device holds."""
    page, text = values_as_html(arrays), values_as_text(arrays)
    display(page, text, lambda: values_for_terminal(arrays))


NUMBER: Final = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?%?")


def display_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Display a table. In a narrow window, JupyterLab breaks the lines of `print` within words.

    Args:
        headings: the columns' headings.
        rows: the rows' cells. A whole number gets commas. A column of numbers is aligned right.
    """
    texts = [[f"{c:,}" if type(c) is int else str(c) for c in row] for row in rows]  # no Booleans
    columns = zip(*texts, strict=True)
    align = "".join("r" if all(map(NUMBER.fullmatch, column)) else "l" for column in columns)
    table = Document((Table(tuple(headings), tuple(TableRow(tuple(t)) for t in texts), align),))
    display(as_html(table), as_text(table), lambda: as_rich(table))


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
