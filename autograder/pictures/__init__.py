"""Pictures of blocks, collectives, holdings, trade-offs and rooflines: HTML, text and figures.

In: rectangles, labels, groups and numbers, as plain data. Out: HTML for a notebook, text, tables
for a terminal, figures. Nothing here knows JAX, a layout or an exercise: who has something to
draw says what stands where.
"""

from autograder.pictures.bars import bars_as_html
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
from autograder.pictures.held_pieces import CollectivePicture
from autograder.pictures.mesh_groups import DrawnMesh
from autograder.pictures.ring_strips import (
    collective_as_html,
    collective_as_text,
    sent_in_steps,
)
from autograder.pictures.roofline_pictures import Roofline, RooflinePoint
from autograder.pictures.tradeoff_pictures import class_tradeoff_as_html, tradeoff_as_html

__all__ = [
    "CollectivePicture",
    "DrawnMesh",
    "Edge",
    "Picture",
    "Roofline",
    "RooflinePoint",
    "bars_as_html",
    "blocks_as_figure",
    "blocks_as_html",
    "blocks_as_text",
    "blocks_for_terminal",
    "class_tradeoff_as_html",
    "collective_as_html",
    "collective_as_text",
    "display",
    "display_blocks",
    "display_holdings",
    "holdings_as_html",
    "holdings_as_text",
    "holdings_for_terminal",
    "pictures_as_text",
    "sent_in_steps",
    "tradeoff_as_html",
]
