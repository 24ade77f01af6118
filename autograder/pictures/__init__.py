"""Pictures: blocks, flows, holdings and trade-offs, drawn as HTML, as text, and as figures.

In: rectangles, labels, arrows and numbers, as plain data. Out: HTML for a notebook, text, tables
for a terminal, figures. Nothing here knows JAX, a layout or an exercise: who has something to
draw says what stands where.
"""

from autograder.pictures.block_drawings import blocks_as_html
from autograder.pictures.block_figures import blocks_as_figure
from autograder.pictures.block_pictures import Edge, Picture
from autograder.pictures.block_text import blocks_as_text, blocks_for_terminal, pictures_as_text
from autograder.pictures.device_contents import (
    holdings_as_html,
    holdings_as_text,
    holdings_for_terminal,
)
from autograder.pictures.displaying import display, display_blocks, display_holdings
from autograder.pictures.flow_pictures import Flow, bars_as_html, flows_as_html
from autograder.pictures.tradeoff_pictures import tradeoff_as_html

__all__ = [
    "Edge",
    "Flow",
    "Picture",
    "bars_as_html",
    "blocks_as_figure",
    "blocks_as_html",
    "blocks_as_text",
    "blocks_for_terminal",
    "display",
    "display_blocks",
    "display_holdings",
    "flows_as_html",
    "holdings_as_html",
    "holdings_as_text",
    "holdings_for_terminal",
    "pictures_as_text",
    "tradeoff_as_html",
]
