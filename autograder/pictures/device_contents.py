"""Draw what each device holds: a column for each device, a row for each array.

This knows tables, numbers and colours, and nothing of JAX.
"""

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autograder.pictures.palette import INK, tint

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_WRITTEN_NUMBERS: Final = 16
"""In a block; of a larger one the numbers are left out."""

Row = tuple[str, Mapping[int, np.ndarray[Any, Any]]]
"""A title, and for each device its block."""


def holdings_as_html(rows: Sequence[Row]) -> str:
    """The picture as HTML."""
    devices = _devices(rows)
    head = "".join(
        f'<th style="background-color:{tint(d)};color:{INK};text-align:center">{d}</th>'
        for d in devices
    )
    body = "".join(
        f'<tr><th style="text-align:left">{html.escape(title)}</th>'
        + "".join(
            f'<td style="text-align:center;white-space:pre">{html.escape(_written(blocks, d))}</td>'
            for d in devices
        )
        + "</tr>"
        for title, blocks in rows
    )
    return (
        f"<table><caption>what each device holds</caption><thead><tr><th>device</th>{head}</tr>"
        f"</thead><tbody>{body}</tbody></table>"
    )


def holdings_as_text(rows: Sequence[Row]) -> str:
    """The same in text: a line for each device and array."""
    return "\n".join(
        f"{title}: device {device} holds {_written(blocks, device)}".replace("\n", " / ")
        for title, blocks in rows
        for device in sorted(blocks)
    )


def holdings_for_terminal(rows: Sequence[Row]) -> "RenderableType":
    """The same for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="what each device holds", show_lines=True)
    table.add_column("device")
    for device in _devices(rows):
        table.add_column(Text(str(device), style=f"{INK} on {tint(device)}"), justify="center")
    for title, blocks in rows:
        table.add_row(Text(title), *(Text(_written(blocks, d)) for d in _devices(rows)))
    return table


def _devices(rows: Sequence[Row]) -> list[int]:
    return sorted({device for _, blocks in rows for device in blocks})


def _written(blocks: Mapping[int, np.ndarray[Any, Any]], device: int) -> str:
    """The numbers of a block, a line for each of its rows."""
    if device not in blocks:
        return ""
    block = np.asarray(blocks[device])
    if block.size > MAX_WRITTEN_NUMBERS:
        return f"{block.dtype.name}{list(block.shape)}"
    lines = block.reshape(-1, block.shape[-1]) if block.ndim else block.reshape(1, 1)
    return "\n".join(" ".join(f"{number:.4g}" for number in line) for line in lines)
